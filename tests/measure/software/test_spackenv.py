"""The codes from Spack: environment, lock, manifest, binaries and bundle without one; then with a real one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from test_software import script

from conftest import TOP, run_python, shell
from parity.base import codes, files
from parity.base.errors import InfrastructureError, UsageError
from parity.cli import software
from parity.measure.session import assemble
from parity.measure.software import build, environment, fetch, launcher, manifest, spack, steps
from parity.measure.software.spack import Spack
from parity.site import systems
from parity.site.systems import SpackEnvironment

LOCK = TOP / 'tests' / 'recorded' / 'spack' / 'spack.lock'
FACTS = {'llc_bytes': 32e6, 'memory_bytes': 16e9}


@pytest.fixture(autouse=True)
def no_mpirun_here(monkeypatch):
    """Leave out which MPI this machine has: the packages of the lock are built with Open MPI."""
    monkeypatch.setattr(launcher, 'here', lambda env: '')


@pytest.fixture
def site(site, monkeypatch):
    """The system `local` of a checkout of its own, whose compilers are stated rather than found."""
    shutil.copy(TOP / 'spack.yaml', site.parents[2])
    (site.parent / 'spack').mkdir()
    for name in ('SPACK_ROOT', spack.VARIABLE):
        monkeypatch.delenv(name, raising=False)
    return systems.read('local').model_copy(update={'detect': False})


def asked(site, facts=FACTS, given=None) -> dict:
    """What parity asks Spack for."""
    return yaml.safe_load((environment.write(site, facts, given) / 'spack.yaml').read_text())['spack']


def pin(site, *change: str) -> Path:
    """Change spack.yaml; the file."""
    file = Path(os.environ['PARITY_ROOT'], 'spack.yaml')
    file.write_text(file.read_text().replace(*change))
    return file


# ---- the environment

def test_stream_is_pinned_and_its_arrays_are_as_long_as_the_caches_ask_for(site):
    for caches, memory, words in ((32e6, 16e9, 'stream_array_size=16000000'), (256e6, 64e9, 'stream_array_size=128000000 cflags="-mcmodel=medium"')):
        spec, = (s for s in asked(site, {'llc_bytes': caches, 'memory_bytes': memory})['specs'] if s.startswith('stream'))
        assert re.fullmatch(rf'stream@git\.[0-9a-f]{{40}}=5\.10 \+openmp {words}', spec)
    small, = (s for s in asked(site, {'memory_bytes': 1.2e9})['specs'] if s.startswith('stream'))
    assert small.endswith('stream_array_size=30000000'), 'a cluster states its memory, and not its caches'


def test_whatever_decides_the_lock_changes_the_inputs(site):
    place = environment.write(site, FACTS)
    inputs = [environment.inputs(place)]
    os.utime(place / 'spack.yaml', (1, 1))
    assert environment.inputs(environment.write(site, FACTS)) == inputs[0] and (place / 'spack.yaml').stat().st_mtime == 1
    root = pin(site, 'hpl@2.3', 'hpl@2.2').parent
    for changed in ('spack.yaml', 'spack_repo/parity/packages/hpl/package.py', 'systems/local/spack/packages.yaml'):
        if not (root / changed).exists():
            script(root / changed, '# a change')
        inputs.append(environment.inputs(environment.write(site, FACTS)))
    assert len(set(inputs)) == 4


@pytest.mark.parametrize('text, said', [('{"roots": [],\n x', '2: not JSON'), ('[' * 200_000, '1: not JSON'), ('[]', '1: has no concrete_specs'),
                                        ('{"concrete_specs": []}', '1: has no concrete_specs')])
def test_a_lock_that_is_none_is_refused_with_its_line(tmp_path, text, said):
    (tmp_path / 'spack.lock').write_text(text)
    with pytest.raises(UsageError, match=f'spack.lock:{said}'):
        manifest.concrete(tmp_path)


# ---- the recipes

RELEASED = {'git': 'https://spack.example.org/packages.git', 'branch': 'releases/v2025.11'}


def test_the_recipes_are_pinned_and_each_tag_is_a_whole_clone_of_its_own(site):
    parity, builtin = asked(site)['repos'].items()
    tag, clone = builtin[1]['tag'], Path(builtin[1]['destination'])
    assert (parity[0], builtin[0]) == ('parity', 'builtin') and re.fullmatch(r'v[\d.]+', tag) and clone.name.endswith(f'-{tag}')
    (clone / '.git').mkdir(parents=True)
    assert asked(site) and not clone.exists()                   # an interrupted one is made again
    clone.mkdir()
    (clone / 'spack-repo-index.yaml').touch()
    assert asked(site) and clone.exists()
    pin(site, f'tag: {tag}', 'tag: v2027.03.0')
    other = asked(site)['repos']['builtin']
    assert other['tag'] == 'v2027.03.0' and other['destination'] != str(clone)
    pin(site, 'spack:', 'spuck:')
    with pytest.raises(UsageError, match=r'spack\.yaml:1: must be a Spack environment'):
        asked(site)


@pytest.mark.parametrize('configured, pinned', [
    (RELEASED, True), (None, True), ('/site/recipes', False), ({**RELEASED, 'branch': 'develop'}, False)],
    ids=['as-released', 'none', 'a-folder', 'another-branch'])
def test_a_spack_that_was_given_recipes_keeps_them(site, tmp_path, configured, pinned):
    defaults = tmp_path / 'spack' / 'etc' / 'spack' / 'defaults' / 'base' / 'repos.yaml'
    defaults.parent.mkdir(parents=True)
    defaults.write_text(yaml.safe_dump({'repos': {'builtin': RELEASED}}))
    said = json.dumps({'repos': {'builtin': configured} if configured else {}})
    command = Spack(str(script(tmp_path / 'spack' / 'bin' / 'spack', f"echo '{said}'")), dict(os.environ))
    assert ('builtin' in asked(site, given=command.given())['repos']) == pinned


def test_recipes_have_the_version_of_their_own_clone(tmp_path):
    inside = tmp_path / 'repos' / 'builtin'
    inside.mkdir(parents=True)
    (inside / 'repo.yaml').write_text('')
    assert spack.version(inside) == ''
    git = f'git -C {tmp_path} -c user.name=n -c user.email=e'
    assert shell(f'{git} init -q && {git} commit -q --allow-empty -m first', tmp_path).returncode == 0
    assert spack.version(inside) == ''                 # not of the clone that they lie in
    assert shell(f'{git} add . && {git} commit -q -m recipes && {git} tag v2026.06.0', tmp_path).returncode == 0
    assert re.fullmatch(r'v2026\.06\.0 \([0-9a-f]{10}\)', spack.version(inside))


# ---- the lock and the manifest

TOOLS = {'spack': '1.1.0', 'recipes': 'v2026.06.0 (d4f7c711a6)'}


@pytest.fixture
def written(site, tmp_path):
    """A build of all codes of the lock, each with all its binaries."""
    shutil.copy(LOCK, tmp_path / 'spack.lock')
    packages = manifest.concrete(tmp_path)
    for name in (name for package in packages.values() for name in package.binaries):
        script(tmp_path / 'bin' / name, 'exit 0')
    return manifest.write('local', 'a stamp', manifest.view(tmp_path / 'bin', packages, TOOLS))


def test_results_carry_what_the_lock_says_and_the_versions_of_spack_and_recipes(written):
    found = manifest.environ(written, os.environ, frozenset()).environ
    locked = {root['spec'].split('@')[0]: root['hash'] for root in json.loads(LOCK.read_text())['roots']}
    assert {name: p['hash'] for name, p in found.software['packages'].items()} == locked and found.software['tools'] == TOOLS
    assert found.software['packages']['hpl'] == {'spec': 'hpl@2.3', 'hash': locked['hpl'], 'compiler': 'gcc 12.2.0', 'mpi': 'openmpi 4.1.4',
                                                 'blas': 'openblas 0.3.21', 'target': 'icelake'}
    newer = manifest.environ(written.model_copy(update={'tools': {'spack': '1.2.0'}}), os.environ, frozenset()).environ
    assert newer.identity == found.identity
    hpl, stream, npb, ior = (written.packages[name] for name in ('hpl', 'stream', 'npb', 'ior'))
    assert hpl.namespace == 'parity' and stream.mpi == '' and stream.parameters['cflags'] == ['-mcmodel=medium']
    assert len(npb.binaries) == 24 and {'bt.A.x', 'sp.C.x', 'is.B.x'} <= set(npb.binaries) and 'mdtest' in ior.binaries


def test_packages_that_mpirun_cannot_start_are_not_offered(written, monkeypatch):
    monkeypatch.setattr(launcher, 'here', lambda env: 'MPICH')
    environ, notes, *_ = manifest.environ(written, os.environ, frozenset())
    assert 'stream' in environ.features and not {'hpl', 'osu', 'npb'} & {*environ.features}
    assert 'spack: hpl: built with Open MPI, mpirun is MPICH: not offered (parity software build)' in notes


@pytest.mark.parametrize('change', [Path.unlink, lambda binary: script(binary, 'exit  0'), lambda binary: os.utime(binary, (1, 1))],
                         ids=['removed', 'rewritten', 'touched'])
def test_a_binary_that_is_not_what_was_built_is_noticed(written, change):
    assert manifest.read('local') == written and manifest.changed(written) == []
    change(Path(written.view, 'xhpl'))
    environ, notes, *_ = manifest.environ(written, os.environ, frozenset())
    assert manifest.changed(written) == ['xhpl'] and 'hpl' not in environ.features and 'xhpl: not what was built' in notes[0]
    for text in ('', 'null', '{"stamp": 1'):
        manifest.file_of('local').write_text(text)
        assert manifest.read('local') is None


# ---- the binaries

@pytest.mark.parametrize('body, why', [
    ('exit 0', ''), ('exec sleep 60', ''), ('kill -SEGV $$', 'signal 11'), ('', 'is not there'),
    ('echo "libmpi.so.40: cannot open" >&2; exit 127', 'exit code 127: libmpi.so.40: cannot open')])
def test_a_binary_starts_or_the_reason_is_told(tmp_path, body, why):
    script(tmp_path / 'bt.A.x', body).chmod(0o755 if body else 0o644)
    said = build.problems(tmp_path, {'bt.A.x': codes.named('npb')}).get('bt.A.x', '')
    assert why in said and bool(said) == bool(why)


# ---- the distribution's packages

def test_the_distributions_compiler_mpi_and_blas_are_externals_and_are_named_where_absent(tmp_path, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(UsageError, match='apt install .*gfortran.*libopenblas-dev'):
        patch.setenv('PATH', str(tmp_path))
        patch.setattr(environment, '_here', lambda program: None)
        environment.write_externals(tmp_path / 'scope')
    assert not (tmp_path / 'scope').exists()
    try:
        found = yaml.safe_load((environment.write_externals(tmp_path / 'scope') / 'packages.yaml').read_text())['packages']
    except UsageError as err:
        pytest.skip(str(err))
    compilers = found['gcc']['externals'][0]['extra_attributes']['compilers']
    assert compilers.keys() == {'c', 'cxx', 'fortran'} and all(os.access(program, os.X_OK) for program in compilers.values())
    mpi, = found['mpi']['require']
    assert found[mpi]['externals'][0]['spec'].startswith(f'{mpi}@') and not any(package.get('buildable') for package in found.values())


@pytest.mark.parametrize('stated, asked', [
    ([''], True), (['openblas@0.3'], True), (['netlib-lapack', 'openblas'], True), (['netlib-lapack'], False), (['netlib-lapack', 'intel-oneapi-mkl'], False)])
def test_openblas_is_asked_for_only_where_an_environment_takes_it(monkeypatch, stated, asked):
    monkeypatch.setattr(environment, 'owned', lambda package: '')
    entries = [SpackEnvironment(name='one', blas=blas) for blas in stated]
    assert ('libopenblas-dev' in environment.missing(entries)) == asked
    with pytest.raises(UsageError, match='apt install .*zlib1g-dev') as said:
        environment.demand_packages(entries[0])
    assert ('openblas' in str(said.value)) == (stated[0] in ('', 'openblas@0.3'))


def test_a_library_that_is_not_installed_is_no_external(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, 'demand_packages', lambda entry: None)
    monkeypatch.setattr(environment, 'owned', lambda package: '' if package == 'libopenblas-dev' else '1.2')
    monkeypatch.setattr(environment, '_version', lambda program: '1')
    monkeypatch.setattr(environment, '_mpi', dict)
    found = yaml.safe_load((environment.write_externals(tmp_path) / 'packages.yaml').read_text())['packages']
    assert 'openblas' not in found and found['zlib']['externals'][0]['spec'] == 'zlib@1.2'


VERSIONS = {'MPICH': r"printf 'HYDRA build details:\n    Version:     5.0.2\n'", 'Open MPI': "echo 'mpirun (Open MPI) 4.1.4'",
            'Intel MPI': "echo 'Intel(R) MPI Library for Linux* OS, Version 2021.9 Build 20230307'"}
MACROS = {'MPICH': '#define MPICH_VERSION "5.0.2"', 'Open MPI': '#define OMPI_MAJOR_VERSION 4'}


def an_mpi(folder: Path, mpirun: str, mpicc: str) -> Path:
    script(folder / 'bin' / 'mpirun', VERSIONS[mpirun])
    if mpicc:
        script(folder / 'bin' / 'mpicc', f"echo '{MACROS[mpicc]}'")
    return folder


@pytest.mark.parametrize('name, spec', [('MPICH', 'mpich@5.0.2'), ('Open MPI', 'openmpi@4.1.4')])
def test_spack_builds_with_the_mpi_whose_mpirun_is_first_on_path(tmp_path, monkeypatch, name, spec):
    package = spec.partition('@')[0]
    monkeypatch.setenv('PATH', f'{an_mpi(tmp_path, name, name)}/bin:{os.environ["PATH"]}')
    assert environment._mpi() == {package: {'externals': [{'spec': spec, 'prefix': str(tmp_path)}], 'buildable': False}, 'mpi': {'require': [package]}}
    assert environment._lacks_of_mpi() == set()


@pytest.mark.parametrize('mpirun, mpicc, said', [
    ('Intel MPI', 'MPICH', 'bin/mpirun: is of Intel MPI 2021.9; valid: an mpirun of Open MPI or MPICH, first on PATH'),
    ('MPICH', 'Open MPI', 'bin/mpicc: compiles for Open MPI; valid: the mpicc of MPICH, whose mpirun is first on PATH'),
    ('MPICH', '', 'bin/mpicc: finds no mpi.h; valid: the mpicc of MPICH')])
def test_an_mpi_that_spack_cannot_build_with_is_refused_with_what_is_valid(tmp_path, monkeypatch, mpirun, mpicc, said):
    monkeypatch.setenv('PATH', f'{an_mpi(tmp_path, mpirun, mpicc)}/bin:{os.environ["PATH"]}')
    with pytest.raises(UsageError) as caught:
        environment._mpi()
    assert said in str(caught.value)


@pytest.mark.parametrize('name, lacks', [('MPICH', {'libmpich-dev'}), ('Open MPI', {'libopenmpi-dev'})])
def test_the_package_that_brings_mpi_h_is_named_where_mpicc_finds_none(tmp_path, monkeypatch, name, lacks):
    """Debian's package of mpirun brings an mpicc without mpi.h."""
    monkeypatch.setenv('PATH', f'{an_mpi(tmp_path, name, "")}/bin:{os.environ["PATH"]}')
    monkeypatch.setattr(environment, '_prefix_of', lambda mpirun: Path('/usr'))
    assert environment._lacks_of_mpi() == lacks
    monkeypatch.setenv('PATH', str(tmp_path))
    assert environment._lacks_of_mpi() == {'openmpi-bin', 'libopenmpi-dev'}


