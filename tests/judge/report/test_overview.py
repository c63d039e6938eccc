"""`parity report --all` and `parity verdict --all-systems`: a row a system, of one site and of several."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from commands import parity
from conftest import TOP
from parity.judge.report import answer
from stored import case

DAY = 86400.0
PERFLOGS = TOP / 'tests' / 'data' / 'perflogs'


def described(site, name: str) -> None:
    """Describe one more system, with nodes of a scheduler."""
    folder = site.parents[1] / name
    folder.mkdir()
    (folder / 'system.yaml').write_text(f'name: {name}\nhostnames: [x]\nrequires: []\npartitions:\n  - {{name: cpu, scheduler: squeue, launcher: local, '
                                        'extras: {cores: 4, memory_bytes: 8589934592}}\n')


def nights(stored, count: int, ago: float, *last: dict) -> None:
    """Store nights of `local`, the last one ``ago`` days before now."""
    for night in range(count):
        began = time.time() - (count - 1 - night + ago) * DAY - 600
        cases = last if night == count - 1 and last else (case(100.0 + night % 2),)
        stored.add(*cases, time_start_unix=began, time_end_unix=began + 60)


@pytest.fixture
def imported(tmp_path, monkeypatch):
    """Return the results folder of another site, with a perflog of EESSI's suite."""
    place = tmp_path / 'other'
    place.mkdir()
    shutil.copy(PERFLOGS / 'eessi.log', place)
    with monkeypatch.context() as there:
        there.setenv('PARITY_SITE', str(place))
        there.delenv('PARITY_RESULTS', raising=False)
        done = parity('import', str(place / 'eessi.log'))
    assert 'Traceback' not in done.stderr and (place / 'results' / 'results.db').is_file(), done.stderr
    return place / 'results'


def rows(*words: str) -> tuple[int, dict[str, dict]]:
    done = parity('verdict', '--all-systems', '--json', *words)
    assert done.stdout, done.stderr
    return done.returncode, {row['system']: row for row in json.loads(done.stdout)['systems']}


def test_a_fresh_night_needs_no_look_and_an_old_one_ends_with_3(stored, site):
    nights(stored, 4, 0.0)
    described(site, 'spare')
    code, found = rows()
    assert code == 0 and found['local']['code'] == 0 and not found['local']['stale']
    assert found['spare']['sentence'] == 'no session is stored' and found['spare']['age'] is None
    (site.parents[1] / 'spare' / 'system.yaml').write_text('name: spare\n')
    code, found = rows()
    assert code == 2 and 'Field required' in found['spare']['sentence'] and found['local']['code'] == 0
    (site.parents[1] / 'spare' / 'system.yaml').unlink()
    code, found = rows('--max-age', '5m')
    assert code == 3 and found['local']['stale']


def test_the_worst_system_gives_the_exit_code(stored, site, imported, results):
    nights(stored, 3, 0.0)
    code, found = rows('--results', str(results), '--results', str(imported), '--max-age', '9999d')
    assert {'local', 'tut'} <= {*found} and code == max(found['tut']['code'], found['local']['code'])
    assert found['tut']['results'] == str(imported) and 'PARITY_SITE' not in os.environ


def test_the_page_has_a_row_a_system_and_leads_to_its_own_page(stored, site, imported, results):
    nights(stored, 4, 0.0)
    before = sorted(str(file) for file in imported.rglob('*.html'))
    done = parity('report', '--all', str(results), str(imported), '--max-age', '9999d')
    assert done.returncode == 0, done.stderr
    page = results / 'report' / 'all.html'
    assert done.stdout.strip() == str(page)
    text = page.read_text()
    for name in ('local', 'tut'):
        assert f'href="systems/{name}/index.html"' in text and (page.parent / 'systems' / name / 'index.html').is_file()
    assert '<script' not in text and 'Toy' in text
    assert sorted(str(file) for file in imported.rglob('*.html')) == before, 'the other site is only read'


def test_the_speed_of_a_part_is_beside_its_median(stored, site):
    """Eight nights of 100 and a last one of 90: the median is 100."""
    for night, value in enumerate([100.0] * 8 + [90.0]):
        began = time.time() - (8 - night) * DAY - 600
        stored.add(case(value, latency='absent'), time_start_unix=began, time_end_unix=began + 60)
    _, found = rows()
    assert [round(change, 6) for change in found['local']['parts'].values()] == [-0.1]


