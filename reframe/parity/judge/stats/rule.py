"""The constants of the rule, its words, and what it says of a cell. docs/operating-curve.md has the reasons.

All values are logarithms, turned so that higher is better.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from parity.judge.stats import bounds

#: The state of a night. COMES: a low one of what comes and goes; GOING: a good one of a slowdown that is not over.
TOO_FEW, QUIET, SLOW, FAST, COMES, GOING = -1, 0, 1, 2, 3, 4
#: What turns a cell red; a slowdown that was told, and is not over.
LOW_NIGHTS, KNOWN = (SLOW, COMES), (SLOW, COMES, GOING)
#: New false alarms a cell-night: one a month on a system of a hundred cells.
RATE = 1 / 3000
#: The smallest slowdown that shows is one that is found within so many nights in four of five cases.
WITHIN, POWER = 3, 0.8416
#: What may happen to a cell. A level begins with the first two, and with other work the cell learns anew. With the
#: others, MAY, one may begin: the level before judges it on.
EVENTS = ('accepted', 'level', 'work', 'software', 'hardware', 'maintenance')
BEGIN, MAY = EVENTS[:3], EVENTS[3:]

# ---- the level and its noise

#: Nights of the base, without the newest GAP: these may belong to a slowdown.
LEVEL, GAP = 60, 4
#: Nights of a new level before it is judged.
AFTER = 4
#: Nights that the scatter is learned from. It is learned anew every so many nights.
MEMORY, EVERY = 50, 5
#: The smallest scatter of a night. Residuals count up to so many MAD.
FLOOR, WINSOR = 0.003, 2.5
#: The share of its variance that normal noise keeps then.
KEPT = 0.9776
#: The variance of the median of n normal nights is MEDIAN / n. That of a level is BASE / n, since levels wander.
MEDIAN, BASE = 1.57, 3.0
#: The correlation of neighbouring nights that a cell begins with. It counts as so many nights of the cell's own.
CORRELATION, PRIOR_NIGHTS = 0.3, 150
#: The square of a statistic counts up to here: a slowdown is no dependence of nights.
SQUARE_CAP = 9.0

# ---- a change

#: The numbers of newest nights whose mean is compared with the base.
LENGTHS = np.array([2, 3, 5, 8])
SHORTEST, LONGEST = int(LENGTHS[0]), int(LENGTHS[-1])
#: A night counts for at most this share of the bar, so none alarms alone.
CLIP = 0.71
#: The smallest slowdown and the smallest improvement.
EFFECT, BETTER = 0.02, 0.01
#: Low nights are no chance where a binomial test of the newest STEPS finds them so rare. For so many nights an
#: improvement may go back without a word; so many nights after an event a level may begin with it.
CHANCE, STEPS = 1 / 1000, 10
#: So many nights back from a change end it.
NIGHTS_BACK = 2
#: The log of an improvement that no machine makes: it stays on probation.
ABSURD = np.log(bounds.ABSURD)

# ---- what comes and goes

#: So many spells within LEVEL nights are one state, until so many nights were good.
COMING, GOOD_NIGHTS = 3, bounds.GOOD_NIGHTS
#: Each is at least this share of the last one.
SPELL_SIZE = 0.7
#: Two nights are a further spell if they are so low, as a share and in standard deviations.
SPELL, CLEAR = 0.04, 3.0
#: So many spells are needed where none was a slowdown that was found.
UNSEEN = 5

# ---- a night

#: A night is run again if it is so many standard deviations low, and among so many of the lowest of LEVEL nights.
LOW, RERUN = -1.75, 0.033
#: Only the newest MOST nights are judged. Of counts, the first COUNTED are not.
MOST, COUNTED = 2000, 40

# ---- the words

#: A night may be the first slow one if its log likelihood is less than so much below the largest: 4 standard
#: errors (Wilks 1938). A night counts for at most so many standard deviations.
BEGUN, FARTHEST = 8.0, 6.0
#: A slowdown shows from so many times the depth of low nights on (6 % are lower).
TAILS = 1.9


@dataclass
class Episode:
    """A slowdown, or an improvement that is on probation."""

    begin: int               # its first night, a column
    detected: int            # the night on which it was found
    nights: int              # that the statistic looked at
    base: float              # the level before, log
    depth: float             # change of the log, below 0 for slower
    size: float              # the statistic
    before: int = 0          # where the level before begins
    place: int = 0           # where it ends
    began: tuple[str, int] = ('', -1)     # the event that began the level before, and its column
    again: int = -1          # column of the level before the improvement that a slowdown leads back to; -1: none
    deepest: float = 0.0     # how far the level of its newest nights was below the base, at most

    @property
    def is_slow(self) -> bool:
        return self.depth < 0

    @property
    def is_fast(self) -> bool:
        return self.depth > 0

    def share(self, nights: np.ndarray) -> np.ndarray:
        """Return where nights are between the level before, 0, and that of the episode, 1."""
        return (nights - self.base) / self.depth

    def proved(self, end: int) -> bool:
        """Return whether an improvement is proved at place ``end``. One that no machine makes never is."""
        return end - self.place > STEPS and self.depth < ABSURD


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
    last_good: np.ndarray     # columns of the newest night that was surely good before a slowdown, and of the
    first_slow: np.ndarray    # first that was surely slow; -1: not known
    lasting: dict[int, Episode] = field(default_factory=dict)
    comes: dict[int, tuple[int, int]] = field(default_factory=dict)     # spells since a column


@dataclass
class Outcome:
    """``state`` of each night, in the order of the nights given; ``reruns``: it was low, and a rerun is wanted.

    ``below``: how far a night was below its level; 0 where none was known. ``lone``: the same, if nothing was
    found and it is too low for chance; else 0. ``usual``: like cells have such nights so often that two within
    GOOD_NIGHTS are chance. ``deepest``: how far a slowdown was below the level before until that night. All are
    logarithms."""

    state: np.ndarray
    reruns: np.ndarray
    lone: np.ndarray
    below: np.ndarray
    usual: np.ndarray
    deepest: np.ndarray
    cells: Cells
    column: np.ndarray        # of each night: nights of one time are in one column, as far as series share times
