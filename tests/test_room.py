"""programs/room.py: a folder with room for a storage job, and nothing left behind."""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import subprocess
import sys
import time

import pytest

from conftest import TOP

PROGRAMS = TOP / 'jobs' / 'programs'


def run(program, *arguments, **options):
    return subprocess.run([sys.executable, PROGRAMS / f'{program}.py', *map(str, arguments)], capture_output=True, text=True, **options)


def room(filesystem, size=1000, files=1, **options):
    return run('room', filesystem, size, files, **options)


@pytest.fixture
def place(tmp_path, monkeypatch):
    (tmp_path / 'stage').mkdir()
    (tmp_path / 'fs').mkdir()
    monkeypatch.chdir(tmp_path / 'stage')
    return tmp_path / 'fs'


def test_a_folder_of_its_own(place):
    done = room(place)
    folder, = place.iterdir()
    assert done.returncode == 0 and done.stdout == f'{folder}\n'
    assert folder.stat().st_mode & 0o777 == 0o700
    with open('room.json') as kept:
        assert json.load(kept)['filesystem'] not in ('', 'unknown')


@pytest.mark.parametrize('size, files, why', [(10**18, 1, 'bytes'), (1, 10**15, 'inodes')])
def test_what_does_not_fit_is_refused_before_anything_is_written(place, size, files, why):
    if why == 'inodes' and not os.statvfs(place).f_files:
        pytest.skip('this file system counts no inodes')
    done = room(place, size, files)
    assert done.returncode == 2 and done.stdout == '' and f'not enough space: needs {round(1.05 * max(size, files))} {why}'[:30] in done.stderr
    assert not list(place.iterdir())


@pytest.mark.parametrize('program, arguments', [
    ('room', ('/no/such', 1, 1)), ('room', ('.', 'x', 1)), ('room', ('.', 1, '')), ('direct', ('/no/such',))])
def test_bad_arguments_end_the_job_with_one_line(place, program, arguments):
    done = run(program, *arguments)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and done.stderr.startswith(f'{program}.py: ')


def test_what_killed_jobs_left_is_removed_and_what_lives_is_not(place):
    dead = subprocess.Popen(['true'])
    dead.wait()
    here = os.uname().nodename
    old, new = f'parity-job-elsewhere-{os.getpid()}', f'parity-job-elsewhere-{os.getpid() + 1}'
    gone = {f'parity-job-{here}-{dead.pid}', old}
    kept = {f'parity-job-{here}-1', new, 'parity-job-x', 'mine'}
    for name in gone | kept:
        (place / name / 'deep').mkdir(parents=True)
    os.utime(place / old, (time.time() - 3 * 86400,) * 2)
    assert room(place).returncode == 0
    assert {p.name for p in place.iterdir()} - {f'parity-job-{here}-{os.getpid()}'} == kept


def test_a_quota_is_held(place, tmp_path):
    """`quota` as Debian's package prints it with -p -w."""
    fake = tmp_path / 'bin' / 'quota'
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\necho "Disk quotas for user x (uid 1):"\n'
                    'echo "     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace"\n'
                    'echo "      /dev/vdb1     900    1000    2000       0       5       0       0       0"\n')
    fake.chmod(0o755)
    env = {**os.environ, 'PATH': f'{fake.parent}:{os.environ["PATH"]}'}
    assert room(place, 50 * 1024, env=env).returncode == 0
    done = room(place, 200 * 1024, env=env)
    assert done.returncode == 2 and 'quota of 1000 KiB' in done.stderr


def test_the_node_is_asked_whether_direct_io_is_taken(place):
    done = run('direct', place)
    assert done.returncode == 0 and done.stdout in ('0\n', '1\n'), done.stderr
    with open('direct.txt') as kept:
        assert kept.read() == done.stdout
    assert not list(place.iterdir())


def test_a_file_system_that_takes_no_direct_io(place, monkeypatch):
    """Some make the file before they refuse the flag."""
    spec = importlib.util.spec_from_file_location('direct', PROGRAMS / 'direct.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    real = os.open

    def refuse(path, *_):
        os.close(real(path, os.O_CREAT | os.O_WRONLY))
        raise OSError(errno.EINVAL, 'Invalid argument')
    monkeypatch.setattr(module.os, 'open', refuse)
    assert module.takes(place) is False and not list(place.iterdir())
