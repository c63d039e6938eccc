"""A node beside its peers: is it slower than they scatter? docs/nightly.md describes it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
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
#: More than half of a weight, rounding apart.
_HALF = 0.5 + 1e-9


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


def relative_speed(logs: np.ndarray, node: int, chance: float) -> RelativeSpeed | None:
    """Return how the node in row ``node`` stands in one part; None where fewer than FEWEST peers have a figure
    beside its own.

    ``logs`` [nodes, cells]: natural logarithms of the figures, higher is better, NaN where there is none.
    ``chance``: that a sound node is called slower. A node's score is the median over its cells of its distance
    from the median of the peers. The score of one more node like n others is divided by their scatter times
    sqrt(1 + 1/n). It then has Student's t-distribution of n - 1 degrees of freedom."""
    known = np.isfinite(logs)
    logs = logs[:, known.sum(axis=0) > FEWEST]
    own_cells = np.isfinite(logs[node])
    if not own_cells.any():
        return None
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', RuntimeWarning)     # nanmedian of a node without a figure: NaN
        if known.any(axis=1).sum() > MANY:
            scores = np.nanmedian(logs - np.nanmedian(logs, axis=0), axis=1)
            own, peers = scores[node], np.delete(scores, node)
        else:
            others = np.delete(logs[:, own_cells], node, axis=0)
            centre = np.nanmedian(others, axis=0)
            own = np.nanmedian(logs[node, own_cells] - centre)
            peers = np.nanmedian(others - centre, axis=1)
    peers = peers[np.isfinite(peers)]
    if len(peers) < FEWEST:
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
    speeds: list[RelativeSpeed | None] = [None] * len(logs)
    is_measured = np.isfinite(logs).any(axis=1)
    if is_measured.sum() <= FEWEST:
        return speeds
    scores = _Scores.of(logs, errors)
    for node in range(len(logs)) if only is None else only:
        if is_measured[node]:
            speeds[node] = _beside_others(logs, errors, scores, node, chance)
    return speeds


def _beside_others(logs: np.ndarray, errors: np.ndarray, scores: _Scores, node: int, chance: float
                   ) -> RelativeSpeed:
    """Return how one node stands by its nights; see `listed`."""
    known = np.isfinite(logs)
    others = known.any(axis=1)
    others[node] = False
    score, error = scores.score, scores.error
    centre = float(np.median(score[others]))
    distances = (score[others] - centre) / error[others]
    scatter = max(1.0, _scatter(distances)[1])
    speed = _compared(score[node] - centre, others.sum(), scatter * error[node], chance)
    own, own_errors = logs[node, known[node]], errors[node, known[node]]
    if speed.slower:
        of_peers = logs[others] / errors[others]
        pool = np.sort(of_peers[known[others]])
        is_rare = _agreed(own, own_errors, scores.middle[node], pool) <= chance
        one_part = slice(node, node + 1)
        is_mended = _mended(logs[one_part] - centre, errors[one_part], np.log([speed.share]))
        speed = speed._replace(slower=is_rare and not is_mended)
    return speed._replace(newest=float(np.exp(own[0] - centre)))


def apart(logs: np.ndarray) -> list[float | None]:
    """Return the speed of each node as a share of the others', where it is far below all others; None where not.

    ``logs`` [nodes, nights]: natural logarithms of the figures of one cell, the newest night first, NaN where
    there is none. Only nights on which all nodes ran count."""
    logs = _common(logs)
    speeds: list[float | None] = [None] * len(logs)
    if len(logs) < FEWEST or logs.shape[1] < APART_NIGHTS:
        return speeds
    for node in range(len(logs)):
        others = np.delete(logs, node, axis=0)
        usual = float(np.median(np.ptp(others, axis=0)))
        least = max(-np.log1p(-APART), _TIMES_APART * usual)
        below_lowest = (others.min(axis=0) - logs[node])[:APART_NIGHTS]
        if (below_lowest > least).all():
            distance = (logs[node] - others.mean(axis=0))[:APART_NIGHTS]
            speeds[node] = float(np.exp(np.median(distance)))
    return speeds


def rejoined(logs: np.ndarray, node: int, share: float) -> bool:
    """Return whether the newest nights of a node that was `apart` show that little is left of its slowdown.

    ``share``: its speed then. ``logs``: of `apart`."""
    newest = _common(logs)[:, :_NEWEST]
    others = np.delete(newest, node, axis=0)
    distance = newest[node] - others.mean(axis=0)
    is_near = distance > _LEFT * np.log(share)
    return len(distance) == _NEWEST and bool(is_near.all())


def _common(logs: np.ndarray) -> np.ndarray:
    """Return the nights [nodes, nights] on which all nodes ran."""
    return logs[:, np.isfinite(logs).all(axis=0)]


