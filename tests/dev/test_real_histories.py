"""The measure of the rule on real histories: what hindsight calls a drop, and what an alarm was."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys

import numpy as np
import pytest

from dev import plain_rules, real
from parity.base import paths


def run(*options: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, '-m', 'dev.real', *options], capture_output=True, text=True, cwd=paths.root())


def history(*levels: tuple[int, float], noise: float = 0.003) -> np.ndarray:
    """Draw logarithms: so many nights at each level."""
    level = np.concatenate([np.full(nights, value) for nights, value in levels])
    return level + noise * np.random.default_rng(1).standard_normal(len(level))


def test_hindsight_finds_a_lasting_drop_and_no_other_change():
    x = history((60, 0.0), (60, -0.08), (60, 0.0), (3, -0.3), (57, 0.0), (60, -0.03))
    (at, change), = real.drops(x, real.boundaries(x))
    assert abs(at - 60) <= 1
    assert change == pytest.approx(-0.08, abs=0.005)


@pytest.mark.parametrize(('x', 'at', 'kind'), [
    (history((80, 0.0), (40, -0.08)), 81, 'step'), (history((80, 0.0), (40, -0.03)), 81, 'small step'),
    (history((80, 0.0), (5, -0.08), (40, 0.0)), 81, 'short'), (history((120, 0.0)), 80, 'nothing'),
    (history((80, 0.0), (3, -0.08)), 81, 'short'), (history(*[(1, -0.0002 * n) for n in range(200)]), 180, 'drift')])
def test_an_alarm_has_the_kind_of_the_nights_around_it(x, at, kind):
    assert real.kind(x, at, real.drops(x, real.boundaries(x))) == kind


def test_an_alarm_is_new_after_three_nights_without_one():
    assert real.fresh(np.array([0, 1, 1, 0, 0, 0, 1, 0, 0, 1], dtype=bool)) == [1, 6]


def test_the_command_finds_a_drop_in_a_gzipped_file_and_names_the_nights(tmp_path):
    file = tmp_path / 'made.csv.gz'
    rows = [f'stream,{night},run,0,{value}' for night, value in enumerate(np.exp(history((60, 0.0), (30, -0.08))))]
    file.write_bytes(gzip.compress('\n'.join(['series,night,kind,run,value', *rows]).encode()))
    lines = [line.split(' | ') for line in run(str(tmp_path), '--beside').stdout.splitlines()[2:]]
    assert [line[:4] for line in lines] == [['| made', rule, '1', '80'] for rule in ('parity', 'fixed -5 %', 'median of three')]
    assert [line[11:15] for line in lines] == [['1', '1', '1', '1']] * 3
    found = json.loads(run(str(file), '--json').stdout)[str(file)]['stream']
    assert found['found'][0] in (60, 61, 62)
    assert found['blind'] is False


def test_plain_rules_alarm_below_five_percent_until_the_operator_accepts():
    x = history((60, 0.0), (40, -0.08), (40, -0.16))
    for rule, first in ((plain_rules.fixed, 60), (plain_rules.three, 61)):
        slow = rule(x, 7)
        assert np.flatnonzero(slow)[0] == first and 100 <= np.flatnonzero(slow)[7] <= 101 + 1 and slow.sum() == 14
        assert rule(x, 0)[first:].all()


def test_otava_gives_a_night_and_a_place_and_a_python_without_it_is_refused(tmp_path):
    file = tmp_path / 'made.csv'
    file.write_text('series,night,kind,run,value\n' + ''.join(f'a,{night},run,0,{value}\n' for night, value in enumerate(np.exp(history((60, 0.0), (30, -0.08))))))
    refused = run(str(file), '--otava', sys.executable)
    assert refused.returncode == 2 and "No module named 'otava'; valid is a Python with apache-otava" in refused.stderr
    fake = tmp_path / 'python'
    fake.write_text('#!/bin/sh\ncat > /dev/null\necho \'{"a": [[64, 61]]}\'\n')
    fake.chmod(0o755)
    assert run(str(file), '--otava', str(fake)).stdout.splitlines()[-1].split(' | ')[1:2] + \
        run(str(file), '--otava', str(fake)).stdout.splitlines()[-1].split(' | ')[12:15] == ['Otava', '0', '1', '1']


def test_a_file_cut_off_and_an_empty_folder_end_with_2(tmp_path):
    assert (run(str(tmp_path)).returncode, 'no file *.csv' in run(str(tmp_path)).stderr) == (2, True)
    (tmp_path / 'cut.csv.gz').write_bytes(gzip.compress(b'series,night,kind,run,value\na,1,run,0,1\n' * 99)[:40])
    cut = run(str(tmp_path))
    assert cut.returncode == 2
    assert 'cut.csv.gz' in cut.stderr
    assert 'Traceback' not in cut.stderr


def test_the_readme_and_the_page_give_the_times_of_the_table():
    """The readme names the fixed bound, the page all three rules; the table has alarms for nothing in its fifth figure."""
    page, readme = ((paths.root() / name).read_text() for name in ('docs/real-histories.md', 'README.md'))
    rows = (line.strip('|').split('|') for line in page.splitlines() if line.startswith('| all |'))
    nothing = {row[1].strip(): float(row[5]) for row in rows}
    times = {rule: round(alarms / nothing[real.PARITY]) for rule, alarms in nothing.items()}
    stated = ' '.join(page.split())
    for said, rule in ((r'A fixed bound of -5 % gives (\d+) times', 'fixed -5 %'), (r'median of three nights gives (\d+) times', 'median of three'),
                       (r'and Otava (\d+) times', 'Otava')):
        assert int(re.search(said, stated)[1]) == times[rule]
    assert int(re.search(r'a fixed bound of -5 % gives (\d+) times', ' '.join(readme.split()))[1]) == times['fixed -5 %']
