"""Several environments of Spack in one system: targets, toolchains, locks, views and what they share."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import yaml
from test_software import script
from test_spackenv import BUILD, CONCRETIZER, FACTS, LOCK, SPACK, asks_for

from conftest import TOP, run_python, shell
from parity.base import files
from parity.base.errors import InfrastructureError, UsageError
from parity.cli import software
from parity.measure.machine import procfs
from parity.measure.session import assemble
from parity.measure.software import build, discover, environment, launcher, manifest, spack, steps, target
from parity.site import systems

ENTRIES = '''spack:
- {name: spack}
- {name: v3, target: x86_64_v3, compiler: gcc@12, codes: [hpl], variants: {hpl: 'cflags="-O2"'}}
- {name: mpich, mpi: mpich, blas: netlib-lapack, partitions: [default], env_vars: [[SLURM_MPI_TYPE, pmi2]]}
'''
AVX2 = frozenset(target.features('x86_64_v3'))


@pytest.fixture
def stated(site, tmp_path, monkeypatch):
    """State environments in the system `local` of a checkout of its own, with a Spack that is a script."""
    monkeypatch.setattr(launcher, 'here', lambda env: '')
    monkeypatch.delenv(spack.VARIABLE, raising=False)
    shutil.copy(TOP / 'spack.yaml', site.parents[2])
    (site.parent / 'spack').mkdir()
    script(tmp_path / 'a spack' / 'bin' / 'spack', SPACK)
    concretizer = CONCRETIZER.replace("'zen3'", "'x86_64_v3'")
    for name, value in (('SPACK_ROOT', str(tmp_path / 'a spack')), ('PYTHON', os.sys.executable), ('CONCRETIZER', concretizer)):
        monkeypatch.setenv(name, value)

    def state(text: str = ENTRIES):
        site.write_text(site.read_text().replace('environments: []\n', f'environments: []\n{text}'))
        return systems.read('local').model_copy(update={'detect': False})

    return state


def asked(system, name: str) -> dict:
    entry, = build.chosen(system, [name])
    return yaml.safe_load((environment.write(system, FACTS, entry=entry) / 'spack.yaml').read_text())['spack']


def test_an_environment_asks_spack_for_its_target_toolchain_codes_and_variants(stated):
    system = stated()
    assert 'packages' not in asked(system, 'spack') and len(asked(system, 'spack')['specs']) > 8
    v3, mpich = asked(system, 'v3'), asked(system, 'mpich')
    assert v3['specs'] == ['hpl@2.3 cflags="-O2"'] and v3['concretizer']['targets'] == {'host_compatible': False}
    assert v3['packages'] == {'all': {'require:': ['target=x86_64_v3']}, **{of: {'require:': ['gcc@12']} for of in ('c', 'cxx', 'fortran')}}
    assert mpich['packages'] == {'mpi': {'require:': ['mpich']}, **{of: {'require:': ['netlib-lapack']} for of in ('blas', 'lapack')}}
    assert len(mpich['specs']) == len(asked(system, 'spack')['specs'])


@pytest.mark.parametrize('line, words, spec', [
    ('hpl@2.3', 'cflags="-O2 -g"', 'hpl@2.3 cflags="-O2 -g"'),
    ('npb@3.4.3 implementation=mpi classes:=A,B,C', 'classes:=A', 'npb@3.4.3 implementation=mpi classes:=A'),
    ('stream@git.67=5.10 +openmp cflags="-O2 -g" size=8', 'cflags="-O3" ~openmp', 'stream@git.67=5.10 size=8 cflags="-O3" ~openmp'),
    ('osu@7.4 +cuda', '+rocm ^cuda@12 ~cuda', 'osu@7.4 +cuda +rocm ^cuda@12 ~cuda')])
def test_a_variant_of_an_environment_replaces_the_one_of_spack_yaml(line, words, spec):
    assert environment._with_variants(line, words) == spec


def test_an_environment_has_a_scope_of_its_own_before_that_of_the_system(stated):
    system = stated()
    shared = environment.scope('local')
    (shared / 'packages.yaml').write_text('packages: {}')
    (shared / 'v3').mkdir()
    (shared / 'v3' / 'packages.yaml').write_text('packages: {}')
    assert asked(system, 'v3')['include'] == [str(shared / 'v3'), str(shared)] and asked(system, 'mpich')['include'] == [str(shared)]
    places = [environment.write(system, FACTS, entry=entry) for entry in system.builds]
    before = [environment.inputs(place) for place in places]
    (shared / 'v3' / 'packages.yaml').write_text('packages: {all: {}}')
    after = [environment.inputs(place) for place in places]
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, False, True]
    assert len({*places}) == 3


@pytest.mark.parametrize('text, said', [
    ('spack:\n- {name: one}\n- {name: one, mpi: mpich}\n', r"system\.yaml:\d+: spack: 'one' is the name of two environments"),
    ('spack:\n- {name: one}\n- {name: one-gpu}\n', r"system\.yaml:\d+: spack: 'one-gpu' is the name of two environments"),
    ('spack:\n- {name: one, partitions: [elsewhere]}\n', r"spack: one: unknown partition 'elsewhere'; valid: default"),
    ('spack:\n- {name: one, mpi: "mpich; rm"}\n', r'system\.yaml:\d+: spack\.0\.mpi')])
def test_a_wrong_environment_is_refused_with_its_line(stated, text, said):
    with pytest.raises(UsageError, match=said):
        stated(text)


@pytest.mark.parametrize('text, name, said', [
    ('spack:\n- {name: one, codes: [pingpong]}\n', 'one', "spack: one: unknown code of spack.yaml 'pingpong'; valid: .*hpl"),
    ('spack:\n- {name: one, target: zen33}\n', 'one', r"system\.yaml:\d+: unknown target 'zen33'; did you mean 'zen3'"),
    (ENTRIES, 'two', "unknown environment of Spack 'two'; valid: mpich, spack, v3")])
def test_a_build_of_what_is_not_there_is_refused(stated, text, name, said):
    with pytest.raises(UsageError, match=said):
        build.build_all(stated(text), FACTS, environs=[name])


def built(system, monkeypatch) -> None:
    asks_for('hpl@2.3')
    monkeypatch.setattr(procfs, 'flags', lambda tree: AVX2)
    build.build_all(system, FACTS)


def test_each_environment_has_its_lock_view_and_name_and_what_is_equal_is_counted(stated, monkeypatch, capsys):
    system = stated()
    built(system, monkeypatch)
    views = {name: manifest.read('local', name).view for name in ('spack', 'v3', 'mpich')}
    assert len({*views.values()}) == 3
    assert sorted(file.relative_to(environment.scope('local')).as_posix() for file in environment.scope('local').rglob('spack.lock')) == [
        'mpich/spack.lock', 'spack.lock', 'v3/spack.lock']
    environs = {environ['name']: environ for environ in (assemble._environment(system, each) for each in assemble._built(system))}
    assert [*environs] == ['spack', 'v3', 'mpich'] and all(environ['features'] == ['hpl'] for environ in environs.values())
    assert ['SLURM_MPI_TYPE', 'pmi2'] in environs['mpich']['env_vars'] and 'target' not in environs['spack']['extras']
    assert environs['v3']['extras']['target'][0] == 'x86_64_v3' and 'avx2' in environs['v3']['extras']['target']
    capsys.readouterr()
    assert software.status('local', False) == 0
    said = capsys.readouterr().out
    assert 'v3; for every partition; target x86_64_v3; compiler gcc@12' in said and 'mpich; for default; mpi mpich' in said
    assert '2 packages, 2 of them also of spack' in said and '2 packages, 1 of them also of spack, mpich' in said
    assert software.status('local', True) == 0 and [*json.loads(capsys.readouterr().out)] == ['spack', 'v3', 'mpich']
    build.build_all(system, FACTS)
    assert capsys.readouterr().out.count('nothing to build') == 3


def test_the_columns_of_status_are_as_wide_as_their_longest_names(stated, monkeypatch, capsys):
    system = stated()
    built(system, monkeypatch)
    made = manifest.read('local', 'mpich')
    hpl = made.packages['hpl'].model_copy(update={'compiler': 'intel-oneapi-compilers 2025.1.0', 'mpi': 'mpich 4.0.2', 'blas': 'netlib-lapack 3.11.0'})
    npb = hpl.model_copy(update={'spec': 'npb@3.4.3', 'blas': '', 'mpi': ''})
    files.write(manifest.file_of('local', 'mpich'), made.model_copy(update={'packages': {'hpl': hpl, 'npb': npb}}).model_dump_json())
    capsys.readouterr()
    software.status('local', False)
    *_, one, other = [line for line in capsys.readouterr().out.splitlines() if '/' in line and '@' in line]
    assert one.split() == ['hpl@2.3', f'/{hpl.hash[:7]}', 'intel-oneapi-compilers', '2025.1.0', 'mpich', '4.0.2', 'netlib-lapack', '3.11.0', 'x86_64_v3', '1', 'binary']
    assert one.index('x86_64_v3') == other.index('x86_64_v3') and other.split()[-5:] == ['-', '-', 'x86_64_v3', '1', 'binary']


def test_a_build_of_one_environment_leaves_those_of_the_others(stated, monkeypatch):
    system = stated()
    built(system, monkeypatch)
    asks_for('hpl@2.2')
    build.build_all(system, FACTS, environs=['spack'])
    assert all(manifest.whole(manifest.read('local', name)) for name in ('spack', 'v3', 'mpich'))
    assert manifest.read('local').packages['hpl'].version == '2.2' and manifest.read('local', 'v3').packages['hpl'].version == '2.3'


def test_an_environment_that_fails_stops_no_other(stated, monkeypatch, capsys):
    system = stated()
    asks_for('hpl@2.3')
    monkeypatch.setattr(procfs, 'flags', lambda tree: AVX2)
    monkeypatch.setenv('INSTALL', "case $place in *) grep -q mpich \"$place/spack.yaml\" || cp /bin/true \"$xhpl\" ;; esac")
    with pytest.raises(InfrastructureError, match='local: not built: mpich, of 3 environments; the same command'):
        build.build_all(system, FACTS)
    assert manifest.read('local', 'v3') and not manifest.read('local', 'mpich')
    assert 'mpich: ' in capsys.readouterr().err and software.status('local', False) == 3


# ---- targets

@pytest.mark.parametrize('name, flags, said', [
    ('x86_64_v3', AVX2, ''), ('x86_64_v4', AVX2, 'built for x86_64_v4, this processor lacks avx512bw'), ('x86_64_v4', (), ''),
    ('a64fx', AVX2, 'built for a64fx, this machine is x86_64'), ('strange', AVX2, '')])
def test_a_processor_runs_what_is_built_for_its_features(monkeypatch, name, flags, said):
    monkeypatch.setattr(target.platform, 'machine', lambda: 'x86_64')
    assert target.refusal(name, flags).startswith(said) and bool(said) == bool(target.refusal(name, flags))


def test_a_target_that_this_machine_lacks_is_refused_before_the_build_and_before_the_run(stated, monkeypatch):
    system = stated('spack:\n- {name: v4, target: x86_64_v4, codes: [hpl]}\n')
    asks_for('hpl@2.3')
    monkeypatch.setattr(target.platform, 'machine', lambda: 'x86_64')
    monkeypatch.setattr(procfs, 'flags', lambda tree: AVX2)
    with pytest.raises(UsageError, match=r'system\.yaml:\d+: built for x86_64_v4, this processor lacks .*\(parity jobs submit build --system local --partition default'):
        build.build_all(system, FACTS)
    monkeypatch.setattr(procfs, 'flags', lambda tree: frozenset(target.features('x86_64_v4')))
    monkeypatch.setenv('CONCRETIZER', os.environ['CONCRETIZER'].replace('x86_64_v3', 'x86_64_v4'))
    build.build_all(system, FACTS)
    survey, = manifest.surveys('local', system.builds, os.environ, AVX2)['v4']
    assert survey.environ.features == [] and 'built for x86_64_v4' in survey.environ.software['absent']['hpl']
    assert any('v4: hpl: built for x86_64_v4, this processor lacks avx512bw' in note for note in survey.notes)


def test_a_job_ends_before_the_program_on_a_node_without_the_target(tmp_path):
    cpuinfo = tmp_path / 'cpuinfo'
    cpuinfo.write_text('processor\t: 0\nflags\t\t: fpu avx avx2 fma\n')
    command = f'{TOP}/jobs/programs/target.sh x86_64_v4 avx2'
    assert shell(f'{command} fma', tmp_path, PARITY_CPUINFO=str(cpuinfo)).returncode == 0
    done = shell(f'{command} avx512f', tmp_path, PARITY_CPUINFO=str(cpuinfo))
    assert done.returncode == 2 and done.stderr.startswith('parity: the program is built for x86_64_v4; the processor of ')
    assert done.stderr.endswith(' lacks avx512f\n')


def test_a_stated_environment_with_the_name_of_one_of_spack_is_refused(site):
    stated = "environments: [{name: one, codes: [stream]}]\nspack: [{name: one}]\n"
    site.write_text(site.read_text().replace('environments: []\n', stated))
    with pytest.raises(UsageError, match='environments: one: `spack` makes an environment of this name; each needs its own'):
        systems.read('local')


def test_a_committed_lock_of_another_target_is_refused(stated, monkeypatch, tmp_path):
    system = stated('spack:\n- {name: other, target: zen4}\n')
    lock = environment.committed_lock('local', 'other')
    lock.parent.mkdir()
    shutil.copy(LOCK, lock)
    with pytest.raises(UsageError, match=rf'^{lock}: \S+ is for \S+, and the environment other for zen4. Make a new one: rm ') as refused:
        build._refuse_target(system, lock.parent, system.builds[0])
    assert str(refused.value).endswith(' && parity software build --system local --environ other')


def test_an_environment_is_for_its_partitions_only(stated):
    system = stated()
    entry = system.builds[2].model_copy(update={'partitions': ['away']})
    system = system.model_copy(update={'spack': [*system.builds[:2], entry]})
    part = assemble._partition(system, system.partitions[0], None, ['spack', 'v3', 'mpich'], '')
    assert part['environs'] == ['spack', 'v3']
    named = system.partitions[0].model_copy(update={'environs': ['mpich']})
    system = system.model_copy(update={'partitions': [named]})
    assert "partition default: environs: 'mpich' is for away only" in [*assemble._wrong(system, ['spack', 'v3', 'mpich'])]


# ---- the MPI of an environment

def test_the_mpirun_of_an_environments_mpi_comes_first(tmp_path, monkeypatch):
    ours, theirs = (script(tmp_path / name / 'mpirun', 'exit 0') for name in ('ours', 'theirs'))
    view = manifest.View(view=str(tmp_path), packages={}, files={}, launcher=str(ours.parent))
    assert manifest.environ(view, {'PATH': str(theirs.parent)}, frozenset()).environ.env_vars['PATH'] == f'{ours.parent}:$PATH'
    assert 'PATH' not in manifest.environ(view, {'PATH': str(ours.parent)}, frozenset()).environ.env_vars


def test_the_launcher_is_the_mpirun_of_the_lock_s_mpi(tmp_path):
    script(tmp_path / 'mpich' / 'bin' / 'mpirun', 'exit 0')
    specs = {'a': {'name': 'hpl', 'dependencies': [{'name': 'mpich', 'hash': 'b', 'parameters': {'virtuals': ['mpi']}}]},
             'b': {'name': 'mpich', 'external': {'path': str(tmp_path / 'mpich')}}}
    (tmp_path / 'spack.lock').write_text(json.dumps({'concrete_specs': specs}))
    assert build._launcher(None, tmp_path) == str(tmp_path / 'mpich' / 'bin')


def test_a_build_for_another_target_than_is_stated_is_no_silent_pass(stated, monkeypatch, capsys, site):
    system = stated()
    built(system, monkeypatch)
    changed = [entry.model_copy(update={'target': 'x86_64_v2'}) if entry.name == 'v3' else entry for entry in system.builds]
    after = system.model_copy(update={'spack': changed})
    said = 'built for x86_64_v3, and system.yaml states x86_64_v2: parity software build builds it'
    environs = {environ['name']: environ for environ in (assemble._environment(after, each) for each in assemble._built(after))}
    assert environs['v3']['extras']['software']['newer_build'] == said and 'newer_build' not in environs['mpich']['extras']['software']
    assert environs['v3']['extras']['target'][0] == 'x86_64_v3'     # a job looks for what its program needs
    site.write_text(site.read_text().replace('target: x86_64_v3', 'target: x86_64_v2'))
    capsys.readouterr()
    assert software.status('local', False) == 3 and f'local: v3: {said}' in capsys.readouterr().out


def test_the_announcement_names_a_blas_without_a_version():
    assert discover._contents({'blas': {'name': 'reference BLAS', 'library': '/lib/libblas.so.3'}}) == 'reference BLAS'


# ---- a prefix beside

def test_a_prefix_stands_beside_spack_and_path_says_what_it_leaves_to_them():
    from parity.measure.software.programs import Environ
    mine, ours, distro = (Environ(name=name, provider=provider, features=features) for name, provider, features in (
        ('mine', 'prefix', ['npb']), ('spack', 'spack', ['npb', 'hpl']), ('distro', 'distro', ['npb', 'fio'])))
    after = discover._once([mine, ours, distro])
    assert [each.features for each in after] == [['npb'], ['npb', 'hpl'], ['fio']]
    assert discover._left_out([mine, ours, distro], after) == ['distro: npb: measured with mine, spack instead']


def test_the_old_way_of_building_still_builds_the_one_environment(stated, monkeypatch):
    stated('')
    asks_for('hpl@2.3')
    assert run_python(BUILD, TOP).returncode == 0 and manifest.file_of('local').name == 'manifest.json'
    assert Path(manifest.read('local').view).parents[2] == environment.of('local') / 'builds'


# ---- a lost host

def test_what_can_be_built_is_built_and_what_is_left_is_named(stated, monkeypatch, capsys):
    system = stated('')
    asks_for('hpl@2.3', 'ior@4.0.0')
    made = b'hpl@2.3'.hex() * 32
    log = Path(os.environ['PARITY_ROOT'], 'log')
    monkeypatch.setenv('LOG', str(log))
    monkeypatch.setenv('INSTALL', f"cp /bin/true \"$xhpl\"; echo {made[:32]} >\"$LOG.installed\"; echo '==> Error: ior: All fetchers failed'; exit 1")
    script(Path(os.environ['SPACK_ROOT'], 'bin', 'spack'), SPACK.replace("    *) exit 1", "    'env view') ;;\n    *) exit 1"))
    with pytest.raises(InfrastructureError, match=r'^left: ior; built: hpl; spack install fails: ior: All fetchers failed '):
        build.build_all(system, FACTS)
    assert manifest.read('local').names == {'hpl'} and 'left: ior' in manifest.not_built('local', manifest.read('local'))
    assert software.status('local', False) == 0 and 'left: ior' in capsys.readouterr().out


def test_a_bundle_of_named_codes_has_their_sources_alone(stated, tmp_path, monkeypatch):
    lock = {'roots': [{'hash': 'a', 'spec': 'hpl'}, {'hash': 'b', 'spec': 'ior'}], 'concrete_specs': {
        'a': {'name': 'hpl', 'version': '2.3', 'namespace': 'parity', 'dependencies': [{'hash': 'c'}]},
        'b': {'name': 'ior', 'version': '4.0.0', 'namespace': 'parity'}, 'c': {'name': 'gmake', 'version': '4', 'namespace': 'parity'}}}
    (tmp_path / 'spack.lock').write_text(json.dumps(lock))
    assert spack._roots(tmp_path, ()) == ['a', 'b'] and spack._roots(tmp_path, {'hpl'}) == ['a']
    assert [spec['name'] for spec in steps.below(spack.locked(tmp_path), ['a']).values()] == ['hpl', 'gmake']
    entries = stated().builds
    assert build.named_packages('local', ['npb', 'hpl'], entries) == {'npb', 'hpl'}
    with pytest.raises(UsageError, match="unknown package 'nbp'"):
        build.named_packages('local', ['nbp'], entries)


# ---- the BLAS of a lock and of its program

@pytest.mark.parametrize('package, said', [
    ('netlib-lapack 3.11.0', 'its lock has netlib-lapack 3.11.0, and it loads OpenBLAS (/lib/libopenblas.so.0)'), ('openblas 0.3.21', ''),
    ('', ''), ('strange-blas 1', '')])
def test_a_program_that_loads_another_blas_than_its_lock_has_is_no_build(monkeypatch, package, said):
    from parity.measure.software import blas
    monkeypatch.setattr(blas, 'loaded', lambda program, env: {'libopenblas.so.0': '/lib/libopenblas.so.0'})
    monkeypatch.setattr(blas.os.path, 'realpath', lambda path: path)
    assert blas.another(package, '/view/bin/xhpl', {}) == said


def test_a_case_whose_program_a_folder_lacks_is_skipped_and_the_others_run(tmp_path):
    from types import SimpleNamespace

    from parity.base.reasons import Kind
    from parity.measure.check.workload import Workload
    script(tmp_path / 'bin' / 'cg.A.x', 'exit 0')
    skipped = []
    environ = SimpleNamespace(name='mine', extras={'software': {'view': str(tmp_path / 'bin')}})
    check = SimpleNamespace(current_environ=environ, standalone=False, skip_case=lambda *why: skipped.append(why))
    assert Workload.program(check, 'cg.A.x') == f'{tmp_path}/bin/cg.A.x' and skipped == []
    Workload.program(check, 'bt.A.x')
    assert skipped == [('mine has no bt.A.x', Kind.NO_PROGRAM)]
    environ.extras['software']['view'] = '/only/nodes/have/this'
    assert Workload.program(check, 'bt.A.x') == '/only/nodes/have/this/bt.A.x' and len(skipped) == 1
