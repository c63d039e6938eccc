"""The report of a verdict: page, JSON and JUnit's XML, complete, harmless, whole; what stands beside the verdict."""

import base64
import errno
import functools
import hashlib
import itertools
import json
import math
import os
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote

import polars as pl
import pytest

import nights as made
import sessions
from nights import verdict_of
from parity.base import text
from parity.judge import report
from parity.judge.compare.pairs import PairState
from parity.judge.nodes import figures
from parity.judge.report import answer, curves, documents, drawings, nights, previous
from parity.judge.report.page import _speeds, changes, key, of_cells
from parity.judge.report.previous import Previous
from parity.judge.store import database, record
from parity.judge.store.plan_file import CELL
from parity.judge.store.record import Session as Stored
from parity.judge.verdict import judge, model
from parity.judge.verdict.model import WORDS, Attribution, Change, Where
from stored import case

HOSTILE = [
    '<script>alert(1)</script>', '"onmouseover="alert(1)" x="', "'onfocus='alert(1)", '</td></tr></table><img src=x onerror=alert(1)>',
    'javascript:alert(1)', '{{ 7 * 7 }}{% raw %}', ']]><!--</style><style>body{display:none}', 'Ω ≥ 3 µs – 日本語 🚀',
    'nul \0 bell \x07 escape \x1b[31m c1 \x9b right-to-left \u202e half \udc80', 'x' * 10_000, '<b>' * 3_000, 'two\nlines\r\n\tand a tab',
]
cell = functools.partial(made.cell, 'ok', unit='MB/s')


def every_word():
    return [cell(metric=f'metric-{word}', verdict=word, reason=f'because {word}', reference=77700.0, low=75900.0, high=79500.0, limit=173000.0,
                 value=None if word in ('missing', 'skipped', 'failed') else 71200.0, limit_source='dmidecode', efficiency=0.41) for word in WORDS]


def hostile(texts=HOSTILE):
    cells = [cell(check=h, case=h, subsystem=h, system=h, partition=h, environ=h, metric=h, unit=h, value=1.5, limit=2.0, limit_source=h,
                  efficiency=math.nan, label=h, reason=h, nodes=[h], jobid=h, outputdir=f'/runs/{h}', verdict=word, cause=Attribution(
                      where=Where(kind='node', name=h, why=h), subsystem=model.Subsystem(name=h, why=h),
                      changes=[Change(fact=h, old=h, new=h, nodes=[h], since=0.0)]))
             for h, word in zip(texts, (*WORDS, *WORDS), strict=False)]
    pairs = [PairState(baseline=h, candidate=h, subsystem=h, benchmark=h, metric=h, expected=h, ratio=1.0, low=0.9, high=1.1, state='regressed', why=h)
             for h in texts]
    nested = {h: {'text': h, 'list': [h, 1, None], 'deep': [{h: h}], 'value': {'value': 1, 'unit': h}} for h in texts}
    return verdict_of(cells, pairs=pairs, trust=texts[0], warnings=texts, next=texts[1], session={'facts': nested, 'software': texts[3]})


def hostile_previous(texts=HOSTILE):
    """The same text in everything that stands beside a verdict."""
    cells = hostile(texts).cells
    return Previous(
        before=verdict_of([c.model_copy(update={'verdict': 'ok'}) for c in cells]), differences=texts,
        nights=nights.NightHistory([(h, h) for h in texts], {
            key(c): nights.Past([0, 5], [1.0, 2.0], [None] * 2, [None] * 2, '.:RWXFMI-d ') for c in cells}, dict.fromkeys(texts, 1)),
        changes={h: [Change(fact=h, old=h, new=h, nodes=[h], since=0.0)] for h in texts},
        plots={drawings.Plot(h, h, h, h, h, h, 'lower'): [drawings.PlotLine(h, {1.0: 1.0, 2.0: 3.0})] for h in texts},
        facts=Stored('u', 0.0, 's', '', '', {}, {h: {'kernel': h, 'processor': g} for h, g in zip(texts, texts[::-1], strict=True)}))


class Page(HTMLParser):
    """What a browser would make of the page: elements, attributes, texts by element."""

    def __init__(self, source):
        super().__init__(convert_charrefs=True)
        self.source, self.elements, self.open, self.unbalanced = source, [], [], []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append({'tag': tag, 'attrs': dict(attrs), 'text': '', 'inside': [e['tag'] for e in self.open]})
        if tag not in ('meta', 'br', 'img', 'link', 'hr', 'input'):
            self.open.append(self.elements[-1])

    def handle_endtag(self, tag):
        if not self.open or self.open[-1]['tag'] != tag:
            self.unbalanced.append(tag)
        else:
            self.open.pop()

    def handle_data(self, data):
        for element in self.open:
            element['text'] += data

    def all(self, tag, **attrs):
        return [e for e in self.elements if e['tag'] == tag and all(e['attrs'].get(k) == v for k, v in attrs.items())]

    def rows(self):
        return [e for e in self.all('tr') if re.fullmatch(r'c\d+', e['attrs'].get('id', ''))]


