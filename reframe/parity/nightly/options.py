"""The options of ``ci/nightly``: our own and those of ReFrame, read before anything is done.

``python -m parity.nightly.options ARGUMENTS...`` only reads them: exit code 0, or 2 with what is wrong.
"""

from __future__ import annotations

import argparse
import sys
from unittest import mock

from parity.base import errors


def read(given: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Our own options, and those that ReFrame gets. UsageError for what neither of us knows."""
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
    _of_reframe(reframe_options)
    if own.repeats > 1 and not any(o.partition('=')[0] == '--repeat' for o in reframe_options):
        reframe_options.append(f'--repeat={own.repeats}')
    return own, reframe_options


class _Parsed(Exception):
    """ReFrame has read its options."""


def _of_reframe(options: list[str]) -> None:
    """Have ReFrame's own parser read them, and stop it there."""
    from reframe.frontend import argparse as theirs
    from reframe.frontend import cli
    parse = theirs.ArgumentParser.parse_args

    def only_parse(parser, *_):
        parse(parser, ['-r', *options])
        raise _Parsed

    def refuse(_, message: str):
        raise errors.UsageError(f'reframe refuses: {message}; valid are --dry-run, --time-limit HOURS, --repeats '
                                'N and what reframe --help lists')

    with mock.patch.object(theirs.ArgumentParser, 'parse_args', only_parse), \
            mock.patch.object(argparse.ArgumentParser, 'error', refuse):
        try:
            cli.main()
        except _Parsed:
            pass


if __name__ == '__main__':
    errors.told(lambda: read(sys.argv[1:]))
