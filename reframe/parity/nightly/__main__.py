"""``ci/nightly [--dry-run] [--time-limit HOURS] [reframe options]``: guard, run, verdict, report."""

from __future__ import annotations

import argparse
import os
import sys
import time

from parity import errors, paths, plan
from parity.errors import UsageError
from parity.nightly import guard, run
from parity.session import recovery
from parity.session.lock import Lock


def arguments(given: list[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        prog='ci/nightly', allow_abbrev=False,
        description='Guarded nightly run: every other option is handed to `reframe -c checks/ -r`.')
    parser.add_argument('--dry-run', action='store_true', help='do all but run; exit 0 when all is well')
    parser.add_argument('--time-limit', type=float, default=8.0, metavar='HOURS',
                        help='end the run after so long (default 8); what had finished is judged')
    own, reframe_options = parser.parse_known_args(given)
    if not own.time_limit > 0:
        raise UsageError(f'--time-limit {own.time_limit:g}: must be a number of hours above 0')
    return own, reframe_options


def nightly(given: list[str]) -> int:
    began = time.time()
    own, options = arguments(given)
    os.environ.setdefault('RFM_CONFIG_FILES', str(paths.root() / 'reframe' / 'settings.py'))
    guard.known_system(options)
    guard.folders()
    lock = Lock(paths.results() / '.nightly.lock', 'ci/nightly')
    lock.acquire()
    recovery.recover_all()
    command = ['-c', str(paths.root() / 'checks'), '-r', *options]
    planned = plan.of_command(command)
    guard.everything(planned, options)
    cells = sum(len(c.metrics) for c in planned.cases)
    print(f'parity: {planned.system}: {len(planned.cases)} cases, {cells} cells planned', flush=True)
    if own.dry_run:
        run.rehearse(['-c', str(paths.root() / 'checks'), '--dry-run', *options])
        print('parity: all is well: the run itself was left out (--dry-run)')
        return 0
    return run.judged(command, planned, own.time_limit * 3600, began)


errors.told(lambda: sys.exit(nightly(sys.argv[1:])))
