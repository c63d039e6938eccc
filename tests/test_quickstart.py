"""The set-up: it refuses a login node, names missing packages, and changes nothing under --no-install."""

from __future__ import annotations

import os

import pytest

from conftest import TOP, shell
from parity.base import codes

ASK = '. ci/lib/login-node; refuse_login_node'
SLURM, DEAD, PBS = ('scontrol', 'Slurmctld(primary) at head is UP'), ('scontrol', 'Slurmctld(primary) at head is DOWN'), ('qstat', 'pbs 0 0 Active')


@pytest.mark.parametrize('line, controller, code, said', [
    ('ci/quickstart', SLURM, 2, 'a live Slurm controller answers'), ('ci/nightly --dry-run', PBS, 2, 'a live PBS controller answers'),
    (ASK, SLURM, 2, 'name the system'), (ASK, DEAD, 0, ''), (f'{ASK} --system local', SLURM, 0, ''), (f'{ASK} --system=local', SLURM, 0, ''),
    ('ci/nightly --dry-run --system local -n Fileset', SLURM, 0, 'all is well')])
def test_a_login_node_is_loaded_only_by_name(checkout, tmp_path, line, controller, code, said):
    name, prints = controller
    (tmp_path / name).write_text(f'#!/bin/sh\necho "{prints}"\n')
    (tmp_path / name).chmod(0o755)
    done = shell(line, checkout, PATH=f'{tmp_path}:{os.environ["PATH"]}')
    assert done.returncode == code and said in done.stdout + done.stderr, done.stdout + done.stderr


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


def test_activate_warns_of_a_venv_that_was_made_from_another_lock(checkout):
    assert not shell('. ci/activate', checkout).stderr
    (checkout / 'requirements.lock').write_text('# another\n')
    done = shell('. ci/activate && which parity', checkout)
    assert done.returncode == 0 and 'was made from another requirements.lock' in done.stderr and 'ci/venv makes it anew' in done.stderr


def test_a_second_set_up_installs_nothing():
    done = shell('say() { echo "$*"; }; . ci/lib/python; find_python; make_venv; add_test_tools', TOP)
    assert done.returncode == 0 and done.stdout == ''


def test_applications_are_installed_when_asked_for_and_required_only_by_name():
    apps = [code for code in codes.every() if code.optional]
    done = shell('. ci/lib/python; optional_packages', TOP)
    assert apps and done.stdout.split() == [code.package for code in apps]
    assert not {code.feature for code in apps} & {*codes.offered_by('distro'), *codes.offered_by('spack')}
    assert {code.feature for code in apps} <= {*codes.features()}
    for wrong in ('--with', '--with aps', '--with=aps'):
        done = shell(f'ci/quickstart {wrong}', TOP)
        assert done.returncode == 2 and 'valid is --with apps' in done.stderr
