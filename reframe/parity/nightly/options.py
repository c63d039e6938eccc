"""The options of ``ci/nightly``: our own and those of ReFrame, read before anything is done.

``python -m parity.nightly.options ARGUMENTS...`` only reads them: exit code 0, or 2 and what is wrong."""

from __future__ import annotations

import argparse
import sys

from parity.base import errors
from parity.rfm import capture


def read(given: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return our own options, and those for ReFrame. UsageError for an option that neither of us knows."""
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
    capture.check_options(reframe_options)
    if own.repeats > 1 and not any(o.partition('=')[0] == '--repeat' for o in reframe_options):
        reframe_options.append(f'--repeat={own.repeats}')
    return own, reframe_options


if __name__ == '__main__':
    errors.told(lambda: read(sys.argv[1:]))
