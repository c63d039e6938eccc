"""The page and the JSON file of a verdict: complete, harmless, whole."""

import base64
import errno
import hashlib
import json
import math
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from parity import report
from parity.base import text
from parity.report import facts
from parity.verdict.attribution.changes import Attribution, Change, Subsystem, Where
from parity.verdict.model import WORDS, Cell, CodeCoverage, Coverage, Session, Verdict

HOSTILE = [
    '<script>alert(1)</script>',
    '"onmouseover="alert(1)" x="',
    "'onfocus='alert(1)",
    '</td></tr></table><img src=x onerror=alert(1)>',
    'javascript:alert(1)',
    '{{ 7 * 7 }}{% raw %}',
    ']]><!--</style><style>body{display:none}',
    'Ω ≥ 3 µs – 日本語 🚀',
    'nul \0 bell \x07 escape \x1b[31m c1 \x9b right-to-left \u202e half \udc80',
    'x' * 10_000,
    '<b>' * 3_000,
    'two\nlines\r\n\tand a tab',
]


def _cell(**given):
    return Cell(**{
        'check': 'Stream', 'case': 'Stream %threads=all', 'subsystem': 'memory', 'system': 'onebox',
        'partition': 'virtual', 'environ': 'distro', 'size': 'quick', 'metric': 'triad', 'unit': 'MB/s',
        'better': 'higher', 'verdict': 'ok', **given})


def _verdict(cells, **given):
    session = Session(uuid='3f2a91b4-0000', system='onebox', start='2026-11-20T02:14:00',
                      end='2026-11-20T03:26:00', elapsed=4320.0, run_time=3480.0,
                      cmdline='reframe -r', reframe='4.10.0', **given.pop('session', {}))
    coverage = Coverage(line='1 of 2 codes (no Spack: NPB)', measured=1, total=2, cells=len(cells), codes=[
        CodeCoverage(code='STREAM', measured=True, by='distro package'),
        CodeCoverage(code='NPB', measured=False, reason='no Spack')])
    counts = {word: sum(c.verdict == word for c in cells) for word in WORDS}
    return Verdict(**{'session': session, 'coverage': coverage, 'counts': counts, 'trust': 'no rate is stated',
                      'warnings': [], 'next': 'parity show', 'exit_code': 1, 'cells': cells, **given})


def _every_word():
    return [_cell(metric=f'metric-{word}', verdict=word, reason=f'because {word}',
                  value=None if word in ('missing', 'skipped', 'failed') else 71200.0,
                  reference=77700.0, low=75900.0, high=79500.0, limit=173000.0, limit_source='dmidecode',
                  efficiency=0.41) for word in WORDS]


def _hostile():
    cells = [_cell(check=h, case=h, subsystem=h, system=h, partition=h, environ=h, metric=h, unit=h,
                   value=1.5, limit=2.0, limit_source=h, efficiency=math.nan, label=h, reason=h, nodes=[h],
                   jobid=h, outputdir=f'/runs/{h}', verdict=word, cause=Attribution(
                       where=Where(kind='node', name=h, why=h), subsystem=Subsystem(name=h, why=h),
                       changes=[Change(fact=h, old=h, new=h, nodes=[h], since=0.0)]))
             for h, word in zip(HOSTILE, (*WORDS, *WORDS), strict=False)]
    nested = {h: {'text': h, 'list': [h, 1, None], 'deep': [{h: h}], 'value': {'value': 1, 'unit': h}}
              for h in HOSTILE}
    return _verdict(cells, trust=HOSTILE[0], warnings=HOSTILE, next=HOSTILE[1],
                    session={'facts': nested, 'software': HOSTILE[3]})


class Page(HTMLParser):
    """What a browser would make of the page: elements, attributes, texts by element."""

    VOID = {'meta', 'br', 'img', 'link', 'hr', 'input'}

    def __init__(self, source):
        super().__init__(convert_charrefs=True)
        self.source, self.elements, self.open, self.unbalanced = source, [], [], []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag, attrs):
        element = {'tag': tag, 'attrs': dict(attrs), 'text': '', 'inside': [e['tag'] for e in self.open]}
        self.elements.append(element)
        if tag not in self.VOID:
            self.open.append(element)

    def handle_endtag(self, tag):
        if not self.open or self.open[-1]['tag'] != tag:
            self.unbalanced.append(tag)
        else:
            self.open.pop()

    def handle_data(self, data):
        for element in self.open:
            element['text'] += data

    def all(self, tag, **attrs):
        return [e for e in self.elements
                if e['tag'] == tag and all(e['attrs'].get(k) == v for k, v in attrs.items())]

    def rows(self):
        return [e for e in self.all('tr') if re.fullmatch(r'c\d+', e['attrs'].get('id', ''))]


