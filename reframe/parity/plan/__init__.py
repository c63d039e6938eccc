"""The plan: every cell that a run must account for, known before it starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from parity.base import paths
from parity.base.errors import UsageError
from parity.base.strict import Strict

#: The one metric of a foreign test without performance variables, and the size of every foreign test.
PASSED, OWN = 'passed', 'own'


class PlannedMetric(Strict):
    name: str
    unit: str
    better: str             # '' where it is not known
    unknown: str = ''       # why
    left_out: str = ''      # why a case of this size never has it


class PlannedCase(Strict):
    """A check on a partition; ``environ`` is '' where no environment offers what it needs."""

    check: str
    case: str
    unique_name: str
    subsystem: str
    size: str
    file: str
    needs: list[str]
    system: str
    partition: str
    environ: str
    metrics: list[PlannedMetric]


class LoadedCheck(Strict):
    """A check class that was loaded, selected or not. References may name its metrics and parameters."""

    check: str
    file: str
    needs: list[str] = []
    parameters: dict[str, list[str]] = {}
    sizes: list[str] = []                   # that a reference may name, where they are others than a night's
    variants: dict[str, list[str]] = {}     # that a reference must name
    forms: dict[str, str] = {}              # patterns of its variables
    in_memory: list[str] = []               # variables that are sizes in the memory of a process
    metrics: list[PlannedMetric]


class Problem(Strict):
    """A file that gives no check, or a check that ReFrame would leave out without a word."""

    file: str
    what: str
    refuses: bool = True    # a night; else the rest runs, and the verdict tells it

    def __str__(self) -> str:
        return f'{self.file}: {self.what}'


class Plan(Strict):
    system: str
    providers: list[str] = []          # of the environments that the system's partitions have
    cases: list[PlannedCase]
    checks: list[LoadedCheck]
    problems: list[Problem]


def of_command(arguments: list[str]) -> Plan:
    """Return the plan of ``reframe ARGUMENTS``. UsageError with ReFrame's words when it refuses the arguments."""
    with tempfile.TemporaryDirectory(prefix='parity-plan-') as folder:
        file = Path(folder) / 'plan'
        # a debug log of its own: it must not overwrite that of the run
        environ = {'RFM_CONFIG_FILES': str(paths.root() / 'reframe' / 'settings.py'), **os.environ,
                   'PARITY_REFRAME_LOG': f'{file}.log', 'RFM_COLORIZE': 'n', 'PARITY_PLANNING': '1'}
        command = [sys.executable, '-m', 'parity.rfm.capture', str(file), *arguments]
        done = subprocess.run(command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        try:
            planned = json.loads(file.read_text())
        except (OSError, ValueError):
            lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
            telling = [line for line in lines if 'error' in line.lower()] or lines[-1:]
            raise UsageError(f'reframe refuses: {" ".join(telling[:3]) or "no reason given"}') from None
    return Plan(**planned)
