"""A node beside its peers: is it slower than they scatter? docs/nightly.md describes it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from itertools import product
from typing import NamedTuple

import numpy as np
import scipy

#: Fewer peers than these say nothing. From MANY on, centre and scatter are robust, and all nodes share the centre.
FEWEST, MANY = 3, 12
#: A drop counts from DROP on. One of DOUBT that is not clear says nothing. Peers never count as closer together
#: than CLOSEST (of the logarithm).
DROP, DOUBT, CLOSEST = 0.03, 0.1, 0.005
#: At most one of so many listings, or gates, of sound nodes names a node; chosen by simulation: _MORE.
CHANCE, _MORE = 1 / 100, 1.1
#: Nights of a node that a listing takes. A night counts as at most so many standard errors from the node's median.
NIGHTS, _CLIP = 8, 2.0
#: Of FEWEST nodes, one is slower if on each of its newest APART_NIGHTS it was APART below both others, a share,
#: and so many times as far as these are usually apart. With 4, two of 120,000 simulated nights of sound nodes
#: named one, with 3 nine; 79 % of nodes at half the speed are named on the third night in noise of 10 %.
APART_NIGHTS, APART, _TIMES_APART = 3, 0.1, 4.0
#: So many of the newest nights, or more, show a node mended: so much of its slowdown is left at most, and the
#: whole slowdown is so many standard errors away.
_NEWEST, _LEFT, _CLEAR = 2, 1 / 3, 3.0
#: Before any night is known, one in 50 is an outlier; that counts as much as 25 nights.
_OUTLIERS, _WEIGHT = 0.02, 25


class RelativeSpeed(NamedTuple):
    """A node's speed in one part as a share of its peers'. ``clear``: the drop, a share, that makes it slower.
    ``newest``: the same share in its newest night alone; None: not asked for."""

    share: float
    peers: int
    clear: float
    slower: bool
    newest: float | None = None

    @property
    def doubtful(self) -> bool:
        return not self.slower and self.share < 1 - DOUBT

    def __str__(self) -> str:
        return 'SLOWER' if self.slower else 'cannot be told' if self.doubtful else 'like its peers'


def relative_speed(logs: np.ndarray, node: int, chance: float) -> RelativeSpeed | None:
    """Return how the node in row ``node`` stands in one part; None where fewer than FEWEST peers have a figure
    beside its own.

    ``logs`` [nodes, cells]: natural logarithms of the figures, higher is better, NaN where there is none.
    ``chance``: that a sound node is called slower. A node's score is the median over its cells of its distance
    from the median of the peers. The score of one more node like n others is divided by their scatter times
    sqrt(1 + 1/n). It then has Student's t-distribution of n - 1 degrees of freedom."""
    known = np.isfinite(logs)
    logs = logs[:, known.sum(0) > FEWEST]
    cells = np.isfinite(logs[node])
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', RuntimeWarning)     # nanmedian of a node without a figure: NaN
        if known.any(1).sum() > MANY:
            scores = np.nanmedian(logs - np.nanmedian(logs, 0), 1)
            own, peers = scores[node], np.delete(scores, node)
        else:
            others = np.delete(logs[:, cells], node, 0)
            centre = np.nanmedian(others, 0)
            own, peers = np.nanmedian(logs[node, cells] - centre), np.nanmedian(others - centre, 1)
    peers = peers[np.isfinite(peers)]
    if not cells.any() or len(peers) < FEWEST:
        return None
    middle, scatter = _scatter(peers)
    speed = _compared(float(own) - middle, len(peers), _MORE * max(scatter, CLOSEST), chance)
    return speed._replace(share=float(np.exp(own - np.median(peers))))


def listed(logs: np.ndarray, errors: np.ndarray, chance: float,
           only: np.ndarray | None = None) -> list[RelativeSpeed | None]:
    """Return how each node stands in one part by its nights; None where fewer than FEWEST peers have any.

    ``logs`` [nodes, nights]: natural logarithms of a node's speed over that of its peers, NaN where there is none.
    ``errors``: their standard errors. ``chance``: that a sound node is called slower. ``only``: the places of the
    nodes that are asked for; the others are None.

    A node's score is the mean of its nights, weighted by their errors; a night counts as _CLIP errors at most
    from the weighted median. Three things make a node slower. Its score is below its peers' by more than their
    scores scatter (Student's t). As many nights drawn from its peers' would have so low a median at ``chance``
    only. And its newest nights do not show that it is mended."""
    known, some = np.isfinite(logs), np.isfinite(logs).any(1)
    found: list[RelativeSpeed | None] = [None] * len(logs)
    if some.sum() <= FEWEST:
        return found
    score, error, middles = _scores(logs, errors)
    for node in range(len(logs)) if only is None else only:
        if not some[node]:
            continue
        others = some & (np.arange(len(logs)) != node)
        centre = float(np.median(score[others]))
        scatter = max(1.0, _scatter((score[others] - centre) / error[others])[1])
        each = _compared(score[node] - centre, others.sum(), scatter * error[node], chance)
        if each.slower:
            pool = np.sort((logs[others] / errors[others])[known[others]])
            own = logs[node, known[node]], errors[node, known[node]]
            good = _mended(logs[node:node + 1] - centre, errors[node:node + 1], np.log([each.share]))
            each = each._replace(slower=_agreed(*own, middles[node], pool) <= chance and not good)
        newest = logs[node, known[node]][0]
        found[node] = each._replace(newest=float(np.exp(newest - centre)))
    return found


