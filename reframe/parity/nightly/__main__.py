"""``ci/nightly [--dry-run] [--time-limit HOURS] [--repeats N] [reframe options]``: guard, run, verdict, report."""

from __future__ import annotations

import signal
import sys
from typing import NoReturn

from parity.base import errors
from parity.nightly.heartbeat import REHEARSALS, Heartbeat


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
    from parity import plan
    from parity.base import paths
    from parity.base.figures import counted
    from parity.nightly import doctor, guard, notify, run
    from parity.session import runner
    from parity.system import systems
    doctor.demand_packages()
    runner.lock_results('ci/nightly', options)
    if beat:
        beat.write()
    checks = ['-c', str(paths.root() / 'checks')]
    planned = plan.of_command([*checks, '-r', *options])
    guard.everything(planned)
    guard.warn(planned)
    notice = notify.prepared(planned.system)
    cases = {(c.case, c.partition, c.environ): len(c.metrics) for c in planned.cases}    # repeats are one case
    cells = counted(sum(cases.values()), 'cell')
    print(f'parity: {planned.system}: {counted(len(cases), "case")}, {cells} planned', flush=True)
    if beat:
        limit = own.time_limit * 3600
        guard.wait_for_window(systems.read(planned.system), limit)
        sys.exit(run.judged([*checks, '-r', *options], limit, began, notice, beat, own.require))
    runner.rehearse([*checks, '--dry-run', *options])
    guard.nothing_missing(planned)
    print('parity: all is well: the run itself was left out (--dry-run)')


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
