"""Acknowledgements put beside the cells of a judged session."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from parity.verdict.acks import file, level
from parity.verdict.acks.file import BAD, NAME, Ack
from parity.verdict.model import Cell
from parity.verdict.names import names


def applied(cells: list[Cell], system: str, today: datetime.date) -> tuple[list[Cell], list[str]]:
    """The cells, those of known faults with who says so until when; and a warning for every
    acknowledgement that has expired, or is needed no more. UsageError for a bad acks.yaml."""
    acks = file.read(system)
    if not acks:
        return cells, []
    known = names(cells)
    holding: dict[int, Ack] = {}
    for ack in filter(lambda each: each.holds(today), acks):
        for cell in fitting(ack, known):
            if cell.verdict in BAD and (id(cell) not in holding or ack.word in (None, cell.verdict)):
                holding[id(cell)] = ack
    told = [sentence for ack in acks if (sentence := _warning(ack, fitting(ack, known), today))]
    return [_noted(cell, holding[id(cell)]) if id(cell) in holding else cell for cell in cells], told


def fitting(ack: Ack, known: Mapping[str, Cell]) -> list[Cell]:
    """The cells that ``ack`` speaks of: one without an environment speaks of all that the case has."""
    if NAME.fullmatch(ack.cell)['environ']:
        return [known[ack.cell]] if ack.cell in known else []
    return [cell for name, cell in known.items() if name.partition('@')[0] == ack.cell.partition('@')[0]
            and f'{cell.system}:{cell.partition}' == ack.cell.partition('@')[2]]


def _noted(cell: Cell, ack: Ack) -> Cell:
    """Acknowledged, unless the fault is another one now, or plainly worse."""
    another = f'acknowledged as {ack.word} only ({ack})' if ack.word not in (None, cell.verdict) else ''
    worse = '' if another else level.worse(cell, ack)
    no_level = ack.value is None and cell.value is not None
    known = f'acknowledged {ack}' + ('; without a level: any worse figure is taken as known' if no_level else '')
    return cell.model_copy(update={'acknowledged': '' if another or worse else str(ack), 'outgrown': worse,
                                   'reason': '; '.join(filter(None, (cell.reason, another or worse or known)))})


def _warning(ack: Ack, cells: list[Cell], today: datetime.date) -> str:
    words = {cell.verdict for cell in cells}
    where = f'systems/{NAME.fullmatch(ack.cell)["system"]}/acks.yaml'
    if not ack.holds(today):
        now = 'it counts again' if words & set(BAD) else f'take it out of {where}'
        return f'the acknowledgement of {ack.cell} by {ack.by} expired on {ack.until} ({ack.why}): {now}'
    if words and words <= {'ok', 'improved'}:
        return f'{ack.cell} is {" ".join(sorted(words))} again: take its acknowledgement out of {where} ({ack})'
    return ''
