"""`parity compare A B` of two systems' stored nights: of one checkout, and of another site's results folder."""

from __future__ import annotations

import json
import random
import re
import shutil
from pathlib import Path

import pytest

import sides
from commands import parity
from conftest import TOP
from nights import start
from parity.base import paths
from parity.base.colours import Console
from parity.judge.compare import join, resolve, sentence
from parity.judge.compare.terminal import Paper, rendered
from sides import FIGURES
from stored import Stored

PAGE = (TOP / 'docs' / 'compare.md').read_text()
#: Speeds beside the figures of tests/sides.py.
ALPHA, BETA = {}, {'memory': 0.93, 'network': 1.08}


def nights(system: str, count: int, speeds: dict[str, float], partition: str = 'cpu', version: str = '4.1.4', first: int = 0) -> None:
    """Store nights of a system with one partition."""
    stored = Stored()
    for night in range(first, first + count):
        noise = random.Random(f'{system} {night}')
        cases, plan = [], []
        for own in FIGURES:
            speed = speeds.get(own.subsystem, 1.0)
            level = own.physical * (speed if own.better == 'higher' else 1 / speed)
            for _ in range(3):
                value = level * (1 + noise.gauss(0, own.noise))
                case = sides._ran(own, 'physical', night, value)
                figures = {f'{system}:{partition}:{own.metric}': [value, 0, None, None, own.unit, None]}
                cases.append({**case, 'system': system, 'partition': partition, 'perfvalues': figures})
            plan.append({**sides._planned(own, 'physical'), 'system': system, 'partition': partition})
        facts = {'software': {'distro': {'mpi': {'name': 'Open MPI', 'version': version}}}}
        uuid = f'{night:08x}-{system}-{partition}'
        stored.add(*cases, plan=plan, uuid=uuid, system=system, facts=facts, time_start_unix=start(night), time_end_unix=start(night) + 100)


@pytest.fixture
def two(tmp_path, results, monkeypatch):
    """A checkout with the nights of alpha and beta."""
    (tmp_path / 'systems').mkdir()
    monkeypatch.setenv('PARITY_ROOT', str(tmp_path))
    nights('alpha', 6, ALPHA)
    nights('beta', 6, BETA)
    return tmp_path


@pytest.fixture
def elsewhere(two, tmp_path) -> Path:
    """The results folder of another site, that has beta alone."""
    other = tmp_path / 'other site' / 'results'
    shutil.copytree(paths.results(), other)
    with paths.of_results(other):
        stored = Stored()
        stored.database.execute("DELETE FROM sessions WHERE uuid LIKE '%alpha%'")
        stored.database.execute("DELETE FROM testcases WHERE system = 'alpha'")
        stored.database.commit()
    stored = Stored()
    stored.database.execute("DELETE FROM sessions WHERE uuid LIKE '%beta%'")
    stored.database.execute("DELETE FROM testcases WHERE system = 'beta'")
    stored.database.commit()
    return other


def test_two_systems_of_one_checkout_are_compared_like_for_like(two):
    done = parity('compare', 'alpha', 'beta')
    assert done.returncode == 0 and done.stdout.startswith('beta is 7 % slower in memory, 8 % faster in network'), done.stdout + done.stderr
    assert 'alpha against beta' in done.stdout and 'software' in done.stdout


def test_the_page_shows_what_a_terminal_of_100_characters_does(two):
    block, = re.findall(r'^    \$ parity compare alpha beta\n((?:    .*\n|\n(?=    ))+)', PAGE, re.M)
    shown = [line.removeprefix('    ').rstrip() for line in block.splitlines()]
    console = Console(highlight=False, emoji=False, width=100)
    with console.capture() as printed:
        console.print(rendered(sentence.answered(join.compare(*resolve.sides('alpha', 'beta'))), Paper(100)))
    lines = [line.rstrip() for line in printed.get().splitlines()]
    assert shown == lines[:len(shown)] and any(line.startswith('bars:') for line in shown), '\n'.join(lines)


