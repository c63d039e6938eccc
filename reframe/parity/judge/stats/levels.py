"""The rule of regression, night by night. docs/regression.md explains it to an engineer.

It is a window-limited generalised likelihood ratio (Lai 1995): the mean of the newest nights is compared with the
level before, in standard errors of a robust scatter. A binomial test guards it against rare slow nights. All
values are logarithms, turned so that higher is better. A cell is a series.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from parity.judge.stats import counts, rule
from parity.judge.stats.bounds import FIRST
from parity.judge.stats.episodes import Episodes, Look, Shift
from parity.judge.stats.nights import Nights, medians, places
from parity.judge.stats.node_effects import Nodes
from parity.judge.stats.noise import Noise
from parity.judge.stats.rule import Cells, Outcome
from parity.judge.stats.spells import begun
from parity.judge.stats.statistic import Statistic, Tonight
from parity.judge.stats.table import Table, newest

#: Until this night of a cell its noise is learned each night, and then each EVERY nights.
_LEARNED_DAILY = FIRST + 1
#: Nights that a scatter is learned from at least. From so many on it is learned without the newest NIGHTS_BACK.
_FEWEST_LEARNED, _OLD = 8, 12


def follow(nights: Nights, groups: np.ndarray | None = None, rate: float = rule.RATE,
           events: np.ndarray | None = None, nodes: np.ndarray | None = None, accept_after: int = 0) -> Outcome:
    """Judge every night of every series with what was known on that night.

    ``groups`` [series]: cells of one number share the effects of nodes. ``events`` [nights]: one of rule.EVENTS,
    or ''. ``nodes`` [nights]: the number of the node or nodes that it ran on, -1: not known. ``rate``: new false
    alarms a cell-night. ``accept_after``: an operator accepts what still alarms after so many nights; 0: never."""
    series = len(nights.counts)
    cell = nights.series
    column = _columns(nights, series)
    if groups is None:
        groups = np.arange(series)
    table = Table(nights, cell, column)
    run = _Follow(table, groups, rate)
    if nodes is not None and len(nodes):
        run.nodes.take(cell, column, nodes)
    if events is not None:
        run.take_events(cell, column, np.asarray(events))
    run.all(accept_after)
    place = cell, column
    state = table.state[place]
    counts.judge(nights, groups, rate, state)
    return Outcome(
        state=state,
        reruns=table.wanted[place],
        lone=table.lone[place],
        below=table.below[place],
        usual=table.usual[place],
        deepest=table.deepest[place],
        cells=run.cells(),
        column=column)


def _columns(nights: Nights, series: int) -> np.ndarray:
    """Return the column of each night: nights of one time share one. ``series``: how many there are."""
    times, column = np.unique(nights.when, return_inverse=True)
    most_places = 8 * len(column) + 100_000
    if len(times) * series <= most_places:
        return column
    return places(nights.start)         # the series have quite different times


@dataclass
class _NormalLevels:
    """The level of each cell, or that before its slowdown: places ``begin`` to ``end``."""

    begin: np.ndarray
    end: np.ndarray
    began: list[str]         # the event that began it
    since: np.ndarray        # the column of that event


class _Follow:
    """The cells of a table, judged column by column."""

    def __init__(self, table: Table, groups: np.ndarray, rate: float):
        self.table = table
        _, self.group = np.unique(groups, return_inverse=True)
        self.noise = Noise(len(self.group), rate)
        self.nodes = Nodes(self.group, table.x.shape)
        self.statistic = Statistic(table, self.noise, self.nodes)
        self.episodes = Episodes(table, self.noise, self.nodes)
        self.events: dict[int, list[tuple[int, str]]] = defaultdict(list)      # by column: cell and word

    def take_events(self, cell: np.ndarray, column: np.ndarray, events: np.ndarray) -> None:
        """Take the event of each night, '' for none."""
        has_event = events != ''
        for night in np.flatnonzero(has_event):
            c, t = int(cell[night]), int(column[night])
            word = str(events[night])
            of_column = self.events[t]
            of_column.append((c, word))

    def all(self, accept_after: int) -> None:
        measured = np.isfinite(self.table.runs)
        any_measured = measured.any(axis=0)
        for t in np.flatnonzero(any_measured).tolist():
            for c, word in self.events.get(t, ()):
                self.episodes.event(c, word, t)
            if accept_after:
                self._accept(measured, t, accept_after)
            cells = np.flatnonzero(measured[:, t])
            self._night(cells, t)

    def _accept(self, measured: np.ndarray, t: int, after: int) -> None:
        """Accept the slowdowns that have alarmed for so many nights. ``measured`` [cells, columns]."""
        for c, episode in self.episodes.slow.items():
            nights = measured[c]
            alarmed = nights[episode.detected:t].sum()
            if nights[t] and alarmed >= after:
                self.episodes.event(c, 'accepted', t)

    def _night(self, cells: np.ndarray, t: int) -> None:
        """Judge a night of the cells that have one."""
        table = self.table
        night = cells, t
        table.age[cells] += 1
        self._learn(cells, t)
        table.x[night] = table.runs[night] - self.nodes.effects(cells, t)
        look = self.statistic.tonight(cells, t)
        table.append(cells, t, table.x[night], look.residual)
        table.below[night] = np.where(look.ready, look.below, 0)
        state = np.where(look.ready, rule.QUIET, rule.TOO_FEW).astype(np.int8)
        self._decide(cells, t, look, state)
        is_slow = self._among(self.episodes.slow)
        table.normal[night] = ~is_slow[cells]
        self._mark_coming(cells, t, state)
        table.state[night] = state
        self._note_lone(cells, t, look)
        self._note_deepest(t)
        self._note_quiet(cells, look, state)

    def _mark_coming(self, cells: np.ndarray, t: int, state: np.ndarray) -> None:
        """Set the ``state`` of the cells that come and go."""
        for c in list(self.episodes.comes):
            is_measured = np.isfinite(self.table.runs[c, t])
            if is_measured:
                row = np.searchsorted(cells, c)
                state[row] = self.episodes.coming(c, t)

    # ---- what is learned

    def _learn(self, cells: np.ndarray, t: int) -> None:
        """Learn the noise of the cells that are due, and the effects of their nodes."""
        table = self.table
        age = table.age[cells]
        is_turn = (age % rule.EVERY == 0) | (age <= _LEARNED_DAILY)
        is_due = is_turn & (age > _FEWEST_LEARNED)
        if not is_due.any():
            return
        due = cells[is_due]
        self._first_residuals(due)
        end = table.end[due]
        end = np.where(end >= _OLD, end - rule.NIGHTS_BACK, end)
        begin = np.zeros_like(end)              # also of levels before
        residuals = newest(table.residual, due, begin, end, rule.MEMORY)
        self.noise.learn(due, residuals)
        if self.nodes.several:
            self._learn_nodes(due, t)

    def _first_residuals(self, cells: np.ndarray) -> None:
        """Give the first nights of a level residuals: they had no base yet."""
        table = self.table
        many = rule.LONGEST
        begin = table.begin[cells]
        length = table.end[cells] - begin
        has_none = np.isnan(table.residual[cells, begin])
        is_fresh = has_none & (length >= many)
        if not is_fresh.any():
            return
        fresh = cells[is_fresh]
        place = begin[is_fresh][:, None] + np.arange(many)
        nights = fresh[:, None], place
        level = table.level[nights]
        middle = np.median(level, axis=1)
        v = self.noise.v[fresh, -1]
        of_median = np.fmin(0.5, v / many)      # the share of the variance that it took
        kept = np.sqrt(1 - of_median)
        off = (level - middle[:, None]) / kept[:, None]
        residual = table.residual[nights]
        table.residual[nights] = np.where(np.isnan(residual), off, residual)

    def _learn_nodes(self, cells: np.ndarray, t: int) -> None:
        """Learn which nodes are slower, or faster, than the others, from the newest nights of the groups of cells.

        A cell that was on one node only says nothing."""
        table = self.table
        due = np.isin(self.group, self.group[cells])
        has_level = table.end > table.begin
        is_slow = self._among(self.episodes.slow)
        mine = np.flatnonzero(due & has_level & ~is_slow & self.nodes.moves)
        if not len(mine):
            return
        by_group = np.argsort(self.group[mine], kind='stable')
        mine = mine[by_group]
        first = max(0, t - 2 * rule.LEVEL)
        nights = slice(first, t)
        x = self._normal_nights(mine, nights)
        for g, moved in self.nodes.learn(mine, nights, x):
            for c in np.flatnonzero(self.group == g):
                self._take_out(c, moved)

    def _normal_nights(self, cells: np.ndarray, columns: slice) -> np.ndarray:
        """Return the normal nights of the level of each cell [cells, columns]; NaN: there is none."""
        table = self.table
        first_place = table.begin[cells]
        first_column = table.at[cells, first_place]
        column = np.arange(columns.start, columns.stop)
        of_level = column >= first_column[:, None]
        nights = cells, columns
        is_normal = of_level & table.normal[nights]
        return np.where(is_normal, table.x[nights], np.nan)

    def _take_out(self, c: int, moved: np.ndarray) -> None:
        """Take the change of the nodes' effects [nodes] out of the nights of a cell."""
        table = self.table
        begin, end = table.begin[c], table.end[c]
        nodes = self.nodes.number[c]
        by_column = moved[nodes]
        columns = table.at[c, :end]
        by_place = by_column[columns]
        table.x[c] -= by_column
        table.level[c, :end] -= by_place
        table.residual[c, begin:end] -= by_place[begin:]

    # ---- what changed

    def _decide(self, cells: np.ndarray, t: int, look: Tonight, state: np.ndarray) -> None:
        """Look closer at the cells that something may have happened to; set the ``state`` of their night."""
        episodes = self.episodes
        bar = self.noise.bar[cells]
        farthest = np.fmax.reduce(np.abs(look.far), axis=1)
        is_far = farthest > bar
        is_event = self._is_after_event(cells, t)
        is_spell = self._is_spell(cells, look)
        may_begin = look.ready & (is_far | is_event | is_spell)
        lasts = self._among(episodes.lasting)[cells]
        may_recur = look.ready & is_spell & ~lasts
        for i in np.flatnonzero(may_begin | lasts):
            c, base = int(cells[i]), float(look.base[i])
            fall = look.shift(i, -1, bar[i])
            rise = look.shift(i, 1, bar[i])
            if not fall and may_recur[i] and episodes.recurs(c, t, base):
                size = float(-look.far[i, 0])
                fall = Shift(rule.SHORTEST, size)
            tonight = Look(base, fall, rise)
            state[i] = episodes.night(c, t, tonight, int(state[i]))

    def _is_spell(self, cells: np.ndarray, look: Tonight) -> np.ndarray:
        """Return whether the newest nights of each cell are as low as a spell."""
        newest_nights = look.off[:, -rule.NIGHTS_BACK:]
        highest = newest_nights.max(axis=1)
        return highest < -self.noise.spell(cells)

    def _is_after_event(self, cells: np.ndarray, t: int) -> np.ndarray:
        """Return whether an event of each cell is long enough ago to begin a level, and may still do so."""
        nights_since = t - self.table.changed[cells]
        return self.table.pending[cells] & (nights_since >= rule.STEPS)

    def _among(self, cells: dict) -> np.ndarray:
        """Return for each cell whether it is one of these (numpy's isin is slow on few)."""
        among = np.zeros(len(self.group), dtype=bool)
        among[[*cells]] = True
        return among

    # ---- what is noted of a night

    def _note_quiet(self, cells: np.ndarray, look: Tonight, state: np.ndarray) -> None:
        """Note the statistics of the cells that are not low: their noise is learned from these."""
        is_low = np.isin(state, rule.LOW_NIGHTS)
        quiet = look.has_noise & ~is_low
        self.noise.note(cells[quiet], look.z[quiet])

    def _note_lone(self, cells: np.ndarray, t: int, look: Tonight) -> None:
        """Note how low a night is on which nothing was found, where chance explains it as rarely as an alarm.

        Where it was not run again, no like cell may have had a night as low lately. Like cells may have such
        nights so often that two mean nothing."""
        by_chance = self.noise.bar[cells] * look.error
        is_clear = look.below > by_chance
        is_quiet = self.table.state[cells, t] == rule.QUIET
        is_low = is_quiet & is_clear
        low = cells[is_low]
        below = look.below[is_low]
        group = self.group[low]
        for g in np.unique(group):
            like = np.flatnonzero(self.group == g)
            of_group = group == g
            self._note_lone_beside(like, low[of_group], t, below[of_group])

    def _note_lone_beside(self, like: np.ndarray, cells: np.ndarray, t: int, below: np.ndarray) -> None:
        """Note the lone nights of cells, beside the nights of all ``like`` cells. ``below``: how low they are."""
        table, noise = self.table, self.noise
        night = cells, t
        was_rerun = np.isfinite(table.again[night])
        lowest = self._lowest(like, t) * noise.scale[cells]
        is_lone = was_rerun | (below > lowest)
        table.lone[night] = np.where(is_lone, below, 0)
        share = self._lone_share(like, t)
        two_by_chance = rule.GOOD_NIGHTS * share ** 2
        table.usual[night] = two_by_chance > noise.rate

    def _lowest(self, like: np.ndarray, t: int) -> float:
        """Return how many standard deviations below its level the lowest night of the cells was lately."""
        first = max(0, t - rule.LEVEL)
        nights = like, slice(first, t)
        table = self.table
        is_slow = table.state[nights] == rule.SLOW
        not_slow = np.where(is_slow, np.nan, table.surprise[nights])
        lowest = np.nanmin(not_slow, initial=0)
        return -float(lowest)

    def _lone_share(self, like: np.ndarray, t: int) -> float:
        """Return the share of lone low nights among those of the cells, without the newest GOOD_NIGHTS."""
        end = max(0, t - rule.GOOD_NIGHTS)
        first = max(0, end - rule.LEVEL)
        nights = like, slice(first, end)
        is_lone = self.table.lone[nights] > 0
        is_measured = np.isfinite(self.table.runs[nights])
        some = max(is_measured.sum(), 1)
        return float(is_lone.sum() / some)

    def _note_deepest(self, t: int) -> None:
        """Note how far the level of the newest nights of a slowdown was below the one before, at most."""
        table = self.table
        for c, episode in self.episodes.slow.items():
            if np.isnan(table.x[c, t]):
                continue
            end = table.end[c]
            first = max(table.begin[c], end - rule.STEPS)
            level = np.median(table.level[c, first:end])
            depth = episode.base - float(level)
            episode.deepest = max(episode.deepest, depth)
            table.deepest[c, t] = episode.deepest

    # ---- what is known in the end

    def cells(self) -> Cells:
        """Return what is known of each cell after its last night. The level of a slow cell is the one before."""
        table, noise = self.table, self.noise
        row = np.arange(len(self.group))
        levels = self._normal_levels()
        nights = levels.end - levels.begin
        of_base = newest(table.level, row, levels.begin, levels.end, rule.LEVEL)
        base = medians(of_base)
        visible = noise.visible(np.clip(nights, 1, rule.LEVEL))
        is_young = table.age < FIRST
        measured = np.isfinite(table.x)
        nights_after = measured[:, ::-1].argmax(axis=1)
        last = table.x.shape[1] - 1 - nights_after
        value = table.x[row, last]
        last_good, first_slow = self._begun(base, levels.begin, value)
        has_node = self.nodes.several & measured.any(axis=1)
        effect = self.nodes.effects(row, last)
        now, error = self._level_now()
        return Cells(
            base=base,
            nights=nights,
            scale=noise.scale,
            bar=noise.bar,
            visible=np.where(is_young, np.nan, visible),
            low=table.low,
            node=np.where(has_node, effect, np.nan),
            value=value,
            began=levels.began,
            since=levels.since,
            changed=table.changed,
            change=table.change,
            now=now,
            begin=table.at[row, table.begin],
            error=error,
            last_good=last_good,
            first_slow=first_slow,
            lasting=self.episodes.lasting,
            comes=self.episodes.comes)

    def _normal_levels(self) -> _NormalLevels:
        table = self.table
        levels = _NormalLevels(
            begin=table.begin.copy(),
            end=table.end.copy(),
            began=table.began.copy(),
            since=table.since.copy())
        for c, episode in self.episodes.slow.items():
            levels.begin[c] = episode.before
            levels.end[c] = episode.place
            levels.began[c], levels.since[c] = episode.began
        return levels

    def _begun(self, base: np.ndarray, begin: np.ndarray, tonight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns between which a slowdown began, of the cells that are low tonight; -1: not known.

        ``base``: the level before it, whose nights are from place ``begin`` on."""
        table, noise = self.table, self.noise
        last_good, first_slow = np.full((2, len(base)), -1)
        low = np.flatnonzero(tonight < base)
        first, end = begin[low], table.end[low]
        level = newest(table.level, low, first, end, rule.LEVEL)
        column = newest(table.at, low, first, end, rule.LEVEL)
        off = level - base[low, None]
        longest_v = noise.v[low, -1]
        scale = noise.scale[low] * np.sqrt(longest_v)
        last_good[low], first_slow[low] = begun(off, column, scale)
        return last_good, first_slow

    def _level_now(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the level of the newest STEPS nights since the last change, and its standard error."""
        table, noise = self.table, self.noise
        row = np.arange(len(self.group))
        nights = np.clip(table.end - table.begin, 1, rule.STEPS)
        length = np.searchsorted(rule.LENGTHS, nights)
        longest = len(rule.LENGTHS) - 1
        length = np.fmin(length, longest)
        dependence = noise.v[row, length]
        of_median = rule.MEDIAN * dependence / nights
        error = noise.scale * np.sqrt(of_median)
        level = newest(table.level, row, table.begin, table.end, rule.STEPS)
        return medians(level), error
