"""What the tests share: a folder of results of their own, sessions made by hand, and an end of what they start."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import hypothesis
import pytest

from parity.base import codes
from parity.measure.rfm import planning
from parity.measure.rfm.planning import of_command  # whatever a test puts in its place
from parity.measure.session import runner
from parity.site import identity
from parity.site.plan import Plan

TOP = Path(__file__).resolve().parents[1]
#: Seconds after which something hangs. A loaded machine is slow: no test passes or fails by a shorter time.
PATIENCE = 3600
#: Before a command: root obeys the permissions of files.
OBEYS = 'setpriv --bounding-set=-dac_override,-dac_read_search --inh-caps=-dac_override,-dac_read_search' if os.geteuid() == 0 else ''
needs_cc = pytest.mark.skipif(not shutil.which('cc'), reason='no C compiler here')
#: In the environment of all that this process starts.
MARK = 'PARITY_TEST_WORKER'

# a push tries the same examples every time: others are tried by --full, which sets PARITY_MUTATIONS, and by hand
hypothesis.settings.register_profile('any machine', deadline=None, derandomize='PARITY_MUTATIONS' not in os.environ,
                                     suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile('any machine')

#: Files of long tests, the longest first: all begin before the others, so that no worker ends with one of them alone.
LONG = ('test_file_programs.py', 'test_foreign.py', 'test_main_job.py', 'test_studies.py', 'test_wheel.py', 'test_incidents.py',
        'test_guards.py', 'test_bad_nights.py', 'test_mutations.py', 'test_study_run.py', 'test_interruptions.py', 'test_docs.py',
        'test_rooms.py', 'test_sites.py', 'test_jobs.py', 'test_probe.py', 'test_every_page.py', 'test_counted_work.py', 'test_refs.py',
        'test_quickstart.py', 'test_ci.py', 'test_regression.py', 'test_references.py', 'test_acceptance.py', 'test_events.py',
        'test_scale.py', 'test_year.py')


def pytest_configure():
    """No controller of this machine answers a test, except one that PARITY_CLUSTER or PARITY_PBS is for."""
    os.environ[MARK] = f'{os.getpid()} {time.time()}'
    os.environ.setdefault('POLARS_MAX_THREADS', '1')    # frames are small, and other workers have the other cores
    os.environ.setdefault('RFM_POLL_RATE_MAX', '50')    # ReFrame looks after short jobs ten times a second
    os.environ.setdefault('OMPI_MCA_pml', 'ob1')        # Open MPI looks for no fabric, which takes .2 s a run
    os.fsync = lambda descriptor: None                  # the disk keeps nothing for later
    if not os.environ.get('PARITY_CLUSTER') and not os.environ.get('PARITY_PBS'):
        os.environ['SLURM_CONF'] = os.environ['PBS_CONF_FILE'] = os.devnull
        os.environ['PBS_SERVER'] = 'no-server.invalid'


@pytest.fixture(autouse=True)
def _end_of_what_the_test_started():
    """End what a failed or interrupted test left running. Most tests start no process: then nothing is listed."""
    last, before = _last_process(), _processes()
    yield
    if _last_process() == last:
        return
    mark = f'{MARK}={os.environ[MARK]}'.encode()
    while left := [pid for pid in _processes() - before if mark in _environment(pid)]:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _last_process() -> str:
    """Return the id of the process or thread that this machine started last."""
    return Path('/proc/loadavg').read_text().split()[-1]


def _processes() -> set[int]:
    return {int(name) for name in os.listdir('/proc') if name.isdecimal()}


def _environment(pid: int) -> list[bytes]:
    """Nothing of one that has ended."""
    try:
        return Path(f'/proc/{pid}/environ').read_bytes().split(b'\0')
    except OSError:
        return []


def pytest_collection_modifyitems(items):
    place = {name: number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: place.get(item.path.name, len(LONG)))


def pytest_collection_finish():
    gc.freeze()     # no test looks for garbage among what all of them loaded


@pytest.fixture(autouse=True, scope='session')
def _plans_and_rehearsals_of_a_process_that_has_loaded_reframe():
    from warm import SUBPROCESS
    with mock.patch.object(planning, 'subprocess', SUBPROCESS), mock.patch.object(runner, 'subprocess', SUBPROCESS):
        yield


@pytest.fixture
def results(tmp_path, monkeypatch) -> Path:
    """An empty results folder that parity uses instead of results/; its path has a space."""
    folder = tmp_path / 'own results'
    folder.mkdir()
    monkeypatch.setenv('PARITY_RESULTS', str(folder))
    return folder


@pytest.fixture
def mounted(tmp_path):
    """A tmpfs of 2 MB."""
    folder = tmp_path / 'disk'
    folder.mkdir()
    mount = ['mount', '-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', folder]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip('needs the right to mount a tmpfs')
    yield folder
    subprocess.run(['umount', folder], check=True)


@pytest.fixture
def stored(results):
    """A database of sessions as ReFrame has it; each begins a day after the one before."""
    from stored import Stored
    return Stored()


@pytest.fixture
def site(tmp_path, results, monkeypatch) -> Path:
    """The file of the one system, local, of an empty checkout."""
    file = tmp_path / 'systems' / 'local' / 'system.yaml'
    file.parent.mkdir(parents=True)
    shutil.copy(TOP / 'systems' / 'local' / 'system.yaml', file)
    monkeypatch.setenv('PARITY_ROOT', str(tmp_path))
    return file


@pytest.fixture
def red_at_once(site) -> None:
    """Have that system call the first bad night red, for tests of something else than the number of nights."""
    site.write_text(site.read_text().replace('partitions:', 'alarms: {nights: 1}\npartitions:', 1))


@pytest.fixture
def checkout(tmp_path, monkeypatch, surveyed) -> Path:
    """A copy of the checkout, at a path with a space, that shares .venv; its results are its own."""
    copy = copied(tmp_path)
    belong_to(copy, monkeypatch)
    surveyed(copy, copy / 'results')
    return copy


@pytest.fixture
def bare(tmp_path, monkeypatch) -> Path:
    """A checkout as ``checkout``, of the system local alone and without codes: a test brings its own check, and ReFrame
    loads no other."""
    copy = copied(tmp_path, checks=False)
    belong_to(copy, monkeypatch)
    return copy


@pytest.fixture(scope='session')
def surveyed(shared) -> Callable[..., None]:
    """Give a checkout what another one found on this machine: to try all programs takes 1.6 s of CPU. One whose PATH or
    checks differ looks again."""
    def make(folder: Path) -> None:
        from warm import reframe
        copy = copied(folder)
        with pytest.MonkeyPatch.context() as patch:
            belong_to(copy, patch)
            reframe(copy, '-c checks/memory/stream -l')

    def give(top: Path, results: Path, path: str = '') -> None:
        other = shared.once('survey', make) / 'a check out'
        (results / 'cache').mkdir(parents=True, exist_ok=True)
        for file in (other / 'results' / 'cache').glob('*.json'):
            found = json.loads(file.read_text().replace(str(other), str(top)))
            if 'codes' in found['key']:     # their files have other paths
                found['key']['codes'] = identity.digest(repr(codes._below(top / 'checks')).encode())
                found['key']['variables']['PATH'] = activated(top, path or os.environ['PATH'])
            (results / 'cache' / file.name).write_text(json.dumps(found))
    return give


def activated(top: Path, path: str) -> str:
    """PATH after `. ci/activate` of a checkout."""
    own = f'{top}/.venv/bin'
    return path if own in path.split(':') else f'{own}:{path}'


@pytest.fixture
def results_here(results, surveyed) -> Path:
    """The results folder of a test that runs ReFrame on this checkout."""
    surveyed(TOP, results)
    return results


def copied(folder: Path, *linked: str, checks: bool = True) -> Path:
    """A copy of the checkout in ``folder``, without recorded outputs; .venv and the folders ``linked`` are this
    checkout's own. Without ``checks`` it has no code, and only the system that needs none."""
    copy = folder / 'a check out'
    copy.mkdir()
    for name in ('checks', 'systems', 'reframe', 'ci', 'jobs', '.venv'):
        if name in ('.venv', *linked):
            (copy / name).symlink_to(TOP / name)
        elif name == 'checks' and not checks:
            (copy / name).mkdir()
        elif name == 'systems' and not checks:
            shutil.copytree(TOP / name / 'local', copy / name / 'local')
        else:
            # with what Python compiled, which each copy would compile anew; not with what it is just writing
            shutil.copytree(TOP / name, copy / name, ignore=shutil.ignore_patterns('*.pyc.*', 'outputs'),
                            copy_function=named_again if name == 'reframe' else shutil.copy2)
    for name in ('requirements.lock', 'pyproject.toml'):
        shutil.copy(TOP / name, copy / name)
    # other tests run beside: no figure is disturbed by them; no case is skipped where little space is free. One bad
    # night is red: a test has one night
    site = copy / 'systems' / 'local' / 'system.yaml'
    stated = site.read_text().replace('    extras:\n', '    extras:\n      others_cpus: 1000\n', 1)
    if not shutil.which('mpirun'):      # programs that are no MPI programs start without one
        stated = stated.replace('launcher: mpirun', 'launcher: local')
    keys = f'io_budget: {{night: {10**12}}}\nalarms: {{nights: 1}}\n'
    site.write_text(stated.replace('partitions:', f'{keys}partitions:', 1))
    return copy