def page_of(verdict, directory, root=Path('/runs'), previous=None):
    return Page(report.write(verdict, directory, root, previous)[0].read_text(encoding='utf-8'))


def figures_of(directory):
    """The pages of the figures, by check."""
    return {file.stem: Page(file.read_text(encoding='utf-8')) for file in sorted((directory / 'figures').iterdir())}


# What a page may contain

@pytest.fixture(scope='module')
def hostile_page(tmp_path_factory):
    return page_of(hostile(), tmp_path_factory.mktemp('hostile'), previous=hostile_previous())


@pytest.fixture(scope='module')
def words(tmp_path_factory):
    pair = PairState(baseline='onebox:physical', candidate='onebox:virtual', subsystem='memory', benchmark='Stream', metric='triad', expected='at least 0.97',
                   ratio=0.9, low=0.88, high=0.92, n=5, state='regressed', why='expected at least 0.97')
    facts = {'limits': {'peak': {'value': 1.2e11, 'unit': 'flop/s', 'source': 'archspec'}}}
    return page_of(verdict_of(every_word(), warnings=['steal 2 %'], pairs=[pair], session={'interrupted': True, 'facts': facts}),
                   tmp_path_factory.mktemp('words'))


def test_nothing_that_a_job_printed_becomes_markup_and_all_of_it_can_be_read(hostile_page, tmp_path):
    page, words = hostile_page, [re.sub(r'\W', '_', text) for text in HOSTILE]
    harmless = page_of(hostile(words), tmp_path, previous=hostile_previous(words))
    assert [(e['tag'], set(e['attrs'])) for e in page.elements] == [(e['tag'], set(e['attrs'])) for e in harmless.elements]
    assert [s['attrs'] for s in page.all('script')] == [{}] and len(page.all('style')) == 1
    assert all(re.fullmatch(r'--lines:\d+', e['attrs']['style']) for e in page.elements if 'style' in e['attrs'])
    report.write(hostile(), tmp_path, Path('/runs'), hostile_previous())
    assert sum(len(own.all('path', **{'class': 'line'})) for own in figures_of(tmp_path).values()) == len(HOSTILE)
    for each in (page, *figures_of(tmp_path).values()):
        assert each.unbalanced == [] and each.open == []
        assert not each.all('img') and not any(name.startswith('on') for e in each.elements for name in e['attrs'])
        assert not re.search('[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]', each.source)
    body = page.all('body')[0]['text']
    assert all(text in body for text in HOSTILE[:8])
    assert r'nul \x00 bell \x07 escape \x1b[31m c1 \x9b right-to-left \u202e half \udc80' in page.source


def test_every_address_is_inside_the_page_or_a_relative_file(tmp_path):
    folders = [tmp_path / 'runs' / h for h in HOSTILE if '\0' not in h and len(h) < 200]
    for folder in folders:
        folder.mkdir(parents=True)
    page = page_of(verdict_of([cell(metric=str(i), outputdir=str(f)) for i, f in enumerate(folders)]), tmp_path / 'report', tmp_path / 'runs')
    addresses = {e['attrs']['href'] for e in page.all('a')}
    assert all(a.startswith('#') or re.fullmatch(r"[\w./%~-]+(#c\d+)?", a) for a in addresses), addresses
    linked = {Path(os.path.normpath(tmp_path / 'report' / unquote(a, errors='surrogateescape'))) for a in addresses if a.startswith('..')}
    assert linked == set(folders)


def test_the_page_runs_its_own_script_only_and_asks_nothing_of_a_network(hostile_page, words):
    policy, = hostile_page.all('meta', **{'http-equiv': 'Content-Security-Policy'})
    own = hostile_page.all('script')[0]['text']
    digest = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
    assert policy['attrs']['content'] == (f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
                                          "base-uri 'none'; form-action 'none'")
    assert not any('src' in e['attrs'] or e['tag'] in ('link', 'img', 'iframe') for e in words.elements)
    assert not re.search(r'@import|url\(|https?:', words.source.replace('http://www.w3.org/2000/svg', ''))
    assert not re.search(r'fetch\(|XMLHttp|WebSocket|import|Beacon|innerHTML|document\.write|eval\(', own)


# What a page must contain

