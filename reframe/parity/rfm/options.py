"""The options of `reframe`, read by its own parser before anything is done."""

from __future__ import annotations

import argparse
from unittest import mock

from reframe.frontend import argparse as theirs
from reframe.frontend import cli

from parity.base import errors


class _Parsed(Exception):
    """ReFrame has read its options."""


def check(options: list[str]) -> None:
    """Have ReFrame's own parser read the options of a nightly. UsageError for one that it does not know."""
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
