"""The rule of regression, night by night. docs/regression.md explains it to an engineer.

It is a window-limited generalised likelihood ratio (Lai 1995): the mean of the newest nights is compared with the
level before, in standard errors of a robust scatter. A binomial test guards it against rare slow nights. All
values are logarithms, turned so that higher is better. A cell is a series.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parity.judge.stats import counts, rule
from parity.judge.stats.bounds import FIRST
from parity.judge.stats.episodes import Episodes, Look, Shift
from parity.judge.stats.nights import Nights, medians
from parity.judge.stats.node_effects import Nodes
from parity.judge.stats.noise import Noise
from parity.judge.stats.rule import Cells, Outcome
from parity.judge.stats.spells import begun
from parity.judge.stats.table import Table, newest

#: Until this night of a cell its noise is learned each night, and then each EVERY nights.
_LEARNED_DAILY = FIRST + 1
#: Nights that a scatter is learned from at least. From so many on it is learned without the newest NIGHTS_BACK.
_FEWEST_LEARNED, _OLD = 8, 12
#: Standard deviations; a night of a cell whose noise is not known counts for so many.
_NO_CLIP = 99.0


def follow(nights: Nights, groups: np.ndarray | None = None, rate: float = rule.RATE,
           events: np.ndarray | None = None, nodes: np.ndarray | None = None, accept_after: int = 0) -> Outcome:
    """Judge every night of every series with what was known on that night.

    ``groups`` [series]: cells of one number share the effects of nodes. ``events`` [nights]: one of rule.EVENTS,
    or ''. ``nodes`` [nights]: the number of the node or nodes that it ran on, -1: not known. ``rate``: new false
    alarms a cell-night. ``accept_after``: an operator accepts what still alarms after so many nights; 0: never."""
    sizes = np.diff(nights.start)
    cell = np.repeat(np.arange(len(sizes)), sizes)
    column = _columns(nights, sizes)
    if groups is None:
        groups = np.arange(len(sizes))
    table = Table(nights, cell, column)
    run = _Follow(table, groups, rate)
    if nodes is not None and len(nodes):
        run.nodes.take(cell, column, nodes)
    if events is not None:
        for night in np.flatnonzero(np.asarray(events) != ''):
            of_column = run.events.setdefault(int(column[night]), [])
            of_column.append((int(cell[night]), str(events[night])))
    run.all(accept_after)
    place = cell, column
    state = table.state[place]
    counts.judge(nights, groups, rate, state)
    return Outcome(
        state=state, reruns=table.wanted[place], lone=table.lone[place], below=table.below[place],
        usual=table.usual[place], deepest=table.deepest[place], cells=run.cells(), column=column)


def _columns(nights: Nights, sizes: np.ndarray) -> np.ndarray:
    """Return the column of each night: nights of one time share one. ``sizes``: nights of each series."""
    times, column = np.unique(nights.when, return_inverse=True)
    if len(times) * len(sizes) <= 8 * len(column) + 100_000:
        return column
    first = np.repeat(nights.start[:-1], sizes)         # the series have quite different times
    return np.arange(len(column)) - first


@dataclass
class _Statistics:
    """Tonight of some cells, a row each. ``z``: the mean of the newest nights less the base, in standard errors of
    independent nights. ``far``: the same, with the dependence of the nights."""

    ready: np.ndarray        # bool: enough nights to be judged
    base: np.ndarray
    base_nights: np.ndarray
    residual: np.ndarray     # of tonight, as far as a night is from a known level
    off: np.ndarray          # [cells, nights]: the newest nights less the base, tonight last
    z: np.ndarray            # [cells, lengths], NaN: too few nights
    far: np.ndarray          # [cells, lengths]

    def shift(self, i: int, side: int, bar: float) -> Shift | None:
        """Return the largest shift of row ``i`` on a side of the base (-1: below) that is beyond the bar."""
        far = side * self.far[i]
        if not self.ready[i] or not np.isfinite(far).any():
            return None
        longest = int(np.nanargmax(far))
        if far[longest] <= bar:
            return None
        return Shift(int(rule.LENGTHS[longest]), float(far[longest]))


class _Follow:
    """The cells of a table, judged column by column."""

    def __init__(self, table: Table, groups: np.ndarray, rate: float):
        self.table = table
        self.group = np.unique(groups, return_inverse=True)[1]
        self.noise = Noise(len(self.group), rate)
        self.nodes = Nodes(self.group, table.x.shape)
        self.episodes = Episodes(table, self.noise, self.nodes)
        self.events: dict[int, list[tuple[int, str]]] = {}      # by column: cell and word

    def all(self, accept_after: int) -> None:
        measured = np.isfinite(self.table.runs)
        for t in np.flatnonzero(measured.any(axis=0)).tolist():
            for c, word in self.events.get(t, ()):
                self.episodes.event(c, word, t)
            if accept_after:
                self._accept(measured, t, accept_after)
            cells = np.flatnonzero(measured[:, t])
            self._night(cells, t)

    def _accept(self, measured: np.ndarray, t: int, after: int) -> None:
        """Accept the slowdowns that have alarmed for so many nights. ``measured`` [cells, columns]."""
        for c, episode in self.episodes.slow.items():
            alarmed = measured[c, episode.detected:t].sum()
            if measured[c, t] and alarmed >= after:
                self.episodes.event(c, 'accepted', t)

    def _night(self, cells: np.ndarray, t: int) -> None:
        """Judge a night of the cells that have one."""
        table = self.table
        table.age[cells] += 1
        self._learn(cells, t)
        table.x[cells, t] = table.runs[cells, t] - self.nodes.effects(cells, t)
        look = self._statistics(cells, t)
        table.append(cells, t, table.x[cells, t], look.residual)
        table.below[cells, t] = np.where(look.ready, -look.off[:, -1], 0)
        state = np.where(look.ready, rule.QUIET, rule.TOO_FEW).astype(np.int8)
        self._decide(cells, t, look, state)
        is_slow = self._among(self.episodes.slow)[cells]
        table.normal[cells, t] = ~is_slow
        for c in list(self.episodes.comes):
            if np.isfinite(table.runs[c, t]):
                state[np.searchsorted(cells, c)] = self.episodes.coming(c, t)
        table.state[cells, t] = state
        self._note_lone(cells, t, look)
        self._note_deepest(cells, t)
        has_noise = np.isfinite(self.noise.scale[cells])
        has_base = look.base_nights >= rule.AFTER
        quiet = has_noise & has_base & ~np.isin(state, rule.LOW_NIGHTS)
        self.noise.note(cells[quiet], look.z[quiet])

    # ---- what is learned

    def _learn(self, cells: np.ndarray, t: int) -> None:
        """Learn the noise of the cells that are due, and the effects of their nodes."""
        table = self.table
        age = table.age[cells]
        is_turn = (age % rule.EVERY == 0) | (age <= _LEARNED_DAILY)
        due = cells[is_turn & (age > _FEWEST_LEARNED)]
        if not len(due):
            return
        self._first_residuals(due)
        end = table.end[due]
        end = np.where(end >= _OLD, end - rule.NIGHTS_BACK, end)
        residuals = newest(table.residual, due, np.zeros_like(end), end, rule.MEMORY)
        self.noise.learn(due, residuals)
        if self.nodes.several:
            self._learn_nodes(due, t)

    def _first_residuals(self, cells: np.ndarray) -> None:
        """Give the first nights of a level residuals: they had no base yet."""
        table, many = self.table, int(rule.LENGTHS[-1])
        begin = table.begin[cells]
        is_long = table.end[cells] - begin >= many
        has_none = np.isnan(table.residual[cells, begin])
        fresh = cells[is_long & has_none]
        if not len(fresh):
            return
        row, place = fresh[:, None], table.begin[fresh][:, None] + np.arange(many)
        level, residual = table.level[row, place], table.residual[row, place]
        off = level - np.median(level, axis=1)[:, None]
        of_median = np.fmin(0.5, self.noise.v[fresh, -1] / many)        # the share of the variance that it took
        off /= np.sqrt(1 - of_median)[:, None]
        table.residual[row, place] = np.where(np.isnan(residual), off, residual)

    def _learn_nodes(self, cells: np.ndarray, t: int) -> None:
        """Learn which nodes are slower, or faster, than the others, from the newest nights of the groups of cells.

        A cell that was on one node only says nothing."""
        table = self.table
        due = np.isin(self.group, self.group[cells])
        has_level = table.end > table.begin
        is_slow = self._among(self.episodes.slow)
        mine = np.flatnonzero(due & has_level & ~is_slow)
        by_group = np.argsort(self.group[mine], kind='stable')
        mine = mine[by_group]
        nights = slice(max(0, t - 2 * rule.LEVEL), t)
        begin = table.at[mine, table.begin[mine]]
        of_level = np.arange(nights.start, t) >= begin[:, None]
        is_normal = of_level & table.normal[mine, nights]
        x = np.where(is_normal, table.x[mine, nights], np.nan)
        for g, moved in self.nodes.learn(mine, nights, x):
            for c in np.flatnonzero(self.group == g):
                self._take_out(c, moved)

    def _take_out(self, c: int, moved: np.ndarray) -> None:
        """Take the change of the nodes' effects [nodes] out of the nights of a cell."""
        table = self.table
        begin, end = table.begin[c], table.end[c]
        by_column = moved[self.nodes.number[c]]
        by_place = by_column[table.at[c, :end]]
        table.x[c] -= by_column
        table.level[c, :end] -= by_place
        table.residual[c, begin:end] -= by_place[begin:]

    # ---- the statistic

    def _statistics(self, cells: np.ndarray, t: int) -> _Statistics:
        """Return what tonight says. A low night that was run again is judged with its reruns."""
        table = self.table
        scale = self.noise.scale[cells]
        base, nights, gap = table.base(cells)
        some = np.fmax(nights, 1)
        has_base = nights >= rule.AFTER
        ready = has_base & (table.age[cells] > FIRST) & np.isfinite(scale)
        error = scale * np.sqrt(1 + rule.BASE / some)
        self._rerun(cells, t, base, error, ready)       # puts reruns into x
        tonight = table.x[cells, t] - base
        before = newest(table.level, cells, table.begin[cells], table.end[cells], int(rule.LENGTHS[-1]) - 1)
        before_off = np.nan_to_num(before - base[:, None])
        off = np.column_stack((before_off, tonight))
        of_base = rule.BASE * rule.LENGTHS / some[:, None]      # variance of the base over that of the mean
        dependence = self._dependence(cells, of_base)
        clip = self._clip(cells, dependence[:, :1], of_base[:, :1])
        clipped = np.clip(off / scale[:, None], -clip, clip)
        newest_first = clipped[:, ::-1]
        sums = np.cumsum(newest_first, axis=1)[:, rule.LENGTHS - 1]
        error_of_sum = np.sqrt(rule.LENGTHS * (1 + of_base))
        z = np.where(self._fits(cells, nights, gap), sums / error_of_sum, np.nan)
        of_median = np.sqrt(1 + rule.MEDIAN / some)
        residual = np.where(has_base, tonight / of_median, np.nan)
        return _Statistics(ready, base, nights, residual, off, z, z / np.sqrt(dependence))

    def _fits(self, cells: np.ndarray, base_nights: np.ndarray, gap: np.ndarray) -> np.ndarray:
        """Return whether a mean is of tonight's level, and short beside the base, [cells, lengths]."""
        table = self.table
        of_level = table.end[cells] - table.begin[cells] + 1
        is_of_level = rule.LENGTHS <= of_level[:, None]
        in_base = rule.LENGTHS - 1 - gap[:, None]
        most = base_nights / 5
        is_short = in_base <= most[:, None]
        return is_of_level & is_short

    def _dependence(self, cells: np.ndarray, of_base: np.ndarray) -> np.ndarray:
        """Return V of a mean less its base, [cells, lengths]: the base is as dependent as the longest mean."""
        v = self.noise.v[cells]
        return (v + of_base * v[:, -1:]) / (1 + of_base)

    def _clip(self, cells: np.ndarray, dependence: np.ndarray, of_base: np.ndarray) -> np.ndarray:
        """Return how many standard deviations a night counts for at most, [cells, 1]: it never alarms alone."""
        bar = self.noise.bar[cells][:, None]
        error = np.sqrt(dependence * (1 + of_base))
        clip = rule.CLIP * bar * error
        return np.where(np.isfinite(bar), clip, _NO_CLIP)

    def _rerun(self, cells: np.ndarray, t: int, base: np.ndarray, error: np.ndarray, ready: np.ndarray) -> None:
        """Want low nights run again; where they were, judge them with their reruns."""
        table = self.table
        surprise = (table.x[cells, t] - base) / error
        low = ready & (surprise < rule.LOW)
        low[low] = self._is_among_the_lowest(cells[low], t, surprise[low])
        again = table.again[cells, t]
        has_reruns = np.isfinite(again)
        table.surprise[cells, t] = np.where(ready, surprise, np.nan)
        table.wanted[cells, t] = low
        table.low[cells] = low & ~has_reruns
        rerun = low & has_reruns
        effects = self.nodes.effects(cells[rerun], t)
        table.x[cells[rerun], t] = again[rerun] - effects

    def _is_among_the_lowest(self, cells: np.ndarray, t: int, surprise: np.ndarray) -> np.ndarray:
        """Return whether tonight is among the few lowest of the newest nights of each cell."""
        first = max(0, t - rule.LEVEL)
        before = self.table.surprise[cells, first:t]
        lower = np.count_nonzero(before < surprise[:, None], axis=1)
        judged = np.count_nonzero(np.isfinite(before), axis=1)
        return lower <= rule.RERUN * judged

    # ---- what changed

    def _decide(self, cells: np.ndarray, t: int, look: _Statistics, state: np.ndarray) -> None:
        """Look closer at the cells that something may have happened to; set the ``state`` of their night."""
        table, bar = self.table, self.noise.bar[cells]
        lasting = self.episodes.lasting
        farthest = np.fmax.reduce(np.abs(look.far), axis=1)
        is_settled = t - table.changed[cells] >= rule.STEPS
        event = table.pending[cells] & is_settled
        highest = look.off[:, -rule.NIGHTS_BACK:].max(axis=1)       # of the newest nights
        spell = highest < -self.noise.spell(cells)
        may_begin = (farthest > bar) | event | spell
        may_end = self._among(lasting)[cells]
        for i in np.flatnonzero(look.ready & may_begin | may_end):
            c, base = int(cells[i]), float(look.base[i])
            fall = look.shift(i, -1, bar[i])
            rise = look.shift(i, 1, bar[i])
            may_recur = look.ready[i] and spell[i] and c not in lasting
            if not fall and may_recur and self.episodes.recurs(c, t, base):
                fall = Shift(int(rule.LENGTHS[0]), float(-look.far[i, 0]))
            state[i] = self.episodes.night(c, t, Look(base, fall, rise), int(state[i]))

    def _among(self, cells: dict) -> np.ndarray:
        """Return for each cell whether it is one of these (numpy's isin is slow on few)."""
        among = np.zeros(len(self.group), dtype=bool)
        among[[*cells]] = True
        return among

    # ---- what is noted of a night

    def _note_lone(self, cells: np.ndarray, t: int, look: _Statistics) -> None:
        """Note how low a night is on which nothing was found, where chance explains it as rarely as an alarm.

        Where it was not run again, no like cell may have had a night as low lately. Like cells may have such
        nights so often that two mean nothing."""
        table, noise = self.table, self.noise
        scale = noise.scale[cells]
        below = -look.off[:, -1]
        error = scale * np.sqrt(1 + rule.BASE / np.fmax(look.base_nights, 1))
        is_clear = below > noise.bar[cells] * error
        is_quiet = table.state[cells, t] == rule.QUIET
        low = np.flatnonzero(is_quiet & is_clear)
        group = self.group[cells[low]]
        for g in np.unique(group):
            like = np.flatnonzero(self.group == g)
            here = low[group == g]
            c = cells[here]
            was_rerun = np.isfinite(table.again[c, t])
            is_lowest = below[here] > self._lowest(like, t) * scale[here]
            table.lone[c, t] = np.where(was_rerun | is_lowest, below[here], 0)
            two_by_chance = rule.GOOD_NIGHTS * self._lone_share(like, t) ** 2
            table.usual[c, t] = two_by_chance > noise.rate

    def _lowest(self, like: np.ndarray, t: int) -> float:
        """Return how many standard deviations below its level the lowest night of the cells was lately."""
        begin = max(0, t - rule.LEVEL)
        state = self.table.state[like, begin:t]
        surprise = self.table.surprise[like, begin:t]
        not_slow = np.where(state != rule.SLOW, surprise, np.nan)
        return -float(np.nanmin(not_slow, initial=0))

    def _lone_share(self, like: np.ndarray, t: int) -> float:
        """Return the share of lone low nights among those of the cells, without the newest GOOD_NIGHTS."""
        end = max(0, t - rule.GOOD_NIGHTS)
        begin = max(0, end - rule.LEVEL)
        is_lone = self.table.lone[like, begin:end] > 0
        is_measured = np.isfinite(self.table.runs[like, begin:end])
        return float(is_lone.sum() / max(is_measured.sum(), 1))

    def _note_deepest(self, cells: np.ndarray, t: int) -> None:
        """Note how far the level of the newest nights of a slowdown was below the one before, at most."""
        table = self.table
        for c, episode in self.episodes.slow.items():
            if np.isnan(table.x[c, t]):
                continue
            end = table.end[c]
            first = max(table.begin[c], end - rule.STEPS)
            level = float(np.median(table.level[c, first:end]))
            episode.deepest = max(episode.deepest, episode.base - level)
            table.deepest[c, t] = episode.deepest

    # ---- what is known in the end

    def cells(self) -> Cells:
        """Return what is known of each cell after its last night. The level of a slow cell is the one before."""
        table, noise, row = self.table, self.noise, np.arange(len(self.group))
        begin, end = table.begin.copy(), table.end.copy()
        since, began = table.since.copy(), [*table.began]
        for c, episode in self.episodes.slow.items():
            begin[c], end[c] = episode.before, episode.place
            began[c], since[c] = episode.began
        nights = end - begin
        base = medians(newest(table.level, row, begin, end, rule.LEVEL))
        visible = noise.visible(np.clip(nights, 1, rule.LEVEL))
        measured = np.isfinite(table.x)
        last = table.x.shape[1] - 1 - measured[:, ::-1].argmax(axis=1)
        value = table.x[row, last]
        last_good, first_slow = self._begun(base, begin, value)
        has_node = self.nodes.several & measured.any(axis=1)
        effect = np.where(has_node, self.nodes.effects(row, last), np.nan)
        now, error = self._level_now()
        return Cells(
            base=base, nights=nights, scale=noise.scale, bar=noise.bar,
            visible=np.where(table.age < FIRST, np.nan, visible), low=table.low, node=effect, value=value,
            began=began, since=since, changed=table.changed, change=table.change, now=now,
            begin=table.at[row, table.begin], error=error, last_good=last_good, first_slow=first_slow,
            lasting=self.episodes.lasting, comes=self.episodes.comes)

    def _begun(self, base: np.ndarray, begin: np.ndarray, tonight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns between which a slowdown began, of the cells that are low tonight; -1: not known.

        ``base``: the level before it, whose nights are from place ``begin`` on."""
        table, noise = self.table, self.noise
        last_good, first_slow = np.full((2, len(base)), -1)
        low = np.flatnonzero(tonight < base)
        first, end = begin[low], table.end[low]
        x = newest(table.level, low, first, end, rule.LEVEL)
        column = newest(table.at, low, first, end, rule.LEVEL)
        scale = noise.scale[low] * np.sqrt(noise.v[low, -1])
        last_good[low], first_slow[low] = begun(x - base[low, None], column, scale)
        return last_good, first_slow

    def _level_now(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the level of the newest STEPS nights since the last change, and its standard error."""
        table, noise, row = self.table, self.noise, np.arange(len(self.group))
        nights = np.clip(table.end - table.begin, 1, rule.STEPS)
        length = np.searchsorted(rule.LENGTHS, nights)
        length = np.fmin(length, len(rule.LENGTHS) - 1)
        dependence = noise.v[row, length]
        error = noise.scale * np.sqrt(rule.MEDIAN * dependence / nights)
        level = newest(table.level, row, table.begin, table.end, rule.STEPS)
        return medians(level), error
