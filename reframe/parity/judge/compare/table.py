"""The rows of a comparison as CSV."""

from __future__ import annotations

from parity.base import csvfile
from parity.judge.compare.model import Comparison

#: Fields of a row, in the order of the columns.
_COLUMNS = ('subsystem', 'check', 'benchmark', 'metric', 'partition', 'against', 'unit', 'better', 'n_baseline',
            'n_candidate', 'sessions_baseline', 'sessions_candidate', 'baseline', 'candidate', 'spread_baseline',
            'spread_candidate', 'ratio', 'low', 'high', 'verdict', 'expected', 'state', 'refused', 'label',
            'reason')


def as_csv(c: Comparison) -> str:
    """Return a row for each metric, in the order of the table; a figure that is not known is empty."""
    rows = []
    for row in c.rows:
        rows.append([getattr(row, name) for name in _COLUMNS])
    return csvfile.written(_COLUMNS, rows)