def named_again(file: str, name: str) -> None:
    """Give a file of the library another name, as no test changes it; to copy 600 takes .2 s."""
    try:
        os.link(file, name)
    except OSError:     # another file system
        shutil.copy2(file, name)


def belong_to(copy: Path, patch: pytest.MonkeyPatch) -> None:
    """Commands are those of ``copy`` from here on."""
    patch.setenv('PYTHONPATH', str(copy / 'reframe'))
    for name in ('PARITY_RESULTS', 'PARITY_ROOT', 'RFM_CONFIG_FILES', 'RFM_SYSTEM'):
        patch.delenv(name, raising=False)


class Shared:
    """What several tests look at and none changes: made by the first of them, whichever worker runs it.

    ``environ`` is that of pytest: a test that asks may have changed its own.
    """

    def __init__(self, folder: Path):
        self._folder, self._environ = folder, dict(os.environ)

    def once(self, name: str, make: Callable[[Path], None]) -> Path:
        """The folder ``name``, which ``make`` has filled."""
        place, made = self._folder / name, self._folder / f'{name}.made'
        with open(self._folder / f'{name}.lock', 'w') as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not made.exists():
                shutil.rmtree(place, ignore_errors=True)    # of a test that failed half-way
                place.mkdir()
                with mock.patch.dict(os.environ, self._environ, clear=True):
                    make(place)
                made.touch()
        return place


