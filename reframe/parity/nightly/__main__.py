"""``ci/nightly [--dry-run] [--time-limit HOURS] [--repeats N] [reframe options]``: guard, run, verdict, report."""

from __future__ import annotations

import sys

from parity import errors


def arguments(given: list[str]):
    """Our own options, and those that ReFrame gets. UsageError for a time limit that is none."""
    import argparse
    parser = argparse.ArgumentParser(
        prog='ci/nightly', allow_abbrev=False, epilog='Every other option is handed to reframe (reframe --help).',
        description='The guarded nightly run of `reframe -c checks/ -r`: guards, run, verdict, report.')
    parser.add_argument('--dry-run', action='store_true', help='do all but run; exit 0 when all is well')
    parser.add_argument('--time-limit', type=float, default=8.0, metavar='HOURS',
                        help='end the run after so long (default 8); what had finished is judged')
    parser.add_argument('--repeats', type=int, default=3, metavar='N',
                        help="runs of each case (default 3; reframe's --repeat); their median is judged")
    own, reframe_options = parser.parse_known_args(given)
    if not own.time_limit > 0:
        raise errors.UsageError(f'--time-limit {own.time_limit:g}: must be a number of hours above 0')
    if own.repeats < 1:
        raise errors.UsageError(f'--repeats {own.repeats}: must be at least 1')
    if own.repeats > 1 and not any(o.partition('=')[0] == '--repeat' for o in reframe_options):
        reframe_options.append(f'--repeat={own.repeats}')
    return own, reframe_options


def nightly() -> None:
    """Everything that a timer needs; ends the process with the verdict's exit code."""
    import os
    import time
    began = time.time()
    own, options = arguments(sys.argv[1:])
    from parity import notify, paths, plan
    from parity.nightly import guard, run
    from parity.session import current, database, recovery
    from parity.session.lock import Lock
    os.environ.setdefault('RFM_CONFIG_FILES', str(paths.root() / 'reframe' / 'settings.py'))
    in_use = current.lock_of(options)
    guard.folders()
    lock = Lock(paths.results() / '.nightly.lock', 'ci/nightly')
    lock.acquire()
    in_use.acquire()    # a run of ours or of somebody else is refused here, in one line
    in_use.release()
    database.discard_unmade()
    recovery.recover_all()
    checks = ['-c', str(paths.root() / 'checks')]
    planned = plan.of_command([*checks, '-r', *options])
    guard.everything(planned, options)
    guard.warn(planned)
    notice = notify.prepared(planned.system)
    cases = {(c.case, c.partition, c.environ): len(c.metrics) for c in planned.cases}    # repeats are one case
    print(f'parity: {planned.system}: {len(cases)} cases, {sum(cases.values())} cells planned', flush=True)
    if not own.dry_run:
        sys.exit(run.judged([*checks, '-r', *options], own.time_limit * 3600, began, notice))
    run.rehearse([*checks, '--dry-run', *options])
    guard.nothing_missing(planned)
    print('parity: all is well: the run itself was left out (--dry-run)')


errors.told(nightly)