# ---- the codes for GPUs, in a view of their own

def gpu_yaml(text: str = 'specs: [babelstream@5.0 +cuda cuda_arch=80, osu-micro-benchmarks@7.4 +cuda cuda_arch=80 ^cuda@:12]') -> Path:
    file = environment.scope('local') / 'gpu.yaml'
    file.write_text(text)
    return file


def test_gpu_specs_get_a_view_of_their_own(site):
    made = asked(site)
    assert made['concretizer']['unify'] is True and made['view'] == {'default': {'root': 'view', 'link': 'roots'}}
    gpu_yaml()
    made = asked(site)
    assert made['concretizer'] == {'unify': 'when_possible', 'reuse': False}
    assert made['view'] == {'default': {'root': 'view', 'link': 'roots', 'exclude': ['+cuda', '+rocm']},
                            'gpu': {'root': 'view-gpu', 'link': 'roots', 'select': ['+cuda', '+rocm']}}
    # or Spack would unify a spec that does not forbid it with the build for GPUs
    assert {s.split('@')[0] for s in made['specs'] if s.endswith(' ~cuda ~rocm')} == set(environment.gpu_packages())
    assert made['specs'][-2:] == environment.gpu_specs('local')


@pytest.mark.parametrize('text, line, said', [
    ('spec: [a]', 1, "no such key; did you mean 'specs'? valid: specs"), ('specs: []', 1, 'at least 1 item'), ('specs:\n- 5', 2, 'must be text'),
    ('specs:\n- babelstream@5.0 +cuda cuda_arch=80\n- hpl@2.3 +cuda cuda_arch=80', 3, 'valid: babelstream, osu-'),
    ('specs:\n- babelstream +cuda cuda_arch=80', 2, 'must name its version'), ('specs:\n- babelstream@5.0 +omp', 2, 'valid: +cuda or +rocm'),
    ('specs:\n- babelstream@5.0 +hip +rocm', 2, 'must name the architecture: amdgpu_target='),
    *((f'specs:\n- osu-micro-benchmarks@{spec}', 2, 'does not compile with each CUDA that it may get; valid: ^cuda@:12') for spec in (
        '7.4 +cuda cuda_arch=80', '7 +cuda cuda_arch=80 ^cuda@12:13', '=7.4 +cuda cuda_arch=80 ^cuda@13.0', '7.3 +cuda cuda_arch=80 ^cuda@12,13'))])
