"""What a person calls a cell: `Hpcc.hpl@local:default`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: What tells one cell of a system from another.
CELL = ('partition', 'environ', 'case', 'size', 'metric')


def cell_id(row: Mapping[str, Any], environ: bool = False) -> str:
    """``row`` needs the system and CELL; ``environ`` is for a case that several environments run."""
    name = f'{row["case"].replace(" ", "")}.{row["metric"]}@{row["system"]}:{row["partition"]}'
    return f'{name}+{row["environ"]}' if environ else name
