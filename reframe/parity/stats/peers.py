"""A node beside its peers: is it slower than they scatter? docs/nightly.md describes it."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

#: Fewer peers than these say nothing. From MANY on, centre and scatter are robust, and all nodes share the centre.
FEWEST, MANY = 3, 12
#: A drop counts from DROP on. One of DOUBT that is not clear says nothing. Peers never count as closer together
#: than CLOSEST (of the logarithm).
DROP, DOUBT, CLOSEST = 0.03, 0.1, 0.005
#: At most one of so many listings, or gates, of sound nodes names a node; chosen by simulation: _MORE.
CHANCE, _MORE = 1 / 100, 1.1


class Beside(NamedTuple):
    """A node's speed in one part as a share of its peers'. ``clear``: the drop, a share, that makes it slower."""

    share: float
    peers: int
    clear: float
    slower: bool

    @property
    def doubtful(self) -> bool:
        return not self.slower and self.share < 1 - DOUBT

    def __str__(self) -> str:
        return 'SLOWER' if self.slower else 'cannot be told' if self.doubtful else 'like its peers'


def beside(logs: np.ndarray, chance: float) -> list[Beside | None]:
    """Return how each node stands in one part; None where fewer than FEWEST peers have a figure beside its own.

    ``logs`` [nodes, cells]: natural logarithms of the figures, higher is better, NaN where there is none.
    ``chance``: that a sound node is called slower. A node's score is the median over its cells of its distance
    from the median of the peers. The score of one more node like n others is divided by their scatter times
    sqrt(1 + 1/n). It then has Student's t-distribution of n - 1 degrees of freedom."""
    known = np.isfinite(logs)
    logs = logs[:, known.sum(0) > FEWEST]
    found: list[Beside | None] = []
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', RuntimeWarning)     # nanmedian of a node without a figure: NaN
        many = known.any(1).sum() > MANY
        scores = np.nanmedian(logs - np.nanmedian(logs, 0), 1) if many else None
        for node in range(len(logs)):
            cells = np.isfinite(logs[node])
            if many:
                own, peers = scores[node], np.delete(scores, node)
            else:
                others = np.delete(logs[:, cells], node, 0)
                centre = np.nanmedian(others, 0)
                own, peers = np.nanmedian(logs[node, cells] - centre), np.nanmedian(others - centre, 1)
            peers = peers[np.isfinite(peers)]
            found.append(_beside(own, peers, chance) if cells.any() and len(peers) >= FEWEST else None)
    return found


def _beside(own: float, peers: np.ndarray, chance: float) -> Beside:
    count = len(peers)
    if count < MANY:
        middle, scatter = float(peers.mean()), float(peers.std(ddof=1))
    else:       # some may be slow
        middle, (first, third) = float(np.median(peers)), np.percentile(peers, (25, 75))
        scatter = (1 + 2 / count) * max(1.4826 * float(np.median(abs(peers - middle))), 0.7413 * (third - first))
    bar = -stdtrit(count - 1, chance) * _MORE * max(scatter, CLOSEST) * np.sqrt(1 + 1 / count)
    bar, drop = max(float(bar), -np.log1p(-DROP)), float(own) - middle
    return Beside(float(np.exp(own - np.median(peers))), count, float(-np.expm1(-bar)), drop < -bar)
