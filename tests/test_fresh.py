"""ci/fresh without its long steps: what it needs, what it hands on, and that it leaves nothing behind.

The roots here are made by a stand-in for debootstrap. A real one is a run of ci/fresh.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess

import pytest

from conftest import PATIENCE, TOP, eventually, shell

NEEDED = ('bash', 'dirname', 'sed', 'id', 'git', 'unshare', 'setpriv', 'pivot_root', 'apt-get')
SECRET = 'http://user:secret@proxy.invalid:3128'
#: A root of this machine's own programs, read-only, whose apt-get tells what it finds and fails.
DEBOOTSTRAP = '''#!/bin/bash
[ "$*" = "--variant=minbase bookworm $3 http://mirror.invalid/debian" ] || exit 9
cd "$3" && mkdir -p proc sys dev run root etc/apt usr/local/bin || exit
echo "deb http://user:secret@mirror.invalid/debian bookworm main" >etc/apt/sources.list
for part in bin lib lib64 sbin; do ln -s usr/$part $part; done
mount --bind -o ro /usr usr && mount -t tmpfs tmpfs usr/local/bin || exit
cat >usr/local/bin/apt-get <<'THERE'
#!/bin/bash
env; cat /etc/apt/apt.conf.d/90caller /etc/apt/sources.list.d/* "$SSL_CERT_FILE" /root/.config/pip/pip.conf
exit 7
THERE
chmod +x usr/local/bin/apt-get
'''


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A folder in front of PATH, and a caller with settings of every kind."""
    folder = tmp_path / 'tools'
    folder.mkdir()
    for name, script in (('debootstrap', 'exit 9'), ('apt-config', f'[ $1 = shell ] || echo \'Acquire::http::Proxy "{SECRET}/apt";\''),
                         ('apt-get', 'echo http://mirror.invalid/debian bookworm main')):
        (folder / name).write_text(f'#!/bin/bash\n{script}\n')
        (folder / name).chmod(0o755)
    (tmp_path / 'home/.config/pip').mkdir(parents=True)
    (tmp_path / 'home/.config/pip/pip.conf').write_text(f'[global]\nproxy = {SECRET}/conf\n')
    (tmp_path / 'ca.crt').write_text('secret certificate\n')
    (tmp_path / 'roots').mkdir()
    for name, value in {'PATH': f'{folder}:{os.environ["PATH"]}', 'TMPDIR': str(tmp_path / 'roots'), 'HOME': str(tmp_path / 'home'),
                        'https_proxy': f'{SECRET}/env', 'PIP_INDEX_URL': f'{SECRET}/simple', 'OTHER': 'not handed on',
                        'SSL_CERT_FILE': str(tmp_path / 'ca.crt')}.items():
        monkeypatch.setenv(name, value)
    return folder


@pytest.fixture
def fresh(tmp_path):
    """Starts ci/fresh where no cluster is up, whatever is up on this machine."""
    if os.geteuid() or subprocess.run(['unshare', '--mount', '--pid', '--fork', 'true'], capture_output=True).returncode:
        pytest.skip('needs root and namespaces')

    def start(before: str = 'true') -> subprocess.Popen:
        line = f'mount -t tmpfs tmpfs /run && {before} && exec ci/fresh'
        return subprocess.Popen(['unshare', '--mount', 'bash', '-c', line], cwd=TOP, stdin=subprocess.DEVNULL, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
                                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    return start


def test_without_debootstrap_or_root_it_says_so(tools, tmp_path):
    (tmp_path / 'few').mkdir()
    for name in NEEDED:
        if found := shutil.which(name, path='/usr/sbin:/usr/bin:/sbin:/bin'):
            (tmp_path / 'few' / name).symlink_to(found)
    for name, said in (('id', 'echo 0'), ('sudo', 'exit 1')):
        (tmp_path / 'few' / name).unlink(missing_ok=True)
        (tmp_path / 'few' / name).write_text(f'#!/bin/bash\n{said}\n')
        (tmp_path / 'few' / name).chmod(0o755)
    done = shell('ci/fresh', TOP, PATH=str(tmp_path / 'few'))
    assert done.returncode == 4 and done.stderr.startswith('parity: no debootstrap here (Debian: debootstrap')
    (tmp_path / 'few/id').write_text('#!/bin/bash\necho 1000\n')
    done = shell('ci/fresh', TOP, PATH=str(tmp_path / 'few'))
    assert done.returncode == 4 and 'ci/fresh needs root' in done.stderr
    assert not list((tmp_path / 'roots').iterdir())


@pytest.mark.parametrize('name', ['cluster', 'pbs'])
def test_it_is_refused_while_a_cluster_is_up(fresh, tools, name, tmp_path):
    process = fresh(f'mkdir /run/parity-{name}')
    printed, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2 and f'ci/{name} is up on this machine: ci/{name} down first' in printed
    assert not list((tmp_path / 'roots').iterdir())


def test_a_root_that_cannot_be_made_is_infrastructure_and_goes(fresh, tools, tmp_path):
    process = fresh()
    printed, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 4 and 'debootstrap made no bookworm from http://mirror.invalid/debian' in printed
    assert not list((tmp_path / 'roots').iterdir())


def test_the_callers_settings_hold_in_the_root_and_none_is_kept(fresh, tools, tmp_path):
    (tools / 'debootstrap').write_text(DEBOOTSTRAP)
    process = fresh()
    printed, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 7, printed
    for said in (f'https_proxy={SECRET}/env', f'PIP_INDEX_URL={SECRET}/simple', f'Acquire::http::Proxy "{SECRET}/apt";',
                 f'proxy = {SECRET}/conf', 'secret certificate'):
        assert said in printed
    assert 'not handed on' not in printed
    root, = (tmp_path / 'roots').iterdir()
    assert f'the root is kept: chroot {root} /bin/bash' in printed
    kept = subprocess.run(['grep', '-rsl', 'secret', root, '--exclude-dir=parity.git'], capture_output=True, text=True)
    assert kept.stdout == '' and str(root) not in open('/proc/mounts').read()


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_leaves_no_process_no_mount_and_no_root(fresh, tools, tmp_path, number):
    (tools / 'debootstrap').write_text(f'#!/bin/bash\nmount -t tmpfs tmpfs "$3/mnt" 2>/dev/null\ntouch {tmp_path}/begun\nexec sleep 7777\n')
    process = fresh()
    eventually((tmp_path / 'begun').exists)
    process.send_signal(number)
    printed, _ = process.communicate(timeout=PATIENCE)      # its pipe is closed: nothing of it runs any more
    assert str(tmp_path / 'roots') not in open('/proc/mounts').read()
    if number == signal.SIGKILL:
        assert process.returncode == -9
    else:
        assert process.returncode == 4 and printed.endswith('parity: interrupted\n')
        assert not list((tmp_path / 'roots').iterdir())
