"""What differs between two locks, and a specification with a part of that."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parity.base import files
from parity.base.errors import InfrastructureError, NothingMeasured, UsageError
from parity.base.figures import figure
from parity.cause import packages
from parity.cause.experiment import Measure, Trial, TurnSoftware
from parity.cli import software as command
from parity.judge.store import incidents
from parity.measure.software import environment, manifest, mixed, spack
from parity.nightly import doctor
from parity.site import systems


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
    sides = [TurnSoftware('spack', build.name, build.name, {'packages': {'hpl': {}}, 'view': str(build / 'view' / 'bin')}) for build in (one, other)]
    experiment = Trial('1', systems.read('local'), 'default', [Measure('Hpl.gflops@local:default', 'Hpl', 'gflops', 'higher', 0.105, 0.01)], [],
                            sides[1], sides[0])
    built: list[str] = []
    monkeypatch.setattr(mixed, 'made', lambda system, incident, from_, spec, package: built.append(spec) or spec)

    def run(slow: dict[str, float], both: float = 0.0):
        def slower(_, spec):
            names = {name for name in LIBRARIES if f'^{name}@=1.1' in spec}
            return sum(slow.get(name, 0) for name in names) + (both if {'a', 'b'} <= names else 0)
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
    object.__setattr__(experiment, 'before', TurnSoftware('site', '/opt/a', 'x', {'prefix': '/opt/a'}))
    with pytest.raises(UsageError, match='Spack built neither.*--environ A --environ B'):
        packages.guilty(experiment, ['hpl'], 0.1)


class Spack:
    """A made-up Spack: its packages by hash, each a folder of 1000 bytes, and the arguments of what it removed."""

    def __init__(self, tree: Path):
        self.tree, self.removed, self.fails = tree, [], ''

    def install(self, *names: str) -> None:
        for name in names:
            (self.tree / f'{name}-1.0-{digest(name)}' / 'bin').mkdir(parents=True, exist_ok=True)
            (self.tree / f'{name}-1.0-{digest(name)}' / 'bin' / name).write_bytes(b'x' * 1000)

    def say(self, *arguments: str) -> str:
        assert arguments[0] == '--no-env'
        if arguments[1] == 'find':
            return '\n'.join(f'{folder.name.rpartition("-")[2]} {folder}' for folder in sorted(self.tree.iterdir()))
        if self.fails:
            raise InfrastructureError(self.fails)
        self.removed += [number[1:] for number in arguments[3:]]
        return ''

    def ask(self, place, *arguments: str) -> str:
        return '\n'.join(folder.name.rpartition('-')[2] for folder in self.tree.iterdir())

    def run(self, place, what: str, *rest, steps=None) -> None:
        names = (place / 'spack.yaml').read_text().split('hpl ^')[1].split()
        if what == 'concretize':
            locked(place, *names)
        else:
            self.install(*names)
            view(place, self.tree, *names)

    def tools(self, place) -> dict:
        return {}


def digest(name: str) -> str:
    return name[0] * 32


def locked(place: Path, *names: str) -> None:
    place.mkdir(parents=True, exist_ok=True)
    specs = {digest(name): {'name': name, 'version': '1.0'} for name in names}
    (place / 'spack.lock').write_text(json.dumps({'concrete_specs': specs, 'roots': [{'hash': digest(name)} for name in names]}))


def view(place: Path, tree: Path, *names: str) -> Path:
    programs = place / 'view' / 'bin'
    programs.mkdir(parents=True)
    for name in names:
        (programs / name).symlink_to(tree / f'{name}-1.0-{digest(name)}' / 'bin' / name)
    return programs


@pytest.fixture
def built(site, tmp_path, monkeypatch):
    """Spack with the build in use (of a), and mixed builds of incident 1 (a b c) and of incident 2 (c d)."""
    made = Spack(tmp_path / 'tree')
    made.tree.mkdir()
    monkeypatch.setattr(spack, 'chosen', lambda: made)
    monkeypatch.setattr(mixed.build, 'proven', lambda place, *_: manifest.View(view=str(place / 'view' / 'bin'), files={}, packages={}))
    use = environment.of('local') / 'builds' / 'one'
    locked(use, 'a')
    made.install('a')
    view(use, made.tree, 'a')
    (use / 'spack.yaml').write_text('spack: {specs: []}')
    mixed.made('local', '1', use, 'hpl ^a b c', 'hpl')
    mixed.made('local', '2', use, 'hpl ^c d', 'hpl')
    return made, use


def test_builds_of_answered_incidents_are_removed_with_what_only_these_need(built, monkeypatch, capsys):
    made, _ = built
    assert mixed.prune('local', {'1', '2'}) == (0, 0) and not made.removed
    assert mixed.prune('local', {'2'})[0] == 1 and made.removed == [digest('b')], 'a was there before, incident 2 needs c'
    assert [place.parent.name for place in mixed.builds('local')] == ['2']
    made.fails = 'spack uninstall fails: another package needs it'
    with pytest.raises(InfrastructureError, match='another package needs it'):
        command.prune('local')
    assert mixed.builds('local'), 'it is refused whole'
    made.fails, noted = '', mixed._installed_file('local').read_text()
    for text in ('', '{', '{}', '[1]'):
        mixed._installed_file('local').write_text(text)
        with pytest.raises(UsageError, match='installed.json: no list of hashes; remove it'):
            command.prune('local')
    mixed._installed_file('local').write_text(noted)
    monkeypatch.setattr(incidents, 'of_system', lambda _: [])
    capsys.readouterr()
    command.prune('local')
    assert made.removed[1:] == [digest('c'), digest('d')] and not mixed.builds('local')
    assert capsys.readouterr().out == 'parity: local: 1 build of parity cause --packages removed: 0 MB; 0 builds are left\n'


def test_prune_removes_nothing_behind_a_link(built, tmp_path):
    theirs = tmp_path / 'theirs' / 'project'
    theirs.mkdir(parents=True)
    (theirs / 'spack.yaml').write_text('spack: {}')
    mixed.folder('local').joinpath('7').symlink_to(theirs.parent)
    mixed.folder('local').joinpath('2', 'link').symlink_to(theirs)
    assert mixed.prune('local', ())[0] == 2 and (theirs / 'spack.yaml').exists()


@pytest.mark.parametrize('at', ['_write_installed', 'rmtree'])
def test_a_prune_that_was_killed_is_done_by_the_same_command(built, monkeypatch, at):
    made, _ = built

    def killed(*_):
        raise KeyboardInterrupt
    with monkeypatch.context() as until, pytest.raises(KeyboardInterrupt):
        until.setattr(*((mixed, at) if at == '_write_installed' else (mixed.shutil, at)), killed)
        mixed.prune('local', ())
    monkeypatch.setattr(incidents, 'of_system', lambda _: [])
    command.prune('local')
    assert not mixed.builds('local') and {*made.removed} == {*map(digest, 'bcd')} and mixed._installed('local') == set()


def test_a_prune_beside_a_night_or_another_prune_is_refused(built, results, monkeypatch):
    other = files.Lock(results / '.nightly.lock', 'ci/nightly')
    other.acquire()
    monkeypatch.setattr(files, '_ours', set())      # another process holds it
    with pytest.raises(InfrastructureError, match='held by ci/nightly'):
        command.prune('local')
    assert mixed.builds('local') and not built[0].removed
    other.release()


def test_prune_leaves_the_builds_of_incidents_that_wait_for_their_package(built, monkeypatch):
    from types import SimpleNamespace
    made, _ = built
    of = [SimpleNamespace(number=1, closed=None, cause=SimpleNamespace(package='')), SimpleNamespace(number=2, closed=None, cause=SimpleNamespace(package='d'))]
    monkeypatch.setattr(incidents, 'of_system', lambda _: of)
    command.prune('local')
    assert made.removed == [digest('d')] and [place.parent.name for place in mixed.builds('local')] == ['1']


def test_doctor_counts_mixed_builds_without_what_other_builds_have(built, stored):
    _, use = built
    (finding,) = doctor._earlier(systems.read('local'), [use / 'view' / 'bin'])
    size = sum(file.lstat().st_size for name in 'bcd' for file in (built[0].tree / f'{name}-1.0-{digest(name)}').rglob('*'))
    assert finding.word == 'ok' and finding.what == (
        f'0 builds of earlier nights, of 5, and 2 of --packages kept for parity cause: {figure(size, "B")} beside the one in use')
