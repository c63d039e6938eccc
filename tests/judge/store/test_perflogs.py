"""Perflogs in the formats of sites. tests/data/perflogs: written by ReFrame 4.10.4 with the logging formats of these suites, by
one test with two figures, run twice; the last run of its second variant failed."""

from __future__ import annotations

import contextlib
import datetime
import os
import signal
import sqlite3
import subprocess
import sys

import pytest

from conftest import TOP
from parity.base.errors import InfrastructureError, NothingMeasured, UsageError
from parity.judge.store import imported, perflogs
from parity.site import described

FOLDER = TOP / 'tests' / 'data' / 'perflogs'
FORMATS = ('eessi', 'excalibur', 'cscs', 'tutorial')


def cases(file, header=None):
    return [line.case for line in perflogs.joined(perflogs.lines(file, header)) if line.case]


@pytest.mark.parametrize('name', FORMATS)
def test_each_line_of_a_suite_is_a_case(name):
    read = cases(FOLDER / f'{name}.log')
    assert [(case['name'], case['system'], case['partition'], case['environ']) for case in read] == [
        (f'Speed %x={x}', 'tut', 'cpu', 'gnu') for x in (1, 2, 1, 2)]
    figures = [{name.rpartition(':')[2]: (values[0], values[4]) for name, values in case['perfvalues'].items()} for case in read]
    first, second = ({'copy': (100.0 + x, 'GB/s'), 'triad': (90.0 + x, 'GB/s')} for x in (1, 2))
    assert figures == [first, second, first, {}]
    began = datetime.datetime(2026, 11, 28, 23, 11, tzinfo=datetime.timezone.utc).timestamp()
    assert all(abs(case['job_completion_time_unix'] - began) < 14 * 3600 for case in read)


def test_a_file_names_the_test_that_no_column_names(tmp_path):
    """ReFrame's tutorial, config/cluster_perflogs.py."""
    file = tmp_path / 'stream_build_test.log.h0'
    file.write_text('result,job_completion_time,system:partition,environ,copy_bw_value,copy_bw_unit\n'
                    'pass,2026-11-29T08:40:59,tutorialsys:default,gnu,4693.2,MB/s\n')
    line, = perflogs.lines(file)
    case = line.case
    assert [case[key] for key in ('name', 'system', 'partition', 'environ')] == ['stream_build_test', 'tutorialsys', 'default', 'gnu']
    assert case['perfvalues'] == {'tutorialsys:default:copy_bw': [4693.2, None, None, None, 'MB/s', None]}
    assert line.is_named_by_file and not any(line.is_named_by_file for line in perflogs.lines(FOLDER / 'tutorial.log'))


def test_tags_tell_the_part_of_the_machine():
    for name in ('excalibur', 'tutorial'):
        assert {perflogs.subsystem(case) for case in cases(FOLDER / f'{name}.log')} == {'memory'}
    assert {perflogs.subsystem(case) for case in cases(FOLDER / 'cscs.log')} == {'other'}


def test_a_fixture_is_no_case(tmp_path):
    """ReFrame 4.10 writes a line for it as for a test."""
    file = tmp_path / 'a.log'
    file.write_text('job_completion_time;system;partition;environ;name;a_value\n'
                    '2026-03-01T03:00:00Z;s;p;e;build ~s:p+e;null\n2026-03-01T03:00:00Z;s;p;e;Speed;1.5\n')
    assert [(case['name'], case['fixture']) for case in cases(file)] == [('build ~s:p+e', True), ('Speed', False)]


@pytest.mark.parametrize('printed, zone', [
    ('2026-03-01T04:00:00+01:00', True), ('2026-03-01T03:00:00Z', True), ('2026-03-01 03:00:00+00:00', True), ('2026-03-01T03:00:00', False)])
def test_a_time_has_a_zone_or_is_this_machines(tmp_path, printed, zone):
    file = tmp_path / 'a.log'
    file.write_text(f'job_completion_time;system;partition;environ;name;a_value\n{printed};s;p;e;Speed;1.5\n')
    line, = perflogs.lines(file)
    assert ('printed_time' in line.case) is not zone
    if zone:
        assert line.case['job_completion_time_unix'] == datetime.datetime(2026, 3, 1, 3, tzinfo=datetime.timezone.utc).timestamp()


def test_a_file_has_two_formats_where_its_header_changes(tmp_path):
    file = tmp_path / 'a.log'
    file.write_text((FOLDER / 'eessi.log').read_text() + (FOLDER / 'tutorial.log').read_text())
    assert len(cases(file)) == 8
    (tmp_path / 'a.log.h0').write_text((FOLDER / 'cscs.log').read_text())
    (tmp_path / 'a.log.gz').write_text('')
    assert [path.name for path in perflogs.files(tmp_path)] == ['a.log', 'a.log.h0']


def test_a_file_without_a_header_is_read_by_the_logging_format(tmp_path):
    header, *rest = (FOLDER / 'cscs.log').read_text().splitlines(keepends=True)
    file = tmp_path / 'a.log'
    file.write_text(''.join(rest))
    left, = {line.left for line in perflogs.lines(file)}
    assert 'line without a header (job_completion_time, system, ...)' in left and '--format' in left
    stated = perflogs.of_format('%(check_job_completion_time)s|reframe %(version)s|%(check_info)s|jobid=%(check_jobid)s|num_tasks=%(check_num_tasks)s|'
                                '%(check_perf_var)s=%(check_perf_value)s|ref=%(check_perf_ref)s (l=%(check_perf_lower_thres)s, u=%(check_perf_upper_thres)s)|%(check_perf_unit)s')
    assert cases(file, stated) == cases(FOLDER / 'cscs.log')
    for text, said in (('%(check_name)s|%(check_jobid)s', 'names no time'), ('%(check_job_completion_time)s|%(check_perfvalues)s', 'only a header')):
        with pytest.raises(UsageError, match=said):
            perflogs.of_format(text)


