"""A replayed history in words: one screen, or JSON."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

from parity.base.figures import counted
from parity.base.text import visible
from parity.judge.stats.bounds import WANTED
from parity.judge.stats.hindsight import LEAST
from parity.judge.stats.replay import LONG, Life, Missed, Series, SlowdownGroup
from parity.judge.store.histories import Source
from parity.judge.verdict import budget
from parity.judge.verdict.budget import NIGHTS

#: Incidents and missed drops that are named.
NAMED = 8


def answer(source: Source, life: Life, a_month: float, accept_after: int) -> Iterator[str]:
    """Yield what was replayed, and the answer in one line before it."""
    count, months = len(life.incidents), max(life.nights, 1) / NIGHTS
    real = budget.measured(a_month, len(life.series))
    chance = f'at most {a_month:g} a month by chance'
    yield (f'{visible(source.name)}: {count / months:.1f} slowdowns a month would have been told, '
           f'{counted(count, "incident")} in {counted(life.nights, "night")}; '
           f'{"; ".join(filter(None, (chance, real)))}.')
    yield (f'{source.form} · {len(life.series)} series · {life.first} to {life.last} · '
           f'{sum(s.judged for s in life.series)} nights judged, one false alarm in {1 / life.rate:,.0f}')
    if source.unknown:
        yield (f'{source.unknown} series of no known direction are judged both ways; --higher PATTERN or --lower '
               'PATTERN states it')
    yield from source.notes
    yield _shows(life)
    if judged := [s.first for s in life.series if s.first >= 0]:
        yield (f'judged from night {min(judged) + 1} on at the earliest; half of the series from '
               f'{median(judged) + 1:.0f} on')
    yield (f'the operator accepts a slowdown {counted(accept_after, "night")} after it was told' if accept_after
           else 'the operator accepts nothing: a slowdown lasts until the figures are back')


def lines(source: Source, life: Life, a_month: float, accept_after: int) -> Iterator[str]:
    """Yield the lines of one history, the answer first."""
    yield from answer(source, life, a_month, accept_after)
    worst = sorted(life.incidents, key=lambda i: -i.slowdowns[0].loss)
    yield from _part('incidents', map(incident, worst[:NAMED]), len(worst))
    count = life.drops - len(life.missed)
    told = f'{count} of {life.drops} lasting drops of {100 * LEAST:g} % were told within {LONG} nights' \
        if life.drops else f'nothing: no step of {100 * LEAST:g} % lasted'
    yield from _part('missed', map(hidden, life.missed[:NAMED]), len(life.missed), told)
    sunk = sorted((series for series in life.series if series.change <= -LEAST), key=lambda series: series.change)
    if sunk:
        ends = '1 series ends' if len(sunk) == 1 else f'{len(sunk)} series end'
        head = f'{ends} {100 * LEAST:g} % or more below the first nights: steps that were accepted add up'
        yield from _part('in all', map(total, sunk[:NAMED]), len(sunk), head)


def hidden(missed: Missed) -> str:
    """Say which drop was never told, and why."""
    return f'{-missed.loss:7.1%}  {missed.night}  {visible(missed.series)}: {missed.why}'


def total(series: Series) -> str:
    """Say how far a series ends below its first nights."""
    return f'{series.change:7.1%}  {visible(series.name)}'


def about(series: Series) -> str:
    """Say what the rule knew of a series at its end."""
    shows = 'no slowdown shows' if series.visible is None else \
        f'a slowdown of {series.visible:.1%} shows in three nights'
    return f'{counted(series.nights, "night")}, {"lower" if series.lower else "higher"} is better; {shows}'


def _part(title: str, named: Iterator[str], count: int, head: str = '') -> Iterator[str]:
    rows = [*named]
    first = [head] if head else rows[:1] or ['none']
    yield from ('', f'{title:10} {first[0]}')
    yield from (f'{"":10} {row}' for row in (rows if head else rows[1:]))
    if count > NAMED:
        yield f'{"":10} and {count - NAMED} more (--json)'


def incident(incident: SlowdownGroup) -> str:
    """Say how much an incident took, when, and of which series."""
    worst, more = incident.slowdowns[0], len(incident.slowdowns) - 1
    others = f' and {more} more' if more else ''
    end = 'the end' if incident.end is None else f'{incident.end}, accepted' if worst.accepted else incident.end
    return f'{-worst.loss:7.1%}  {incident.begin} to {end}  {visible(worst.series)}{others}'


def _shows(life: Life) -> str:
    hidden = [s for s in life.series if s.blind]
    short = [s for s in hidden if s.visible is None and s.judged == 0]
    noisy = [s for s in hidden if s not in short]
    parts = [f'{len(life.series) - len(hidden)} of {len(life.series)} series would show a drop of {WANTED:.0%} '
             'in three nights']
    parts += [f'too few nights: {len(short)}'] if short else []
    if noisy:
        parts.append(f'too noisy: {len(noisy)}, by {median(s.noise for s in noisy):.1%} a night (median)')
    return '; '.join(parts)


def document(source: Source, life: Life) -> dict[str, Any]:
    """Return the same for --json. Shares are above 0 where a series was slower."""
    return {
        'name': source.name, 'form': source.form, 'nights': life.nights, 'first': life.first, 'last': life.last,
        'rate': life.rate, 'lasting_drops': life.drops, 'unknown_directions': source.unknown,
        'series': {s.name: {'nights': s.nights, 'judged': s.judged, 'found': s.alarms, 'visible': s.visible,
                            'noise': s.noise, 'change': s.change} for s in life.series},
        'incidents': [{'begin': i.begin, 'end': i.end, 'series': [
            {'name': s.series, 'begin': s.begin, 'end': s.end, 'loss': s.loss,
             'accepted': s.accepted} for s in i.slowdowns]}
            for i in life.incidents],
        'missed': [{'series': m.series, 'night': m.night, 'loss': m.loss, 'why': m.why} for m in life.missed]}
