"""A replayed history in words and as a page: hand-made series, and every line that is printed of them."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest

from parity.judge.stats.replay import Life, Missed, Series, Slowdown, SlowdownGroup
from parity.judge.store.histories import Source
from parity.lab import replay as words
from parity.lab import replay_page

NIGHTS = 60


def series(name: str = 'a', values=None, **given) -> Series:
    """Return a series of 60 nights of 100, of which a slowdown of 3 % would show."""
    values = np.full(NIGHTS, 100.0) if values is None else np.array(values, float)
    facts = {'nights': len(values), 'judged': 50, 'first': 10, 'visible': 0.03, 'noise': 0.01, 'alarms': [], 'when': np.arange(len(values)), 'values': values,
             'slow': np.zeros(len(values), bool), 'places': [], 'cuts': [], 'lower': False}
    return Series(**{'name': name, **facts, **given})


def group(*losses: float, name: str = 'a', begin: int = 7, end: int | None = None, accepted: bool = False) -> SlowdownGroup:
    return SlowdownGroup([Slowdown(f'{name}{k}', begin, begin, end, loss, accepted) for k, loss in enumerate(losses)])


def life(*of_series: Series, **given) -> Life:
    return Life(**{'series': list(of_series), 'incidents': [], 'missed': [], 'drops': 0, 'nights': NIGHTS, 'first': 0, 'last': 59, 'rate': 1 / 3000, **given})


def source(**given) -> Source:
    history = SimpleNamespace(nights=SimpleNamespace(when=np.arange(NIGHTS)))
    return Source(**{'name': 'h.csv', 'form': 'CSV', 'history': history, 'unknown': 0, 'notes': [], **given})


def screen(lived: Life, accept_after: int = 7, **of_source) -> list[str]:
    return [*words.lines(source(**of_source), lived, 1.0, accept_after)]


def test_a_quiet_history_says_that_nothing_was_told_and_nothing_missed():
    assert screen(life(series())) == [
        'h.csv: 0.0 slowdowns a month would have been told, 0 incidents in 60 nights; at most 1 a month by chance.',
        'CSV · 1 series · 0 to 59 · 50 nights judged, one false alarm in 3,000',
        '1 of 1 series would show a drop of 5% in three nights',
        'judged from night 11 on at the earliest; half of the series from 11 on',
        'the operator accepts a slowdown 7 nights after it was told', '',
        'incidents  none', '',
        'missed     nothing: no step of 5 % lasted']


def test_what_was_told_what_was_missed_and_why_are_lines_the_largest_first():
    noisy = series('b', visible=None, judged=20, noise=0.2)
    wide = series('c', visible=0.08, noise=0.1, first=30)
    short = series('d', visible=None, judged=0, first=-1)
    incidents = [group(0.05, begin=3, end=9), group(0.2, 0.1, begin=5), group(0.1, begin=6, end=20, accepted=True)]
    missed = [Missed('b', 30, 0.09, judged=True, moves=0, noise=0.2), Missed('c', 31, 0.08, judged=True, moves=3, noise=0.1),
              Missed('d', 4, 0.07, judged=False, moves=0, noise=0.1)]
    lived = life(series(), noisy, wide, short, incidents=incidents, missed=missed, drops=5)
    assert screen(lived, 0, unknown=2, notes=['a note']) == [
        'h.csv: 1.5 slowdowns a month would have been told, 3 incidents in 60 nights; at most 1 a month by chance.',
        'CSV · 4 series · 0 to 59 · 120 nights judged, one false alarm in 3,000',
        '2 series of no known direction are judged both ways; --higher PATTERN or --lower PATTERN states it',
        'a note',
        '1 of 4 series would show a drop of 5% in three nights; too few nights: 1; too noisy: 2, by 15.0% a night (median)',
        'judged from night 11 on at the earliest; half of the series from 11 on',
        'the operator accepts nothing: a slowdown lasts until the figures are back', '',
        'incidents   -20.0%  5 to the end  a0 and 1 more',
        '            -10.0%  6 to 20, accepted  a0',
        '             -5.0%  3 to 9  a0', '',
        'missed     2 of 5 lasting drops of 5 % were told within 30 nights',
        '             -9.0%  30  b: nights before it scatter by 20.0%',
        '             -8.0%  31  c: the level moved 3 times in the 100 nights around it',
        '             -7.0%  4  d: too few nights before it']


def test_more_than_eight_of_a_kind_are_counted_and_series_that_end_lower_have_a_part_of_their_own():
    lower = [series(f's{k}', [100.0] * 30 + [100.0 - k] * 30) for k in (4, 10, 20)]
    lines = screen(life(*lower, incidents=[group(0.1) for _ in range(10)]))
    assert lines.count(f'{"":10} and 2 more (--json)') == 1
    assert lines[-3:] == ['in all     2 series end 5 % or more below the first nights: steps that were accepted add up',
                          f'{"":11} -20.0%  s20', f'{"":11} -10.0%  s10']


@pytest.mark.parametrize(('given', 'said'), [({}, '60 nights, higher is better; a slowdown of 3.0% shows in three nights'),
                                             ({'lower': True, 'visible': None}, '60 nights, lower is better; no slowdown shows')])
def test_a_series_is_told_by_its_direction_and_by_what_would_show(given, said):
    assert words.about(series(**given)) == said


def drawn(*of_series: Series, **given) -> str:
    return replay_page.page(source(), life(*of_series, **given), 1.0, 7)


def path(page: str, kind: str) -> str:
    return re.search(f'<path class="{kind}" d="([^"]*)"', page).group(1)


def test_the_map_has_a_bar_for_each_stretch_of_slow_nights_and_a_mark_for_each_notice():
    slow = np.isin(np.arange(NIGHTS), [3, 4, 5, 58, 59])
    page = drawn(series('a0', slow=slow, places=[4, 58]), incidents=[group(0.1)])
    assert path(page, 'bar') == 'M3 0H6V10H3zM58 0H60V10H58z'
    assert path(page, 'found') == 'M4 0V10M58 0V10'


def test_a_curve_has_a_level_and_a_band_between_cuts_and_wild_nights_at_its_edges():
    values = [100.0] * 30 + [50.0] * 30
    values[10], values[40] = 1e6, 1e-3
    page = drawn(series(values=values, cuts=[30], places=[10]))
    # the band is 2 x .003 of the level: a wild night is drawn a tenth above the upper edge, or below the lower one
    top = 1.1 * 100 * np.exp(0.006)
    bottom = 50 * np.exp(-0.006) / 1.1
    highest, lowest = (float(re.search(f'<span class="{edge}">([^<]*)', page).group(1)) for edge in ('top', 'bottom'))
    room = 0.04 * (top - bottom)
    assert (highest, lowest) == (pytest.approx(top + room, rel=1e-3), pytest.approx(bottom - room, rel=1e-3))

    def height(value: float) -> int:
        return round(1000 * (highest - value) / (highest - lowest))
    first, second = re.findall(r'M(\d+) (\d+)H(\d+)', path(page, 'change'))
    assert [int(first[0]), int(first[2])] == [0, 30] and [int(second[0]), int(second[2])] == [30, 59]
    assert [int(first[1]), int(second[1])] == pytest.approx([height(100), height(50)], abs=2)
    x, y = re.fullmatch(r'M(\d+) (\d+)h0', path(page, 'dot regressed')).groups()
    assert int(x) == 10 and int(y) == pytest.approx(height(top), abs=2)


def test_a_series_of_one_night_has_no_curve_and_the_worst_come_first():
    one = series('short', [1.0])
    missed = [Missed('missed', 30, 0.09, judged=True, moves=0, noise=0.2)]
    of_series = [one, series('fine'), series('missed'), series('a0'), series('b0')]
    page = drawn(*of_series, incidents=[group(0.1), group(0.3, name='b'), group(0.2)], missed=missed)
    assert re.findall('<figcaption><strong>([^<]*)', page) == ['b0', 'a0', 'missed', 'fine']
