"""`parity parse --each` and `--csv`: each run of a file apart, as a table that other commands take."""

from __future__ import annotations

import json
import re

import pytest

from commands import parity
from conftest import TOP

OUTPUTS = TOP / 'checks/storage/ior/outputs'
RUN = (OUTPUTS / 'made/4.1.0.txt').read_text()
COUNT = 14


def scaled(factor: float) -> str:
    """The run, as if all of it took so much longer."""
    def figure(match: re.Match) -> str:
        return f'{float(match[0]) / factor:{len(match[0])}.2f}'

    head, results = RUN.split('Results: ')
    for line in re.findall('^(?:write|read) .*', results, re.M):
        words = line.split()
        summary = len(words) > 20
        rates = range(1, 9) if summary else [1, 2]
        times = [9] if summary else [9]
        for at in rates:
            words[at] = f'{float(words[at]) / factor:.2f}'
        for at in times:
            words[at] = f'{float(words[at]) * factor:.5f}' if summary else f'{float(words[at]) * factor:.6f}'
        results = results.replace(line, ' '.join(words))
    return f'{head}Results: {results}'


@pytest.fixture
def folder(tmp_path):
    """A night a file, the last ones slower."""
    nights = tmp_path / 'nights'
    nights.mkdir()
    for night in range(1, COUNT + 1):
        factor = (1 + 0.002 * (night % 3)) * (1.5 if night > COUNT - 3 else 1)
        (nights / f'ior-2026-11-{night:02d}.txt').write_text(f'module load ior\n{scaled(factor)}')
    return nights


def test_each_run_of_a_file_is_read_apart(tmp_path):
    file = tmp_path / 'log.txt'
    refused = (OUTPUTS / 'made/fail-time-limit.txt').read_text()
    file.write_text(f'{RUN}real 0m3s\n{refused}{RUN}')
    assert parity('parse', 'ior', str(file)).stdout == f'{file}: unread: three runs in one file, lines 1, 42 and 86\n'
    done = parity('parse', 'ior', str(file), '--each', '--json')
    runs = json.loads(done.stdout)['runs']
    assert done.returncode == 1 and [(run['line'], run['complete']) for run in runs] == [(1, True), (42, False), (86, True)]
    assert runs[0]['metrics'] == runs[2]['metrics'] and runs[0]['metrics']['write'] == 576.0
    assert runs[1]['outcome'] == 'unread' and runs[1]['reason'] == 'a run with a time limit (-D) is not read'
    shown = parity('parse', 'ior', str(file), '--each').stdout
    assert shown.startswith(f'{file}:1:\nwrite 576.0 MiB/s\n') and f'{file}:42: unread: a run with' in shown


def test_a_table_of_a_folder_is_judged_lived_through_and_compared(folder, tmp_path):
    done = parity('parse', 'ior', str(folder), '--each', '--csv')
    assert done.returncode == 0, done.stderr
    table = tmp_path / 'table.csv'
    table.write_text(done.stdout)
    assert len(done.stdout.splitlines()) == 1 + COUNT * 10 and 'ior.write,2026-11-01,run,1,' in done.stdout
    found = parity('detect', str(table))
    assert found.returncode == 1 and 'REGRESSED  ior.write' in found.stdout, found.stdout + found.stderr
    assert parity('replay', str(table)).returncode in (0, 1)
    other = tmp_path / 'other.csv'
    other.write_text(parity('parse', 'ior', str(OUTPUTS / 'made/4.1.0.txt'), '--csv').stdout)
    compared = parity('compare', str(other), str(table))
    assert compared.returncode in (0, 1) and 'write' in compared.stdout, compared.stdout + compared.stderr


def test_the_direction_of_a_time_is_lower_and_of_a_rate_higher(folder):
    rows = [line.split(',') for line in parity('parse', 'ior', str(folder), '--csv').stdout.splitlines()[1:]]
    assert {row[6] for row in rows if row[5] == 's'} == {'lower'} and {row[6] for row in rows if row[5] != 's'} == {'higher'}


def test_a_version_that_was_not_tried_has_a_note():
    file = OUTPUTS / 'made/4.2.0-not-tried.txt'
    done = parity('parse', 'ior', str(file))
    assert done.returncode == 0 and done.stderr == f'{file}: note: version 4.2.0: not tried\n'


def test_a_folder_needs_each(folder):
    done = parity('parse', 'ior', str(folder))
    assert done.returncode in (2, 4) and str(folder) in done.stderr
