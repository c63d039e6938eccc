"""Slowdowns, improvements on probation, what comes and goes, and events: the episodes of a cell.

`Look` is what the statistic shows of a cell tonight. `Episodes` decides on it, one cell at a time.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import NamedTuple

import numpy as np

from parity.judge.stats import rule
from parity.judge.stats.node_effects import Nodes
from parity.judge.stats.noise import Noise, by_chance
from parity.judge.stats.rule import Episode
from parity.judge.stats.spells import spells
from parity.judge.stats.table import Table


class Shift(NamedTuple):
    """The mean of the newest ``nights`` is ``size`` standard errors from the base."""

    nights: int
    size: float


class Look(NamedTuple):
    """A cell tonight. ``fall``, ``rise``: what is beyond the bar; None: nothing is."""

    base: float
    fall: Shift | None
    rise: Shift | None


class Episodes:
    """The slowdowns and improvements of all cells that last, and those that ended."""

    def __init__(self, table: Table, noise: Noise, nodes: Nodes):
        self.table, self.noise, self.nodes = table, noise, nodes
        self.lasting: dict[int, Episode] = {}                       # by cell
        self.ended: dict[int, list[tuple[int, int, float]]] = defaultdict(list)     # begin, end, depth
        self.comes: dict[int, tuple[int, int]] = {}                 # spells of what comes and goes, and since when

    @property
    def slow(self) -> dict[int, Episode]:
        """The slowdowns that last."""
        return {c: episode for c, episode in self.lasting.items() if episode.depth < 0}

    # ---- events

    def event(self, c: int, word: str, t: int) -> None:
        """Begin a level with what the cell measures since a slowdown, or now; or note that one may begin."""
        table = self.table
        if word in rule.MAY:
            table.changed[c], table.change[c], table.pending[c] = t, word, True
            return
        table.pending[c] = False
        self.comes.pop(c, None)
        episode = self.lasting.pop(c, None)
        if word == 'accepted' and episode and episode.depth < 0:
            table.normal[c, episode.begin:t] = True
            table.began[c], table.since[c] = word, episode.begin
            return
        if word == 'work':
            table.age[c], table.residual[c, :table.end[c]] = 0, np.nan
            self.noise.forget(c)
        measured = rule.STEPS if word == 'accepted' else 0      # nights that were accepted
        table.start(c, max(table.begin[c], table.end[c] - measured), word)
        if table.begin[c] == table.end[c]:
            table.since[c] = t

    # ---- a night on which something may have changed

    def night(self, c: int, t: int, look: Look, state: int) -> int:
        """Return the state of tonight, which is ``state`` where nothing changed."""
        self._settle(c)
        if self._is_over(c, t, look):
            return rule.QUIET
        self._begin_level_of_event(c, t, look)
        episode = self.lasting.get(c)
        if look.fall:
            self._slower(c, t, look)
        elif look.rise and not (episode and episode.depth > 0):
            self._faster(c, t, look)
        if c not in self.lasting:
            return state
        if self.lasting[c].depth > 0:
            return rule.FAST
        return rule.SLOW if self._is_slow_tonight(c) else rule.GOING

    def coming(self, c: int, t: int) -> int:
        """Return the state of tonight for a cell that comes and goes, until GOOD_NIGHTS nights were good."""
        last = max((end for _, end, _ in self.ended[c]), default=-1)
        newest = self._columns(c, rule.GOOD_NIGHTS)
        good = rule.NIGHTS_BACK + int((newest > last).sum())
        if c not in self.lasting and good > rule.GOOD_NIGHTS:
            del self.comes[c]
            return rule.QUIET
        return rule.COMES if c in self.lasting and self._is_slow_tonight(c) else rule.GOING

    def recurs(self, c: int, t: int, base: float) -> bool:
        """Return whether the newest nights are a further spell: the third, or the fifth if none was found."""
        newest = self._newest(c, rule.NIGHTS_BACK) - base
        if newest.max() >= -self.noise.spell(c):
            return False
        before = self._spells(c, t, base, newest.mean())
        needed = rule.COMING if self.ended[c] else rule.UNSEEN
        return len(before) >= needed - 1

    # ---- an end

    def _settle(self, c: int) -> None:
        """Forget an improvement that is proved, and a slowdown that is none after all."""
        episode = self.lasting.get(c)
        if not episode:
            return
        nights = self.table.level[c, episode.place:self.table.end[c]]
        if episode.depth > 0:
            none = episode.proved(self.table.end[c])
        elif len(nights) < rule.LENGTHS[-1] or c in self.comes:
            none = False
        else:
            none = median(nights.tolist()) - episode.base > -rule.EFFECT
        if none:
            del self.lasting[c]

    def _is_over(self, c: int, t: int, look: Look) -> bool:
        """End the episode of a cell where its newest nights belong to the level before. Return whether they do."""
        episode = self.lasting.get(c)
        if not episode:
            return False
        end = self.table.end[c]
        first = max(episode.place, end - rule.NIGHTS_BACK)
        newest = self.table.level[c, first:end]
        back = (newest - episode.base) / episode.depth < 0.5
        if len(back) == rule.NIGHTS_BACK and back.all():
            stay = rule.NIGHTS_BACK
        elif episode.depth > 0 and look.fall:
            stay = len(back)
        elif episode.depth < 0 and back[-1] and self._is_well(c, episode, t):
            stay = 1
        else:
            return False
        self._end(c, episode, t, stay)
        return True

    def _is_well(self, c: int, episode: Episode, t: int) -> bool:
        """Return whether a good night ends a slowdown alone: run again, it is clear of the slow level."""
        table, noise = self.table, self.noise
        table.wanted[c, t] = True
        table.low[c] = np.isnan(table.again[c, t])
        again = table.again[c, t] - self.nodes.effects(c, t)
        slow = episode.base + episode.depth
        chance = noise.bar[c] * noise.scale[c]
        return bool(again - slow > chance)

    def _end(self, c: int, episode: Episode, t: int, stay: int) -> None:
        """End an episode: its newest ``stay`` nights belong to the level before, the others to none."""
        table = self.table
        gone = table.leave_out(c, episode.place, stay)
        table.begin[c] = episode.before
        table.began[c], table.since[c] = episode.began
        del self.lasting[c]
        table.normal[c, episode.begin:t] = True
        if episode.depth < 0:
            self.ended[c].append((episode.begin, t, episode.depth))
            table.normal[c, gone] = self.nodes.on_one(c, gone)

    # ---- a begin

    def _begin_level_of_event(self, c: int, t: int, look: Look) -> None:
        """Begin a level with an event that may begin one, where no slowdown was found for STEPS nights."""
        table = self.table
        if not table.pending[c] or t - table.changed[c] < rule.STEPS:
            return
        table.pending[c] = False
        begin, end = table.begin[c], table.end[c]
        first = begin + int((table.at[c, begin:end] < table.changed[c]).sum())
        if c not in self.lasting and not look.fall and end - first > rule.STEPS / 2:
            table.start(c, first, table.change[c])

    def _slower(self, c: int, t: int, look: Look) -> None:
        """Begin a level, if the newest nights are a slowdown; also where the cell is slow already."""
        table, (nights, size), base = self.table, look.fall, look.base
        newest = self._newest(c, nights)
        level = median(newest.tolist())
        depth = level - base
        if depth >= -rule.EFFECT or newest[-1] - base >= depth / 2:
            return
        episode = self.lasting.get(c)
        if not (not episode and self.recurs(c, t, base)) and self._is_chance(c, base, depth):
            return
        place = int(table.end[c]) - nights
        if episode:
            episode.detected, episode.nights, episode.size, episode.depth = t, nights, size, level - episode.base
        else:
            before = self._spells(c, t, base, depth)
            if len(before) >= rule.COMING - 1:
                self.comes[c] = len(before) + 1, before[0]
            is_back = abs(level - table.former[c]) < -depth / 2
            self.lasting[c] = Episode(
                begin=int(table.at[c, place]), detected=t, nights=nights, base=base, depth=depth, size=size,
                before=int(table.begin[c]), place=place, began=(table.began[c], int(table.since[c])),
                again=int(table.since[c]) if is_back else -1)
        table.normal[c, self.lasting[c].begin:t] = False
        table.start(c, place, '')

    def _faster(self, c: int, t: int, look: Look) -> None:
        """Begin a level, if the newest nights are an improvement; of a slow cell it is a part of the way back."""
        table, (nights, size), base = self.table, look.rise, look.base
        newest = self._newest(c, nights)
        level = median(newest.tolist())
        depth = level - base
        place = int(table.end[c]) - nights
        if depth <= rule.BETTER or newest[-1] - base <= depth / 2 or place - table.begin[c] < rule.AFTER:
            return
        if episode := self.lasting.get(c):
            episode.depth = level - episode.base
            table.start(c, place, '')
            return
        self.lasting[c] = Episode(
            begin=int(table.at[c, place]), detected=t, nights=nights, base=base, depth=depth, size=size,
            before=int(table.begin[c]), place=place, began=(table.began[c], int(table.since[c])))
        table.start(c, place, 'improved')
        table.former[c] = base

    def _is_chance(self, c: int, base: float, depth: float) -> bool:
        """Return whether as many low nights may be chance: nights half as low as often as before."""
        table = self.table
        many = min(rule.STEPS, int(table.end[c] - table.begin[c]))
        low = (self._newest(c, many) < base + depth / 2)[::-1]
        in_a_row = int(np.append(low, False).argmin())
        past = table.residuals_before(c, table.end[c] - in_a_row)
        share = ((past < depth / 2).sum() + 0.5) / (len(past) + 1)
        return by_chance(low, share) > max(self.noise.rate, rule.CHANCE)

    # ---- nights of a cell

    def _newest(self, c: int, nights: int) -> np.ndarray:
        """Return the newest nights of its levels, the newest last."""
        return self.table.level[c, max(0, self.table.end[c] - nights):self.table.end[c]]

    def _columns(self, c: int, nights: int) -> np.ndarray:
        return self.table.at[c, max(0, self.table.end[c] - nights):self.table.end[c]]

    def _spells(self, c: int, t: int, base: float, depth: float) -> list[int]:
        """Return the first columns of the spells before tonight that are about as low as ``depth``."""
        table = self.table
        end = int(table.end[c])
        place = np.arange(max(0, end - rule.LEVEL), end)
        of_level = table.level[c, place] - base
        of_levels_before = table.residual[c, place]
        x = np.where(place < table.begin[c], of_levels_before, of_level)
        column = table.at[c, place]
        return spells(self.ended[c], x, column, t, depth)

    def _is_slow_tonight(self, c: int) -> bool:
        episode = self.lasting[c]
        return (self.table.level[c, self.table.end[c] - 1] - episode.base) / episode.depth >= 0.5
