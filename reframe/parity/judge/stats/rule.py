"""The level rule's constants, its words, and the state that it keeps of a cell.

docs/regression.md says why each constant has its value. All values are logarithms, turned so that higher is
better.
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

#: Nights of the memory of noise. Its newest nights are left out: they may belong to a slowdown.
MEMORY, NEWEST = 50, 2
#: The smallest scatter of a night. Residuals count up to so many MAD; the variance that normal noise keeps then.
FLOOR, WINSOR, KEPT = 0.003, 2.5, 0.9776
#: The lengths of a step to look for. The last column of a table by length is the drift's, over the longest.
LENGTHS = np.array([2, 3, 5, 8])
#: The variance of a level known from n nights is BASE / n: MEDIAN / n of normal nights, and levels wander.
BASE, MEDIAN = 3.0, 1.57
#: Squares count up to SQUARE_CAP, those below the level more than those above it. Like cells count for so many
#: nights.
SQUARE_CAP, LOWER_SQUARES, LIKE_NIGHTS = 9.0, 1.5, 150.0
#: The correlation of neighbours that a system begins with, and the share of noise that has it.
CORRELATION, CORRELATED = 0.6, 0.7
#: The one-sided normal tail of a single look, as a share of the rate.
LOOKS = 0.5
#: The noise of a group of fewer cells is not known. A cell so many standard errors away is unlike the others.
FEWEST_LIKE, UNLIKE = 3, 3.0
#: A kernel of so many standard deviations smooths the residuals; tonight's mean counts as so many residuals.
KERNEL, OWN_NIGHT = 0.3, 0.5
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
CLIP = 0.72
#: An improvement must be surer than a slowdown by so much, and is on probation for so many nights.
SURER, PROBATION = 0.25, 10
#: The log of an improvement that no machine makes: it stays on probation.
ABSURD = np.log(bounds.ABSURD)
#: Low nights are no chance where a binomial test finds them so rare, or Cramér's theorem their mean: in rates, of
#: RATE at most.
CHANCE, LARGE = 1 / 2000, 2.0
#: So many nights back from a change end it.
NIGHTS_BACK = 2
#: A level that moved MOVED times in MOVES nights must move by TIMES as much. A slowdown of NEWS is always one.
MOVES, MOVED, TIMES, NEWS = 120, 1.2, 2.5, 0.04
#: A rerun is wanted at a lower surprise than this, in standard deviations, and among so many of the lowest nights.
LOW, RERUN, WINDOW = -1.75, 0.036, 80
#: Nights that a level is known from; that a binomial test looks at.
STEPS = 10
#: So many spells within so many nights, each at least SPELL_SIZE of this one, are one state. It ends after so
#: many good nights.
COMING, SPELLS_WITHIN, GOOD_NIGHTS, SPELL_SIZE = 3, 60, bounds.GOOD_NIGHTS, 0.7
#: A spell after others shows from so many standard deviations on; if none was found before, it takes so many.
CLEAR, UNSEEN = 3.0, 5
#: Nights half as low are no chance where a binomial test finds them so rare. Then a spell shows from here on.
OFTEN, CLEAR_OFTEN = 1e-6, 2.4
#: A night may be the first slow one if its log likelihood is less than so much below the largest: 3 standard
#: errors (Wilks 1938). A night counts for at most so many standard deviations.
BEGUN, FARTHEST = 4.5, 6.0
#: A slowdown shows from so many times the depth of low nights on (6 % are lower).
TAILS = 1.6


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
    deepest: float = 0.0     # how far the level of its newest nights was below the base, at most

    def proved(self, end: int) -> bool:
        """Return whether an improvement is proved at place ``end``. One that no machine makes never is."""
        return end - self.place > PROBATION and self.depth < ABSURD


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

    ``lone``: how far a night was below its level, if nothing was found and it is too low for chance; else 0.
    ``usual``: like cells have such nights so often that two within GOOD_NIGHTS are chance. ``deepest``: how far a
    slowdown was below the level before until that night. Both are logarithms above 0."""

    state: np.ndarray
    reruns: np.ndarray
    lone: np.ndarray
    usual: np.ndarray
    deepest: np.ndarray
    cells: Cells
    column: np.ndarray        # of each night: nights of one time are in one column, as far as series share times
