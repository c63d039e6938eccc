"""The scripts of ci/: ci/test, ci/fresh without its long steps, and the files of ci/pipelines.

A stand-in for debootstrap makes the roots of ci/fresh here. To make a real one, run ci/fresh.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
import yaml

from conftest import PATIENCE, TOP, copied, eventually, shell
from jobs import own_venv


def program(file, script: str):
    """Write a program."""
    file.unlink(missing_ok=True)
    file.write_text(f'#!/bin/bash\n{script}\n')
    file.chmod(0o755)


def start(*command: object, **options) -> subprocess.Popen:
    """Start a script in a session of its own, in which Ctrl-C works."""
    return subprocess.Popen([str(word) for word in command], cwd=TOP, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **options)


def ended(process: subprocess.Popen, code: int) -> str:
    """Wait for a script, which must end with ``code``; return its output."""
    printed, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, printed
    return printed


def begun(process: subprocess.Popen, folder: Path) -> None:
    """Wait until a script has made the file ``begun``; fail with its output where it ends before."""
    eventually(lambda: (folder / 'begun').exists() or process.poll() is not None)
    assert process.poll() is None, process.communicate()[0]


# ---- ci/test

SECONDS = f'7777.{os.getpid()}'
#: One test fails, one passes; each leaves a process behind, in a session of its own. A push leaves the third out.
FAILS = f'''
import os, subprocess, pytest
def leave():
    subprocess.Popen(['sleep', '{SECONDS}'], start_new_session=True)
@pytest.mark.alone
def test_alone():
    leave()
    assert False
def test_beside():
    leave()
    assert 'PARITY_CLUSTER' not in os.environ
@pytest.mark.full
def test_long():
    assert False
'''
#: Its test writes BEGUN when it has started two processes.
HANGS = f'''
import subprocess
def test_hangs():
    subprocess.run(['bash', '-c', 'sleep {SECONDS} & sleep {SECONDS} & touch BEGUN; wait'], start_new_session=True)
'''


def running() -> int:
    """Count the processes that a planted test started."""
    words = ['grep', '-lszx', SECONDS, *glob.glob('/proc/[0-9]*/cmdline')]
    return len(subprocess.run(words, capture_output=True).stdout.split())


@pytest.fixture(scope='module')
def begin(tmp_path_factory):
    """Runs ci/test on one planted file, in a checkout whose linters do nothing."""
    copy = copied(tmp_path_factory.mktemp('unlinted'), 'reframe', 'checks')
    own_venv(copy)
    shutil.copy(TOP / 'requirements-test.lock', copy)
    (copy / 'dev').mkdir()
    (copy / 'dev' / 'density.py').write_text('import sys\nprint("counted:", *sys.argv[1:])\n')
    for name in ('lint-imports', 'shellcheck'):
        program(copy / '.venv' / 'bin' / name, '')

    def run(folder, text: str, workers: int, ruff: str = '') -> subprocess.Popen:
        (folder / 'test_planted.py').write_text(text)
        program(copy / '.venv' / 'bin' / 'ruff', ruff)
        path = f'{copy}/.venv/bin:{os.environ["PATH"]}'
        return start(copy / 'ci' / 'test', '-p', 'no:cacheprovider', f'-n{workers}', folder, env={**os.environ, 'PATH': path, 'PARITY_CLUSTER': '1'})
    return run


def test_a_failed_part_hides_no_later_one_a_push_leaves_out_full_and_no_process_stays(begin, tmp_path):
    printed = ended(begin(tmp_path, FAILS, 0), 1)
    assert '1 failed' in printed and '1 passed, 2 deselected' in printed
    assert 'counted: reframe/parity checks' in printed
    assert printed.count('left running by the tests, ended: sleep') == 2 and not running()


def test_what_a_linter_finds_is_printed_and_fails_a_run_whose_tests_pass(begin, tmp_path):
    printed = ended(begin(tmp_path, 'def test_passes():\n    pass\n', 0, ruff='echo a fault; exit 1'), 1)
    assert 'a fault\n' in printed and '1 passed' in printed


@pytest.mark.parametrize('number, whole_group, workers', [(signal.SIGINT, True, 2), (signal.SIGTERM, False, 0)], ids=['Ctrl-C', 'kill'])
def test_an_interrupted_run_leaves_no_process(begin, tmp_path, number, whole_group, workers):
    process = begin(tmp_path, HANGS.replace('BEGUN', str(tmp_path / 'begun')), workers)
    begun(process, tmp_path)
    eventually(lambda: running() == 2)      # a process that bash has begun may not yet be `sleep`
    os.killpg(process.pid, number) if whole_group else process.send_signal(number)
    printed = ended(process, 128 + number)
    assert not running(), printed


@pytest.mark.parametrize('option', ['--nonsense', '--ful'])
def test_an_option_that_pytest_does_not_know_runs_no_test(option):
    done = subprocess.run([TOP / 'ci' / 'test', option], capture_output=True, text=True)
    assert done.returncode == 2 and f'unrecognized arguments: {option}' in done.stderr and 'passed' not in done.stdout


OLD = 'case "$*" in -V) echo Python 3.6.15 ;; *) exit 0 ;; esac'
BARE = 'case "$*" in *ensurepip*) exit 1 ;; -V) echo Python 3.11.2 ;; *) echo "$0" ;; esac'
#: For a login shell: it takes the place of the machine's own `module`, which Lmod defines by BASH_ENV, too.
MODULES = 'unset BASH_ENV\nmodule() { printf "/apps:\\npython/3.6.8\\npython/3.9.1\\npython/3.11.4(default)\\nmpi4py/3.1.4\\n" >&2; }\n'


@pytest.mark.parametrize('script', ['ci/quickstart', 'ci/test', 'ci/venv'])
@pytest.mark.parametrize('python, beside, said', [
    (None, 'pacman', ("no Python 3.10 or later here: no python3 on PATH", "install one as root: the distribution's python3 with venv")),
    (OLD, 'dnf', ('/python3 is Python 3.6.15', 'install one as root: dnf install python3.11 ')),
    (OLD, 'zypper', ('/python3 is Python 3.6.15', 'install one as root: zypper install python311 ')),
    (OLD, 'module', ('load one: module load python/3.11.4 (module avail python has python/3.11.4)\n',)),
    (BARE, 'dnf', ('no venv here: ', 'without its modules venv and ensurepip'))], ids=['none', 'RHEL', 'SLES', 'modules', 'no venv'])
def test_a_machine_without_a_python_for_parity_learns_what_to_load_or_install(tmp_path, script, python, beside, said):
    for name in ('bash', 'dirname', 'sed', 'cat', 'timeout', 'sort', 'id', 'find'):
        (tmp_path / name).symlink_to(shutil.which(name))
    program(tmp_path / beside, 'exit 1')
    if python:
        program(tmp_path / 'python3', python)
    if beside == 'module':
        (tmp_path / '.bash_profile').write_text(MODULES)
    done = subprocess.run([shutil.which('bash'), TOP / script], capture_output=True, text=True, env={'PATH': str(tmp_path), 'HOME': str(tmp_path)})
    assert done.returncode == 4 and 'installing' not in done.stdout and 'step 2' not in done.stdout
    assert all(text in done.stderr for text in said), done.stderr
    assert "or without root: put any Python 3.10 or later" in done.stderr


# ---- ci/fresh

SECRET = 'http://user:secret@proxy.invalid:3128'
#: Make a root of this machine's own programs, read-only, whose apt-get prints what it finds and fails.
DEBOOTSTRAP = '''
[ "$*" = "--variant=minbase RELEASE $3 http://mirror.invalid/debian" ] || exit 9
cd "$3" && mkdir -p proc sys dev run root etc/apt usr/local/bin || exit
echo "deb http://user:secret@mirror.invalid/debian bookworm main" >etc/apt/sources.list
for part in bin lib lib64 sbin; do ln -s usr/$part $part; done
mount --bind -o ro /usr usr && mount -t tmpfs tmpfs usr/local/bin || exit
cat >usr/local/bin/apt-get <<'THERE'
#!/bin/bash
env; cat /etc/apt/apt.conf.d/90caller /etc/apt/sources.list "$SSL_CERT_FILE" /root/.config/pip/pip.conf
exit 7
THERE
chmod +x usr/local/bin/apt-get
'''


@pytest.fixture
def roots(tmp_path, monkeypatch):
    """The empty folder for roots. The caller has settings of every kind, and stand-ins at the front of PATH."""
    for folder in ('tools', 'home/.config/pip', 'roots'):
        (tmp_path / folder).mkdir(parents=True)
    program(tmp_path / 'tools' / 'debootstrap', 'exit 9')
    program(tmp_path / 'tools' / 'apt-config', f'[ $1 = shell ] || echo \'Acquire::http::Proxy "{SECRET}/apt";\'')
    program(tmp_path / 'tools' / 'apt-get', 'echo bookworm main http://mirror.invalid/debian')
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

    return lambda before='true', release='': start('unshare', '--mount', 'bash', '-c',
                                                   f'mount -t tmpfs tmpfs /run && {before} && exec ci/fresh {release}')


def test_without_debootstrap_or_root_it_names_what_it_needs(roots, tmp_path):
    few = tmp_path / 'few'
    few.mkdir()
    for name in ('bash', 'dirname', 'sed', 'git', 'unshare', 'setpriv', 'pivot_root', 'apt-get'):
        if found := shutil.which(name, path='/usr/sbin:/usr/bin:/sbin:/bin'):
            (few / name).symlink_to(found)
    program(few / 'sudo', 'exit 1')
    for user, reason in (('0', 'parity: no debootstrap here (Debian: debootstrap'), ('1000', 'ci/fresh needs root')):
        program(few / 'id', f'echo {user}')
        done = shell('ci/fresh', TOP, PATH=str(few))
        assert done.returncode == 4 and reason in done.stderr
    assert not list(roots.iterdir())


@pytest.mark.parametrize('before, code, reason', [
    ('mkdir /run/parity-cluster', 2, 'ci/cluster is up on this machine: ci/cluster down first'),
    ('mkdir /run/parity-pbs', 2, 'ci/pbs is up on this machine: ci/pbs down first'),
    ('true', 4, 'debootstrap made no bookworm from http://mirror.invalid/debian')])
def test_where_no_root_can_be_made_none_is_left(fresh, roots, before, code, reason):
    assert reason in ended(fresh(before), code) and not list(roots.iterdir())


@pytest.mark.parametrize('release', ['bookworm', 'trixie'])
def test_the_callers_settings_hold_in_the_root_of_a_release_and_none_is_kept(fresh, roots, tmp_path, release):
    program(tmp_path / 'tools' / 'debootstrap', DEBOOTSTRAP.replace('RELEASE', release))
    printed = ended(fresh(release=release), 7)
    assert f'http://mirror.invalid/debian {release} main\n' in printed
    for handed_on in (f'https_proxy={SECRET}/env', f'PIP_INDEX_URL={SECRET}/simple', f'Acquire::http::Proxy "{SECRET}/apt";',
                      f'proxy = {SECRET}/conf', 'secret certificate'):
        assert handed_on in printed
    root, = roots.iterdir()
    assert 'not handed on' not in printed and f'the root is kept: chroot {root} /bin/bash' in printed
    kept = subprocess.run(['grep', '-rsl', 'secret', root, '--exclude-dir=parity.git'], capture_output=True, text=True)
    assert kept.stdout == '' and str(root) not in open('/proc/mounts').read()


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_leaves_no_process_no_mount_and_no_root(fresh, roots, tmp_path, number):
    program(tmp_path / 'tools' / 'debootstrap', f'mount -t tmpfs tmpfs "$3/mnt" 2>/dev/null\ntouch {tmp_path}/begun\nexec sleep 7777')
    process = fresh()
    begun(process, tmp_path)
    process.send_signal(number)
    printed, _ = process.communicate(timeout=PATIENCE)      # its pipe is closed: none of its processes runs any more
    assert str(roots) not in open('/proc/mounts').read()
    if number == signal.SIGKILL:
        assert process.returncode == -9
    else:
        assert process.returncode == 4 and printed.endswith('parity: interrupted\n') and not list(roots.iterdir())


# ---- ci/pipelines

PIPELINES = TOP / 'ci' / 'pipelines'
#: The lines that cron hands to sh: each follows five fields of time.
CRON = re.findall(r'^(?:[\d*,/-]+ ){5}(.*)$', (PIPELINES / 'parity.crontab').read_text(), re.M)


def run_tool(name: object, *words: object, install: str = '', **options) -> subprocess.CompletedProcess:
    """Run a tool; skip the test where it is absent."""
    found = shutil.which(name, path=f'{TOP}/.venv/bin:{os.environ["PATH"]}:/usr/sbin')
    if not found:
        pytest.skip(f'{name} is not here: {install}')
    return subprocess.run([found, *map(str, words)], capture_output=True, text=True, timeout=PATIENCE, **options)


@pytest.mark.parametrize('code, mail', [(0, ''), (1, 'exit code 1\nasked: --system x --time-limit 8\nproblem\n'),
                                        (4, 'exit code 4\nasked: --system x --time-limit 8\nproblem\n')])
def test_cron_mails_only_a_night_that_did_not_end_well(tmp_path, code, mail):
    nightly = tmp_path / 'check out' / 'ci' / 'nightly'
    nightly.parent.mkdir(parents=True)
    program(nightly, f'echo "asked: $*"\necho problem >&2\nexit {code}')
    command = tmp_path / 'check out' / '.venv' / 'bin' / 'parity'
    command.parent.mkdir(parents=True)
    program(command, 'echo noise\necho "$@" >"$CHECKOUT/exported"')
    done = run_tool('sh', '-c', CRON[0], env={'PATH': '/usr/bin:/bin', 'CHECKOUT': str(tmp_path / 'check out'), 'SYSTEM': 'x', 'TMPDIR': str(tmp_path)})
    assert done.stdout + done.stderr == mail
    assert len(CRON) == 2 and '%' not in ''.join(CRON)        # which cron takes for a line break
    assert [p.name for p in tmp_path.iterdir()] == ['check out']
    top = tmp_path / 'check out'
    assert (top / 'exported').read_text() == f'export --openmetrics {top}/results/metrics/parity.prom\n', 'however it ended'


def test_shellcheck_accepts_all_lines(tmp_path):
    gitlab, github = (yaml.safe_load((PIPELINES / name).read_text()) for name in ('gitlab-ci.yml', 'github-actions.yml'))
    lines = CRON + [line for job in gitlab.values() for key in ('before_script', 'script', 'after_script') for line in job.get(key, ())]
    lines += [step['run'] for job in github['jobs'].values() for step in job['steps'] if 'run' in step]
    assert len(lines) >= 10
    (tmp_path / 'lines').write_text('#!/bin/sh\n' + '\n'.join(lines) + '\n')
    done = run_tool('shellcheck', '-e', 'SC2154', tmp_path / 'lines', install='apt install shellcheck')      # variables of the file itself
    assert done.returncode == 0, done.stdout


def test_the_timer_s_unit_exports_however_the_night_ended():
    """ExecStartPost would run after exit code 0 only."""
    service = (PIPELINES / 'parity-nightly@.service').read_text()
    assert 'ExecStopPost=-%h/parity/.venv/bin/parity export --openmetrics %h/parity/results/metrics/parity.prom\n' in service


def test_systemd_accepts_the_units(tmp_path):
    files = [tmp_path / f'parity-nightly@onebox.{kind}' for kind in ('service', 'timer')]
    for file in files:
        file.write_text((PIPELINES / file.name.replace('onebox', '')).read_text().replace('%h/parity', str(TOP)))
    done = run_tool('systemd-analyze', 'verify', '--man=no', *files, install='apt install systemd')
    assert (done.returncode, done.stderr) == (0, '')
