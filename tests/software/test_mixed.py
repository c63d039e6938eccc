"""What differs between two locks, and a specification with a part of that."""

from __future__ import annotations

import json

import pytest

from parity.base.errors import NothingMeasured, UsageError
from parity.nodes import packages
from parity.nodes.experiment import Experiment, Measure, Side
from parity.software import mixed
from parity.system import systems


def lock(folder, gcc='12.2.0', blas=('openblas', '0.3.29'), **more):
    """A build whose HPL needs an MPI, a BLAS, and small libraries with versions or flags."""
    def node(name, version, *edges, external=False, **parameters):
        return {'name': name, 'version': version, 'parameters': {'cflags': [], 'patches': ['x'], **parameters},
                **({'external': {'path': '/usr'}} if external else {}),
                'dependencies': [{'name': to, 'hash': to, 'parameters': {'deptypes': types, 'virtuals': virtuals}} for to, types, virtuals in edges]}
    compiled = ('gcc', ['build'], ['c'])
    found = {'gcc': node('gcc', gcc, external=True), 'openmpi': node('openmpi', '4.1.4', external=True), 'cmake': node('cmake', '3.2', external=True),
             blas[0]: node(*blas, compiled, ('cmake', ['build'], []), threads='none', shared=True)}
    for name, (version, flags) in more.items():
        found[name] = node(name, version, compiled, cflags=flags)
    found['hpl'] = node('hpl', '2.3', compiled, ('openmpi', ['build', 'link'], ['mpi']), (blas[0], ['build', 'link'], ['blas', 'lapack']),
                        *((name, ['link'], []) for name in more), openmp=False)
    folder.mkdir(parents=True)
    (folder / 'spack.lock').write_text(json.dumps({'concrete_specs': found, 'roots': [{'hash': 'hpl', 'spec': 'hpl@2.3'}]}))
    return folder


def test_what_differs_is_told_by_version_flag_and_place(tmp_path):
    before = mixed.packages(lock(tmp_path / 'a', tiny=('1.0', []), same=('1', []), flagged=('2', ['-O3']), old=('1', [])), 'hpl')
    now = mixed.packages(lock(tmp_path / 'b', '13.1.0', ('netlib-lapack', '3.12'), tiny=('1.1', []), same=('1', []), flagged=('2', ['-O0']), new=('1', [])), 'hpl')
    assert {change.text for change in mixed.changes(before, now)} == {
        'gcc 12.2.0 -> 13.1.0', 'openblas 0.3.29 -> netlib-lapack 3.12', 'tiny 1.0 -> 1.1', 'flagged 2: cflags="-O3" -> cflags="-O0"',
        'none -> new 1', 'old 1 -> none'}
    assert mixed.changes(before, before) == []
    assert 'cmake' not in before


def test_a_mixed_environment_takes_some_packages_of_tonight(tmp_path):
    before = mixed.packages(lock(tmp_path / 'a', tiny=('1.0', []), flagged=('2', ['-O3'])), 'hpl')
    now = mixed.packages(lock(tmp_path / 'b', '13.1.0', ('netlib-lapack', '3.12'), tiny=('1.1', []), flagged=('2', ['-O0'])), 'hpl')
    assert mixed.spec_of('hpl', before, now, []) == (
        'hpl@=2.3 ~openmp %gcc@=12.2.0 ^flagged@=2 cflags="-O3" %gcc@=12.2.0 ^openblas@=0.3.29 +shared threads=none %gcc@=12.2.0 '
        '^openmpi@=4.1.4 ^tiny@=1.0 %gcc@=12.2.0')
    assert mixed.spec_of('hpl', before, now, ['openblas', 'netlib-lapack', '%gcc']) == (
        'hpl@=2.3 ~openmp %gcc@=13.1.0 ^flagged@=2 cflags="-O3" %gcc@=13.1.0 ^netlib-lapack@=3.12 +shared threads=none %gcc@=13.1.0 '
        '^openmpi@=4.1.4 ^tiny@=1.0 %gcc@=13.1.0')


LIBRARIES = ('a', 'b', 'c', 'd')


@pytest.fixture
def bisected(tmp_path, site, monkeypatch):
    """Return a bisection of four libraries, of which some slow the case down by shares, and the builds that it made."""
    one = lock(tmp_path / 'one', **dict.fromkeys(LIBRARIES, ('1.0', [])))
    other = lock(tmp_path / 'other', **dict.fromkeys(LIBRARIES, ('1.1', [])))
    sides = [Side('spack', build.name, build.name, {'packages': {'hpl': {}}, 'view': str(build / 'view' / 'bin')}) for build in (one, other)]
    experiment = Experiment('1', systems.read('local'), 'default', [Measure('Hpl.gflops@local:default', 'Hpl', 'gflops', 'higher', 0.105, 0.01)], [],
                            sides[1], sides[0])
    built: list[str] = []
    monkeypatch.setattr(mixed, 'made', lambda system, from_, spec, package: built.append(spec) or spec)

    def run(slow: dict[str, float], both: float = 0.0):
        def slower(_, spec):
            names = {name for name in LIBRARIES if f'^{name}@=1.1' in spec}
            return [sum(slow.get(name, 0) for name in names) + (both if {'a', 'b'} <= names else 0), 0, 0]
        monkeypatch.setattr(packages, '_slower', slower)
        return packages.guilty(experiment, ['hpl'], 0.10)
    return run, built, experiment


@pytest.mark.parametrize('name', LIBRARIES)
def test_one_of_four_packages_is_named_after_three_builds_at_most(bisected, name, capsys):
    run, built, _ = bisected
    assert run({name: 0.10}) == f'{name} 1.0 -> 1.1: all of it' and len(built) <= 3
    assert 'build 1 of at most 3: with a 1.0 -> 1.1; b 1.0 -> 1.1; the rest as before' in capsys.readouterr().out


def test_a_part_of_the_slowdown_is_told_and_packages_that_act_jointly_have_no_name(bisected):
    run, *_ = bisected
    assert run({'c': 0.06}) == 'c 1.0 -> 1.1: 6.0 % of 10.0 %'
    with pytest.raises(NothingMeasured, match='no single package: b 1.0 -> 1.1 alone is not slow'):
        run({}, both=0.10)


def test_software_that_spack_did_not_build_has_no_packages(bisected):
    *_, experiment = bisected
    with pytest.raises(UsageError, match='no package of Spack runs it'):
        packages.guilty(experiment, ['cc'], 0.1)
    object.__setattr__(experiment, 'before', Side('site', '/opt/a', 'x', {'prefix': '/opt/a'}))
    with pytest.raises(UsageError, match='Spack built neither.*--environ A --environ B'):
        packages.guilty(experiment, ['hpl'], 0.1)