def _page(verdict, directory, root=Path('/runs'), beside=None):
    report.write(verdict, directory, root, beside)
    return Page((directory / 'index.html').read_text(encoding='utf-8'))


# What a page may contain

TAGS = set('html head meta title style body a header h1 h2 h3 span time p code ul ol li strong section main '
           'article b em details summary div table caption thead tbody tr th td small i dl dt dd '
           'footer nav form button label select option input output kbd script '
           'figure figcaption svg path circle text noscript'.split())
ATTRIBUTES = set('lang charset http-equiv content name class href id datetime aria-label aria-labelledby '
                 'tabindex role scope colspan style hidden type value name placeholder autocomplete spellcheck '
                 'aria-pressed aria-hidden data-name data-p data-of '
                 'viewbox width height d x y cx cy r'.split())


def _hostile_beside():
    """The same text in everything that stands beside a verdict."""
    from parity.records.record import Session
    from parity.report import drawings, nights, rows
    from parity.report.beside import Beside
    from parity.report.facts import Difference
    cells = _hostile().cells
    before = _verdict([c.model_copy(update={'verdict': 'ok'}) for c in cells])
    return Beside(
        before=before, differences=[Difference(h, h, h, [h]) for h in HOSTILE],
        nights=nights.Nights([(h, h) for h in HOSTILE], {
            rows.key(c): nights.packed([0, 5], [1.0, 2.0], [None] * 2, [None] * 2, c.unit) for c in cells}),
        plots=[drawings.Plot(h, h, h, h, h, h, 'lower', [drawings.Line(h, {1.0: 1.0, 2.0: 3.0})]) for h in HOSTILE],
        facts=Session('u', 0.0, 's', '', '', {}, {h: {'kernel': h, 'processor': g}
                                                  for h, g in zip(HOSTILE, HOSTILE[::-1], strict=True)}),
        pairs=[drawings.Pair(h, [drawings.Ratio(h, 1.0, 0.9, 1.1, h, 'regressed', 'lower', h)], [h]) for h in HOSTILE])


def test_nothing_that_a_job_printed_becomes_markup(tmp_path):
    page = _page(_hostile(), tmp_path, beside=_hostile_beside())
    assert {e['tag'] for e in page.elements} <= TAGS
    assert {a for e in page.elements for a in e['attrs']} <= ATTRIBUTES
    assert len(page.all('script')) == 2 and len(page.all('style')) == 1
    assert [s['attrs'] for s in page.all('script')] == [{'type': 'application/json', 'id': 'data'}, {}]
    assert page.unbalanced == [] and page.open == []


def test_hostile_text_is_there_to_be_read(tmp_path):
    page = _page(_hostile(), tmp_path)
    body = page.all('body')[0]['text']
    for hostile in HOSTILE[:8]:
        assert hostile in body


def test_characters_that_cannot_be_seen_are_written_as_numbers(tmp_path):
    source = _page(_hostile(), tmp_path).source
    assert not re.search('[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]', source)
    assert r'nul \x00 bell \x07 escape \x1b[31m c1 \x9b right-to-left \u202e half \udc80' in source


def test_style_attributes_hold_only_numbers(tmp_path):
    for verdict in (_hostile(), _verdict(_every_word())):
        styles = [e['attrs']['style'] for e in _page(verdict, tmp_path).elements if 'style' in e['attrs']]
        assert all(re.fullmatch(r'--bar:(100|\d\d?)%|--lines:\d+', s) for s in styles)
    assert '--bar:41%' in styles


def test_every_address_is_inside_the_page_or_a_relative_file(tmp_path):
    root = tmp_path / 'runs'
    folders = [root / h for h in HOSTILE if '\0' not in h and len(h) < 200]
    for folder in folders:
        folder.mkdir(parents=True)
    cells = [_cell(metric=str(i), outputdir=str(folder)) for i, folder in enumerate(folders)]
    page = _page(_verdict(cells), tmp_path / 'report', root)
    addresses = {e['attrs']['href'] for e in page.all('a')}
    assert any('javascript' in a for a in addresses)
    for address in addresses:
        assert address.startswith('#') or re.fullmatch(r"[\w./%~-]+", address), address


