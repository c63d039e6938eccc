"""Every kind of page that parity writes, in a real browser at two widths: nothing is huge, endless or cut."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from commands import parity
from conftest import TOP
from dev.bench.browser import Browser, browser_program
from parity.base import paths
from parity.judge import report
from parity.judge.compare.pairs import PairState
from parity.judge.report import previous
from parity.judge.verdict import incidents, judge
from parity.study import compared, page
from sides import PHYSICAL, VIRTUAL, nights, site
from stored import Stored, case

pytestmark = pytest.mark.skipif(browser_program() is None, reason='no Chromium here (apt-get install chromium)')

#: Pixels: of a picture, and of the screen.
TALLEST, HEIGHT, WIDTHS = 300, 900, (1200, 400)
#: Screens of a page about four cells.
SCREENS = 10
#: What a page must hold to be of its kind.
KINDS = {
    'quiet/index.html': ['#changed', '#nodes', '#curves', '.tiles svg', '.strip a'],
    'slow/index.html': ['#causes article .curve .across text', '.map a[class]', '#pairs[open] .forest circle', '#all .h svg', '.curve .now text'],
    'slow/incidents/1.html': ['section .curve .span', '.curve .up text', '.events'],
    'slow/figures/Stream.html': ['.plot svg', '.plot .span', '.plot .band'],
    'compare.html': ['.forest .interval', '.forest .bound', '.forest .broken', 'figure svg'],
    'known/index.html': ['#all .label', '.map a[class]'],
    'known/incidents/1.html': ['section svg'],
    'mended/incidents/1.html': ['section svg'],
    'replay.html': ['.slow svg', '.plot svg'],
    'studies/index.html': ['table'],
    'studies/liu2017.html': ['figure svg'],
    'studies/jungels2012.html': ['table'],
}


def _night(stored: Stored, night: int, slow: float = 1.0) -> str:
    """Store a night of two checks, each twice and on a node of its own: four cells. ``slow``: the speed on c1."""
    noise, cases = random.Random(night), []
    for check, node, level in (('Stream', 'c1', slow), ('Npb', 'c2', 1.0)) * 2:
        speed = level * (1 + noise.gauss(0, 0.004))
        curve = {f'hpl_{size}': 100 * speed for size in (8, 64, 512, 4096)}
        cases.append(case(100 * speed, name=check, latency=1.5 / speed, job_nodelist=[node],
                          refs={'hpl': (100.0, -0.05, 0.05)}, parity={'facts': {'curve': curve}}))
    return stored.add(*cases)


def _session(uuid: str, folder: Path) -> None:
    verdict = judge.newest(uuid)
    pair = PairState(baseline='local:physical', candidate='local:virtual', subsystem='memory', benchmark='Stream', metric='hpl',
                     expected='at least 0.97', at_least=0.97, ratio=0.9, low=0.88, high=0.92, n=5, state='regressed', why='expected at least 0.97')
    report.write(verdict.model_copy(update={'pairs': [pair]}), folder, folder, previous.of_session(verdict))


@pytest.fixture(scope='module')
def pages(tmp_path_factory) -> Path:
    """A folder with a page of each kind."""
    top = tmp_path_factory.mktemp('every kind')
    site = top / 'root' / 'systems' / 'local' / 'system.yaml'
    site.parent.mkdir(parents=True)
    (top / 'results').mkdir()
    shutil.copy(TOP / 'systems' / 'local' / 'system.yaml', site)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('PARITY_RESULTS', str(top / 'results'))
        studies = [compared.of_study(folder.name) for folder in sorted((TOP / 'studies').iterdir())]
        for each in studies:
            page.write(each)
        page.write_index(studies)
        shutil.move(paths.results() / 'report' / 'studies', top / 'studies')
        patch.setenv('PARITY_ROOT', str(top / 'root'))
        _nights(top, Stored())
        patch.setenv('PARITY_ROOT', str(top / 'pairs'))
        patch.setenv('PARITY_RESULTS', str(top / 'results of pairs'))
        _compared(top)
    return top


def _compared(top: Path) -> None:
    """Write the page of a comparison with two expectations."""
    site(top / 'pairs', 'pairs:\n- {baseline: physical, candidate: virtual, expect: [{metric: Stream.triad, at_least: 0.97}, {metric: Hpl.gflops, at_least: 0.9}]}\n')
    nights(5)
    done = parity('compare', PHYSICAL, VIRTUAL, '--page', str(top / 'compare.html'))
    assert done.returncode == 1, done.stdout + done.stderr


def _nights(top: Path, stored: Stored) -> None:
    """Write the pages of nights without and with a fault, known and mended, and of their replay."""
    for night in range(12):
        uuid = _night(stored, night)
    _session(uuid, top / 'quiet')
    for night in range(12, 15):
        slow = _night(stored, night, 0.88)
        incidents.record(judge.newest(slow), 'local')
    _session(slow, top / 'slow')
    done = parity('ack', '1', '--until', '2999-01-01', '--why', 'a fan is broken', '--by', 'ana')
    assert done.returncode == 0, done.stderr
    _session(slow, top / 'known')
    for night in range(15, 18):
        uuid = _night(stored, night)
        known = incidents.record(judge.newest(uuid), 'local')
        if all(each.closed for each in known):
            break
    _session(uuid, top / 'mended')
    _session(slow, top / 'older')
    done = parity('replay', '--system', 'local', '--page', str(top / 'replay.html'))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope='module')
def browser():
    with Browser(browser_program()) as opened:
        yield opened


def _open(browser, file: Path, width: int) -> None:
    """Open a page with all that it folds."""
    browser.look(width, HEIGHT)
    browser.open(file)
    browser.value('document.querySelectorAll("details").forEach(part => { part.open = true; })')
    browser.value('document.querySelectorAll("#all .scroll").forEach(e => e.style.contentVisibility = "visible")')


def test_each_kind_of_page_is_looked_at(browser, pages):
    for name, selectors in KINDS.items():
        browser.open(pages / name)
        assert [at for at in selectors if not browser.value(f'document.querySelectorAll({at!r}).length')] == [], name


@pytest.mark.parametrize('width', WIDTHS)
def test_no_picture_is_huge_no_page_is_endless_and_nothing_is_cut(browser, pages, width):
    for file in sorted(pages.rglob('*.html')):
        _open(browser, file, width)
        name = str(file.relative_to(pages))
        tall = browser.value('[...document.querySelectorAll("svg, img")].map(e => e.getBoundingClientRect().height)')
        assert max(tall, default=0) <= TALLEST, name
        assert browser.value('document.documentElement.scrollWidth') <= width, name
        cut = browser.value("""[...document.querySelectorAll("body *")].filter(e => e.checkVisibility() && !e.closest("svg") &&
            e.getBoundingClientRect().right > innerWidth + 1).map(e => e.className + ": " + e.textContent.slice(0, 60))""")
        assert cut == [], name
        if not name.startswith('studies/'):     # a study has hundreds of figures
            assert browser.value('document.documentElement.scrollHeight') <= SCREENS * HEIGHT, name


#: Text and its ground, and marks that a person must see: each with the contrast that WCAG 2.2 asks for (1.4.3, 1.4.11).
CONTRAST = """(() => {
  const parts = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = colour => parts(colour).slice(0, 3).map(part => part / 255).map(part => part <= .04045 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4)
    .reduce((sum, part, at) => sum + part * [.2126, .7152, .0722][at], 0);
  const seen = colour => colour !== 'none' && (parts(colour)[3] ?? 1) > 0;
  const ground = element => { for (; element; element = element.parentElement) {
    const colour = getComputedStyle(element).backgroundColor; if (seen(colour)) return colour; } return 'rgb(255, 255, 255)'; };
  const ratio = (one, other) => { const [dark, bright] = [light(one), light(other)].sort((a, b) => a - b); return (bright + .05) / (dark + .05); };
  const poor = [];
  const look = (elements, least, colourOf) => { for (const element of elements) {
    if (!element.checkVisibility()) continue;
    const colour = colourOf(getComputedStyle(element));
    if (colour === 'none') continue;
    const found = ratio(colour, ground(element));
    if (found < least) poor.push(`${element.tagName}.${element.getAttribute('class')} ${colour} ${found.toFixed(2)}: ${element.textContent.slice(0, 30)}`); } };
  const texts = [...document.querySelectorAll('body *')].filter(element => [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim()) &&
    !element.matches('script, style, title'));
  look(texts.filter(element => !element.closest('svg')), 4.5, style => style.color);
  look(texts.filter(element => element.closest('svg')), 4.5, style => style.fill);
  look(document.querySelectorAll(['line', 'last', 'expected', 'level', 'edges', 'one', 'bound', 'interval'].map(name => `svg .${name}`).join(', ')), 3,
    style => style.stroke);
  return poor;
})()"""


def test_text_and_marks_stand_out_from_their_ground(browser, pages):
    for file in sorted(pages.rglob('*.html')):
        browser.open(file)
        browser.value('document.querySelectorAll("details").forEach(part => { part.open = true; })')
        for dark in (False, True):
            browser.look(WIDTHS[0], HEIGHT, dark=dark)
            assert browser.value('matchMedia("(prefers-color-scheme: dark)").matches') is dark
            assert browser.value(CONTRAST) == [], (file.relative_to(pages), dark)


@pytest.mark.parametrize('name', ['slow/index.html', 'compare.html', 'slow/figures/Stream.html'])
def test_the_tab_key_reaches_every_link_and_fold(browser, pages, name):
    browser.look(WIDTHS[0], HEIGHT)
    browser.open(pages / name)
    wanted = browser.value("""[...document.querySelectorAll('a[href], summary, button, select, input, [tabindex="0"]')].filter(
        element => element.tabIndex >= 0 && element.checkVisibility()).map((element, at) => { element.dataset.at = at; return at; })""")
    reached = set()
    for _ in range(len(wanted) + 2):
        browser.press('Tab')
        reached.add(browser.value('document.activeElement.dataset.at || ""'))
    assert reached - {''} == {str(at) for at in wanted}


def test_paper_has_the_plots_and_the_curves(browser, pages):
    for name, selector in (('slow/index.html', '#pairs td .forest'), ('slow/index.html', '#causes .curve .line'), ('compare.html', 'td .forest')):
        browser.look(794, 1123, media='print')
        browser.open(pages / name)
        assert browser.value(f'[...document.querySelectorAll("{selector}")].every(e => e.checkVisibility() && e.getBoundingClientRect().width > 20)'), name
    browser.look(WIDTHS[0], HEIGHT)
