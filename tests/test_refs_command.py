"""`parity refs` as a person types it, and a real run that applies what was accepted."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from conftest import TOP, run_python, shell
from jobs import verdict_of

CASE = 'FileCopy%mode=small-write%clients=one%sync=durable'

#: Twelve nights in which the disk wrote at an impossible 1000000 MB/s, stored by ReFrame's own means.
NIGHTS = f'''
from parity.rfm import store
metrics = {{'rate': {{'unit': 'MB/s', 'better': 'higher'}}, 'hangs': {{'unit': 'count', 'better': 'lower'}}}}
for night in range(12):
    name = '{CASE}'.replace('%', ' %')
    case = {{'name': name, 'display_name': name, 'unique_name': 'FileCopy_8', 'system': 'local', 'partition': 'default',
             'environ': 'distro', 'result': 'pass', 'fail_phase': None, 'fail_reason': None, 'run_index': 0,
             'fixture': False, 'job_nodelist': ['here'], 'jobid': '1', 'job_completion_time_unix': 1.79e9 + night * 86400,
             'perfvalues': {{'local:default:rate': [1e6 + night, 0, None, None, 'MB/s', 'pass'],
                            'local:default:hangs': [0.0, 0, None, None, 'count', 'pass']}},
             'parity': {{'size': 'quick', 'metrics': metrics, 'software': {{'identity': 'x'}}}}}}
    session = {{'id': str(night), 'plan': {{'system': 'local', 'cases': [], 'checks': [], 'problems': []}}}}
    store.store(store.as_report(session, [case], 1.79e9 + night * 86400, 1.79e9 + night * 86400 + 9))
'''


def parity(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, '-m', 'parity.cli', 'refs', *arguments], capture_output=True, text=True, cwd=TOP)


@pytest.mark.parametrize('arguments, code, says', [
    (['propose'], 2, "Missing option '--system'"), (['propose', '--system', 'nosuch'], 2, "unknown system 'nosuch'"),
    (['propose', '--system', 'local'], 3, 'no figure of local is stored'),
    (['accept', '--all', '--system', 'local'], 2, "Missing option '--why'"),
    (['accept', '--system', 'local', '--why', 'x'], 2, 'name the cells, or --all'),
    (['accept', 'a', '--all', '--system', 'local', '--why', 'x'], 2, 'not both'),
    (['accept', '--all', '--system', 'local', '--why', 'x'], 3, 'nothing is proposed for local'),
    (['show', '--system', 'nosuch'], 2, "unknown system 'nosuch'"), (['lint', '--system', 'nosuch'], 2, 'nosuch'),
])
def test_what_is_wrong_is_one_line_with_its_exit_code(results, arguments, code, says):
    done = parity(*arguments)
    assert done.returncode == code and says in done.stdout + done.stderr and 'Traceback' not in done.stderr


def test_the_references_of_all_systems_here_pass_the_lint(results):
    done = parity('lint')
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_run_applies_what_was_proposed_and_accepted(checkout):
    shutil.rmtree(checkout / 'systems' / 'local' / 'references', ignore_errors=True)    # of this machine
    assert run_python(NIGHTS, checkout).returncode == 0
    done = shell('. ci/activate && parity refs propose --system local', checkout)
    assert done.returncode == 0 and f'{CASE}.rate@local:default' in done.stdout, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "next: parity refs accept --all --system local --why '...'"
    done = shell('. ci/activate && parity refs accept --all --system local --why "the disk of a dream" --by ana '
                 '&& parity refs lint --system local', checkout)
    assert done.returncode == 0 and 'local: 2 references, no error, 0 warnings' in done.stdout, done.stdout + done.stderr
    done = shell(f"ci/nightly --system local -n '{CASE}' --repeats 1", checkout)
    assert done.returncode == 1, done.stdout + done.stderr
    words = {c['metric']: (c['verdict'], c['reference'], c['low']) for c in verdict_of(checkout)[1]['cells']}
    assert words['rate'] == ('regressed', 1e6, pytest.approx(0.97e6)) and words['hangs'] == ('ok', 0.0, None)
    assert words['seconds'][0] == 'unreferenced'
    references = checkout / 'systems' / 'local' / 'references' / 'default.yaml'
    references.write_text(references.read_text().replace('expires: 20', 'expires: 19'))
    done = shell(f"ci/nightly --dry-run --system local -n '{CASE}'", checkout)
    assert 'parity: warning: ' in done.stderr and 'default.yaml:8: FileCopy/quick' in done.stderr, done.stderr
    assert ', and 1 more reference: expired on 19' in done.stderr and 'its software changed' in done.stderr
