"""``ci/nightly [--dry-run] [--time-limit HOURS] [--repeats N] [reframe options]``: guard, run, verdict, report."""

from __future__ import annotations

import signal
import sys
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, NoReturn

from parity.base import errors, findings
from parity.base.text import visible
from parity.nightly.heartbeat import REHEARSALS, Heartbeat

if TYPE_CHECKING:
    from parity.base.findings import Diagnosis
    from parity.site.plan import Plan


class _Interrupted(KeyboardInterrupt):
    """The arrival of SIGTERM or SIGINT. Where KeyboardInterrupt itself arrives in code that was made from text, as
    a dataclass is, Python ends by SIGINT and not with our exit code."""


def _interrupt(*_) -> NoReturn:
    raise _Interrupted


def nightly(beat: Heartbeat | None) -> None:
    """Guard, run, judge and report; end the process with the verdict's exit code."""
    import time
    began = time.time()
    from parity.nightly.guard import read
    own, options = read(sys.argv[1:])
    from parity.base import paths
    from parity.base.figures import counted
    from parity.measure.rfm import planning
    from parity.measure.session import runner
    from parity.nightly import doctor, guard, notify, run
    from parity.site import systems
    doctor.demand_packages()
    runner.lock_results('ci/nightly', options)
    if beat:
        beat.write()
    command = ['-c', str(paths.root() / 'checks'), '-r', *options]
    planned = planning.of_command(command)
    cases = {(c.case, c.partition, c.environ): len(c.metrics) for c in planned.cases}    # repeats are one case
    cells = counted(sum(cases.values()), 'cell')
    print(f'parity: {planned.system}: {counted(len(cases), "case")}, {cells} planned', flush=True)
    system = systems.read(planned.system)
    found = [*doctor.guards(system, planned)]
    if not beat:
        sys.exit(_rehearsed(planned, options, found))
    findings.refuse(found)
    _warn(found, ('lacking', 'note'))
    notice = notify.prepared(planned.system)
    limit = own.time_limit * 3600
    guard.wait_for_window(system, limit)
    sys.exit(run.judged(command, limit, began, notice, beat, own.require))


def _warn(found: Iterable[Diagnosis], words: Collection[str]) -> None:
    for finding in found:
        if finding.word in words:
            print(f'parity: warning: {visible(str(finding))}', file=sys.stderr)


def _rehearsed(planned: Plan, options: list[str], guarded: list[Diagnosis]) -> int:
    """Print what the night would lack, as `parity doctor` lists it; return its exit code."""
    from parity.nightly import doctor
    _warn(guarded, ('note',))
    found = [*doctor.findings(planned.system, options, planned, guarded)]
    for finding in found:
        if finding.word == 'lacking':
            print(f'parity: {visible(str(finding))}', file=sys.stderr)
    code = findings.exit_code(found)
    print('parity: all is well: the run itself was left out (--dry-run)' if not code else
          f'parity: {findings.answer(planned.system, found)}')
    return code


def main() -> None:
    """Run with a heartbeat. A night that is refused or stopped has one, a rehearsal has none."""
    for number in (signal.SIGTERM, signal.SIGINT):      # between two runs of ReFrame both end as by Ctrl-C
        signal.signal(number, _interrupt)
    beat = None if REHEARSALS & set(sys.argv[1:]) else Heartbeat(sys.argv[1:])
    code = errors.REGRESSED     # as Python ends where a mistake of ours ends it
    if beat:
        beat.write()
    try:
        errors.run(lambda: nightly(beat))
    except SystemExit as ended:
        code = ended.code
        raise
    finally:
        if beat:
            beat.end(code)


errors.run(main)