def test_the_page_forbids_everything_but_its_own_style_and_script(tmp_path):
    page = _page(_hostile(), tmp_path)
    policy = page.all('meta', **{'http-equiv': 'Content-Security-Policy'})
    script = base64.b64encode(hashlib.sha256(page.all('script')[1]['text'].encode()).digest()).decode()
    assert policy[0]['attrs']['content'] == (f"default-src 'none'; style-src 'unsafe-inline'; "
                                             f"script-src 'sha256-{script}'; base-uri 'none'; form-action 'none'")


def test_the_page_asks_nothing_of_a_network(tmp_path):
    page = _page(_verdict(_every_word()), tmp_path)
    assert not any('src' in e['attrs'] or e['tag'] in ('link', 'img', 'iframe') for e in page.elements)
    script = page.all('script')[1]['text']
    assert not re.search(r'@import|url\(|https?:', page.source.replace('http://www.w3.org/2000/svg', ''))
    assert not re.search(r'fetch\(|XMLHttp|WebSocket|import|Beacon|innerHTML|document\.write|eval\(', script)


# What a page must contain

def test_every_cell_is_in_the_table_exactly_once(tmp_path):
    cells = [c.model_copy(update={'case': case, 'subsystem': sub, 'metric': f'{sub}-{case}-{c.metric}'})
             for case in ('first', 'second') for sub in ('storage', 'compute', 'odd')
             for c in _every_word()]
    rows = _page(_verdict(cells), tmp_path).rows()
    assert len(rows) == len(cells)
    for cell in cells:
        assert sum(row['text'].startswith(cell.metric) for row in rows) == 1
    assert len({row['attrs']['id'] for row in rows}) == len(rows)


def test_the_cells_of_a_case_stand_together(tmp_path):
    cells = [_cell(case=f'Stream %threads={threads}', subsystem=sub, metric=metric)
             for metric in ('copy', 'triad') for threads in (1, 2) for sub in ('storage', 'memory')]
    page = _page(_verdict(cells), tmp_path)
    assert len(page.all('tr', **{'class': 'case'})) == 4
    assert [s['attrs']['data-name'] for s in page.all('section', **{'class': 'sub'})] == ['memory', 'storage']


def test_a_row_says_value_band_limit_efficiency_and_word(tmp_path):
    page = _page(_verdict(_every_word()), tmp_path)
    row = next(r for r in page.rows() if r['text'].startswith('metric-regressed'))
    for said in ('71.2', 'GB/s', '-8.4 %', '77.7', '75.9 .. 79.5', '173.0', '41 %', 'regressed'):
        assert said in row['text']


def test_cells_that_are_not_ok_come_worst_first(tmp_path):
    cells = [_cell(subsystem='compute', verdict='skipped', metric='a'),
             _cell(subsystem='compute', verdict='failed', metric='b'),
             _cell(subsystem='storage', verdict='wrong', metric='c', value=1.0),
             _cell(subsystem='memory', verdict='ok', metric='d')]
    page = _page(_verdict(cells), tmp_path)
    articles = page.all('article')
    assert [a['attrs']['class'] for a in articles] == ['wrong', 'failed', 'skipped']
    assert [h['text'] for h in page.all('h3')][:2] == ['storage', 'compute']


def test_addresses_within_the_page_lead_somewhere(tmp_path):
    page = _page(_verdict(_every_word()), tmp_path)
    ids = {e['attrs']['id'] for e in page.elements if 'id' in e['attrs']}
    assert {e['attrs']['href'][1:] for e in page.all('a') if e['attrs']['href'].startswith('#')} <= ids


def test_a_long_reason_is_cut_and_says_where_the_rest_is(tmp_path):
    page = _page(_verdict([_cell(verdict='wrong', value=1.0, reason='x' * 10_000)]), tmp_path)
    assert '6000 more characters' in page.all('article')[0]['text']
    assert len(page.rows()[0]['text']) < 400


