"""`parity detect FILE.csv`: the nightly judgement on any history."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from parity.base import csvfile
from parity.base.errors import OK, REGRESSED


def run(file: str, as_json: bool) -> int:
    """Judge every night of every series in ``file`` ('-': standard input), each as of that night; print it.

    Returns 1 where the last night of a series alarms, else 0. Raises UsageError for a file that cannot be
    read, with the line and column of what is wrong.
    """
    from parity.stats import table
    raw = sys.stdin.buffer.read() if file == '-' else csvfile.read(Path(file))
    found = table.of_table(table.read(raw, file))
    if as_json:
        print(json.dumps({'series': {name: _json(series) for name, series in found.items()}},
                         indent=1, allow_nan=False))
    else:
        _print(found)
    return REGRESSED if any(series.judgement.alarm for series in found.values()) else OK


def _json(series) -> dict[str, Any]:
    told = series.judgement
    return {'alarms': list(series.alarms), 'verdict': told.verdict, 'why': told.why,
            'warnings': list(told.warnings)}


def _print(found: dict[str, Any]) -> None:
    """A line a series, and below it the nights that alarmed; what is wrong comes first."""
    from parity.stats.table import STATED
    order = ('regressed', 'insufficient', 'improved', 'ok')
    count = {word: sum(s.judgement.verdict == word for s in found.values()) for word in order}
    print(' · '.join(f'{n} {word}' for word, n in count.items() if n))
    print(STATED)
    for word in order:
        for name, series in found.items():
            if series.judgement.verdict == word:
                _line(name, series)


def _line(name: str, series) -> None:
    shown = ''.join(c if c.isprintable() else '\ufffd' for c in name)
    print(f'\n{series.judgement.verdict.upper()}  {shown}: {series.judgement.why}')
    if series.alarms:
        print(f'    alarms: {", ".join(map(str, series.alarms))}')
    for warning in series.judgement.warnings:
        print(f'    warning: {warning}')
