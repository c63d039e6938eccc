"""Environment modules: what loaded and what did not, as Lmod 8.6 and Environment Modules 5.2 print it (recorded), and on
whichever of them is here."""

import os
import re
import shutil
import subprocess
from types import SimpleNamespace

import pytest

from conftest import TOP, shell
from jobs import HPCC, sessions_of
from parity.base import reasons
from parity.measure.scheduler import scheduled
from parity.measure.software import discover

MODULES, RECORDED = TOP / 'jobs' / 'programs' / 'modules.sh', TOP / 'tests' / 'recorded' / 'modules'
REPLAY = '''module() { cat "$RECORDED/$(tr ' /' '-_' <<<"$*").txt" >&2; }; '''


def told(names, *, env, before=''):
    done = subprocess.run(['bash', '-c', f'{before}(. {MODULES} {names})'], capture_output=True, text=True, env=env, check=False)
    assert (done.returncode == 0) == (not done.stderr) and done.stdout == ''
    return done.stderr.strip().removeprefix('parity: module ')


@pytest.mark.parametrize('system, name, sentence', [
    ('lmod', 'gcc/13', 'gcc/13 is not loaded: The following module(s) are unknown: "gcc/13"; valid: gcc/12.2 gcc/prod mygcc'),
    ('lmod', 'openmpi', 'openmpi is not loaded: it is below others; put these before it: gcc/12.2'),
    ('lmod', 'false', 'false is not loaded: no licence for false on this node'),
    ('lmod', 'broken', 'broken is not loaded: /apps/modules/core/broken/1.0: (broken/1.0): invalid command name "nosuchcommand"'),
    ('lmod', 'nope', 'nope is not loaded: The following module(s) are unknown: "nope"; a hierarchy shows it behind its compiler and MPI; '
                     'MODULEPATH=/apps/modules/core'),
    ('envmod', 'gcc/13', "gcc/13 is not loaded: ERROR: Unable to locate a modulefile for 'gcc/13'; valid: gcc/12.2 mygcc"),
    ('envmod', 'openmpi', "openmpi is not loaded: ERROR: Unable to locate a modulefile for 'openmpi'; a hierarchy shows it behind its compiler "
                          'and MPI; MODULEPATH=/apps/modules/core'),
    ('envmod', 'false', 'false is not loaded: no licence for false on this node ERROR: Module evaluation aborted'),
    ('envmod', 'broken', 'broken is not loaded: Module ERROR: invalid command name "nosuchcommand" while executing')])
def test_a_module_that_is_not_loaded_is_told_with_what_is_valid(system, name, sentence):
    env = {'PATH': os.environ['PATH'], 'RECORDED': str(RECORDED / system), 'LOADEDMODULES': 'gcc/12.2', 'MODULEPATH': '/apps/modules/core'}
    assert told(name, env=env, before=REPLAY) == sentence


@pytest.mark.parametrize('system', ['lmod', 'envmod'])
def test_a_name_an_alias_and_a_version_of_a_loaded_module_are_loaded(system):
    env = {'PATH': os.environ['PATH'], 'RECORDED': str(RECORDED / system), 'LOADEDMODULES': 'a/1:gcc/12.2', '_LMFILES_': '/a/1:/apps/modules/core/gcc/12.2'}
    assert told('gcc gcc/12.2 a gcc/prod', env=env, before=REPLAY) == ''


def test_a_shell_without_a_module_command_is_told():
    env = {'PATH': os.environ['PATH'], 'LOADEDMODULES': ''}
    assert told('gcc', env=env) == 'gcc is not loaded: this login shell has no module command; a file of /etc/profile.d defines it'


@pytest.mark.parametrize('standalone', [False, True])
def test_a_job_ends_where_a_module_did_not_load(standalone):
    staged, modules = [], SimpleNamespace(modules=['gcc/13'])
    case = SimpleNamespace(current_partition=SimpleNamespace(local_env=SimpleNamespace(modules=[])), current_environ=modules, modules=['tools'],
                           standalone=standalone, stage_program=staged.append, prerun_cmds=['begin'])
    scheduled.demand_modules(case)
    assert (staged, case.prerun_cmds) == (([], ['begin']) if standalone else (['modules.sh'], ['(. ./modules.sh gcc/13 tools) || exit 2', 'begin']))


def test_parity_s_own_reason_comes_before_the_module_system_s():
    text = (RECORDED / 'lmod' / 'load-gcc_13.txt').read_text() + 'parity: module gcc/13 is not loaded: valid: gcc/12.2\n'
    assert reasons.complaint(text) == 'parity: module gcc/13 is not loaded: valid: gcc/12.2'


# ---- on the real thing

