"""The report page in a real browser: filters, keys, drawings, and that it asks nothing of anybody."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_report import cell, every_word, hostile, hostile_previous

from dev.bench.browser import Browser, browser_program
from nights import verdict_of
from parity.judge import report
from parity.judge.report import nights
from parity.judge.report.page import key as cell_key
from parity.judge.report.previous import Previous

pytestmark = pytest.mark.skipif(browser_program() is None, reason='no Chromium here (apt-get install chromium)')


@pytest.fixture(scope='module')
def browser():
    with Browser(browser_program()) as opened:
        yield opened


WORDS = len(every_word())
CELLS = [*(c.model_copy(update={'subsystem': sub, 'partition': part, 'case': f'{sub} %on={part}', 'nodes': [f'{part}1']})
           for sub in ('memory', 'storage') for part in ('physical', 'virtual') for c in every_word()),
         cell(metric='alone', verdict='ok', case='Stream %a=b', reason='r' * 500)]
ALL = len(CELLS)


@pytest.fixture(scope='module')
def page(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp('page')
    cells = [c.model_copy(update={'outputdir': str(folder / 'run')}) for c in CELLS]
    (folder / 'run').mkdir()
    for name in ('rfm_job.sh', 'rfm_job.out'):
        (folder / 'run' / name).write_text('said')
    own = nights.Past(range(10), [70e3, 71e3, 69e3, 71.2e3, 70e3, 71e3, 69e3, 71.2e3, 60e3, 71e3], [68e3] * 10, [None] * 10, '.......dR.')
    past = nights.NightHistory([(f'2026-11-1{n} 02:14', f's{n}') for n in range(10)], {cell_key(c): own for c in cells})
    return report.write(verdict_of(cells), folder / 'report', folder, Previous(nights=past))[0]


@pytest.fixture
def opened(browser, page):
    browser.look(1400)
    browser.events.clear()
    browser.open(page)
    return browser


def _shown(opened):
    """The rows that a person sees, by metric."""
    return opened.value('[...document.querySelectorAll("#all tr[id]")].filter(row => row.checkVisibility()).map(row => row.cells[0].firstChild.textContent)')


def _settle(opened):
    opened.value('new Promise(done => setTimeout(done, 200))')


def _text(opened, selector):
    return opened.value(f'document.querySelector("{selector}").textContent')


def test_a_word_shows_its_cells_only(opened):
    opened.value('document.querySelector("#all").open = true')
    for word, shown in (('regressed', {'metric-regressed'}), ('failed', {'metric-regressed', 'metric-failed'}), ('regressed', {'metric-failed'})):
        opened.click(f'#filter button[value={word}]')
        assert set(_shown(opened)) == shown and _text(opened, '#filter output') == f'{4 * len(shown)} of {ALL} cells'
    opened.click('#filter button[type=reset]')
    _settle(opened)
    assert _text(opened, '#filter output') == f'{ALL} cells' and len(_shown(opened)) == ALL
    opened.click('.counts .wrong')                      # the counts at the top lead to their cells
    assert set(_shown(opened)) == {'metric-wrong'}


def _press(opened, *keys):
    """Press keys, and return the element that has the focus then."""
    for key in keys:
        opened.press(key)
    return opened.value('document.activeElement.id || document.activeElement.name || document.activeElement.tagName')


def test_keys_walk_the_rows_and_open_a_figure(opened):
    assert _press(opened, '/') == 'text'
    row = _press(opened, *'alone', 'Enter')
    assert _text(opened, f'#{row} th').startswith('alone')
    assert _press(opened, 'Escape') == row and _press(opened, 'k') == f'c{int(row[1:]) - 1}' and _press(opened, 'j', 'ArrowUp', 'ArrowDown') == row
    assert _press(opened, '/', *'jk/') == 'text' and _text(opened, '#filter output') == f'0 of {ALL} cells'      # text is no command
    assert _press(opened, 'Escape') == 'BODY' and _text(opened, '#filter output') == f'{ALL} cells'
    assert opened.value('document.querySelector("#all").open') is True
    _press(opened, '/', *'alone', 'Enter')
    opened.press('Enter')                               # the page is left: nothing has the focus until the next is loaded
    opened.wait('Page.loadEventFired')
    assert opened.value('location.pathname').endswith('/figures/Stream.html') and opened.value('location.hash') == f'#{row}'


def test_a_link_to_a_folded_part_opens_it(opened):
    assert opened.value('document.querySelector("#all").open') is False
    opened.click('.counts .wrong')
    _settle(opened)
    assert opened.value('document.querySelector("#all").open') is True and set(_shown(opened)) == {'metric-wrong'}


def test_a_figures_own_page_tells_a_night_and_zooms_by_keys_and_by_drag(browser, page):
    browser.look(1400)
    browser.open(page.parent / 'figures' / 'Stream.html')
    one = 'document.querySelector(".plot")'
    assert browser.value('document.querySelectorAll(".plot").length') == ALL
    whole = browser.value(f'{one}.querySelector("svg").getAttribute("viewBox")')
    browser.value(f'{one}.focus()')
    for key, since, until in (('+', '2026-11-11', '2026-11-18'), ('ArrowRight', '2026-11-13', '2026-11-19'), ('0', '2026-11-10', '2026-11-19')):
        browser.press(key)
        assert [browser.value(f'{one}.querySelector(".{name}").textContent') for name in ('since', 'until')] == [since, until]
    assert browser.value(f'{one}.querySelector("svg").getAttribute("viewBox")') == whole
    browser.value(f"""(() => {{ const svg = {one}.querySelector('svg'), box = svg.getBoundingClientRect();
        const at = (name, share) => svg.dispatchEvent(new PointerEvent(name, {{clientX: box.left + share * box.width, bubbles: true}}));
        at('pointermove', .89); }})()""")
    assert _text(browser, 'figcaption') == '2026-11-18 02:14, session s8: 60 GB/s'


def test_every_word_of_a_run_leads_to_its_output(opened, page):
    words, case = (opened.value(f'[...document.querySelectorAll("{at}")].map(a => a.getAttribute("href"))') for at in ('#all td.w a', '#all .case a'))
    assert len(words) == ALL and set(words) == {'../run/rfm_job.out'}
    assert {'../run/', '../run/rfm_job.sh', '../run/rfm_job.out'} == set(case)
    assert all((page.parent / link).exists() for link in {*words, *case})


def test_nothing_is_fetched_and_nothing_complains(opened, page):
    opened.value('document.querySelectorAll("details").forEach(part => { part.open = true; })')
    opened.click('#filter button[value=regressed]')
    opened.value('scrollTo(0, 1e6)')
    _settle(opened)
    asked = [e['params']['request']['url'] for e in opened.events if e['method'] == 'Network.requestWillBeSent']
    assert asked == [page.resolve().as_uri()]
    assert not [e for e in opened.events if e['method'] in ('Log.entryAdded', 'Runtime.exceptionThrown')]


@pytest.fixture(scope='module')
def hostile_page(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp('hostile')
    return report.write(hostile(), folder, folder, hostile_previous())[0]


def test_hostile_text_runs_nothing_and_makes_no_elements(browser, hostile_page):
    browser.events.clear()
    browser.open(hostile_page)
    browser.value('document.querySelectorAll("details").forEach(part => { part.open = true; })')
    _settle(browser)
    assert browser.value('document.querySelectorAll("img, iframe, [onerror], [onmouseover], [onfocus]").length') == 0
    assert browser.value('document.scripts.length') == 1
    assert not {e['method'] for e in browser.events} & {'Page.javascriptDialogOpening', 'Runtime.exceptionThrown', 'Log.entryAdded'}


@pytest.mark.parametrize('width', [390, 768, 1400])
def test_nothing_is_out_of_sight_to_the_right(browser, page, hostile_page, width):
    browser.look(width)
    for file in (page, hostile_page, page.parent / 'figures' / 'Stream.html', *sorted(hostile_page.parent.glob('figures/*'))):
        browser.open(file)
        browser.value('document.querySelectorAll("details").forEach(part => { part.open = true; })')
        browser.value('document.querySelectorAll("#all .scroll").forEach(e => e.style.contentVisibility = "visible")')
        assert browser.value('document.documentElement.scrollWidth') <= width
        assert browser.value('''[...document.querySelectorAll(".scroll")].filter(
            box => box.scrollWidth > box.clientWidth + 1).map(box => box.textContent.slice(0, 60))''') == []


def test_without_scripts_nothing_is_left_out(browser, page):
    browser('Emulation.setScriptExecutionDisabled', value=True)
    try:
        browser('Page.navigate', url=page.as_uri())
        browser.wait('Page.loadEventFired')
    finally:
        browser('Emulation.setScriptExecutionDisabled', value=False)
    assert browser.value('document.querySelectorAll("#all tr[id]").length') == ALL and 'regressed' in browser.value('document.body.innerText')
    assert browser.value('document.querySelector("#filter").checkVisibility()') is False and '71.2 GB/s' in _text(browser, '#c1')