def test_every_cell_is_in_the_table_exactly_once_and_cases_stand_together(tmp_path):
    cells = [c.model_copy(update={'case': case, 'subsystem': sub, 'metric': f'{sub}-{case}-{c.metric}'})
             for c in every_word() for case in map(str, range(30)) for sub in ('storage', 'compute', 'odd')]
    page = page_of(verdict_of(cells), tmp_path)
    said = [row['text'] for row in page.rows()]
    assert len(said) == len(cells) == len({row['attrs']['id'] for row in page.rows()})
    assert all(sum(text.startswith(c.metric) for text in said) == 1 for c in cells)
    assert len(page.all('tr', **{'class': 'case'})) == 90
    assert [s['attrs']['data-name'] for s in page.all('section', **{'class': 'sub'})] == ['compute', 'storage', 'odd']


def test_head_rows_tables_and_addresses_of_a_page(words):
    row, = (r['text'] for r in words.rows() if r['text'].startswith('metric-regressed'))
    assert all(said in row for said in ('71.2', 'GB/s', '-8.4 %', '77.7', '75.9 .. 79.5', '173.0', '41 %', 'regressed'))
    head = words.all('header')[0]['text']
    for said in ('onebox:virtual: Stream: a wrong answer. 5 more below.', 'onebox · 2026-11-20 02:14 to 03:26 · session 3f2a91b4 · interrupted · exit code 1', '1 regressed'):
        assert said in head
    notes = words.all('dl', **{'class': 'notes'})[0]['text']
    assert all(said in notes for said in ('1 of 2 codes (no Spack: NPB)', 'no rate is stated', 'steal 2 %'))
    ids = {e['attrs']['id'] for e in words.elements if 'id' in e['attrs']}
    assert {e['attrs']['href'][1:] for e in words.all('a') if e['attrs']['href'].startswith('#')} <= ids
    pair, = (r['text'] for r in words.all('tr') if r['text'].startswith('Stream: triad'))
    assert all(said in pair for said in ('virtual / physical', '0.900', '0.880 .. 0.920', 'at least 0.97', 'regressed'))
    assert len(words.all('caption')) == len(words.all('table')) == 3 and all('scope' in e['attrs'] for e in words.all('th'))
    assert '    unit: flop/s\n    source: archspec\n' in words.all('pre')[0]['text']
    assert words.all('html')[0]['attrs']['lang'] == 'en' and words.all('a')[0]['attrs'] == {'class': 'skip', 'href': '#causes'}


def test_a_cause_is_a_card_the_worst_first_and_a_long_reason_says_where_the_rest_is(tmp_path):
    cells = [cell(subsystem=sub, verdict=word, metric=word, value=1.0 if word == 'wrong' else None, reason='x' * 10_000 if word == 'wrong' else '')
             for sub, word in (('compute', 'skipped'), ('compute', 'failed'), ('storage', 'wrong'), ('memory', 'ok'), ('gpu', 'improved'))]
    page = page_of(verdict_of(cells), tmp_path)
    cards = page.all('article')
    assert [card['attrs']['class'] for card in cards] == ['wrong', 'failed'] and page.all('h2')[0]['text'] == '2 causes'
    assert page.all('h1')[0]['text'].startswith('onebox:virtual: Stream: a wrong answer. 1 more below.')
    assert '6000 more characters in verdict.json' in cards[0]['text'] and all(len(row['text']) < 400 for row in page.rows())
    left, = page.all('details', id='left')
    assert '1 cell' in left['text'] and 'skipped' in left['text'] and 'left out, or disturbed' in left['text']


@pytest.mark.parametrize('cells, said', [([], 'Nothing was measured: no case was planned.'), ([cell()], '1 figure'),
                                         ([cell(outputdir='/elsewhere/run')], 'output in /elsewhere/run')])
def test_a_page_without_anything_to_tell_or_to_link(tmp_path, cells, said):
    page = page_of(verdict_of(cells), tmp_path, tmp_path)
    assert said in page.all('body')[0]['text'] and not any('elsewhere' in e['attrs']['href'] for e in page.all('a'))


@pytest.mark.parametrize('outside', ['', '/etc', '{root}/../other', '{root}x', 'with\0nul', '{root}/\ud800', '{root}/way/ssl'])
def test_no_link_leads_out_of_the_results(tmp_path, outside):
    root = tmp_path / 'results'
    root.mkdir()
    (root / 'way').symlink_to('/etc')
    assert text.link(outside.format(root=root), root / 'report', root) == ''


