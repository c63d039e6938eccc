"""The work of the commands that run most often, counted: modules, processes, loads of the checks. Times vary by machine."""

from __future__ import annotations

import json
import pstats
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from dev.bench.harness import Bench

#: Modules that take long to load.
HEAVY = ('reframe', 'polars', 'numpy', 'scipy.special', 'scipy.stats', 'pydantic', 'jinja2', 'rich.console', 'asyncio')
#: Of these ReFrame itself loads Jinja2, and the models of parity's files need pydantic.
OF_REFRAME = ['reframe', 'pydantic', 'jinja2']
REFRAME = f'{sys.exec_prefix}/bin/reframe'
#: The most calls of functions that a loaded case may add to a run, over ReFrame's list of one test of its own.
#: Python 3.11 makes 6,350, of which the code.yaml of all codes are a part; 3.13 makes some 300 more.
CALLS = 6800
#: Python reads it at its start: what the process loads and starts is a line of the file $COUNTED when it ends.
_COUNTER = f'''
import atexit, json, os, sys
counted = {{'argv': sys.orig_argv, 'started': [], 'checks': 0, 'systems': []}}
def count(event, args):
    if event in ('subprocess.Popen', 'os.fork', 'os.forkpty', 'os.posix_spawn', 'os.exec'):
        counted['started'].append(str(args and args[0]))
    elif event == 'exec' and args[0].co_filename.endswith('/stream/stream.py'):
        counted['checks'] += 1
    elif event == 'open' and str(args[0]).endswith('/system.yaml'):
        counted['systems'] = sorted({{*counted['systems'], str(args[0]).split('/')[-2]}})
def end():
    counted['modules'] = [name for name in {HEAVY} if name in sys.modules]
    with open(os.environ['COUNTED'], 'a') as file:
        file.write(json.dumps(counted) + chr(10))
sys.addaudithook(count)
atexit.register(end)
'''


class Counted:
    """A folder of results, and what the last command did there."""

    def __init__(self, folder: Path):
        self.bench, self.file = Bench(folder), folder / 'counted'
        (folder / 'sitecustomize.py').write_text(_COUNTER)
        compiled = {k: v for k, v in self.bench.environ.items() if k != 'PYTHONPYCACHEPREFIX'}     # by other tests
        self.environ = {**compiled, 'PYTHONPATH': str(folder), 'COUNTED': str(self.file),
                        'RFM_CONFIG_FILES': str(self.bench.root / 'reframe' / 'settings.py')}

    def of(self, *command: str) -> dict:
        """Run a command of Python; return the counts of its process, and all processes of Python as `pythons`."""
        self.file.unlink(missing_ok=True)
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=self.environ, cwd=self.bench.root.parent)
        assert done.returncode == 0, done.stdout + done.stderr
        lines = [json.loads(line) for line in self.file.read_text().splitlines()]
        return {**lines[-1], 'pythons': len(lines), 'printed': done.stdout}

    def calls(self, *command: str) -> Counter:
        """Run a command of Python; return how often it calls each function, by name."""
        stats = self.file.with_suffix('.calls')
        self.of('-m', 'cProfile', '-o', str(stats), *command)
        called: Counter = Counter()
        for (_, _, name), (_, times, *_) in pstats.Stats(str(stats)).stats.items():
            called[name] += times
        return called

    def parity(self, *words: str) -> dict:
        return self.of('-m', 'parity.cli', *words)

    def reframe(self, *words: str) -> dict:
        return self.of(*self.of_checks, *words)

    @property
    def of_checks(self) -> tuple[str, ...]:
        return REFRAME, '-c', str(self.bench.root / 'checks'), '--system', 'bench', '-n', '^Stream%threads=all'


@pytest.fixture(scope='module')
def counted(tmp_path_factory) -> Counted:
    made = Counted(tmp_path_factory.mktemp('counted'))
    made.reframe('-l')      # the first looks for the software of the machine
    return made


def test_help_loads_nothing_heavy_and_starts_nothing(counted):
    done = counted.parity('--help')
    assert (done['modules'], done['started'], done['pythons']) == ([], [], 1)


def test_a_list_loads_the_checks_once_one_system_and_starts_nothing(counted):
    done = counted.reframe('-l')
    assert (done['modules'], done['started'], done['checks'], done['systems'], done['pythons']) == (OF_REFRAME, [], 1, ['bench'], 1)


def test_a_run_and_its_first_verdict_load_the_checks_once_and_start_git_and_the_job(counted):
    done = counted.reframe('-r')
    assert 'This machine is measured: 4 figures' in done['printed']
    assert (done['modules'], done['checks'], done['systems'], done['pythons']) == (OF_REFRAME, 1, ['bench'], 1)
    assert [Path(program).name for program in done['started']] == ['git', 'rfm_job.sh']
    done = counted.parity('verdict')
    assert (done['modules'], done['started'], done['pythons']) == (['pydantic'], [], 1)


def test_a_night_whose_history_is_short_loads_no_polars(counted):
    for _ in range(3):
        done = counted.reframe('-r')
    assert (done['modules'], done['checks']) == (OF_REFRAME, 1)
    assert counted.parity('verdict')['modules'] == ['pydantic']


def test_reframe_repeats_for_no_case_what_it_knows_of_the_class(counted):
    called = counted.calls(*counted.of_checks, '-r')
    alone = counted.calls(REFRAME, '-C', str(counted.bench.plain / 'settings.py'), '-c', str(counted.bench.plain), '-l')
    cases = called['parity_declare']
    assert cases > 100
    assert called['_do_validate'] == 0, 'ReFrame searches the values of each case'
    assert called['stack'] <= alone['stack'], 'each case, or its perflog, gives a warning that nobody reads'
    assert called['valid_sysenv_comb'] < cases * 1.3, 'the partitions of a case are looked up twice'
    assert called['_evaluate'] == 0, 'a model of the library has annotations that are text, which pydantic compiles'
    assert (called.total() - alone.total()) / cases < CALLS