def apart(logs: np.ndarray) -> list[float | None]:
    """Return the speed of each node as a share of the others', where it is far below all others; None where not.

    ``logs`` [nodes, nights]: natural logarithms of the figures of one cell, the newest night first, NaN where
    there is none. Only nights on which all nodes ran count."""
    logs = logs[:, np.isfinite(logs).all(0)]
    found: list[float | None] = [None] * len(logs)
    if len(logs) < FEWEST or logs.shape[1] < APART_NIGHTS:
        return found
    for node in range(len(logs)):
        others = np.delete(logs, node, 0)
        usual = float(np.median(np.ptp(others, 0)))
        least = max(-np.log1p(-APART), _TIMES_APART * usual)
        if (others.min(0) - logs[node] > least)[:APART_NIGHTS].all():
            found[node] = float(np.exp(np.median((logs[node] - others.mean(0))[:APART_NIGHTS])))
    return found


def rejoined(logs: np.ndarray, node: int, share: float) -> bool:
    """Return whether the newest nights of a node that was `apart` show that little is left of its slowdown.

    ``share``: its speed then. ``logs``: of `apart`."""
    logs = logs[:, np.isfinite(logs).all(0)][:, :_NEWEST]
    distance = logs[node] - np.delete(logs, node, 0).mean(0)
    return len(distance) == _NEWEST and bool((distance > _LEFT * np.log(share)).all())


def mended(parts: Iterable[tuple[np.ndarray, np.ndarray, int, float]]) -> bool:
    """Return whether the newest nights of a node show that it is as its peers again.

    ``parts``: of each part in which it was slow, the arrays of `listed`, the node's row, and its speed then as a
    share of its peers'. A column is the same night in each."""
    nights = []
    for logs, errors, node, share in parts:
        score = np.delete(_scores(logs, errors)[0], node)
        if np.isfinite(score).sum() >= FEWEST:
            nights.append((logs[node] - np.median(score[np.isfinite(score)]), errors[node], np.log(share)))
    return bool(nights) and _mended(*map(np.array, zip(*nights, strict=True)))


def _scores(logs: np.ndarray, errors: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the score of each node, its error, and the weighted median of its nights."""
    known = np.isfinite(logs)
    weights = np.where(known, errors ** -2.0, 0.0)
    middles = _median(logs, weights)
    near = np.clip(logs, middles[:, None] - _CLIP * errors, middles[:, None] + _CLIP * errors)
    with np.errstate(invalid='ignore', divide='ignore'):
        score = np.where(known, weights * near, 0.0).sum(1) / weights.sum(1)
        return score, np.sqrt(_MORE / weights.sum(1)), middles


def _median(logs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the upper weighted median of each row: the first value with more than half of the weight up to it."""
    order = np.argsort(np.where(weights > 0, logs, np.inf), 1)
    reached = np.cumsum(np.take_along_axis(weights, order, 1), 1)
    at = (reached > (0.5 + 1e-9) * reached[:, -1:]).argmax(1)
    return np.take_along_axis(np.take_along_axis(logs, order, 1), at[:, None], 1)[:, 0]


def _agreed(logs: np.ndarray, errors: np.ndarray, middle: float, pool: np.ndarray) -> float:
    """Return the chance that the weighted median of such nights is as low as ``middle``, where each night is drawn
    from ``pool``: the nights of the peers, in standard errors, in order. One night of a node is never enough."""
    if len(logs) < 2:
        return 1.0
    below = np.searchsorted(pool, middle / errors, side='right')
    each = (below + _OUTLIERS * _WEIGHT) / (len(pool) + _WEIGHT)
    taken, weights = np.array([*product((False, True), repeat=len(logs))]), errors ** -2.0
    low = taken[taken @ weights > (0.5 + 1e-9) * weights.sum()]
    return float(np.where(low, each, 1 - each).prod(1).sum())


def _mended(nights: np.ndarray, errors: np.ndarray, slow: np.ndarray) -> bool:
    """Return whether the newest nights, _NEWEST or more, show that little is left of a slowdown.

    ``nights`` [parts, nights]: distances from the peers, the newest first, NaN where there was none. ``errors``:
    their standard errors. ``slow`` [parts]: the distances while it was slow. The share that is left of these is
    fitted by weighted least squares. A fast night counts as _CLIP errors at most."""
    known, slow = np.isfinite(nights), slow[:, None] / errors
    weight = np.cumsum(np.where(known, slow ** 2, 0.0).sum(0))
    fitted = np.cumsum(np.where(known, np.fmin(nights / errors, _CLIP) * slow, 0.0).sum(0))
    left = np.divide(fitted, weight, out=np.ones(len(weight)), where=weight > 0)
    enough = np.cumsum(known.any(0)) >= _NEWEST
    return bool((enough & (left < _LEFT) & ((1 - left) * np.sqrt(weight) > _CLEAR)).any())


def _scatter(peers: np.ndarray) -> tuple[float, float]:
    """Return the centre of the peers, and their scatter; of many both are robust, as some may be slow."""
    if len(peers) < MANY:
        return float(peers.mean()), float(peers.std(ddof=1))
    middle, (first, third) = float(np.median(peers)), np.percentile(peers, (25, 75))
    robust = max(1.4826 * float(np.median(abs(peers - middle))), 0.7413 * (third - first))
    return middle, (1 + 2 / len(peers)) * robust


def _compared(drop: float, count: int, scatter: float, chance: float) -> RelativeSpeed:
    bar = max(-scipy.special.stdtrit(count - 1, chance) * scatter * np.sqrt(1 + 1 / count), -np.log1p(-DROP))
    return RelativeSpeed(float(np.exp(drop)), int(count), float(-np.expm1(-bar)), bool(drop < -bar))
