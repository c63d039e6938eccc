"""Who else had the CPUs of a job, what it left running: programs/watch.py, and what is made of it."""

import json
import os
import shutil
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
from reframe.utility import import_module_from_file

import sessions
from conftest import TOP
from nights import start
from parity.judge.compare import resolve
from parity.judge.report import answer, show, table
from parity.judge.store import history
from parity.judge.store.case_record import CaseRecord
from parity.judge.verdict import incidents, judge
from parity.measure.check import watched
from parity.measure.check.workload import Workload
from sessions import case

PROGRAM = TOP / 'jobs' / 'programs' / 'watch.py'
watch = import_module_from_file(str(PROGRAM))
REFS = {'hpl': (100.0, -0.05, 0.05)}
BUSY = {'parity': {'disturbed': 'processes outside the job took 1.00 of its 2 CPUs'}, 'hpl': 7.6}


@pytest.fixture
def job(tmp_path):
    """Starts a script under watch.py; what it tells is read by ``told``."""
    shutil.copy(PROGRAM, tmp_path / 'watch.py')

    def start(script: str, *arguments: str, **options) -> subprocess.Popen:
        file = tmp_path / 'job.sh'
        file.write_text(f'#!/bin/bash\n{script}\n')
        file.chmod(0o755)
        return subprocess.Popen([sys.executable, '-I', './watch.py', './job.sh', *arguments], cwd=tmp_path, text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    start.told = lambda: json.loads((tmp_path / 'watch.json').read_text())
    start.folder = tmp_path
    return start


def test_a_script_keeps_its_streams_arguments_environment_exit_code_and_signals(job):
    run = job('read line; echo "$1 $line $(tr "\\0" "\\n" </proc/$$/environ | sort | tr "\\n" " ")"; echo no >&2; exit 7',
              'two words', env={'A': '1', 'LC_ALL': 'C'})
    assert (*run.communicate('given\n'), run.returncode) == ('two words given A=1 LC_ALL=C \n', 'no\n', 7)
    assert job.told()['left'] == [] and job.told()['seconds'] > 0
    run = job(f'kill -{int(signal.SIGSEGV)} $$')
    run.communicate()
    assert run.returncode == -signal.SIGSEGV
    run = job('trap "echo told; exit 3" USR1\necho ready; sleep 1000 & wait')
    assert run.stdout.readline() == 'ready\n'
    run.send_signal(signal.SIGUSR1)
    assert run.communicate()[0] == 'told\n' and run.returncode == 3


def test_a_short_case_waits_for_none_of_pythons_slow_modules(tmp_path):
    """A start of Python took 7 ms, these modules 10 ms more."""
    listing = f'import sys; sys.path.insert(0, {str(PROGRAM.parent)!r}); import watch; watch.adopt_orphans(); print(*sys.modules)'
    loaded = subprocess.run([sys.executable, '-IS', '-B', '-c', listing], capture_output=True, text=True, check=True).stdout.split()
    assert not {'re', 'json', 'ctypes', 'signal', 'enum'} & set(loaded)


@pytest.mark.parametrize('value', [
    {'node': 'n1', 'cpus': 2, 'seconds': 0.012, 'others': None, 'clocks': {}, 'left': []},
    {'left': [{'pid': 77, 'command': 'iperf3 -s "two\\words" \t\x01 é ☃ 𝄞'}, {'pid': 78, 'command': ''}], 'steal': 1e-05}])
def test_the_report_is_json(value):
    assert json.loads(watch.as_json(value)) == value


@pytest.mark.parametrize('call', ['_ctypes.call_function', '_ctypes.dlsym'])
def test_orphans_are_adopted_by_a_python_whose_ctypes_is_another(call):
    prctl_get = 'ctypes.CDLL(None).prctl(37, ctypes.byref(value), 0, 0, 0)'
    script = (f'import sys; sys.path.insert(0, {str(PROGRAM.parent)!r}); import watch, _ctypes, ctypes\n'
              f'def other(*_): raise TypeError\n{call} = other\nwatch.adopt_orphans()\n'
              f'value = ctypes.c_int(); {prctl_get}; print(value.value)')
    assert subprocess.run([sys.executable, '-B', '-c', script], capture_output=True, text=True).stdout == '1\n'


DAEMON = ('(exec </dev/null >/dev/null 2>&1; setsid env -i sh -c "sleep 86399 & echo \\$! >daemon; '
          'exec 3<&-; exit" &)\nwhile [ ! -s daemon ]; do :; done')


@pytest.mark.parametrize('script, code', [
    (f'{DAEMON}\nexit 5', 5), (f'{DAEMON}\necho ready\nsleep 86398', -signal.SIGTERM),
    # ReFrame kills the process group two seconds later: nobody would be there to end what is in another one
    (f'trap "" TERM\n{DAEMON}\necho ready\nwhile :; do sleep 86396; done', -signal.SIGKILL)], ids=['ended', 'cancelled', 'deaf'])
def test_a_daemon_ends_with_its_job(job, script, code):
    run = job(script, start_new_session=True, env={k: v for k, v in os.environ.items() if k not in ('SLURM_JOB_ID', 'PBS_JOBID')})
    if code < 0:
        assert run.stdout.readline() == 'ready\n'
        os.killpg(run.pid, signal.SIGTERM)
    run.communicate()
    pid = int((job.folder / 'daemon').read_text())
    assert run.returncode == code and not os.path.exists(f'/proc/{pid}')
    assert code < 0 or job.told()['left'] == [{'pid': pid, 'command': 'sleep 86399'}]


def test_a_busy_process_beside_is_counted(job):
    """On one CPU both get about half of it."""
    cpu = str(min(os.sched_getaffinity(0)))
    beside = subprocess.Popen(['taskset', '-c', cpu, sys.executable, '-c', 'while True: pass'])
    try:
        run = job('for ((i = 0; i < 400000; i++)); do :; done', preexec_fn=lambda: os.sched_setaffinity(0, {int(cpu)}))
        run.communicate()
    finally:
        beside.kill()
        beside.wait()
    told = job.told()
    assert told['cpus'] == 1 and told['others'] > 0.2 * told['seconds'] and watched.disturbed(told, None)


def reading(clock, busy, own, steal=(0.0, 0.0), throttled=0, started_by=0.0, clocks=()):
    return SimpleNamespace(clock=clock, clocks=dict(clocks), cpus={0: (busy, steal[0]), 1: (busy, steal[1])}, own=own, throttled=throttled,
                           started_by={(7, '1'): started_by})


def test_what_the_job_and_its_parents_used_is_not_others():
    """Both CPUs were busy for 9 s: 12 s were the job's, of whatever number of processes, 1 s was ReFrame's."""
    told = watch.used(reading(10.0, 5.0, 3.0), reading(20.0, 14.0, 15.0, (0.1, 0.4), 2, started_by=1.0))
    assert (told['others'], told['steal'], told['throttled'], told['seconds']) == (5.0, 0.4, 2, 10.0)
    assert watch.used(reading(0.0, 0.0, 0.0), reading(1.0, 1.0, 2.1))['others'] == 0.0
    unknown = watch.used(reading(0.0, 0.0, None), reading(10.0, 9.0, None))
    assert unknown['others'] is None and 'Slurm' in unknown['unknown'] and not watched.disturbed(unknown, None)


@pytest.mark.parametrize('files, seconds', [
    ({'/proc/self/cgroup': '4:memory:/slurm/uid_0/job_12/step_0\n2:cpu,cpuacct:/slurm/uid_0/job_12/step_batch/task_0\n',
      '/sys/fs/cgroup/cpuacct/slurm/uid_0/job_12/cpuacct.stat': f'user {3 * watch.TICKS}\nsystem 7\n'}, 3.0),
    ({'/proc/self/cgroup': '0::/system.slice/slurmstepd.scope/job_12/step_batch/user/task_0\n',
      '/sys/fs/cgroup/system.slice/slurmstepd.scope/job_12/cpu.stat': 'usage_usec 9\nuser_usec 2500000\n'}, 2.5),
    ({'/proc/self/cgroup': '0::/\n'}, None)])
def test_steps_of_slurm_count_by_the_control_group_of_the_job(files, seconds, monkeypatch):
    monkeypatch.setenv('SLURM_JOB_ID', '12')
    monkeypatch.setattr(watch, 'text', lambda file: files.get(file, ''))
    folders = [file.rpartition('/')[0] for file in files]
    monkeypatch.setattr(watch.os.path, 'isdir', lambda path: any(f.startswith(path.rpartition('/job_12')[0] + '/') for f in folders))
    assert watch.of_slurm() == seconds


@pytest.mark.parametrize('others, steal, cpus, allowed, found', [
    (0.4, 0.0, 2, None, False), (0.6, 0.0, 2, None, True), (0.3, 0.3, 2, None, True), (None, 0.6, 2, None, True),
    (0.7, 0.0, 64, None, False), (10.0, 0.0, 64, None, True), (6.0, 0.0, 2, 0.7, False), (8.0, 0.0, 2, 0.7, True)])
def test_others_may_take_a_share_of_one_cpu_or_what_the_site_states(others, steal, cpus, allowed, found):
    assert bool(watched.disturbed({'others': others, 'steal': steal, 'cpus': cpus, 'seconds': 10.0}, allowed)) == found
    assert not watched.disturbed({'others': 0.04, 'steal': 0.0, 'cpus': 2, 'seconds': 0.2}, None), 'a tick of the clock'


def test_the_seconds_of_a_job_are_told_by_every_clock_of_the_node(job, monkeypatch):
    run = job('sleep 0.5')
    run.communicate()
    told = job.told()
    assert {'uptime', 'raw'} <= told['clocks'].keys() and not watched.false_clock(told)
    assert all(abs(told['seconds'] - seconds) < 0.1 for name, seconds in told['clocks'].items() if name != 'rtc')
    monkeypatch.setattr(watch, 'text', {'/proc/uptime': '77.25 3.10\n', '/sys/class/rtc/rtc0/since_epoch': '1795190000\n'}.get)
    assert {name: watch.clocks()[name] for name in ('uptime', 'rtc')} == {'uptime': 77.25, 'rtc': 1795190000.0}
    monkeypatch.setattr(watch, 'text', lambda _: '')
    assert watch.clocks().keys() <= {'raw'}, 'a node may have none'
    told = watch.used(reading(10.0, 5.0, 3.0, clocks={'uptime': 3.0, 'rtc': 5.0}), reading(20.0, 14.0, 15.0, clocks={'uptime': 23.0}))
    assert told['clocks'] == {'uptime': 20.0}


FAKED = """
import json, sys, time
import importlib.util
true, began = time.monotonic, time.monotonic()
time.monotonic = lambda: began + (true() - began) / 2
spec = importlib.util.spec_from_file_location('watch', './watch.py')
watch = importlib.util.module_from_spec(spec)
spec.loader.exec_module(watch)
watch.main(['./job.sh'])
"""


def test_a_job_whose_clock_runs_at_half_speed_is_found(job):
    job('sleep 1').communicate()
    assert not watched.false_clock(job.told())
    subprocess.run([sys.executable, '-c', FAKED], cwd=job.folder)
    told = job.told()
    assert 0.4 < told['seconds'] < 0.9 and "the clock of the job counted" in watched.false_clock(told), told


@pytest.mark.parametrize('seconds, clocks, said', [
    (10.0, {}, ''), (10.0, {'uptime': 10.01, 'raw': 10.005, 'rtc': 11.0}, ''), (10.0, {'uptime': 10.19}, ''), (0.01, {'uptime': 0.1}, ''),
    (10.0, {'uptime': 20.0}, "the clock of the job counted 10.0 s, the kernel's uptime 20.0 s"),
    (10.0, {'raw': 9.0}, 'the clock of the job counted 10.0 s, the clock that no time server slows 9.0 s'),
    (100.0, {'uptime': 100.0, 'raw': 100.0, 'rtc': 200.0}, 'the clock of the job counted 100.0 s, the hardware clock 200.0 s'),
    # a hardware clock that was set meanwhile
    (100.0, {'rtc': 3700.0}, ''), (100.0, {'rtc': -3500.0}, ''), (100.0, {'rtc': 0.0}, ''), (600.0, {'rtc': 612.0}, '')])
def test_a_clock_is_false_where_another_one_of_the_node_contradicts_it(seconds, clocks, said):
    assert watched.false_clock({'seconds': seconds, 'clocks': clocks}) == said
    assert not watched.false_clock({}), 'nobody watched it'


@pytest.mark.parametrize('ran, times, said', [
    (10.0, {'seconds': 10.0}, ''), (10.0, {'seconds': 10.15}, ''), (0.02, {'seconds': 0.11}, ''), (None, {'seconds': 99.0}, ''),
    (10.0, {'rate': 1.0, 'seconds': 12.5}, 'seconds is 12.5 s, but the job ran 10 s: no program runs longer than its job')])
def test_no_program_ran_longer_than_its_job(ran, times, said):
    assert watched.longer({'seconds': ran} if ran else {}, times) == said


def test_the_time_of_a_program_on_a_node_that_slept_is_disturbed_and_not_wrong():
    slept = {'seconds': 10.0, 'clocks': {'uptime': 70.0, 'raw': 10.0}}
    assert watched.false_clock(slept) and not watched.longer(slept, {'seconds': 69.0})


def of(*cases):
    return sessions.verdict_on(sessions.report(list(cases), [sessions.planned()]))


def test_a_figure_of_a_busy_machine_is_shown_and_not_judged_and_calm_runs_are():
    cell = of(case(99.0, refs=REFS), case(refs=REFS, **BUSY), case(101.0, refs=REFS)).cells[0]
    assert (cell.verdict, cell.value, cell.reason) == ('ok', 100.0, 'median of 2; 1 more disturbed')
    verdict = of(case(refs=REFS, **BUSY))
    cell = verdict.cells[0]
    assert (cell.verdict, cell.value, verdict.exit_code) == ('disturbed', 7.6, 0) and '1.00 of its 2' in cell.reason
    notes = dict(answer.of(verdict).notes)
    assert notes['disturbed'].startswith('2 figures, while others used the CPUs or the clock was wrong') and notes['trust'].startswith('0 of 2 judged')
    assert '7.6' in '\n'.join(line for line, _ in table.table(verdict))
    assert not incidents.of_verdict(verdict, 'local', 1.0).well.keys() - {incidents.WHOLE}, 'nothing is said to be well'


CERTAIN = {'value': 5.0, 'unit': 'Gflop/s', 'source': 'data sheet', 'certain': True}


@pytest.mark.parametrize('ran, word', [
    (case(7.6, parity={**BUSY['parity'], 'metrics': {'hpl': {'limit': CERTAIN, 'unit': 'Gflop/s', 'better': 'higher'}}}), 'impossible'),
    (case(float('nan'), parity=BUSY['parity']), 'wrong'),
    (case(7.6, parity={**BUSY['parity'], 'status': 'failed'}) | {'result': 'fail', 'fail_phase': 'sanity'}, 'failed')])
def test_wrong_failed_and_impossible_stay_so_on_a_busy_machine(ran, word):
    assert {c.metric: c.verdict for c in of(ran).cells}['hpl'] == word


def test_a_disturbed_run_is_in_no_history_and_in_no_comparison(stored):
    stored('a', case(100.0), case(**BUSY), case(102.0))
    assert history.load('local').filter(metric='hpl')['value'].to_list() == [100.0, 102.0]
    stored('b', case(**BUSY))
    cells = resolve.of_rows('', 'session', history.rows(['b'])).cells
    assert cells and all(not c.values and c.reason.startswith('disturbed: ') for c in cells)
    found = show.of_cell('Toy.hpl@local:default')
    assert [(n.value, n.disturbed) for n in found.nights] == [(101.0, False), (7.6, True)]
    assert any('1 of them disturbed' in line for line in show.lines(found))


def test_a_cell_disturbed_three_nights_in_a_row_is_said_first_and_ends_3(stored):
    stored('a', case(100.0), case(**BUSY))        # one calm run: not a disturbed night
    stored('b', case(**BUSY))
    stored('c', case(**BUSY), case(**BUSY))
    verdict = judge.newest('c')
    assert verdict.cells[0].disturbed_nights == 2 and verdict.exit_code == 0
    stored('d', {**case(100.0), 'name': 'Other', 'unique_name': 'Other'})     # a night without it is none
    stored('e', case(**BUSY))
    verdict = judge.newest('e')
    assert verdict.cells[0].disturbed_nights == 3 and verdict.exit_code == 3
    assert verdict.trust.startswith('2 disturbed for 3 nights in a row or more; 0 of 2 judged')
    assert {seen.fault.word for seen in incidents.of_verdict(verdict, 'local', 1.0).bad.values()} == {'disturbed'}
    stored('f', case(100.0))
    verdict = judge.newest('f')
    assert verdict.exit_code == 0 and not incidents.of_verdict(verdict, 'local', 1.0).bad
    assert judge.newest('c').cells[0].disturbed_nights == 2
    for number, session in enumerate('xyz'):
        stored(session, case(**BUSY), time_start_unix=start(9) + number)
    assert judge.newest('z').cells[0].disturbed_nights == 1      # sessions of one day are one night


def test_the_first_sentence_says_what_disturbed_three_nights_in_a_row(stored):
    clock = "the clock of the job counted 10.0 s, the kernel's uptime 20.0 s"
    for session in 'abc':
        stored(session, case(50.0, parity={'disturbed': clock}))
    text = answer.lines(judge.newest('c'))[0][0]
    assert text.startswith('2 of 2 figures were disturbed 3 nights in a row: the clock of the job counted 10.0 s'), text


def test_throttling_and_processes_left_running_disturb_nothing_and_are_told(stored):
    def night(hpl, times):
        return case(hpl, refs=REFS, parity={'node': {'node': 'node01'}, 'watched': {
            'node': 'node01', 'throttled': times, 'left': [{'pid': 77, 'command': 'iperf3 -s -D'}]}})
    stored('a', night(100.0, 0), night(100.0, 0))
    stored('b', night(50.0, 0), night(50.0, 31))
    verdict = judge.newest('b')
    assert verdict.cells[0].once == 0.5, 'one night'
    assert [(c.fact, c.old, c.new) for c in verdict.cells[0].cause.changes] == [('throttled', 'no', 'yes')]
    assert 'Toy on default left processes running, which were ended: iperf3 -s -D (77)' in verdict.warnings


def test_a_run_with_a_false_clock_is_disturbed(tmp_path):
    case = SimpleNamespace(stagedir=str(tmp_path), parity=CaseRecord(), extra=lambda _: None)
    for uptime, said in ((10.0, ''), (20.0, "the clock of the job counted 10.0 s, the kernel's uptime 20.0 s")):
        (tmp_path / 'watch.json').write_text(json.dumps({'seconds': 10.0, 'cpus': 2, 'others': 0.0, 'clocks': {'uptime': uptime}}))
        Workload._parity_watched(case)
        assert case.parity.disturbed == said
