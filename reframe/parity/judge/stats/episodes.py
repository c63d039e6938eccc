"""Slowdowns, improvements on probation, what comes and goes, and events: the episodes of a cell.

`Look` is what the statistic shows of a cell tonight. `Episodes` decides on it, one cell at a time.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
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


@dataclass
class _NewLevel:
    """The newest nights of a cell, as far as a shift says that they are another level."""

    shift: Shift
    place: int               # of their first
    base: float              # the level before, log
    level: float             # their median
    tonight: float           # less the base

    @property
    def depth(self) -> float:
        return self.level - self.base


class Episodes:
    """The slowdowns and improvements of all cells that last, and those that ended."""

    def __init__(self, table: Table, noise: Noise, nodes: Nodes):
        self.table = table
        self.noise = noise
        self.nodes = nodes
        self.lasting: dict[int, Episode] = {}                       # by cell
        self.ended: dict[int, list[tuple[int, int, float]]] = defaultdict(list)     # begin, end, depth
        self.comes: dict[int, tuple[int, int]] = {}                 # spells of what comes and goes, and since when

    @property
    def slow(self) -> dict[int, Episode]:
        """The slowdowns that last."""
        return {c: episode for c, episode in self.lasting.items() if episode.is_slow}

    # ---- events

    def event(self, c: int, word: str, t: int) -> None:
        """Begin a level with what the cell measures since a slowdown, or now; or note that one may begin."""
        table = self.table
        if word in rule.MAY:
            table.changed[c] = t
            table.change[c] = word
            table.pending[c] = True
            return
        table.pending[c] = False
        self.comes.pop(c, None)
        episode = self.lasting.pop(c, None)
        is_accepted = word == 'accepted'
        if is_accepted and episode and episode.is_slow:
            table.normal[c, episode.begin:t] = True
            table.began[c] = word
            table.since[c] = episode.begin
            return
        end = table.end[c]
        if word == 'work':
            table.age[c] = 0
            table.residual[c, :end] = np.nan
            self.noise.forget(c)
        accepted_nights = rule.STEPS if is_accepted else 0
        place = max(table.begin[c], end - accepted_nights)
        table.start(c, place, word)
        if place == end:
            table.since[c] = t

    # ---- a night on which something may have changed

    def night(self, c: int, t: int, look: Look, state: int) -> int:
        """Return the state of tonight, which is ``state`` where nothing changed."""
        self._settle(c)
        if self._is_over(c, t, look):
            return rule.QUIET
        self._begin_level_of_event(c, t, look)
        episode = self.lasting.get(c)
        is_fast = episode and episode.is_fast
        if look.fall:
            self._slower(c, t, look.fall, look.base)
        elif look.rise and not is_fast:
            self._faster(c, t, look.rise, look.base)
        episode = self.lasting.get(c)
        if not episode:
            return state
        if episode.is_fast:
            return rule.FAST
        return rule.SLOW if self._is_slow_tonight(c) else rule.GOING

    def coming(self, c: int, t: int) -> int:
        """Return the state of tonight for a cell that comes and goes, until GOOD_NIGHTS nights were good."""
        ends = [end for _, end, _ in self.ended[c]]
        last_end = max(ends, default=-1)
        end = self.table.end[c]
        first = max(0, end - rule.GOOD_NIGHTS)
        columns = self.table.at[c, first:end]
        nights_after = np.count_nonzero(columns > last_end)
        good = rule.NIGHTS_BACK + nights_after
        lasts = c in self.lasting
        if not lasts and good > rule.GOOD_NIGHTS:
            del self.comes[c]
            return rule.QUIET
        is_low = lasts and self._is_slow_tonight(c)
        return rule.COMES if is_low else rule.GOING

    def recurs(self, c: int, t: int, base: float) -> bool:
        """Return whether the newest nights are a further spell: the third, or the fifth if none was found."""
        newest = self.table.newest_nights(c, rule.NIGHTS_BACK) - base
        highest_of_spell = -self.noise.spell(c)
        if newest.max() >= highest_of_spell:
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
        end = self.table.end[c]
        if episode.is_fast:
            is_none = episode.proved(end)
        else:
            is_none = self._is_none_after_all(c, episode)
        if is_none:
            del self.lasting[c]

    def _is_none_after_all(self, c: int, slowdown: Episode) -> bool:
        """Return whether the level of a slowdown is hardly below the one before."""
        nights = self.table.nights_from(c, slowdown.place)
        if len(nights) < rule.LONGEST or c in self.comes:
            return False
        level = median(nights.tolist())
        depth = level - slowdown.base
        return depth > -rule.EFFECT

    def _is_over(self, c: int, t: int, look: Look) -> bool:
        """End the episode of a cell where its newest nights belong to the level before. Return whether they do."""
        episode = self.lasting.get(c)
        if not episode:
            return False
        stay = self._nights_back(c, t, look, episode)
        if not stay:
            return False
        self._end(c, episode, t, stay)
        return True

    def _nights_back(self, c: int, t: int, look: Look, episode: Episode) -> int:
        """Return how many of the newest nights show that the level before is back; 0: they do not."""
        end = self.table.end[c]
        first = max(episode.place, end - rule.NIGHTS_BACK)
        newest = self.table.nights_from(c, first)
        is_back = episode.share(newest) < 0.5
        if len(is_back) == rule.NIGHTS_BACK and is_back.all():
            return rule.NIGHTS_BACK
        if episode.is_fast and look.fall:
            return len(is_back)
        if episode.is_slow and is_back[-1] and self._is_well(c, episode, t):
            return 1
        return 0

    def _is_well(self, c: int, episode: Episode, t: int) -> bool:
        """Return whether a good night ends a slowdown alone: run again, it is clear of the slow level."""
        table, noise = self.table, self.noise
        night = c, t
        measured = table.again[night]
        table.wanted[night] = True
        table.low[c] = np.isnan(measured)
        again = measured - self.nodes.effects(c, t)
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
        if episode.is_slow:
            ended = episode.begin, t, episode.depth
            self.ended[c].append(ended)
            table.normal[c, gone] = self.nodes.on_one(c, gone)

    # ---- a begin

    def _begin_level_of_event(self, c: int, t: int, look: Look) -> None:
        """Begin a level with an event that may begin one, where no slowdown was found for STEPS nights."""
        table = self.table
        changed = table.changed[c]
        if not table.pending[c] or t - changed < rule.STEPS:
            return
        table.pending[c] = False
        begin, end = table.begin[c], table.end[c]
        columns = table.at[c, begin:end]
        nights_before = int((columns < changed).sum())
        first = begin + nights_before
        is_long = end - first > rule.STEPS / 2
        if c not in self.lasting and not look.fall and is_long:
            table.start(c, first, table.change[c])

    def _slower(self, c: int, t: int, fall: Shift, base: float) -> None:
        """Begin a level, if the newest nights are a slowdown; also where the cell is slow already."""
        new = self._new_level(c, fall, base)
        if new.depth >= -rule.EFFECT or new.tonight >= new.depth / 2:
            return
        slowdown = self.lasting.get(c)
        is_further_spell = not slowdown and self.recurs(c, t, base)
        if not is_further_spell and self._is_chance(c, base, new.depth):
            return
        if slowdown:
            slowdown.detected = t
            slowdown.nights = fall.nights
            slowdown.size = fall.size
            slowdown.depth = new.level - slowdown.base
        else:
            slowdown = self._begin_slowdown(c, t, new)
        self.table.normal[c, slowdown.begin:t] = False
        self.table.start(c, new.place, '')

    def _begin_slowdown(self, c: int, t: int, new: _NewLevel) -> Episode:
        before = self._spells(c, t, new.base, new.depth)
        spells_until_now = len(before) + 1
        if spells_until_now >= rule.COMING:
            self.comes[c] = spells_until_now, before[0]
        slowdown = self._begin(c, t, new)
        from_former = abs(new.level - self.table.former[c])
        is_back = from_former < -new.depth / 2
        if is_back:
            slowdown.again = int(self.table.since[c])
        return slowdown

    def _faster(self, c: int, t: int, rise: Shift, base: float) -> None:
        """Begin a level, if the newest nights are an improvement; of a slow cell it is a part of the way back."""
        table = self.table
        new = self._new_level(c, rise, base)
        if new.depth <= rule.BETTER or new.tonight <= new.depth / 2:
            return
        if new.place - table.begin[c] < rule.AFTER:
            return
        slowdown = self.lasting.get(c)
        if slowdown:
            slowdown.depth = new.level - slowdown.base
            table.start(c, new.place, '')
            return
        self._begin(c, t, new)
        table.start(c, new.place, 'improved')
        table.former[c] = base

    def _new_level(self, c: int, shift: Shift, base: float) -> _NewLevel:
        """Return the level of the newest nights, as many as are shifted."""
        newest = self.table.newest_nights(c, shift.nights)
        end = int(self.table.end[c])
        place = end - shift.nights
        level = median(newest.tolist())
        tonight = newest[-1] - base
        return _NewLevel(shift, place, base, level, tonight)

    def _begin(self, c: int, t: int, new: _NewLevel) -> Episode:
        """Begin an episode of a cell."""
        table = self.table
        first_night = int(table.at[c, new.place])
        event_before = table.began[c], int(table.since[c])
        episode = Episode(
            begin=first_night,
            detected=t,
            nights=new.shift.nights,
            base=new.base,
            depth=new.depth,
            size=new.shift.size,
            before=int(table.begin[c]),
            place=new.place,
            began=event_before)
        self.lasting[c] = episode
        return episode

    def _is_chance(self, c: int, base: float, depth: float) -> bool:
        """Return whether as many low nights may be chance: nights half as low as often as before."""
        table = self.table
        begin, end = table.begin[c], table.end[c]
        many = min(rule.STEPS, int(end - begin))
        newest = table.newest_nights(c, many)
        newest_first = newest[::-1]
        low = newest_first < base + depth / 2
        in_a_row = int(np.append(low, False).argmin())
        past = table.residuals_before(c, end - in_a_row)
        past_low = (past < depth / 2).sum()
        share = (past_low + 0.5) / (len(past) + 1)
        most = max(self.noise.rate, rule.CHANCE)
        return by_chance(low, share) > most

    # ---- nights of a cell

    def _spells(self, c: int, t: int, base: float, depth: float) -> list[int]:
        """Return the first columns of the spells before tonight that are about as low as ``depth``."""
        table = self.table
        end = int(table.end[c])
        first = max(0, end - rule.LEVEL)
        places = c, slice(first, end)
        of_level = table.level[places] - base
        of_levels_before = table.residual[places]
        is_before = np.arange(first, end) < table.begin[c]
        x = np.where(is_before, of_levels_before, of_level)
        return spells(self.ended[c], x, table.at[places], t, depth)

    def _is_slow_tonight(self, c: int) -> bool:
        tonight, = self.table.newest_nights(c, 1)
        episode = self.lasting[c]
        return episode.share(tonight) >= 0.5
