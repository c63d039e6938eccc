"""How jobs of PBS stand: what a real OpenPBS printed in each situation, and what it refused."""

from __future__ import annotations

import pytest

import pbs_server
from parity.scheduler import pbs
from parity.scheduler.command import Forgotten, SchedulerError, together
from pbs_server import COMMANDS, RECORDED


@pytest.fixture
def server(tmp_path, monkeypatch):
    return pbs_server.at(tmp_path, monkeypatch)


@pytest.fixture
def stands(server):
    """The states that parity reads from a recording."""
    def states(name: str):
        server('qstat', {'-x -t -f -w': {'stdout': (RECORDED / f'{name}.txt').read_bytes(), 'stderr': '', 'exit_code': 0}})
        return pbs.states('1')
    return states


@pytest.mark.parametrize('name, word, phase, exit_code, reason, nodes', [
    ('queued', 'Q', 'pending', None, 'Not Running: Not enough free nodes available', ''),
    ('held', 'H', 'pending', None, 'held by its user', ''),
    ('never', 'Q', 'pending', None, 'Can Never Run: Insufficient amount of resource: ncpus (R: 99 A: 2 T: 2)', ''),
    ('running', 'R', 'running', None, 'Job run at', 'pbs1/0+pbs2/0'),
    ('ended0', 'F', 'ended', 0, 'and finished', 'pbs1/0'),
    ('exit7', 'F', 'ended', 7, 'and failed', 'pbs1/0'),
    ('segv', 'F', 'ended', 139, 'and failed', 'pbs2/0'),
    ('over-walltime', 'F', 'ended', 4, 'exceeded resource walltime', 'pbs1/0'),
    ('deleted-while-running', 'F', 'ended', 143, 'terminated by user@pbshead', 'pbs1/0'),
    ('deleted-while-queued', 'F', 'ended', 4, 'deleted before it ran; Not Running: Not enough free nodes', ''),
    ('never-deleted', 'F', 'ended', 4, 'deleted before it ran; Can Never Run', ''),
    ('after-failed', 'F', 'ended', 4, 'deleted before it ran; waits for afterok:5.pbshead@pbshead', ''),
    ('umlaut', 'F', 'ended', 0, 'and finished', 'pbs1/0'),
    # its folder and a variable hold what looks like the next job
    ('backslash', 'F', 'ended', 0, 'and finished', 'pbs2/0'),
    ('waits-for-another', 'H', 'pending', None, 'waits for afterok:5.pbshead@pbshead', ''),
    ('deleted-by-root', 'F', 'ended', 143, 'terminated by root@pbshead', 'pbs2/0'),
])
def test_how_a_job_stands(stands, name, word, phase, exit_code, reason, nodes):
    state, = stands(name)
    assert (state.word, state.phase, state.exit_code, state.nodes) == (word, phase, exit_code, nodes)
    assert reason in state.reason and bool(state.never) is (name == 'never')


@pytest.mark.parametrize('name, words, codes, whole', [
    ('array-running', 'XRQQ', [0, None, None, None], ('running', None)),
    ('array-ended', 'FFFF', [0, 1, 2, 3], ('ended', 3)),
    ('array-element-deleted', 'RQXQ', [None, None, 4, None], ('running', None)),
    # PBS prints the deleted element with the exit code of another one: it is not its own
    ('array-element-deleted-ended', 'FFFF', [0, 0, 4, 0], ('ended', 4)),
    ('array-deleted', 'FFFF', [4, 143, 4, 4], ('ended', 143)),
])
def test_how_an_array_stands(stands, name, words, codes, whole):
    states = stands(name)
    assert ''.join(s.word for s in states) == words
    assert [s.exit_code for s in states] == codes and together(states) == whole
    assert [s.id.partition('[')[2] for s in states] == [f'{i}].pbshead' for i in range(4)]
    assert all('not known' in s.reason for s in states if s.exit_code == 4)


def test_a_job_deleted_while_it_ran_is_not_well_whatever_its_exit_code():
    text = (RECORDED / 'deleted-while-running.txt').read_text().replace('Exit_status = 271', 'Exit_status = 0')
    assert pbs.read(text)[0].exit_code == 4         # seen where root deleted it


def test_a_server_without_history_tells_of_jobs_that_run_and_says_what_it_lacks(server):
    running = {'stdout': (RECORDED / 'running.txt').read_bytes(), 'stderr': '', 'exit_code': 0}
    server('qstat', {'-x -t -f -w': COMMANDS['nohistory-x-running'], '-t -f -w': running})
    assert pbs.states('24.pbshead')[0].word == 'R'
    server('qstat', {'-x -t -f -w': COMMANDS['nohistory-x-ended'], '-t -f -w': COMMANDS['nohistory-ended']})
    with pytest.raises(SchedulerError, match='Unknown Job Id.*job_history_enable = True') as caught:
        pbs.states('24.pbshead')
    assert caught.value.exit_code == 153


@pytest.mark.parametrize('said, told, kind', [
    ('qstat-unknown', 'Unknown Job Id 99999', Forgotten), ('server-down', 'cannot connect to server', SchedulerError)])
def test_a_job_that_is_forgotten_is_told_from_a_server_that_is_down(server, said, told, kind):
    server('qstat', {'-x -t -f -w': COMMANDS[said]})
    with pytest.raises(SchedulerError, match=told) as caught:
        pbs.states('99999')
    assert type(caught.value) is kind and 'history' not in str(caught.value) and caught.value.exit_code == COMMANDS[said]['exit_code']


@pytest.mark.parametrize('name', [n for n in COMMANDS if n.startswith('qsub')])
def test_what_qsub_answers(server, tmp_path, name):
    server('qsub', {'t.sh': COMMANDS[name]})
    if not COMMANDS[name]['exit_code']:
        assert pbs.submit(tmp_path / 't.sh') == COMMANDS[name]['stdout'].strip()
        return
    with pytest.raises(SchedulerError) as caught:
        pbs.submit(tmp_path / 't.sh')
    assert caught.value.exit_code == COMMANDS[name]['exit_code'] and COMMANDS[name]['stderr'].split()[-1] in str(caught.value)


def test_what_qdel_does_not_know(server):
    server('qdel', {'99999': COMMANDS['qdel-unknown']})
    with pytest.raises(SchedulerError, match='qdel: Unknown Job Id 99999'):
        pbs.cancel('99999')