@pytest.fixture(scope='session')
def shared(tmp_path_factory) -> Shared:
    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if 'PYTEST_XDIST_WORKER' in os.environ else folder) / 'shared'
    folder.mkdir(exist_ok=True)
    return Shared(folder)


@pytest.fixture(scope='session')
def planned(shared, surveyed) -> Callable[[str], Plan]:
    """The plan of `reframe -c checks -r` for a system."""
    def make(system: str, folder: Path) -> None:
        results = folder / 'results'
        surveyed(TOP, results)
        with pytest.MonkeyPatch.context() as patch:
            belong_to(TOP, patch)
            patch.setenv('PARITY_RESULTS', str(results))
            patch.setenv('PATH', activated(TOP, os.environ['PATH']))
            patch.chdir(TOP)
            made = of_command(['-c', 'checks', '-r', '--system', system])
        (folder / 'plan.json').write_text(made.model_dump_json())

    @functools.cache
    def read(system: str) -> Plan:
        folder = shared.once(f'plan of {system}', functools.partial(make, system))
        return Plan.model_validate_json((folder / 'plan.json').read_text())
    return read


@pytest.fixture(scope='session')
def rehearsed(shared, surveyed) -> Callable[[str], Path]:
    """A checkout in which `reframe -c checks/ --dry-run` ran for a system; its file `printed` is what that said."""
    def make(system: str, folder: Path) -> None:
        from warm import reframe
        copy = copied(folder)
        surveyed(copy, copy / 'results')
        with pytest.MonkeyPatch.context() as patch:
            belong_to(copy, patch)
            done = reframe(copy, f'-c checks/ --system {system} --dry-run --exec-policy=serial', RFM_COLORIZE='n')
        assert done.returncode == 0, done.stdout[-2500:] + done.stderr
        (copy / 'printed').write_text(done.stdout)

    return lambda system: shared.once(f'dry-run of {system}', functools.partial(make, system)) / 'a check out'


def eventually(what):
    """What ``what()`` answers once it is true."""
    until = time.monotonic() + PATIENCE
    while not (answer := what()):
        assert time.monotonic() < until, 'it did not happen'
        time.sleep(0.01)
    return answer


def shell(line: str, cwd: Path, **env: str) -> subprocess.CompletedProcess:
    """Run a line of bash as a person would, in ``cwd``."""
    return subprocess.run(['bash', '-c', line], cwd=cwd, capture_output=True, text=True, timeout=PATIENCE,
                          stdin=subprocess.DEVNULL, env={**os.environ, **env})


def run_python(code: str, cwd: Path, **env: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, '-c', code], cwd=cwd, capture_output=True, text=True,
                          env={**os.environ, **env}, timeout=PATIENCE)
