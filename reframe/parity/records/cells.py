"""The name of a cell, written and read: `Ior%api=POSIX.write@local:default+spack`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

#: What tells one cell of a system from another.
CELL = ('partition', 'environ', 'case', 'size', 'metric')
#: CHECK[%PARAMETERS].METRIC@SYSTEM:PARTITION[+ENVIRON], as cell_id writes it.
NAME = re.compile(r'(?P<check>\w+)(?:%\S*)?\.(?P<metric>[^.@\s]+)@(?P<system>[\w-]+):(?P<partition>[\w-]+)'
                  r'(?:\+(?P<environ>[\w-]+))?')


def cell_id(row: Mapping[str, Any], environ: bool = False) -> str:
    """``row`` needs the system and CELL; ``environ`` is for a case that several environments run."""
    name = f'{row["case"].replace(" ", "")}.{row["metric"]}@{row["system"]}:{row["partition"]}'
    return f'{name}+{row["environ"]}' if environ else name


def parameters(case: str) -> dict[str, str]:
    """Name and value of each parameter of a case: 'Ior %api=POSIX %span=1'."""
    return dict(each.split('=', 1) for each in case.split(' %')[1:] if '=' in each)