def test_a_page_of_too_many_cells_has_the_worst_ones_and_counts_the_rest(tmp_path, monkeypatch):
    monkeypatch.setattr('parity.judge.report.page.ROWS', 4)
    monkeypatch.setattr('parity.judge.report.page.LISTED', 2)
    calm, bad = [cell(check=name, case=name, metric=f'm{n}') for name in 'AB' for n in range(5)], cell(check='Z', case='Z', verdict='regressed')
    skipped = [cell(check='C', case='C', metric=f's{n}', verdict='skipped', value=None, reason='no MPI') for n in range(6)]
    seldom = cell(check='A', case='A', metric='seldom')
    past = nights.NightHistory([('2026-07-01 02:00', 'one'), ('2026-07-02 02:00', 'two')], {key(seldom): nights.Past([0, 1], [1.0, 2.0], [None] * 2, [None] * 2, 'R.')})
    verdict = verdict_of([*calm, *skipped, seldom, bad])
    page = page_of(verdict, tmp_path, previous=Previous(nights=past, before=verdict_of([*calm, *skipped])))
    names = [re.match(r'\w+', row['text'])[0] for row in page.rows()]
    assert sorted(names) == ['m0', 'm0', 'seldom', 'triad'], 'the bad one, the one with a bad night, the first of each check'
    text = ' '.join(page.all('body')[0]['text'].split())
    assert '4 of 18 cells' in text and 'Without a row: 6 skipped, 8 ok. verdict.json has all cells' in text
    assert 'C: s1 virtual and 4 more cells: verdict.json' in text
    places = {e['attrs']['id'] for e in page.elements if 'id' in e['attrs']} | {
        f'figures/{name}.html#{e["attrs"]["id"]}' for name, own in figures_of(tmp_path).items() for e in own.elements if 'id' in e['attrs']}
    assert {e['attrs']['href'].removeprefix('#') for e in page.all('a') if '#' in e['attrs'].get('href', '')} <= places
    assert len(json.loads((tmp_path / 'verdict.json').read_text())['cells']) == 18


# The files

def test_a_figure_has_the_changes_of_its_nodes_by_short_name_or_by_address(tmp_path):
    cells = [cell(check=name, case=name, nodes=[node]) for name, node in (('Address', '10.1.0.3'), ('Name', 'c3'))]
    changed = [Change(fact=f'kernel of {node}', old='1', new='2', nodes=[node], since=86400.0) for node in ('10.1.0.3', '10.1.0.4', 'c3.cluster', 'c4.cluster')]
    report.write(verdict_of(cells), tmp_path, tmp_path, Previous(
        nights=nights.NightHistory([('1970-01-01 02:14', 'a'), ('2026-11-20 02:14', 'b')], {key(c): nights.Past([0, 1], [1.0, 2.0], [None] * 2, [None] * 2, '..') for c in cells}), changes={cells[0].environ: changed}))
    said = {name: re.findall(r'<li>.* changed: kernel of (\S+)', page.source) for name, page in figures_of(tmp_path).items()}
    assert said == {'Address': ['10.1.0.3'], 'Name': ['c3.cluster']}


def test_json_is_the_verdict_again(tmp_path):
    verdict = verdict_of(every_word(), session={'facts': {'machine': {'cores': 2}}}, warnings=['Ω </script>'])
    files = report.write(verdict, tmp_path / 'new' / 'report', tmp_path)
    assert [f.name for f in files] == ['index.html', 'verdict.json', 'junit.xml']
    assert answer.Answered.model_validate_json(files[1].read_text()) == answer.answered(verdict)
    read = answer.Answered.model_validate_json(report.write(hostile(), tmp_path, tmp_path)[1].read_bytes())
    assert [c.reason.replace('\\udc80', '\udc80') for c in read.cells] == [c.reason for c in hostile().cells]


def test_a_value_that_is_not_finite_is_null_in_json_and_a_word_on_the_page(tmp_path):
    page = page_of(verdict_of([cell(verdict='wrong', value=math.inf, efficiency=math.inf)]), tmp_path)
    assert json.loads((tmp_path / 'verdict.json').read_text())['cells'][0]['value'] is None
    assert 'inf' in page.rows()[0]['text']


@pytest.mark.parametrize('owner, name, call', [(os, 'fchmod', 1), (os, 'fchmod', 3), (os, 'replace', 1)])
def test_a_write_that_fails_leaves_the_old_report_whole(tmp_path, monkeypatch, owner, name, call):
    report.write(verdict_of([cell()]), tmp_path, tmp_path)
    before, real, calls = {f: f.read_bytes() for f in tmp_path.rglob('*.*')}, getattr(owner, name), []

    def full(*arguments):
        calls.append(arguments)
        if len(calls) == call:
            raise OSError(errno.ENOSPC, 'No space left on device')
        return real(*arguments)
    monkeypatch.setattr(owner, name, full)
    with pytest.raises(OSError, match='No space left'):
        report.write(verdict_of(every_word()), tmp_path, tmp_path)
    assert {f: f.read_bytes() for f in tmp_path.rglob('*.*')} == before


