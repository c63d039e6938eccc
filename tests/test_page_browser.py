"""The report page in a real browser: filters, keys, drawings, and that it asks nothing of anybody."""

from __future__ import annotations

from pathlib import Path

import pytest

from dev.bench.browser import Browser, found
from parity import report
from parity.report import nights, rows
from parity.report.beside import Beside
from test_report import _cell, _every_word, _hostile, _hostile_beside, _verdict

pytestmark = pytest.mark.skipif(found() is None, reason='no Chromium here (apt-get install chromium)')


@pytest.fixture(scope='module')
def browser():
    with Browser(found()) as opened:
        yield opened


def _cells():
    cells = [c.model_copy(update={'subsystem': sub, 'partition': part, 'case': f'{sub} %on={part}', 'nodes': [f'{part}1']})
             for sub in ('memory', 'storage') for part in ('physical', 'virtual') for c in _every_word()]
    return [*cells, _cell(metric='alone', verdict='ok', case='Stream %a=b', reason='r' * 500)]


@pytest.fixture(scope='module')
def page(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp('page')
    cells = [c.model_copy(update={'outputdir': str(folder / 'run')}) for c in _cells()]
    (folder / 'run').mkdir()
    for name in ('rfm_job.sh', 'rfm_job.out'):
        (folder / 'run' / name).write_text('said')
    values = [70e3, 71e3, 69e3, 71.2e3]
    past = nights.Nights([(f'2026-11-1{n} 02:14', f's{n}') for n in range(4)], {
        rows.key(c): nights.packed([0, 1, 2, 3], values, [68e3] * 4, [None] * 4, 'MB/s') for c in cells})
    return report.write(_verdict(cells), folder / 'report', folder, Beside(nights=past))[0]


@pytest.fixture
def opened(browser, page):
    browser.look(1400)
    browser.events.clear()
    browser.open(page)
    return browser


ALL = len(_cells())
WORDS = len(_every_word())

#: The rows that a person sees, by metric.
SHOWN = '''[...document.querySelectorAll("#all tr[id]")].filter(row => row.checkVisibility())
           .map(row => row.cells[0].firstChild.data)'''


def _settle(opened):
    opened.value('new Promise(done => setTimeout(done, 200))')


def _count(opened):
    return opened.value('document.querySelector("#filter output").textContent')


def test_a_word_shows_its_cells_only(opened):
    opened.click('#filter button[value=regressed]')
    assert set(opened.value(SHOWN)) == {'metric-regressed'} and _count(opened) == f'4 of {ALL} cells'
    opened.click('#filter button[value=failed]')
    assert set(opened.value(SHOWN)) == {'metric-regressed', 'metric-failed'}
    opened.click('#filter button[value=regressed]')
    assert set(opened.value(SHOWN)) == {'metric-failed'}
    opened.click('#filter button[type=reset]')
    _settle(opened)
    assert _count(opened) == f'{ALL} cells' and len(opened.value(SHOWN)) == ALL


def test_the_counts_at_the_top_lead_to_their_cells(opened):
    opened.click('.counts .wrong')
    assert set(opened.value(SHOWN)) == {'metric-wrong'}
    opened.click('.counts .missing')
    assert set(opened.value(SHOWN)) == {'metric-missing'}


def _choose(opened, name, value):
    opened.value(f'(e => {{ e.value = "{value}"; e.dispatchEvent(new Event("input", {{bubbles: true}})) }})'
                 f'(document.querySelector("#filter [name={name}]"))')


def test_subsystem_partition_and_text_narrow_each_other(opened):
    _choose(opened, 'subsystem', 'storage')
    assert _count(opened) == f'{2 * WORDS} of {ALL} cells'
    _choose(opened, 'partition', 'virtual')
    assert _count(opened) == f'{WORDS} of {ALL} cells'
    _choose(opened, 'text', 'because WRONG')
    assert opened.value(SHOWN) == ['metric-wrong']
    _choose(opened, 'text', 'nothing has this')
    assert opened.value(SHOWN) == [] and opened.value('document.querySelector("#none").checkVisibility()')
    _choose(opened, 'text', 'virtual1 storage')
    assert _count(opened) == f'{WORDS} of {ALL} cells'


def test_text_that_the_table_cuts_is_found_too(opened):
    _choose(opened, 'text', 'r' * 400)
    assert opened.value(SHOWN) == ['alone']


def _focus(opened):
    return opened.value('document.activeElement.id || document.activeElement.name || document.activeElement.tagName')


def test_keys_walk_the_rows_and_open_them(opened):
    opened.press('/')
    assert _focus(opened) == 'text'
    for key in 'alone':
        opened.press(key)
    opened.press('Enter')
    row = _focus(opened)
    assert opened.value(f'document.getElementById("{row}").cells[0].textContent').startswith('alone')
    opened.press('Enter')
    assert 'r' * 500 in opened.value('document.querySelector(".more").textContent')
    assert opened.value('document.querySelector(".more svg .line") !== null')
    assert opened.value('document.querySelector(".more code").textContent') == "parity show 'Stream%a=b.alone@onebox:virtual'"
    opened.press('Enter')
    assert opened.value('document.querySelector(".more")') is None
    opened.press('Escape')
    assert _count(opened) == f'{ALL} cells'
    rows = opened.value('[...document.querySelectorAll("#all tr[id]")].map(row => row.id)')
    opened.press('k')
    assert _focus(opened) == rows[rows.index(row) - 1]
    opened.press('j')
    opened.press('ArrowUp')
    opened.press('ArrowDown')
    assert _focus(opened) == row


def test_what_is_typed_as_text_is_no_command(opened):
    opened.press('/')
    for key in 'jk/':
        opened.press(key)
    assert opened.value('document.querySelector("#filter [name=text]").value') == 'jk/'
    opened.press('Escape')
    assert _focus(opened) == 'BODY' and _count(opened) == f'{ALL} cells'


def test_histories_are_drawn_with_their_band_when_they_come_into_view(opened):
    opened.value('document.querySelector("#c1").scrollIntoView()')
    _settle(opened)
    button = 'document.querySelector("#c1 .h button")'
    assert opened.value(f'{button}.title') == '4 nights, 69 to 71.2 GB/s'
    assert opened.value(f'{button}.querySelectorAll(".line, .band, circle").length') == 3
    opened.click('#c1 .h button')
    assert opened.value(f'{button}.getAttribute("aria-expanded")') == 'true'
    assert '4 nights from 2026-11-10 02:14: lowest 69, highest 71.2' in opened.value(
        'document.querySelector(".more").textContent')


def test_every_word_of_a_run_leads_to_its_output(opened, page):
    links = opened.value('[...document.querySelectorAll("#all td.w a")].map(a => a.getAttribute("href"))')
    assert len(links) == ALL and set(links) == {'../run/rfm_job.out'}
    case = opened.value('[...document.querySelectorAll("#all .case a")].map(a => a.getAttribute("href"))')
    assert {'../run/', '../run/rfm_job.sh', '../run/rfm_job.out'} == set(case)
    assert all((page.parent / link).exists() for link in {*links, *case})


def test_nothing_is_fetched_and_nothing_complains(opened, page):
    opened.click('#filter button[value=regressed]')
    opened.value('scrollTo(0, 1e6)')
    _settle(opened)
    asked = [e['params']['request']['url'] for e in opened.events if e['method'] == 'Network.requestWillBeSent']
    assert asked == [page.resolve().as_uri()]
    assert not [e for e in opened.events if e['method'] in ('Log.entryAdded', 'Runtime.exceptionThrown')]


def test_hostile_text_runs_nothing_and_makes_no_elements(browser, tmp_path):
    file = report.write(_hostile(), tmp_path, tmp_path, _hostile_beside())[0]
    browser.events.clear()
    browser.open(file)
    for row in browser.value('[...document.querySelectorAll("#all tr[id]")].map(row => row.id)'):
        browser.value(f'document.getElementById("{row}").click()')
    _settle(browser)
    assert browser.value('document.querySelectorAll(".more").length') == len(_hostile().cells)
    assert browser.value('document.querySelectorAll("img, iframe, [onerror], [onmouseover], [onfocus]").length') == 0
    assert browser.value('document.scripts.length') == 2
    assert {e['method'] for e in browser.events} & {'Page.javascriptDialogOpening', 'Runtime.exceptionThrown',
                                                    'Log.entryAdded'} == set()


@pytest.mark.parametrize('width', [390, 768, 1400])
def test_nothing_is_out_of_sight_to_the_right(browser, page, tmp_path, width):
    hostile = report.write(_hostile(), tmp_path, tmp_path, _hostile_beside())[0]
    browser.look(width)
    for file in (page, hostile):
        browser.open(file)
        browser.value('document.querySelectorAll("#all .scroll").forEach(e => e.style.contentVisibility = "visible")')
        assert browser.value('document.documentElement.scrollWidth') <= width
        assert browser.value('''[...document.querySelectorAll(".scroll")].filter(
            box => box.scrollWidth > box.clientWidth + 1).map(box => box.textContent.slice(0, 60))''') == []


def _open_without_scripts(browser, file):
    browser('Emulation.setScriptExecutionDisabled', value=True)
    try:
        browser('Page.navigate', url=file.as_uri())
        browser.wait('Page.loadEventFired')
    finally:
        browser('Emulation.setScriptExecutionDisabled', value=False)


def test_without_scripts_the_words_and_values_are_there(browser, page):
    _open_without_scripts(browser, page)
    assert browser.value('document.querySelector("#filter").checkVisibility()') is False
    text = browser.value('document.querySelector("#c1").textContent')
    assert 'regressed' in browser.value('document.body.innerText') and '71.2 GB/s' in text


BAD = '</noscript><script>window.bad = 1</script><img src=x onerror="window.bad = 1">'


@pytest.fixture(scope='module')
def large(tmp_path_factory) -> Path:
    """A page whose last tables are no elements when it opens."""
    cells = [_cell(case=f'Stream %n={n}{BAD if n == 199 else ""}', metric=m, value=1.0 + n) for n in range(200)
             for m in ('copy', 'add', 'triad')]
    folder = tmp_path_factory.mktemp('large')
    return report.write(_verdict(cells), folder, folder)[0]


def test_a_filter_and_a_link_reach_what_is_far_down(browser, large):
    assert '<noscript>' in large.read_text()
    browser.look(1400)
    for act in ('document.querySelector(".counts .ok").click()', 'location.hash = "c590"'):
        browser.open(large)
        browser.value(act)
        _settle(browser)
        assert browser.value('document.querySelectorAll("#all tr[id]").length') == 600
    assert 0 <= browser.value('document.querySelector("#c590").getBoundingClientRect().top') < 900


def test_what_is_far_down_is_there_after_a_moment_and_in_a_page_opened_at_a_row(browser, large):
    browser.open(large)
    browser.value('new Promise(done => setTimeout(done, 3000))')
    assert browser.value('document.querySelectorAll("#all tr[id]").length') == 600
    browser('Page.navigate', url='about:blank')
    browser('Page.navigate', url=f'{large.as_uri()}#c590')
    browser.wait('Page.loadEventFired')
    _settle(browser)
    assert 0 <= browser.value('document.querySelector("#c590").getBoundingClientRect().top') < 900


def test_hostile_text_far_down_stays_text(browser, large):
    browser.open(large)
    browser.value('new Promise(done => setTimeout(done, 3000))')
    assert browser.value('document.querySelectorAll("#all img, #all script").length') == 0
    assert BAD in browser.value('document.querySelector("#c600").parentElement.textContent')
    assert browser.value('window.bad') is None


def test_without_scripts_nothing_is_left_out(browser, large):
    _open_without_scripts(browser, large)
    assert browser.value('document.querySelectorAll("#all tr[id]").length') == 600
