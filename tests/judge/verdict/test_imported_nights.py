"""Nights that a site stored before parity was there are judged as nights."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import string
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from commands import parity
from conftest import TOP
from parity.judge.store import database as stored
from parity.judge.store import imported
from parity.judge.verdict import judge, vanished

DAY, BEGAN = 86400, 1790000000
HEADER = 'job_completion_time_unix|result|system|partition|environ|name|a_value|a_unit'


def perflog(file, *nights: str) -> str:
    """A perflog: of each night the first letters of the tests that ran; a capital one failed."""
    lines = [HEADER]
    for at, letters in enumerate(nights):
        for letter in letters:
            value, result = ('None', 'fail') if letter.isupper() else (f'{100 + at % 3}', 'pass')
            lines.append(f'{BEGAN + at * DAY}|{result}|local|default|builtin|Test_{letter.lower()}|{value}|GB/s')
    file.write_text('\n'.join(lines) + '\n')
    return str(file)


def verdict(site, tmp_path, *nights: str):
    done = parity('import', perflog(tmp_path / 'a.log', *nights))
    assert done.returncode == parity('verdict').returncode, done.stderr
    return done


def test_what_vanished_is_missing(site, results, tmp_path):
    done = verdict(site, tmp_path, *['ab'] * 12, *['a'] * 4)
    assert done.returncode == 3 and 'Test_b' in done.stdout, done.stdout + done.stderr
    assert 'it ran last on' in parity('show', 'Test_b').stdout + parity('verdict', '--json').stdout


def test_what_failed_is_failed(site, results, tmp_path):
    done = verdict(site, tmp_path, *['ab'] * 12, 'aB')
    assert done.returncode == 4 and 'the perflog does not say why' in done.stdout, done.stdout + done.stderr


def test_a_weekly_test_is_missing_only_once_its_week_is_over(site, results, tmp_path):
    weeks = ['ab', *['a'] * 6] * 3
    assert verdict(site, tmp_path, *weeks).returncode == 0
    done = verdict(site, tmp_path, *weeks, 'a')
    assert done.returncode == 3, done.stdout


@pytest.mark.parametrize('ran, tonight, due', [
    ([0, 1, 2, 3], 4, True), ([0, 1, 2], 4, True), ([0, 7, 14], 20, False), ([0, 7, 14], 21, True), ([3, 4], 5, False), ([0, 1, 2, 9], 12, False)])
def test_a_cell_is_due_by_its_own_rhythm(ran, tonight, due):
    assert vanished.is_due(ran, tonight) is due


def test_every_morning_the_same_command_tells_what_is_new(site, results, tmp_path):
    assert verdict(site, tmp_path, *['ab'] * 12).returncode == 0
    first = verdict(site, tmp_path, *['ab'] * 12, 'aB')
    assert first.returncode == 4 and 'incident 1, new' in first.stdout
    again = verdict(site, tmp_path, *['ab'] * 12, 'aB')
    assert again.returncode == 4 and '0 of 13 sessions, 13 are here already' in again.stdout and 'incident 1' in again.stdout
    over = verdict(site, tmp_path, *['ab'] * 12, 'aB', 'ab')
    assert over.returncode == 0 and 'Incident 1 is over' in over.stdout, over.stdout


def test_two_systems_in_one_file_are_judged_one_after_the_other(site, results, tmp_path):
    file = perflog(tmp_path / 'a.log', *['ab'] * 12)
    lines = (tmp_path / 'a.log').read_text().splitlines()
    others = [line.replace('|local|', '|other|') for line in lines[1:]]
    (tmp_path / 'a.log').write_text('\n'.join([*lines, *others]) + '\n')
    done = parity('import', file)
    assert done.returncode == 0 and '24 x case of other:default, which no systems' in done.stdout


def database(file, *nights: str) -> str:
    """What ReFrame stores of such nights: a case that failed has figures without a value."""
    with closing(sqlite3.connect(file)) as conn:
        conn.execute('CREATE TABLE sessions (uuid, json_blob)')
        for at, letters in enumerate(nights):
            cases = []
            for letter in letters:
                failed = letter.isupper()
                cases.append({
                    'name': f'Test_{letter.lower()}', 'display_name': f'Test_{letter.lower()}', 'unique_name': f'Test_{letter.lower()}', 'system': 'local',
                    'partition': 'default', 'environ': 'builtin', 'result': 'fail' if failed else 'pass', 'fail_phase': 'run' if failed else None,
                    'fail_reason': 'error: no such file' if failed else None, 'job_completion_time_unix': BEGAN + at * DAY + 60.0, 'filename': 'a.py',
                    'perfvalues': {'local:default:a': [None if failed else 100.0 + at % 3, 0, None, None, 'GB/s']}})
            info = {'uuid': f'n{at}', 'time_start_unix': float(BEGAN + at * DAY), 'time_end_unix': BEGAN + at * DAY + 60.0, 'cmdline': 'reframe -r'}
            conn.execute('INSERT INTO sessions VALUES (?, ?)', (f'n{at}', json.dumps({'session_info': info, 'runs': [{'testcases': cases}]})))
        conn.commit()
    return str(file)


def test_a_failure_of_a_database_comes_in_with_its_reason(site, results, tmp_path):
    done = parity('import', database(tmp_path / 'old.db', *['ab'] * 12, 'aB'))
    assert done.returncode == 4 and 'no such file' in done.stdout and 'no number' not in done.stdout, done.stdout + done.stderr


def test_several_sessions_of_a_day_are_one_night(site, results, tmp_path, monkeypatch):
    monkeypatch.setattr(f'{__name__}.DAY', 3600)
    done = parity('import', database(tmp_path / 'old.db', *['a', 'b'] * 3))
    assert '6 of 6' not in done.stdout and 'in all 6 cases' in done.stdout and done.returncode == 0, done.stdout


def test_a_rate_that_falls_to_zero_is_wrong(site, results, tmp_path):
    perflog(tmp_path / 'a.log', *['ab'] * 12)
    file = tmp_path / 'a.log'
    file.write_text(f'{file.read_text()}{BEGAN + 12 * DAY}|pass|local|default|builtin|Test_a|0|GB/s\n')
    done = parity('import', str(file))
    assert done.returncode == 1 and 'a is 0 GB/s: a figure that is better when it is higher must be above 0' in done.stdout, done.stdout


def test_a_night_goes_from_noon_to_noon(site, results, tmp_path):
    evening = BEGAN - BEGAN % DAY + 23.5 * 3600
    lines = [HEADER]
    for night in range(12):
        for at, name in ((0, 'Late'), (5400, 'Early')):
            lines.append(f'{evening + night * DAY + at}|pass|local|default|builtin|{name}|{100 + night % 3}|GB/s')
    (tmp_path / 'a.log').write_text('\n'.join(lines) + '\n')
    done = parity('import', str(tmp_path / 'a.log'))
    assert done.returncode == 0 and 'imported: 12 of 12 sessions' in done.stdout, done.stdout + done.stderr


def test_a_case_of_the_future_is_left(site, results, tmp_path):
    perflog(tmp_path / 'a.log', *['ab'] * 12)
    file = tmp_path / 'a.log'
    file.write_text(f'{file.read_text()}{time.time() + 400 * DAY}|pass|local|default|builtin|Test_a|50|GB/s\n')
    done = parity('import', str(file))
    assert done.returncode == 0 and '1 x case that ended in the future' in done.stdout, done.stdout


def test_a_database_that_another_process_writes_is_waited_for(site, results, tmp_path, monkeypatch):
    file = database(tmp_path / 'old.db', *['ab'] * 3)
    monkeypatch.setattr('parity.base.paths.PATIENCE', 0.1)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute('BEGIN EXCLUSIVE')
        done = parity('import', file)
    assert done.returncode == 4 and 'another process writes it' in done.stderr, done.stderr


def row(at: float, name: str, value: str = '100', result: str = 'pass') -> str:
    return f'{at}|{result}|local|default|builtin|{name}|{value}|GB/s\n'


def add(tmp_path, *rows: str) -> str:
    """Add rows to the perflog; without one that is there, to a new one."""
    file = tmp_path / 'a.log'
    text = file.read_text() if file.exists() else f'{HEADER}\n'
    file.write_text(text + ''.join(rows))
    return str(file)


def test_a_night_that_is_imported_twice_is_one_night(site, results, tmp_path):
    """Its first half knows nothing of the second; the second has all of the first."""
    perflog(tmp_path / 'a.log', *['ab'] * 12)
    tonight = BEGAN + 12 * DAY
    half = parity('import', add(tmp_path, row(tonight, 'Test_a')))
    assert half.returncode == 3 and 'Test_b: never ran (incident 1, new)' in half.stdout, half.stdout
    rest = add(tmp_path, row(tonight + 3600, 'Test_b'))
    whole = parity('import', rest)
    assert whole.returncode == 0 and 'no incident is open' in parity('incidents').stdout, whole.stdout + whole.stderr
    assert 'imported: 1 of 13 sessions' in whole.stdout and '2 of 2 figures are judged' in whole.stdout
    assert 'imported: 0 of 13 sessions, 13 are here already' in parity('import', rest).stdout


def test_a_failure_that_comes_late_in_a_night_opens_its_incident(site, results, tmp_path):
    assert parity('import', perflog(tmp_path / 'a.log', *['ab'] * 12)).returncode == 0
    late = row(BEGAN + 11 * DAY + 7200, 'Test_b', 'None', 'fail')
    done = parity('import', add(tmp_path, late))
    assert done.returncode == 4 and 'Test_b: failed (incident 1, new)' in done.stdout, done.stdout + done.stderr


def test_a_test_that_failed_in_a_file_of_its_own_is_failed_and_not_missing(site, results, tmp_path):
    assert parity('import', perflog(tmp_path / 'a.log', *['ab'] * 12)).returncode == 0
    (tmp_path / 'a.log').unlink()
    tonight = BEGAN + 12 * DAY
    done = parity('import', add(tmp_path, row(tonight, 'Test_a'), row(tonight, 'Test_b', 'None', 'fail')))
    assert done.returncode == 4 and 'Test_b: failed' in done.stdout, done.stdout
    assert 'missing' not in done.stdout and 'never ran' not in done.stdout and 'did not run' not in done.stdout


def test_a_test_that_gets_its_first_figures_misses_nothing(site, results, tmp_path):
    failing = perflog(tmp_path / 'a.log', *['aB'] * 8)
    assert parity('import', failing).returncode == 4
    done = parity('import', add(tmp_path, row(BEGAN + 8 * DAY, 'Test_a'), row(BEGAN + 8 * DAY, 'Test_b')))
    assert done.returncode == 0 and 'never ran' not in done.stdout, done.stdout


def test_a_figure_that_a_test_no_longer_has_is_missing_and_its_test_ran(site, results, tmp_path):
    header = HEADER.replace('|a_value|a_unit', '|a_value|a_unit|b_value|b_unit')
    rows = [f'{BEGAN + night * DAY}|pass|local|default|builtin|Speed|10{night % 3}|GB/s|20{night % 3}|GB/s' for night in range(12)]
    rows.append(f'{BEGAN + 12 * DAY}|pass|local|default|builtin|Speed|101|GB/s|None|GB/s')
    (tmp_path / 'a.log').write_text('\n'.join([header, *rows]) + '\n')
    done = parity('import', str(tmp_path / 'a.log'))
    assert done.returncode == 3 and 'Speed: ran without a figure' in done.stdout, done.stdout
    assert 'its test ran without it; it had a figure last on' in done.stdout and 'never ran' not in done.stdout


@pytest.mark.parametrize('first, second', [(0.0, 0.75), (0.75, 0.0)])
def test_a_run_of_a_database_and_of_a_perflog_is_one(site, results, tmp_path, first, second):
    """A perflog may have whole seconds."""
    for shift in (first, second):
        (tmp_path / 'a.log').unlink(missing_ok=True)
        done = parity('import', add(tmp_path, *(row(BEGAN + shift + night * DAY, 'Test_a') for night in range(9))))
    assert 'imported: 0 of 9 sessions, 9 are here already' in done.stdout, done.stdout


def test_times_without_a_zone_are_the_same_runs_under_another_zone(site, results, tmp_path, monkeypatch):
    header = HEADER.replace('job_completion_time_unix', 'job_completion_time')
    rows = [f'2026-03-{day:02}T03:00:00|pass|local|default|builtin|Speed|10{day % 3}|GB/s' for day in range(1, 8)]
    (tmp_path / 'a.log').write_text('\n'.join([header, *rows]) + '\n')
    sessions = []
    for zone in ('UTC', 'America/New_York', 'Asia/Tokyo'):
        monkeypatch.setenv('TZ', zone)
        time.tzset()
        sessions.append(parity('import', str(tmp_path / 'a.log')).stdout.splitlines()[0].partition('imported: ')[2])
    monkeypatch.delenv('TZ')
    time.tzset()
    assert sessions[0].startswith('7 of 7') and sessions[1].startswith('0 of 7') and sessions[2].startswith('0 of 7'), sessions


def test_a_record_of_several_lines_that_was_read_half_is_completed(site, results, tmp_path):
    header = 'job_completion_time_unix|result|system|partition|environ|name|perf_var|perf_value|perf_unit'
    rows = [f'{BEGAN + night * DAY}|pass|local|default|builtin|Speed|{name}|10{night % 3}|GB/s' for night in range(12) for name in ('copy', 'triad')]
    for lines, said in ((rows[:-1], 'in all 12 cases with 23 figures'), (rows, 'in all 12 cases with 24 figures, 11 cases')):
        (tmp_path / 'a.log').write_text('\n'.join([header, *lines]) + '\n')
        done = parity('import', str(tmp_path / 'a.log'))
        assert said in done.stdout, done.stdout
    assert done.returncode == 0 and '2 of 2 figures are judged' in done.stdout
    assert sum(len(stored.read(uuid).runs) for uuid in stored.uuids()) == 12


def test_a_partition_that_the_system_lacks_comes_with_the_line_to_add(site, results, tmp_path):
    perflog(tmp_path / 'a.log', *['ab'] * 12)
    file = tmp_path / 'a.log'
    rows = file.read_text()
    file.write_text(rows + rows.replace('|default|', '|new|'))
    done = parity('import', str(file))
    assert '24 x case of local:new' in done.stdout and f'add this line to `partitions` of {site}: - {{"name": "new"' in done.stdout, done.stdout
    entry = done.stdout.partition('system.yaml: - ')[2].partition(' (first')[0]
    stated = yaml.safe_load(site.read_text())
    site.write_text(yaml.safe_dump(stated | {'partitions': [*stated['partitions'], yaml.safe_load(f'- {entry}')[0]]}))
    done = parity('import', str(file))
    assert 'not imported' not in done.stdout and '4 of 4 figures' in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize('key', ['unique_name', 'display_name', 'result', 'fail_reason', 'filename', 'tags', 'job_nodelist', 'perfvalues', 'jobid'])
def test_a_value_of_another_type_costs_a_line_and_no_night(site, results, tmp_path, key):
    values = 5, {'a': 1}, None, [[]]
    file = database(tmp_path / 'old.db', *['abcd'] * 3)
    with closing(sqlite3.connect(file)) as conn:
        text, = conn.execute('SELECT json_blob FROM sessions WHERE uuid = ?', ('n2',)).fetchone()
        report = json.loads(text)
        for case, value in zip(report['runs'][0]['testcases'], values, strict=True):
            case[key] = value
        conn.execute('UPDATE sessions SET json_blob = ? WHERE uuid = ?', (json.dumps(report), 'n2'))
        conn.commit()
    sentences = '\n'.join(imported.run(Path(file), False).sentences)
    assert 'imported: 3 of 3 sessions' in sentences, sentences
    for uuid in stored.uuids():
        judge.newest(uuid)


@pytest.mark.parametrize('unit', ['GB/s', 's'])
def test_a_figure_that_no_machine_has_is_left_and_its_run_is_wrong(site, results, tmp_path, unit):
    values = {'Test_a': '5e-324', 'Test_b': '1e308', 'Test_c': 'inf', 'Test_d': 'nan', 'Test_e': '-inf'}
    perflog(tmp_path / 'a.log', *['abcdef'] * 12)
    bad = [row(BEGAN + 12 * DAY, name, value) for name, value in values.items()]
    file = add(tmp_path, *bad, row(BEGAN + 12 * DAY, 'Test_f'))
    text = Path(file).read_text().replace('GB/s', unit)
    Path(file).write_text(text)
    done = parity('import', file)
    assert done.returncode == 1, done.stdout + done.stderr
    for name in values:
        assert f'figure a of {name} that is no number' in done.stdout
    wrong = [cell.case for cell in judge.newest().cells if cell.verdict == 'wrong' and 'no figure is a number' in cell.reason]
    assert sorted(wrong) == [*values]
    assert parity('report').returncode == 0


def test_who_cannot_write_a_cache_gets_the_verdict(site, results, tmp_path, monkeypatch):
    parity('import', perflog(tmp_path / 'a.log', *['ab'] * 12))
    shutil.rmtree(results / 'cache')
    access = os.access
    monkeypatch.setattr(os, 'access', lambda place, mode: not mode & os.W_OK and access(place, mode))
    (tmp_path / 'file').write_text('')
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'file' / 'cache'))
    done = parity('verdict')
    assert done.returncode == 0 and '2 of 2 figures are judged' in done.stdout and not (results / 'cache').exists(), done.stderr


def test_a_site_without_a_checkout_is_told(site, results, tmp_path, monkeypatch):
    monkeypatch.delenv('PARITY_ROOT')
    monkeypatch.setattr('parity.base.paths.ABOVE', tmp_path / 'nowhere')
    monkeypatch.setenv('PARITY_SITE', str(tmp_path))
    notice = tmp_path / 'notice.txt'
    site.write_text(f'{site.read_text()}\nnotify:\n  command: [tee, {notice}]\n')
    done = parity('import', perflog(tmp_path / 'a.log', *['ab'] * 12, 'aB'))
    assert done.returncode == 4 and 'incident 1 new' in notice.read_text(), done.stdout + done.stderr
    for command in (['refs', 'propose', '--system', 'local'], ['sessions'], ['summary'], ['verdict']):
        said = parity(*command)
        assert 'ci/nightly' not in said.stdout + said.stderr and 'refs accept' not in said.stdout, said.stdout
    assert 'write these values into `reference` of your tests' in parity('refs', 'propose', '--system', 'local').stdout


def test_an_empty_site_names_the_import(tmp_path, results, monkeypatch):
    monkeypatch.delenv('PARITY_ROOT', raising=False)
    monkeypatch.setattr('parity.base.paths.ABOVE', tmp_path / 'nowhere')
    monkeypatch.setenv('PARITY_SITE', str(tmp_path))
    for command in (['verdict'], ['summary'], ['sessions'], ['report']):
        said = parity(*command)
        assert said.returncode == 3 and 'run: parity import FILE' in said.stderr, said.stderr
    said = parity('parse', 'osu', str(tmp_path / 'a'))
    assert said.returncode == 2 and 'no code is here' in said.stderr and 'valid are' not in said.stderr, said.stderr


def test_an_output_that_cannot_be_written_is_infrastructure(site, results, tmp_path):
    parity('import', perflog(tmp_path / 'a.log', *[string.ascii_lowercase] * 9))
    environment = {**os.environ, 'PYTHONPATH': str(TOP / 'reframe')}
    for words in (['verdict'], ['verdict', '--json'], ['verdict', '--all']):
        with open('/dev/full', 'w') as full:
            done = subprocess.run([sys.executable, '-m', 'parity.cli', *words], stdout=full, stderr=subprocess.PIPE, text=True, env=environment)
        assert done.returncode == 4 and done.stderr == 'parity: standard output: No space left on device\n', (words, done)
