"""What must be in order before a run: each thing that is not is one line and exit code 2."""

from __future__ import annotations

import os
import tempfile
from itertools import zip_longest

from parity import paths, references
from parity.errors import InfrastructureError, UsageError
from parity.plan import Plan
from parity.site import systems


def folders() -> None:
    """results/ can be written to, and has room for a session's reports.

    Raises InfrastructureError otherwise.
    """
    folder = paths.results()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b'\0' * (1 << 20))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as err:
        raise InfrastructureError(f'{folder}: {err.strerror}: results cannot be kept') from None


def known_system(options: list[str]) -> None:
    """The system that --system names is one of systems/; UsageError names the valid ones."""
    for option, following in zip_longest(options, options[1:], fillvalue=''):
        named = following if option == '--system' else option.removeprefix('--system=')
        if option.startswith('--system') and named != option:
            systems.read(named.partition(':')[0])


def everything(plan: Plan, options: list[str]) -> None:
    """The plan is whole: no file without a check, a selection that is not empty, references that fit."""
    wrong = [str(p) for p in plan.problems]
    wrong += [f'{c.file}: {c.check} declares no metrics: it would pass whatever it prints'
              for c in plan.checks if not c.metrics]
    if not plan.cases and not wrong:
        checks = ', '.join(sorted(c.check for c in plan.checks)) or 'none'
        wrong.append(f'the selection is empty: {" ".join(options)} fits no case (checks: {checks})')
    wrong += references.problems(systems.read(plan.system), plan)
    if wrong:
        raise UsageError('\n'.join(wrong))