def test_a_wrong_gpu_spec_is_told_with_its_line_and_what_is_valid(site, text, line, said):
    file = gpu_yaml(text)
    with pytest.raises(UsageError) as caught:
        environment.write(site, FACTS)
    assert f'{file}:{line}: spec' in str(caught.value) and said in str(caught.value)


@pytest.mark.skipif(bool(shutil.which('/usr/local/cuda/bin/nvcc')), reason='CUDA is installed here, in /usr/local/cuda')
def test_gpu_specs_are_built_with_the_cuda_that_is_here_and_end_in_one_line_without(site, monkeypatch, tmp_path):
    monkeypatch.setenv('PATH', str(tmp_path / 'cuda-12.4' / 'bin'))
    assert environment.nvcc('local') == ''
    packages = gpu_yaml().with_name('packages.yaml')
    with pytest.raises(UsageError, match=r"^[^\n]*gpu\.yaml: 'babelstream@5.0 [^\n]* needs CUDA, and no nvcc is on PATH[^\n]*$"):
        environment.write(site.model_copy(update={'detect': True}), FACTS)
    nvcc = script(tmp_path / 'cuda-12.4' / 'bin' / 'nvcc', 'echo "Cuda compilation tools, release 12.4, V12.4.131"')
    assert environment.nvcc('local') == str(nvcc)
    assert environment._cuda(str(nvcc))['externals'] == [{'spec': 'cuda@12.4', 'prefix': str(tmp_path / 'cuda-12.4')}]
    packages.write_text('packages: {cuda: {buildable: false}}')
    assert environment.nvcc('local') == ''
    packages.unlink()
    nvcc.write_text(nvcc.read_text().replace('12.4', '13.0'))
    with pytest.raises(UsageError, match=rf"^{nvcc}: 'osu-micro-benchmarks@7.4 [^\n]* does not compile with cuda@13.0; valid: cuda@:12$"):
        environment.nvcc('local')


