"""Known faults, systems/<name>/acks.yaml: shown as acknowledged, not hidden, until a day.

    acks:
      - cell: Stream%threads=all.triad@onebox:virtual
        until: 2026-12-01
        why: broken DIMM in v3, replacement ordered
        by: bea
        since: 2026-11-20
        word: regressed
        value: 71.2                  # then
        expected: 77.6               # what it was judged by
"""

from parity.verdict.acks.apply import applied, fitting
from parity.verdict.acks.file import BAD, Ack, problems, read, write

__all__ = ['BAD', 'Ack', 'applied', 'fitting', 'problems', 'read', 'write']
