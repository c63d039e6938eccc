"""The README's own line, run for real on this machine; what it stores, and what is made of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import time

import pytest

from conftest import shell

LINE = '. ci/activate && reframe -c checks/ -r'
HPCC = shutil.which('hpcc') and shutil.which('mpirun')
#: Hpcc 22, Npb 8 x 3, Hpl 2, Stream 3 x 4, FileCopy 12 x 4: planned whether or not a code is here
CELLS = 108
QUICK = "-n 'FileCopy.*(large-copy|small-write).*clients=one'"


def sessions_of(checkout) -> list[dict]:
    with sqlite3.connect(checkout / 'results' / 'results.db') as conn:
        rows = conn.execute('SELECT json_blob FROM sessions ORDER BY session_start_unix, rowid').fetchall()
    return [json.loads(blob) for blob, in rows]


def verdict_of(checkout) -> tuple[int, dict]:
    done = shell('. ci/activate && parity verdict --json', checkout)
    return done.returncode, json.loads(done.stdout)


def test_the_readme_line_runs_every_case_by_itself(checkout):
    done = shell(LINE, checkout, timeout=600)
    cases = 12 + (1 if HPCC else 0)
    assert f'Ran {cases}/{cases} test case(s)' in done.stdout, done.stdout[-2000:]
    session, = sessions_of(checkout)
    ran = session['runs'][0]['testcases']
    assert len(ran) == cases and all(r['perfvalues'] for r in ran)
    one_at_a_time(ran)

    code, verdict = verdict_of(checkout)
    assert code == (0 if HPCC else 3)
    assert verdict['coverage']['cells'] == len(verdict['cells']) == CELLS
    cell = verdict['cells'][0]
    assert {'check', 'case', 'system', 'partition', 'environ', 'metric', 'unit', 'value', 'reference',
            'limit', 'efficiency', 'verdict', 'reason'} <= set(cell)
    if HPCC:
        hpl = next(c for c in verdict['cells'] if c['metric'] == 'hpl')
        assert hpl['value'] > 0 and hpl['limit'] > 0 and 0 < hpl['efficiency']
        assert 'hpcc stands in for HPL' in verdict['coverage']['line']
    assert verdict['session']['facts']['machine']['cpu_list']
    assert 'load_1min' in json.dumps(verdict['session']['facts']['before']) or verdict['session']['facts']['before']


def one_at_a_time(ran: list[dict]) -> None:
    """No case starts before the one before it has ended."""
    times = sorted((r['job_submit_time'], r['job_completion_time_unix']) for r in ran)
    for (_, end), (start, _) in zip(times, times[1:], strict=False):
        assert start >= end


def test_nightly_judges_reports_and_states_its_overhead(checkout):
    done = shell(f'ci/nightly {QUICK}', checkout)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert 'judged' in done.stdout and 'overhead' in done.stdout
    report = checkout / 'results' / 'report'
    assert (report / 'index.html').is_file() and (report / 'verdict.json').is_file()
    assert 'missing' not in json.loads((report / 'verdict.json').read_text())['counts']


def start(line: str, checkout) -> subprocess.Popen:
    return subprocess.Popen(['bash', '-c', line], cwd=checkout, stdin=subprocess.DEVNULL, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
                            # a test run from a script in the background would hand down SIGINT ignored
                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))


def wait_for(condition, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, 'waited in vain'
        time.sleep(0.05)


def finished(checkout) -> int:
    log = checkout / 'results' / 'perflogs' / 'local' / 'default' / 'FileCopy.log'
    return len(log.read_text().splitlines()) - 1 if log.exists() else 0


def processes_of(session_id: str) -> list[int]:
    from parity.session import process
    return process.of_session(session_id)


def test_a_killed_run_loses_no_finished_case_and_leaves_no_process(checkout):
    run = start('. ci/activate && exec reframe -c checks/ -r -n FileCopy --repeat=9', checkout)
    journals = checkout / 'results' / 'running'
    wait_for(lambda: list(journals.glob('*.json')))
    session_id = next(journals.glob('*.json')).stem
    wait_for(lambda: finished(checkout) >= 1, 120)
    wait_for(lambda: processes_of(session_id), 30)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    done_before = finished(checkout)

    again = shell(f'. ci/activate && reframe -c checks/ -r {QUICK}', checkout)
    assert f'session {session_id} was killed: recovered {done_before} finished case' in again.stderr + again.stdout
    assert not processes_of(session_id) and not list(journals.glob('*.json'))
    killed, whole = sessions_of(checkout)
    assert killed['session_info']['interrupted'] and len(killed['runs'][0]['testcases']) == done_before
    uuid = killed['session_info']['uuid']
    code = shell(f'. ci/activate && parity verdict --session {uuid[:8]}', checkout)
    assert code.returncode == 3 and 'interrupted' in code.stdout and 'MISSING' in code.stdout
    assert 'missing' not in verdict_of(checkout)[1]['counts']


def test_ctrl_c_keeps_what_had_finished(checkout):
    run = start('exec ci/nightly -n FileCopy', checkout)
    wait_for(lambda: finished(checkout) >= 1, 120)
    os.killpg(run.pid, signal.SIGINT)
    printed, _ = run.communicate(timeout=90)
    assert run.returncode == 4, printed[-2000:]
    assert 'interrupted' in printed and 'Traceback' not in printed
    words = [c['verdict'] for c in verdict_of(checkout)[1]['cells'] if c['value'] is not None]
    assert words and 'failed' not in words
    assert (checkout / 'results' / 'report' / 'index.html').is_file()


def test_a_second_nightly_is_refused_while_one_runs(checkout):
    run = start(f'exec ci/nightly {QUICK}', checkout)
    wait_for(lambda: (checkout / 'results' / '.nightly.lock').exists())
    second = shell('ci/nightly --dry-run', checkout)
    run.communicate(timeout=120)
    assert second.returncode == 4 and 'ci/nightly (pid' in second.stderr and 'Traceback' not in second.stderr


def test_the_time_limit_ends_the_run_and_keeps_what_had_finished(checkout):
    done = shell('ci/nightly --time-limit 0.003 -n FileCopy --repeat=9', checkout)
    assert done.returncode == 4, done.stdout[-1500:] + done.stderr
    assert 'time limit of 0.003 h reached' in done.stderr


@pytest.mark.parametrize('write, arguments, names', [
    (('checks/x.py', 'import nope\n'), '', 'checks/x.py: cannot be loaded'),
    (('checks/x.py', 'x = 1\n'), '', 'checks/x.py: yields no check'),
    (('checks/x.py', 'import reframe\ndef broken(:\n'), '', 'checks/x.py: cannot be loaded'),
    (('checks/deep/er/x.py', 'x = 1\n'), '', 'checks/deep/er/x.py: yields no check'),
    (('checks/compute/twice.py', 'COPY checks/compute/hpcc.py'), '', "'Hpcc'"),
    (('checks/x.py', 'import reframe as rfm\n@rfm.simple_test\nclass Bare(rfm.RunOnlyRegressionTest):\n'
      "    valid_systems = ['*']\n    valid_prog_environs = ['*']\n"), '', 'Bare declares no metrics'),
    (('checks/x.py', 'import reframe as rfm\nfrom parity.workload import Workload\n@rfm.simple_test\n'
      "class R(rfm.RunOnlyRegressionTest, Workload):\n    reference = {'$ref': 'nowhere.yaml'}\n"), '', 'nowhere.yaml'),
    (None, '-n NoSuchCheck', 'the selection is empty: -n NoSuchCheck'),
    (None, '--system nosuch', "unknown system 'nosuch'; valid: example-pbs, example-slurm, local"),
    (None, '--nonsense', 'nonsense'),
    (None, '--time-limit 0', '--time-limit 0'),
    (('systems/local/references/default.yaml', 'Hpcc:\n  $index: [size]\n  quick:\n    hlp: [1, -0.1, 0.1, Gflop/s]\n'),
     '', "default.yaml:4: unknown metric 'hlp'; did you mean 'hpl'?"),
    (('systems/local/references/default.yaml', 'Hpcc:\n  $index: [size]\n  quik:\n    hpl: [1, -0.1, 0.1, Gflop/s]\n'),
     '', "default.yaml:3: unknown size 'quik'; did you mean 'quick'?"),
    (('systems/local/references/default.yaml', 'Hpcc:\n  $index: [size, moed]\n  quick: {}\n'), '', 'default.yaml:2: Hpcc needs an $index'),
    (('systems/local/references/default.yaml', 'Hpcc:\n  $index: [size]\n'), '', 'Hpcc has no reference'),
    (('systems/local/references/default.yaml', ''), '', 'holds none'),
    (('systems/local/references/default.yaml', 'Hpcc:\n  $index: [size]\n  quick:\n    hpl: [.nan, -0.1, 0.1, Gflop/s]\n'),
     '', 'default.yaml:4: hpl: nan is no finite number'),
    (('systems/local/references/default.yaml', 'Hpcc:\n  $index: [size]\n  quick:\n    1: [1, -0.1, 0.1, Gflop/s]\n'),
     '', "unknown metric '1'"),
    (('systems/local/references/default.yaml', '? [a, b]\n: 1\n'), '', 'a key must be plain text'),
    (None, '-S siez=nightly', "-S siez=nightly: no check has a variable 'siez'"),
    (None, '-S NoSuch.size=quick', "no check 'NoSuch' with a variable 'size'"),
    (('systems/local/references/default.yaml', 'Hpcx:\n  $index: [size]\n'), '', "unknown check 'Hpcx'"),
    (('systems/local/references/defualt.yaml', '{}\n'), '', "unknown partition 'defualt.yaml'"),
    (('systems/local/references/default.yaml', 'Hpcc: [\n'), '', 'default.yaml:2'),
    (('systems/local/system.yaml', 'name: local\npartitons: []\n'), '', "system.yaml:2: partitons: no such key"),
])
def test_what_is_wrong_is_named_before_anything_runs(checkout, write, arguments, names):
    if write:
        file, text = checkout / write[0], write[1]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text((checkout / text.split()[1]).read_text() if text.startswith('COPY') else text)
    done = shell(f'ci/nightly --dry-run {arguments}', checkout)
    assert done.returncode == 2, done.stdout + done.stderr
    assert names in done.stderr and 'Traceback' not in done.stderr


def test_a_second_run_is_refused_before_it_touches_the_first(checkout):
    first = start('. ci/activate && exec reframe -c checks/ -r -n FileCopy', checkout)
    wait_for(lambda: finished(checkout) >= 1, 120)
    second = shell(f'. ci/activate && reframe -c checks/ -r {QUICK}', checkout)
    nightly = shell(f'ci/nightly {QUICK}', checkout)
    printed, _ = first.communicate(timeout=120)
    for refused in (second, nightly):
        assert refused.returncode == 4 and 'held by reframe on local' in refused.stderr
        assert len(refused.stderr.strip().splitlines()) == 1 and 'Ran' not in refused.stdout
    assert 'Ran 12/12 test case(s)' in printed, printed[-1500:]
    session, = sessions_of(checkout)
    assert all(r['result'] == 'pass' for r in session['runs'][0]['testcases'])


def test_a_run_in_which_nothing_started_is_a_session_of_its_own(checkout, tmp_path):
    assert shell(f'. ci/activate && reframe -c checks/ -r {QUICK}', checkout).returncode == 0
    shell('. ci/activate && reframe -c checks/ -r -n NoSuch', checkout)
    code, verdict = verdict_of(checkout)
    assert code == 3 and verdict['cells'] == []
    (checkout / 'checks' / 'x.py').write_text('import nope\n')
    broken = shell(f'. ci/activate && reframe -c checks/ -r {QUICK}', checkout)
    assert 'checks/x.py: cannot be loaded' in broken.stderr
    code, verdict = verdict_of(checkout)
    assert code == 2 and any('checks/x.py' in w for w in verdict['warnings'])


@pytest.mark.parametrize('content', ['[]', '3', '{', '{"id": "x"}', ''])
def test_a_damaged_journal_is_moved_aside(checkout, content):
    running = checkout / 'results' / 'running'
    running.mkdir(parents=True)
    (running / 'x.json').write_text(content)
    done = shell('ci/nightly --dry-run', checkout)
    assert done.returncode == (0 if HPCC else 3) and 'is no journal of a session' in done.stderr
    assert (running / 'x.json.bad').exists()


def test_an_empty_database_is_begun_anew(checkout):
    (checkout / 'results').mkdir()
    (checkout / 'results' / 'results.db').touch()
    done = shell(f'ci/nightly {QUICK}', checkout)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr


def test_the_dry_run_of_the_whole_suite_is_well(checkout):
    done = shell('ci/nightly --dry-run', checkout)
    assert done.returncode == (0 if HPCC else 3), done.stderr
    assert f'25 cases, {CELLS} cells planned' in done.stdout
    assert not (checkout / 'results' / 'results.db').exists()


@pytest.mark.skipif(os.geteuid() != 0, reason='needs root to mount a small file system')
def test_a_full_disk_is_one_line_and_exit_code_4(checkout):
    results = checkout / 'results'
    results.mkdir()
    if subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', results], capture_output=True).returncode:
        pytest.skip('mount is not permitted here')
    try:
        done = shell('ci/nightly', checkout)
    finally:
        subprocess.run(['umount', results], check=True)
    assert done.returncode == 4 and 'No space left' in done.stderr and 'Traceback' not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_results_that_cannot_be_written_are_one_line_and_exit_code_4(checkout):
    (checkout / 'results').write_text('a file stands here')
    done = shell('ci/nightly', checkout)
    assert done.returncode == 4 and 'results' in done.stderr and 'Traceback' not in done.stderr


def test_scratch_that_cannot_be_written_fails_its_cases_with_the_reason(checkout):
    system = checkout / 'systems' / 'local' / 'system.yaml'
    system.write_text(system.read_text().replace('$PARITY_RESULTS/scratch', '/proc/nowhere'))
    done = shell(f'ci/nightly {QUICK}', checkout)
    assert done.returncode == 4, done.stdout[-1500:]
    assert 'FAILED  storage' in done.stdout and '/proc/nowhere' in done.stdout


def test_without_an_mpi_hpcc_is_missing_not_skipped(checkout, tmp_path):
    tools = tmp_path / 'bin'
    tools.mkdir()
    for name in ('bash', 'sh', 'env', 'dirname', 'python3', 'cat', 'hostname', 'uname', 'nproc', 'mkdir', 'ls'):
        if found := shutil.which(name):
            (tools / name).symlink_to(found)
    done = shell(f'ci/nightly {QUICK[:-1]}|Hpcc\'', checkout, PATH=str(tools))
    assert done.returncode == 3, done.stdout[-1500:] + done.stderr
    assert 'MISSING  compute' in done.stdout and 'no environment offers hpcc' in done.stdout
    rehearsed = shell('ci/nightly --dry-run', checkout, PATH=str(tools))
    assert rehearsed.returncode == 3 and '22 cells would be missing' in rehearsed.stderr


REFERENCES = """\
provenance: {accepted: 2026-11-20, by: a test}
FileCopy:
  $index: [size, mode, sync]
  quick:
    large-copy:
      durable:
        hangs: [0, null, 0, count]
        rate: [1.0e+12, -0.05, null, MB/s]
"""


def test_accepted_references_are_found_and_judged(checkout):
    folder = checkout / 'systems' / 'local' / 'references'
    folder.mkdir()
    (folder / 'default.yaml').write_text(REFERENCES)
    done = shell("ci/nightly -n 'FileCopy.*large-copy.*clients=one'", checkout)
    assert done.returncode == 1, done.stdout[-2500:] + done.stderr
    words = {(c['case'].split('sync=')[1], c['metric']): c['verdict'] for c in verdict_of(checkout)[1]['cells']}
    assert words['durable', 'rate'] == 'regressed' and words['durable', 'hangs'] == 'ok'
    assert words['durable', 'seconds'] == words['as-is', 'hangs'] == 'unreferenced'
    assert words['as-is', 'rate'] == 'skipped'
    assert 'REGRESSED  storage' in done.stdout and 'of the reference' in done.stdout
