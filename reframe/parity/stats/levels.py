"""The level rule: a series is at a level; a change, up or down, begins another. docs/regression.md describes it.

All values are logarithms, turned so that higher is better. A cell is a series; a group holds like cells.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from statistics import median

import numpy as np
import scipy

from parity.stats import node_effects
from parity.stats.bounds import FIRST
from parity.stats.nights import Nights, median_of, medians
from parity.stats.noise import BASE, LENGTHS, MEDIAN, MEMORY, NEWEST, Noise, by_chance, rarity

#: The state of a night. COMES: a low one of what comes and goes; GOING: a good one of a slowdown that is not over.
TOO_FEW, QUIET, SLOW, FAST, COMES, GOING = -1, 0, 1, 2, 3, 4
#: What turns a cell red; a slowdown that was told, and is not over.
LOW_NIGHTS, KNOWN = (SLOW, COMES), (SLOW, COMES, GOING)
#: New false alarms a cell-night: one a month on a system of a hundred cells.
RATE = 1 / 3000
#: The smallest slowdown that shows is one that is found within so many nights in four of five cases.
WITHIN, _POWER = 3, 0.8416
#: What may happen to a cell. A level begins with the first two, and with other work the cell learns anew. With the
#: others, MAY, one may begin: the level before judges it on.
EVENTS = ('accepted', 'level', 'work', 'software', 'hardware', 'maintenance')
MAY = EVENTS[3:]

# The constants, and why: docs/regression.md.
#: Nights of a new level before judging goes on, and of counts before the first that is judged.
AFTER, COUNTED = 4, 40
#: Only the newest MOST nights are judged. The noise is learned anew every so many nights of a cell.
MOST, EVERY = 2000, 5
#: Nights of the base, which leaves the newest GAP nights out.
LEVEL, GAP = 60, 4
#: The smallest slowdown, improvement and drift.
EFFECT, BETTER, DRIFT = 0.02, 0.01, 0.03
#: A drift is that of the newest nights from the first HEAD of a level that is twice as old.
DRIFTING, HEAD = int(LENGTHS[-1]), 40
#: A night counts for at most this share of the bar: none alarms alone.
_CLIP = 0.72
#: An improvement must be surer than a slowdown by so much, and is on probation for so many nights.
SURER, PROBATION = 0.5, 10
#: Low nights are no chance where a binomial test finds them so rare, or Cramér's theorem their mean, in rates.
_CHANCE, _LARGE = 1 / 2000, 2.0
#: So many nights back from a change end it.
_BACK = 2
#: A level that moved _MOVED times in _MOVES nights must move by _TIMES as much. A slowdown of _NEWS is always one.
_MOVES, _MOVED, _TIMES, _NEWS = 100, 1.5, 2.5, 0.04
#: A rerun is wanted at a lower surprise than this, in standard deviations, and among so many of the lowest nights.
LOW, RERUN, _WINDOW = -1.75, 0.036, 80
#: Nights that a level is known from; that a binomial test looks at.
STEPS = 10
#: So many spells within so many nights, each at least _SIZE of this one, are one state until so many were good.
COMING, _WITHIN, _GOOD, _SIZE = 3, 60, 14, 0.7
#: A slowdown shows from so many times the depth of low nights on (6 % are lower).
_TAILS = 1.6


@dataclass
class Episode:
    """A slowdown, or an improvement that is on probation."""

    begin: int               # its first night, a column
    detected: int            # the night on which it was found
    nights: int              # that the statistic looked at; 0: a drift
    base: float              # the level before, log
    depth: float             # change of the log, below 0 for slower
    size: float              # the statistic
    before: int = 0          # where the level before begins
    place: int = 0           # where it ends
    began: tuple[str, int] = ('', -1)     # the event that began the level before, and its column
    again: int = -1          # column of the level before the improvement that a slowdown leads back to; -1: none


@dataclass
class Cells:
    """The state of each cell after its last night. Logarithms, oriented."""

    base: np.ndarray          # median of the level
    nights: np.ndarray        # length of the level
    scale: np.ndarray         # standard deviation of a night
    bar: np.ndarray
    visible: np.ndarray       # log of the smallest slowdown that would show, inf: none; NaN: not judged
    low: np.ndarray           # bool: the last night is low, and was not run again
    node: np.ndarray          # effect of the last night's node, where it is known
    value: np.ndarray         # of the last night
    began: list[str]          # the event that began the level
    since: np.ndarray         # its column
    changed: np.ndarray       # column of the newest event of MAY, -1: none
    change: list[str]         # that event
    now: np.ndarray           # level of the newest STEPS nights since the last change
    begin: np.ndarray         # column of that change
    error: np.ndarray         # standard error of that level
    clear: np.ndarray         # log [2]: one night is no chance so far below the level; run again, or not
    lasting: dict[int, Episode] = field(default_factory=dict)
    comes: dict[int, tuple[int, int]] = field(default_factory=dict)     # spells since a column


@dataclass
class Outcome:
    """``state`` of each night, in the order of the nights given; ``reruns``: it was low, and a rerun is wanted."""

    state: np.ndarray
    reruns: np.ndarray
    cells: Cells
    column: np.ndarray        # of each night: nights of one time are in one column, as far as series share times


def follow(nights: Nights, groups: np.ndarray | None = None, rate: float = RATE, events: np.ndarray | None = None,
           nodes: np.ndarray | None = None, accept_after: int = 0) -> Outcome:
    """Judge every night of every series with what was known on that night.

    ``groups`` [series]: like cells have one number. ``events`` [nights]: one of EVENTS, or ''.
    ``nodes`` [nights]: the number of the node or nodes that it ran on, -1: not known. ``rate``: new false alarms a
    cell-night. ``accept_after``: an operator accepts what still alarms after so many nights; 0: never."""
    sizes = np.diff(nights.start)
    cell = np.repeat(np.arange(len(sizes)), sizes)
    times, column = np.unique(nights.when, return_inverse=True)
    if len(times) * len(sizes) > 8 * len(cell) + 100_000:      # series of quite different times
        column = np.arange(len(cell)) - np.repeat(nights.start[:-1], sizes)
    groups = np.arange(len(sizes)) if groups is None else groups
    run = _Follow(nights, cell, column, groups, rate)
    run.tell(events, nodes)
    run.all(accept_after)
    state = run.state[cell, column]
    counts = np.flatnonzero(nights.counts)
    for g in np.unique(groups[counts]):
        like = [slice(nights.start[k], nights.start[k + 1]) for k in counts[groups[counts] == g]]
        heads = [head for here in like if len(head := nights.total[here][:COUNTED]) > 1]
        over = sum(head.var(ddof=1) for head in heads) / max(sum(head.mean() for head in heads), 1e-9)
        for here in like:
            state[here] = _counted(nights.total[here], max(1.0, over), rate)
    return Outcome(state, run.wanted[cell, column], run.cells(), column)


class _Moves:
    """Moves of the levels of the cells of a group, in order: column, cell, size (log)."""

    def __init__(self):
        self._rows, self._count = np.empty((16, 3)), 0

    def add(self, *row: float) -> None:
        if self._count == len(self._rows):
            self._rows = np.concatenate((self._rows, np.empty_like(self._rows)))
        self._rows[self._count] = row
        self._count += 1

    def since(self, column: int) -> np.ndarray:
        rows = self._rows[:self._count]
        return rows[np.searchsorted(rows[:, 0], column):]


class _Follow:
    """The cells of a table, judged column by column."""

    def __init__(self, nights: Nights, cell: np.ndarray, column: np.ndarray, groups: np.ndarray, rate: float):
        columns = int(column.max(initial=-1)) + 1
        self.first = max(0, columns - MOST)
        self.group = np.unique(groups, return_inverse=True)[1]
        many = len(self.group)
        self.runs, self.again = (np.full((many, columns), np.nan) for _ in range(2))
        self.runs[cell, column], self.again[cell, column] = nights.value, nights.again
        self.runs[nights.counts], self.place = np.nan, (cell, column)
        self.runs[:, :self.first] = np.nan
        self.x = self.runs.copy()                    # as it is judged: with reruns, without the node's effect
        self.noise = Noise(self.group, rate)
        self.others = np.fmax(np.bincount(self.group) - 1, 3)
        self.state = np.full((many, columns), TOO_FEW, dtype=np.int8)
        self.wanted = np.zeros((many, columns), dtype=bool)
        self.low = np.zeros(many, dtype=bool)
        self.surprise = np.full((many, columns), np.nan, dtype=np.float32)    # of the runs alone
        # nights of levels, one after the other, with the column and the residual of each; a level is begin to end
        self.level, self.residual = np.zeros((many, columns + 1)), np.full((many, columns + 1), np.nan)
        self.at = np.zeros((many, columns + 1), dtype=np.int32)
        self.begin, self.end, self.age = (np.zeros(many, dtype=int) for _ in range(3))
        self.anchor = np.full(many, np.nan)          # median of the first HEAD nights of the level
        self.former = np.full(many, np.nan)          # the level before this one, if this one is an improvement
        self.episode: dict[int, Episode] = {}
        self.moves = defaultdict[int, _Moves](_Moves)                         # by group
        self.changed, self.change = np.full(many, -1), [''] * many
        self.began, self.since = [''] * many, np.full(many, -1)
        self.pending = np.zeros(many, dtype=bool)    # an event that may begin a level
        self.ended = defaultdict(list)               # begin, end and depth of the slowdowns of a cell
        self.comes: dict[int, tuple[int, int]] = {}  # of what comes and goes: spells, and since when
        self.node, self.effect = None, None
        self.normal = np.zeros((many, columns), dtype=bool)      # nights of a level, and of what came and went
        self.events: dict[int, list[tuple[int, str]]] = {}

    def tell(self, events, nodes) -> None:
        """Take the events and the nodes of the nights."""
        cell, column = self.place
        if events is not None:
            for i in np.flatnonzero(np.asarray(events) != ''):
                self.events.setdefault(int(column[i]), []).append((int(cell[i]), str(events[i])))
        if nodes is not None and len(nodes) and (many := int(np.max(nodes)) + 1) > 1:
            self.node = np.full(self.x.shape, -1, dtype=np.int32)
            self.node[cell, column] = nodes
            self.effect = np.zeros((self.noise.groups, many + 1))     # the last one: not known

    def all(self, accept_after: int) -> None:
        measured = np.isfinite(self.runs)
        for t in range(self.first, self.x.shape[1]):
            here = np.flatnonzero(measured[:, t])
            if not len(here):
                continue
            for c, word in self.events.get(t, ()):
                self._event(c, word, t)
            for c, e in list(self.episode.items()) if accept_after else ():
                lasted = measured[c, e.detected:t].sum() if e.depth < 0 and measured[c, t] else 0
                if lasted >= accept_after:
                    self._event(c, 'accepted', t)
            self.age[here] += 1
            n = self.age[here]
            due = here[(n > 8) & ((n % EVERY == 0) | (n <= FIRST + 1))]
            if len(due):
                self._learn(due, t)
            if self.node is not None:
                self.x[here, t] = self.runs[here, t] - self.effect[self.group[here], self.node[here, t]]
            self._judge(here, t)

    # ---- a night

    def _judge(self, cells: np.ndarray, t: int) -> None:
        noise, n, begin, rows = self.noise, self.end[cells], self.begin[cells], np.arange(len(cells))
        age, s, v, bar = n - begin, noise.scale[cells], noise.v[cells], noise.bar[cells]
        base, nb, gap = self._base(cells)
        some = np.fmax(nb, 1)[:, None]                                # nights of the base
        ready = (self.age[cells] > FIRST) & (nb >= AFTER) & np.isfinite(s)
        tonight = self._rerun(cells, t, base, s * np.sqrt(1 + BASE / some[:, 0]), ready)
        back = n[:, None] - DRIFTING + 1 + np.arange(DRIFTING - 1)
        past = np.where(back >= begin[:, None], self.level[cells[:, None], np.fmax(back, 0)] - base[:, None], 0)
        r = np.column_stack((past, tonight - base))
        share = BASE * LENGTHS / some                                 # of the base in the variance
        clip = np.where(np.isfinite(bar), _CLIP * bar * np.sqrt(v[:, 0] * (1 + share[:, 0])), 99)[:, None]
        total = np.cumsum(np.clip(r / s[:, None], -clip, clip)[:, ::-1], axis=1)[:, LENGTHS - 1]
        enough = (LENGTHS <= age[:, None] + 1) & (LENGTHS - 1 - gap[:, None] <= nb[:, None] / 5)
        z = np.where(enough, total / np.sqrt(LENGTHS * (1 + share)), np.nan)
        drift = self._drift(cells, np.median(r, axis=1) + base, age)
        z = np.column_stack((z, drift / s / np.sqrt(MEDIAN / DRIFTING + MEDIAN / HEAD)))
        wide = (v[:, :-1] + share * np.fmax(v[:, :-1], v[:, -2:-1])) / (1 + share)
        far = z / np.sqrt(np.column_stack((wide, v[:, -1])))
        down, up = (np.where(np.isfinite(far), side * far, -np.inf) for side in (-1, 1))
        down[~(drift < -DRIFT), -1] = up[:, -1] = -np.inf
        k, j = down.argmax(axis=1), up.argmax(axis=1)
        low, high = down[rows, k], up[rows, j]
        self._append(cells, tonight, t, np.where(nb >= AFTER, r[:, -1] / np.sqrt(1 + BASE / some[:, 0]), np.nan))
        state = np.where(ready, QUIET, TOO_FEW).astype(np.int8)
        changed = self._among([*self.episode])[cells]
        due = self.pending[cells] & (t - self.changed[cells] >= PROBATION)
        special = changed | ready & ((low > bar) | (high > bar + SURER) | due)
        for i in np.flatnonzero(special):
            c, worse, better = int(cells[i]), low[i] > bar[i] and ready[i], high[i] > bar[i] + SURER and ready[i]
            state[i] = self._word(c, t, int(state[i]), (int(k[i]), low[i]) if worse else None,
                                  (int(j[i]), high[i]) if better else None, base[i])
        self.normal[cells, t] = ~self._among(self._slow())[cells]
        for c in self.comes.keys() & set(cells.tolist()):
            state[cells == c] = self._coming(c, t)
        self.state[cells, t] = state
        quiet = np.isfinite(s) & (nb >= AFTER) & (state != SLOW) & (state != COMES)
        noise.note(cells[quiet], z[quiet])

    def _among(self, cells: list[int]) -> np.ndarray:
        """Return for each cell whether it is one of these (numpy's isin is slow on few)."""
        found = np.zeros(len(self.age), dtype=bool)
        found[cells] = True
        return found

    def _slow(self) -> list[int]:
        return [c for c, e in self.episode.items() if e.depth < 0]

    def _base(self, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the median of the last LEVEL nights of the level, how many these are, and the nights left out."""
        n, begin = self.end[cells], self.begin[cells]
        gap = np.minimum(GAP, (n - begin) // 3)
        width = max(1, min(LEVEL, int((n - begin - gap).max(initial=1))))
        place = (n - gap)[:, None] - width + np.arange(width)
        nb = np.minimum(n - begin - gap, width)
        values = np.where(place >= begin[:, None], self.level[cells[:, None], np.fmax(place, 0)], np.inf)
        if len(nb) and nb.min() == width:
            values.partition([(width - 1) // 2, width // 2], axis=1)
        else:
            values.sort(axis=1)
        return median_of(values, nb), nb, gap

    def _rerun(self, cells, t, base, error, ready) -> np.ndarray:
        """Return tonight's values; where a low night was run again, with its reruns."""
        tonight, again = self.x[cells, t], self.again[cells, t]
        u, before = (tonight - base) / error, self.surprise[cells, max(0, t - _WINDOW):t]
        low = ready & (u < LOW) & ((before < u[:, None]).sum(axis=1) <= RERUN * np.isfinite(before).sum(axis=1))
        self.surprise[cells, t] = np.where(ready, u, np.nan)
        self.wanted[cells, t], self.low[cells] = low, low & np.isnan(again)
        if self.node is not None:
            again = again - self.effect[self.group[cells], self.node[cells, t]]
        self.x[cells, t] = np.where(low & np.isfinite(again), again, tonight)
        return self.x[cells, t]

    def _drift(self, cells, newest, age) -> np.ndarray:
        """Return by how much the newest nights are above the first ones of their level, NaN where it is young."""
        new = cells[(age >= HEAD) & np.isnan(self.anchor[cells])]
        self.anchor[new] = np.median(self.level[new[:, None], self.begin[new][:, None] + np.arange(HEAD)], axis=1)
        return np.where(age >= 2 * HEAD, newest - self.anchor[cells], np.nan)

    def _append(self, cells, value, t, residual) -> None:
        n = self.end[cells]
        self.level[cells, n], self.at[cells, n], self.residual[cells, n] = value, t, residual
        self.end[cells] = n + 1

    def _word(self, c: int, t: int, state: int, worse: tuple | None, better: tuple | None, base: float) -> int:
        """Return the state of a night on which something may have changed.

        ``worse``, ``better``: the length, of LENGTHS, that shows it, and the statistic; None: nothing does."""
        e = self.episode.get(c)
        if e and e.depth > 0 and self.end[c] - e.place > PROBATION + 3:
            del self.episode[c]
            e = None
        if e:
            newest = self.level[c, max(e.place, self.end[c] - _BACK):self.end[c]]
            back = (newest - e.base) / e.depth < 0.5
            if len(back) == _BACK and back.all() or e.depth > 0 and worse or back[-1] and self._well(c, e, t):
                self._back(c, e, t)
                return QUIET
        if self.pending[c] and t - self.changed[c] >= PROBATION:        # nothing was found
            self.pending[c] = False
            first = self.begin[c] + int((self.at[c, self.begin[c]:self.end[c]] < self.changed[c]).sum())
            if not e and not worse and self.end[c] - first > PROBATION / 2:
                self._start(c, first, self.change[c])
        if worse:
            self._slower(c, t, *worse, base)
        elif better and not (e and e.depth > 0):
            self._faster(c, t, *better, base)
        if not (e := self.episode.get(c)):
            return state
        if e.depth > 0:
            return FAST
        return SLOW if self._slow_tonight(c, e) else GOING

    def _well(self, c: int, e: Episode, t: int) -> bool:
        """Return whether a good night ends a slowdown alone: run again, it is clear of the slow level."""
        if e.depth > 0:
            return False
        self.wanted[c, t], self.low[c] = True, np.isnan(self.again[c, t])
        effect = self.effect[self.group[c], self.node[c, t]] if self.node is not None else 0.0
        return bool(self.again[c, t] - effect - e.base - e.depth > self.noise.bar[c] * self.noise.scale[c])

    def _coming(self, c: int, t: int) -> int:
        """Return the state of a night of a cell that comes and goes: it does until _GOOD nights were good."""
        ended = self.ended[c][-1][1]
        good = _BACK + int((self.at[c, max(0, self.end[c] - _GOOD):self.end[c]] > ended).sum())
        e = self.episode.get(c)
        if not e and good > _GOOD:
            del self.comes[c]
            return QUIET
        return COMES if e and self._slow_tonight(c, e) else GOING

    def _slow_tonight(self, c: int, e: Episode) -> bool:
        return (self.level[c, self.end[c] - 1] - e.base) / e.depth >= 0.5

    def _slower(self, c: int, t: int, k: int, size: float, base: float) -> None:
        """Begin a level, if the last nights are a slowdown; also where the cell is slow already."""
        drift, e, x = k == len(LENGTHS), self.episode.get(c), self.level[c, self.begin[c]:self.end[c]]
        many, base = (DRIFTING, float(self.anchor[c])) if drift else (int(LENGTHS[k]), base)
        at = median(x[-many:].tolist())
        depth = at - base
        if depth >= -self._least(c, t) or x[-1] - base >= depth / 2 or self._chance(c, base, depth, drift):
            return
        if e:
            e.detected, e.nights, e.size, e.depth = t, many * (not drift), size, at - e.base
        else:
            spells = [begin for begin, end, was in self.ended[c] if end >= t - _WITHIN and was <= _SIZE * depth]
            if len(spells) >= COMING - 1:
                self.comes[c] = len(spells) + 1, spells[0]
            place, again = int(self.end[c]) - many, abs(at - self.former[c]) < -depth / 2
            self.episode[c] = Episode(
                int(self.at[c, place]), t, many * (not drift), base, depth, size, int(self.begin[c]), place,
                (self.began[c], int(self.since[c])), int(self.since[c]) if again else -1)
        self.normal[c, self.episode[c].begin:t] = False
        self.moves[int(self.group[c])].add(t, c, abs(depth))
        self._start(c, int(self.end[c]) - many, '')

    def _faster(self, c: int, t: int, k: int, size: float, base: float) -> None:
        """Begin a level, if the last nights are an improvement; of a slow cell it is a part of the way back."""
        many, e, x = int(LENGTHS[k]), self.episode.get(c), self.level[c, self.begin[c]:self.end[c]]
        at = median(x[-many:].tolist())
        depth, place = at - base, int(self.end[c]) - many
        if depth <= BETTER or x[-1] - base <= depth / 2 or len(x) - many < AFTER:
            return
        if e:
            e.depth = at - e.base
            self._start(c, place, '')
            return
        self.moves[int(self.group[c])].add(t, c, depth)
        self.episode[c] = Episode(int(self.at[c, place]), t, many, base, depth, size, int(self.begin[c]), place,
                                  (self.began[c], int(self.since[c])))
        self._start(c, place, 'improved')
        self.former[c] = base

    def _chance(self, c: int, base: float, depth: float, drift: bool) -> bool:
        """May the low nights be chance, as rare as such nights were before?"""
        begin, end, s = self.begin[c], self.end[c], self.noise.scale[c]
        low = (self.level[c, max(begin, end - STEPS):end] < base + depth / 2)[::-1]
        past = self.level[c, begin:begin + HEAD] - base if drift else \
            self._past(c, end - int(np.append(low, False).argmin()))
        share = ((past < depth / 2).sum() + 0.5) / (len(past) + 1)
        if by_chance(low, share) <= max(self.noise.rate, _CHANCE):
            return False
        clip = _CLIP * self.noise.bar[c] * np.sqrt(self.noise.v[c, 0])
        bar = -scipy.special.ndtri(_LARGE * self.noise.rate)
        for k in () if drift else LENGTHS[LENGTHS <= end - begin]:
            mean = np.clip((self.level[c, end - k:end] - base) / s, -clip, clip).mean()
            if mean < 0 and rarity(np.clip(self._past(c, end - k) / s, -clip, clip), mean, k) > bar:
                return False
        return True

    def _past(self, c: int, until: int) -> np.ndarray:
        """Return the residuals of the newest nights before place ``until``."""
        past = self.residual[c, max(0, until - MEMORY):until]
        return past[np.isfinite(past)]

    # ---- levels

    def _start(self, c: int, first: int, word: str) -> None:
        """Begin a level with the night at place ``first``."""
        self.begin[c], self.anchor[c], self.former[c] = first, np.nan, np.nan
        self.began[c], self.since[c] = word, self.at[c, first]
        self.residual[c, first:self.end[c]] = np.nan

    def _back(self, c: int, e: Episode, t: int) -> None:
        """End an episode: its last nights belong to the level before, the others to none."""
        end = self.end[c]
        stay = min(_BACK, int(end) - e.place)
        for table in (self.level, self.at):
            table[c, e.place:e.place + stay] = table[c, end - stay:end].copy()
        self.residual[c, e.place:end] = np.nan
        self.begin[c], self.end[c], self.anchor[c] = e.before, e.place + stay, np.nan
        self.began[c], self.since[c] = e.began
        del self.episode[c]
        self.normal[c, e.begin:t] = True
        if e.depth < 0:
            self.ended[c].append((e.begin, t, e.depth))

    def _event(self, c: int, word: str, t: int) -> None:
        """Begin a level with what the cell measures since a slowdown, or now; or note that one may begin."""
        if word in MAY:
            self.changed[c], self.change[c], self.pending[c] = t, word, True
            return
        e, self.pending[c] = self.episode.pop(c, None), False
        self.comes.pop(c, None)
        if word == 'accepted' and e and e.depth < 0:
            self.normal[c, e.begin:t] = True
            self.began[c], self.since[c] = word, e.begin
            return
        if word == 'work':
            self.age[c], self.residual[c, :self.end[c]] = 0, np.nan
            self.noise.forget(c)
        self._start(c, max(self.begin[c], self.end[c] - STEPS * (word == 'accepted')), word)
        if self.begin[c] == self.end[c]:
            self.since[c] = t

    def _least(self, c: int, t: int) -> float:
        """Return the smallest slowdown that is news: more where the level moves often, but no more than _NEWS."""
        moves = self.moves[int(self.group[c])].since(t - _MOVES)
        mine = moves[:, 1] == c
        own = int(mine.sum())
        if own + (len(moves) - own) / self.others[self.group[c]] < _MOVED:
            return EFFECT
        sizes = moves[mine, 2] if own > 1 else moves[:, 2]
        return min(max(_TIMES * float(medians(sizes[None])[0]), EFFECT), _NEWS)

    # ---- what is learned

    def _learn(self, cells: np.ndarray, t: int) -> None:
        begin = self.begin[cells]
        fresh = cells[(self.end[cells] - begin >= DRIFTING) & np.isnan(self.residual[cells, begin])]
        if len(fresh):                               # the first nights of a level had no base yet
            place = fresh[:, None], self.begin[fresh][:, None] + np.arange(DRIFTING)
            off = self.level[place] - np.median(self.level[place], axis=1)[:, None]
            off /= np.sqrt(1 - np.fmin(0.5, self.noise.v[fresh, -2] / DRIFTING))[:, None]
            self.residual[place] = np.where(np.isnan(self.residual[place]), off, self.residual[place])
        width = min(MEMORY, int(self.end[cells].max()))
        place = (self.end[cells] - NEWEST * (self.end[cells] >= 12))[:, None] - width + np.arange(width)
        self.noise.learn(cells, np.where(place >= 0, self.residual[cells[:, None], np.fmax(place, 0)], np.nan))
        if self.node is not None:
            self._nodes(cells, t)

    def _nodes(self, cells: np.ndarray, t: int) -> None:
        """Learn which nodes are slower, or faster, than the others, from the newest nights of the groups of cells.

        A cell that was on one node only says nothing."""
        due, many = np.zeros(self.noise.groups, dtype=bool), self.effect.shape[1]
        due[self.group[cells]] = True
        mine = np.flatnonzero(due[self.group] & (self.end > self.begin) & ~self._among(self._slow()))
        mine = mine[np.argsort(self.group[mine], kind='stable')]
        column = np.arange(max(0, t - _MOVES), t)
        newest = mine, slice(max(0, t - _MOVES), t)
        node, x = self.node[newest], self.x[newest]
        inside = self.normal[newest] & np.isfinite(x) & (node >= 0)
        inside &= column >= self.at[mine, self.begin[mine]][:, None]
        lowest, highest = (np.where(inside, node, none) for none in (many, -1))
        inside &= (lowest.min(axis=1, initial=many) < highest.max(axis=1, initial=-1))[:, None]
        row, at = np.nonzero(inside)
        if not len(row):
            return
        group, node = self.group[mine[row]], node[inside]
        raw = np.full(inside.shape, np.nan)
        raw[inside] = x[inside] + self.effect[group, node]
        off = raw[inside] - medians(raw)[row]
        effect = node_effects.learned(off, group, node, at, self.effect.shape)
        for g in [g for g in np.unique(group) if (effect[g] != self.effect[g]).any()]:
            moved = effect[g] - self.effect[g]
            self.effect[g], self.moves[g] = effect[g], _Moves()     # they were the node's
            for c in np.flatnonzero(self.group == g):
                self.anchor[c] = np.nan
                of = moved[self.node[c, self.at[c, :self.end[c]]]]
                self.level[c, :self.end[c]] -= of
                self.residual[c, self.begin[c]:self.end[c]] -= of[self.begin[c]:]
                self.x[c] -= moved[self.node[c]]

    def cells(self) -> Cells:
        """Return what is known of each cell after its last night. The level of a slow cell is the one before."""
        noise, many = self.noise, len(self.age)
        row, began = np.arange(many), [*self.began]
        begin, end, since = (each.copy() for each in (self.begin, self.end, self.since))
        for c in self._slow():
            e = self.episode[c]
            begin[c], end[c], (began[c], since[c]) = e.before, e.place, e.began
        nights = end - begin
        value, effect = (np.full(many, np.nan) for _ in range(2))
        width = max(1, min(LEVEL, int(nights.max(initial=1))))
        place = end[:, None] - width + np.arange(width)
        base = medians(np.where(place >= begin[:, None], self.level[row[:, None], np.fmax(place, 0)], np.nan))
        known = np.isfinite(self.x)
        last = self.x.shape[1] - 1 - known[:, ::-1].argmax(axis=1)
        some = known.any(axis=1)
        value[some] = self.x[row, last][some]
        if self.node is not None:
            effect[some] = self.effect[self.group, self.node[row, last]][some]
        surprise = np.where(self.state == SLOW, np.nan, self.surprise)[:, -_WINDOW - 1:-1]
        worst = np.zeros(noise.groups)
        np.fmin.at(worst, self.group, np.nanmin(surprise, axis=1, initial=0))
        new = np.clip(self.end - self.begin, 1, STEPS)
        place = self.end[:, None] - STEPS + np.arange(STEPS)
        now = np.where(place >= self.begin[:, None], self.level[row[:, None], np.fmax(place, 0)], np.nan)
        v = noise.v[row, np.minimum(np.searchsorted(LENGTHS, new), len(LENGTHS) - 1)]
        alone = noise.scale * np.sqrt(1 + BASE / np.clip(nights, 1, LEVEL))
        clear = np.column_stack((noise.bar * alone, np.fmax(noise.bar * alone, -worst[self.group] * noise.scale)))
        visible = self._visible(np.clip(nights, 1, LEVEL))
        return Cells(base, nights, noise.scale, noise.bar, visible, self.low, effect, value, began, since,
                     self.changed, self.change, medians(now), self.at[row, self.begin],
                     noise.scale * np.sqrt(MEDIAN * v / new), clear, self.episode, self.comes)

    def _visible(self, nights: np.ndarray) -> np.ndarray:
        """Return the log of the smallest slowdown that is found within WITHIN nights in four of five cases.

        ``nights``: of the base."""
        noise, v = self.noise, self.noise.v[:, LENGTHS.tolist().index(WITHIN)]
        error = noise.scale * np.sqrt(v / WITHIN * (1 + BASE * WITHIN / nights))
        near = _POWER * np.sqrt(MEDIAN * v / WITHIN) * noise.scale             # of a median of three nights
        least, last = np.full(len(v), EFFECT), self.x.shape[1] - 1
        for c in np.flatnonzero(np.isin(self.group, list(self.moves))):
            least[c] = self._least(int(c), last)
        size = np.fmax((noise.bar + _POWER) * error, np.fmax(least, _TAILS * noise.tail) + near)
        clip = _CLIP * np.sqrt(noise.v[:, 0] * (1 + BASE * LENGTHS[0] / nights)) * noise.scale
        size[clip <= error] = np.inf                                  # so few clipped nights reach no bar
        return np.where((self.age >= FIRST) & np.isfinite(noise.scale), size, np.nan)


def _counted(totals: np.ndarray, ratio: float, rate: float) -> np.ndarray:
    """Return the state of each night of counts, the sums of a night's runs; lower is better.

    Of s + H events, s fall into the last k nights and H into the n nights before. By chance s is binomial with
    k / (k + n). Both are divided by ``ratio``, the variance of like cells' nights over their mean. A night counts
    for no more than chance alone gives once in 1 / rate nights."""
    state = np.full(len(totals), TOO_FEW)
    level, slow, back = list(totals[:COUNTED]), None, 0
    for t in range(COUNTED, len(totals)):
        mean = (sum(level) + .5) / len(level)
        if slow is not None:
            back = back + 1 if totals[t] <= (mean + slow) / 2 else 0
            state[t] = SLOW if back < AFTER else QUIET
            slow = slow if back < AFTER else None
            continue
        level.append(min(totals[t], max(1.0, ratio * scipy.special.pdtrik(1 - rate, mean / ratio))))
        state[t], n = QUIET, len(level)
        k = np.arange(1, STEPS + 1)
        s = np.cumsum(level[:-STEPS - 1:-1])
        rest = sum(level) - s
        p = np.where(s > 0, scipy.special.betainc(np.fmax(s, 1e-9) / ratio, rest / ratio + 1, k / n), 1)
        if (found := np.flatnonzero(p < rate / 3)).size:
            k = int(found[0]) + 1
            state[t], slow, back = SLOW, float(totals[t - k + 1:t + 1].mean()), 0
            del level[-k:]
    return state