def test_the_head_line_says_where_when_and_how_much(tmp_path):
    page = _page(_verdict(_every_word(), warnings=['steal 2 %'], session={'interrupted': True}), tmp_path)
    assert 'onebox · 2026-11-20 02:14' in page.all('h1')[0]['text']
    head = page.all('header')[0]['text']
    for said in ('session 3f2a91b4 ', '1 of 2 codes (no Spack: NPB)', '11 cells', '1 h 12 min', 'interrupted',
                 'no rate is stated', 'steal 2 %', '1 regressed'):
        assert said in head


@pytest.mark.parametrize('cells, said', [([], 'nothing was measured'), ([_cell()], 'Every cell is ok.')])
def test_a_verdict_without_anything_to_tell(tmp_path, cells, said):
    assert said in _page(_verdict(cells), tmp_path).all('main')[0]['text']


def test_facts_are_definition_lists_with_units_and_sources(tmp_path):
    facts = {'machine': {'cores': 2, 'memory_bytes': 2 ** 36, 'virtual': True, 'max_clock_hz': None,
                         'caches': [{'level': 1, 'size_bytes': 49152}], 'simd': ['avx2', 'fma'], 'gpus': []},
             'limits': {'peak': {'value': 1.2e11, 'unit': 'flop/s', 'source': 'archspec', 'certain': True}}}
    page = _page(_verdict([_cell()], session={'facts': facts}), tmp_path)
    terms = [e['text'] for e in page.all('div') if 'dl' in e['inside'] and e['attrs'] == {}]
    for said in ('cores2', 'memory64 GiB', 'virtualyes', 'max clocknot known', '1level 1, size 48 KiB',
                 'simdavx2, fma', 'gpusnone', 'peak120 Gflop/s archspec (certain)'):
        assert said in terms


def test_facts_without_an_end_are_still_shown():
    deep = {}
    for _ in range(60):
        deep = {'inner': deep or 1, 'list': [[1], 2]}
    assert facts.facts(deep)


def test_tables_are_tables(tmp_path):
    page = _page(_verdict(_every_word()), tmp_path)
    assert len(page.all('caption')) == len(page.all('table')) == 2
    assert all('scope' in e['attrs'] for e in page.all('th'))
    assert page.all('html')[0]['attrs']['lang'] == 'en'
    assert page.all('a')[0]['attrs'] == {'class': 'skip', 'href': '#changed'}


def test_sixty_cells_stay_below_eighty_kilobytes(tmp_path):
    cells = [c.model_copy(update={'case': f'Stream %threads={i}'}) for i in range(6) for c in _every_word()][:60]
    report.write(_verdict(cells), tmp_path, tmp_path)
    assert len(cells) == 60
    assert (tmp_path / 'index.html').stat().st_size < 80_000


def _luminance(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one, other):
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_light_and_dark_colours_have_the_contrast_of_wcag_aa():
    css = (Path(report.__file__).parent / 'page.css').read_text()
    schemes = [dict(re.findall(r'--([\w-]+): (#\w{6})', block))
               for block in re.findall(r':root \{(.*?)\}', css, re.S)]
    assert len(schemes) == 2
    for scheme in schemes:
        pairs = [(scheme[ink], scheme[ground]) for ink in ('fg', 'soft', 'link')
                 for ground in ('bg', 'panel', 'better-bg')]
        pairs += [(scheme[k], scheme[f'{k}-bg']) for k in ('bad', 'broken', 'quiet', 'better', 'good')]
        assert min(_contrast(*pair) for pair in pairs) >= 4.5


# Links to output

@pytest.mark.parametrize('name', ['Stream_1', 'a b', '100%', 'q?x#y', 'javascript:alert(1)', '"x"', 'Ω\udc80',
                                  '//host'])
def test_a_link_leads_to_the_output_directory(tmp_path, name):
    directory, root = tmp_path / 'results' / 'report', tmp_path / 'results'
    target = f'{root}/output/{name}'
    link = text.link(target, directory, root)
    assert re.fullmatch(r'[\w./%~-]+', link)
    found = os.path.normpath(os.path.join(directory, unquote(link, errors='surrogateescape')))
    assert found == os.path.normpath(target)


@pytest.mark.parametrize('outside', ['', '/etc', '{root}/../other', '{root}x', 'with\0nul', '{root}/\ud800'])
def test_no_link_leads_out_of_the_results(tmp_path, outside):
    root = tmp_path / 'results'
    assert text.link(outside.format(root=root), root / 'report', root) == ''


