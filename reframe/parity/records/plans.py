"""The cells that a session planned."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from typing import Any

#: Of a planned cell, in a frame's order.
COLUMNS = ('check', 'case', 'subsystem', 'partition', 'environ', 'size', 'metric', 'unit', 'better')


def rows(plan: dict[str, Any]) -> list[tuple[str, ...]]:
    """The planned cells that an environment can run, in COLUMNS."""
    return [(*case, *metric) for *case, metrics in _cases(plan) for metric in metrics]


def digest(plan: dict[str, Any]) -> str:
    """The same for plans of the same cells; '' for one of none."""
    return _digest(sorted(_cases(plan)))


def _cases(plan: dict[str, Any]) -> set[tuple]:
    """Each case that an environment can run, its metrics last; repeats of a case are one."""
    return {(*(case[name] for name in COLUMNS[:6]),
             tuple(sorted((metric['name'], metric['unit'], metric['better']) for metric in case['metrics'])))
            for case in plan.get('cases', ()) if case.get('environ')}


def digest_of_cases(plan: dict[str, Any]) -> str:
    """The same for plans of the same cases, those included that no environment can run."""
    cases = {tuple(c.get(name) or '' for name in ('case', 'partition', 'environ', 'size'))
             for c in plan.get('cases', ())}
    return _digest(sorted(cases))


def _digest(found: Collection[tuple]) -> str:
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()[:16] if found else ''
