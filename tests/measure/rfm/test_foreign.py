"""ReFrame tests that know nothing of parity are cells: planned, judged, in history, references and reruns."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shlex
import shutil
import sqlite3
from pathlib import Path

import pytest

from commands import parity
from conftest import TOP, shell
from parity.base.errors import NothingMeasured, UsageError
from parity.judge.store import database, history, imported
from parity.site import directions
from warm import nightly, reframe

HEAD = """
import os
import reframe as rfm
import reframe.utility.sanity as sn


class Said(rfm.RunOnlyRegressionTest):
    valid_systems = ['*']
    valid_prog_environs = ['*']
    executable = 'echo'
    executable_opts = ['rate', '${RATE:-100}']       # the work is the same at every rate

    @sanity_function
    def says(self):
        return sn.assert_found(r'rate [\\d.]+', self.stdout)

    def figure(self):
        return sn.extractsingle(r'rate (\\S+)', self.stdout, 1, float)
"""
PROGRAM = """

class Program(rfm.CompileOnlyRegressionTest):
    valid_systems = ['*']
    valid_prog_environs = ['*']
    build_system = 'SingleSource'
    sourcepath = 'nothere.c'
"""
SPEED = HEAD + """

@rfm.simple_test
class Speed(Said):
    @performance_function('Mop/s')
    def rate(self):
        return self.figure()
