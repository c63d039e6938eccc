"""The OpenPBS that ci/pbs makes of one machine: a real case on two hosts, and every way in which a job does not end well.

Skipped unless it is up: PARITY_PBS=1 after ci/pbs up (root, and an OpenPBS that is installed).
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import threading
import time
import uuid
from pathlib import Path

import pytest

from conftest import PATIENCE, TOP, eventually

needs_pbs = pytest.mark.skipif(not os.environ.get('PARITY_PBS'),
                               reason='no PBS here: PARITY_PBS=1 after ci/pbs up (root, OpenPBS installed)')
SMALL = "--repeats 1 -n 'FileCopy%mode=small-write%clients=one%sync=durable'"


def pbs(*arguments: str, **more) -> subprocess.CompletedProcess:
    return subprocess.run([TOP / 'ci' / 'pbs', *arguments], capture_output=True, text=True, timeout=PATIENCE, **more)


def test_without_a_pbs_ci_pbs_says_so():
    if pbs('status').returncode == 3:
        done = pbs('exec', 'pbshead', 'true')
        assert done.returncode in (3, 4) and done.stderr.startswith('parity: ') and 'Traceback' not in done.stderr
    assert pbs('nosuch').returncode == 2


def state() -> dict:
    return json.loads(Path('/run/parity-pbs/state.json').read_text())


@pytest.fixture
def head():
    """Run a line on the head, with results of its own."""
    folder = Path(state()['shared']) / 'pbs-tests' / uuid.uuid4().hex[:8]
    folder.mkdir(parents=True)

    def run(line: str, code: int = 0) -> str:
        line = f'export PARITY_RESULTS={shlex.quote(str(folder))}; . ci/activate; {line}'
        done = pbs('exec', 'pbshead', 'bash', '-c', line, cwd=TOP)
        assert done.returncode == code, done.stdout[-4000:] + done.stderr[-2000:]
        return done.stdout + done.stderr
    assert pbs('status').returncode == 0, pbs('status').stdout
    return run


def judged(head) -> list[dict]:
    return json.loads(head('parity verdict --json; true'))['cells']


@needs_pbs
def test_a_case_on_two_hosts_and_a_sweep_of_every_host_are_run_and_judged(head):
    head("ci/nightly --system onebox-pbs --repeats 1 -n '^Pingpong%where=between'")
    cells = judged(head)
    assert {c['verdict'] for c in cells} <= {'unreferenced', 'disturbed'} and all(c['value'] > 0 for c in cells)
    assert {tuple(c['nodes']) for c in cells} == {('pbs1', 'pbs2')} and len(cells) == 3
    head(f'ci/nightly --system onebox-pbs {SMALL} --distribute=avail')
    assert {tuple(c['nodes']) for c in judged(head) if c['value'] is not None} == {('pbs1',), ('pbs2',)}


LASTING = "ci/nightly --system onebox-pbs --repeats 1 -n 'FileCopy%mode=small-copy%clients=one%sync=durable' -S FileCopy.size=nightly"
DELETED = 'until job=$(qselect -s R | grep .); do sleep 1; done; sleep 2; qdel $job'


@needs_pbs
@pytest.mark.parametrize('line, reason', [
    (f'{LASTING} -S time_limit=3s', r'time limit reached, 3 s \(job \d+\.pbshead on pbs\d: Exit_status -29\)'),
    (f'{LASTING} -J h -S max_pending_time=5s', r'maximum pending time exceeded; held by its user'),
    (f'({DELETED}) & {LASTING}', r'cancelled \(job \d+\.pbshead on pbs\d: .* terminated by root@pbshead')])
def test_a_job_that_does_not_end_well_has_failed_with_the_reason(head, line, reason):
    head(line, 4)
    cells = judged(head)
    assert cells and all(c['verdict'] == 'failed' and re.search(reason, c['reason']) for c in cells), cells


@pytest.fixture
def hook(head):
    """Have PBS run a hook of Python on an event; it is gone afterwards."""
    def set_hook(event: str, text: str) -> None:
        head(f'file=$(mktemp) && printf {shlex.quote(text)} >$file && printf "%s\\n" "create hook t" "set hook t event={event}" '
             '"import hook t application/x-python default $file" | qmgr')
    yield set_hook
    head('echo "delete hook t" | qmgr')


@needs_pbs
@pytest.mark.parametrize('event, text, reason', [
    ('queuejob', 'import pbs\npbs.event().reject("no jobs without a project")\n', 'qsub: no jobs without a project'),
    ('queuejob', 'import pbs\npbs.event().job.Resource_List["walltime"] = pbs.duration("00:00:03")\n', r'time limit reached, 3 s of 600 s asked for \(job'),
    ('runjob', 'import pbs\npbs.event().reject("no licence")\n', 'maximum pending time exceeded; Not Running: PBS Error: no licence')],
    ids=['refused', 'walltime', 'not run'])
def test_what_a_hook_does_is_the_reason(head, hook, event, text, reason):
    hook(event, text)
    head(f'{LASTING} -S max_pending_time=20s', 4)
    cells = judged(head)
    assert cells and all(c['verdict'] == 'failed' and re.search(reason, c['reason']) for c in cells), cells


@needs_pbs
def test_a_server_that_is_down_at_submission_is_asked_again(head):
    folder = Path(state()['shared']) / 'pbs-tests' / uuid.uuid4().hex[:8]
    folder.mkdir()
    (folder / 'qsub').write_text(f'''#!/bin/sh
! mkdir {folder}/once 2>/dev/null || qterm -t quick
exec {state()["installed"]}/bin/qsub "$@"
''')
    (folder / 'qsub').chmod(0o755)
    start = threading.Thread(target=lambda: eventually((folder / 'once').exists) and time.sleep(10) or pbs('up'))
    start.start()
    head(f'export PATH={folder}:$PATH; ci/nightly --system onebox-pbs {SMALL}')
    start.join()
    assert any(c['value'] is not None for c in judged(head))


@pytest.fixture
def through(head):
    """Write a system whose jobs go through another queue."""
    folder = TOP / 'systems' / f'pbs-{uuid.uuid4().hex[:8]}'

    def write(queue: str) -> str:
        text = (TOP / 'systems/onebox-pbs/system.yaml').read_text()
        folder.mkdir()
        (folder / 'system.yaml').write_text(text.replace('name: onebox-pbs', f'name: {folder.name}').replace('-q workq', f'-q {queue}'))
        return folder.name
    yield write
    shutil.rmtree(folder)


@needs_pbs
@pytest.mark.parametrize('limit, code, reason', [('resources_max.walltime=02:00:00', 0, ''), ('resources_min.ncpus=9', 4, 'a routing queue does with a job that none of its queues takes')],
                         ids=['taken', 'not taken'])
def test_a_queue_that_routes(head, through, limit, code, reason):
    head(f'''printf '%s\\n' 'create queue small queue_type=Execution,enabled=True,started=True,from_route_only=True,{limit}' \\
        'create queue route queue_type=Route' 'set queue route route_destinations=small' 'set queue route enabled=True' 'set queue route started=True' | qmgr''')
    try:
        system = through('route')
        assert re.search(r'^ok +partition physical', head(f'parity doctor --system {system}; true'), re.M)
        head(f'ci/nightly --system {system} {SMALL}', code)
        assert all(re.search(reason, c['reason']) if reason else c['value'] is not None for c in judged(head) if c['check'] == 'FileCopy')
    finally:
        head("printf '%s\\n' 'delete queue route' 'delete queue small' | qmgr")


@needs_pbs
def test_a_case_in_a_reservation(head, through):
    # placed as the job, else qsub refuses it
    printed = head("pbs_rsub -R $(date -d '+1 min' +%H%M) -D 00:05:00 -l select=1:ncpus=1 -l place=scatter:excl")
    queue = printed.partition('.')[0]
    system = through(queue)
    head(f'ci/nightly --system {system} {SMALL}')
    assert any(c['value'] is not None for c in judged(head))
    head(f'pbs_rdel {queue}')


@needs_pbs
def test_jobs_are_submitted_followed_and_cancelled(head):
    submit = "parity jobs submit campaign --system onebox-pbs --check 'FileCopy%mode=small-write%clients=one%sync=durable'"
    printed = head(f'job=$({submit} --nodes 1 --repeats 2) && parity jobs wait "$job"; echo "code $?"; parity jobs list')
    assert 'code 0' in printed and re.search(r'\d+\[\]\.pbshead .* ended: F, exit code 0', printed)
    printed = head(f'job=$({submit} --nodes 1 --repeats 2 --name more) && parity jobs cancel "$job"; echo "code $?"; '
                   'parity jobs wait "$job"; echo "code $?"; timeout 60 bash -c \'while qselect | grep .; do sleep 1; done\'')
    assert re.findall(r'^code (\d+)$', printed, re.M) == ['0', '4']


@needs_pbs
def test_down_leaves_nothing_behind_and_twice_is_fine(head):
    """The last one: it takes the PBS down in the midst of a job, and starts it again."""
    before = state()
    head('echo "sleep 300" | qsub; until qselect -s R | grep .; do sleep 1; done')
    try:
        assert [pbs('down').returncode for _ in range(2)] == [0, 0] and pbs('status').returncode == 3
        assert not Path('/run/parity-pbs').exists() and 'parity-pbs' not in Path('/proc/self/mountinfo').read_text()
        processes = subprocess.run(['ps', '-eo', 'args'], capture_output=True, text=True).stdout
        assert not re.findall(rf'.*(?:parity-pbs|{re.escape(before["installed"])}/sbin).*', processes)
        links = subprocess.run(['ip', '-o', 'addr'], capture_output=True, text=True).stdout
        assert '10.77.63.' not in links
    finally:
        assert pbs('up', '--shared', before['shared'], '--nodes', str(before['nodes'])).returncode == 0