FILES = {'core/gcc/12.2': 'prepend-path PATH {tree}/bin\nprepend-path MODULEPATH {tree}/gcc', 'core/gcc/.modulerc': 'module-version gcc/12.2 prod',
         'gcc/openmpi/4.1': 'setenv MPI here', 'core/noisy/1.0': 'puts stderr "noisy is deprecated: error"', 'core/away/1.0': 'module unload gcc',
         'core/false/1.0': 'puts stderr "no licence here"\nexit 1', 'core/broken/1.0': 'nosuchcommand'}


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A hierarchy of module files below a folder of the test's own."""
    if not shutil.which('bash') or subprocess.run(['bash', '-lc', 'type module'], capture_output=True, check=False).returncode:
        pytest.skip('neither Lmod nor Environment Modules is installed: apt install lmod or environment-modules')
    for name, text in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text('#%Module1.0\n' + text.format(tree=tmp_path) + '\n')
    for name in ('LOADEDMODULES', '_LMFILES_'):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv('MODULEPATH', str(tmp_path / 'core'))
    return tmp_path


@pytest.mark.parametrize('names, why', [
    ('gcc openmpi noisy', ''), ('gcc/prod', ''), ('openmpi gcc', 'module openmpi is not loaded: behind the others it loads'),
    ('gcc/13 openmpi', 'valid: gcc/12.2'), ('gcc false', 'module false is not loaded: no licence here'), ('broken', 'nosuchcommand'),
    ('gcc away', 'module gcc is not loaded'), ('openmpi', 'MODULEPATH={tree}/core|put these before it: gcc/12.2')])
def test_modules_of_a_real_tree(tree, names, why):
    loaded, said = discover.load_modules(names.split(), os.environ)
    assert bool(loaded) == (not why) and any(each.format(tree=tree) in said for each in why.split('|'))
    assert not loaded or loaded['PATH'].split(':')[0] == f'{tree}/bin'


@pytest.mark.parametrize('word', ['module', 'ml'])
def test_commands_before_the_modules_come_first_as_in_a_job(tree, monkeypatch, word):
    monkeypatch.delenv('MODULEPATH')
    assert discover.load_modules(['gcc'], os.environ)[0] is None
    loaded, _ = discover.load_modules(['gcc', 'openmpi'], os.environ, [f'{word} purge', f'{word} use {tree}/core'])
    assert loaded['MPI'] == 'here'
    assert discover.taken_along({**os.environ, 'LOADEDMODULES': 'gcc/12.2'}) == ['gcc/12.2']


@pytest.mark.full
def test_nights_on_the_mpi_of_modules_and_of_a_prefix_are_compared(tree, checkout):
    """The mpirun of each starts that of this machine."""
    if not HPCC:
        pytest.skip('needs mpirun')
    for name in ('a', 'b', 'own'):
        script = tree / name / 'bin' / 'mpirun'
        script.parent.mkdir(parents=True)
        script.write_text(f'#!/bin/sh\necho "$PWD" >>"{tree}/{name}/log"\nexec {shutil.which("mpirun")} "$@"\n')
        script.chmod(0o755)
        (tree / 'gcc' / 'mpi').mkdir(parents=True, exist_ok=True)
        (tree / 'gcc' / 'mpi' / name).write_text(f'#%Module1.0\nprepend-path PATH {tree}/{name}/bin\n')
    site = checkout / 'systems' / 'local' / 'system.yaml'
    site.write_text(site.read_text().replace('environments: []', f"""modules_system: {'lmod' if 'LMOD_CMD' in os.environ else 'envmod'}
environments:
  - {{name: a, modules: [gcc/12.2, mpi/a], codes: [pingpong]}}
  - {{name: b, modules: [gcc/12.2, mpi/b], codes: [pingpong]}}
  - {{name: own, prefix: "{tree}/own", codes: [pingpong]}}""").replace('    scheduler: local\n', f"""    scheduler: local
    prepare_cmds: [module purge, module use {tree}/core]
"""))
    for name in ('a', 'b', 'own'):
        done = shell(f"ci/nightly --system local --repeats 1 -n '^Pingpong%where=within' -p {name}", checkout)
        assert done.returncode in (0, 1), done.stdout[-3000:] + done.stderr
        assert str(checkout) in (tree / name / 'log').read_text(), 'a case ran by it'
    numbers = [session['session_info']['uuid'][:8] for session in sessions_of(checkout)]
    for sides in numbers[:2], numbers[1:]:
        for label, code in ('', 2), ('--label', 0):
            done = shell(f'. ci/activate; parity compare {" ".join(sides)} {label}', checkout)
            assert done.returncode == code and re.search(r'not like for like, (refused|compared all the same): software identity \w+ \| identity \w+ \(3 metrics\)', done.stdout), done
