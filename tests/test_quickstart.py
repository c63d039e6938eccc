"""The set-up: what it refuses, what it says is missing, and that it changes nothing when told not to."""

from __future__ import annotations

import os
import stat

import pytest

from conftest import TOP, shell


def program(folder, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(f'#!/bin/sh\n{script}\n')
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


@pytest.mark.parametrize('name, prints, manager', [
    ('scontrol', 'Slurmctld(primary) at head is UP', 'Slurm'), ('qstat', 'pbs 0 0 Active', 'PBS')])
@pytest.mark.parametrize('command', ['ci/quickstart', 'ci/nightly --dry-run'])
def test_a_login_node_is_not_loaded(checkout, tmp_path, name, prints, manager, command):
    program(tmp_path / 'tools', name, f'echo "{prints}"')
    done = shell(command, checkout, PATH=f'{tmp_path / "tools"}:{os.environ["PATH"]}')
    assert done.returncode == 2 and f'a live {manager} controller answers' in done.stderr


@pytest.mark.parametrize('word, options, code', [
    ('UP', '', 2), ('UP', '--system local', 0), ('UP', '--system=local', 0), ('DOWN', '', 0)])
def test_a_system_that_is_named_and_a_dead_controller_are_no_login_node(tmp_path, word, options, code):
    program(tmp_path / 'tools', 'scontrol', f'echo "Slurmctld(primary) at head is {word}"')
    done = shell(f'. ci/lib/login-node; refuse_login_node {options}', TOP, PATH=f'{tmp_path / "tools"}:{os.environ["PATH"]}')
    assert done.returncode == code, done.stderr


def test_a_login_node_that_is_named_is_rehearsed(checkout, tmp_path):
    program(tmp_path / 'tools', 'scontrol', 'echo "Slurmctld(primary) at head is UP"')
    done = shell('ci/nightly --dry-run --system local -n Fileset', checkout, PATH=f'{tmp_path / "tools"}:{os.environ["PATH"]}')
    assert done.returncode == 0 and 'all is well' in done.stdout, done.stdout + done.stderr


LIBRARY = '''
say() { printf 'parity: %s\\n' "$*"; }
fail() { local code=$1; shift; printf 'parity: %s\\n' "$*" >&2; exit "$code"; }
. ci/lib/packages
packages=(no-such-package-of-parity)
'''


@pytest.mark.parametrize('prepare, said', [
    ('install=no', 'missing, and not installed (--no-install): no-such-package-of-parity'),
    ('install=yes; become_root() { return 1; }',
     'missing, and not installed (neither root nor sudo without a password): no-such-package-of-parity'),
    ('install=yes; become_root() { as_root=(false); }', 'could not install: no-such-package-of-parity'),
])
def test_what_cannot_be_installed_is_named_and_the_set_up_goes_on(prepare, said):
    done = shell(f'{LIBRARY}{prepare}; install_packages && echo went on', TOP)
    if 'no apt here' in done.stdout:
        pytest.skip('no apt on this machine')
    assert said in done.stdout and 'went on' in done.stdout


def test_activate_without_a_venv_says_what_to_do(checkout):
    (checkout / '.venv').unlink()
    done = shell('. ci/activate; echo $?', checkout)
    assert 'run ci/quickstart first' in done.stderr and done.stdout.strip() == '2'
    assert shell('ci/nightly --dry-run', checkout).returncode == 2


def test_activate_refuses_a_venv_that_has_the_library_of_another_checkout(checkout):
    done = shell('unset PYTHONPATH; . ci/activate; echo $?', checkout)
    assert f"{checkout}/.venv has the library {TOP}/reframe/parity, not this checkout's" in done.stderr
    assert done.stdout.strip() == '2'


def test_a_second_set_up_installs_nothing():
    done = shell('install=yes; packages=(); say() { echo "$*"; }; . ci/lib/python; python_packages; make_venv', TOP)
    assert done.returncode == 0 and done.stdout == ''
