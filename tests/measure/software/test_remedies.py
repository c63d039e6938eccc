"""What brings the codes that have no program: a command that can work here, and never the one that just failed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from parity.base import codes
from parity.base.errors import UsageError
from parity.measure.software import build, environment, fetch, remedies
from parity.site import systems

BUNDLE = 'without GitHub: parity software mirror DIR elsewhere, then PARITY_SOFTWARE_BUNDLE=DIR ci/quickstart here'


@pytest.fixture
def machine(site, monkeypatch):
    """A machine that has all that Spack's builds need from the distribution."""
    monkeypatch.delenv(remedies.TRIED, raising=False)
    monkeypatch.setattr(environment, 'missing', lambda entries: [])
    monkeypatch.setattr(environment, 'owned', lambda package: '')
    (site.parents[2] / '.venv').mkdir()
    return site.parents[2]


def of_spack() -> list[str]:
    return [code.feature for code in codes.measured() if code.spack and not code.package and not code.optional]


def with_package() -> list[str]:
    return [code.feature for code in codes.measured() if code.package and not code.optional]


@pytest.mark.parametrize('user, tried, said', [
    (0, '', 'ci/quickstart (installs what lacks as root)'), (1000, '', 'as root: apt-get install '), (0, 'tried', 'as root: apt-get install ')])
def test_a_package_that_lacks_is_installed_as_root(machine, monkeypatch, user, tried, said):
    lacking = with_package()
    monkeypatch.setattr(os, 'geteuid', lambda: user)
    if tried:
        monkeypatch.setenv(remedies.TRIED, tried)
    found = remedies.next_step(systems.read('local'), lacking, lacking, ['python3'])
    assert found.startswith(said)
    if 'apt-get' in found:
        packages = {*found.partition(';')[0].split()}
        assert {'openmpi-bin', 'fio'} <= packages and 'python3-minimal' not in packages and 'without root: docs/without-root.md' in found


def test_a_package_that_is_installed_is_no_remedy(machine, monkeypatch):
    """An mpirun that does not start stays so."""
    installed = {'openmpi-bin': '5.0.7'}
    monkeypatch.setattr(environment, 'owned', lambda package: installed.get(package, ''))
    monkeypatch.setattr(os, 'geteuid', lambda: 0)
    local = systems.read('local')
    assert remedies.next_step(local, ['comms'], ['comms'], ['python3']).startswith('parity doctor --system local (')
    assert remedies.for_codes(local, {'comms': 'mpirun does not start'}, ['comms']) == {remedies.MEND: ['comms']}
    monkeypatch.setenv(remedies.TRIED, 'tried')
    assert remedies.next_step(local, ['fio', 'comms'], ['fio', 'comms'], ['python3']).startswith('as root: apt-get install fio; ')
    (machine / '.venv' / 'parity-no-spack').touch()
    assert remedies.next_step(local, ['comms'], ['comms', *of_spack()], ['python3']) == BUNDLE


@pytest.mark.parametrize('user, said', [(0, 'as root: apt-get install gfortran; '), (1000, remedies.AS_ROOT)])
def test_no_bundle_is_named_where_the_distribution_lacks_what_builds_need(machine, monkeypatch, user, said):
    monkeypatch.setattr(environment, 'missing', lambda entries: ['gfortran'])
    monkeypatch.setattr(os, 'geteuid', lambda: user)
    monkeypatch.setenv(remedies.TRIED, 'tried')
    local = systems.read('local')
    assert remedies.next_step(local, (), of_spack(), ()).startswith(said)
    (machine / '.venv' / 'parity-no-spack').touch()
    with_a_bundle = BUNDLE if user == 0 else said
    assert remedies.next_step(local, (), of_spack(), ()).startswith(with_a_bundle), 'root installs with a bundle what the builds need'
    monkeypatch.setenv('PARITY_SOFTWARE_BUNDLE', '/bundle')
    assert remedies.next_step(local, (), of_spack(), ()).startswith(said), 'there is a bundle'


@pytest.mark.parametrize('text', ['#!/bin/sh\nsleep 60\n', 'no program'])
def test_an_mpirun_that_does_not_answer_stops_no_examination(tmp_path, monkeypatch, text):
    mpirun = tmp_path / 'mpirun'
    mpirun.write_text(text)
    mpirun.chmod(0o755)
    monkeypatch.setenv('PATH', f'{tmp_path}:{os.environ["PATH"]}')
    monkeypatch.setattr(environment, 'SECONDS', .2)
    monkeypatch.setattr(environment, '_prefix_of', lambda _: Path('/usr'))
    assert isinstance(environment.missing(), list)


def test_a_code_of_spack_is_built_or_comes_in_a_bundle(machine, monkeypatch):
    local = systems.read('local')
    assert remedies.next_step(local, (), of_spack(), ()) == 'parity software build --system local'
    monkeypatch.setenv(remedies.TRIED, 'tried')
    failed = remedies.next_step(local, (), of_spack(), ())
    assert failed == 'parity doctor --system local (says why each code lacks)', 'the build failed a moment ago'
    monkeypatch.delenv(remedies.TRIED)
    refused = machine / '.venv' / 'parity-no-spack'
    refused.touch()
    assert remedies.next_step(local, (), of_spack(), ()) == BUNDLE, "Spack's host did not answer"
    os.utime(refused, (time.time() - 90000,) * 2)
    assert remedies.next_step(local, (), of_spack(), ()) == 'parity software build --system local', 'a day is over'
    assert remedies.next_step(local, (), [], ()) == ''
    monkeypatch.setattr(environment, 'missing', lambda entries: ['gfortran'])
    assert remedies.next_step(local, (), of_spack(), ()) == remedies.AS_ROOT


def test_doctor_names_the_bundle_beside_the_build(machine, monkeypatch):
    local = systems.read('local')
    looks = []
    monkeypatch.setattr(environment, 'missing', lambda entries: looks.append(entries) or [])
    found = remedies.for_codes(local, {'fio': 'no fio'}, ['fio', *of_spack()])
    assert found[remedies.AS_ROOT] == ['fio']
    assert found[f'parity software build --system local; {BUNDLE}'] == of_spack()
    assert len(looks) == 1, 'each look starts compilers and the package manager'


def test_what_the_distribution_lacks_is_said_before_spack_is_cloned(machine, monkeypatch):
    monkeypatch.setattr(environment, 'missing', lambda entries: ['gfortran'])
    monkeypatch.setattr(fetch, 'clone', lambda *_: pytest.fail('cloned'))
    monkeypatch.setattr(build.spack, 'chosen', lambda: pytest.fail('looked for a Spack'))
    with pytest.raises(UsageError, match='apt install gfortran'):
        build.locked(systems.read('local'), {})
