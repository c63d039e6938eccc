"""Storage checks: `io_budget` of system.yaml, by which a case is sized or skipped; room.py, which leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import sessions
from conftest import TOP
from parity.judge.report import answer
from parity.measure.check import storage
from parity.measure.check.sizing import NightBudget, fit
from sessions import planned, ran, verdict_on
from warm import reframe

GB = 10**9


@pytest.mark.parametrize('wanted, repetitions, budget, before, bytes_, fits, total', [
    ([4 * GB], 3, 48 * GB, 0, 4 * GB, 3, 12 * GB),                  # IOR with direct I/O on 24 GB: as it is
    ([48 * GB, 4 * GB], 3, 48 * GB, 0, 48 * GB, 1, 48 * GB),        # IOR of twice the memory: once
    ([48 * GB, 4 * GB], 3, 40 * GB, 0, 4 * GB, 3, 12 * GB),         # less than that: the smaller file
    ([48 * GB, 4 * GB], 3, 4 * GB, 0, 4 * GB, 1, 4 * GB),           # which just fits
    ([GB], 10, 48 * GB, 1, GB, 10, 11 * GB),                        # a copy: its source is written, too
    ([GB], 10, 5 * GB, 1, GB, 4, 5 * GB),
    ([48 * GB], 3, None, 0, 48 * GB, 3, 144 * GB),                  # no budget: the memory is not known
])
def test_a_case_is_sized_into_its_budget(wanted, repetitions, budget, before, bytes_, fits, total):
    plan = fit(wanted, repetitions, budget, '48 GB, 2 x memory', before)
    assert (plan.repetition_bytes, plan.repetitions, plan.total_bytes) == (bytes_, fits, total)
    sized = (bytes_, fits) != (wanted[0], repetitions)
    assert ('io_budget: case: 48 GB, 2 x memory, asked for' in plan.why) == sized


def test_a_night_is_taken_in_the_order_of_cases_and_counts_every_run():
    night = NightBudget(100, '100 B')
    assert night.take('first', 20, 3) == '' and night.left == 40
    assert night.take('second', 20, 3) == 'io_budget: night: 3 runs of 20 B, 40 B left of 100 B'
    assert night.take('first', 20, 3) == '' and night.left == 40            # its other runs: decided, paid
    assert night.take('third', 40, 1) == '' and night.left == 0
    assert night.take('second', 20, 3).startswith('io_budget: night: ')


@pytest.mark.parametrize('budget, skipped, said', [
    ('{case: 200000000}', set(), ''),
    ('{case: 104857600}', {'large-copy durable', 'large-copy as-is'}, 'io_budget: case: needs at least 128 MiB, has 100 MiB; io_budget: {case: 134217728} in system.yaml lets it run'),
    ('{night: 629145600}', {'large-copy as-is'}, 'io_budget: night: 2 runs of 256 MiB, 88 MiB left of 600 MiB; io_budget: {night: 1073741824} in system.yaml lets it run'),
])
def test_what_does_not_fit_the_budget_of_the_system_is_skipped(checkout, budget, skipped, said):
    file = checkout / 'systems' / 'local' / 'system.yaml'
    file.write_text(re.sub(r'io_budget: .*', f'io_budget: {budget}', file.read_text()))
    done = reframe(checkout, "-c checks/storage/filecopy/filecopy.py --dry-run --repeat=2 -n 'FileCopy%mode=.*%clients=one'")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if 'SKIP' in line]
    names = [' '.join(re.findall(r'%(?:mode|sync)=(\S+)', line)) for line in lines]
    assert set(names) == skipped and len(names) == 2 * len(skipped)          # each with all of its repeats
    assert said in done.stdout
    script = '\n'.join(f.read_text() for f in (checkout / 'results').rglob('rfm_job.sh') if 'large-copy' in f.read_text())
    assert ('--iterations=1' in script) == ('200000000' in budget)


def test_what_the_budget_left_out_is_counted():
    beyond = ran('Other', result='skip', perfvalues={}, parity={'status': 'skipped', 'reason': 'io_budget: night: 2 GB'})
    verdict = verdict_on(sessions.report([ran(), beyond], [planned(), planned('Other')]))
    assert dict(answer.of(verdict).notes)['left out'] == '2 cells: 2 beyond io_budget (parity verdict --skipped)'


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
    """Of an earlier version, a folder has no owner and waits for days."""
    room(place)
    gone, = place.iterdir()             # its owner is this process
    owner = (gone / 'owner').read_text()
    lives, other, early, *foreign = (place / name for name in ('parity-files-lives', 'parity-job-elsewhere', 'parity-job-c1-1', 'mine'))
    for folder in (lives, other, early, *foreign):
        (folder / 'deep').mkdir(parents=True)
    (lives / 'owner').write_text(owner)
    (other / 'owner').write_text(f'elsewhere {owner.split(" ", 1)[1]}')
    where, who = owner.splitlines()
    (gone / 'owner').write_text(f'{where}\n{who.split()[0]} 0\n')       # its id is another process's now
    done = room(place)
    assert done.returncode == 0 and {*place.iterdir()} - {Path(done.stdout.strip())} == {lives, other, early, *foreign}


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


@pytest.mark.parametrize('free, budget', [(1000, 100), (GB, GB // 10), (0, 0)])
def test_a_night_without_a_stated_budget_may_write_a_tenth_of_the_free_space(tmp_path, monkeypatch, free, budget):
    monkeypatch.setattr(storage, '_nights', {})
    monkeypatch.setattr(storage.shutil, 'disk_usage', lambda _: SimpleNamespace(total=10 * GB, free=free))
    case = SimpleNamespace(by_itself=False, runs_here=lambda: True)
    night = storage.Budget._night(case, None, str(tmp_path))
    assert night.budget == budget and '10 % of the free space of ' in night.text
    assert storage.Budget._night(case, None, str(tmp_path)) is night, 'one budget a file system and session'
    assert storage.Budget._night(case, 77, str(tmp_path)).budget == 77
