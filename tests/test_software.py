"""Providers, probes and the choice of OpenBLAS's kernels, mostly with made-up programs."""

import hashlib
import json
import os
import shutil
import stat
from types import SimpleNamespace

import pytest

from conftest import eventually
from parity.machine import procfs
from parity.machine.procfs import Tree
from parity.software import blas, discover, programs, survey
from parity.software.blas import attempt
from parity.software.model import Environ
from parity.system.systems import ModulesEnvironment

TOOLS = ('bash', 'sh', 'env', 'cat', 'true', 'sleep', 'touch')
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
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A machine whose PATH holds a few tools and nothing else; ``log`` lists the programs that ran."""
    bin_ = tmp_path / 'bin'
    bin_.mkdir()
    for tool in TOOLS:
        (bin_ / tool).symlink_to(shutil.which(tool))
    log = tmp_path / 'log'
    log.touch()
    for name in ('SPACK_ROOT', 'OPENBLAS_CORETYPE', 'LD_LIBRARY_PATH', 'MODULEPATH', 'LOADEDMODULES'):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv('PATH', str(bin_))
    monkeypatch.setenv('HOME', str(tmp_path / 'home'))
    monkeypatch.setenv('LOG', str(log))
    (tmp_path / 'home').mkdir()
    return SimpleNamespace(bin=bin_, log=log, root=tmp_path / 'checkout', home=tmp_path / 'home',
                           cache=tmp_path / 'cache' / 'software.json', ran=lambda: log.read_text().split())


@pytest.fixture
def stocked(place):
    for name, body in (('hpcc', HPCC), ('mpirun', MPIRUN), ('python3', PYTHON)):
        script(place.bin / name, body)
    return place


def find(place, environments=(), system=''):
    stated = [ModulesEnvironment.model_construct(**entry) for entry in environments]
    return discover.discover(place.root, stated, place.cache, system)


# --- probes ---

def test_a_program_that_runs_starts(place):
    assert attempt([script(place.bin / 'good', 'exit 0')], env=dict(os.environ))[:2] == (True, '')


def test_why_a_program_does_not_start(place):
    (place.bin / 'text').write_text('no program')
    bad = script(place.bin / 'bad', 'echo "------"; echo no licence >&2; exit 3')
    for path, why in ((place.bin / 'absent', 'No such file'), (place.bin / 'text', 'Permission denied'),
                      (bad, 'exit code 3: no licence'), (script(place.bin / 'dead', 'kill -9 $$'), 'signal 9')):
        ok, said = attempt([path])[:2]
        assert not ok and why in said


def test_a_hanging_program_is_ended_with_its_children(place):
    hanging = script(place.bin / 'hang', f'sleep 7777 & echo $! > {place.root}.pid; wait')
    ok, why = attempt([hanging], timeout=0.5)[:2]
    assert (ok, why) == (False, 'no answer within 0.5 s')
    pid = place.root.with_suffix('.pid')            # of one that had no time to start, nothing is left
    eventually(lambda: not pid.exists() or not pid.read_text() or not _alive(int(pid.read_text())))


def _alive(pid):
    text = Tree('/').text(f'proc/{pid}/stat')
    return bool(text) and text.rpartition(')')[2].split()[0] != 'Z'


def test_probes_leave_nothing_in_the_working_directory(stocked, monkeypatch):
    here = stocked.home
    monkeypatch.chdir(here)
    find(stocked)
    assert list(here.iterdir()) == []


def test_an_mpirun_that_only_knows_its_version_does_not_start(place):
    broken = script(place.bin / 'mpirun', '[ "$1" = --version ] && echo "mpirun (Open MPI) 4.1.4" || exit 213')
    found = programs.mpirun(str(broken), dict(os.environ))
    assert not found.ok and 'mpirun -np 1 true: exit code 213' in found.why


@pytest.mark.parametrize('text, name, version', [
    ('mpirun (Open MPI) 5.0.3', 'Open MPI', '5.0.3'),
    ('Intel(R) MPI Library for Linux* OS, Version 2021.9 Build 20230307', 'Intel MPI', '2021.9'),
    ('HYDRA build details:\n    Version:     4.0.2', 'MPICH', '4.0.2'),
    ('something else', 'MPI', None)])
def test_which_mpi_it_is(place, text, name, version):
    (place.home / 'version').write_text(text)
    path = script(place.bin / 'mpirun', f'cat {place.home}/version')
    found = programs.mpirun(str(path), dict(os.environ))
    assert (found.name, found.version) == (name, version)


def test_an_old_python_copies_no_files(place):
    old = script(place.bin / 'python3', "echo '[[3, 6, 8], \"/usr/bin/python3.6\"]'")
    found = programs.python(str(old), dict(os.environ))
    assert not found.ok and '3.9 or later' in found.why


@pytest.mark.parametrize('name, says, ok, version', [
    ('iperf3', 'iperf 3.12 (cJSON 1.7.15)', True, '3.12'), ('iperf3', 'iperf 3.9 (cJSON 1.7.13)', True, '3.9'),
    ('iperf3', 'iperf 3.7 (cJSON 1.5.2)', False, '3.7'), ('iperf3', 'iperf version 2.0.13', False, None),
    ('fio', 'fio-3.33', True, '3.33'), ('fio', 'fio-2.21', False, '2.21'), ('fio', 'fio-3.37-12-gabcdef', True, '3.37')])
def test_a_tool_too_old_is_not_offered(place, name, says, ok, version):
    path = script(place.bin / name, f'[ "$1" = --version ] && echo "{says}"')
    found = programs.programs()[name].probe(str(path), dict(os.environ))
    assert (found.ok, found.version) == (ok, version)
    assert ok or 'or later is needed' in found.why or 'unexpected answer' in found.why


def test_a_compiler_without_openmp_is_not_offered(place):
    bad = script(place.bin / 'cc', "echo \"cc: error: unrecognised option '-fopenmp'\" >&2; exit 1")
    found = programs.compiler(str(bad), dict(os.environ))
    assert not found.ok and "unrecognised option '-fopenmp'" in found.why


@pytest.mark.skipif(not shutil.which('cc'), reason='no C compiler here')
def test_a_compiler_is_tried_for_real():
    found = programs.compiler(shutil.which('cc'), dict(os.environ))
    assert found.ok and found.version


# --- distro ---

def test_distro_offers_what_starts(stocked):
    found = find(stocked)
    distro, = found.environs
    assert (distro.name, distro.provider) == ('distro', 'distro')
    assert set(distro.features) == {'hpcc', 'mpi', 'python', 'filecopy', 'fileset', 'pingpong'}
    facts = distro.software['programs']['hpcc']
    assert facts['path'] == str(stocked.bin / 'hpcc') and facts['version'] == '1.5.0'
    assert facts['sha256'] == hashlib.sha256((stocked.bin / 'hpcc').read_bytes()).hexdigest()
    assert distro.software['mpi'] == {'name': 'Open MPI', 'version': '4.1.4'}
    assert found.announcement == 'software: distro (hpcc 1.5.0, Open MPI 4.1.4); no spack'
    assert 'BLAS of hpcc is unknown' in ' '.join(found.notes)       # a script loads no library


def test_nothing_there_offers_nothing_and_says_what_to_install(place):
    found = find(place)
    assert found.environs[0].features == []
    assert found.announcement == 'software: distro (nothing); no spack'
    for name in ('hpcc', 'mpirun', 'python3'):
        assert any(f'{name} is not here' in note and 'apt install' in note for note in found.notes)


def test_hpcc_without_mpirun_is_not_offered(stocked):
    (stocked.bin / 'mpirun').unlink()
    assert find(stocked).environs[0].features == ['python', 'filecopy']


def test_an_hpcc_that_fails_is_not_offered_and_the_reason_is_told(stocked):
    script(stocked.bin / 'hpcc', 'echo "error while loading shared libraries: libmpi.so.40" >&2; exit 127')
    found = find(stocked)
    assert set(found.environs[0].features) == {'mpi', 'python', 'filecopy', 'fileset', 'pingpong'}
    assert any('does not start: exit code 127: error while loading' in note for note in found.notes)


def test_root_may_run_mpi(stocked, monkeypatch):
    monkeypatch.setattr(os, 'geteuid', lambda: 0)
    assert find(stocked).environs[0].env_vars['OMPI_ALLOW_RUN_AS_ROOT'] == '1'
    monkeypatch.setattr(os, 'geteuid', lambda: 1000)
    assert 'OMPI_ALLOW_RUN_AS_ROOT' not in find(stocked).environs[0].env_vars


def test_what_spack_has_built_is_not_measured_twice():
    distro = Environ(name='distro', provider='distro', features=['mpi', 'iperf3', 'fio'])
    spack = Environ(name='spack', provider='spack', features=['iperf3'])
    assert [e.features for e in discover._once([spack, distro])] == [['iperf3'], ['mpi', 'fio']]
    assert discover._once([distro]) == [distro]


# --- identity ---

def environ(**changes):
    facts = {'programs': {'hpcc': {'path': '/usr/bin/hpcc', 'sha256': 'a', 'package_version': '1.5.0-3'},
                          'python3': {'path': '/usr/bin/python3', 'version': '3.11.2', 'sha256': 'b'}},
             'mpi': {'name': 'Open MPI', 'version': '4.1.4'},
             'blas': {'library': '/usr/lib/libopenblas.so', 'core': 'SkylakeX'}}
    for path, value in changes.items():
        *folders, last = path.split('__')
        place = facts
        for folder in folders:
            place = place[folder]
        place[last] = value
    return Environ(name='distro', provider='distro', software=facts, env_vars={'OPENBLAS_CORETYPE': 'SkylakeX'},
                   parts={'hpcc': ['hpcc', 'mpirun'], 'filecopy': ['python3'], 'fileset': ['python3', 'mpirun']})


def test_identity_is_of_the_programs_not_of_where_they_lie():
    assert environ().identity == environ(programs__hpcc__path='/opt/hpcc', blas__library='/opt/b.so').identity
    assert environ().identity == environ(programs__python3__sha256='c').identity
    changes = ({'programs__hpcc__sha256': 'c'}, {'programs__hpcc__package_version': '1.5.0-4'},
               {'mpi__version': '5'}, {'blas__core': 'Prescott'}, {'programs__python3__version': '3.12.0'})
    assert len({environ(**change).identity for change in changes} | {environ().identity}) == len(changes) + 1


@pytest.mark.parametrize('change, features', [
    ({'programs__hpcc__sha256': 'c'}, {'hpcc'}), ({'blas__core': 'Prescott'}, {'hpcc'}), ({'mpi__version': '5'}, {'hpcc', 'fileset'}),
    ({'programs__python3__version': '3.12.0'}, {'filecopy', 'fileset'}), ({'programs__iperf3': {'version': '3.17'}}, set())])
def test_the_identity_of_a_feature_is_of_what_makes_it_and_of_nothing_else(change, features):
    changed = {f for f in environ().parts if environ(**change).identity_of(f) != environ().identity_of(f)}
    assert changed == features
    assert len({environ().identity_of(f) for f in environ().parts}) == 3


# --- OpenBLAS ---

@pytest.mark.parametrize('core, flags, better', [
    ('Prescott', AVX512, 'SkylakeX'), ('Haswell', AVX512, 'SkylakeX'), ('Zen', AVX512, 'SkylakeX'),
    ('SkylakeX', AVX512, None), ('Cooperlake', AVX512, None), ('SapphireRapids', AVX512, None),
    ('Prescott', AVX512 - {'avx512dq'}, 'Haswell'), ('Sandybridge', {'avx2', 'fma'}, 'Haswell'),
    ('Zen', {'avx2', 'fma'}, None), ('Haswell', {'avx2', 'fma'}, None), ('Prescott', {'avx2'}, None),
    ('Prescott', set(), None), ('neoversen1', AVX512, None), (None, AVX512, None)])
def test_which_kernels_to_ask_for(core, flags, better):
    assert blas.better(core, frozenset(flags)) == better


def pretend(monkeypatch, unaided, known):
    """An OpenBLAS that picks ``unaided`` by itself and has the kernels ``known``."""
    def ask(path, env):
        wanted = env.get('OPENBLAS_CORETYPE')
        return (wanted if wanted in known else unaided), '0.3.21'
    monkeypatch.setattr(blas, '_ask', ask)


def test_kernels_too_old_for_the_processor_are_replaced_and_told(monkeypatch):
    pretend(monkeypatch, 'Prescott', {'SkylakeX'})
    choice = blas.choose('lib', AVX512, {})
    assert (choice.unaided, choice.used, choice.coretype) == ('Prescott', 'SkylakeX', 'SkylakeX')
    assert 'Prescott' in choice.note and 'OPENBLAS_CORETYPE=SkylakeX' in choice.note


def test_a_library_without_better_kernels_is_left_alone_and_told(monkeypatch):
    pretend(monkeypatch, 'Prescott', set())
    choice = blas.choose('lib', AVX512, {})
    assert (choice.used, choice.coretype) == ('Prescott', None) and 'none better' in choice.note


def test_what_the_user_set_stays_and_is_told(monkeypatch):
    pretend(monkeypatch, 'Prescott', {'Haswell', 'SkylakeX'})
    choice = blas.choose('lib', AVX512, {'OPENBLAS_CORETYPE': 'Haswell'})
    assert (choice.used, choice.coretype) == ('Haswell', 'Haswell') and 'is set in the environment' in choice.note


def test_good_kernels_need_no_word_and_no_flags_raise_a_doubt(monkeypatch):
    pretend(monkeypatch, 'SkylakeX', set())
    assert blas.choose('lib', AVX512, {}) == ('SkylakeX', 'SkylakeX', '0.3.21', None, '')
    assert 'unknown' in blas.choose('lib', frozenset(), {}).note


@pytest.mark.parametrize('libraries, name', [
    ({'libblas.so.3': '/x/libblas.so.3', 'libopenblas.so.0': '/x/libopenblas.so.0'}, 'OpenBLAS'),
    ({'libblas.so.3': '/usr/lib/x/atlas/libblas.so.3'}, 'ATLAS'),
    ({'libblas.so.3': '/usr/lib/x/blas/libblas.so.3'}, 'reference BLAS'),
    ({'libmkl_rt.so.2': '/opt/libmkl_rt.so.2'}, 'MKL'), ({'libc.so.6': '/lib/libc.so.6'}, None)])
def test_which_blas_is_loaded(libraries, name):
    found = blas.library(libraries)
    assert (found and found[0]) == name


# --- modules ---

SHELL = '''module() {
  echo "module $*" >> $LOG; shift
  for m in "$@"; do
    [ "$m" = gone ] && { echo "Unable to locate gone" >&2; continue; }
    LOADEDMODULES="$LOADEDMODULES:$m/1.0"
  done
  export LOADEDMODULES PATH="$SITE:$PATH"
}'''


@pytest.fixture
def site(place, monkeypatch):
    """A login shell with a module command whose modules bring programs in a folder of their own."""
    monkeypatch.setenv('SITE', str(place.home / 'site'))
    (place.home / '.bash_profile').write_text(f'PATH={place.bin}\n{SHELL}\n')
    for name, body in (('hpcc', HPCC), ('mpirun', MPIRUN)):
        script(place.home / 'site' / name, body)
    return place


def test_modules_offer_the_listed_codes_that_start(site):
    entry = {'name': 'gcc13', 'modules': ['gcc', 'openmpi'], 'codes': ['hpcc']}
    found = find(site, [entry])
    distro, mine = found.environs
    assert distro.features == []
    assert (mine.name, mine.provider, mine.features) == ('gcc13', 'modules', ['hpcc'])
    assert mine.modules == ['gcc', 'openmpi']
    assert mine.software['programs']['hpcc']['path'] == str(site.home / 'site' / 'hpcc')
    assert 'gcc13 (hpcc 1.5.0, Open MPI 4.1.4)' in found.announcement


def test_a_module_that_does_not_load_offers_nothing_although_programs_are_on_path(site):
    for name in ('hpcc', 'mpirun'):
        (site.bin / name).symlink_to(site.home / 'site' / name)
    found = find(site, [{'name': 'g', 'modules': ['gone'], 'codes': ['hpcc']}])
    assert set(found.environs[0].features) == {'hpcc', 'mpi'} and found.environs[1].features == []
    assert 'modules g: module load did not load gone: nothing offered' in found.notes


def test_no_module_system_is_told(place):
    found = find(place, [{'name': 'g', 'modules': ['gcc'], 'codes': ['hpcc']}])
    assert found.environs[1].features == []
    assert any('there is no module system here' in note for note in found.notes)


def test_an_unknown_code_is_not_offered(site):
    found = find(site, [{'name': 'g', 'modules': ['gcc'], 'codes': ['wrf']}])
    assert found.environs[1].features == [] and any('try wrf: not offered' in note for note in found.notes)


def test_module_names_are_words_to_the_shell(site):
    evil = f'$(touch {site.home}/evil); touch {site.home}/evil'
    discover.load_modules([evil], dict(os.environ))
    assert not (site.home / 'evil').exists()
    assert f'module load {evil}' in site.log.read_text()


# --- spack ---

def test_spack_of_the_checkout_is_found(place):
    script(place.root / '.spack' / 'bin' / 'spack', 'echo "1.1.0 (abc123)"')
    found = find(place)
    assert (found.spack.version, found.spack.path) == ('1.1.0', f'{place.root}/.spack/bin/spack')
    assert found.announcement.endswith(f'; spack 1.1.0 at {place.root}/.spack: nothing built yet')


def test_a_broken_spack_is_told_and_the_next_is_taken(place, monkeypatch):
    script(place.home / 'sp' / 'bin' / 'spack', 'echo "no python" >&2; exit 1')
    script(place.bin / 'spack', 'echo 0.23.0')
    monkeypatch.setenv('SPACK_ROOT', str(place.home / 'sp'))
    found = find(place)
    assert found.spack.version == '0.23.0'
    assert any('sp/bin/spack does not start: exit code 1: no python' in note for note in found.notes)


def test_a_spack_root_without_spack_is_told(place, monkeypatch):
    monkeypatch.setenv('SPACK_ROOT', '/nowhere')
    assert 'SPACK_ROOT=/nowhere holds no bin/spack' in find(place).notes


# --- the cache ---

def test_a_second_look_runs_nothing_and_says_the_same(stocked):
    script(stocked.root / '.spack' / 'bin' / 'spack', 'echo spack >> $LOG; echo 1.1.0')
    first, ran = find(stocked), len(stocked.ran())
    assert ran > 0 and find(stocked) == first and len(stocked.ran()) == ran


def test_systems_with_environments_of_one_name_do_not_forget_each_others(site, monkeypatch):
    loads = []
    load = discover.load_modules
    monkeypatch.setattr(discover, 'load_modules', lambda names, env: loads.append(names) or load(names, env))
    entries = {system: [{'name': 'site', 'modules': [system], 'codes': ['hpcc']}] for system in ('cluster', 'other')}
    for _ in range(3):
        for system, entry in entries.items():
            assert find(site, entry, system).environs[1].modules == [system]
    assert loads == [['cluster'], ['other']]


def test_a_changed_program_is_looked_at_again(stocked):
    before = find(stocked).environs[0].identity
    script(stocked.bin / 'hpcc', HPCC + '\n# rebuilt')
    assert find(stocked).environs[0].identity != before


def test_a_link_that_moves_to_another_file_is_noticed(stocked):
    (stocked.bin / 'hpcc').rename(stocked.home / 'hpcc-a')
    shutil.copy2(stocked.home / 'hpcc-a', stocked.home / 'hpcc-b')
    (stocked.bin / 'hpcc').symlink_to(stocked.home / 'hpcc-a')
    assert find(stocked).environs[0].software['programs']['hpcc']['path'].endswith('hpcc-a')
    (stocked.bin / 'hpcc').unlink()
    (stocked.bin / 'hpcc').symlink_to(stocked.home / 'hpcc-b')
    assert find(stocked).environs[0].software['programs']['hpcc']['path'].endswith('hpcc-b')


def test_a_program_that_arrives_or_leaves_is_noticed(stocked):
    (stocked.bin / 'hpcc').rename(stocked.home / 'hpcc')
    assert 'hpcc' not in find(stocked).environs[0].features
    ran = len(stocked.ran())
    assert 'hpcc' not in find(stocked).environs[0].features and len(stocked.ran()) == ran
    (stocked.home / 'hpcc').rename(stocked.bin / 'hpcc')
    assert 'hpcc' in find(stocked).environs[0].features
    (stocked.bin / 'hpcc').unlink()
    assert 'hpcc' not in find(stocked).environs[0].features


def test_what_did_not_start_is_tried_again(stocked):
    script(stocked.bin / 'hpcc', f'[ -f {stocked.home}/licence ] || exit 1\n{HPCC}')
    assert 'hpcc' not in find(stocked).environs[0].features
    (stocked.home / 'licence').touch()
    assert 'hpcc' in find(stocked).environs[0].features


def test_another_processor_is_another_key(stocked, monkeypatch):
    find(stocked)
    ran = len(stocked.ran())
    monkeypatch.setattr(procfs, 'flags', lambda tree, first=None: frozenset({'other'}))
    find(stocked)
    assert len(stocked.ran()) > ran


@pytest.mark.parametrize('rubbish', ['', '{', '[]', 'null', '{"key": 1, "value": 2}'])
def test_a_corrupt_cache_is_ignored(stocked, rubbish):
    find(stocked)
    stocked.cache.write_text(rubbish)
    assert 'hpcc' in find(stocked).environs[0].features
    assert json.loads(stocked.cache.read_text())['value']['distro']


def test_an_unwritable_cache_is_no_error(stocked):
    stocked.cache.parent.write_text('')
    assert 'hpcc' in find(stocked).environs[0].features


# --- this machine ---

needs_hpcc = pytest.mark.skipif(not (shutil.which('hpcc') and shutil.which('mpirun')),
                                reason='hpcc and mpirun are not installed')


@needs_hpcc
def test_the_hpcc_of_this_machine(tmp_path):
    found = discover.discover(tmp_path, [], tmp_path / 'software.json')
    distro = found.environs[0]
    assert {'hpcc', 'mpi'} <= set(distro.features)
    assert distro.env_vars['OPENBLAS_NUM_THREADS'] == '1' or distro.software['blas']['name'] != 'OpenBLAS'
    assert found.announcement.startswith('software: distro (hpcc ') and '\n' not in found.announcement
    assert discover.discover(tmp_path, [], tmp_path / 'software.json') == found


@needs_hpcc
def test_the_openblas_of_this_machine_gets_kernels_for_this_processor():
    path = blas.loaded(shutil.which('hpcc'), os.environ).get('libopenblas.so.0')
    if not path:
        pytest.skip('hpcc does not load OpenBLAS')
    flags = procfs.flags(Tree('/'))
    choice = blas.choose(path, flags, {k: v for k, v in os.environ.items() if k != 'OPENBLAS_CORETYPE'})
    assert choice.version and choice.used
    assert blas.better(choice.used, flags) is None or 'none better' in choice.note


@pytest.mark.skipif(not shutil.which('dpkg-query'), reason='no dpkg here')
def test_dpkg_knows_the_package_of_a_file_and_not_of_another(tmp_path):
    (tmp_path / 'mine').touch()
    found = survey.owners(['/usr/bin/env', str(tmp_path / 'mine')])
    assert found['/usr/bin/env'][0] == 'coreutils' and list(found) == ['/usr/bin/env']
    assert attempt(['dpkg-query', '-W', '-f', '${Version}', 'coreutils']).out == found['/usr/bin/env'][1]


def test_rpm_answers_are_understood(place, monkeypatch):
    script(place.bin / 'rpm', 'case "$5$4" in *env*) printf "coreutils\\t8.32-36.el9\\n";; *) exit 1;; esac')
    found = survey.owners([str(place.bin / 'env'), str(place.home)])
    assert found == {str(place.bin / 'env'): ('coreutils', '8.32-36.el9')}
