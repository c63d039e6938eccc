"""Cells: their names, as `Ior%api=POSIX.write@local:default+spack`, and those that a session planned."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
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


#: Of a planned cell, in a frame's order.
PLANNED = ('check', 'case', 'subsystem', 'partition', 'environ', 'size', 'metric', 'unit', 'better')


def planned(plan: dict[str, Any]) -> list[tuple[str, ...]]:
    """The planned cells that an environment can run, in PLANNED."""
    return [(*case, *metric) for *case, metrics in _planned_cases(plan) for metric in metrics]


def digest(plan: dict[str, Any]) -> str:
    """The same for plans of the same cells; '' for one of none."""
    return _digest(sorted(_planned_cases(plan)))


def _planned_cases(plan: dict[str, Any]) -> set[tuple]:
    """Each case that an environment can run, its metrics last; repeats of a case are one."""
    return {(*(case[name] for name in PLANNED[:6]),
             tuple(sorted((metric['name'], metric['unit'], metric['better']) for metric in case['metrics'])))
            for case in plan.get('cases', ()) if case.get('environ')}


def digest_of_cases(plan: dict[str, Any]) -> str:
    """The same for plans of the same cases, those included that no environment can run."""
    cases = {tuple(c.get(name) or '' for name in ('case', 'partition', 'environ', 'size'))
             for c in plan.get('cases', ())}
    return _digest(sorted(cases))


def _digest(found: Collection[tuple]) -> str:
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()[:16] if found else ''
