"""The answer of a comparison, its bars in a terminal, its CSV and its page."""

from __future__ import annotations

import csv
import io
import json

import pytest

from commands import parity
from parity.judge.compare import bars, forest, join, sentence
from parity.judge.compare.forest import Bar, Scale
from parity.judge.compare.model import Comparison, Mean, Measured, Row, Side, Value
from parity.judge.compare.pairs import Pair, PairState
from parity.judge.report import comparison
from parity.judge.report import forest as page_forest
from sides import FIGURES, PHYSICAL, VIRTUAL, nights, site

PAIRS = '''pairs:
- baseline: physical
  candidate: virtual
  expect:
  - {metric: Stream.triad, at_least: 0.97}
  - {metric: Hpl.gflops, at_least: 0.95}
  - {metric: OsuLatency.latency_8B, at_most: 1.5}
'''


@pytest.fixture
def onebox(tmp_path, results, monkeypatch):
    site(tmp_path, PAIRS)
    monkeypatch.setenv('PARITY_ROOT', str(tmp_path))
    return tmp_path


# ---- the sentence

def mean(subsystem: str, speed: float, width: float | None = 0.005) -> Mean:
    low, high = (None, None) if width is None else (speed - width, speed + width)
    return Mean(subsystem=subsystem, speed=speed, checks={'C': speed}, metrics=1, low=low, high=high)


def row(verdict: str = 'equivalent', subsystem: str = 'compute', **other) -> Row:
    return Row(**{'subsystem': subsystem, 'check': 'C', 'benchmark': 'C', 'metric': 'm', 'unit': 'GB/s', 'better': 'higher', 'n': 3, 'n_baseline': 3,
                  'n_candidate': 3, 'ratio': 1.0, 'low': 0.99, 'high': 1.01, 'verdict': verdict, **other})


def told(means, rows=(), states=(), names=(PHYSICAL, VIRTUAL)) -> str:
    sides = [Side(name, 'partition', []) for name in names]
    expected = [PairState(baseline='a', candidate='b', subsystem='', benchmark='C', metric='m', expected='at least 1', state=state) for state in states]
    return sentence.answer(Comparison(baseline=sides[0], candidate=sides[1], confidence=0.95, margin=0.02, alike={}, differs=[], labelled=False,
                                  rows=list(rows), means=means, notes=[], expectations=expected))


@pytest.mark.parametrize('means, rows, states, said', [
    ([('memory', 0.95), ('compute', 1.0), ('network', 1.001)], [], ['ok', 'regressed', 'ok', 'ok'],
     'virtual is 5 % slower in memory and like physical in all else; 1 of 4 expectations does not hold.'),
    ([('compute', 1.0), ('memory', 0.999)], [], ['ok'], 'virtual is like physical in compute and memory; the expectation holds.'),
    ([('compute', 1.0), ('memory', 0.9), ('storage', 1.1), ('network', 0.8)], [], [],
     'virtual is 20 % slower in network, 10 % slower in memory, 10 % faster in storage, and like physical in compute.'),
    ([('gpu', 5.3)], [], ['ok', 'ok'], 'virtual is 5.3 times as fast in gpu; all 2 expectations hold.'),
    ([('', 0.9)], [], [], 'virtual is 10 % slower.'),
    ([('compute', 0.97), ('memory', 0.95, 0.08), ('storage', 1.0)], [], ['insufficient', 'insufficient'],
     'virtual is 3 % slower in compute, like physical in storage, and undecided in memory; 2 of 2 expectations are undecided.'),
    ([('network', 0.16, None)], [], [], 'whether virtual is as fast as physical is undecided: more nights will tell.'),
    ([('compute', 1.0), ('memory', 0.9)], [row('slower'), row('faster'), row('faster'), row(), row('slower', 'memory')], ['regressed', 'insufficient', 'ok'],
     'virtual is 10 % slower in memory and like physical in compute; of 4 other figures 1 is slower and 2 are faster; '
     '1 of 3 expectations does not hold and 1 is undecided.'),
    ([], [row(ratio=None, refused=True)], [], 'virtual and physical are not like for like, so nothing was compared.'),
    ([], [row(n=0, ratio=None)], [], 'virtual and physical measured nothing in common.'),
    ([], [], [], 'virtual and physical measured nothing in common.'),
    ([], [row(label='cached: fits')], [], 'no figure tells how virtual stands beside physical.'),
])
def test_the_first_sentence_is_an_answer(means, rows, states, said):
    assert told([mean(*one) for one in means], rows, states) == said


