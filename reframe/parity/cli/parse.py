"""`parity parse`: read the output of a code."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import typer

from parity.base.errors import OK, REGRESSED, UsageError
from parity.base.text import printable
from parity.cli.common import JSON, print_json, read_input

if TYPE_CHECKING:
    from parity.base.codes import Code
    from parity.measure.check.reader import Refused
    from parity.measure.check.runs import Run

CODE = typer.Argument(metavar='CODE', help="The code: its folder's name, such as stream.")
OUTPUT = typer.Argument(metavar='FILE', help="The output; '-' is standard input. With --each, a folder, too.")
APART = typer.Option(False, '--each', help='Read each run of the file, or of the files of a folder, apart.')
CSV = typer.Option(False, '--csv', help='As --each; print a table that detect, replay and compare take.')
MAX_SIZE = typer.Option(None, '--max-size', metavar='BYTES',
                        help='The last message size that was asked for: a table must end there.')
MIN_SIZE = typer.Option(None, '--min-size', metavar='BYTES',
                        help='The first message size that was asked for, by default 1: a table must begin there.')


def run(code: str = CODE, file: str = OUTPUT, as_json: bool = JSON, apart: bool = APART, as_csv: bool = CSV,
        max_size: int = MAX_SIZE, min_size: int = MIN_SIZE) -> int:
    """Read a code's output, and print its figures.

    Exit code: 0 complete and verified, 1 incomplete, wrong or not read, 2 usage."""
    from parity.base import codes
    from parity.measure.check import Refused
    from parity.measure.check.reader import room
    named = codes.named(code)
    module = room(named)
    sizes = _sized(code, {'max_size': max_size, 'min_size': min_size}, module.read)
    read = partial(module.read, **sizes)
    if apart or as_csv:
        return _parse_each(named, module, read, file, as_json, as_csv)
    try:
        metrics, facts = read(_text(file))
    except Refused as err:
        _print_refused(code, file, err, as_json)
        return REGRESSED
    if as_json:
        print_json({'code': code, 'complete': True, 'verified': True, 'metrics': metrics, 'facts': facts})
    else:
        _print_metrics(named, metrics)
        _print_note(file, facts)
    return OK


def _parse_each(code: Code, module: ModuleType, read: Callable, path: str, as_json: bool, as_csv: bool) -> int:
    """Read each run of a file, or of the files of a folder, and print its figures or a table of all."""
    from parity.base.csvfile import written
    from parity.measure.check import runs
    all_runs: list[runs.Run] = []
    for file in _files(path):
        all_runs += runs.of_file(module, read, file, _text(file))
    if as_csv:
        print(written(runs.COLUMNS, runs.rows(code, all_runs)), end='')
        for run in all_runs:
            if run.refused:
                print(f'{_place(run)}: {run.refused.word}: {_sentence(run.refused)}', file=sys.stderr)
    elif as_json:
        print_json({'code': code.room, 'runs': list(map(_run_as_json, all_runs))})
    else:
        _print_runs(code, all_runs)
    return REGRESSED if any(run.refused for run in all_runs) else OK


def _print_runs(code: Code, all_runs: list[Run]) -> None:
    """Print each run: its place, then its figures or why it was refused."""
    for run in all_runs:
        if run.refused:
            print(f'{_place(run)}: {run.refused.word}: {_sentence(run.refused)}')
            continue
        print(f'{_place(run)}:')
        _print_metrics(code, run.metrics)
        _print_note(_place(run), run.facts)


def _run_as_json(run: Run) -> dict[str, Any]:
    place = {'file': run.file, 'line': run.line}
    if run.refused:
        return {**place, 'complete': False, 'verified': False, **_outcome(run.refused)}
    return {**place, 'complete': True, 'verified': True, 'metrics': run.metrics, 'facts': run.facts}


def _place(run: Run) -> str:
    return f'{printable(run.file)}:{run.line}'


def _files(path: str) -> list[str]:
    """Return the file, or the files of the folder in the order of their names."""
    folder = Path(path)
    if path == '-' or not folder.is_dir():
        return [path]
    inside = [str(file) for file in sorted(folder.iterdir()) if file.is_file()]
    if not inside:
        raise UsageError(f'{path}: the folder has no file')
    return inside


def _text(file: str) -> str:
    return read_input(file).decode('utf-8', errors='replace')    # no figure contains a replacement character


def _print_refused(code: str, file: str, err: Refused, as_json: bool) -> None:
    if as_json:
        print_json({'code': code, 'complete': False, 'verified': False, **_outcome(err)})
    else:
        print(f'{file}: {err.word}: {_sentence(err)}')


def _outcome(err: Refused) -> dict[str, str]:
    return {'outcome': err.word, 'reason': _sentence(err)}


def _sentence(err: Refused) -> str:
    """Return why an output is refused, on one line: it quotes the output."""
    return printable(' '.join(str(err).split()))


def _print_metrics(code: Code, metrics: dict[str, float]) -> None:
    for name, value in metrics.items():
        print(f'{name} {value!r} {code.unit(name)}'.rstrip())


def _print_note(place: str, facts: dict[str, Any]) -> None:
    if 'note' in facts:
        print(f'{place}: note: {printable(facts["note"])}', file=sys.stderr)


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
