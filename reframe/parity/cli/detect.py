"""`parity detect`: judge a history in a CSV."""

from __future__ import annotations

from collections import Counter
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
    judged = detect.of_file(read_input(file), file)
    if as_json:
        print_json({'series': {name: _document(series) for name, series in judged.items()}})
    else:
        _print(judged, detect.STATED)
    return REGRESSED if any(series.judgement.alarm for series in judged.values()) else OK


#: Words of series, in the order of the list: what is wrong comes first.
_ORDER = ('regressed', 'insufficient', 'blind', 'improved', 'ok')


def _document(series: SeriesJudgement) -> dict:
    from parity.judge.verdict import reasons
    judged = series.judgement
    return {'alarms': list(series.alarms), 'verdict': judged.verdict, 'why': reasons.why(judged),
            'visible': judged.visible, 'warnings': list(reasons.warnings(judged))}


def _print(judged: dict[str, SeriesJudgement], stated: str) -> None:
    """Print a line a series, and below it the nights that alarmed."""
    from parity.judge.verdict import reasons
    counts = Counter(series.judgement.verdict for series in judged.values())
    print(' · '.join(f'{counts[word]} {word}' for word in _ORDER if counts[word]))
    print(stated)
    for name in sorted(judged, key=lambda name: _ORDER.index(judged[name].judgement.verdict)):
        judgement, alarms = judged[name].judgement, judged[name].alarms
        print(f'\n{judgement.verdict.upper()}  {printable(name)}: {reasons.why(judgement)}')
        if alarms:
            print(f'    alarms: {", ".join(map(str, alarms))}')
        for warning in reasons.warnings(judgement):
            print(f'    warning: {warning}')
