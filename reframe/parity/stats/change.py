"""Whether something changed among the nights that a reference would stand on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median

#: A quiet history that moves more than LEAST_EFFECT by chance is refused in so many cases.
ALPHA = 0.05
#: A smaller step (a share of the value) is half of what every bound allows for.
LEAST_EFFECT = 0.015
#: On either side of a change there are at least so many nights: fewer are single bad nights.
_SIDE = 3
_PERMUTATIONS = 4000


@dataclass(frozen=True)
class Change:
    """``at`` is the first night (from 0) after it; ``effect`` the later median to the earlier, less 1."""

    at: int
    effect: float
    p: float


def found(values: Sequence[float]) -> Change | None:
    """The most likely change among ``values``, oldest first, if chance does not explain it.

    Of all splits with 3 nights or more on either side, the largest standardised rank sum (Mann-Whitney) is
    compared with those of random orders of the same values: exact for any distribution, ties and the number of
    splits included (Pettitt, A non-parametric approach to the change-point problem, 1979, approximated there).
    """
    ranks = _ranks(values)
    if len(ranks) < 2 * _SIDE or len(set(ranks)) == 1:
        return None
    scores = _scores([ranks])[0]
    at = int(abs(scores).argmax())
    largest = abs(scores[at])
    p = (1 + int((_chance(tuple(sorted(ranks))) >= largest - 1e-9).sum())) / (1 + _PERMUTATIONS)
    before, after = median(values[:at + _SIDE]), median(values[at + _SIDE:])
    effect = (after - before) / abs(before) if before else float('inf')
    return Change(at + _SIDE, effect, p) if p <= ALPHA and abs(effect) >= LEAST_EFFECT else None


def _ranks(values: Sequence[float]) -> tuple[float, ...]:
    """From 1; those that are equal share the mean of theirs."""
    import numpy as np
    _, which, count = np.unique(np.asarray(values, float), return_inverse=True, return_counts=True)
    return tuple((count.cumsum() - (count - 1) / 2)[which])


def _scores(orders):
    """The standardised rank sum of the nights from each split on: (orders, splits)."""
    import numpy as np
    ranks = np.asarray(orders, float)
    n = ranks.shape[1]
    later = n - np.arange(_SIDE, n - _SIDE + 1)
    sums = ranks[:, ::-1].cumsum(axis=1)[:, ::-1][:, _SIDE:n - _SIDE + 1]
    mean = later * (n + 1) / 2
    return (sums - mean) / np.sqrt(later * (n - later) * ranks[0].var() / (n - 1))


@lru_cache(maxsize=256)
def _chance(ranks: tuple[float, ...]):
    """The largest score of each random order of ``ranks``; the orders are the same in every run."""
    import numpy as np
    rng = np.random.default_rng(len(ranks))
    orders = rng.permuted(np.tile(ranks, (_PERMUTATIONS, 1)), axis=1)
    return abs(_scores(orders)).max(axis=1)


def other_place(values: Sequence[float], places: Sequence[str]) -> tuple[str, float] | None:
    """A place (a node, or the nodes of a case) whose nights differ from those elsewhere, and by what share.

    Places with 3 nights or more are compared with all others (Mann-Whitney), ALPHA shared among them. Of
    several that differ it is the one farthest from the middle of all places; of two, the rarer.
    """
    of: dict[str, list[float]] = {}
    for value, place in zip(values, places, strict=True):
        of.setdefault(place, []).append(value)
    middle = median(median(own) for own in of.values())
    often = [place for place, own in of.items() if len(own) >= _SIDE and len(values) - len(own) >= _SIDE]
    if not often:
        return None
    from scipy.stats import mannwhitneyu
    often.sort(key=lambda place: (-round(abs(median(of[place]) - middle), 9), len(of[place])))
    method = 'exact' if len(set(values)) == len(values) else 'asymptotic'
    for place in often:
        there = [v for v, p in zip(values, places, strict=True) if p != place]
        effect = (median(of[place]) - median(there)) / abs(median(there)) if median(there) else float('inf')
        p = mannwhitneyu(of[place], there, method=method).pvalue
        if abs(effect) >= LEAST_EFFECT and p <= ALPHA / len(often):
            return place, effect
    return None
