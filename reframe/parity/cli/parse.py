"""`parity parse CODE FILE`: what a benchmark's output says, and whether it can be believed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from parity.base.errors import OK, REGRESSED, UsageError
from parity.outputs import Incomplete, Wrong, registry


def run(code: str, file: str, as_json: bool, max_size: int | None = None) -> int:
    """Print the metrics of the output in ``file`` ('-': standard input), or why it has none.

    ``max_size``: the last message size (bytes) that was asked for, of codes in ``registry.SIZED``.
    Returns 0 when the output is complete and verified, else 1. Raises UsageError for a code that parity
    does not know, a file that cannot be read, or a ``max_size`` that means nothing.
    """
    if code not in registry.CODES:
        raise UsageError(f'{code!r} is no code that parity reads; valid are: {", ".join(registry.CODES)}')
    options = _sized(code, max_size)
    text = _read(file)
    try:
        metrics, facts = registry.reader(code)(text, **options)
    except (Incomplete, Wrong) as err:
        return _refuse(code, file, err, as_json)
    if as_json:
        _print_json({'code': code, 'complete': True, 'verified': True, 'metrics': metrics, 'facts': facts})
    else:
        for name, value in metrics.items():
            print(f'{name} {value!r} {registry.unit(code, name)}'.rstrip())
    return OK


def _sized(code: str, max_size: int | None) -> dict[str, int]:
    """What the parser is called with besides the text."""
    if max_size is None:
        return {}
    if code not in registry.SIZED:
        raise UsageError(f'--max-size is no option for {code}: its output has no message sizes; '
                         f'it is for {", ".join(registry.SIZED)}')
    if max_size < 1 or max_size & (max_size - 1):
        raise UsageError(f'--max-size {max_size}: message sizes are powers of two, such as 1048576')
    return {'max_size': max_size}


def _read(file: str) -> str:
    """The text; bytes that are no UTF-8 become replacement characters, which no figure contains."""
    try:
        raw = sys.stdin.buffer.read() if file == '-' else Path(file).read_bytes()
    except (OSError, ValueError) as err:            # ValueError: a null byte in the name
        raise UsageError(f'{file}: {getattr(err, "strerror", None) or err}') from err
    return raw.decode('utf-8', errors='replace')


def _refuse(code: str, file: str, err: Incomplete | Wrong, as_json: bool) -> int:
    word = 'incomplete' if isinstance(err, Incomplete) else 'wrong'
    # The reason quotes the output: nothing in it may end the line or command the terminal.
    reason = ''.join(c if c.isprintable() else '\ufffd' for c in ' '.join(str(err).split()))
    if as_json:
        _print_json({'code': code, 'complete': False, 'verified': False, 'outcome': word, 'reason': reason})
    else:
        print(f'{file}: {word}: {reason}')
    return REGRESSED


def _print_json(answer: dict) -> None:
    print(json.dumps(answer, indent=1, allow_nan=False))
