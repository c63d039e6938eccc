"""Results that several login nodes and users share: real nights, with host names, disks and users of their own."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from conftest import PATIENCE, TOP, eventually, shell
from jobs import start

pytestmark = pytest.mark.full
NIGHT = "ci/nightly --system local --repeats {} -n 'FileCopy%mode=small-write%clients=one%sync=durable'"
ENTER = ['unshare', *(['--map-root-user'] if os.geteuid() else []), '--uts', '--mount', '--pid', '--fork', '--mount-proc', '--kill-child']


@pytest.fixture
def login():
    """A line of bash on a login node of its own: its host name, mounts and process ids are its own."""
    def line(name: str, text: str) -> str:
        return f'. ci/activate; exec {" ".join(ENTER)} bash -c "hostname {name}; {text}"'
    if shell(line('login1', 'true'), TOP).returncode:
        pytest.skip('needs the right to make namespaces (root, or unprivileged user namespaces)')
    return line


@contextlib.contextmanager
def slow(results: Path):
    """Hold the locks of the results for 7 s more, as a slow file system does: SQLite by itself waits for 5 s."""
    with open(results / '.db.lock', 'a') as lock, contextlib.closing(sqlite3.connect(results / 'results.db')) as base:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        base.execute('BEGIN EXCLUSIVE')
        yield
        time.sleep(3)
        fcntl.lockf(lock, fcntl.LOCK_UN)
        time.sleep(7)
        base.rollback()


def measured(results: Path) -> int:
    """How many cases have finished."""
    log = results / 'perflogs' / 'local' / 'default' / 'FileCopy.log'
    return len(log.read_text().splitlines()) - 1 if log.exists() else 0


def test_two_login_nodes_of_one_results_folder(results, login):
    first = start(login('login1', NIGHT.format(50)), TOP)
    eventually(lambda: measured(results) >= 2)
    os.killpg(first.pid, signal.SIGSTOP)        # it is there, however long the other takes
    refused = shell(login('login2', NIGHT.format(1)), TOP)
    assert refused.returncode == 4 and 'held by ci/nightly (pid 1 on login1): it is measuring now' in refused.stderr
    assert not refused.stdout and len(refused.stderr.splitlines()) == 1
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()

    finished = measured(results)
    number = next((results / 'running').glob('*.json')).stem
    second = start(login('login2', NIGHT.format(1)), TOP)
    eventually(lambda: measured(results) > finished)
    with slow(results):
        pass
    printed = second.communicate(timeout=PATIENCE)[0]
    assert second.returncode == 0 and re.search(rf'session {number}, begun by process \d+ on login1, is left alone', printed), printed
    taken = shell(login('login2', f'parity merge --recover {number}'), TOP)
    assert f'recovered {finished} finished cases from the perflogs; what it left running elsewhere is not ended' in taken.stdout, taken
    assert not list((results / 'running').iterdir())
    one, other = (json.loads(shell(login(name, 'parity verdict --json'), TOP).stdout)['cells'] for name in ('login1', 'login2'))
    assert one == other and any(cell['value'] is not None for cell in one)


def test_a_quota_that_is_full_from_the_midst_of_a_night_on(results, login, tmp_path):
    """The night names what had no room, and the next one is stored."""
    script = tmp_path / 'script'
    script.write_text(f'''mount -t tmpfs -o size=200m tmpfs "$PARITY_RESULTS" || exit 9
({NIGHT.format(5)} 2>&1; echo "code $?") & cd "$PARITY_RESULTS"
while kill -0 $! 2>/dev/null; do [ "$(cat perflogs/local/default/*.log 2>/dev/null | wc -l)" -le 1 ] || cat /dev/zero >>fill; sleep 0.05; done 2>/dev/null
rm fill; cd "$OLDPWD"; {NIGHT.format(1)} 2>&1; echo "code $?"
''')
    done = shell(login('login1', f"bash '{script}'"), TOP)
    full, code, after, code_after, _ = re.split(r'^code (\d)\n', done.stdout, flags=re.M)
    assert code == '4' and f'{results}/results.db: ReFrame did not store the session: the next run recovers this session' in full, full
    assert 'No space left on device' in full and 'Traceback' not in done.stdout + done.stderr
    assert code_after == '0' and re.search(r'was killed: recovered [1-5] finished cases? from the perflogs', after) and 'session stored' in after, after


@pytest.fixture
def user(monkeypatch):
    """A line of bash as a Unix user of the group games, with a umask; ``user.folder`` is one of that group's."""
    if os.geteuid():
        pytest.skip('needs root: it measures as other users')
    with tempfile.TemporaryDirectory(dir='/tmp') as top:
        os.chmod(top, 0o755)

        def line(name: str, mask: str, text: str, results: str = 'group') -> subprocess.CompletedProcess:
            home = Path(top, name)
            home.mkdir(exist_ok=True)
            shutil.chown(home, name)
            dropped = f'setpriv --reuid {name} --regid games --clear-groups --inh-caps=-all --bounding-set=-all'
            return shell(f'exec {dropped} bash -c \'umask {mask}; . ci/activate && {text}\'', TOP, HOME=str(home), PARITY_RESULTS=f'{top}/{results}')
        for folder, mode in (('group', 0o2775), ('other', 0o777)):
            Path(top, folder).mkdir()
            shutil.chown(Path(top, folder), group='games')
            Path(top, folder).chmod(mode)
        if line('daemon', '022', 'true').returncode:
            pytest.skip('the checkout is not readable by others')
        yield line


def test_a_group_measures_into_one_folder_and_no_other_reads_it_under_umask_077(user):
    night = NIGHT.format(1).replace("'", '"')
    for name in ('daemon', 'bin'):
        done = user(name, '002', night)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert len(user('daemon', '002', 'reframe --list-stored-sessions').stdout.split('yes')) == 3, 'both are stored'
    assert user('daemon', '077', night, 'other').returncode == 0
    for line in ('parity verdict', night):
        refused = user('bin', '022', line, 'other')
        assert refused.returncode == 4 and re.fullmatch(r'parity: \S+/other/results.db: Permission denied.*\n', refused.stderr), refused.stderr
