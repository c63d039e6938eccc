"""What a night says of the state of a system: what is bad by name, what is known, what was measured."""

from __future__ import annotations

from dataclasses import dataclass, field

from parity.verdict import acks, judge
from parity.verdict.model import Cell, Verdict
from parity.verdict.names import names

#: Words that somebody must hear of.
BAD = (*acks.BAD, 'missing')
#: Follows the word of what is plainly worse than when it was acknowledged: it is told again.
OUTGROWN = ' (worse than acknowledged)'
#: Stands for the whole night, which stored no session, or measured nothing.
WHOLE = 'ci/nightly'


@dataclass(frozen=True)
class Night:
    """``bad``: words by name, of what counts; ``known``: of what is acknowledged; ``measured``: all names of
    which this night says how they are; ``ran_on``: on which nodes; ``places``: which of them a bad one is of."""

    bad: dict[str, str]
    known: dict[str, str] = field(default_factory=dict)
    measured: frozenset[str] = frozenset({WHOLE})
    ran_on: dict[str, list[str]] = field(default_factory=dict)
    places: dict[str, list[str]] = field(default_factory=dict)


def of(verdict: Verdict) -> Night:
    """Cells, with their size, and declared pairs. What was skipped, or cannot be told yet, was not measured."""
    gone, often = {id(c) for c in verdict.retired}, {id(c) for c in judge.too_often(verdict.cells)}
    every = {f'{name} ({c.size})': c for name, c in names([*verdict.cells, *verdict.retired]).items()}
    cells = {name: c for name, c in every.items()
             if id(c) not in gone and (c.verdict not in ('skipped', 'disturbed') or id(c) in often)}
    retired = [name for name, c in every.items() if id(c) in gone]      # nobody waits for them
    words = {name: c.verdict + (OUTGROWN if c.outgrown else '') for name, c in cells.items()
             if c.verdict in BAD or id(c) in often}
    known = {name: word for name, word in words.items() if cells[name].acknowledged}
    pairs = {f'{p.candidate} / {p.baseline} {p.benchmark}: {p.metric}': p.state for p in verdict.pairs
             if p.state in ('ok', 'regressed')}
    bad = {name: word for name, word in words.items() if name not in known}
    bad |= {name: word for name, word in pairs.items() if word == 'regressed'}
    if verdict.exit_code and not bad and not known:     # nothing at all was measured, or a check is broken
        bad = {WHOLE: 'missing'}
    return Night(bad, known, frozenset({WHOLE, *cells, *retired, *pairs}),
                 {name: c.ran_on for name, c in cells.items()}, {name: _place(cells[name]) for name in words})


def _place(cell: Cell) -> list[str]:
    """The node that is slower, where it is known; else all that the cell ran on."""
    where = cell.cause.where if cell.cause else None
    return [where.name] if where and where.kind == 'node' else cell.ran_on


def failed() -> Night:
    """Of a night that stored no session."""
    return Night({WHOLE: 'failed'})