# JUnit

def _junit(*cells):
    return ET.fromstring(documents.junit(verdict_of(list(cells))))


def test_a_suite_is_a_partition_and_a_case_a_cell_with_its_figures():
    top = _junit(cell(value=71.2, reference=77.7, low=75.9, high=79.5, nodes=['v1', 'v2'], jobid='17', label='cached'), cell(metric='copy'),
                 cell(partition='physical'))
    assert top.tag == 'testsuites' and [s.get('name') for s in top] == ['onebox:virtual', 'onebox:physical']
    assert [len(s.findall('testcase')) for s in top] == [2, 1] and len(_junit()) == 0
    case = top.find('.//testcase')
    assert case.get('classname') == 'onebox:virtual.memory.Stream' and case.get('name') == 'Stream %threads=all +distro: triad'
    assert {p.get('name'): p.get('value') for p in case.iterfind('properties/property')} == {
        'verdict': 'ok', 'value': '71.2', 'unit': 'MB/s', 'better': 'higher', 'reference': '77.7', 'low': '75.9', 'high': '79.5',
        'label': 'cached', 'size': 'quick', 'attempt': '1', 'jobid': '17', 'nodes': 'v1 v2'}


def test_words_are_failures_errors_and_skips_and_are_counted():
    top = _junit(*(cell(metric=word, verdict=word, reason=f'because {word}') for word in WORDS),
                 cell(metric='known', verdict='regressed', reason='-9 %', acknowledged='until 2026-12-01 by me: fan'))
    cases = {case.get('name').rpartition(' ')[2]: case for case in top.iter('testcase')}
    outcome = {name: [e.tag for e in case if e.tag != 'properties'] for name, case in cases.items()}
    assert outcome == {'regressed': ['failure'], 'wrong': ['failure'], 'impossible': ['failure'], 'failed': ['error'], 'missing': ['error'],
                       'skipped': ['skipped'], 'ok': [], 'improved': ['system-out'], 'unreferenced': [], 'insufficient': [], 'blind': ['system-out'],
                       'disturbed': ['skipped'], 'known': ['skipped']}
    assert cases['skipped'].find('skipped').get('message') == 'because skipped' and cases['failed'].find('error').get('type') == 'failed'
    assert cases['improved'].find('system-out').text == 'improved: because improved'
    assert cases['blind'].find('system-out').text == 'blind: because blind'
    assert cases['known'].find('skipped').get('message') == '-9 %; acknowledged until 2026-12-01 by me: fan'
    for element in (top, top[0]):
        assert [element.get(k) for k in ('tests', 'failures', 'errors', 'skipped')] == ['13', '3', '2', '3']


def test_hostile_text_is_text_in_junit():
    top = _junit(*hostile().cells)
    assert {e.tag for e in top.iter()} <= {'testsuites', 'testsuite', 'properties', 'property', 'testcase', 'failure', 'error', 'skipped', 'system-out'}
    everything = ' '.join(v for e in top.iter() for v in e.attrib.values())
    assert all(text in everything for text in (*HOSTILE[:8], r'nul \x00 bell \x07 escape \x1b[31m'))


# What stands beside the verdict

def test_cells_that_became_worse_come_first_and_those_that_are_new_or_gone_apart():
    words = {'a': ('ok', 'failed'), 'b': ('regressed', 'ok'), 'c': ('ok', 'wrong'), 'd': ('ok', 'ok'), 'e': ('unreferenced', 'ok')}
    before = [cell(metric='old'), cell(metric='d', partition='other'), *(cell(metric=m, verdict=was) for m, (was, _) in words.items())]
    now = [cell(metric='new'), *(cell(metric=m, verdict=word) for m, (_, word) in words.items())]
    found = changes(of_cells(now, nights.NightHistory())[0], verdict_of(before))
    assert list(found.turns) == [('ok', 'wrong'), ('ok', 'failed'), ('regressed', 'ok'), ('unreferenced', 'ok')]
    assert [row.cell.metric for row in found.new] == ['new']
    assert [row.name for row in found.gone] == ['Stream%threads=all.old@onebox:virtual', 'Stream%threads=all.d@onebox:other']


def _before(uuid, system='local'):
    found = previous.before(database.read(uuid), system)
    return found and found.uuid


