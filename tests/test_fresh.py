"""ci/fresh without its long steps: what it needs, what it hands on, and that it leaves nothing behind.

A stand-in for debootstrap makes the roots here. To make a real one, run ci/fresh.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess

import pytest

from conftest import PATIENCE, TOP, eventually, shell

SECRET = 'http://user:secret@proxy.invalid:3128'
#: Make a root of this machine's own programs, read-only, whose apt-get prints what it finds and fails.
DEBOOTSTRAP = '''
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


def program(folder, name: str, script: str) -> None:
    (folder / name).unlink(missing_ok=True)
    (folder / name).write_text(f'#!/bin/bash\n{script}\n')
    (folder / name).chmod(0o755)


@pytest.fixture
def roots(tmp_path, monkeypatch):
    """The empty folder for roots. The caller has settings of every kind, and stand-ins at the front of PATH."""
    for folder in ('tools', 'home/.config/pip', 'roots'):
        (tmp_path / folder).mkdir(parents=True)
    program(tmp_path / 'tools', 'debootstrap', 'exit 9')
    program(tmp_path / 'tools', 'apt-config', f'[ $1 = shell ] || echo \'Acquire::http::Proxy "{SECRET}/apt";\'')
    program(tmp_path / 'tools', 'apt-get', 'echo http://mirror.invalid/debian bookworm main')
    (tmp_path / 'home/.config/pip/pip.conf').write_text(f'[global]\nproxy = {SECRET}/conf\n')
    (tmp_path / 'ca.crt').write_text('secret certificate\n')
    for name, value in {'PATH': f'{tmp_path}/tools:{os.environ["PATH"]}', 'TMPDIR': str(tmp_path / 'roots'), 'HOME': str(tmp_path / 'home'),
                        'https_proxy': f'{SECRET}/env', 'PIP_INDEX_URL': f'{SECRET}/simple', 'OTHER': 'not handed on',
                        'SSL_CERT_FILE': str(tmp_path / 'ca.crt')}.items():
        monkeypatch.setenv(name, value)
    return tmp_path / 'roots'


@pytest.fixture
def fresh(roots):
    """Start ci/fresh where no cluster is up, whatever is up on this machine."""
    if os.geteuid() or subprocess.run(['unshare', '--mount', '--pid', '--fork', 'true'], capture_output=True).returncode:
        pytest.skip('needs root and namespaces')

    def start(before: str = 'true') -> subprocess.Popen:
        line = f'mount -t tmpfs tmpfs /run && {before} && exec ci/fresh'
        return subprocess.Popen(['unshare', '--mount', 'bash', '-c', line], cwd=TOP, stdin=subprocess.DEVNULL, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
                                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    return start


def test_without_debootstrap_or_root_it_names_what_it_needs(roots, tmp_path):
    few = tmp_path / 'few'
    few.mkdir()
    for name in ('bash', 'dirname', 'sed', 'git', 'unshare', 'setpriv', 'pivot_root', 'apt-get'):
        if found := shutil.which(name, path='/usr/sbin:/usr/bin:/sbin:/bin'):
            (few / name).symlink_to(found)
    program(few, 'sudo', 'exit 1')
    for user, reason in (('0', 'parity: no debootstrap here (Debian: debootstrap'), ('1000', 'ci/fresh needs root')):
        program(few, 'id', f'echo {user}')
        done = shell('ci/fresh', TOP, PATH=str(few))
        assert done.returncode == 4 and reason in done.stderr
    assert not list(roots.iterdir())


@pytest.mark.parametrize('before, code, reason', [
    ('mkdir /run/parity-cluster', 2, 'ci/cluster is up on this machine: ci/cluster down first'),
    ('mkdir /run/parity-pbs', 2, 'ci/pbs is up on this machine: ci/pbs down first'),
    ('true', 4, 'debootstrap made no bookworm from http://mirror.invalid/debian')])
def test_where_no_root_can_be_made_none_is_left(fresh, roots, before, code, reason):
    process = fresh(before)
    printed, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == code and reason in printed and not list(roots.iterdir())


def test_the_callers_settings_hold_in_the_root_and_none_is_kept(fresh, roots, tmp_path):
    program(tmp_path / 'tools', 'debootstrap', DEBOOTSTRAP)
    process = fresh()
    printed, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 7, printed
    for handed_on in (f'https_proxy={SECRET}/env', f'PIP_INDEX_URL={SECRET}/simple', f'Acquire::http::Proxy "{SECRET}/apt";',
                      f'proxy = {SECRET}/conf', 'secret certificate'):
        assert handed_on in printed
    root, = roots.iterdir()
    assert 'not handed on' not in printed and f'the root is kept: chroot {root} /bin/bash' in printed
    kept = subprocess.run(['grep', '-rsl', 'secret', root, '--exclude-dir=parity.git'], capture_output=True, text=True)
    assert kept.stdout == '' and str(root) not in open('/proc/mounts').read()


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_leaves_no_process_no_mount_and_no_root(fresh, roots, tmp_path, number):
    program(tmp_path / 'tools', 'debootstrap', f'mount -t tmpfs tmpfs "$3/mnt" 2>/dev/null\ntouch {tmp_path}/begun\nexec sleep 7777')
    process = fresh()
    eventually((tmp_path / 'begun').exists)
    process.send_signal(number)
    printed, _ = process.communicate(timeout=PATIENCE)      # its pipe is closed: none of its processes runs any more
    assert str(roots) not in open('/proc/mounts').read()
    if number == signal.SIGKILL:
        assert process.returncode == -9
    else:
        assert process.returncode == 4 and printed.endswith('parity: interrupted\n') and not list(roots.iterdir())