def test_what_is_slower_on_one_system_only_is_stated(stored, site, results, tmp_path):
    """Of two systems with the same software, one loses a tenth for three nights."""
    def night(ago: float, value: float) -> None:
        began = time.time() - ago * DAY - 600
        stored.add(case(value, latency='absent'), time_start_unix=began, time_end_unix=began + 60)

    for ago in range(16, 3, -1):
        night(ago, 100.0 + ago % 2 * 0.1)
    other = tmp_path / 'other'
    shutil.copytree(results, other / 'results')
    shutil.copytree(site.parents[1], other / 'systems')
    for ago in (2, 1, 0):
        night(ago, 90.0)
    done = parity('verdict', '--all-systems', '--json', '--max-age', '99d', '--results', str(results), '--results', str(other / 'results'))
    assert done.stdout, done.stderr
    slow, sound = json.loads(done.stdout)['systems']
    assert done.returncode == 1 and slow['results'] == str(results) and sound['alone'] == []
    assert slow['alone'] == ['Toy: hpl: slower here only; with the same software as before on local']


def damaged(site, tmp_path) -> Path:
    """Return the results folder of another site of two systems, whose results.db is damaged."""
    other = tmp_path / 'damaged'
    shutil.copytree(site.parents[1], other / 'systems')
    shutil.copytree(other / 'systems' / 'local', other / 'systems' / 'second')
    for name in ('local', 'second'):
        file = other / 'systems' / name / 'system.yaml'
        file.write_text(f'name: {name}\nhostnames: [x]\nrequires: []\npartitions:\n  - {{name: cpu, scheduler: squeue, launcher: local, '
                        'extras: {cores: 4, memory_bytes: 8589934592}}\n')
    (other / 'results').mkdir()
    (other / 'results' / 'results.db').write_bytes(b'no database' * 1000)
    return other / 'results'


def test_a_damaged_database_has_a_row_with_the_reason_and_the_others_are_shown(stored, site, results, tmp_path):
    nights(stored, 4, 0.0)
    other = damaged(site, tmp_path)
    code, found = rows('--results', str(results), '--results', str(other))
    assert code == 4 and found['second']['code'] == 4 and 'results.db: ' in found['second']['sentence'], found
    done = parity('verdict', '--all-systems', '--results', str(results), '--results', str(other))
    assert done.returncode == 4 and len([line for line in done.stdout.splitlines() if line[2] != ' ']) == 3, done.stdout
    done = parity('report', '--all', str(results), str(other))
    assert done.returncode == 4 and 'file is not a database' in (results / 'report' / 'all.html').read_text(), done
    assert (results / 'report' / 'systems' / 'local' / 'index.html').is_file()


def test_a_wrong_answer_comes_before_a_damaged_database_in_the_exit_code(stored, site, results, tmp_path):
    nights(stored, 3, 0.0, case(result='fail', fail_phase='sanity', fail_reason='bad residual'))
    code, found = rows('--results', str(results), '--results', str(damaged(site, tmp_path)))
    assert code == 1 and found['second']['code'] == 4


def test_the_only_database_may_be_the_damaged_one(site, results):
    results.mkdir(exist_ok=True)
    (results / 'results.db').write_bytes(b'no database' * 1000)
    done = parity('verdict', '--all-systems')
    assert done.returncode == 4 and 'results.db: ' in done.stdout, done


def test_an_answer_is_worked_out_once(stored, site, results, monkeypatch):
    nights(stored, 4, 0.0)
    calls = []
    work_out = answer.of
    monkeypatch.setattr(answer, 'of', lambda verdict: calls.append(verdict) or work_out(verdict))
    assert parity('report', '--all').returncode == 0 and len(calls) == 1


@pytest.mark.parametrize('words, code, why', [
    (['verdict', '--all-systems'], 3, 'no session of any system is stored'),
    (['verdict', '--all-systems', '--results', '/nowhere'], 2, 'no results.db is here'),
    (['verdict', '--results', '/nowhere'], 2, '--results is for --all-systems'),
    (['verdict', '--all-systems', '--system', 'local'], 2, 'leave --session, --system'),
    (['verdict', '--all-systems', '--max-age', 'week'], 2, "--max-age: 'week' must be a time"),
    (['report', '/nowhere'], 2, 'results folders are for --all'),
    (['report', '--all', '--system', 'local'], 2, '--all takes all systems')])
def test_bad_input_is_refused_in_a_line(site, results, words, code, why):
    done = parity(*words)
    assert done.returncode == code and why in done.stderr and 'Traceback' not in done.stderr, done