def test_the_session_before_is_the_newest_earlier_one_of_the_same_system_and_selection(stored):
    first = stored.add(case(), cmdline='/one/reframe -c checks/ --repeat 3 -r')
    assert _before(first) is None
    second = stored.add(case(), plan=[sessions.planned(), sessions.planned('New')], cmdline='/other/reframe -r -c /elsewhere/checks --repeat=5')
    assert _before(second) == first, 'a new check or more repeats is the same selection'
    stored.add(case(), plan=[sessions.planned('Other')], cmdline='reframe -c checks/ -n Other -r')
    stored.add(case(), parity_rerun_of=second)
    third = stored.add(case(), cmdline='reframe -c checks/ -r')
    stored.add(case())
    assert _before(third) == second and _before(third, 'elsewhere') is None


@pytest.mark.usefixtures('red_at_once')
def test_a_page_of_stored_sessions(stored, monkeypatch):
    monkeypatch.setattr('parity.judge.report.page.MAP_NIGHTS', 2)
    stored.add(case(100.0), uuid='a')
    stored.add(case(90.0, refs={'hpl': (100.0, -0.05, 0.1)}), uuid='b')
    file = report.of_session(judge.newest())[0]
    page, (own,) = file.read_text(), figures_of(file.parent).values()
    assert 'Changed since 2026-' in page and 'There is no earlier session' not in page
    assert [label[1] for label in json.loads(own.all('script', id='nights')[0]['text'])] == ['a', 'b']
    assert own.all('svg')[0]['attrs']['aria-label'] == '2 nights, 90.0 .. 100.0 Gflop/s, the last one 90 Gflop/s'
    letters, = (td['text'] for td in Page(page).all('code', **{}) if td['text'] == ':R')
    night, = own.all('li')                              # the map's letter leads to it
    assert night['attrs']['id'] == 'c1-1' and 'regressed' in night['text'] and f'figures/{list(figures_of(file.parent))[0]}.html#c1-1' in page
    stored.add(case(), plan=[{'of': 'another version'}], uuid='c')      # tonight's page does not need it
    stored.add(case())
    assert 'session c cannot be read' in report.of_session(judge.newest())[0].read_text()


def test_a_fact_that_changed_is_told_once_for_all_its_nodes_or_for_the_machine():
    before, now = (Stored('a', start, 'onebox', 'reframe -r', '4.10.4', {'software': {env: {'programs': {'xhpl': {'version': xhpl}}} for env in ('one', 'two')}},
                          {node: {'node': node, 'kernel': kernel} for node, kernel in zip(('v1', 'v2', 'v3'), kernels, strict=True)})
                   for start, xhpl, kernels in ((0.0, '2.3', ('6.1', '6.1', '6.1')), (86400.0, '2.4', ('6.1', '6.2', '6.2'))))
    assert [said.partition(' since ')[0] for said in previous.differences(before, now)] == ['kernel 6.1 -> 6.2 on v2, v3', 'xhpl 2.3 -> 2.4']


def _history(figures):
    return made.frame(*(made.figure(n, v, **{'session': f's{n}', 'start': float(n), 'unit': 'MB/s', **other}) for n, v, other in figures))


def _past(frame, nights_, **given):
    return nights.of_recent(frame, [(f's{n}', float(n)) for n in nights_], **given)


def test_a_night_is_the_median_of_its_runs_without_confirmations():
    past = _past(_history([(0, 1.0, {}), (0, 2.0, {}), (0, 9.0, {}), (1, 7.0, {'rerun_of': 's0'}), (2, 4.0, {}), (4, 8.0, {})]), (0, 2))
    assert [uuid for _, uuid in past.labels] == ['s0', 's2'] and list(past.cells) == [key(cell())]
    assert past.cells[key(cell())][:2] == ([0, 1], [2.0, 4.0])


def test_a_letter_tells_each_night():
    frame = _history([(n, 10.0, {}) for n in (0, 1, 2, 3, 8)])
    words = frame.select(*CELL, 'session').cast({pl.Categorical: pl.String}).with_columns(word=pl.Series(['insufficient', 'regressed', 'improved', 'blind', 'ok']))
    absent = words.head(1).select(CELL).join(pl.DataFrame({'session': ['s6', 's7'], 'status': ['failed', 'wrong']}), how='cross')
    past = _past(frame, range(9), words=words, absent=absent).cells[key(cell())]
    assert past.letters == ':RIb  FW.'
    assert nights.tonight(cell(verdict='regressed', acknowledged='known'), past, 9) == ':RIb  FWr'