@pytest.mark.parametrize('version, cudas, refused', [
    ('7.4', ['13.0.1'], True), ('7.4', ['13.0.1', '12.4.1'], False), ('7.4', ['12.9'], False), ('7.4', [], False), ('7.5.2', ['13.0.1'], False)])
def test_a_cuda_with_which_a_code_does_not_compile_is_refused_by_name(site, version, cudas, refused):
    packages = gpu_yaml(f'specs: [osu-micro-benchmarks@{version} +cuda cuda_arch=80 ^cuda@12.4:12]').with_name('packages.yaml')
    packages.write_text('packages:\n  cuda:\n    buildable: false\n    externals:\n' + ''.join(f'    - {{spec: cuda@{cuda}, prefix: /opt/{cuda}}}\n' for cuda in cudas))
    if not refused:
        environment.write(site, FACTS)
        return
    with pytest.raises(UsageError, match=rf"^{packages}:5: 'osu-micro-benchmarks@7.4 [^\n]*' does not compile with cuda@13.0.1; valid: cuda@:12$"):
        environment.write(site, FACTS)


@pytest.mark.parametrize('old, new, said', [
    ('"compiler-wrapper"', '"x"', r'spack\.lock: made while its compilers did not run: .*spack clean -m'),
    ('"path":"/usr"', '"path":"/nowhere"', r'^\S+/spack\.lock: names what is not on this machine: .*gcc@12\.2\.0 \(/nowhere\)'),
    ('"c":"/usr/bin/gcc"', '"c":"/usr/bin/gone"', r'^\S+/spack\.lock: names what is not on this machine: .*gcc@12\.2\.0 \(/usr/bin/gone\)')])
def test_a_lock_that_does_not_fit_the_machine_is_refused_in_one_line(site, tmp_path, old, new, said):
    text = LOCK.read_text().replace('/usr/bin/gfortran', '/bin/sh').replace('/usr/bin/g++', '/bin/sh')     # not on every machine
    (tmp_path / 'spack.lock').write_text(text.replace(old, new))
    with pytest.raises(UsageError, match=said):
        build._refuse_unfit(site, tmp_path)


# ---- a build that fails, with a Spack that is a script

SPACK = '''
here=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
case "$1" in --version) echo '1.1.0 (of a test)'; exit ;; --no-env) echo 'repos: {}'; exit ;; esac
place=$2; xhpl=$2/view/bin/xhpl; shift 2
case "$1 $2" in
    '--version ') echo 1.1.0 ;;
    'config get') printf "config:\\n  install_tree: {root: ${TREE:-/opt}}\\n" ;;
    concretize*) "$PYTHON" -c "$CONCRETIZER" "$place" ;;
    install*)
        mkdir -p "$place/._view/1/bin"
        ln -sfn ._view/1 "$place/view"
        eval "${INSTALL:-cp /bin/true '$xhpl'}" ;;
    'find --only-missing') cat "$LOG.missing" 2>/dev/null || true ;;
    find*) cat "$LOG.installed" 2>/dev/null || true ;;
    'location --spack-root') echo "$here" ;;
    'location --repo') [ -d "$here/recipes" ] && echo "$here/recipes/spack_repo/$3" ;;
    'mirror create') echo '==> Adding package npb@3.4.3 to mirror'; echo source >"$4/npb.tar.gz" ;;
    *) exit 1 ;;
esac'''
CONCRETIZER = '''
import json, pathlib, sys, yaml
place = pathlib.Path(sys.argv[1])
specs = yaml.safe_load((place / 'spack.yaml').read_text())['spack']['specs']
of = lambda spec: {'name': spec.partition('@')[0], 'version': spec.partition('@')[2].split()[0], 'namespace': 'parity',
                   'hash': (spec.encode().hex() * 32)[:32], 'arch': {'target': 'zen3'},
                   'parameters': {variant: f'+{variant}' in spec for variant in ('omp', 'cuda')}}
(place / 'spack.lock').write_text(json.dumps({'roots': [{'spec': s, 'hash': of(s)['hash']} for s in specs],
                                              'concrete_specs': {of(s)['hash']: of(s) for s in [*specs, 'compiler-wrapper@1']}}))'''


@pytest.fixture
def builder(site, tmp_path, monkeypatch):
    """A site of one code, HPL, and its Spack; INSTALL is what an installation does at last."""
    script(tmp_path / 'a spack' / 'bin' / 'spack', SPACK)
    for name, value in (('SPACK_ROOT', str(tmp_path / 'a spack')), ('PYTHON', sys.executable), ('CONCRETIZER', CONCRETIZER)):
        monkeypatch.setenv(name, value)
    asks_for('hpl@2.3')
    return site


BUILD = ('from parity.site import systems; from parity.measure.software import build\n'
         'build.build(systems.read("local").model_copy(update={"detect": False}), {})')


