"""The curves of a page: unit, dates, tonight's value, the band that judges it, levels, incidents, one scale a card."""

from __future__ import annotations

import re

import pytest
from test_report import page_of

import nights as made
from nights import verdict_of
from parity.judge.report import curves, nights, page
from parity.judge.report.curves import JudgedNights, Scale, Span
from parity.judge.report.page import key
from parity.judge.report.pen import Pen
from parity.judge.report.previous import Previous
from parity.judge.store.incidents import Event, Fault, Incident

NONE = [None] * 10
#: Seven nights or more: a map of letters says something.
STARTS = [(f'2026-11-{day:02} 02:14', f's{day}') for day in range(10, 20)]


def judged(values, low=NONE, high=NONE, **other) -> JudgedNights:
    return JudgedNights(range(len(values)), values, low[:len(values)], high[:len(values)], len(values), **other)


def boxes(path: str) -> list[tuple[float, float]]:
    """Return where each box of a path begins and ends across."""
    return [(float(first), float(last)) for first, last in re.findall(r'M(\S+) \d+H(\S+?)V', path)]


def test_the_band_of_one_night_has_a_width():
    bounds = [*[None] * 9, 68.0], [*[None] * 9, 75.0]
    drawn = curves.history(range(10), [70.0] * 10, *bounds, 10, 100)
    assert boxes(drawn.band) == [(8.5, 9.5)] and drawn.box == '-0.5 0 10 100'
    changed = curves.history(range(4), [70.0] * 4, [60.0, 60.0, 66.0, 66.0], [80.0] * 4, 4, 100)
    assert boxes(changed.band) == [(-0.5, 1.5), (1.5, 3.5)]
    gap = curves.history([0, 5], [70.0, 71.0], [60.0, None], [None, None], 8, 100)
    assert boxes(gap.band) == [(-0.5, 4.5)], 'a night without a figure has the bounds of the one before'


def test_marks_are_the_bounds_of_tonight_the_expected_value_the_level_and_the_incident():
    own = judged([100.0] * 6 + [88.0] * 4, [*[None] * 9, 95.0], [*[None] * 9, 105.0], expected=100.0, level=88.0, begin=6, spans=[Span(6, 9, 'incident 3')])
    drawn = curves.drawn(own, 100, Scale(80.0, 120.0))
    assert drawn.edges == 'M-.5 62H9.5M-.5 38H9.5' and drawn.expected == 'M-.5 50H5.5' and drawn.level == 'M5.5 80H9.5'
    assert drawn.spans == [('M5.5 0H9.5V100H5.5z', 'incident 3')]
    plain = curves.drawn(judged([1.0, 2.0]), 100)
    assert (plain.edges, plain.expected, plain.level, plain.spans) == ('', '', '', [])


def test_curves_of_one_card_share_a_scale_so_that_a_loss_looks_as_large_in_each():
    own = [judged([200.0, 200.0, 176.0], expected=200.0).in_per_cent(), judged([5.0, 5.0, 4.95], expected=5.0).in_per_cent()]
    scale = curves.shared(own)
    first, second = (curves.drawn(one, 200, scale).curve for one in own)
    zero = first.y(0.0)
    assert first.scale == second.scale and second.y(0.0) == zero
    assert first.y(-12.0) - zero == pytest.approx(12 * (second.y(-1.0) - zero), abs=10)
    assert first.end == f'M2 {first.y(-12.0)}h0' and second.end == f'M2 {second.y(-1.0)}h0'
    calm = curves.shared([judged([100.0, 100.1]).in_per_cent()])
    assert calm.low < -1.9 and calm.high > 1.9, 'noise is no landscape'
    wild = curves.shared([judged([1.0, 1.0, 1.0, 1e6]).in_per_cent()])
    assert wild.high < 1000


@pytest.mark.parametrize('values', [[0.0, 0.0], [0.0, 0.0, 5.0], [-2.0, -2.0, -3.0], [1e-300, 1e300]])
def test_a_figure_without_a_share_is_drawn_all_the_same(values):
    own = judged(values).in_per_cent()
    drawn = curves.labelled(curves.drawn(own, 200), [start for start, _ in STARTS][:len(values)], 'now', 'text', str)
    assert all(0 <= place <= 100 for place, _ in drawn.up) and drawn.now and drawn.curve.line


@pytest.mark.parametrize('starts, labels', [
    (['2026-11-18 02:14'], ['2026-11-18']), (['2026-11-18 02:14', '2026-11-18 14:00'], ['2026-11-18', '14:00']),
    ([start for start, _ in STARTS], ['2026-11-10', '11-13', '11-16', '11-19']), (['2025-12-30 02:00', '2026-01-02 02:00'], ['2025-12-30', '01-02'])])
def test_an_axis_has_the_dates_of_its_nights(starts, labels):
    assert [label for _, label in curves.dates(starts)] == labels


# ---- on the page

def past(values, low=NONE, high=NONE, letters='..........') -> nights.Past:
    return nights.Past(range(10), values, low, high, letters)


def shown(cells, pasts, starts=STARTS, incidents=(), tmp_path=None):
    history = nights.NightHistory(list(starts), {key(cell): own for cell, own in zip(cells, pasts, strict=True)})
    return page_of(verdict_of(cells), tmp_path, previous=Previous(nights=history, incidents=list(incidents)))