def test_the_speed_of_a_subsystem_is_the_median_of_its_cells_the_right_way_up():
    frame = _history([(n, v, {'metric': m, 'better': b}) for m, b, values in (('up', 'higher', (10.0, 8.0)), ('down', 'lower', (10.0, 20.0))) for n, v in enumerate(values)])
    cells = [cell(metric='up', usual=10.0, history='ok'), cell(metric='down', better='lower', usual=10.0, history='ok')]
    shares, count = nights.speed(cells, _past(frame, (0, 1)), map(key, cells))
    assert shares == pytest.approx([1.0, 0.65]) and count == 2
    assert nights.speed([cell(metric='else')], _past(frame, (0, 1)), [key(cell(metric='else'))]) == ([], 0)
    speed, = _speeds([SimpleNamespace(cell=each) for each in cells], _past(frame, (0, 1))).values()
    assert speed.nights.values == pytest.approx([0.0, -35.0]), 'in per cent of the usual speed'
    assert (speed.nights.at, speed.tonight, speed.cells) == ([0, 1], pytest.approx(0.65), 2)


def test_a_history_is_drawn_in_its_box_with_a_gap_bridged_and_a_band_a_stretch():
    drawn = curves.history([0, 1, 2, 5], [70.0, 71.0, 69.0, 72.0], [68.0, 68.0, None, None], [75.0, 75.0, 74.0, 74.0], 6, 100)
    start, *steps = [int(n) for n in re.findall(r'-?\d+', drawn.line)][1:]
    assert steps[::2] == [1, 1, 3] and drawn.band.count('z') == 2 and drawn.end.startswith('M5 ')
    values = [drawn.scale.high - (drawn.scale.high - drawn.scale.low) * y / 100 for y in itertools.accumulate([start, *steps[1::2]])]
    assert values == pytest.approx([70, 71, 69, 72], abs=0.05)
    for values in ([5.0], [0.0, 0.0], [-1.0, 1e300]):
        drawn = curves.history(range(len(values)), values, [None] * len(values), [None] * len(values), 3, 24)
        assert all(0 <= int(n) <= 24 for n in re.findall(r'(?<=M\d )\d+', drawn.line)) and drawn.band == drawn.end == ''


# Curves

def _run(name, values, partition='default', facts=None):
    noted = {'subsystem': 'network', 'facts': facts or {}, 'metrics': {m: {'unit': 'us', 'better': 'lower'} for m in values}}
    perf = {f'local:{partition}:{m}': [v, 0, None, None, 'us', None] for m, v in values.items()}
    return {**sessions.ran(name), 'partition': partition, 'perfvalues': perf, 'parity': noted}


def _plots(cases, before=None):
    tonight, earlier = (told and record.of_report(sessions.report(told, [])) for told in (cases, before))
    return drawings.of_sessions(tonight, earlier)


def test_the_curve_that_a_case_noted_is_a_plot_with_the_unit_of_the_metric_judged_from_it():
    curve = {'bw_1': 1.0, 'bw_8192': 20.0, 'bw_1048576': 300.0, 'rate_1': 5.0}
    (plot, lines), = _plots([_run('Osu %where=within', {'bandwidth_8KiB': 20.0}, facts={'curve': curve})]).items()
    assert (plot.title, plot.what, plot.metric, plot.unit) == ('Osu %where=within', 'message size', 'bandwidth', 'us')
    assert [(line.name, line.points) for line in lines] == [('default+distro', {1.0: 1.0, 8192.0: 20.0, 1048576.0: 300.0})]


def test_cases_along_a_parameter_of_numbers_are_a_curve_for_each_partition():
    plots = _plots([_run('Fileset %file=1B %mode=rare', {'rate': 1.0}), *(_run(f'Fileset %file={f} %mode={m}', {'rate': v}, partition=p) for p in ('one', 'two') for m in ('read', 'write')
                    for f, v in (('1B', 1.0), ('10KB', 2.0), ('1MiB', 3.0)))])
    assert {p.title for p in plots} == {'Fileset %mode=read', 'Fileset %mode=write'}
    assert all([line.name for line in lines] == ['one+distro', 'two+distro'] and plot.x_unit == 'B' for plot, lines in plots.items())
    assert next(iter(plots.values()))[0].points == {1.0: 1.0, 1e4: 2.0, 2.0 ** 20: 3.0}


def test_threads_that_a_case_counted_are_its_axis_and_repeats_one_point_of_it():
    cases = [_run(f'Stream %threads={t}', {'triad': v}, facts={'threads': n})
             for t, n, vs in (('one', 1.0, (5.0, 1.0, 9.0)), ('half', 8.0, (9.0,)), ('all', 16.0, (11.0,))) for v in vs]
    (plot, lines), = _plots([*cases, {**cases[0], 'result': 'fail', 'fail_phase': 'run'}],
                              before=[*cases, *(_run(f'Gone %n={n}', {'rate': 1.0}) for n in (1, 2, 4))]).items()
    assert lines[0].points == {1.0: 5.0, 8.0: 9.0, 16.0: 11.0} and plot.what == 'threads'
    assert [line.earlier for line in lines] == [False, True]
    for values in ((1, 2), ('cg', 'ep', 'mg')):         # two points, and words, are no curve
        assert _plots([_run(f'Npb %benchmark={value}', {'mops': 1.0}) for value in values]) == {}


