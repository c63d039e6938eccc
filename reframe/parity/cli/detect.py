"""`parity detect`: judge a history in a CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from parity.base.errors import OK, REGRESSED
from parity.base.text import printable
from parity.cli.common import JSON, print_json, read_input

if TYPE_CHECKING:
    from parity.judge.stats.detect import SeriesJudgement

HISTORY = typer.Argument(metavar='FILE', help="The CSV; '-' is standard input.")


def run(file: str = HISTORY, as_json: bool = JSON) -> int:
    """Judge a history: a CSV with the columns series,night,kind,run,value.

    It may also have the columns direction, group, event and node.

    Exit code: 0 the last night has no alarm, 1 it has one, 2 usage."""
    from parity.judge.stats import detect
    found = detect.of_file(read_input(file), file)
    if as_json:
        print_json({'series': {name: _document(series) for name, series in found.items()}})
    else:
        _print(found, detect.STATED)
    return REGRESSED if any(series.judgement.alarm for series in found.values()) else OK


def _document(series: SeriesJudgement) -> dict:
    judged = series.judgement
    return {'alarms': list(series.alarms), 'verdict': judged.verdict, 'why': judged.why, 'visible': judged.visible,
            'warnings': list(judged.warnings)}


def _print(found: dict[str, SeriesJudgement], stated: str) -> None:
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