def asks_for(*specs: str) -> None:
    """Ask for other specs; the committed lock goes, too."""
    Path(os.environ['PARITY_ROOT'], 'spack.yaml').write_text(f'spack: {{specs: {json.dumps(specs)}}}')
    environment.committed_lock('local').unlink(missing_ok=True)


def offered() -> tuple[list[str], str]:
    """What the verdict of a session that began now knows of Spack: the codes, and a newer build that failed."""
    environ, = assemble._built(systems.read('local'))
    return environ.features, environ.software.get('newer_build', '')


@pytest.mark.parametrize('install, why', [
    ("echo '==> Error: Failed downloads:'; echo hpl@2.2; exit 1", r'failed: spack install fails: Failed downloads: hpl@2\.2 \(see .*/build\.log\)'),
    ('kill -KILL $PPID', 'has not ended'), ('true', r'failed: .*/xhpl: is not there: .*'),
    (r'printf "#!/bin/sh\nexit 3\n" >"$xhpl"; chmod +x "$xhpl"', r'failed: .*/xhpl: does not start: exit code 3')],
    ids=['broken', 'killed', 'absent', 'silent'])
def test_a_build_that_fails_leaves_the_codes_of_the_one_before_in_use(builder, monkeypatch, capfd, install, why):
    before = build.build(builder, FACTS)
    asks_for('hpl@2.2')
    monkeypatch.setenv('INSTALL', install)
    if 'kill' in install:
        assert run_python(BUILD, TOP).returncode == -9
    else:
        with pytest.raises(InfrastructureError):
            build.build(builder, FACTS)
    codes, said = offered()
    assert codes == ['hpl'] and manifest.read('local') == before and manifest.whole(before)
    assert re.fullmatch(rf'the build of 20\S+ \S+ {why}; in use: that of 20\S+ \S+', said)
    assert 'kill' in install or capfd.readouterr().err == f'parity: local: in use: the build of {before.built}\n', 'why is said once, at the end'
    assert software.status('local', False) == 0 and said in capfd.readouterr().out
    monkeypatch.delenv('INSTALL')
    assert build.build(builder, FACTS).packages['hpl'].version == '2.2' and offered() == (['hpl'], '')
    assert manifest.whole(before)                       # a session that began with it goes on


def test_a_damaged_build_is_made_again_and_an_old_one_removed_after_the_next(builder, monkeypatch):
    Path(build.build(builder, FACTS).view, 'xhpl').unlink()
    assert offered()[0] == []
    assert manifest.whole(build.build(builder, FACTS)) and offered()[0] == ['hpl']
    for spec in ('hpl@2.2', 'hpl@2.1'):
        asks_for(spec)
        build.build(builder, FACTS)
    builds = environment.of('local') / 'builds'
    assert len(list(builds.glob('*/view'))) == 2 and len(list(builds.glob('*/spack.lock'))) > 2, 'a lock stays'
    older, = {view.parent for view in builds.glob('*/view')} - {Path(manifest.read('local').view).parents[1]}
    asks_for('hpl@2.0')
    build.build(builder, FACTS, used=[older])
    assert (older / 'view').exists() and len(list(builds.glob('*/view'))) == 3, 'a night used it'
    monkeypatch.setenv('TREE', '$spack/opt')
    asks_for('hpl@2.2')
    with pytest.raises(UsageError, match='a spack/opt: packages cannot be built for a path with a space'):
        build.build(builder, FACTS)


def test_a_committed_lock_of_other_specs_is_refused_and_left_as_it_is(builder):
    before = build.build(builder, FACTS)
    lock, text = environment.committed_lock('local'), environment.committed_lock('local').read_text()
    asks_for('hpl@2.2', 'ior@4.0.0')
    lock.write_text(text)
    with pytest.raises(UsageError) as said:
        build.build(builder, FACTS)
    assert str(said.value).startswith(f'{lock}: is not of the specs') and 'it lacks hpl@2.2, ior@4.0.0 and has hpl@2.3 instead' in str(said.value)
    assert f'rm {lock} && parity software build --system local' in str(said.value)
    assert lock.read_text() == text and manifest.read('local') == before and manifest.whole(before)
    asks_for('hpl@2.3')
    lock.write_text(text)
    assert build.build(builder, FACTS) == before and offered()[1] == ''
    lock.write_text(text + '\n')
    assert build.build(builder, FACTS).view != before.view, 'the lock belongs to what is built'


GPU = '''cp /bin/true "$place/view/bin/omp-stream"
          mkdir -p "$place/._view-gpu/1/bin"
          ln -sfn ._view-gpu/1 "$place/view-gpu"
          cp /bin/false "$place/view-gpu/bin/cuda-stream"'''


def test_a_check_for_cpus_never_gets_the_gpu_view_whose_binaries_start_with_a_driver(builder, monkeypatch, capsys):
    monkeypatch.setenv('INSTALL', GPU)
    monkeypatch.setattr(environment, 'gpu_driver', lambda: True)
    asks_for('babelstream@git.6703f75=5.0 +omp')
    gpu_yaml('specs: [babelstream@5.0 +cuda cuda_arch=80]')
    with pytest.raises(InfrastructureError, match='view-gpu/bin/cuda-stream: does not start: exit code 1'):
        build.build(builder, FACTS)
    monkeypatch.setattr(environment, 'gpu_driver', lambda: False)
    built = build.build(builder, FACTS)
    assert 'no GPU driver here: of babelstream for GPUs' in capsys.readouterr().out
    cpu, gpu = (manifest.environ(view, os.environ, frozenset(), name).environ for name, view in manifest.read('local').views.items())
    assert (cpu.features, gpu.features) == (['babelstream'], ['babelstream-gpu']) and gpu.features[0] in codes.features()
    assert gpu.software['view'].endswith('/view-gpu/bin') and cpu.identity != gpu.identity
    assert {e.software['packages']['babelstream']['spec'] for e in (cpu, gpu)} == {'babelstream@5.0'}
    assert software.status('local', False) == 0
    _, default, _, for_gpu, _ = capsys.readouterr().out.splitlines()
    assert default.startswith('spack: ') and for_gpu.endswith('(no GPU driver at the build: none was started)')
    Path(built.gpu.view, 'cuda-stream').unlink()
    assert software.status('local', False) == 3 and 'missing or changed: cuda-stream' in capsys.readouterr().out
    assert not manifest.whole(built) and manifest.changed(built) == [] and manifest.changed(built.gpu) == ['cuda-stream']
    monkeypatch.setenv('INSTALL', GPU.replace('cp /bin/false', 'true'))
    with pytest.raises(InfrastructureError, match='view-gpu/bin/cuda-stream: is not there'):
        build.build(builder, FACTS)