def test_a_plot_is_drawn_inside_its_picture_and_says_what_it_shows():
    drawn = drawings.draw(drawings.Plot('network', 'Osu', 'message size', 'B', 'latency', 'us', 'lower'), [
        drawings.PlotLine('a', {2.0 ** i: 1.0 + 2 ** i / 1000 for i in range(21)}), drawings.PlotLine('a', {1.0: math.inf, 2.0: 3.0}, earlier=True)])
    assert all(0 <= float(n) <= drawings.WIDTH for p in drawn.paths for n in p.d[1:].replace('L', ' ').split())
    assert drawn.paths[0].earlier and drawn.paths[0].colour == drawn.paths[1].colour
    assert [label for _, label in drawn.across] == ['1 B', '32 B', '1 KiB', '32 KiB', '1 MiB']
    assert drawn.text == 'latency by message size: a: 1.001 us at 1 B, 1050 us at 1 MiB'


@pytest.mark.parametrize('ys', [[0.0, 0.0, 0.0], [5.0, 5.0, 5.0], [-3.0, 2.0, 1.0], [1e-300, 1.0, 1e300], [math.nan]])
def test_any_finite_curve_can_be_drawn(ys):
    line = drawings.PlotLine('a', dict(zip((0.0, 1.0, 1e12), ys, strict=False)))
    drawn = drawings.draw(drawings.Plot('', '', 'x', '', 'm', 's', ''), [line])
    assert drawn is None if math.isnan(ys[0]) else drawn.paths


# Nodes

def test_nodes_come_worst_first_with_what_they_measured_and_what_only_they_state():
    facts = {'n1': {'node': 'n1', 'kernel': '6.1', 'microcode': '0x1'}, 'n3': {'node': 'n3', 'kernel': '6.1', 'microcode': '0x2'}}
    found = nights.nodes([cell(nodes=['n1']), cell(nodes=['n2'], verdict='failed', check='Hpl'), cell(nodes=['n3', 'n1'], verdict='unreferenced')],
                         Stored('a', 0.0, 'onebox', '', '', {}, facts), {'n3': (0.9, 5)})
    assert [(n.name, n.checks, n.words, n.facts) for n in found] == [
        ('n2', ['Hpl'], [('failed', 1)], []), ('n3', ['Stream'], [('unreferenced', 1)], ['microcode 0x2']),
        ('n1', ['Stream'], [('unreferenced', 1), ('ok', 1)], ['microcode 0x1'])]


def test_speed_is_beside_the_median_of_three_nodes_or_more_whichever_way_is_better():
    higher = [(n, v, {'node': node}) for n in range(3) for node, v in (('a', 10.0), ('b', 10.0), ('c', 8.0))]
    lower = [(n, v, {'node': node, 'metric': 'time', 'better': 'lower'}) for n in range(3) for node, v in (('a', 4.0), ('b', 4.0), ('c', 5.0))]
    found = figures.speeds(_history(higher + lower))
    assert found['c'] == (pytest.approx(0.8), 2) and found['a'] == (1.0, 2)
    for first, second in (('a', 'b'), ('a,b', '')):      # of two nodes nobody says which is slow
        assert figures.speeds(_history([(0, 1.0, {'node': first}), (0, 2.0, {'node': second})])) == {}


def _contrast(one, other):
    """The contrast of two colours #rrggbb (WCAG 2.2, relative luminance)."""
    def light(colour):
        parts = [int(colour[at:at + 2], 16) / 255 for at in (1, 3, 5)]
        return sum(share * (c / 12.92 if c <= .04045 else ((c + .055) / 1.055) ** 2.4) for share, c in zip((.2126, .7152, .0722), parts, strict=True))
    dark, bright = sorted(map(light, (one, other)))
    return (bright + .05) / (dark + .05)


def test_every_text_can_be_read_in_light_and_dark():
    light, dark = (dict(re.findall(r'--([\w-]+): (#\w{6})', part)) for part in (Path(report.__file__).parent / 'page.css').read_text().split('@media (prefers')[:2])
    assert light.keys() == dark.keys()
    for colours in (light, dark):
        pairs = [(name, ground) for name in ('fg', 'soft', 'link') for ground in ('bg', 'panel')] + [
            (name, f'{name}-bg') for name in ('bad', 'broken', 'quiet', 'better', 'good')]
        assert [pair for pair in pairs if _contrast(*(colours[name] for name in pair)) < 4.5] == []
        assert [name for name in colours if name.startswith('k-') and _contrast(colours[name], colours['bg']) < 3] == []