@pytest.mark.parametrize('line, said', [
    ('2026-03-01T03:00:00Z|s|p|e||1', 'without time, name'), ('yesterday|s|p|e|Speed|1', 'without time'), ('2026-03-01T03:00:00Z|s|p|e|Speed', 'number of fields'),
    ('2026-03-01T03:00:00Z|s|p|e|Speed|1|2', 'number of fields')])
def test_a_line_that_is_left_says_why(tmp_path, line, said):
    file = tmp_path / 'a.log'
    file.write_text(f'job_completion_time|system|partition|environ|name|a_value\n{line}\n')
    read, = perflogs.lines(file)
    assert said in read.left and read.case is None


def test_a_name_of_a_figure_may_have_any_sign(tmp_path):
    file = tmp_path / 'a.log'
    file.write_text('job_completion_time_unix|system|partition|environ|name|n=4 bw/s_value|n=4 bw/s_unit\n1790000000|s|p|e|Speed|2.5|GB/s\n')
    case, = cases(file)
    assert case['perfvalues'] == {'s:p:n=4 bw/s': [2.5, None, None, None, 'GB/s', None]}


def test_a_run_is_left_whose_last_line_is_still_being_written(tmp_path):
    file = tmp_path / 'a.log'
    header = 'job_completion_time_unix|system|partition|environ|name|perf_var|perf_value'
    lines = [f'{time}|s|p|e|Speed|{name}|1.5' for time in (1790000000, 1790090000) for name in ('copy', 'triad')]
    file.write_text('\n'.join([header, *lines[:3], lines[3][:-4]]))
    whole, part, cut = perflogs.joined(perflogs.lines(file))
    assert len(whole.case['perfvalues']) == 2
    assert part.case is None and 'may have more figures' in part.left and 'without an end' in cut.left


def test_a_folder_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    (tmp_path / 'open').mkdir()
    (tmp_path / 'open' / 'a.log').write_text('')
    (tmp_path / 'closed').mkdir()
    listed = os.scandir

    def scandir(folder):
        if str(folder).endswith('closed'):
            raise PermissionError(13, 'Permission denied', str(folder))
        return listed(folder)
    monkeypatch.setattr(os, 'scandir', scandir)
    left = []
    assert [path.name for path in perflogs.files(tmp_path, lambda *why: left.append(why))] == ['a.log']
    assert left == [('folder: Permission denied', str(tmp_path / 'closed'))]


@pytest.mark.parametrize('content', [b'\x1f\x8b\x08packed\n', 'job_completion_time|system\n'.encode('utf-16'), bytes(100)])
def test_a_file_that_is_no_text_is_named_once(tmp_path, content):
    file = tmp_path / 'a.log'
    file.write_bytes(content)
    line, = perflogs.lines(file)
    assert line.case is None and 'no text' in line.left


def test_a_format_with_figures_names_them():
    with pytest.raises(UsageError, match='needs %.check_perf_var.s'):
        perflogs.of_format('%(check_job_completion_time)s|%(check_name)s|%(check_perf_value)s')


def test_what_holds_nothing_says_so(tmp_path, site):
    (tmp_path / 'empty.log').write_text('')
    (tmp_path / 'none').mkdir()
    for name, said in (('empty.log', 'it has no line'), ('none', r'no \*.log with a line')):
        with pytest.raises(NothingMeasured, match=said):
            imported.run(tmp_path / name, True)


KILLED = """
import os, signal, sqlite3, sys
conn = sqlite3.connect(sys.argv[1], isolation_level=None)
conn.execute('PRAGMA cache_size=1')
conn.execute('BEGIN')
conn.execute('UPDATE sessions SET json_blob = zeroblob(100000)')
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_database_of_a_killed_night_names_the_repair(tmp_path, site):
    file = tmp_path / 'killed.db'
    with contextlib.closing(sqlite3.connect(file)) as conn:
        conn.execute('CREATE TABLE sessions (uuid, json_blob)')
        conn.executemany('INSERT INTO sessions VALUES (?, zeroblob(5000))', [(number,) for number in range(100)])
        conn.commit()
    assert subprocess.run([sys.executable, '-c', KILLED, str(file)]).returncode == -signal.SIGKILL
    with pytest.raises(InfrastructureError, match='a process ended while it wrote there; `reframe --list-stored-sessions`'):
        imported.run(file, True)


def test_a_system_that_cannot_be_written_names_another_folder(tmp_path, monkeypatch):
    (tmp_path / 'systems').write_text('')
    monkeypatch.setenv('PARITY_SITE', str(tmp_path))
    with pytest.raises(InfrastructureError, match='daint/system.yaml: .*; name a folder that you may write: parity --site DIR'):
        described.write('daint', {'gpu': 'slurm'})


def test_a_site_that_does_not_exist_must_be_made(tmp_path, monkeypatch):
    monkeypatch.setenv('PARITY_SITE', str(tmp_path / 'none'))
    with pytest.raises(UsageError, match='no such folder; make it, or let --site'):
        described.write('daint', {'gpu': 'slurm'})
