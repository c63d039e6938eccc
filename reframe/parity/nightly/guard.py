"""The guards of a run: every fault gets a line and its exit code before anything runs."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from parity.base import codes, console, errors, yamlfile
from parity.base.errors import UsageError
from parity.base.figures import counted, duration
from parity.judge.compare import pairs
from parity.judge.refs import accepted, levels, lint
from parity.judge.verdict import acks
from parity.judge.verdict.model import Coverage
from parity.measure.rfm import capture
from parity.measure.scheduler import scheduled
from parity.measure.session import current
from parity.site import systems
from parity.site.plan import LoadedCheck, Plan
from parity.site.systems import System


def problems(plan: Plan) -> list[str]:
    """Return the mistakes of the plan, and references and pairs that fit nothing, a line each."""
    wrong = _of_files(plan)
    for check in plan.checks:
        if not check.metrics:
            wrong.append(f'{check.file}: {check.check} declares no metrics: it would pass whatever it prints')
    system = systems.read(plan.system)
    return [*wrong, *accepted.problems(system, plan), *pairs.problems(system, plan)]


def _of_files(plan: Plan) -> list[str]:
    """Return what keeps files from being read. Report a fault that several share (a bad -S) for the first."""
    files: dict[str, list[str]] = {}
    for problem in plan.problems:
        if problem.refuses:
            files.setdefault(problem.what, []).append(problem.file)
    wrong = []
    for what, names in files.items():
        first, *others = dict.fromkeys(names)
        more = f' (and {counted(len(others), "more file")})' if others else ''
        wrong.append(f'{first}: {what}{more}')
    return wrong


def wait_for_window(system: System, longest: float) -> None:
    """Return when jobs may start; the night starts none after the window's end. ``longest``: seconds.

    Raises UsageError where the window opens later than that."""
    if not (system.nightly and system.nightly.window):
        return
    window = system.nightly.window
    now = time.time()
    begin, end = system.nightly.opens(now)
    wait = begin - now
    if wait > longest:
        raise UsageError(f'{systems.file_of(system.name)}: nightly: the window {window} opens in '
                         f'{duration(wait)}, after the time limit of {duration(longest)}: '
                         'start ci/nightly later, or correct the window')
    if wait > 0:
        console.say(f'parity: waiting for the window {window}: it opens in {duration(wait)}')
        time.sleep(wait)
    os.environ[scheduled.UNTIL] = str(end)


def warnings(plan: Plan) -> Iterator[str]:
    """Yield what deserves a look, and keeps no night from running: codes of environments, accepted references,
    acknowledgements and levels of cells that are gone."""
    system = systems.read(plan.system)
    yield from idle_codes(system, plan.checks)
    yield from accepted.grouped(lint.warnings(accepted.of_system(plan.system)))
    yield from acks.problems(system, plan)
    yield from levels.problems(system, plan)


def idle_codes(system: System, checks: Sequence[LoadedCheck]) -> Iterator[str]:
    """Yield a warning for each code of an environment that can run none of the code's checks."""
    for environ_index, environ in enumerate(system.environments):
        for code_index, code in enumerate(environ.codes):
            lacking = _lacking(code, environ.codes, checks)
            if not lacking or not all(lacking.values()):
                continue
            place = ('environments', environ_index, 'codes', code_index)
            file = systems.file_of(system.name)
            line = yamlfile.line_of(yamlfile.load(file)[1], place)
            needs = '; '.join(f'{check} needs {", ".join(sorted(more))}' for check, more in lacking.items())
            wrong = sorted(set().union(*lacking.values()) - set(codes.features()))
            if wrong:
                fix = f'no code has the feature {wrong[0]}: correct `needs` of the check'
            else:
                fix = f'add what {environ.name} has to codes'
            yield (f'{file}:{line}: environments.{environ_index}.codes: '
                   f'{environ.name} runs no check of {code}: {needs}; {fix}')


def _lacking(feature: str, offered: Sequence[str], checks: Sequence[LoadedCheck]) -> dict[str, set[str]]:
    """Return, for each check of a code, what it needs and an environment does not offer. MPI is not asked for."""
    folders = {_folder(code.file) for code in codes.every() if feature in (code.feature, code.on_gpu)}
    lacking = {}
    for check in checks:
        if feature in check.needs or _folder(Path(check.file)) in folders:
            lacking[check.check] = set(check.needs) - {*offered, 'mpi'}
    return lacking


def _folder(file: Path) -> tuple[str, ...]:
    """Return subsystem and code of a file checks/<subsystem>/<code>/<file>."""
    return file.parts[-3:-1]


#: The options of ci/nightly that are not ReFrame's.
OURS = '--dry-run, --time-limit HOURS, --repeats N, --require CODES'
#: As --require: at least one of the codes.
ANY = 'any'


def read(given: list[str], ours: str = OURS) -> tuple[argparse.Namespace, list[str]]:
    """Return our own options, and those for ReFrame. UsageError for one that is neither ReFrame's nor ``ours``."""
    parser = argparse.ArgumentParser(
        prog='ci/nightly', allow_abbrev=False, epilog='Every other option is handed to reframe (reframe --help).',
        description='The guarded nightly run of `reframe -c checks/ -r`: guards, run, verdict, report.')
    parser.add_argument('--dry-run', action='store_true', help='do all but run; exit 0 when all is well')
    parser.add_argument('--time-limit', type=float, default=8.0, metavar='HOURS',
                        help='end the run after so long (default 8); what had finished is judged')
    parser.add_argument('--repeats', type=int, default=3, metavar='N',
                        help="runs of each case (default 3; reframe's --repeat); their median is judged")
    parser.add_argument('--require', type=_required, action='extend', default=[], metavar='CODES',
                        help='end with 3 unless each of these codes was measured, by itself or by a code that '
                             f'stands in for it, separated by commas; {ANY}: at least one')
    own, reframe_options = parser.parse_known_args(given)
    if not own.time_limit > 0:
        raise errors.UsageError(f'--time-limit {own.time_limit:g}: must be a number of hours above 0')
    if own.repeats < 1:
        raise errors.UsageError(f'--repeats {own.repeats}: must be at least 1')
    capture.check_options(reframe_options, ours)
    if own.repeats > 1 and not any(o.partition('=')[0] == '--repeat' for o in reframe_options):
        reframe_options.append(f'--repeat={own.repeats}')
    return own, reframe_options


def _required(text: str) -> list[str]:
    """Return the codes (features) of --require. Raise UsageError for an unknown one."""
    valid = [ANY, *(code.feature for code in codes.measured())]
    wanted = text.split(',')
    for name in wanted:
        if name not in valid:
            raise errors.UsageError(f'--require {text}: unknown {name!r}; valid are: {", ".join(valid)}')
    return wanted


def unmet(required: Sequence[str], coverage: Coverage) -> str:
    """Return which of the ``required`` codes were not measured, as a sentence; '' for none."""
    measured = {code.code for code in coverage.codes if code.measured}
    if ANY in required and not measured and coverage.lacking:
        return f'none of the {coverage.total} codes was measured'
    names = {code.feature: code.name for code in codes.measured()}
    wanted = [names[feature] for feature in required if feature != ANY]
    absent = [name for name in wanted if name not in measured]
    return f'required, and not measured: {" ".join(absent)}' if absent else ''


def _before_set_up(given: list[str]) -> None:
    """Raise UsageError for a wrong option of ci/quickstart, an unknown system, and a login node."""
    _, options = read(given, f'--yes, --no-install, --with apps, {OURS}')
    current.system_of(options)


if __name__ == '__main__':
    errors.run(lambda: _before_set_up(sys.argv[1:]))