@pytest.mark.parametrize('names, shown', [(('a:x', 'b:x'), ('a:x', 'b:x')), (('a:x', 'a:y'), ('x', 'y')), (('session 1', 'b.csv'), ('session 1', 'b.csv')),
                                          (('a:' + 'n' * 99, 'a:m'), ('n' * 59 + '…', 'm'))])
def test_a_side_has_its_short_name(names, shown):
    assert sentence.short_names(*names) == shown


# ---- the axis and the bars

def test_a_ratio_of_times_is_turned_over_with_its_bounds():
    expected = PairState(baseline='a', candidate='b', subsystem='', benchmark='C', metric='m', expected='', state='ok', at_most=1.25)
    slower = forest.bar(row(better='lower', ratio=2.0, low=1.6, high=2.5), expected)
    assert slower == Bar(0.5, 0.4, 0.625, at_least=0.8) and forest.bar(row(ratio=2.0, low=1.6, high=2.5)) == Bar(2.0, 1.6, 2.5)
    assert forest.bar(row(ratio=None)) is None and forest.bar(row(ratio=1.0, low=0.0, high=float('inf'))) == Bar(1.0)


@pytest.mark.parametrize('fars, end', [([], 0.95), ([1.0], 0.95), ([0.81], 0.8), ([0.97] * 9 + [0.1], 0.95), ([0.97] * 9 + [0.87], 0.85), ([0.5, 0.39], 0.3), ([1e-300], 1e-9)])
def test_an_axis_holds_most_rows_and_a_far_one_does_not_flatten_them(fars, end):
    assert forest.scale([Bar(speed) for speed in fars], forest.TERMINAL).end == end


@pytest.mark.parametrize('bar, drawn', [
    (Bar(1.0), '          ○'), (Bar(1.0, 0.9, 1 / 0.9), '     ─────●─────'), (Bar(0.9, 0.85, 0.95), '  ───●─── │'),
    (Bar(0.5, 0.45, 0.55), '◂         │'), (Bar(3.0), '          │         ▸'), (Bar(0.9, 0.4, 1.5), '◂────●──────────────▸'),
    (Bar(1.0, at_least=0.9), '     ╎    ○'), (Bar(0.9, 0.85, 0.95, at_least=0.1, at_most=9.0), '  ───●─── │')])
def test_a_bar_is_drawn_with_its_interval_and_goes_beyond_the_axis(bar, drawn):
    assert bars.drawn(bar, Scale(0.81), 21) == drawn


def test_the_labels_of_the_axis_stand_over_the_bars():
    assert bars.head(Scale(0.8), 21) == '0.8       1      1.25'


# ---- the terminal

def side(name: str, values: dict[str, float], unit: str = 'MB/s', sessions: int = 5) -> Side:
    cells = []
    for case, value in values.items():
        runs = [Value(value * (1 + night % 3 / 500), None, f'{name} {night}') for night in range(sessions)]
        cells.append(Measured('memory', case, case, 'rate', unit, 'higher', values=runs))
    return Side(name, 'session', cells)


def lines(c: Comparison, width: int, ascii: bool = False) -> list[str]:
    from parity.base.colours import Console
    from parity.judge.compare.terminal import Paper, rendered
    console = Console(highlight=False, emoji=False, width=width)
    with console.capture() as printed:
        console.print(rendered(sentence.answered(c), Paper(width, ascii)))
    return printed.get().splitlines()


