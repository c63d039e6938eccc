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
#: A node of more than so many is held against all nodes, itself too: it moves their median by a thousandth.
_LARGE = 1000
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
    from the median of the peers; beside MANY peers or more, from that of all nodes. The score of one more node
    like n others is divided by their scatter times sqrt(1 + 1/n). It then has Student's t-distribution of n - 1
    degrees of freedom."""
    has_figure = np.isfinite(logs)
    node_count = has_figure.any(axis=1).sum()
    has_peers = has_figure.sum(axis=0) > FEWEST
    logs = logs[:, has_peers]
    own_cells = np.isfinite(logs[node])
    if not own_cells.any():
        return None
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', RuntimeWarning)     # nanmedian of a node without a figure: NaN
        if node_count > MANY:
            centre = np.nanmedian(logs, axis=0)     # [cells], of all nodes
            scores = np.nanmedian(logs - centre, axis=1)
            own = scores[node]
            peers = np.delete(scores, node)
        else:
            logs = logs[:, own_cells]
            others = np.delete(logs, node, axis=0)
            centre = np.nanmedian(others, axis=0)   # [own cells], of the peers alone
            own = np.nanmedian(logs[node] - centre)
            peers = np.nanmedian(others - centre, axis=1)
    peers = peers[np.isfinite(peers)]
    if len(peers) < FEWEST:
        return None
    middle, scatter = _scatter(peers)
    error = _MORE * max(scatter, CLOSEST)
    speed = _compared(float(own) - middle, len(peers), error, chance)
    from_median = own - np.median(peers)
    return speed._replace(share=float(np.exp(from_median)))


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
    everyone = None
    if is_measured.sum() > _LARGE:
        everyone = _Crowd.of(scores, is_measured)
    asked = range(len(logs)) if only is None else only
    for node in asked:
        if not is_measured[node]:
            continue
        others = is_measured.copy()
        others[node] = False
        crowd = everyone or _Crowd.of(scores, others)
        speeds[node] = _beside_others(logs, errors, scores, node, others, crowd, chance)
    return speeds


@dataclass(frozen=True)
class _Crowd:
    """The scores of nodes: their median, and how much they scatter around it, in their own errors."""

    centre: float
    scatter: float

    @classmethod
    def of(cls, scores: _Scores, nodes: np.ndarray) -> _Crowd:
        score = scores.score[nodes]
        centre = float(np.median(score))
        in_errors = (score - centre) / scores.error[nodes]
        _, scatter = _scatter(in_errors)
        return cls(centre, scatter)


def _beside_others(logs: np.ndarray, errors: np.ndarray, scores: _Scores, node: int, others: np.ndarray,
                   crowd: _Crowd, chance: float) -> RelativeSpeed:
    """Return how one node stands by its nights; see `listed`. ``others`` [nodes]: its peers; ``crowd``: theirs."""
    centre = crowd.centre
    error = max(1.0, crowd.scatter) * scores.error[node]
    speed = _compared(scores.score[node] - centre, others.sum(), error, chance)
    own_nights = np.isfinite(logs[node])
    own = logs[node, own_nights]
    if speed.slower:
        of_peers = logs[others] / errors[others]
        is_known = np.isfinite(logs[others])
        pool = np.sort(of_peers[is_known])
        by_chance = _agreed(own, errors[node, own_nights], scores.middle[node], pool)
        one_part = slice(node, node + 1)
        is_mended = _mended(logs[one_part] - centre, errors[one_part], np.log([speed.share]))
        speed = speed._replace(slower=by_chance <= chance and not is_mended)
    newest = own[0] - centre
    return speed._replace(newest=float(np.exp(newest)))


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
        below_lowest = others.min(axis=0) - logs[node]
        is_apart = below_lowest[:APART_NIGHTS] > least
        if is_apart.all():
            distances = logs[node] - others.mean(axis=0)
            usual_distance = np.median(distances[:APART_NIGHTS])
            speeds[node] = float(np.exp(usual_distance))
    return speeds


def rejoined(logs: np.ndarray, node: int, share: float) -> bool:
    """Return whether the newest nights of a node that was `apart` show that little is left of its slowdown.

    ``share``: its speed then. ``logs``: of `apart`."""
    newest = _common(logs)[:, :_NEWEST]
    others = np.delete(newest, node, axis=0)
    distances = newest[node] - others.mean(axis=0)
    if len(distances) < _NEWEST:
        return False
    farthest = _LEFT * np.log(share)
    return bool((distances > farthest).all())


def _common(logs: np.ndarray) -> np.ndarray:
    """Return the nights [nodes, nights] on which all nodes ran."""
    is_common = np.isfinite(logs).all(axis=0)
    return logs[:, is_common]


def mended(parts: Iterable[tuple[np.ndarray, np.ndarray, int, float]]) -> bool:
    """Return whether the newest nights of a node show that it is as its peers again.

    ``parts``: of each part in which it was slow, the arrays of `listed`, the node's row, and its speed then as a
    share of its peers'. A column is the same night in each."""
    distances, own_errors, slow = [], [], []
    for logs, errors, node, share in parts:
        scores = _Scores.of(logs, errors).score
        peers = np.delete(scores, node)
        peers = peers[np.isfinite(peers)]
        if len(peers) < FEWEST:
            continue
        centre = np.median(peers)
        distances.append(logs[node] - centre)
        own_errors.append(errors[node])
        slow.append(np.log(share))
    if not slow:
        return False
    return _mended(np.array(distances), np.array(own_errors), np.array(slow))


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
        middle_column = middle[:, None]
        farthest = _CLIP * errors
        clipped = np.clip(logs, middle_column - farthest, middle_column + farthest)
        whole = weights.sum(axis=1)
        with np.errstate(invalid='ignore', divide='ignore'):
            weighted = np.where(known, weights * clipped, 0.0)
            score = weighted.sum(axis=1) / whole
            error = np.sqrt(_MORE / whole)
        return cls(score, error, middle)


