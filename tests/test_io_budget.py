"""`io_budget` of system.yaml: what storage checks may write; sized into it, or skipped with the reason."""

from __future__ import annotations

import re

import pytest

import sessions
from conftest import TOP, shell
from parity.check.sizing import Night, fit
from parity.check.storage import Budget
from parity.verdict import terminal
from replay import check
from sessions import planned, ran, verdict_on

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


def test_what_no_repetition_of_fits_has_no_plan():
    assert not any(fit([48 * GB, 4 * GB], 3, budget, '', before) for budget, before in ((3 * GB, 0), (7 * GB, 1)))


def test_a_night_is_taken_in_the_order_of_cases_and_counts_every_run():
    night = Night(100, '100 B')
    assert night.take('first', 20, 3) == '' and night.left == 40
    assert night.take('second', 20, 3) == 'io_budget: night: 3 runs of 20 B, 40 B left of 100 B'
    assert night.take('first', 20, 3) == '' and night.left == 40            # its other runs: decided, paid
    assert night.take('third', 40, 1) == '' and night.left == 0
    assert night.take('second', 20, 3).startswith('io_budget: night: ')


@pytest.mark.parametrize('file', sorted(file for file in (TOP / 'checks' / 'storage').glob('*/*.py') if file.stem == file.parent.name),
                         ids=lambda f: f.stem)
def test_every_storage_check_plans_what_it_writes(file):
    name, = re.findall(r'^class (\w+)\(rfm\.', file.read_text(), re.M)
    assert issubclass(check(file.stem, name), Budget)


@pytest.mark.parametrize('budget, skipped, said', [
    ('{case: 200000000}', set(), ''),
    ('{case: 104857600}', {'large-copy durable', 'large-copy as-is'}, 'io_budget: case: needs at least 128 MiB, has 100 MiB'),
    ('{night: 629145600}', {'large-copy as-is'}, 'io_budget: night: 2 runs of 256 MiB, 88 MiB left of 600 MiB'),
])
def test_what_does_not_fit_the_budget_of_the_system_is_skipped(checkout, budget, skipped, said):
    file = checkout / 'systems' / 'local' / 'system.yaml'
    file.write_text(re.sub(r'io_budget: .*', f'io_budget: {budget}', file.read_text()))
    done = shell(". ci/activate && reframe -c checks/storage/filecopy/filecopy.py --dry-run --repeat=2 -n 'FileCopy%mode=.*%clients=one'", checkout)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if 'SKIP' in line]
    names = [' '.join(re.findall(r'%(?:mode|sync)=(\S+)', line)) for line in lines]
    assert set(names) == skipped and len(names) == 2 * len(skipped)          # each with all of its repeats
    assert said in done.stdout
    script = '\n'.join(f.read_text() for f in (checkout / 'results').rglob('rfm_job.sh') if 'large-copy' in f.read_text())
    assert ('--iterations=1' in script) == ('200000000' in budget)


@pytest.mark.parametrize('text, said', [('{cases: 1}', "did you mean 'case'"), ('{case: 0}', 'greater than 0'),
                                        ('{night: lots}', 'no whole number'), ('5', 'no mapping')])
def test_a_wrong_budget_is_told_with_its_line(checkout, text, said):
    file = checkout / 'systems' / 'local' / 'system.yaml'
    lines = re.sub(r'io_budget: .*', f'io_budget: {text}', file.read_text())
    file.write_text(lines)
    number = lines[:lines.index('io_budget')].count('\n') + 1
    done = shell('. ci/activate && parity facts', checkout)
    assert done.returncode == 2 and f'system.yaml:{number}: io_budget' in done.stderr and said in done.stderr


def test_what_the_budget_left_out_is_counted_in_the_first_lines():
    beyond = ran('Other', result='skip', perfvalues={}, parity={'status': 'skipped', 'reason': 'io_budget: night: 2 GB'})
    verdict = verdict_on(sessions.report([ran(), beyond], [planned(), planned('Other')]))
    head = [text for text, _ in terminal.lines(verdict)][:3]
    assert any('2 skipped (2 beyond io_budget)' in text for text in head)
