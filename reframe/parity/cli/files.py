"""`parity parse` and `parity detect`: judge a file, a benchmark's output or a history."""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from parity.base import codes, files
from parity.base.errors import OK, REGRESSED, UsageError
from parity.base.text import printable

CODE = typer.Argument(metavar='CODE', help="The code: its folder's name, such as stream.")
FILE = typer.Argument(metavar='FILE', help="The output; '-' is standard input.")
HISTORY = typer.Argument(metavar='FILE', help="The CSV; '-' is standard input.")
JSON = typer.Option(False, '--json', help='Print it as JSON.')
MAX_SIZE = typer.Option(None, '--max-size', metavar='BYTES',
                        help='The last message size that was asked for: a table must end there.')
MIN_SIZE = typer.Option(None, '--min-size', metavar='BYTES',
                        help='The first message size that was asked for, by default 1: a table must begin there.')


def parse(code: str = CODE, file: str = FILE, as_json: bool = JSON, max_size: int = MAX_SIZE,
          min_size: int = MIN_SIZE) -> int:
    """Read a code's output, and print its figures.

    Exit code: 0 complete and verified, 1 incomplete or wrong, 2 usage."""
    from parity.measure.check import Incomplete, Wrong
    from parity.measure.check.reader import room
    known = codes.named(code)
    reader = room(known).read
    options = _sized(code, {'max_size': max_size, 'min_size': min_size}, reader)
    text = _read(file).decode('utf-8', errors='replace')    # no figure contains a replacement character
    try:
        metrics, facts = reader(text, **options)
    except (Incomplete, Wrong) as err:
        word = 'incomplete' if isinstance(err, Incomplete) else 'wrong'
        reason = printable(' '.join(str(err).split()))     # it quotes the output
        if as_json:
            _print_json({'code': code, 'complete': False, 'verified': False, 'outcome': word, 'reason': reason})
        else:
            print(f'{file}: {word}: {reason}')
        return REGRESSED
    if as_json:
        _print_json({'code': code, 'complete': True, 'verified': True, 'metrics': metrics, 'facts': facts})
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


def detect(file: str = HISTORY, as_json: bool = JSON) -> int:
    """Judge a history: a CSV with the columns series,night,kind,run,value.

    It may also have the columns direction, group, event and node.

    Exit code: 0 the last night has no alarm, 1 it has one, 2 usage."""
    from parity.judge.stats import detect as history
    found = history.of_file(_read(file), file)
    if as_json:
        _print_json({'series': {name: {
            'alarms': list(series.alarms), 'verdict': series.judgement.verdict, 'why': series.judgement.why,
            'visible': series.judgement.visible, 'warnings': list(series.judgement.warnings)}
            for name, series in found.items()}})
    else:
        _print(found, history.STATED)
    return REGRESSED if any(series.judgement.alarm for series in found.values()) else OK


def _print(found: dict[str, Any], stated: str) -> None:
    """A line a series, and below it the nights that alarmed; what is wrong comes first."""
    order = ('regressed', 'insufficient', 'blind', 'improved', 'ok')
    count = {word: sum(s.judgement.verdict == word for s in found.values()) for word in order}
    print(' · '.join(f'{n} {word}' for word, n in count.items() if n))
    print(stated)
    for name, series in sorted(found.items(), key=lambda one: order.index(one[1].judgement.verdict)):
        print(f'\n{series.judgement.verdict.upper()}  {printable(name)}: {series.judgement.why}')
        if series.alarms:
            print(f'    alarms: {", ".join(map(str, series.alarms))}')
        for warning in series.judgement.warnings:
            print(f'    warning: {warning}')


def _read(file: str) -> bytes:
    return sys.stdin.buffer.read() if file == '-' else files.read(Path(file))


def _print_json(answer: dict) -> None:
    print(json.dumps(answer, indent=1, allow_nan=False))