def _median(logs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the upper weighted median of each row: the first value with more than half of the weight up to it."""
    known_first = np.where(weights > 0, logs, np.inf)
    order = np.argsort(known_first, axis=1)
    ordered = np.take_along_axis(weights, order, axis=1)
    reached = np.cumsum(ordered, axis=1)
    whole = reached[:, -1:]
    is_more = reached > _HALF * whole
    row = np.arange(len(logs))
    first_more = is_more.argmax(axis=1)
    column = order[row, first_more]
    return logs[row, column]


def _agreed(logs: np.ndarray, errors: np.ndarray, middle: float, pool: np.ndarray) -> float:
    """Return the chance that the weighted median of such nights is as low as ``middle``, where each night is drawn
    from ``pool``: the nights of the peers, in standard errors, in order. One night of a node is never enough."""
    if len(logs) < 2:
        return 1.0
    below = np.searchsorted(pool, middle / errors, side='right')
    chance_of_low = (below + _OUTLIERS * _WEIGHT) / (len(pool) + _WEIGHT)
    weights = errors ** -2.0
    cases = product((False, True), repeat=len(logs))
    which_are_low = np.array([*cases])                      # [cases, nights]
    is_median_low = which_are_low @ weights > _HALF * weights.sum()
    low_cases = which_are_low[is_median_low]
    chances_of_nights = np.where(low_cases, chance_of_low, 1 - chance_of_low)
    chances = chances_of_nights.prod(axis=1)
    return float(chances.sum())


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
    everything = np.ones(len(weight))
    left = np.divide(fitted, weight, out=everything, where=weight > 0)
    is_measured = known.any(axis=0)
    is_enough = np.cumsum(is_measured) >= _NEWEST
    is_clear = (1 - left) * np.sqrt(weight) > _CLEAR
    is_little = left < _LEFT
    shows = is_enough & is_clear & is_little
    return bool(shows.any())


def _scatter(peers: np.ndarray) -> tuple[float, float]:
    """Return the centre of the peers, and their scatter; of many both are robust, as some may be slow."""
    if len(peers) < MANY:
        return float(peers.mean()), float(peers.std(ddof=1))
    middle = float(np.median(peers))
    distances = abs(peers - middle)
    by_distance = 1.4826 * float(np.median(distances))
    first, third = np.percentile(peers, (25, 75))
    by_quartiles = 0.7413 * (third - first)
    wider = 1 + 2 / len(peers)
    return middle, wider * max(by_distance, by_quartiles)


def _compared(drop: float, count: int, scatter: float, chance: float) -> RelativeSpeed:
    """Return how a node stands that is ``drop``, a logarithm, below the centre of so many peers."""
    standard_errors = -scipy.special.stdtrit(count - 1, chance)
    by_chance = standard_errors * scatter * np.sqrt(1 + 1 / count)
    smallest = -np.log1p(-DROP)
    bar = max(by_chance, smallest)
    share = np.exp(drop)
    clear = -np.expm1(-bar)
    return RelativeSpeed(
        share=float(share),
        peers=int(count),
        clear=float(clear),
        slower=bool(drop < -bar))