COUNTS = {1: {'Case': 100.0}, 200: {f'Case %n={n}': 100.0 + n for n in range(200)}, 3: {'long' * 40: 1.0, 'x' * 44: 2.0, 'Case %with=a %long=name': 3.0}}


@pytest.mark.parametrize('width', [80, 100, 119, 120, 160, 200])
@pytest.mark.parametrize('count', COUNTS)
def test_each_benchmark_has_a_bar_and_no_line_is_wider_than_the_terminal(count, width):
    values = COUNTS[count]
    c = join.compare(side('A', values), side('B', {case: value * 0.9 for case, value in values.items()}))
    said = lines(c, width)
    assert max(map(len, said)) <= width and said[0] == 'B is 10 % slower in memory.'
    assert sum('●' in line for line in said) == count + 1, 'one is in the legend'


def test_a_terminal_without_utf_8_has_bars_in_ascii_that_stand_below_one_another():
    c = join.compare(side('A', COUNTS[3]), side('B', {case: value * 0.9 for case, value in COUNTS[3].items()}))
    for width in (80, 200):
        said = '\n'.join(lines(c, width, ascii=True))
        assert said.isascii() and '*  ' in said and 'bars: * the speed of B' in said
    places = [line.index('|', line.index('*')) for line in said.splitlines() if '*' in line and '0.90' in line]
    assert len(places) == 3 and len(set(places)) == 1


def test_one_night_has_a_hollow_point_and_no_interval():
    said = '\n'.join(lines(join.compare(side('A', {'C': 100.0}, sessions=1), side('B', {'C': 90.0}, sessions=1)), 200))
    assert 'whether B is as fast as A is undecided' in said and '○' in said and '●' not in said.partition('bars:')[0]


def test_sides_that_share_nothing_or_no_unit_have_no_bar(tmp_path):
    apart = join.compare(side('A', {'C': 1.0}), side('B', {'D': 1.0}))
    units = join.compare(side('A', {'C': 1.0}), side('B', {'C': 1.0}, unit='GB/s'))
    assert lines(apart, 120)[0] == 'B and A measured nothing in common.'
    assert lines(units, 120)[0] == 'B and A are not like for like, so nothing was compared.'
    for c in (apart, units):
        assert 'bars:' not in '\n'.join(lines(c, 120))
        assert 'without a ratio' in comparison.page(sentence.answered(c))


# ---- the command

def test_compare_answers_first_and_draws_what_is_expected(onebox):
    nights(5)
    done = parity('compare', PHYSICAL, VIRTUAL)
    first, *rest = done.stdout.splitlines()
    assert done.returncode == 1 and first == ('virtual is 13 % slower in network, 6 % slower in memory, like physical in compute, and undecided in storage; '
                                              '1 of 3 expectations does not hold.'), done.stdout
    stream, = (line for line in rest if 'triad' in line)
    assert '╎' in stream and '●' in stream and stream.index('●') < stream.index('╎'), 'left of what is expected'
    latency, = (line for line in rest if 'latency_8B' in line)
    assert latency.index('●') < stream.index('●'), 'more time is less speed'
    answer = json.loads(parity('compare', PHYSICAL, VIRTUAL, '--json').stdout)
    assert answer['answer'] == first and [one['state'] for one in answer['expectations']] == ['regressed', 'ok', 'ok']
    ascii_only = parity('compare', PHYSICAL, VIRTUAL, LC_ALL='C').stdout
    assert ascii_only.isascii() and '-*-' in ascii_only


def test_an_expectation_that_nobody_measured_is_undecided(onebox):
    nights(5, FIGURES[:1])
    assert '1 of 3 expectations does not hold and 2 are undecided.' in parity('compare', PHYSICAL, VIRTUAL).stdout


