"""What main at 79e2061 wrote is read as it was: tests/data/nights-79e2061 (README.md there says what it holds)."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any

import pytest

from commands import parity
from conftest import TOP

DATA = TOP / 'tests' / 'data' / 'nights-79e2061'
SAID = json.loads((DATA / 'expected.json').read_text())
SESSIONS, NIGHTS, PLACED = SAID['sessions'], SAID['nights'], SAID['placed']
KILLED = '5d2614f02eb7'
#: Metrics of Blocks that size=quick never measures. Where the case failed, 79e2061 called them failed. Since a plan
#: knows the metrics that a size leaves out, they are skipped, whatever befell the case.
NEVER_MEASURED = {f'Blocks%threads=all%order=sequential.{kind}_{block}@guest' for kind in ('read', 'write', 'update')
                  for block in ('8B', '1KB', '10KB', '100KB', '10MB')}


@pytest.fixture
def results(tmp_path, monkeypatch) -> Path:
    """The recorded results folder and system, in a checkout of the test's own."""
    shutil.unpack_archive(DATA / 'results.tar.gz', tmp_path)
    shutil.copytree(DATA / 'systems', tmp_path / 'systems')
    monkeypatch.setenv('PARITY_ROOT', str(tmp_path))
    monkeypatch.setenv('PARITY_RESULTS', str(tmp_path / 'results'))
    return tmp_path / 'results'


def answer(*arguments: str, code: int = 0) -> Any:
    done = parity(*arguments, '--json')
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


def cells(verdict: dict[str, Any]) -> dict[str, list]:
    """Word, value and acknowledgement of each cell. 79e2061 had no word `blind`: such a cell was ok. Its history judged later."""
    def word(c: dict[str, Any]) -> str:
        return 'unreferenced' if c['reference'] is None and c['history'] in ('ok', 'blind') else c['verdict'].replace('blind', 'ok')

    return {f'{c["case"].replace(" ", "")}.{c["metric"]}@{c["partition"]}': [word(c), c['value'], c['acknowledged']] for c in verdict['cells']}


def stored(folder: Path) -> list[str]:
    with sqlite3.connect(folder / 'results.db') as database:
        return [uuid for uuid, in database.execute('SELECT uuid FROM sessions ORDER BY session_start_unix')]


@pytest.mark.parametrize('night', range(3))
def test_every_cell_and_pair_of_a_night_keeps_its_word(results, night):
    was = SAID['verdicts'][night]
    expected = {name: ['skipped' if night == 2 and name in NEVER_MEASURED else word, value, known]
                for name, (word, value, known) in was['cells'].items()}
    now = answer('verdict', '--session', NIGHTS[night], code=was['exit_code'])
    assert cells(now) == expected
    for pair, said in zip(now['pairs'], was['pairs'], strict=True):
        assert [pair[key] for key in ('benchmark', 'metric', 'state')] == said[:3]
        assert pair['ratio'] == pytest.approx(said[3], rel=0.03), 'medians of runs were divided then'


def test_the_partitions_compare_alike_and_a_run_placed_otherwise_is_a_case_of_its_own(results):
    """79e2061 noted what was unusual, took the placed session for more runs of the same case and left them out; now the case's name says it."""
    found = cells(answer('verdict', '--session', PLACED))
    assert {(name.partition('.')[0], word) for name, (word, *_) in found.items()} == {('Pingpong%where=within%binding=none', 'unreferenced')}
    was = SAID['compare']
    now = answer('compare', 'lab:metal', 'lab:guest', code=was['exit_code'])
    rows = {f'{r["benchmark"]}.{r["metric"]}': [r['n'], r['ratio'], r['low'], r['high'], r['verdict']] for r in now['rows']}
    placed = {name: row for name, row in rows.items() if '%binding=none' in name}
    assert len(found) == 6 and len(placed) == 3 and rows.keys() - placed.keys() == was['rows'].keys()
    for name, (n, *ratio, word) in was['rows'].items():
        assert rows[name][0] == n and rows[name][-1] in (word, 'undecided'), name      # runs were counted then, not nights
        assert rows[name][2] < ratio[0] < rows[name][3], name


def test_history_references_acknowledgements_and_waivers_apply_and_the_page_is_built(results):
    now = answer('show', 'Ops%threads=one.int64@lab:metal', '--session', NIGHTS[-1])
    nights = [[n['session'], n['value'], n['runs'], n['reruns']] for n in now['nights']]
    assert nights == SAID['history'] and [session for session, *_ in nights[-3:]] == NIGHTS
    shown = re.sub(r' +\((today|\d+ days ago|in \d+ days)\)', '', parity('refs', 'show', '--system', 'lab').stdout)
    shown = re.sub('(?<=last applied).*', '', shown).replace(str(results.parent), 'TOP').splitlines()
    assert [line.split() for line in shown] == [line.split() for line in SAID['references']]       # columns are as wide as the days
    listed = parity('ack', '--list', '--system', 'lab').stdout.splitlines()
    assert [line.split('   ')[:2] for line in listed] == SAID['acknowledged']
    warnings = answer('verdict', '--session', NIGHTS[-1], code=1)['warnings']
    assert [each.split()[:2] for each in warnings] == [['session', f'{KILLED},']], 'nothing of waivers, references, acks'
    assert parity('report', '--session', NIGHTS[-1]).returncode == 0 and 'Ops %threads=one' in (results / 'report' / 'index.html').read_text()
    assert cells(json.loads((results / 'report' / 'verdict.json').read_text())).keys() == SAID['verdicts'][-1]['cells'].keys()
    assert len(list(xml.parse(results / 'report' / 'junit.xml').iter('testcase'))) >= 98


def test_a_session_that_was_killed_then_is_recovered(results):
    """Its journal names no host: whether it still runs is for a person to say."""
    done = parity('merge', '--recover', KILLED)
    assert done.returncode == 0 and 'recovered 2 finished cases' in done.stdout, done.stdout + done.stderr
    new, = set(stored(results)) - set(SESSIONS)
    words = [word for word, *_ in cells(answer('verdict', '--session', new, code=1)).values()]
    assert {word: words.count(word) for word in words} == {'unreferenced': 28, 'skipped': 8, 'impossible': 8, 'missing': 98}