SERVED = '''mkdir -p "$place/opt/.spack"
            cp "$RECORD" "$place/opt/.spack/spec.json"
            echo "HASH $place/opt" >"$LOG.missing"'''


def test_a_binary_cache_that_serves_another_hash_is_told_with_both(builder, tmp_path, monkeypatch):
    asks_for('stream@5.10')
    number = (b'stream@5.10'.hex() * 32)[:32]
    record = LOCK.with_name('served.spec.json')
    for name, value in (('INSTALL', SERVED.replace('HASH', number)), ('LOG', tmp_path / 'log'), ('RECORD', record)):
        monkeypatch.setenv(name, str(value))
    with pytest.raises(InfrastructureError) as said:
        build.build(builder, FACTS)
    assert f'stream 5.10: the lock asks for /{number}, and a binary cache served /et6q2cze6l36p5upksicw3qml3yirf62 under' in str(said.value)
    assert f'Remove the entry from the cache, or the cache from the configuration ({tmp_path}/a spack/bin/spack mirror list)' in str(said.value)
    monkeypatch.setenv('RECORD', os.devnull)
    with pytest.raises(InfrastructureError, match='is not there: its recipe, or a binary cache, said "installed" without it'):
        build.build(builder, FACTS)


# ---- a part of the codes, with a Spack that is a script

BOTH = r'''
    echo "$*" >>"$LOG"
    for of in hpl:xhpl ior:ior ior:mdtest; do
        hash=$("$PYTHON" -c "print(('${of%:*}@1'.encode().hex() * 32)[:32])")
        case "$* " in *" /"*"/$hash "*|*" /$hash "*|*-j[0-9]" "|*-j[0-9][0-9]" ") ;; *) continue ;; esac
        grep -qs $hash "$LOG.installed" || printf '==> %s\n' "Installing ${of%:*}-1-$hash [7/9]" "${of%:*}: Successfully installed ${of%:*}-1-$hash"
        cp /bin/true "$place/view/bin/${of#*:}"
        echo $hash >>"$LOG.installed"
    done'''


