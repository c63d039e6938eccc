"""`parity parse`: read the output of a code."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

import typer

from parity.base import codes
from parity.base.errors import OK, REGRESSED, UsageError
from parity.base.text import printable
from parity.cli.common import JSON, print_json, read_input

CODE = typer.Argument(metavar='CODE', help="The code: its folder's name, such as stream.")
FILE = typer.Argument(metavar='FILE', help="The output; '-' is standard input.")
MAX_SIZE = typer.Option(None, '--max-size', metavar='BYTES',
                        help='The last message size that was asked for: a table must end there.')
MIN_SIZE = typer.Option(None, '--min-size', metavar='BYTES',
                        help='The first message size that was asked for, by default 1: a table must begin there.')


def run(code: str = CODE, file: str = FILE, as_json: bool = JSON, max_size: int = MAX_SIZE,
        min_size: int = MIN_SIZE) -> int:
    """Read a code's output, and print its figures.

    Exit code: 0 complete and verified, 1 incomplete or wrong, 2 usage."""
    from parity.measure.check import Incomplete, Wrong
    from parity.measure.check.reader import room
    known = codes.named(code)
    reader = room(known).read
    options = _sized(code, {'max_size': max_size, 'min_size': min_size}, reader)
    text = read_input(file).decode('utf-8', errors='replace')    # no figure contains a replacement character
    try:
        metrics, facts = reader(text, **options)
    except (Incomplete, Wrong) as err:
        word = 'incomplete' if isinstance(err, Incomplete) else 'wrong'
        reason = printable(' '.join(str(err).split()))     # it quotes the output
        if as_json:
            print_json({'code': code, 'complete': False, 'verified': False, 'outcome': word, 'reason': reason})
        else:
            print(f'{file}: {word}: {reason}')
        return REGRESSED
    if as_json:
        print_json({'code': code, 'complete': True, 'verified': True, 'metrics': metrics, 'facts': facts})
    else:
        for name, value in metrics.items():
            unit = next((unit for names, unit in known.units.items() if re.fullmatch(names, name)), '')
            print(f'{name} {value!r} {unit}'.rstrip())
    return OK


def _sized(code: str, sizes: dict[str, int | None], reader: Callable) -> dict[str, int]:
    """Return the parser's arguments besides the text."""
    given = {name: size for name, size in sizes.items() if size is not None}
    for name, size in given.items():
        option = f'--{name.replace("_", "-")}'
        if name not in inspect.signature(reader).parameters:
            raise UsageError(f'{option} is no option for {code}: its output has no such message size; '
                             'leave it out')
        if size < 1 or size & (size - 1):
            raise UsageError(f'{option} {size}: message sizes are powers of two, such as 1048576')
    return given
