"""A `reframe` command's plan: its cases, and those that no environment can run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from parity.base import paths
from parity.base.errors import UsageError
from parity.plan.model import Plan, PlannedCase


def of_command(arguments: list[str]) -> Plan:
    """The plan of ``reframe ARGUMENTS``.

    ReFrame's loader is asked twice, with and without its filter on environments: a check whose
    needs no environment offers is in the second answer only, and is planned with environ ''.
    Raises UsageError with ReFrame's own words when it refuses the arguments.
    """
    arguments = _once(arguments)
    with tempfile.TemporaryDirectory(prefix='parity-plan-') as folder:
        asked = [_ask(Path(folder) / 'filtered', arguments),
                 _ask(Path(folder) / 'all', [*arguments, '--skip-prgenv-check'])]
        filtered, everything = [_answer(process, file) for process, file in asked]
    cases = [PlannedCase(**c) for c in filtered['cases']]
    run = {(c.unique_name, c.partition) for c in cases}
    impossible = {(c['unique_name'], c['partition']): {**c, 'environ': ''} for c in everything['cases']
                  if (c['unique_name'], c['partition']) not in run}
    return Plan(system=filtered['system'], providers=filtered['providers'], checks=filtered['checks'],
                problems=filtered['problems'],
                cases=cases + [PlannedCase(**c) for c in impossible.values()])


def _once(arguments: list[str]) -> list[str]:
    """Without --repeat: repeats are one case, and ReFrame forgets those of cases that no environment can run."""
    left, rest = [], iter(arguments)
    for argument in rest:
        if argument == '--repeat':
            next(rest, None)
        elif not argument.startswith('--repeat='):
            left.append(argument)
    return left


def _ask(file: Path, arguments: list[str]) -> tuple[subprocess.Popen, Path]:
    command = [sys.executable, '-m', 'parity.rfm.capture', str(file), *arguments]
    # its own debug log must not overwrite that of the run
    environ = {**os.environ, 'PARITY_REFRAME_LOG': str(file.with_suffix('.log')),
               'RFM_COLORIZE': 'n', 'PARITY_PLANNING': '1'}
    environ.setdefault('RFM_CONFIG_FILES', str(paths.root() / 'reframe' / 'settings.py'))
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, env=environ), file


def _answer(process: subprocess.Popen, file: Path) -> dict[str, Any]:
    printed, _ = process.communicate()
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError):
        raise UsageError(f'reframe refuses: {_reason(printed)}') from None


def _reason(printed: str) -> str:
    """The lines in which ReFrame, or Python, says what was wrong."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    telling = [li for li in lines if 'error' in li.lower()] or lines[-1:]
    return ' '.join(telling[:3]) or 'no reason given'
