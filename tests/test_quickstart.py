"""The set-up: it refuses a login node, names missing packages, and changes nothing under --no-install."""

from __future__ import annotations

import os

import pytest

from conftest import TOP, shell


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """Write a program that prints a line, and put its folder at the front of PATH."""
    folder = tmp_path / 'tools'
    folder.mkdir()
    monkeypatch.setenv('PATH', f'{folder}:{os.environ["PATH"]}')

    def write(name: str, prints: str) -> None:
        (folder / name).write_text(f'#!/bin/sh\necho "{prints}"\n')
        (folder / name).chmod(0o755)
    return write


@pytest.mark.parametrize('name, prints, manager', [
    ('scontrol', 'Slurmctld(primary) at head is UP', 'Slurm'), ('qstat', 'pbs 0 0 Active', 'PBS')])
@pytest.mark.parametrize('command', ['ci/quickstart', 'ci/nightly --dry-run'])
def test_a_login_node_is_not_loaded(checkout, tool, name, prints, manager, command):
    tool(name, prints)
    done = shell(command, checkout)
    assert done.returncode == 2 and f'a live {manager} controller answers' in done.stderr


@pytest.mark.parametrize('word, options, code', [('UP', '', 2), ('UP', '--system local', 0), ('UP', '--system=local', 0), ('DOWN', '', 0)])
def test_a_named_system_or_a_dead_controller_is_not_refused(tool, word, options, code):
    tool('scontrol', f'Slurmctld(primary) at head is {word}')
    done = shell(f'. ci/lib/login-node; refuse_login_node {options}', TOP)
    assert done.returncode == code, done.stderr


def test_a_named_login_node_can_be_rehearsed(checkout, tool):
    tool('scontrol', 'Slurmctld(primary) at head is UP')
    done = shell('ci/nightly --dry-run --system local -n Fileset', checkout)
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
    ('install=yes; become_root() { as_root=(false); }', 'could not install: no-such-package-of-parity')])
def test_the_set_up_names_missing_packages_and_goes_on(prepare, said):
    done = shell(f'{LIBRARY}{prepare}; install_packages && echo went on', TOP)
    if 'no apt here' in done.stdout:
        pytest.skip('no apt on this machine')
    assert said in done.stdout and 'went on' in done.stdout


def test_activate_refuses_a_venv_that_is_absent_or_of_another_checkout(checkout):
    done = shell('unset PYTHONPATH; . ci/activate; echo $?', checkout)
    assert f"{checkout}/.venv has the library {TOP}/reframe/parity, not this checkout's" in done.stderr and done.stdout.strip() == '2'
    (checkout / '.venv').unlink()
    done = shell('. ci/activate; echo $?', checkout)
    assert 'run ci/quickstart first' in done.stderr and done.stdout.strip() == '2'
    assert shell('ci/nightly --dry-run', checkout).returncode == 2


def test_a_second_set_up_installs_nothing():
    done = shell('install=yes; packages=(); say() { echo "$*"; }; . ci/lib/python; python_packages; make_venv', TOP)
    assert done.returncode == 0 and done.stdout == ''
