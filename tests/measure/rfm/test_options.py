"""ReFrame's own options on parity's checks: -P sweeps a parameter, and an empty list says why."""

from __future__ import annotations

import pytest

from parity.judge.store import record
from parity.judge.store.case_record import CaseRecord
from parity.measure.rfm import planning
from warm import reframe


@pytest.mark.parametrize('options, listed', [
    ('-P threads=one -n ^Ops%', ['Ops %threads=one']), ('-P clients=one,all -n FileCopy%mode=small-copy%.*sync=as-is', ['%clients=one', '%clients=all'])])
def test_a_parameter_takes_values_of_the_command_line(checkout, options, listed):
    done = reframe(checkout, f'-c checks/compute/ops -c checks/storage/filecopy {options} -l', RFM_COLORIZE='n')
    assert done.returncode == 0 and f'Found {len(listed)} check(s)' in done.stdout, done.stdout + done.stderr
    assert all(name in done.stdout for name in listed)


@pytest.mark.parametrize('options, said', [
    ('-p default -n FileCopy', 'the selection is empty: -p default fits no environment of local: valid are .*distro.* \\(default is a partition: --system local:default\\)'),
    ('-n FileCpoy', "the selection is empty: -n FileCpoy fits no case; did you mean 'FileCopy'"),
    ('-c checks/compute/gromacs -n Gromacs', 'nothing can run: no environment of local offers gromacs'), ('-n FileCopy', '')])
def test_an_empty_list_says_why(checkout, options, said):
    import re
    done = reframe(checkout, f'-c checks/storage/filecopy {options} -L', RFM_COLORIZE='n')
    told = [line for line in done.stderr.splitlines() if line.startswith('parity: ')]
    assert done.returncode == 0 and len(told) == bool(said), done.stdout + done.stderr
    assert not said or re.match(f'parity: {said}', told[0]), told


def test_a_value_that_no_check_has_is_told(checkout):
    planned = planning.of_command(['-c', 'checks/compute/ops', '-P', 'threads=foo', '-r'])
    assert [problem.what for problem in planned.problems] == ['-P threads=foo: valid are all, half, one']
    assert planning.of_command(['-c', 'checks/compute/ops', '-P', 'threads=half', '-r']).problems == []


@pytest.mark.parametrize('argv, lists', [(['-l'], True), (['-lC'], True), (['--list-detailed=T'], True), (['-r'], False), (['-n', 'list'], False)])
def test_lists_are_known_by_their_options(argv, lists):
    assert planning.lists(argv) is lists


def test_a_case_that_duration_ended_says_so():
    raw = {'result': 'abort', 'fail_reason': 'aborted due to RunSessionTimeout'}
    assert record._reason('failed', raw, CaseRecord.from_json({}), {})[1] == 'the time of --duration was over before this case ended'
    assert record._reason('failed', {**raw, 'fail_reason': 'aborted due to KeyboardInterrupt'}, CaseRecord.from_json({}), {})[1].startswith('the run was stopped before')


@pytest.mark.parametrize('check, values, said', [
    ('compute/ops', 'threads=foo', 'threads=foo: valid are all'), ('storage/filecopy', 'clients=two,all', 'clients=two: valid are one, all')])
def test_a_case_of_a_word_that_its_check_does_not_have_is_left_out(checkout, check, values, said):
    done = reframe(checkout, f'-c checks/{check} -P {values} -n "OpsOverTime|FileCopy%mode=small-copy%.*sync=as-is" --dry-run', RFM_COLORIZE='n')
    assert said in done.stdout and 'Traceback' not in done.stdout, done.stdout + done.stderr