def test_what_is_asked_for_is_built_beside_what_is_in_use(builder, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv('INSTALL', BOTH)
    monkeypatch.setenv('LOG', str(tmp_path / 'log'))
    asks_for('hpl@1', 'ior@1')
    with pytest.raises(UsageError, match=r"^unknown package 'iro'; did you mean 'ior'\?; valid: hpl, ior, mdtest$"):
        build.build(builder, FACTS, ['iro'])
    assert (part := build.build(builder, FACTS, ['mdtest'])).packages.keys() == {'ior'} and offered()[0] == ['ior', 'mdtest']
    said = capsys.readouterr().out
    assert 'package 1 of 1: ior 1\n' in said and 'built already' not in said
    build.build(builder, FACTS, ['ior'])
    assert 'nothing to build' in capsys.readouterr().out
    first = build.build(builder, FACTS, ['hpl'])
    assert part.stamp.endswith(' ior') and ' ' not in first.stamp, 'what is offered is looked for again'
    assert first.names == {'hpl', 'ior'} and 'parity: 1 of 2 packages are built already\n' in (said := capsys.readouterr().out)
    assert 'package 2 of 2: hpl 1\n' in said
    assert build.build(builder, FACTS) == first and 'nothing to build' in capsys.readouterr().out
    asks_for('hpl@1', 'ior@1', 'fio@1')
    monkeypatch.setenv('INSTALL', BOTH.replace('hpl:xhpl', 'hpl:xhpl fio:fio'))
    assert build.build(builder, FACTS, ['hpl']).names == {'hpl', 'ior'}, 'another environment keeps what was in use'
    assert build.build(builder, FACTS).names == {'hpl', 'ior', 'fio'}
    assert [line.count('/') for line in (tmp_path / 'log').read_text().splitlines()] == [1, 0, 2, 0]


def test_adding_a_code_leaves_those_in_use_while_it_is_built(builder, monkeypatch, tmp_path):
    monkeypatch.setenv('INSTALL', BOTH)
    monkeypatch.setenv('LOG', str(tmp_path / 'log'))
    asks_for('hpl@1', 'ior@1')
    before = build.build(builder, FACTS, ['hpl'])
    environment.committed_lock('local').unlink()            # this machine commits none: the same folder again
    monkeypatch.setenv('INSTALL', '[ -x "$xhpl" ] && exit 1')
    with pytest.raises(InfrastructureError):
        build.build(builder, FACTS, ['ior'])
    assert manifest.read('local') == before and offered()[0] == ['hpl'] and manifest.whole(before)


def test_two_builds_of_a_system_go_one_after_the_other(builder):
    lock = environment.of('local') / '.build.lock'
    with files.alone(lock, 'tests'):
        other = subprocess.Popen([sys.executable, '-c', BUILD], stdout=subprocess.PIPE, text=True)
        assert other.stdout.readline() == f'parity: waiting: another process builds for local ({lock})\n'
        made = build._build_alone(builder, FACTS, {'hpl'}, False, (), environment.ONLY)
    said, _ = other.communicate()
    assert other.returncode == 0 and 'nothing to build' in said and manifest.read('local') == made


def test_a_disk_that_is_full_ends_a_build_with_what_to_do(builder, monkeypatch):
    before = build.build(builder, FACTS)
    asks_for('hpl@2.2')
    place = environment.write(builder, FACTS)
    (place / 'build.log').symlink_to('/dev/full')
    monkeypatch.setenv('INSTALL', 'echo a line of the log')
    with pytest.raises(InfrastructureError, match=r'build\.log: No space left on device: .* are free at .*: make room .* PARITY_RESULTS$'):
        build.build(builder, FACTS)
    assert manifest.read('local') == before and 'No space left' in offered()[1]
    (place / 'build.log').unlink()
    monkeypatch.setenv('INSTALL', "echo '==> Error: OSError: [Errno 28] No space left on device'; exit 1")
    with pytest.raises(InfrastructureError, match='spack install fails: OSError: .*No space left on device .*: make room'):
        build.build(builder, FACTS)


def test_a_build_counts_the_packages_that_it_needs():
    lock = {'concrete_specs': {
        'a': {'name': 'ior', 'version': '4.0.0', 'dependencies': [{'hash': 'b'}, {'hash': 'e'}]}, 'b': {'name': 'zlib', 'version': '1.3'},
        'c': {'name': 'stream', 'version': 'git.6703=5.10', 'dependencies': [{'hash': 'b'}]}, 'd': {'name': 'hpl', 'version': '2.3'},
        'e': {'name': 'openmpi', 'version': '4.1', 'external': {'path': '/usr'}}}}
    packages = steps.packages(lock, ['a', 'c'])
    assert packages == {'a': 'ior 4.0.0', 'b': 'zlib 1.3', 'c': 'stream 5.10'}
    own = steps.Steps(packages, set())
    assert own.line() == '' and own.begin('d') == '' and own.begin('b') == 'package 1 of 3: zlib 1.3'
    assert own.begin('c') == 'package 1 of 3: zlib 1.3, stream 5.10'
    own.end('b')
    assert own.line() == 'package 2 of 3: stream 5.10' and (own.done, own.total) == (1, 3)
    assert steps.Steps(packages, {'c'}).begin('b') == 'package 2 of 3: zlib 1.3'


# ---- a Spack that is fetched, from repositories of the test

@pytest.fixture
def upstream(builder, tmp_path, monkeypatch):
    """A machine without a Spack. Its git finds Spack and recipes, which the test tags, in folders of the test."""
    for what, url, tag in (('spack', fetch.URL, fetch.RELEASE), ('recipes', 'https://recipes.example.org/recipes.git', 'v2026.06.0')):
        source = tmp_path / 'upstream' / what
        script(source / 'bin' / 'spack', SPACK)
        (source / 'spack-repo-index.yaml').touch()
        git = f'git -C {source} -c user.name=n -c user.email=e'
        assert shell(f'{git} init -q && {git} add . && {git} commit -q -m a && {git} commit -q --allow-empty -m b && {git} tag {tag} && '
                     f'git config --file {tmp_path}/gitconfig url.file://{source}.insteadOf {url}', tmp_path).returncode == 0
    for name, value in (('GIT_CONFIG_GLOBAL', f'{tmp_path}/gitconfig'), ('PATH', f'{tmp_path}/bin:/usr/bin:/bin')):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv('SPACK_ROOT')
    if shutil.which('spack'):
        pytest.skip('a Spack is installed for everyone here')
    Path(os.environ['PARITY_ROOT'], 'spack.yaml').write_text(
        'spack: {specs: [hpl@2.3], repos: {builtin: {git: https://recipes.example.org/recipes.git, tag: v2026.06.0}}}')
    return builder


def test_a_machine_without_a_spack_fetches_it_and_its_recipes_once(upstream, tmp_path, capsys):
    assert build.build(upstream, FACTS).names == {'hpl'}
    said, clones = capsys.readouterr().out, [fetch.spack(), environment.of('local') / 'recipes-v2026.06.0']
    assert f'parity: fetching Spack {fetch.RELEASE} from {fetch.URL} to {clones[0]}, once\n' in said and 'fetching the recipes v2026.06.0' in said
    assert all((clone / '.git' / 'shallow').exists() for clone in clones)
    shutil.rmtree(tmp_path / 'upstream')
    asks = Path(os.environ['PARITY_ROOT'], 'spack.yaml')
    environment.committed_lock('local').unlink()
    asks.write_text(asks.read_text().replace('hpl@2.3', 'hpl@2.2'))
    assert build.build(upstream, FACTS).packages['hpl'].version == '2.2' and 'fetching' not in capsys.readouterr().out
    assert spack.chosen().program == str(clones[0] / 'bin' / 'spack') and not list(fetch.spack().parent.rglob('*.part'))


def test_a_fetch_that_was_killed_leaves_nothing_that_is_taken_for_whole(upstream, tmp_path, monkeypatch):
    git = script(tmp_path / 'bin' / 'git', 'case "$*" in *clone*) for part; do :; done; mkdir -p "$part/bin"; echo exit >"$part/bin/spack"; '
                 'chmod +x "$part/bin/spack"; kill -KILL $PPID;; *) exec /usr/bin/git "$@";; esac')
    assert run_python(BUILD, TOP).returncode == -9
    part = fetch.spack().with_name(fetch.spack().name + '.part')
    assert part.is_dir() and not fetch.spack().exists() and spack.find(Path(os.environ['PARITY_ROOT']), os.environ)[0] is None
    git.unlink()
    assert build.build(upstream, FACTS).names == {'hpl'} and not part.exists()


@pytest.mark.parametrize('git, error, words', [
    (None, UsageError, r'no git on PATH: install it \(Debian: apt install git\), set SPACK_ROOT, put spack on PATH, or name with PARITY_SOFTWARE_BUNDLE '),
    ("echo 'fatal: unable to access: Could not resolve host: github.com' >&2; exit 128", InfrastructureError,
     r'git: fatal: unable to access: Could not resolve host: github\.com: let this machine reach it \(https_proxy .*PARITY_SOFTWARE_BUNDLE a bundle '),
    ('exit 2', UsageError, rf'^{fetch.URL}: has no tag {fetch.RELEASE}, which Spack is pinned to: correct the tag or the address$'),
    ("case \"$*\" in *clone*) echo 'Cloning' >&2; echo 'error: unable to write file a.py' >&2; exit 128 ;; esac", InfrastructureError,
     r'git: error: unable to write file a\.py: [\d.]+ \wi?B are free at .*: make room .* with PARITY_RESULTS$'),
    ("case \"$*\" in *clone*) echo 'fatal: early EOF' >&2; exit 128 ;; esac", InfrastructureError, 'git: fatal: early EOF: let this machine')],
    ids=['no-git', 'no-network', 'no-tag', 'full', 'broken'])
def test_a_fetch_that_fails_says_what_git_said_and_what_to_do(upstream, tmp_path, monkeypatch, git, error, words):
    monkeypatch.setenv('PATH', str(tmp_path / 'bin'))
    if git:
        monkeypatch.setenv('PATH', f'{tmp_path}/bin:/usr/bin:/bin')
        script(tmp_path / 'bin' / 'git', git)
    with pytest.raises(error, match=words) as said:
        build.build(upstream, FACTS)
    assert fetch.URL in str(said.value) and '\n' not in str(said.value)
    assert not fetch.spack().exists() and not list(fetch.spack().parent.glob('*.part'))


def test_a_spack_that_is_stated_and_not_there_is_an_error_and_none_is_fetched(upstream, monkeypatch, tmp_path):
    monkeypatch.setenv('SPACK_ROOT', str(tmp_path / 'nowhere'))
    with pytest.raises(UsageError, match=r'^SPACK_ROOT=.*/nowhere holds no bin/spack; correct it, or take it away'):
        spack.chosen()
    assert not fetch.spack().exists()


# ---- the bundle, with a Spack that is a script

@pytest.fixture
def pack(tmp_path, monkeypatch):
    """Makes the bundle of a Spack, its recipes and a locked environment; the wheels are fetched by a test of their own."""
    monkeypatch.setattr(spack, '_wheels', lambda folder: None)
    top, place = tmp_path / 'spack of a test', tmp_path / 'environment'
    for name in ('lib/spack/a.py', 'share/b', 'etc/spack/defaults/c.yaml', 'opt/built', '.git/objects',
                 'recipes/spack_repo/builtin/repo.yaml', 'recipes/spack_repo/builtin/__pycache__/x.pyc'):
        script(top / name, '')
    command = Spack(str(script(top / 'bin' / 'spack', SPACK)), dict(os.environ))
    place.mkdir()
    shutil.copy(LOCK, place)
    return lambda target: spack.bundle(command, 'local', [place], target)


def test_a_bundle_says_what_it_holds_and_is_refused_where_it_is_damaged(pack, tmp_path, capsys):
    target = tmp_path / 'a bundle'
    assert pack(target).sources == (made := pack(target)).sources       # again: it is no folder of something else
    assert made.spack == '1.1.0' and made.recipes.keys() == {'builtin'} and 'npb@3.4.3' in made.sources and 'openmpi@4.1.4' in made.externals
    assert set(made.files) == {'spack.tar.gz', 'recipes-builtin.tar.gz', 'sources/npb.tar.gz'}
    assert 'parity: source of npb 3.4.3' in capsys.readouterr().out
    for taken in (tmp_path, LOCK):
        with pytest.raises(UsageError, match='holds files that are no bundle'):
            pack(taken)
    with pytest.raises(UsageError, match=f'{spack.VARIABLE} must name a folder'):
        spack.unpack(tmp_path, tmp_path / 'home')
    for damage in (lambda file: file.write_text('other'), Path.unlink):
        damage(target / 'sources' / 'npb.tar.gz')
        with pytest.raises(InfrastructureError, match=r'npb\.tar\.gz: damaged or missing'):
            spack.unpack(target, tmp_path / 'home')
        assert spack.unpacked(tmp_path / 'home') is None


@pytest.mark.skipif(bool(shutil.which('spack', path='/usr/bin:/bin')), reason='a Spack is installed for everyone here')
def test_a_machine_without_a_spack_uses_a_bundle(pack, site, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv('PATH', '/usr/bin:/bin')
    target, home = tmp_path / 'a bundle', Path(os.environ['PARITY_RESULTS'], 'software', 'spack')
    pack(target)
    monkeypatch.setenv(spack.VARIABLE, str(target))
    monkeypatch.setenv('SPACK_DISABLE_LOCAL_CONFIG', '1')
    command = spack.chosen()
    assert command.program == str(home / 'program' / 'bin' / 'spack') and os.access(command.program, os.X_OK)
    assert not (home / 'program' / 'opt').exists() and not (home / 'program' / '.git').exists()
    assert not list(home.rglob('*.pyc')) and (home / 'recipes' / 'spack_repo' / 'builtin' / 'repo.yaml').exists()
    assert command.environ['SPACK_USER_CONFIG_PATH'] == str(home / 'scope') and 'SPACK_DISABLE_LOCAL_CONFIG' not in command.environ
    mirrors, bootstrap = (yaml.safe_load((home / 'scope' / f'{name}.yaml').read_text()) for name in ('mirrors', 'bootstrap'))
    assert [m['url'] for m in mirrors['mirrors:'].values()] == [(target / 'sources').as_uri()] and bootstrap == {'bootstrap': {'enable': False}}
    assert 'unpacking' in capsys.readouterr().out
    assert spack.chosen() == command and 'unpacking' not in capsys.readouterr().out
    monkeypatch.delenv(spack.VARIABLE)
    assert spack.chosen().program == command.program           # what was unpacked stays


@pytest.mark.parametrize('options, builds', [('', True), ('-n Hpl', True), ('--system local', True), ('--system=local:default -n x', True),
                                             ('--system cluster', False), ('--system=cluster', False), ('--system localhost', False)])
def test_the_set_up_builds_for_this_machine_only(options, builds):
    done = shell(f'. ci/lib/packages; . ci/lib/spack; install_packages() {{ echo packages; }}; say() {{ :; }}; '
                 f'has_spack() {{ echo asked; false; }}; build_codes {options}', TOP, RFM_SYSTEM='')
    assert done.returncode == 0 and ('asked' in done.stdout) == builds


# ---- with a real Spack

@pytest.mark.skipif(not os.environ.get('SPACK_ROOT') and not shutil.which('spack'), reason='no Spack: neither SPACK_ROOT nor spack on PATH')
def test_a_real_build_at_a_path_with_a_space_has_hashes_and_is_not_made_again(tmp_path):
    def parity(command: str):
        return shell(f'{sys.executable} -m parity.cli software {command}', TOP, PARITY_ROOT=str(TOP), PYTHONPATH=str(TOP / 'reframe'),
                     PARITY_RESULTS=str(tmp_path / 'own results'))

    done = parity('build')
    if 'apt install' in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    made = json.loads(parity('status --json').stdout)
    assert {'npb', 'hpl', 'stream'} <= made['packages'].keys() and all(len(package['hash']) == 32 for package in made['packages'].values())
    done = parity('build')
    assert done.returncode == 0 and 'nothing to build' in done.stdout
    Path(made['view'], 'stream_c.exe').unlink()
    status = parity('status')
    assert status.returncode == 3 and 'missing or changed: stream_c.exe' in status.stdout
    assert parity('build').returncode == 0 and parity('status').returncode == 0
