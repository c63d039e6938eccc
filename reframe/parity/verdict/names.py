"""What a person calls the cells of a session: parity.records.history.cell_id, one cell a name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from parity.records.cells import cell_id
from parity.verdict.model import Cell


def names(cells: Iterable[Cell]) -> dict[str, Cell]:
    """The cells by name; the environment is part of it only where a case has several on its partition."""
    cells = list(cells)
    environs = Counter((c.system, c.partition, c.case, c.metric) for c in cells)
    return {cell_id(vars(c), environs[c.system, c.partition, c.case, c.metric] > 1): c for c in cells}