@pytest.mark.parametrize('word', ['', '@beta', '@beta:cpu'])
def test_a_system_of_another_results_folder_is_compared_in_the_same_way(elsewhere, word, tmp_path):
    page = tmp_path / 'page.html'
    done = parity('compare', 'alpha', f'{elsewhere}{word}', '--page', str(page))
    assert done.returncode == 0 and re.match(r'beta(:cpu)? is 7 % slower in memory', done.stdout), done.stdout + done.stderr
    assert 'latency</strong>' in page.read_text(), 'the curves of its newest session'
    assert parity('compare', 'alpha', 'beta').returncode == 2, 'it is not here'


def test_other_software_is_refused_and_named(two):
    nights('gamma', 6, {}, version='5.0.1')
    done = parity('compare', 'alpha', 'gamma')
    assert done.returncode == 2 and 'not like for like' in done.stderr and '4.1.4' in done.stdout, done.stdout + done.stderr
    assert parity('compare', 'alpha', 'gamma', '--label').returncode == 0


def test_partitions_of_two_systems_are_compared_by_their_names(two):
    nights('alpha', 6, {'memory': 0.5}, 'gpu', first=6)
    nights('delta', 6, ALPHA, 'cpu')
    nights('delta', 6, {'memory': 0.5}, 'gpu', first=6)
    done = parity('compare', 'alpha', 'delta')
    assert done.returncode == 0 and re.search(r'Stream .*\(gpu\)', done.stdout), done.stdout + done.stderr
    speeds = {row['partition']: row['baseline'] for row in json.loads(parity('compare', 'alpha', 'delta', '--json').stdout)['rows'] if row['check'] == 'Stream'}
    assert 0.49 < speeds['gpu'] / speeds['cpu'] < 0.51
    done = parity('compare', 'alpha', 'beta')
    assert done.returncode == 0 and 'alpha: its runs on alpha:cpu only' in done.stdout, done.stdout
    nights('epsilon', 2, ALPHA, 'main')
    done = parity('compare', 'alpha', 'epsilon')
    assert done.returncode == 2 and 'name a partition as system:partition' in done.stderr
    assert parity('compare', 'alpha:cpu', 'epsilon').returncode == 0, done.stderr


def test_slow_nodes_of_one_system_are_not_left_out_of_the_other(two, monkeypatch):
    """Both have a node p1; the incident is of alpha's."""
    from parity.judge.compare import named
    monkeypatch.setattr(named, 'of_system', lambda system: [named.NamedNode('p1', 1, 0.0)] if system == 'alpha' else [])
    notes = parity('compare', 'alpha', 'beta').stdout
    assert '4: 12 + 6: 18' in notes, 'beta has all of its nights'


@pytest.mark.parametrize('words, code, why', [
    (('alpha', 'omega'), 2, "'omega' is none of these: must be system:partition, a system, a session"),
    (('alpha', 'alpha'), 2, 'are the same runs'),
    (('alpha', 'nowhere/results'), 2, 'nowhere/results: No such file'),
    (('alpha', '.@beta'), 2, 'no results.db is here')])
def test_a_word_that_means_nothing_says_what_is_valid(two, monkeypatch, words, code, why):
    monkeypatch.chdir(two)
    done = parity('compare', *words)
    assert done.returncode == code and why in done.stderr, done.stderr


def test_a_folder_of_several_systems_asks_which_and_a_system_without_a_night_names_the_command(two, tmp_path):
    done = parity('compare', 'alpha', str(paths.results()))
    assert done.returncode == 2 and '@SYSTEM; it has alpha, beta' in done.stderr
    (two / 'systems' / 'spare').mkdir()
    (two / 'systems' / 'spare' / 'system.yaml').write_text('name: spare\nhostnames: [x]\nrequires: []\npartitions:\n  - {name: cpu, scheduler: squeue, '
                                                           'launcher: local, extras: {cores: 4, memory_bytes: 8589934592}}\n')
    done = parity('compare', 'alpha', 'spare')
    assert done.returncode == 3 and 'spare: nothing is stored for it; run:' in done.stderr, done.stderr
