"""A replayed history in words: one screen, or JSON."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from statistics import median
from typing import Any

from parity.base.figures import counted
from parity.base.text import visible
from parity.judge.stats.bounds import WANTED
from parity.judge.stats.hindsight import LEAST
from parity.judge.stats.replay import LONG, MOVES, Life, Missed, Series, Slowdown, SlowdownGroup
from parity.judge.store.histories import Source
from parity.judge.verdict import budget
from parity.judge.verdict.budget import NIGHTS

#: Incidents and missed drops that are named.
NAMED = 8


def answer(source: Source, life: Life, a_month: float, accept_after: int) -> Iterator[str]:
    """Yield what was replayed, and the answer in one line before it."""
    months = max(life.nights, 1) / NIGHTS
    a_month_told = len(life.incidents) / months
    incidents = counted(len(life.incidents), 'incident')
    nights = counted(life.nights, 'night')
    limits = [f'at most {a_month:g} a month by chance']
    measured = budget.measured(a_month, len(life.series))
    if measured:
        limits.append(measured)
    yield (f'{visible(source.name)}: {a_month_told:.1f} slowdowns a month would have been told, '
           f'{incidents} in {nights}; {"; ".join(limits)}.')
    judged = sum(series.judged for series in life.series)
    nights_an_alarm = 1 / life.rate
    yield (f'{source.form} · {len(life.series)} series · {life.first} to {life.last} · '
           f'{judged} nights judged, one false alarm in {nights_an_alarm:,.0f}')
    if source.unknown:
        yield (f'{source.unknown} series of no known direction are judged both ways; --higher PATTERN or --lower '
               'PATTERN states it')
    yield from source.notes
    yield _shows(life)
    first_nights = [series.first + 1 for series in life.series if series.first >= 0]
    if first_nights:
        earliest = min(first_nights)
        half = median(first_nights)
        yield f'judged from night {earliest} on at the earliest; half of the series from {half:.0f} on'
    if accept_after:
        yield f'the operator accepts a slowdown {counted(accept_after, "night")} after it was told'
    else:
        yield 'the operator accepts nothing: a slowdown lasts until the figures are back'


def lines(source: Source, life: Life, a_month: float, accept_after: int) -> Iterator[str]:
    """Yield the lines of one history, the answer first."""
    yield from answer(source, life, a_month, accept_after)
    worst = worst_first(life)
    incidents = [incident(group) for group in worst[:NAMED]]
    yield from _part('incidents', incidents, len(worst))
    least = f'{100 * LEAST:g} %'
    reported = life.drops - len(life.missed)
    head = f'nothing: no step of {least} lasted'
    if life.drops:
        head = f'{reported} of {life.drops} lasting drops of {least} were told within {LONG} nights'
    drops = [hidden(missed) for missed in life.missed[:NAMED]]
    yield from _part('missed', drops, len(life.missed), head)
    lower = [series for series in life.series if series.change <= -LEAST]
    if lower:
        lower.sort(key=attrgetter('change'))
        ends = '1 series ends' if len(lower) == 1 else f'{len(lower)} series end'
        head = f'{ends} {least} or more below the first nights: steps that were accepted add up'
        totals = [total(series) for series in lower[:NAMED]]
        yield from _part('in all', totals, len(lower), head)


def worst_first(life: Life) -> list[SlowdownGroup]:
    """Return the incidents, the largest loss first."""
    return sorted(life.incidents, key=lambda group: -group.slowdowns[0].loss)


def hidden(missed: Missed) -> str:
    """Say which drop was never told, and why."""
    return f'{-missed.loss:7.1%}  {missed.night}  {visible(missed.series)}: {_why(missed)}'


def _why(missed: Missed) -> str:
    """Return what hid a drop."""
    if not missed.judged:
        return 'too few nights before it'
    if missed.moves > 2:
        return f'the level moved {missed.moves} times in the {MOVES} nights around it'
    return f'nights before it scatter by {missed.noise:.1%}'


def total(series: Series) -> str:
    """Say how far a series ends below its first nights."""
    return f'{series.change:7.1%}  {visible(series.name)}'


def about(series: Series) -> str:
    """Say what the rule knew of a series at its end."""
    better = 'lower' if series.lower else 'higher'
    shows = 'no slowdown shows'
    if series.visible is not None:
        shows = f'a slowdown of {series.visible:.1%} shows in three nights'
    return f'{counted(series.nights, "night")}, {better} is better; {shows}'


def _part(title: str, rows: list[str], count: int, head: str = '') -> Iterator[str]:
    """Yield a part of the screen: ``head``, else the first row, beside its title, and the other rows below."""
    heads = [head] if head else []
    first, *others = [*heads, *rows] or ['none']
    yield ''
    yield f'{title:10} {first}'
    for row in others:
        yield f'{"":10} {row}'
    if count > NAMED:
        yield f'{"":10} and {count - NAMED} more (--json)'


def incident(incident: SlowdownGroup) -> str:
    """Say how much an incident took, when, and of which series."""
    worst, *others = incident.slowdowns
    end = incident.end
    if end is None:
        end = 'the end'
    elif worst.accepted:
        end = f'{end}, accepted'
    name = visible(worst.series)
    if others:
        name += f' and {len(others)} more'
    return f'{-worst.loss:7.1%}  {incident.begin} to {end}  {name}'


def _shows(life: Life) -> str:
    """Say of how many series a slowdown would show, and why not of the others."""
    short = 0
    noises = []
    for series in life.series:
        if not series.blind:
            continue
        if series.visible is None and series.judged == 0:
            short += 1
        else:
            noises.append(series.noise)
    count = len(life.series)
    showing = count - short - len(noises)
    parts = [f'{showing} of {count} series would show a drop of {WANTED:.0%} in three nights']
    if short:
        parts.append(f'too few nights: {short}')
    if noises:
        parts.append(f'too noisy: {len(noises)}, by {median(noises):.1%} a night (median)')
    return '; '.join(parts)


def document(source: Source, life: Life) -> dict[str, Any]:
    """Return the same for --json. Shares are above 0 where a series was slower."""
    return {
        'name': source.name, 'form': source.form, 'nights': life.nights, 'first': life.first, 'last': life.last,
        'rate': life.rate, 'lasting_drops': life.drops, 'unknown_directions': source.unknown,
        'series': {series.name: _series_record(series) for series in life.series},
        'incidents': [_incident_record(group) for group in life.incidents],
        'missed': [_missed_record(missed) for missed in life.missed]}


def _series_record(series: Series) -> dict[str, Any]:
    return {'nights': series.nights, 'judged': series.judged, 'found': series.alarms, 'visible': series.visible,
            'noise': series.noise, 'change': series.change}


def _incident_record(group: SlowdownGroup) -> dict[str, Any]:
    slowdowns = [_slowdown_record(slowdown) for slowdown in group.slowdowns]
    return {'begin': group.begin, 'end': group.end, 'series': slowdowns}


def _slowdown_record(slowdown: Slowdown) -> dict[str, Any]:
    return {'name': slowdown.series, 'begin': slowdown.begin, 'end': slowdown.end, 'loss': slowdown.loss,
            'accepted': slowdown.accepted}


def _missed_record(missed: Missed) -> dict[str, Any]:
    return {'series': missed.series, 'night': missed.night, 'loss': missed.loss, 'why': _why(missed)}