"""
#: Class bodies; then what the verdict says of their metrics: word, and a part of the reason.
BODIES = {
    'Passes': ('pass', {'passed': ('ok', 'passed')}),
    'Answer': ("executable_opts = ['nothing']", {'passed': ('wrong', 'sanity error')}),
    'SetUp': ("@run_after('setup')\ndef boom(self):\n    raise ValueError('no such thing')", {'passed': ('failed', 'no such thing')}),
    'Early': ("@run_before('setup')\ndef boom(self):\n    raise ValueError('no such thing')", {'passed': ('failed', 'no such thing')}),
    'Twice': ("@performance_function('GB/s', perf_key='x')\ndef one(self):\n    return 1\n"
              "@performance_function('GB/s', perf_key='x')\ndef two(self):\n    return 2",
              {'x': ('wrong', "checks/many.py:LINE: 2 performance functions are called 'x'")}),
    'Raises': ("@performance_function('s')\ndef bad(self):\n    return 1 / 0\n@performance_function('s')\ndef good(self):\n    return 1\n"
               "@performance_function('s')\ndef text(self):\n    return 'abc'\n@performance_function('s')\ndef nan(self):\n    return float('nan')",
               {'bad': ('wrong', 'ZeroDivisionError: division by zero'), 'good': ('unreferenced', ''),
                'text': ('wrong', "gives 'abc'; it must give a number"), 'nan': ('wrong', 'nan is nan')}),
    'Killed': ("postrun_cmds = ['kill -SEGV $$']", {'passed': ('failed', 'ended by signal 11 (Segmentation fault)')}),
    'Shell': ("postrun_cmds = ['exit 137']", {'passed': ('failed', 'ended by signal 9 (Killed)')}),
    'Ends': ("postrun_cmds = ['exit 3']\n@performance_function('Mop/s')\ndef rate(self):\n    return self.figure()", {'rate': ('unreferenced', 'exit code 3')}),
    'KilledBefore': ("executable = 'sh'\nexecutable_opts = ['-c \"echo rate 1; kill -SEGV \\\\$\\\\$\"']\npostrun_cmds = ['true']",
                     {'passed': ('failed', 'ended by signal 11 (Segmentation fault)')}),
    # the command after it reads the program's exit code
    'EndsBefore': ("executable = 'sh'\nexecutable_opts = ['-c \"exit 3\"']\npostrun_cmds = ['echo rate $?', 'true']\n"
                   "@performance_function('Mop/s')\ndef rate(self):\n    return 100 / (self.figure() == 3)", {'rate': ('unreferenced', 'exit code 3')}),
    'Units': ("reference = {'*': {'off': (3, -0.1, 0.1, 'GB/s'), 'same': (100, -0.1, 0.1, 'Gflop/s')}}\n"
              "@performance_function('MB/s')\ndef off(self):\n    return 3\n@performance_function('Gflops')\ndef same(self):\n    return 100",
              {'off': ('wrong', "is in 'MB/s', and its reference in 'GB/s'"), 'same': ('blind', "the check's own reference")}),
    'Figures': ("@performance_function('MB/s')\ndef none(self):\n    return 0\n@performance_function('MB/s')\ndef large(self):\n    return 10**400\n"
                "@performance_function('errors/s')\ndef bad(self):\n    return 0\n@performance_function('MB/s')\ndef passed(self):\n    return 7",
                {'none': ('wrong', 'gives 0; a figure that is better when it is higher must be above 0'), 'large': ('wrong', 'gives 1000000'),
                 'bad': ('unreferenced', ''), 'passed': ('unreferenced', '')}),
    'Strange': ("@performance_function('frobs')\ndef speed(self):\n    return self.figure()",
                {'speed': ('unreferenced', "direction unknown: checks/many.py:LINE: the unit 'frobs' is neither a time nor a rate")}),
    'Stated': ("@performance_function('frobs')\ndef speed(self):\n    return self.figure()", {'speed': ('unreferenced', '')}),
    'Patterns': ("reference = {'*': {'in': (110, -0.1, 0.1, 'frobs'), 'off': (200, -0.1, 0.1, 'frobs'), 'low': (200, -0.1, None, 'frobs'),\n"
                 "                   'slow': (50, None, 0.1, 'frobs'), 'gone': (1, None, 0.1, 's')}}\n"
                 "@run_before('performance')\ndef state(self):\n    self.perf_patterns = {n: self.figure() for n in ('in', 'off', 'low', 'slow')}",
                 {'in': ('blind', "direction unknown: judged on both sides; a slowdown shows from 10 % on"),
                  'off': ('regressed', "-50.0 % of the check's own reference; direction unknown"), 'low': ('regressed', "of the check's own reference"),
                  'slow': ('regressed', "of the check's own reference"), 'gone': ('wrong', 'gone is absent from the results')}),
    'Late': ("@run_before('performance')\ndef state(self):\n    self.perf_variables = {'a': sn.make_performance_function(self.figure(), 'us')}",
             {'passed': ('ok', 'passed'), 'a': ('unreferenced', '')}),
    'NoEnviron': ("valid_prog_environs = ['PrgEnv-cray']", {'passed': ('skipped', 'valid_prog_environs asks for (PrgEnv-cray)')}),
    'Skips': ("@run_after('setup')\ndef leave(self):\n    self.skip('no licence here')", {'passed': ('skipped', 'no licence here')}),
    'TwoNodes': ('num_tasks, num_tasks_per_node = 2, 1', {'passed': ('skipped', 'nodes: needs 2, local:default has 1')}),
    'Unset': ('num_tasks = required', {'passed': ('failed', "required variable 'num_tasks' has not been set")}),
    'Known': ("reference = {'*': {'slow': xfail('ticket 7', (50, None, 0.1, 's'))}}\n"
              "@performance_function('s')\ndef slow(self):\n    return self.figure()", {'slow': ('skipped', 'expected to fail: ticket 7')}),
    'Built': ("@run_before('run')\ndef bins(self):\n    pass\nprogram = fixture(Program, scope='environment')",
              {'passed': ('failed', 'Program ~local:default+distro failed: ')}),
    # names that mean something to parity are the test's own
    'Names': ("metrics = variable(int, value=3)\nsize = parameter(['a'])\nneeds = variable(str, value='me')\ntags = {'network', 'slow'}\n"
              "@performance_function('ns/day')\ndef speed(self):\n    return self.figure()", {'speed': ('unreferenced', '')}),
}


def many() -> str:
    return HEAD + PROGRAM + ''.join(f'\n\n@rfm.simple_test\nclass {name}(Said):\n    ' + body.replace('\n', '\n    ') + '\n'
                          for name, (body, _) in BODIES.items())


def run(copy: Path, words: str, **env: str):
    """Run `reframe WORDS`."""
    return reframe(copy, words, RFM_COLORIZE='n', **env)


def here(copy: Path, words: str):
    """Run `parity WORDS` in this process, on the copy."""
    return parity(*shlex.split(words), PARITY_ROOT=str(copy), PARITY_RESULTS=str(copy / 'results'))


def verdict(copy: Path, session: str = '') -> dict:
    return json.loads(here(copy, f'verdict --json {session}').stdout)


def stored(copy: Path) -> list[str]:
    """The uuids of all sessions, the oldest first."""
    with contextlib.closing(sqlite3.connect(copy / 'results' / 'results.db')) as conn:
        return [uuid for uuid, in conn.execute('SELECT uuid FROM sessions ORDER BY rowid')]


def more_nights(copy: Path, *rates: float) -> None:
    """Store the only session again with each of these rates, a tenth of a second later each: ReFrame takes seconds for one."""
    with contextlib.closing(sqlite3.connect(copy / 'results' / 'results.db')) as conn, conn:
        (uuid, began, end, text, file), = conn.execute('SELECT * FROM sessions')
        tests = conn.execute('SELECT * FROM testcases').fetchall()
        for at, rate in enumerate(rates, 1):
            new, later = f'{uuid[:-3]}n{at:02}', 0.1 * at
            report = json.loads(text.replace(uuid, new))
            report['session_info']['time_start_unix'] += later
            for case in report['runs'][0]['testcases']:
                case['perfvalues'] = {name: [rate, *known[1:]] for name, known in case['perfvalues'].items()}
            conn.execute('INSERT INTO sessions VALUES (?, ?, ?, ?, ?)', (new, began + later, end + later, json.dumps(report), file))
            conn.executemany(f'INSERT INTO testcases VALUES ({", ".join("?" * len(tests[0]))})',
                             [[part.replace(uuid, new) if isinstance(part, str) else part for part in row] for row in tests])


def cells(found: dict) -> dict:
    return {(cell['check'], cell['metric']): cell for cell in found['cells']}


def test_the_example_is_measured_and_imports_nothing_of_parity(checkout):
    text = (TOP / 'docs' / 'examples' / 'foreign.py').read_text()
    assert 'import parity' not in text and 'from parity' not in text
    (checkout / 'checks' / 'foreign.py').write_text(text.replace('20_000_000', '200_000'))
    done = run(checkout, '-c checks/ -r -n Foreign')
    assert done.returncode == 0, done.stdout + done.stderr
    done = here(checkout, 'verdict')
    assert done.returncode == 0 and '1 figure, none wrong' in done.stdout, done.stdout + done.stderr
    cell, = verdict(checkout)['cells']
    assert (cell['verdict'], cell['subsystem'], cell['unit'], cell['better']) == ('unreferenced', 'compute', 'Mop/s', 'higher')
    assert cell['value'] > 0


def test_the_log_file_of_a_run_in_colours_has_none(bare):
    (bare / 'checks' / 'speed.py').write_text(SPEED)
    done = reframe(bare, '-c checks/speed.py -r', RATE='none', RFM_COLORIZE='y')
    log = (bare / 'results' / 'reframe.log').read_text()
    assert '\x1b[31m' in done.stdout and 'FAILED' in log and '\x1b' not in log


def test_a_reference_is_proposed_accepted_applied_and_missed(bare):
    (bare / 'checks' / 'speed.py').write_text(SPEED)
    night = run(bare, '-c checks/speed.py -r', RATE='100')
    assert night.returncode == 0, night.stdout + night.stderr
    more_nights(bare, 101.0, 99.0, 100.5, 99.5, 100.0, 101.0, 99.0, 100.2, 99.8)
    for words in ('propose', "accept --all --why 'a test'"):
        done = here(bare, f'refs {words} --system local')
        assert done.returncode == 0, done.stdout + done.stderr
    assert 'own:\n    rate: [100.0, ' in (bare / 'systems/local/references/default.yaml').read_text()
    assert here(bare, 'refs lint --system local').returncode == 0
    for rate, code, word, ended in (('100', 0, 'ok', 0), ('none', 1, 'wrong', 1)):
        done = run(bare, '-c checks/speed.py -r', RATE=rate)
        assert done.returncode == ended, done.stdout
        cell, = (found := verdict(bare))['cells']
        assert (cell['verdict'], found['exit_code']) == (word, code), cell
        assert word == 'wrong' or cell['reference'] == 100.0
    night = nightly(bare, '-n Speed --repeats 1', RATE='70')
    assert night.returncode == 1 and 'rerun 1 of 1 before the verdict: Speed' in night.stdout, night.stdout + night.stderr
    cell, = verdict(bare)['cells']
    assert (cell['verdict'], cell['reference']) == ('regressed', 100.0)
    assert 'Speed' in (bare / 'results/report/index.html').read_text()
    assert here(bare, "ack Speed.rate@local:default --until 2099-01-01 --why 'a test'").returncode == 0
    assert here(bare, 'verdict').returncode == 0
    shown = here(bare, 'show Speed.rate').stdout
    assert 'rerun: ci/nightly --system local -n' in shown and '-S' not in shown


@pytest.fixture(scope='module')
def judged(shared) -> tuple[Path, dict]:
    """A checkout in which the tests of BODIES ran, and the verdict on them."""
    from conftest import belong_to, copied

    def make(folder: Path) -> None:
        copy = copied(folder)
        (copy / 'checks' / 'many.py').write_text(many())
        (copy / 'checks' / 'adopt.yaml').write_text('directions:\n  - {check: Stated, metric: speed, better: lower}\n'
                                                    '  - {check: Statde, metric: speed, better: lower}\n'
                                                    '  - {check: Hpcg, metric: gflops, better: lower}\n')
        (folder / 'elsewhere').mkdir()
        (folder / 'elsewhere' / 'speed.py').write_text(SPEED)
        (folder / 'elsewhere' / 'helper.py').write_text('x = 1\n')
        (folder / 'elsewhere' / 'src').mkdir()
        for name in ('beside.dat', 'README.md', 'src/given.dat', 'src/.hidden'):
            (folder / 'elsewhere' / name).write_text('x')
        stated = copy / 'systems' / 'local' / 'system.yaml'
        stated.write_text(stated.read_text().replace('partitions:', f"checks: ['{folder / 'elsewhere'}']\npartitions:", 1))
        with pytest.MonkeyPatch.context() as patch:
            belong_to(copy, patch)
            patch.setenv('OMPI_MCA_odls_base_sigkill_timeout', '0')     # mpirun waits seconds after a code other than 0
            names = '|'.join(f'^{name}( |%|$)' for name in (*BODIES, 'Speed'))
            done = run(copy, f"-c checks/ -r -n '{names}' -S size=nightly")
            (folder / 'printed').write_text(done.stdout + done.stderr)
            (folder / 'verdict.json').write_text(json.dumps(verdict(copy)))
            here(copy, f'export --csv {folder}/figures.csv')

    folder = shared.once('foreign', make)
    return folder, json.loads((folder / 'verdict.json').read_text())


def test_what_a_test_was_given_is_stored_with_the_files_beside_it(judged, monkeypatch):
    monkeypatch.setenv('PARITY_RESULTS', str(judged[0] / 'a check out' / 'results'))
    rows = history.rows(database.uuids()).filter(check='Speed').collect()
    given = json.loads(rows['work_facts'][0])
    assert given['arguments'] == 'rate ${RATE:-100}' and given['program'] == 'echo' and sorted(given['input']) == ['beside.dat', 'given.dat']
    assert given['check'] and 'PARITY_SESSION' not in given['variable']


@pytest.mark.parametrize('name', BODIES)
def test_every_metric_gets_its_word_and_a_reason_that_can_be_followed(judged, name):
    folder, found = judged
    known = {metric: cell for (check, metric), cell in cells(found).items() if check == name}
    assert {metric: cell['verdict'] for metric, cell in known.items()} == {m: word for m, (word, _) in BODIES[name][1].items()}, \
        (folder / 'printed').read_text()
    text = many().splitlines()
    for metric, (_, said) in BODIES[name][1].items():
        reason = known[metric]['reason']
        if 'LINE' in said:
            at = int(reason.partition('many.py:')[2].partition(':')[0])
            assert 'performance_function' in text[at - 1], reason
            said = said.replace('LINE', str(at))
        assert said in reason if said else reason == '', reason


def test_a_direction_that_nothing_states_is_in_adopt_yaml_and_a_wrong_entry_is_named(judged):
    folder, found = judged
    assert cells(found)['Stated', 'speed']['better'] == 'lower'
    assert found['exit_code'] == 2          # what adopt.yaml says wrongly; the rest was judged
    said = ' '.join(found['warnings'])
    assert "checks/adopt.yaml:3: unknown check 'Statde'; did you mean 'Stated'?; valid: Answer, " in said
    assert 'checks/adopt.yaml:4: Hpcg: its own check says what is better of gflops' in said


@pytest.mark.parametrize('unit, side', [('errors/s', 'lower'), ('retransmits/s', 'lower'), ('page_faults/s', 'lower'), ('drops', 'lower'),
                                        ('ns/day', 'higher'), ('defaults/s', 'higher'), ('s/step', 'lower'), ('t[usec]', 'lower'), ('frobs', '')])
def test_a_unit_has_a_better_side(unit, side):
    assert directions.better('Any', 'metric', unit, (0, None, None)) == side


def test_exit_codes_faults_and_a_metric_called_passed(judged):
    folder, found = judged
    assert found['trust'].startswith('2 cases passed with an exit code other than 0; ')
    assert cells(found)['Figures', 'bad']['better'] == 'lower'
    assert ',Figures,Figures,own,passed,MB/s,higher,0,7.0,' in (folder / 'figures.csv').read_text()


def test_a_path_of_system_yaml_is_loaded_and_a_tag_names_the_subsystem(judged):
    _, found = judged
    known = cells(found)
    assert known['Speed', 'rate']['verdict'] == 'unreferenced' and known['Speed', 'rate']['subsystem'] == 'other'
    assert known['Names', 'speed']['subsystem'] == 'network' and known['Names', 'speed']['better'] == 'higher'
    assert not any('helper.py' in said for said in found['warnings'])


def test_a_night_with_foreign_tests_runs_and_what_a_hook_found_is_missed_later(bare):
    (bare / 'checks' / 'late').mkdir()
    file = bare / 'checks' / 'late' / 'late.py'
    file.write_text(HEAD + '\n\n@rfm.simple_test\nclass Late(Said):\n    ' + BODIES['Late'][0].replace('\n', '\n    ') + '\n')
    night = '-n Late --repeats 1'
    done = nightly(bare, night)
    assert done.returncode == 0, done.stdout + done.stderr
    file.write_text(file.read_text().replace("'a':", "'b':"))
    done = nightly(bare, night)
    found = cells(verdict(bare))
    assert done.returncode == 3 and found['Late', 'a']['verdict'] == 'missing' and found['Late', 'b']['value'] == 100, done.stdout


def test_files_of_a_foreign_folder_are_no_code_and_are_loaded(bare):
    folder = bare / 'checks' / 'network' / 'mine'
    folder.mkdir(parents=True)
    (folder / 'mine.py').write_text(SPEED.replace('Speed', 'Mine'))
    (folder / 'yours.py').write_text(SPEED.replace('Speed', 'Yours'))
    (bare / 'checks' / 'network' / 'src').mkdir()
    (bare / 'checks' / 'network' / 'src' / 'a.c').write_text('')
    done = nightly(bare, '--repeats 1 -n "Mine|Yours"')
    assert done.returncode == 0, done.stdout + done.stderr
    assert {cell['subsystem'] for cell in verdict(bare)['cells']} == {'network'} and len(verdict(bare)['cells']) == 2


def test_a_run_in_which_no_case_comes_to_its_set_up_is_one_session(bare):
    (bare / 'checks' / 'built.py').write_text(HEAD + PROGRAM + "\n\n@rfm.simple_test\nclass Built(Said):\n    "
                                                  "program = fixture(Program, scope='environment')\n")
    (bare / 'script.py').write_text("open('ran', 'w')\n")
    (bare / 'unstated.py').write_text(SPEED.replace("valid_systems = ['*']", 'pass'))
    done = run(bare, '-c checks/built.py -c script.py -c unstated.py -c nowhere -r')
    found = verdict(bare)
    assert [cell['verdict'] for cell in found['cells']] == ['failed'], done.stdout
    assert not (bare / 'ran').exists()
    assert any("unstated.py: skipping test 'Speed': 'valid_systems' not defined" in said for said in found['warnings'])
    assert len(stored(bare)) == 1 and any('nowhere: no such file or folder' in said for said in found['warnings'])


def test_a_killed_run_is_recovered_with_its_figures(bare):
    second = SPEED[SPEED.index('@rfm'):].replace('Speed', 'Then')
    kills = "    @run_before('run')\n    def end(self):\n        os.kill(os.getpid(), 9)\n"
    (bare / 'checks' / 'speed.py').write_text(SPEED + '\n\n' + second.replace('    @perf', kills + '\n    @perf'))
    run(bare, '-c checks/speed.py -r --exec-policy serial --exec-order name')
    (bare / 'checks' / 'speed.py').write_text(SPEED)
    done = run(bare, '-c checks/speed.py -r')
    assert 'recovered 1 finished case' in done.stderr, done.stderr
    found = cells(verdict(bare, f'--session {stored(bare)[0]}'))
    assert found['Speed', 'rate']['value'] == 100 and found['Then', 'rate']['verdict'] == 'missing'


def test_a_session_that_reframe_cannot_store_is_said_and_recovered(bare):
    (bare / 'checks' / 'speed.py').write_text(SPEED)
    line = '-c checks/speed.py -r'
    run(bare, line)
    with contextlib.closing(sqlite3.connect(bare / 'results' / 'results.db')) as conn:
        conn.execute("CREATE TRIGGER full BEFORE INSERT ON sessions BEGIN SELECT RAISE(FAIL, 'database or disk is full'); END")
        done = run(bare, line)
        assert f'parity: {bare}/results/results.db: ReFrame did not store the session: the next run recovers' in done.stderr, done.stderr
        conn.execute('DROP TRIGGER full')
    assert 'recovered 1 finished case' in run(bare, line).stderr and len(stored(bare)) == 3


OLD = """
site_configuration = {
    'systems': [{'name': 'NAME', 'hostnames': ['.*'], 'partitions': [
        {'name': 'default', 'scheduler': 'local', 'launcher': 'local', 'environs': ['distro']}]}],
    'environments': [{'name': 'distro'}], 'storage': [{'enable': True, 'sqlite_db_file': 'DB'}]}