def texts(page, name: str) -> list[list[str]]:
    """Return the labels of each SVG of this class, below one another."""
    found = []
    for element in page.elements:
        if element['tag'] == 'svg' and element['attrs'].get('class') == name:
            found.append([])
        if element['tag'] == 'text' and element['inside'][-1] == 'svg' and found and _within(page, element, name):
            found[-1].append(element['text'])
    return found


def _within(page, element, name: str) -> bool:
    before = page.elements[:page.elements.index(element)]
    return [one for one in before if one['tag'] == 'svg'][-1]['attrs'].get('class') == name


def test_the_curves_of_a_card_have_unit_dates_tonights_value_and_the_band_that_judges(tmp_path):
    usual = {'usual': 71.0, 'usual_low': 69.0, 'usual_high': 73.0}
    by_history = made.cell('regressed', value=62.5, level=62.5, begin=made.start(0), **usual)
    by_value = made.cell('regressed', metric='copy', value=60.0, reference=70.0, low=68.0, high=72.0)
    page = shown([by_history, by_value], [past([71.0] * 9 + [62.5]), past([70.0] * 9 + [60.0], [*[None] * 9, 68.0], [*[None] * 9, 72.0])], tmp_path=tmp_path)
    assert texts(page, 'across')[-2:] == [['2026-11-10', '11-13', '11-16', '11-19']] * 2
    assert texts(page, 'now')[-2:] == [['60.0 GB/s'], ['62.5 GB/s']]
    first, second = texts(page, 'up')[-2:]
    assert {'70 GB/s', '-10 %'} <= {*first} and {'71 GB/s', '-10 %'} <= {*second}
    assert len(page.all('path', **{'class': 'edges'})) >= 2 and page.all('path', **{'class': 'level'})
    assert [boxes(path['attrs']['d']) for path in page.all('path', **{'class': 'band'})][:2] == [[(8.5, 9.5)]] * 2


def test_the_pen_draws_rows_on_one_scale():
    cells = [made.cell('regressed', value=62.5, reference=71.0), made.cell('regressed', metric='copy', value=6.99, reference=7.0)]
    pasts = [past([71.0] * 9 + [62.5]), past([7.0] * 9 + [6.99])]
    history = nights.NightHistory(STARTS, {key(cell): own for cell, own in zip(cells, pasts, strict=True)})
    first, second = Pen([], Previous(nights=history)).on_one_scale(page.of_cells(cells, history)[0])
    assert first.grid == second.grid and [label for _, label in first.up][:2] == [label for _, label in second.up][:2]
    assert first.now[0] > second.now[0] + 30, 'a loss of 12 % beside one of 0.1 %'


def test_the_nights_of_an_incident_are_marked_in_the_curves_of_its_cells(tmp_path):
    cell = made.cell('regressed', value=62.5, reference=71.0, low=70.0, high=72.0)
    verdict_name = verdict_of([cell])
    name = page.of_cells(verdict_name.cells, nights.NightHistory())[0][0].name
    begin, over = (made.FIRST + days * made.DAY for days in (-3, -1))       # 2026-11-15 and 2026-11-17
    fault = Fault(verdict='regressed', since=begin, measured=begin, cell=name)
    one = Incident(number=7, uuid='u', system='onebox', state='over', key=['regressed'], title='memory slower', begin=begin, faults={'x': fault},
                   events=[Event(what='new', session='', start=begin), Event(what='over', session='', start=over)])
    shown([cell], [past([71.0] * 9 + [62.5])], incidents=[one], tmp_path=tmp_path)
    figure = (tmp_path / 'figures' / 'Stream.html').read_text()
    assert re.search(r'class="span" d="M4.5 0H6.5V1000H4.5z"><title>incident 7: memory slower', figure), re.findall('class="span".*', figure)


@pytest.mark.parametrize('count, has_map', [(2, False), (6, False), (7, True)])
def test_the_first_days_have_no_map_of_letters(tmp_path, count, has_map):
    cells = [made.cell('disturbed', metric=f'm{n}', value=1.0) for n in range(60)]
    own = nights.Past(range(count), [1.0] * count, [None] * count, [None] * count, 'd' * count)
    page = shown(cells, [own] * 60, STARTS[:count], tmp_path=tmp_path)
    maps = page.all('table', **{'class': 'map'})
    assert bool(maps) is has_map
    if has_map:
        assert page.all('summary') and '20 more figures' in page.source, 'most rows are folded'


def test_the_subsystems_share_one_scale_with_dates(tmp_path):
    cells = [made.cell('ok', value=90.0, usual=100.0, usual_low=80.0, usual_high=110.0), made.cell('ok', subsystem='compute', metric='other', value=99.0, usual=100.0,
                                                                                                usual_low=90.0, usual_high=110.0)]
    page = shown(cells, [past([100.0] * 9 + [90.0]), past([100.0] * 9 + [99.0])], tmp_path=tmp_path)
    assert texts(page, 'now') == [['99.0 %'], ['90.0 %']] and texts(page, 'up')[0] == texts(page, 'up')[1] and '100 %' in texts(page, 'up')[0]
    assert texts(page, 'across') == [['2026-11-10', '11-13', '11-16', '11-19']] * 2
