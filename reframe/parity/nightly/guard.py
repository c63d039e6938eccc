"""What must be in order before a run: each thing that is not is one line and exit code 2."""

from __future__ import annotations

import datetime
import os
import sys
import tempfile

from parity.base import paths
from parity.base.errors import InfrastructureError, NothingMeasured, UsageError
from parity.compare import pairs
from parity.plan import Plan, Problem
from parity.refs import accepted, lint
from parity.system import systems
from parity.verdict import acks

#: What a session's database, perflogs, outputs and report may take.
ROOM_BYTES = 16 << 20


def folders() -> None:
    """results/ can be written to, and has room for a session's reports. Raises InfrastructureError otherwise."""
    folder = paths.results()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b'\0' * ROOM_BYTES)
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as err:
        raise InfrastructureError(f'{folder}: {err.strerror}: results cannot be kept') from None


def everything(plan: Plan, options: list[str]) -> None:
    """The plan is whole: no file without a check, a selection that is not empty, references that fit."""
    wrong = _each_once(plan.problems)
    wrong += [f'{c.file}: {c.check} declares no metrics: it would pass whatever it prints'
              for c in plan.checks if not c.metrics]
    if not plan.cases and not wrong:
        checks = ', '.join(sorted(c.check for c in plan.checks)) or 'none'
        wrong.append(f'the selection is empty: {" ".join(options)} fits no case (checks: {checks})')
    system = systems.read(plan.system)
    wrong += accepted.problems(system, plan) + pairs.problems(system, plan) + acks.problems(system, plan)
    if wrong:
        raise UsageError('\n'.join(wrong))


def warn(plan: Plan) -> None:
    """Tell what of the accepted references deserves a look; it is no reason not to run."""
    for said in lint.grouped(lint.warnings(accepted.of_system(plan.system))):
        print(f'parity: warning: {said}', file=sys.stderr)


def _each_once(problems: list[Problem]) -> list[str]:
    """What is wrong in several files alike (a bad -S) is told of the first."""
    files: dict[str, list[str]] = {}
    for problem in problems:
        files.setdefault(problem.what, []).append(problem.file)
    return [f'{named[0]}: {what}' + (f' (and {len(set(named)) - 1} more files)' if len(set(named)) > 1 else '')
            for what, named in files.items()]


def nothing_missing(plan: Plan) -> None:
    """Every code that the system requires has an environment; NothingMeasured names those without."""
    system = systems.read(plan.system)
    waived, _ = systems.waived(system, datetime.date.today())
    required = systems.required(system, set(plan.providers)) - set(waived)
    lacking = [c for c in plan.cases if not c.environ and required & set(c.needs)]
    if lacking:
        cells = sum(len(c.metrics) for c in lacking)
        codes = ', '.join(sorted({n for c in lacking for n in c.needs}))
        raise NothingMeasured(f'{cells} cells would be missing: no environment offers {codes}, '
                              f'which {plan.system} requires')