"""


def test_what_reframe_stored_without_parity_becomes_history(bare):
    plain = bare.parent / 'plain'        # ReFrame alone runs no job at a path with a space
    plain.mkdir()
    (plain / 'many.py').write_text(many())
    for system, rate in (('local', '100'), ('local', '102'), ('elsewhere', '1')):
        (plain / 'old.py').write_text(OLD.replace('NAME', system).replace('DB', str(plain / 'old.db')))
        shell(". ci/activate && cd ../plain && unset RFM_CONFIG_FILES && reframe -C old.py -c many.py -n 'Late|Passes|Answer|Raises' -r", bare, RATE=rate)
    left = ['not imported: 4 x case of elsewhere:default, which no systems', 'not imported: 2 x figure text of Raises that is no number',
            'not imported: 2 x figure nan of Raises that is no number']
    for asked, code, told in (('old.db --dry-run', 0, 'would be imported: 1 of 1 sessions, 0 are here already; in all 8 cases with 4 figures'),
                        ('old.db', 1, 'imported: 1 of 1 sessions, 0 are here already'), ('old.db', 1, 'imported: 0 of 1 sessions, 1 are here already')):
        done = here(bare, f'import {plain}/{asked}')
        assert done.returncode == code and all(said in done.stdout for said in (told, *left)), done.stdout + done.stderr
    assert len(stored(bare)) == 1
    found = cells(verdict(bare))
    assert {name: (cell['verdict'], cell['value'], cell['better']) for name, cell in found.items()} == {
        ('Late', 'a'): ('unreferenced', 101, 'lower'), ('Passes', 'passed'): ('ok', 1, ''), ('Answer', 'passed'): ('wrong', None, ''),
        ('Raises', 'good'): ('unreferenced', 1, 'lower')}
    assert here(bare, f"import '{bare}/results/results.db'").returncode == 3
    shutil.rmtree(bare / 'results')
    done = here(bare, f'import {plain}/perflogs')
    assert 'imported: 1 of 1 sessions' in done.stdout and cells(verdict(bare))['Late', 'a']['value'] == 101, done.stdout
    assert here(bare, f'import {plain}/perflogs').stdout.count('0 of 1 sessions, 1 are here already') == 1
    for wrong, code in (('nowhere', 2), ('old.py', 3)):
        done = here(bare, f'import {plain}/{wrong}')
        assert done.returncode == code and 'Traceback' not in done.stderr


def perflog(*lines: str, columns: str = '') -> str:
    header = f'job_completion_time_unix|result|system|partition|environ|name|a_value|a_unit{columns}'
    return ''.join(f'{line}\n' for line in (header, *lines))


def line(hour: float, value: str = '5.5', **other: str) -> str:
    said = {'time': str(1767225600 + 3600 * hour), 'result': 'pass', 'system': 'local', 'partition': 'default', 'environ': 'builtin', 'name': 'Speed'}
    return '|'.join([*(said | other).values(), value, 'GB/s'])


@pytest.fixture
def take(site, tmp_path):
    """Import a file that holds this text; returns the sentences."""
    def taken(text: str, name: str = 'Speed.log') -> str:
        file = tmp_path / 'old' / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        return '\n'.join(imported.run(file, False).sentences)
    return taken


def test_an_import_takes_the_lines_that_are_not_stored_yet(take):
    morning = [line(8), line(9, '6.5'), line(9, '6.5')]
    assert 'imported: 1 of 1 sessions, 0 are here already; in all 2 cases' in take(perflog(*morning))
    grown = take(perflog(*morning, line(10, '7.5'), line(34, '8.5')))
    assert 'imported: 2 of 2 sessions, 0 are here already; in all 4 cases with 4 figures, 2 cases of these are here' in grown
    assert 'imported: 0 of 2 sessions, 2 are here already' in take(perflog(*morning, line(10, '7.5'), line(34, '8.5')), 'second.log')
    found = [run.values()['a'] for uuid in database.uuids() for run in database.read(uuid).runs]
    assert found == [5.5, 6.5, 7.5, 8.5]


def test_an_import_names_each_line_that_it_leaves(take, tmp_path):
    bad = [line(8), line(8, time='inf'), line(8, time='nan'), line(8, time='1e300'), line(8, time='1_000'), line(9, '1_000'), 'short|line',
           line(8, name=''), line(8, partition='nowhere')]
    said = take(perflog(*bad) + line(9))
    for what in ('4 x case whose job_completion_time_unix is no Unix time (first: FILE:3)', '1 x figure a of Speed that is no number between 1e-100 and 1e+100 (first: FILE:7)',
                 '1 x line whose number of fields is not that of its header (first: FILE:8)', '(first: FILE:9)', '(first: FILE:10)',
                 '1 x line without an end: it is cut, or still being written (first: FILE:11)', 'in all 2 cases with 1 figures'):
        assert what.replace('FILE', str(tmp_path / 'old' / 'Speed.log')) in said, said
    with pytest.raises(NothingMeasured, match="line of parity's own"):
        take(perflog(f'{line(8)}|x|y', columns='|perfvalues|parity'))
    os.mkfifo(tmp_path / 'pipe')
    with pytest.raises(UsageError, match='no regular file'):
        imported.run(tmp_path / 'pipe', False)


def test_an_import_leaves_sessions_that_parity_cannot_read(take, tmp_path):
    take(perflog(line(8)))
    ours = database.report()
    del ours['parity_session']
    case = ours['runs'][0]['testcases'][0]
    del case['parity'], case['uuid']
    case['perfvalues'] = {'local:default:a': [9.5]}
    others = [case | {'fixture': True}, case | {'system': 'other'}, case | {'job_completion_time_unix': math.inf}]
    with contextlib.closing(sqlite3.connect(tmp_path / 'old.db')) as conn:
        conn.execute('CREATE TABLE sessions (uuid, json_blob)')
        for number, info, cases in (('one', {}, [case, *others]), ('two', {'cmdline': "reframe '"}, [case]), ('../x', {}, [case])):
            report = ours | {'session_info': ours['session_info'] | {'uuid': number, **info}, 'runs': [{'testcases': cases}]}
            conn.execute('INSERT INTO sessions VALUES (?, ?)', (number, json.dumps(report)))
        conn.commit()
    said = '\n'.join(imported.run(tmp_path / 'old.db', False).sentences)
    for what in ('imported: 1 of 1 sessions', '1 x fixture', '1 x case of other:default', 'no Unix time', 'No closing quotation'):
        assert what in said, said


def test_a_wrong_adopt_yaml_is_refused_with_file_and_line(checkout):
    (checkout / 'checks' / 'adopt.yaml').write_text('directions:\n  - {check: A, metric: b, better: faster}\n')
    done = run(checkout, '-c checks/ -l')
    assert done.returncode == 2 and "adopt.yaml:2: directions.0.better: 'faster'; valid: 'higher' or 'lower'" in done.stderr, done.stderr
