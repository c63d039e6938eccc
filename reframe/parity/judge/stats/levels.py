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
#: Nights that a scatter is learned from at least.
_FEWEST_LEARNED = 8
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
    times, column = np.unique(nights.when, return_inverse=True)
    if len(times) * len(sizes) > 8 * len(cell) + 100_000:      # series of quite different times
        column = np.arange(len(cell)) - np.repeat(nights.start[:-1], sizes)
    groups = np.arange(len(sizes)) if groups is None else groups
    run = _Follow(Table.of(nights, cell, column), groups, rate)
    if nodes is not None and len(nodes):
        run.nodes.take(cell, column, nodes)
    if events is not None:
        for i in np.flatnonzero(np.asarray(events) != ''):
            run.events.setdefault(int(column[i]), []).append((int(cell[i]), str(events[i])))
    run.all(accept_after)
    table, state = run.table, run.table.state[cell, column]
    counts.judge(nights, groups, rate, state)
    return Outcome(
        state=state, reruns=table.wanted[cell, column], lone=table.lone[cell, column],
        usual=table.usual[cell, column], deepest=table.deepest[cell, column], cells=run.cells(), column=column)


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
        k = int(np.nanargmax(far))
        return Shift(int(rule.LENGTHS[k]), float(far[k])) if far[k] > bar else None


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
            for c, episode in self.episodes.slow.items() if accept_after else ():
                if measured[c, t] and measured[c, episode.detected:t].sum() >= accept_after:
                    self.episodes.event(c, 'accepted', t)
            self._night(np.flatnonzero(measured[:, t]), t)

    def _night(self, cells: np.ndarray, t: int) -> None:
        """Judge a night of the cells that have one."""
        table = self.table
        table.age[cells] += 1
        self._learn(cells, t)
        table.x[cells, t] = table.runs[cells, t] - self.nodes.effects(cells, t)
        look = self._statistics(cells, t)
        table.append(cells, t, table.x[cells, t], look.residual)
        state = np.where(look.ready, rule.QUIET, rule.TOO_FEW).astype(np.int8)
        self._decide(cells, t, look, state)
        table.normal[cells, t] = ~self._among(self.episodes.slow)[cells]
        for c in self.episodes.comes.keys() & set(cells.tolist()):
            state[cells == c] = self.episodes.coming(c, t)
        table.state[cells, t] = state
        self._note_lone(cells, t, look)
        self._note_deepest(cells, t)
        known = np.isfinite(self.noise.scale[cells]) & (look.base_nights >= rule.AFTER)
        quiet = known & (state != rule.SLOW) & (state != rule.COMES)
        self.noise.note(cells[quiet], look.z[quiet])

    # ---- what is learned

    def _learn(self, cells: np.ndarray, t: int) -> None:
        """Learn the noise of the cells that are due, and the effects of their nodes."""
        table, age = self.table, self.table.age[cells]
        due = cells[(age > _FEWEST_LEARNED) & ((age % rule.EVERY == 0) | (age <= _LEARNED_DAILY))]
        if not len(due):
            return
        self._first_residuals(due)
        end = table.end[due] - rule.NIGHTS_BACK * (table.end[due] >= 12)
        self.noise.learn(due, newest(table.residual, due, np.zeros_like(end), end, rule.MEMORY))
        if self.nodes.several:
            self._learn_nodes(due, t)

    def _first_residuals(self, cells: np.ndarray) -> None:
        """Give the first nights of a level residuals: they had no base yet."""
        table, many = self.table, int(rule.LENGTHS[-1])
        begin = table.begin[cells]
        fresh = cells[(table.end[cells] - begin >= many) & np.isnan(table.residual[cells, begin])]
        if not len(fresh):
            return
        place = fresh[:, None], table.begin[fresh][:, None] + np.arange(many)
        off = table.level[place] - np.median(table.level[place], axis=1)[:, None]
        off /= np.sqrt(1 - np.fmin(0.5, self.noise.v[fresh, -1] / many))[:, None]
        table.residual[place] = np.where(np.isnan(table.residual[place]), off, table.residual[place])

    def _learn_nodes(self, cells: np.ndarray, t: int) -> None:
        """Learn which nodes are slower, or faster, than the others, from the newest nights of the groups of cells.

        A cell that was on one node only says nothing."""
        table = self.table
        due = np.isin(self.group, self.group[cells])
        mine = np.flatnonzero(due & (table.end > table.begin) & ~self._among(self.episodes.slow))
        mine = mine[np.argsort(self.group[mine], kind='stable')]
        nights = slice(max(0, t - 2 * rule.LEVEL), t)
        of_level = np.arange(nights.start, t) >= table.at[mine, table.begin[mine]][:, None]
        x = np.where(of_level & table.normal[mine, nights], table.x[mine, nights], np.nan)
        for g, moved in self.nodes.learn(mine, nights, x):
            for c in np.flatnonzero(self.group == g):
                self._take_out(c, moved)

    def _take_out(self, c: int, moved: np.ndarray) -> None:
        """Take the change of the nodes' effects [nodes] out of the nights of a cell."""
        table, number = self.table, self.nodes.number[c]
        begin, end = table.begin[c], table.end[c]
        by_place = moved[number[table.at[c, :end]]]
        table.level[c, :end] -= by_place
        table.residual[c, begin:end] -= by_place[begin:]
        table.x[c] -= moved[number]

    # ---- the statistic

    def _statistics(self, cells: np.ndarray, t: int) -> _Statistics:
        """Return what tonight says. A low night that was run again is judged with its reruns."""
        table, noise = self.table, self.noise
        scale = noise.scale[cells]
        base, nights, gap = table.base(cells)
        some = np.fmax(nights, 1)
        ready = (table.age[cells] > FIRST) & (nights >= rule.AFTER) & np.isfinite(scale)
        self._rerun(cells, t, base, scale * np.sqrt(1 + rule.BASE / some), ready)
        tonight = table.x[cells, t] - base
        before = newest(table.level, cells, table.begin[cells], table.end[cells], int(rule.LENGTHS[-1]) - 1)
        off = np.column_stack((np.nan_to_num(before - base[:, None]), tonight))
        of_base = rule.BASE * rule.LENGTHS / some[:, None]      # variance of the base over that of the mean
        dependence = self._dependence(cells, of_base)
        clip = self._clip(cells, dependence[:, :1], of_base[:, :1])
        clipped = np.clip(off / scale[:, None], -clip, clip)
        sums = np.cumsum(clipped[:, ::-1], axis=1)[:, rule.LENGTHS - 1]
        of_level = (table.end - table.begin)[cells][:, None]
        in_level = rule.LENGTHS <= of_level + 1
        short = rule.LENGTHS - 1 - gap[:, None] <= nights[:, None] / 5      # beside the base
        z = np.where(in_level & short, sums / np.sqrt(rule.LENGTHS * (1 + of_base)), np.nan)
        residual = tonight / np.sqrt(1 + rule.MEDIAN / some)
        residual = np.where(nights >= rule.AFTER, residual, np.nan)
        return _Statistics(ready, base, nights, residual, off, z, z / np.sqrt(dependence))

    def _dependence(self, cells: np.ndarray, of_base: np.ndarray) -> np.ndarray:
        """Return V of a mean less its base, [cells, lengths]: the base is as dependent as the longest mean."""
        v = self.noise.v[cells]
        return (v + of_base * v[:, -1:]) / (1 + of_base)

    def _clip(self, cells: np.ndarray, dependence: np.ndarray, of_base: np.ndarray) -> np.ndarray:
        """Return how many standard deviations a night counts for at most, [cells, 1]: it never alarms alone."""
        bar = self.noise.bar[cells][:, None]
        clip = rule.CLIP * bar * np.sqrt(dependence * (1 + of_base))
        return np.where(np.isfinite(bar), clip, _NO_CLIP)

    def _rerun(self, cells: np.ndarray, t: int, base: np.ndarray, error: np.ndarray, ready: np.ndarray) -> None:
        """Want low nights run again; where they were, judge them with their reruns."""
        table = self.table
        surprise = (table.x[cells, t] - base) / error
        before = table.surprise[cells, max(0, t - rule.LEVEL):t]
        lower = (before < surprise[:, None]).sum(axis=1)
        is_rare = lower <= rule.RERUN * np.isfinite(before).sum(axis=1)
        low = ready & (surprise < rule.LOW) & is_rare
        again = table.again[cells, t]
        table.surprise[cells, t] = np.where(ready, surprise, np.nan)
        table.wanted[cells, t] = low
        table.low[cells] = low & np.isnan(again)
        rerun = low & np.isfinite(again)
        table.x[cells[rerun], t] = again[rerun] - self.nodes.effects(cells[rerun], t)

    # ---- what changed

    def _decide(self, cells: np.ndarray, t: int, look: _Statistics, state: np.ndarray) -> None:
        """Look closer at the cells that something may have happened to; set the ``state`` of their night."""
        table, bar = self.table, self.noise.bar[cells]
        lasting = self.episodes.lasting
        beyond = np.fmax.reduce(np.abs(look.far), axis=1) > bar
        event = table.pending[cells] & (t - table.changed[cells] >= rule.STEPS)
        highest = look.off[:, -rule.NIGHTS_BACK:].max(axis=1)       # of the newest nights
        spell = highest < -self.noise.spell(cells)
        closer = look.ready & (beyond | event | spell) | self._among(lasting)[cells]
        for i in np.flatnonzero(closer):
            c, base = int(cells[i]), float(look.base[i])
            fall = look.shift(i, -1, bar[i])
            may_recur = look.ready[i] and spell[i] and c not in lasting
            if not fall and may_recur and self.episodes.recurs(c, t, base):
                fall = Shift(int(rule.LENGTHS[0]), float(-look.far[i, 0]))
            seen = Look(base, fall, look.shift(i, 1, bar[i]))
            state[i] = self.episodes.night(c, t, seen, int(state[i]))

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
        scale, below = noise.scale[cells], -look.off[:, -1]
        clear = noise.bar[cells] * scale * np.sqrt(1 + rule.BASE / np.fmax(look.base_nights, 1))
        for i in np.flatnonzero((table.state[cells, t] == rule.QUIET) & (below > clear)):
            c = cells[i]
            like = np.flatnonzero(self.group == self.group[c])
            if np.isfinite(table.again[c, t]) or below[i] > self._lowest(like, t) * scale[i]:
                table.lone[c, t] = below[i]
            table.usual[c, t] = rule.GOOD_NIGHTS * self._lone_share(like, t) ** 2 > noise.rate

    def _lowest(self, like: np.ndarray, t: int) -> float:
        """Return how many standard deviations below its level the lowest night of the cells was lately."""
        lately = slice(max(0, t - rule.LEVEL), t)
        quiet = self.table.state[like, lately] != rule.SLOW
        surprise = np.where(quiet, self.table.surprise[like, lately], np.nan)
        return -float(np.nanmin(surprise, initial=0))

    def _lone_share(self, like: np.ndarray, t: int) -> float:
        """Return the share of lone low nights among those of the cells, without the newest GOOD_NIGHTS."""
        nights = slice(max(0, t - rule.LEVEL - rule.GOOD_NIGHTS), max(0, t - rule.GOOD_NIGHTS))
        lone = (self.table.lone[like, nights] > 0).sum()
        measured = np.isfinite(self.table.runs[like, nights]).sum()
        return float(lone / max(measured, 1))

    def _note_deepest(self, cells: np.ndarray, t: int) -> None:
        """Note how far the level of the newest nights of a slowdown was below the one before, at most."""
        table = self.table
        for c, episode in self.episodes.slow.items():
            if np.isfinite(table.x[c, t]):
                first = max(table.begin[c], table.end[c] - rule.STEPS)
                level = float(np.median(table.level[c, first:table.end[c]]))
                episode.deepest = max(episode.deepest, episode.base - level)
                table.deepest[c, t] = episode.deepest

    # ---- what is known in the end

    def cells(self) -> Cells:
        """Return what is known of each cell after its last night. The level of a slow cell is the one before."""
        table, noise, row = self.table, self.noise, np.arange(len(self.group))
        begin, end, since, began = table.begin.copy(), table.end.copy(), table.since.copy(), [*table.began]
        for c, episode in self.episodes.slow.items():
            begin[c], end[c], (began[c], since[c]) = episode.before, episode.place, episode.began
        nights = end - begin
        of_base = np.clip(nights, 1, rule.LEVEL)
        base = medians(newest(table.level, row, begin, end, rule.LEVEL))
        measured = np.isfinite(table.x)
        last = table.x.shape[1] - 1 - measured[:, ::-1].argmax(axis=1)
        last_good, first_slow = self._begun(base, begin, table.x[row, last])
        effect = np.where(measured.any(axis=1) & self.nodes.several, self.nodes.effects(row, last), np.nan)
        now, error = self._level_now()
        return Cells(
            base=base, nights=nights, scale=noise.scale, bar=noise.bar,
            visible=np.where(table.age < FIRST, np.nan, noise.visible(of_base)), low=table.low, node=effect,
            value=table.x[row, last], began=began, since=since, changed=table.changed, change=table.change,
            now=now, begin=table.at[row, table.begin], error=error, last_good=last_good, first_slow=first_slow,
            lasting=self.episodes.lasting, comes=self.episodes.comes)

    def _begun(self, base: np.ndarray, begin: np.ndarray, tonight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns between which a slowdown began, of the cells that are low tonight; -1: not known.

        ``base``: the level before it, whose nights are from place ``begin`` on."""
        table, noise = self.table, self.noise
        last_good, first_slow = np.full((2, len(base)), -1)
        low = np.flatnonzero(tonight < base)
        x, at = (newest(of, low, begin[low], table.end[low], rule.LEVEL) for of in (table.level, table.at))
        scale = noise.scale[low] * np.sqrt(noise.v[low, -1])
        last_good[low], first_slow[low] = begun(x - base[low, None], at, scale)
        return last_good, first_slow

    def _level_now(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the level of the newest STEPS nights since the last change, and its standard error."""
        table, noise, row = self.table, self.noise, np.arange(len(self.group))
        many = np.clip(table.end - table.begin, 1, rule.STEPS)
        length = np.searchsorted(rule.LENGTHS, many)
        length = np.fmin(length, len(rule.LENGTHS) - 1)
        v = noise.v[row, length]
        error = noise.scale * np.sqrt(rule.MEDIAN * v / many)
        return medians(newest(table.level, row, table.begin, table.end, rule.STEPS)), error