def test_a_symbolic_link_does_not_lead_out_of_the_results(tmp_path):
    (tmp_path / 'results').mkdir()
    (tmp_path / 'results' / 'way').symlink_to('/etc')
    assert text.link(f'{tmp_path}/results/way/ssl', tmp_path, tmp_path / 'results') == ''


def test_output_elsewhere_is_named_without_a_link(tmp_path):
    page = _page(_verdict([_cell(outputdir='/elsewhere/run')]), tmp_path, tmp_path)
    assert 'output in /elsewhere/run' in page.all('table')[0]['text']
    assert not any('elsewhere' in e['attrs']['href'] for e in page.all('a'))


# The files

def test_json_is_the_verdict_again(tmp_path):
    verdict = _verdict(_every_word(), session={'facts': {'machine': {'cores': 2}}}, warnings=['Ω </script>'])
    files = report.write(verdict, tmp_path / 'new' / 'report', tmp_path)
    assert [f.name for f in files] == ['index.html', 'verdict.json', 'junit.xml']
    assert Verdict.model_validate_json(files[1].read_text()) == verdict


def test_hostile_text_survives_json(tmp_path):
    report.write(_hostile(), tmp_path, tmp_path)
    read = Verdict.model_validate_json((tmp_path / 'verdict.json').read_bytes())
    assert [c.reason.replace('\\udc80', '\udc80') for c in read.cells] == [c.reason for c in _hostile().cells]


def test_a_value_that_is_not_finite_is_null_in_json_and_a_word_on_the_page(tmp_path):
    page = _page(_verdict([_cell(verdict='wrong', value=math.inf, efficiency=math.inf)]), tmp_path)
    assert json.loads((tmp_path / 'verdict.json').read_text())['cells'][0]['value'] is None
    assert 'inf' in page.rows()[0]['text']


def test_files_can_be_read_as_the_umask_allows(tmp_path):
    old = os.umask(0o022)
    try:
        files = report.write(_verdict([]), tmp_path, tmp_path)
    finally:
        os.umask(old)
    assert [f.stat().st_mode & 0o777 for f in files] == [0o644] * 3


def _contents(directory):
    return {f.name: f.read_bytes() for f in directory.iterdir()}


def _fails_at(call, real):
    """``real`` until its ``call``-th call, which finds the disk full; later ones work again."""
    calls = []

    def function(*args, **kwargs):
        calls.append(args)
        if len(calls) == call:
            raise OSError(errno.ENOSPC, 'No space left on device')
        return real(*args, **kwargs)
    return function


@pytest.mark.parametrize('name, call', [('write_bytes', 1), ('write_bytes', 3), ('replace', 1)])
@pytest.mark.parametrize('old', [[], [_cell()]])
def test_a_write_that_fails_leaves_the_old_report_whole(tmp_path, monkeypatch, name, call, old):
    if old:
        report.write(_verdict(old), tmp_path, tmp_path)
    before = _contents(tmp_path)
    where = os if name == 'replace' else Path
    monkeypatch.setattr(where, name, _fails_at(call, getattr(where, name)))
    with pytest.raises(OSError, match='No space left'):
        report.write(_verdict(_every_word()), tmp_path, tmp_path)
    assert _contents(tmp_path) == before


def test_a_folder_in_the_way_of_the_page_is_an_error_and_stays(tmp_path):
    (tmp_path / 'index.html').mkdir()
    with pytest.raises(OSError):
        report.write(_verdict([]), tmp_path, tmp_path)
    assert (tmp_path / 'index.html').is_dir()


def test_the_page_is_put_in_place_last(tmp_path, monkeypatch):
    order = []
    real = os.replace
    monkeypatch.setattr(os, 'replace', lambda a, b: (order.append(Path(b).name), real(a, b)))
    report.write(_verdict([]), tmp_path, tmp_path)
    assert order[-1] == 'index.html'


def test_importing_the_report_does_not_load_jinja2():
    code = "import parity.report, sys; sys.exit('jinja2' in sys.modules)"
    path = str(Path(report.__file__).parents[2])
    assert subprocess.run([sys.executable, '-c', code], env={**os.environ, 'PYTHONPATH': path}).returncode == 0
