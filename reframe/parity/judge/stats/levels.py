"""The level rule: a series is at a level; a change, up or down, begins another. docs/regression.md describes it.

All values are logarithms, turned so that higher is better. A cell is a series; a group holds like cells.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import median

import numpy as np
import scipy

from parity.judge.stats import counts, rule
from parity.judge.stats.bounds import FIRST
from parity.judge.stats.moves import Moves, begun, spells
from parity.judge.stats.nights import Nights, median_of, medians
from parity.judge.stats.node_effects import Nodes
from parity.judge.stats.noise import Noise, by_chance, rarity
from parity.judge.stats.rule import Cells, Episode, Outcome


def follow(nights: Nights, groups: np.ndarray | None = None, rate: float = rule.RATE,
           events: np.ndarray | None = None, nodes: np.ndarray | None = None, accept_after: int = 0) -> Outcome:
    """Judge every night of every series with what was known on that night.

    ``groups`` [series]: like cells have one number. ``events`` [nights]: one of rule.EVENTS, or ''.
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
    counts.judge(nights, groups, rate, state)
    return Outcome(state, run.wanted[cell, column], run.lone[cell, column], run.usual[cell, column],
                   run.deepest[cell, column], run.cells(), column)


class _Follow:
    """The cells of a table, judged column by column."""

    def __init__(self, nights: Nights, cell: np.ndarray, column: np.ndarray, groups: np.ndarray, rate: float):
        columns = int(column.max(initial=-1)) + 1
        self.first = max(0, columns - rule.MOST)
        self.group = np.unique(groups, return_inverse=True)[1]
        many = len(self.group)
        self.runs, self.again = (np.full((many, columns), np.nan) for _ in range(2))
        self.runs[cell, column], self.again[cell, column] = nights.value, nights.again
        self.runs[nights.counts], self.place = np.nan, (cell, column)
        self.runs[:, :self.first] = np.nan
        self.x = self.runs.copy()                    # as it is judged: with reruns, without the node's effect
        self.noise = Noise(self.group, rate)
        self.state = np.full((many, columns), rule.TOO_FEW, dtype=np.int8)
        # ``normal``: nights of a level, and of what came and went. ``pending``: an event that may begin a level
        self.wanted, self.normal = (np.zeros((many, columns), dtype=bool) for _ in range(2))
        self.usual = np.zeros((many, columns), dtype=bool)
        self.lone, self.deepest = (np.zeros((many, columns), dtype=np.float32) for _ in range(2))
        self.low, self.pending = (np.zeros(many, dtype=bool) for _ in range(2))
        self.surprise = np.full((many, columns), np.nan, dtype=np.float32)    # of the runs alone
        # nights of levels, one after the other, with the column and the residual of each; a level is begin to end
        self.level, self.residual = np.zeros((many, columns + 1)), np.full((many, columns + 1), np.nan)
        self.at = np.zeros((many, columns + 1), dtype=np.int32)
        self.begin, self.end, self.age = (np.zeros(many, dtype=int) for _ in range(3))
        # median of the first HEAD nights of the level; the level before this one, if this one is an improvement
        self.anchor, self.former = (np.full(many, np.nan) for _ in range(2))
        self.episode: dict[int, Episode] = {}
        self.moves = [Moves(max(cells - 1, 3)) for cells in np.bincount(self.group)]       # by group
        self.changed, self.change = np.full(many, -1), [''] * many
        self.began, self.since = [''] * many, np.full(many, -1)
        self.ended = defaultdict(list)               # begin, end and depth of the slowdowns of a cell
        self.comes: dict[int, tuple[int, int]] = {}  # of what comes and goes: spells, and since when
        self.nodes = Nodes(self.group, self.x.shape)
        self.events: dict[int, list[tuple[int, str]]] = {}

    def tell(self, events, nodes) -> None:
        """Take the events and the nodes of the nights."""
        cell, column = self.place
        if events is not None:
            for i in np.flatnonzero(np.asarray(events) != ''):
                self.events.setdefault(int(column[i]), []).append((int(cell[i]), str(events[i])))
        if nodes is not None and len(nodes):
            self.nodes.take(cell, column, nodes)

    def all(self, accept_after: int) -> None:
        measured = np.isfinite(self.runs)
        for t in range(self.first, self.x.shape[1]):
            if not len(here := np.flatnonzero(measured[:, t])):
                continue
            for c, word in self.events.get(t, ()):
                self._event(c, word, t)
            for c, e in self._slow().items() if accept_after else ():
                if measured[c, t] and measured[c, e.detected:t].sum() >= accept_after:
                    self._event(c, 'accepted', t)
            self.age[here] += 1
            n = self.age[here]
            if len(due := here[(n > 8) & ((n % rule.EVERY == 0) | (n <= FIRST + 1))]):
                self._learn(due, t)
            self.x[here, t] = self.runs[here, t] - self.nodes.effects(here, t)
            self._judge(here, t)

    # ---- a night

    def _judge(self, cells: np.ndarray, t: int) -> None:
        noise, n, begin, rows = self.noise, self.end[cells], self.begin[cells], np.arange(len(cells))
        age, s, v, bar = n - begin, noise.scale[cells], noise.v[cells], noise.bar[cells]
        base, nb, gap = self._base(cells)
        some = np.fmax(nb, 1)[:, None]                                # nights of the base
        ready = (self.age[cells] > FIRST) & (nb >= rule.AFTER) & np.isfinite(s)
        tonight = self._rerun(cells, t, base, s * np.sqrt(1 + rule.BASE / some[:, 0]), ready)
        past = self._newest(self.level, cells, begin, n, rule.DRIFTING - 1) - base[:, None]
        r = np.column_stack((np.nan_to_num(past), tonight - base))
        share = rule.BASE * rule.LENGTHS / some                                 # of the base in the variance
        clip = np.where(np.isfinite(bar), rule.CLIP * bar * np.sqrt(v[:, 0] * (1 + share[:, 0])), 99)[:, None]
        total = np.cumsum(np.clip(r / s[:, None], -clip, clip)[:, ::-1], axis=1)[:, rule.LENGTHS - 1]
        enough = (rule.LENGTHS <= age[:, None] + 1) & (rule.LENGTHS - 1 - gap[:, None] <= nb[:, None] / 5)
        z = np.where(enough, total / np.sqrt(rule.LENGTHS * (1 + share)), np.nan)
        drift = self._drift(cells, np.median(r, axis=1) + base, age)
        z = np.column_stack((z, drift / s / np.sqrt(rule.MEDIAN / rule.DRIFTING + rule.MEDIAN / rule.HEAD)))
        wide = (v[:, :-1] + share * np.fmax(v[:, :-1], v[:, -2:-1])) / (1 + share)
        far = z / np.sqrt(np.column_stack((wide, v[:, -1])))
        down, up = (np.where(np.isfinite(far), side * far, -np.inf) for side in (-1, 1))
        down[~(drift < -rule.DRIFT), -1] = up[:, -1] = -np.inf
        k, j = down.argmax(axis=1), up.argmax(axis=1)
        low, high = down[rows, k], up[rows, j]
        residual = r[:, -1] / np.sqrt(1 + rule.MEDIAN / some[:, 0])
        self._append(cells, tonight, t, np.where(nb >= rule.AFTER, residual, np.nan))
        state = np.where(ready, rule.QUIET, rule.TOO_FEW).astype(np.int8)
        due = self.pending[cells] & (t - self.changed[cells] >= rule.PROBATION)
        deep = r[:, -rule.NIGHTS_BACK:].max(axis=1) < -np.fmax(rule.NEWS, rule.CLEAR_OFTEN * s)
        look = ready & ((low > bar) | (high > bar + rule.SURER) | due | deep) | self._among([*self.episode])[cells]
        for i, c in zip(np.flatnonzero(look), cells[look].tolist(), strict=True):
            recurs = deep[i] and c not in self.episode and self._recurs(c, t, base[i])
            worse = (int(k[i]), low[i]) if low[i] > bar[i] else (0, down[i, 0]) if recurs else None
            better = (int(j[i]), high[i]) if high[i] > bar[i] + rule.SURER else None
            state[i] = self._word(c, t, int(state[i]), *((worse, better) if ready[i] else (None, None)), base[i])
        self.normal[cells, t] = ~self._among([*self._slow()])[cells]
        for c in self.comes.keys() & set(cells.tolist()):
            state[cells == c] = self._coming(c, t)
        self.state[cells, t] = state
        self._note_lone(cells, t, base - tonight, some[:, 0])
        self._note_deepest(cells, t)
        quiet = np.isfinite(s) & (nb >= rule.AFTER) & (state != rule.SLOW) & (state != rule.COMES)
        noise.note(cells[quiet], z[quiet])

    def _note_lone(self, cells: np.ndarray, t: int, below: np.ndarray, nights: np.ndarray) -> None:
        """Note how low a night is that chance explains as rarely as an alarm; and where like cells have such
        nights too often for two to mean anything. ``below``: its distance from a level of so many ``nights``.

        Where nothing was run again, no like cell may have had a night as low lately."""
        s = self.noise.scale[cells]
        clear = self.noise.bar[cells] * s * np.sqrt(1 + rule.BASE / nights)
        low = (self.state[cells, t] == rule.QUIET) & (below > clear)
        for i in np.flatnonzero(low):
            c = cells[i]
            like = np.flatnonzero(self.group == self.group[c])
            lately = slice(max(0, t - rule.WINDOW), t)
            quiet = self.state[like, lately] != rule.SLOW
            worst = np.nanmin(np.where(quiet, self.surprise[like, lately], np.nan), initial=0)
            if np.isfinite(self.again[c, t]) or below[i] > -worst * s[i]:
                self.lone[c, t] = below[i]
            before = slice(max(0, t - rule.WINDOW - rule.GOOD_NIGHTS), max(0, t - rule.GOOD_NIGHTS))
            measured = np.isfinite(self.runs[like, before]).sum()
            share = (self.lone[like, before] > 0).sum() / max(measured, 1)
            self.usual[c, t] = rule.GOOD_NIGHTS * share ** 2 > self.noise.rate

    def _note_deepest(self, cells: np.ndarray, t: int) -> None:
        """Note how far the level of the newest nights of a slowdown was below the one before, at most."""
        for c, e in self._slow().items():
            if np.isfinite(self.x[c, t]):
                first = max(self.begin[c], self.end[c] - rule.STEPS)
                level = float(np.median(self.level[c, first:self.end[c]]))
                e.deepest = max(e.deepest, e.base - level)
                self.deepest[c, t] = e.deepest

    def _among(self, cells: list[int]) -> np.ndarray:
        """Return for each cell whether it is one of these (numpy's isin is slow on few)."""
        found = np.zeros(len(self.age), dtype=bool)
        found[cells] = True
        return found

    def _slow(self) -> dict[int, Episode]:
        return {c: e for c, e in self.episode.items() if e.depth < 0}

    def _base(self, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the median of the last LEVEL nights of the level, how many these are, and the nights left out."""
        n, begin = self.end[cells], self.begin[cells]
        gap = np.minimum(rule.GAP, (n - begin) // 3)
        width = max(1, min(rule.LEVEL, int((n - begin - gap).max(initial=1))))
        nb = np.minimum(n - begin - gap, width)
        values = self._newest(self.level, cells, begin, n - gap, width)
        if len(nb) and nb.min() == width:
            values.partition([(width - 1) // 2, width // 2], axis=1)
        else:
            values.sort(axis=1)
        return median_of(values, nb), nb, gap

    def _rerun(self, cells, t, base, error, ready) -> np.ndarray:
        """Return tonight's values; where a low night was run again, with its reruns."""
        tonight, again = self.x[cells, t], self.again[cells, t]
        u, before = (tonight - base) / error, self.surprise[cells, max(0, t - rule.WINDOW):t]
        rare = (before < u[:, None]).sum(axis=1) <= rule.RERUN * np.isfinite(before).sum(axis=1)
        low = ready & (u < rule.LOW) & rare
        self.surprise[cells, t] = np.where(ready, u, np.nan)
        self.wanted[cells, t], self.low[cells] = low, low & np.isnan(again)
        again = again - self.nodes.effects(cells, t)
        self.x[cells, t] = np.where(low & np.isfinite(again), again, tonight)
        return self.x[cells, t]

    def _drift(self, cells, newest, age) -> np.ndarray:
        """Return by how much the newest nights are above the first ones of their level, NaN where it is young."""
        new = cells[(age >= rule.HEAD) & np.isnan(self.anchor[cells])]
        first = self.begin[new][:, None] + np.arange(rule.HEAD)
        self.anchor[new] = np.median(self.level[new[:, None], first], axis=1)
        return np.where(age >= 2 * rule.HEAD, newest - self.anchor[cells], np.nan)

    def _append(self, cells, value, t, residual) -> None:
        n = self.end[cells]
        self.level[cells, n], self.at[cells, n], self.residual[cells, n] = value, t, residual
        self.end[cells] = n + 1

    def _word(self, c: int, t: int, state: int, worse: tuple | None, better: tuple | None, base: float) -> int:
        """Return the state of a night on which something may have changed.

        ``worse``, ``better``: the length, of LENGTHS, that shows it, and the statistic; None: nothing does."""
        e = self.episode.get(c)
        if e and (self._small(c, e) if e.depth < 0 else e.proved(self.end[c])):
            del self.episode[c]
            e = None
        if e:
            newest = self.level[c, max(e.place, self.end[c] - rule.NIGHTS_BACK):self.end[c]]
            back = (newest - e.base) / e.depth < 0.5
            if len(back) == rule.NIGHTS_BACK and back.all() or e.depth > 0 and worse or \
                    e.depth < 0 and back[-1] and self._well(c, e, t):
                self._back(c, e, t, rule.NIGHTS_BACK if e.depth > 0 or back.all() else 1)
                return rule.QUIET
        if self.pending[c] and t - self.changed[c] >= rule.PROBATION:        # nothing was found
            self.pending[c] = False
            first = self.begin[c] + int((self.at[c, self.begin[c]:self.end[c]] < self.changed[c]).sum())
            if not e and not worse and self.end[c] - first > rule.PROBATION / 2:
                self._start(c, first, self.change[c])
        if worse:
            self._slower(c, t, *worse, base)
        elif better and not (e and e.depth > 0):
            self._faster(c, t, *better, base)
        if not (e := self.episode.get(c)):
            return state
        if e.depth > 0:
            return rule.FAST
        return rule.SLOW if self._slow_tonight(c, e) else rule.GOING

    def _small(self, c: int, e: Episode) -> bool:
        """Return whether a slowdown is none: DRIFTING of its nights, or more, are in the median not EFFECT low."""
        nights = self.level[c, e.place:self.end[c]].tolist()
        return len(nights) >= rule.DRIFTING and median(nights) - e.base > -rule.EFFECT and c not in self.comes

    def _well(self, c: int, e: Episode, t: int) -> bool:
        """Return whether a good night ends a slowdown alone: run again, it is clear of the slow level."""
        self.wanted[c, t], self.low[c] = True, np.isnan(self.again[c, t])
        again = self.again[c, t] - self.nodes.effects(c, t)
        return bool(again - e.base - e.depth > self.noise.bar[c] * self.noise.scale[c])

    def _coming(self, c: int, t: int) -> int:
        """Return the state of a night of a cell that comes and goes, until GOOD_NIGHTS nights were good."""
        ended = max((end for _, end, _ in self.ended.get(c, ())), default=-1)
        e, n = self.episode.get(c), self.end[c]
        good = rule.NIGHTS_BACK + int((self.at[c, max(0, n - rule.GOOD_NIGHTS):n] > ended).sum())
        if not e and good > rule.GOOD_NIGHTS:
            del self.comes[c]
            return rule.QUIET
        return rule.COMES if e and self._slow_tonight(c, e) else rule.GOING

    def _slow_tonight(self, c: int, e: Episode) -> bool:
        return (self.level[c, self.end[c] - 1] - e.base) / e.depth >= 0.5

    def _slower(self, c: int, t: int, k: int, size: float, base: float) -> None:
        """Begin a level, if the last nights are a slowdown; also where the cell is slow already."""
        drift, e, x = k == len(rule.LENGTHS), self.episode.get(c), self.level[c, self.begin[c]:self.end[c]]
        many, base = (rule.DRIFTING, float(self.anchor[c])) if drift else (int(rule.LENGTHS[k]), base)
        depth = (at := median(x[-many:].tolist())) - base
        if depth >= -self.moves[self.group[c]].least(c, t) or x[-1] - base >= depth / 2:
            return
        if (e or not self._recurs(c, t, base)) and self._chance(c, base, depth, drift):
            return
        if e:
            e.detected, e.nights, e.size, e.depth = t, many * (not drift), size, at - e.base
        else:
            if len(begun := self._spells(c, t, base, depth)[0]) >= rule.COMING - 1:
                self.comes[c] = len(begun) + 1, begun[0]
            place, again = int(self.end[c]) - many, abs(at - self.former[c]) < -depth / 2
            self.episode[c] = Episode(
                int(self.at[c, place]), t, many * (not drift), base, depth, size, int(self.begin[c]), place,
                (self.began[c], int(self.since[c])), int(self.since[c]) if again else -1)
        self.normal[c, self.episode[c].begin:t] = False
        self.moves[self.group[c]].add(t, c, abs(depth))
        self._start(c, int(self.end[c]) - many, '')

    def _recurs(self, c: int, t: int, base: float) -> bool:
        """Return whether the newest nights are a further spell: the third, or the fifth if none was found."""
        newest = self.level[c, self.end[c] - rule.NIGHTS_BACK:self.end[c]] - base
        begun, often = self._spells(c, t, base, newest.mean())
        clear = max(rule.NEWS, (rule.CLEAR_OFTEN if often else rule.CLEAR) * self.noise.scale[c])
        return newest.max() < -clear and len(begun) >= (rule.COMING if c in self.ended else rule.UNSEEN) - 1

    def _spells(self, c: int, t: int, base: float, depth: float) -> tuple[list[int], bool]:
        place = np.arange(max(0, self.end[c] - rule.MOVES), self.end[c])
        x = np.where(place < self.begin[c], self.residual[c, place], self.level[c, place] - base)
        return spells(self.ended.get(c, ()), x, self.at[c, place], t, depth)

    def _faster(self, c: int, t: int, k: int, size: float, base: float) -> None:
        """Begin a level, if the last nights are an improvement; of a slow cell it is a part of the way back."""
        many, e, x = int(rule.LENGTHS[k]), self.episode.get(c), self.level[c, self.begin[c]:self.end[c]]
        at = median(x[-many:].tolist())
        depth, place = at - base, int(self.end[c]) - many
        if depth <= rule.BETTER or x[-1] - base <= depth / 2 or len(x) - many < rule.AFTER:
            return
        if e:
            e.depth = at - e.base
            self._start(c, place, '')
            return
        self.moves[self.group[c]].add(t, c, depth)
        self.episode[c] = Episode(int(self.at[c, place]), t, many, base, depth, size, int(self.begin[c]), place,
                                  (self.began[c], int(self.since[c])))
        self._start(c, place, 'improved')
        self.former[c] = base

    def _chance(self, c: int, base: float, depth: float, drift: bool) -> bool:
        """May the low nights be chance, as rare as such nights were before?"""
        begin, end, s = self.begin[c], self.end[c], self.noise.scale[c]
        low = (self.level[c, max(begin, end - rule.STEPS):end] < base + depth / 2)[::-1]
        past = self.level[c, begin:begin + rule.HEAD] - base if drift else \
            self._past(c, end - int(np.append(low, False).argmin()))
        share = ((past < depth / 2).sum() + 0.5) / (len(past) + 1)
        if by_chance(low, share) <= max(self.noise.rate, rule.CHANCE):
            return False
        clip = rule.CLIP * self.noise.bar[c] * np.sqrt(self.noise.v[c, 0])
        bar = -scipy.special.ndtri(rule.LARGE * min(self.noise.rate, rule.RATE))
        for k in () if drift else rule.LENGTHS[rule.LENGTHS <= end - begin]:
            mean = np.clip((self.level[c, end - k:end] - base) / s, -clip, clip).mean()
            if mean < 0 and rarity(np.clip(self._past(c, end - k) / s, -clip, clip), mean, k) > bar:
                return False
        return True

    def _past(self, c: int, until: int) -> np.ndarray:
        """Return the residuals of the newest nights before place ``until``."""
        past = self.residual[c, max(0, until - rule.MEMORY):until]
        return past[np.isfinite(past)]

    # ---- levels

    def _start(self, c: int, first: int, word: str) -> None:
        """Begin a level with the night at place ``first``."""
        self.begin[c], self.anchor[c], self.former[c] = first, np.nan, np.nan
        self.began[c], self.since[c] = word, self.at[c, first]
        self.residual[c, first:self.end[c]] = np.nan

    def _back(self, c: int, e: Episode, t: int, stay: int) -> None:
        """End an episode: its last ``stay`` nights belong to the level before, the others to none."""
        end = self.end[c]
        stay = min(stay, int(end) - e.place)
        slow = self.at[c, e.place:end - stay].copy()
        for table in (self.level, self.at):
            table[c, e.place:e.place + stay] = table[c, end - stay:end].copy()
        self.residual[c, e.place:end] = np.nan
        self.begin[c], self.end[c], self.anchor[c] = e.before, e.place + stay, np.nan
        self.began[c], self.since[c] = e.began
        del self.episode[c]
        self.normal[c, e.begin:t] = True
        if e.depth < 0:
            self.ended[c].append((e.begin, t, e.depth))
            self.normal[c, slow] = self.nodes.on_one(c, slow)

    def _event(self, c: int, word: str, t: int) -> None:
        """Begin a level with what the cell measures since a slowdown, or now; or note that one may begin."""
        if word in rule.MAY:
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
        self._start(c, max(self.begin[c], self.end[c] - rule.STEPS * (word == 'accepted')), word)
        if self.begin[c] == self.end[c]:
            self.since[c] = t

    # ---- what is learned

    def _learn(self, cells: np.ndarray, t: int) -> None:
        begin = self.begin[cells]
        fresh = cells[(self.end[cells] - begin >= rule.DRIFTING) & np.isnan(self.residual[cells, begin])]
        if len(fresh):                               # the first nights of a level had no base yet
            place = fresh[:, None], self.begin[fresh][:, None] + np.arange(rule.DRIFTING)
            off = self.level[place] - np.median(self.level[place], axis=1)[:, None]
            off /= np.sqrt(1 - np.fmin(0.5, self.noise.v[fresh, -2] / rule.DRIFTING))[:, None]
            self.residual[place] = np.where(np.isnan(self.residual[place]), off, self.residual[place])
        end = self.end[cells] - rule.NEWEST * (self.end[cells] >= 12)
        self.noise.learn(cells, self._newest(self.residual, cells, np.zeros_like(end), end, rule.MEMORY))
        if self.nodes.several:
            self._nodes(cells, t)

    @staticmethod
    def _newest(table: np.ndarray, cells: np.ndarray, begin: np.ndarray, end: np.ndarray, many: int) -> np.ndarray:
        """Return the newest nights of the cells before ``end``, the newest last; NaN before ``begin``."""
        place = end[:, None] - many + np.arange(many)
        return np.where(place >= begin[:, None], table[cells[:, None], np.fmax(place, 0)], np.nan)

    def _nodes(self, cells: np.ndarray, t: int) -> None:
        """Learn which nodes are slower, or faster, than the others, from the newest nights of the groups of cells.

        A cell that was on one node only says nothing."""
        due = np.zeros(self.noise.groups, dtype=bool)
        due[self.group[cells]] = True
        mine = np.flatnonzero(due[self.group] & (self.end > self.begin) & ~self._among([*self._slow()]))
        mine = mine[np.argsort(self.group[mine], kind='stable')]
        newest = slice(max(0, t - rule.MOVES), t)
        inside = np.arange(newest.start, t) >= self.at[mine, self.begin[mine]][:, None]
        x = np.where(inside & self.normal[mine, newest], self.x[mine, newest], np.nan)
        for g, moved in self.nodes.learn(mine, newest, x):
            self.moves[g].forget()                   # they were the node's
            for c in np.flatnonzero(self.group == g):
                self.anchor[c] = np.nan
                of = moved[self.nodes.number[c, self.at[c, :self.end[c]]]]
                self.level[c, :self.end[c]] -= of
                self.residual[c, self.begin[c]:self.end[c]] -= of[self.begin[c]:]
                self.x[c] -= moved[self.nodes.number[c]]

    def cells(self) -> Cells:
        """Return what is known of each cell after its last night. The level of a slow cell is the one before."""
        noise, row, began = self.noise, np.arange(len(self.age)), [*self.began]
        begin, end, since = (each.copy() for each in (self.begin, self.end, self.since))
        for c, e in self._slow().items():
            begin[c], end[c], (began[c], since[c]) = e.before, e.place, e.began
        nights = end - begin
        base = medians(self._newest(self.level, row, begin, end, rule.LEVEL))
        known, (last_good, first_slow) = np.isfinite(self.x), np.full((2, len(row)), -1)
        last = self.x.shape[1] - 1 - known[:, ::-1].argmax(axis=1)
        low = np.flatnonzero(self.x[row, last] < base)
        x, at = (self._newest(of, low, begin[low], self.end[low], rule.LEVEL) for of in (self.level, self.at))
        last_good[low], first_slow[low] = begun(x - base[low, None], at, noise.scale[low] * noise.v[low, -2] ** .5)
        effect = np.where(known.any(axis=1) & self.nodes.several, self.nodes.effects(row, last), np.nan)
        new = np.clip(self.end - self.begin, 1, rule.STEPS)
        now = self._newest(self.level, row, self.begin, self.end, rule.STEPS)
        v = noise.v[row, np.minimum(np.searchsorted(rule.LENGTHS, new), len(rule.LENGTHS) - 1)]
        least = [self.moves[g].least(c, self.x.shape[1] - 1) for c, g in enumerate(self.group)]
        seen = noise.visible(np.clip(nights, 1, rule.LEVEL), np.array(least))
        return Cells(base, nights, noise.scale, noise.bar, np.where(self.age < FIRST, np.nan, seen), self.low,
                     effect, self.x[row, last], began, since, self.changed, self.change, medians(now),
                     self.at[row, self.begin], noise.scale * np.sqrt(rule.MEDIAN * v / new), last_good, first_slow,
                     self.episode, self.comes)