def test_csv_has_a_row_a_metric_on_standard_output_or_in_a_file(onebox, tmp_path):
    nights(5)
    printed = parity('compare', PHYSICAL, VIRTUAL, '--csv', '-')
    rows = list(csv.DictReader(io.StringIO(printed.stdout)))
    assert printed.returncode == 1 and len(rows) == len(FIGURES)
    memory, = (one for one in rows if one['subsystem'] == 'memory')
    assert (memory['metric'], memory['verdict'], memory['expected'], memory['state'], memory['sessions_baseline']) == (
        'triad', 'slower', 'at least 0.97', 'regressed', '5')
    assert 0.93 < float(memory['low']) < float(memory['ratio']) < float(memory['high']) < 0.97
    file = tmp_path / 'new' / 'rows.csv'
    done = parity('compare', PHYSICAL, VIRTUAL, '--csv', str(file))
    assert done.stdout == f'{file}\n' and file.read_text() == printed.stdout
    both = parity('compare', PHYSICAL, VIRTUAL, '--csv', '-', '--json')
    assert both.returncode == 2 and '--json and --csv: give only one' in both.stderr


def test_the_page_is_written_beside_what_is_printed(onebox, tmp_path):
    nights(5)
    file = tmp_path / 'pages' / 'virtual.html'
    done = parity('compare', PHYSICAL, VIRTUAL, '--page', str(file))
    page = file.read_text()
    assert done.returncode == 1 and done.stdout.endswith(f'\n{file}\n') and done.stdout.startswith('virtual is')
    assert json.loads(parity('compare', PHYSICAL, VIRTUAL, '--json', '--page', str(file)).stdout)['answer'] in page
    assert page.index('>memory</th>') < page.index('>network</th>'), 'what breaks an expectation comes first'
    assert page.count('class="interval"') == len(FIGURES) and page.count('class="bound"') == 3 and page.count('class="broken"') == 3
    assert 'latency</strong>' in page, 'the curve over message sizes'
    assert '<script' not in page and 'http' not in page.replace('http-equiv', '')


def test_the_answer_is_worked_out_once_and_the_terminal_has_it(onebox, monkeypatch):
    nights(5)
    calls = []
    monkeypatch.setattr(sentence, '_speeds', lambda c: calls.append(c) or 'worked out')
    assert parity('compare', PHYSICAL, VIRTUAL).stdout.startswith('worked out') and len(calls) == 1


def test_the_plot_of_pairs_has_the_worst_first_and_a_place_for_each_mark():
    def state(word, ratio, better='higher', **other):
        return PairState(baseline=PHYSICAL, candidate=VIRTUAL, subsystem='memory', benchmark=f'C{ratio}', metric='m', expected='at least 0.9', state=word,
                         ratio=ratio, low=ratio and ratio - 0.01, high=ratio and ratio + 0.01, better=better, **other)
    plot = page_forest.of_pairs([state('ok', 0.99, at_least=0.9), state('insufficient', None), state('regressed', 0.85, at_least=0.9), state('regressed', 0.5)])
    rows = plot.rows['memory']
    assert [(one.word, one.ratio) for one in rows] == [('regressed', '0.500'), ('regressed', '0.850'), ('insufficient', '—'), ('ok', '0.990')]
    assert rows[2].picture is None and plot.labels == ('0.4', '1', '2.5') and not rows[0].picture.goes_left
    broken, = rows[1].picture.broken
    assert broken.start == 0 and broken.width == rows[1].picture.bounds[0] > rows[1].picture.figure
    assert rows[1].pair == 'virtual / physical' and 'speed 0.85 [0.84, 0.86]' in rows[1].picture.text


def test_a_pair_has_its_bounds_in_the_verdict():
    pair = Pair(baseline='physical', candidate='virtual', expect=[{'metric': 'C.rate', 'at_least': 0.9, 'at_most': 1.2}])
    c = join.compare(side('A', {'C': 100.0}), side('B', {'C': 95.0}), declared=[pair])
    one, = c.expectations
    assert (one.at_least, one.at_most, one.better, one.state) == (0.9, 1.2, 'higher', 'ok')
    assert c.expectation(c.rows[0]) is one
