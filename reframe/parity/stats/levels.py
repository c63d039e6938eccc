"""The level rule: one Gaussian model of a level, one statistic, one bar. docs/regression.md describes it.

All values are logarithms, turned so that higher is better. A cell is a series; a group holds like cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from scipy.special import betainc, pdtrik

from parity.stats.bounds import FIRST
from parity.stats.nights import Nights, median
from parity.stats.noise import STEPS, WINDOW, Noise, clean

#: The state of a night.
TOO_FEW, QUIET, SLOW, FAST = -1, 0, 1, 2
#: New false alarms a cell-night: one a month on a system of a hundred cells.
RATE = 1 / 3000
#: The smallest slowdown that shows is one that is found within so many nights in four of five cases.
WITHIN, _POWER = 3, 0.8416

#: What may happen to a cell: a new level begins there, or may.
EVENTS = ('accepted', 'acked', 'software')

# What the constants were chosen on: docs/regression.md.
#: Nights of a cell whose group is judged already, and of a level after an event, before it is judged.
YOUNG, AFTER = 20, 4
#: The noise is learned anew every so many nights; only the newest MOST nights are judged.
EVERY, MOST = 10, 2000
#: The smallest slowdown of interest, and the smallest drift.
EFFECT, DRIFT = 0.01, 0.02
#: A drift beyond so many standard deviations may be one: its nights say nothing of the noise.
_DRIFTS = 3.0
#: A rerun is wanted at a lower surprise than this, in standard deviations, and among so many of the lowest nights.
LOW, RERUN = -1.75, 0.04
#: An improvement must be surer than a slowdown by so much, and is on probation for so many nights.
SURER, PROBATION = 0.6, 10
#: The noise of a level is that of its first nights: later ones may drift. Former levels that count.
_FROZEN, _FORMER = 60, 3
#: A node is slower than others from this effect and so many standard errors on; n nights shrink it by n / (n + 2).
_NODE, _SURE = 0.01, 3.0


@dataclass
class Episode:
    """A slowdown, or an improvement that is on probation."""

    begin: int               # its first night, a column
    found: int               # the night on which it was found
    nights: int              # that the statistic looked at; 0: a drift
    base: float              # the level before, log
    depth: float             # change of the log, below 0 for slower
    size: float              # the statistic
    back: int = 0            # nights in a row that are back
    kept: tuple = ()         # of an improvement: where the level before begins


@dataclass
class Cells:
    """The state of each cell after its last night. Logarithms, oriented."""

    base: np.ndarray          # median of the level
    nights: np.ndarray        # length of the level
    scale: np.ndarray         # standard deviation of a night
    bar: np.ndarray
    visible: np.ndarray       # log of the smallest slowdown that would show; NaN: not judged
    low: np.ndarray           # bool: the last night is low, and was not run again
    node: np.ndarray          # effect of the last night's node, where it is known
    value: np.ndarray         # of the last night
    began: list[str]          # the event that began the level
    since: np.ndarray         # its column
    software: np.ndarray      # column of the newest change of software, -1: none
    clear: np.ndarray         # log [STEPS]: so far below a true level the mean of 1 to STEPS nights is no chance
    last: np.ndarray          # values of the last STEPS nights
    lasting: dict[int, Episode] = field(default_factory=dict)


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

    ``groups`` [series]: like cells have one number. ``events`` [nights]: accepted, acked, software or ''.
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
        heads = [head for here in like if len(head := nights.total[here][:FIRST]) > 1]
        over = sum(head.var(ddof=1) for head in heads) / max(sum(head.mean() for head in heads), 1e-9)
        for here in like:
            state[here] = _counted(nights.total[here], max(1.0, over), rate)
    return Outcome(state, run.wanted[cell, column], run.cells(), column)


class _Follow:
    """The cells of a table, judged column by column."""

    def __init__(self, nights: Nights, cell: np.ndarray, column: np.ndarray, groups: np.ndarray, rate: float):
        columns = int(column.max(initial=-1)) + 1
        self.first = max(0, columns - MOST)
        _, group = np.unique(groups, return_inverse=True)
        many = len(group)
        self.runs, self.again = (np.full((many, columns), np.nan) for _ in range(2))
        self.runs[cell, column], self.again[cell, column] = nights.value, nights.again
        self.runs[nights.counts], self.place = np.nan, (cell, column)
        self.runs[:, :self.first] = np.nan
        self.x = self.runs.copy()                    # as it is judged: with reruns, without the node's effect
        self.noise = Noise(group, columns, rate)
        self.state = np.full((many, columns), TOO_FEW, dtype=np.int8)
        self.wanted = np.zeros((many, columns), dtype=bool)
        self.age = np.zeros(many, dtype=int)         # nights so far
        self.judged = np.zeros(many, dtype=bool)
        # the level: nights begin[c] to end[c] of these, with the column of each
        self.level, self.u = np.zeros((many, columns)), np.zeros((many, columns))
        self.at = np.zeros((many, columns), dtype=np.int32)
        self.begin, self.end = np.zeros(many, dtype=int), np.zeros(many, dtype=int)
        self.part = np.full((many, columns), -1, dtype=np.int32)      # the level that a night's noise belongs to
        self.number = np.zeros(many, dtype=int)
        self.episode: dict[int, Episode] = {}
        self.gone: dict[int, list] = {}              # what came and went by itself, by group
        self.soft, self.began, self.since = np.full(many, -1), [''] * many, np.full(many, -1)
        self.pending = np.zeros(many, dtype=bool)    # a change of software that may begin a level
        self.known = np.zeros(self.noise.many, dtype=int)             # nights that a group's noise is learned from
        self.anchor = np.full(many, np.nan)          # mean of the level's first nights
        self.low = np.zeros(many, dtype=bool)
        self.surprise = np.full((many, columns), np.nan, dtype=np.float32)    # of the runs alone, by column
        self.node, self.effect = None, None
        self.told: dict[int, list[tuple[int, str]]] = {}

    def tell(self, events, nodes) -> None:
        """Take the events and the nodes of the nights."""
        cell, column = self.place
        if events is not None:
            for i in np.flatnonzero(np.asarray(events) != ''):
                self.told.setdefault(int(column[i]), []).append((int(cell[i]), str(events[i])))
        if nodes is not None and len(nodes) and (many := int(np.max(nodes)) + 1) > 1:
            self.node = np.full(self.x.shape, -1, dtype=np.int32)
            self.node[cell, column] = nodes
            self.effect = np.zeros((self.noise.many, many + 1))       # the last one: not known

    def all(self, accept_after: int) -> None:
        group, noise = self.noise.group, self.noise
        measured = np.isfinite(self.runs)
        for t in range(self.first, self.x.shape[1]):
            here = np.flatnonzero(measured[:, t])
            if not len(here):
                continue
            oldest = np.zeros(noise.many, dtype=int)
            np.maximum.at(oldest, group[here], self.age[here])
            young = np.isin(np.arange(noise.many), group[here[self.age[here] == YOUNG]])
            due = np.flatnonzero((oldest >= FIRST) & ((oldest % EVERY == 0) | young))
            if len(due):
                self._learn(due, t)
            for c, word in self.told.get(t, ()):
                self._event(c, word, t)
            for c, e in list(self.episode.items()) if accept_after else ():
                if e.depth < 0 and not e.back and measured[c, t] and measured[c, e.found:t].sum() >= accept_after:
                    self._event(c, 'accepted', t)
            if self.node is not None:
                self.x[here, t] = self.runs[here, t] - self.effect[group[here], self.node[here, t]]
            self.age[here] += 1
            self._night(here, t)

    def _night(self, here: np.ndarray, t: int) -> None:
        self.low[here] = False
        ready = self.judged[here] & self.noise.ready[self.noise.group[here]]
        slow = np.array([c in self.episode and self.episode[c].depth < 0 for c in here]) if self.episode else \
            np.zeros(len(here), dtype=bool)
        for c in here[ready & slow]:
            self.state[c, t] = self._slow(int(c), t)
        few = ~slow & (~ready | (self.end - self.begin < AFTER)[here])
        self._keep(here[few], self.x[here[few], t], 0.0, t)
        self.state[[c for c in here[few] if c in self.episode], t] = FAST
        if len(rest := here[ready & ~slow & ~few]):
            self._judge(rest, t)

    def _keep(self, cells, value, surprise, t: int) -> None:
        n = self.end[cells]
        self.level[cells, n], self.u[cells, n], self.at[cells, n] = value, surprise, t
        self.end[cells], self.part[cells, t] = n + 1, self.number[cells]

    def _append(self, c: int, columns: np.ndarray) -> None:
        for column in columns:
            self._keep(np.array([c]), self.x[c, column], 0.0, int(column))

    # ---- a night of cells that are not slow

    def _judge(self, cells: np.ndarray, t: int) -> None:
        noise, g = self.noise, self.noise.group[cells]
        s, df, bar, edge = noise.scale[cells], noise.df[cells], noise.bar[g], noise.edge(cells)
        n, age = self.end[cells], (self.end - self.begin)[cells]
        i = np.minimum(age, noise.width - 1)
        last = noise.width - 1
        back = n[:, None] - last + np.arange(last)                    # the nights that the prediction may use
        p = i[:, None] - last + 1 + np.arange(last)
        row = noise.steps[g[:, None], i[:, None], np.fmax(p, 0)] * (p > 0)
        past = self.level[cells[:, None], np.fmax(back, 0)]
        known = (row[:, :-1] * np.diff(past, axis=1)).sum(axis=1)
        unit = noise.steps[g, i, i]                                   # of a surprise, for tonight's value
        tonight = self.x[cells, t]
        u = (known + unit * (tonight - past[:, -1])) / s
        again = self.again[cells, t]
        before = self.surprise[cells, max(0, t - WINDOW):t]
        low = (u < LOW) & ((before < u[:, None]).sum(axis=1) <= RERUN * np.isfinite(before).sum(axis=1))
        self.surprise[cells, t] = u
        self.wanted[cells, t], self.low[cells] = low, low & np.isnan(again)
        if (use := low & np.isfinite(again)).any():
            better = again if self.node is None else again - self.effect[g, self.node[cells, t]]
            tonight = np.where(use, better, tonight)
            self.x[cells, t] = tonight
            u = (known + unit * (tonight - past[:, -1])) / s
        beyond = np.sign(u) * np.fmax(0, np.abs(u) - edge)
        cut = beyond * s / unit
        window = self.u[cells[:, None], np.fmax(n[:, None] - STEPS + 1 + np.arange(STEPS - 1), 0)] / s[:, None]
        window = np.column_stack((np.clip(window, -edge[:, None], edge[:, None]), u - beyond))
        z = np.einsum('bkj,bj->bk', noise.directions(g, i)[0], window)
        drift = self._drift(cells, tonight - cut, s, age)
        down = np.column_stack((drift, z))
        worst, best = down.argmin(axis=1), z.argmax(axis=1) + 1
        rows = np.arange(len(cells))
        m_down, m_up = (noise.normal(v, df) for v in (-down[rows, worst], z[rows, best - 1]))
        self._keep(cells, tonight - cut, (u - beyond) * s, t)
        quiet = np.ones(len(cells), dtype=bool)
        state = np.zeros(len(cells), dtype=np.int8)
        special = (m_down > bar) | ((m_up > bar + SURER) & (best >= 2)) | \
            (self.pending & (t - self.soft >= STEPS))[cells]
        if self.episode:
            special |= np.array([c in self.episode for c in cells])
        for r in np.flatnonzero(special):
            state[r] = self._word(int(cells[r]), m_down[r], int(worst[r]), m_up[r], int(best[r]), float(bar[r]), t)
            quiet[r] = state[r] == QUIET
        self.state[cells, t] = state
        quiet &= drift > -_DRIFTS
        noise.note(g[quiet], noise.normal(-z.min(axis=1), df)[quiet], t)

    def _drift(self, cells, tonight, s, age) -> np.ndarray:
        """Return by how much the last nights are below the first ones of their level, in standard deviations."""
        drift = np.zeros(len(cells))
        old = np.flatnonzero(age >= FIRST + STEPS + 5)
        if not len(old):
            return drift
        c = cells[old]
        for k in c[np.isnan(self.anchor[c])]:
            self.anchor[k] = self.level[k, self.begin[k]:self.begin[k] + FIRST].mean()
        ten = self.level[c[:, None], self.end[c][:, None] - STEPS + 1 + np.arange(STEPS - 1)].sum(axis=1)
        moved = (ten + tonight[old]) / STEPS - self.anchor[c]
        far = moved / s[old] / self.noise.drift(self.noise.group[c], age[old] + 1)
        drift[old] = np.where(moved < -DRIFT, far, 0)
        return drift

    def _word(self, c: int, down: float, nights: int, up: float, best: int, bar: float, t: int) -> int:
        episode = self.episode.get(c)
        if episode:                                   # improved not long ago: is it back where it was?
            new, old = episode.base + episode.depth, episode.base
            near = all(abs(v - old) < abs(v - new) for v in self.x[c, self.at[c, self.end[c] - 2:self.end[c]]])
            if self.end[c] - self.begin[c] > PROBATION + 3:
                del self.episode[c]
            elif down > bar or near:
                self._back_to(c, episode)
                return QUIET
            else:
                return FAST
        if self.pending[c] and t - self.soft[c] >= STEPS:       # new software, and nothing was found
            self.pending[c] = False
            first = self.begin[c] + int((self.at[c, self.begin[c]:self.end[c]] < self.soft[c]).sum())
            if self.end[c] - first > STEPS // 2 and down <= bar:
                self._start(c, first, 'software', self.soft[c])
        raw = self.x[c, self.at[c, self.begin[c]:self.end[c]]]
        if down > bar:
            k = nights or STEPS
            base = np.median(raw[:-k][-_FROZEN:] if nights else raw[:FIRST])
            mean = raw[-k:].mean()
            if mean - base < -EFFECT and raw[-1] - base < (mean - base) / 2:
                first = int(self.at[c, self.end[c] - k])
                self.episode[c] = Episode(first, t, nights, base, mean - base, down)
                self.part[c, first:t + 1] = -1
                self.end[c] -= k
                return SLOW
        if up > bar + SURER and best >= 2 and len(raw) - best >= 8:
            base, mean = np.median(raw[:-best][-_FROZEN:]), raw[-best:].mean()
            if mean - base > EFFECT and raw[-1] - base > (mean - base) / 2:
                first = self.end[c] - best
                since = int(self.at[c, first])
                self.episode[c] = Episode(since, t, best, base, mean - base, up, kept=(
                    self.begin[c], self.began[c], self.since[c]))
                self._start(c, first, 'improved', since)
                return FAST
        return QUIET

    def _start(self, c: int, first: int, word: str, since: int) -> None:
        """Begin a level with the night at place ``first``."""
        self.begin[c], self.anchor[c] = first, np.nan
        self.began[c], self.since[c] = word, since
        self.number[c] += 1
        self.part[c, self.at[c, first:self.end[c]]] = self.number[c]
        self.level[c, first:self.end[c]] = self.x[c, self.at[c, first:self.end[c]]]
        self._again(np.array([c]))

    def _again(self, cells: np.ndarray) -> None:
        """Work out the surprises of whole levels anew."""
        group, length = self.noise.group[cells], (self.end - self.begin)[cells]
        for g, n in set(zip(group.tolist(), length.tolist(), strict=True)):
            mine = cells[(group == g) & (length == n)]
            where = self.begin[mine][:, None] + np.arange(n)
            if n and self.noise.ready[g]:
                self.u[mine[:, None], where] = self.noise.surprises(g, self.level[mine[:, None], where])

    def _back_to(self, c: int, episode: Episode) -> None:
        """Take back an improvement: its nights join the level before, pulled to it."""
        begin, self.began[c], self.since[c] = episode.kept
        where = slice(self.begin[c], self.end[c])
        old = np.median(self.x[c, self.at[c, begin:self.begin[c]][-FIRST:]])
        self.level[c, where] = np.clip(self.x[c, self.at[c, where]], old - episode.depth, old + episode.depth)
        self.begin[c], self.anchor[c] = begin, np.nan
        del self.episode[c]
        self._again(np.array([c]))

    # ---- a night of a slow cell

    def _slow(self, c: int, t: int) -> int:
        """An episode ends with two nights that are nearer to the level. One that comes and goes twice is noise."""
        episode = self.episode[c]
        if not self.x[c, t] - episode.base > episode.depth / 2:
            episode.back = 0
            return SLOW
        episode.back += 1
        if episode.back < 2:
            return QUIET
        del self.episode[c]
        columns = episode.begin + np.flatnonzero(np.isfinite(self.x[c, episode.begin:t + 1]))
        self._came_and_went(c, episode, columns[:-2])
        self._append(c, columns[-2:])
        self._again(np.array([c]))
        return QUIET

    def _came_and_went(self, c: int, episode: Episode, columns: np.ndarray) -> None:
        """Once is an event, twice is noise: note what the statistic was."""
        g, noise = int(self.noise.group[c]), self.noise
        self.part[c, columns] = self.number[c]
        each = np.minimum(-episode.depth / noise.scale[c], noise.edge(np.array([c]))[0])
        self.gone.setdefault(g, []).append((each * np.sqrt(np.arange(1, min(len(columns), STEPS) + 1)), columns))
        if len(self.gone[g]) > 1:
            for found, when in self.gone[g]:
                noise.note(np.full(len(found), g), found, when[:STEPS])
            self.gone[g] = [(np.empty(0), columns)]

    # ---- what a group learns

    def _learn(self, groups: np.ndarray, t: int) -> None:
        group, noise = self.noise.group, self.noise
        cells = np.flatnonzero(np.isin(group, groups))
        if self.effect is not None:
            self._nodes(cells, t)
        segments = list(self._segments(cells, t))
        known = np.zeros(noise.many, dtype=int)
        for owner, x in segments:
            np.add.at(known, group[owner], x.shape[1] * (self.number[owner] + 1))
        changed = groups[known[groups] != self.known[groups]]
        self.known[groups] = known[groups]
        if len(changed):
            fresh = changed[~noise.ready[changed]]
            noise.fit(changed, segments)
            mine = cells[np.isin(group[cells], changed)]
            young = mine[~self.judged[mine] & (self.age[mine] >= YOUNG)]
            for n in np.unique(length := (self.end - self.begin)[young]):
                some = young[length == n][:, None]
                where = self.begin[some] + np.arange(n)
                self.level[some, where] = clean(self.level[some, where])
            self._again(mine)
            if len(fresh):
                self._past(fresh, young[np.isin(group[young], fresh)])
            self.judged[young] = True
        noise.set_bars(groups)

    def _segments(self, cells: np.ndarray, t: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the first nights of the levels of ``cells``, the newest level and _FORMER before it."""
        for back in range(_FORMER + 1):
            inside = self.part[cells, :t] == np.where(self.number >= back, self.number - back, -2)[cells, None]
            count = np.minimum(inside.sum(axis=1), _FROZEN)
            for n in np.unique(count[count >= 8]):
                some = np.flatnonzero(count == n)
                column = np.argsort(~inside[some], axis=1, kind='stable')[:, :n]
                yield cells[some], self.x[cells[some, None], column]

    def _past(self, groups: np.ndarray, cells: np.ndarray) -> None:
        """Note the statistic on the nights that are history. The clip follows the bar: until they agree."""
        noise, first = self.noise, 12
        cells = cells[(self.end - self.begin)[cells] >= FIRST]
        if not len(cells):
            return
        last = min(FIRST, noise.width)
        j = np.arange(first, last)
        found = []
        for some in np.array_split(cells, max(1, len(cells) // 2000)):
            g = noise.group[some]
            b = self.begin[some][:, None]
            u = self.u[some[:, None], b + np.arange(last)]
            raw = self.x[some[:, None], self.at[some[:, None], b + np.arange(last)]]
            unit = noise.steps[g][:, np.arange(last), np.arange(last)]
            tonight = u + unit * (raw - self.level[some[:, None], b + np.arange(last)])
            where = some[:, None], self.at[some[:, None], b + j]
            self.surprise[where] = (tonight / noise.scale[some][:, None])[:, first:]
            found.append((some, u, tonight))
        unique, which = np.unique(noise.group[cells], return_inverse=True)
        d = noise.directions(np.repeat(unique, len(j)), np.tile(j, len(unique)))[0].astype(np.float32)
        d = d.reshape(len(unique), len(j), STEPS, STEPS)
        was = noise.total.copy(), noise.over.copy(), noise.excess.copy()
        for _ in range(4):
            noise.total, noise.over, noise.excess = (each.copy() for each in was)
            before, done = noise.bar[groups].copy(), 0
            for some, u, tonight in found:
                s, edge = noise.scale[some][:, None], noise.edge(some)[:, None]
                cut, now = (np.clip(each / s, -edge, edge).astype(np.float32) for each in (u, tonight))
                windows = np.lib.stride_tricks.sliding_window_view(cut, STEPS, axis=1)[:, first - STEPS + 1:]
                windows = np.concatenate((windows[:, :, :-1], now[:, first:, None]), axis=2)
                z = np.einsum('cikj,cij->cik', d[which[done:done + len(some)]], windows)
                done += len(some)
                m = noise.normal(-z.min(axis=2).astype(float), noise.df[some][:, None])
                noise.note(np.repeat(noise.group[some], len(j)), m.ravel(), np.tile(j, len(some)))
            noise.set_bars(groups)
            if (noise.bar[groups] - before).max() < .1:
                break

    def _nodes(self, cells: np.ndarray, t: int) -> None:
        """Learn which nodes are slower, or faster, than others, from nights before the last STEPS. A cell that was
        on one node only says nothing."""
        until, many = t - STEPS, self.effect.shape[1]
        node, g = self.node[cells, :until], self.noise.group[cells]
        inside = (self.part[cells, :until] == self.number[cells][:, None]) & (node >= 0)
        first = node[np.arange(len(cells)), inside.argmax(axis=1)]
        inside &= (inside & (node != first[:, None])).any(axis=1)[:, None]
        if not inside.any():
            return
        raw = self.x[cells, :until] + self.effect[g[:, None], node]
        c, column = np.nonzero(inside)
        off = (raw - median(np.where(inside, raw, np.nan))[:, None])[c, column]
        key, effect = g[c] * many + node[c, column], np.zeros_like(self.effect)
        for k in np.unique(g[c]):
            own = g[c] == k
            v, which, count = np.unique(key[own], return_inverse=True, return_counts=True)
            ordered = off[own][np.lexsort((off[own], which))]
            mean = ordered[np.cumsum(count) - count + count // 2]           # the median, not upset by wild nights
            nights = np.bincount(np.unique(which * until + column[own]) // until)
            others = ((count * mean).sum() - count * mean) / np.fmax(count.sum() - count, 1)
            error = 1.4826 * np.median(np.abs(off[own] - mean[which])) / np.sqrt(nights)
            clear = (np.abs(mean - others) > np.fmax(_NODE, _SURE * error)) & (nights >= WITHIN)
            clear &= count <= count.sum() - count
            effect[k, v[clear] - k * many] = ((mean - others) * nights / (nights + 2))[clear]
        moved = effect[g] - self.effect[g]
        if (mine := np.flatnonzero(moved.any(axis=1))).size:
            self.effect[g] = effect[g]
            for i in mine:
                one, length = cells[i], self.end[cells[i]]
                self.x[one, :t] -= moved[i, self.node[one, :t]]
                self.level[one, :length] -= moved[i, self.node[one, self.at[one, :length]]]
            self.anchor[cells[mine]], self.known[g[mine]] = np.nan, -1
            self._again(cells[mine])

    def _event(self, c: int, word: str, t: int) -> None:
        """accepted, acked: what the cell measures now is a level; software: it may begin one."""
        if word == 'software':
            self.soft[c], self.pending[c] = t, True
            return
        episode = self.episode.pop(c, None)
        if episode and episode.depth < 0:
            columns = episode.begin + np.flatnonzero(np.isfinite(self.x[c, episode.begin:t]))
            first = self.end[c]
            self._append(c, columns)
        elif word == 'acked':
            return
        else:
            first = max(self.begin[c], self.end[c] - STEPS)
        self._start(c, first, word, int(self.at[c, first]) if first < self.end[c] else t)

    def cells(self) -> Cells:
        """Return what is known of each cell after its last night."""
        noise, many = self.noise, len(self.age)
        each = np.arange(many)
        age = self.end - self.begin
        base, value, effect = (np.full(many, np.nan) for _ in range(3))
        for n in np.unique(length := np.minimum(age, _FROZEN))[int(not age.all()):]:
            some = each[length == n][:, None]
            base[some[:, 0]] = np.median(self.x[some, self.at[some, self.end[some] - n + np.arange(n)]], axis=1)
        known = np.isfinite(self.x)
        last = self.x.shape[1] - 1 - known[:, ::-1].argmax(axis=1)
        some = known.any(axis=1)
        value[some] = self.x[each, last][some]
        if self.node is not None:
            effect[some] = self.effect[noise.group, self.node[each, last]][some]
        judged = self.judged & noise.ready[noise.group]
        some = each[judged & (age >= AFTER)]
        g, scale = noise.group[some], noise.scale[some][:, None]
        length = noise.directions(g, np.minimum(age[some], noise.width - 1))[1]
        steps = scale / np.fmax(length, 1e-3)
        visible, clear = np.full(many, np.nan), np.full((many, STEPS), np.inf)
        visible[some] = (noise.bar[g] + _POWER) * steps[:, WITHIN - 1]
        worst = np.zeros(noise.many)
        np.fmin.at(worst, noise.group, np.nanmin(np.where(self.state == SLOW, np.nan, self.surprise)[
            :, -WINDOW - 1:-1], axis=1, initial=0))
        clear[some] = noise.bar[g][:, None] * steps
        clear[some, 0] = np.fmax(clear[some, 0], -worst[g] * scale[:, 0])
        order = np.argsort(known, axis=1, kind='stable')[:, -STEPS:]
        return Cells(base, age, noise.scale, noise.bar[noise.group], visible, self.low, effect, value, self.began,
                     self.since, self.soft, clear, self.x[each[:, None], order], self.episode)


def _counted(totals: np.ndarray, ratio: float, rate: float) -> np.ndarray:
    """Return the state of each night of counts, the sums of a night's runs; lower is better.

    Of s + H events, s fall into the last k nights and H into the n nights before. By chance s is binomial with
    k / (k + n). Both are divided by ``ratio``, the variance of like cells' nights over their mean. A night counts
    for no more than chance alone gives once in 1 / rate nights."""
    state = np.full(len(totals), TOO_FEW)
    level, slow, back = list(totals[:FIRST]), None, 0
    for t in range(FIRST, len(totals)):
        mean = (sum(level) + .5) / len(level)
        if slow is not None:
            back = back + 1 if totals[t] <= (mean + slow) / 2 else 0
            state[t] = SLOW if back < AFTER else QUIET
            slow = slow if back < AFTER else None
            continue
        level.append(min(totals[t], max(1.0, ratio * pdtrik(1 - rate, mean / ratio))))
        state[t], n = QUIET, len(level)
        k = np.arange(1, STEPS + 1)
        s = np.cumsum(level[:-STEPS - 1:-1])
        rest = sum(level) - s
        p = np.where(s > 0, betainc(np.fmax(s, 1e-9) / ratio, rest / ratio + 1, k / n), 1)
        if (found := np.flatnonzero(p < rate / 3)).size:
            k = int(found[0]) + 1
            state[t], slow, back = SLOW, float(totals[t - k + 1:t + 1].mean()), 0
            del level[-k:]
    return state