def mended(parts: Iterable[tuple[np.ndarray, np.ndarray, int, float]]) -> bool:
    """Return whether the newest nights of a node show that it is as its peers again.

    ``parts``: of each part in which it was slow, the arrays of `listed`, the node's row, and its speed then as a
    share of its peers'. A column is the same night in each."""
    distances, own_errors, slow = [], [], []
    for logs, errors, node, share in parts:
        peers = np.delete(_Scores.of(logs, errors).score, node)
        peers = peers[np.isfinite(peers)]
        if len(peers) < FEWEST:
            continue
        distances.append(logs[node] - np.median(peers))
        own_errors.append(errors[node])
        slow.append(np.log(share))
    return bool(slow) and _mended(np.array(distances), np.array(own_errors), np.array(slow))


@dataclass
class _Scores:
    """Nodes by their nights [nodes]. ``middle``: the weighted median of a node's nights."""

    score: np.ndarray
    error: np.ndarray
    middle: np.ndarray

    @classmethod
    def of(cls, logs: np.ndarray, errors: np.ndarray) -> _Scores:
        known = np.isfinite(logs)
        weights = np.where(known, errors ** -2.0, 0.0)
        middle = _median(logs, weights)
        farthest = _CLIP * errors
        clipped = np.clip(logs, middle[:, None] - farthest, middle[:, None] + farthest)
        whole = weights.sum(axis=1)
        with np.errstate(invalid='ignore', divide='ignore'):
            score = np.where(known, weights * clipped, 0.0).sum(axis=1) / whole
            return cls(score, np.sqrt(_MORE / whole), middle)


def _median(logs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the upper weighted median of each row: the first value with more than half of the weight up to it."""
    known_first = np.where(weights > 0, logs, np.inf)
    order = np.argsort(known_first, axis=1)
    ordered = np.take_along_axis(weights, order, axis=1)
    reached = np.cumsum(ordered, axis=1)
    is_more = reached > _HALF * reached[:, -1:]
    row = np.arange(len(logs))
    return logs[row, order[row, is_more.argmax(axis=1)]]


def _agreed(logs: np.ndarray, errors: np.ndarray, middle: float, pool: np.ndarray) -> float:
    """Return the chance that the weighted median of such nights is as low as ``middle``, where each night is drawn
    from ``pool``: the nights of the peers, in standard errors, in order. One night of a node is never enough."""
    if len(logs) < 2:
        return 1.0
    below = np.searchsorted(pool, middle / errors, side='right')
    chance_of_low = (below + _OUTLIERS * _WEIGHT) / (len(pool) + _WEIGHT)
    weights = errors ** -2.0
    which_are_low = np.array([*product((False, True), repeat=len(logs))])      # [cases, nights]
    is_median_low = which_are_low @ weights > _HALF * weights.sum()
    chances = np.where(which_are_low[is_median_low], chance_of_low, 1 - chance_of_low)
    return float(chances.prod(axis=1).sum())


def _mended(nights: np.ndarray, errors: np.ndarray, slow: np.ndarray) -> bool:
    """Return whether the newest nights, _NEWEST or more, show that little is left of a slowdown.

    ``nights`` [parts, nights]: distances from the peers, the newest first, NaN where there was none. ``errors``:
    their standard errors. ``slow`` [parts]: the distances while it was slow. The share that is left of these is
    fitted by weighted least squares. A fast night counts as _CLIP errors at most."""
    known = np.isfinite(nights)
    slow_in_errors = slow[:, None] / errors
    in_errors = np.fmin(nights / errors, _CLIP)
    squares = np.where(known, slow_in_errors ** 2, 0.0)
    products = np.where(known, in_errors * slow_in_errors, 0.0)
    weight = np.cumsum(squares.sum(axis=0))                 # of so many newest nights together
    fitted = np.cumsum(products.sum(axis=0))
    left = np.divide(fitted, weight, out=np.ones(len(weight)), where=weight > 0)
    enough = np.cumsum(known.any(axis=0)) >= _NEWEST
    is_clear = (1 - left) * np.sqrt(weight) > _CLEAR
    return bool((enough & is_clear & (left < _LEFT)).any())


def _scatter(peers: np.ndarray) -> tuple[float, float]:
    """Return the centre of the peers, and their scatter; of many both are robust, as some may be slow."""
    if len(peers) < MANY:
        return float(peers.mean()), float(peers.std(ddof=1))
    middle = float(np.median(peers))
    first, third = np.percentile(peers, (25, 75))
    by_distance = 1.4826 * float(np.median(abs(peers - middle)))
    by_quartiles = 0.7413 * (third - first)
    return middle, (1 + 2 / len(peers)) * max(by_distance, by_quartiles)


def _compared(drop: float, count: int, scatter: float, chance: float) -> RelativeSpeed:
    """Return how a node stands that is ``drop``, a logarithm, below the centre of so many peers."""
    standard_errors = -scipy.special.stdtrit(count - 1, chance)
    by_chance = standard_errors * scatter * np.sqrt(1 + 1 / count)
    smallest = -np.log1p(-DROP)
    bar = max(by_chance, smallest)
    share = np.exp(drop)
    clear = -np.expm1(-bar)
    return RelativeSpeed(float(share), int(count), float(clear), bool(drop < -bar))
