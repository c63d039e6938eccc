"""A site's own configuration of ReFrame under parity: it runs as it is, and parity's checks join where they fit."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from commands import parity
from conftest import needs_cc, shell
from parity.base.errors import UsageError
from parity.measure.rfm import adopt
from parity.measure.session import assemble
from parity.site import systems
from warm import reframe

SETTINGS = """\
site_configuration = {
    'systems': [{'name': 'site', 'hostnames': ['login'], 'stagedir': '/nowhere', 'partitions': [
        {'name': 'cpu', 'scheduler': 'local', 'launcher': 'local', 'environs': ['gnu'],
         'extras': {'node': 'ours', 'cores': 1}, 'max_jobs': 3},
        {'name': 'old', 'scheduler': 'local', 'launcher': 'local', 'environs': ['gnu', 'plain']}]}],
    'environments': [
        {'name': 'gnu', 'cc': 'cc', 'features': ['openmp'], 'extras': {'omp_flag': '-DOMP=7'}},
        {'name': 'gnu', 'cc': 'cc', 'target_systems': ['site:old']},
        {'name': 'plain', 'cc': 'cc'}],
    'general': [{'trap_job_errors': True, 'check_search_recursive': False}],
    'modes': [{'name': 'ours', 'options': ['-n With']}],
}
"""
CHECK = """
import reframe as rfm
import reframe.utility.sanity as sn


@rfm.simple_test
class With(rfm.RegressionTest):
    valid_systems = ['*']
    valid_prog_environs = ['+openmp']
    build_system = 'SingleSource'
    sourcepath = 'a.c'

    @run_before('compile')
    def flags(self):
        self.build_system.cflags = [self.current_environ.extras['omp_flag']]

    @sanity_function
    def says(self):
        return sn.assert_found('rate', self.stdout)

    @performance_function('GB/s')
    def rate(self):
        return sn.extractsingle(r'rate (\\S+)', self.stdout, 1, float)
"""
SOURCE = '#include <stdio.h>\nint main(void) { return printf("rate %d\\n", OMP) < 0; }\n'


@pytest.fixture
def site(checkout) -> Path:
    """The folder of a site beside a checkout: its settings.py, its check, and its system in system.yaml."""
    folder = checkout.parent / 'site'
    (folder / 'src').mkdir(parents=True)
    (folder / 'settings.py').write_text(SETTINGS)
    (folder / 'check.py').write_text(CHECK)
    (folder / 'src' / 'a.c').write_text(SOURCE)
    system = checkout / 'systems' / 'site' / 'system.yaml'
    system.parent.mkdir()
    system.write_text(f'name: site\nreframe_config: {folder}/settings.py\nrequires: []\nchecks: [{folder}/check.py]\n'
                      'extras: {cpu: {others_cpus: 1000}}\n')
    return folder


@needs_cc
def test_a_check_runs_under_the_settings_of_its_site_and_is_judged(checkout, site):
    (site / 'settings.py').write_text(SETTINGS.replace("'stagedir': '/nowhere', ", ''))
    done = reframe(checkout, '-c checks/ -r --system site --mode=ours', RFM_COLORIZE='n')
    assert '[       OK ] (1/1) With' in done.stdout, done.stdout + done.stderr
    cells = json.loads(parity('verdict', '--json', PARITY_ROOT=str(checkout)).stdout)['cells']
    words = {cell['partition']: (cell['environ'], cell['verdict'], cell['value']) for cell in cells}
    assert words == {'cpu': ('gnu', 'unreferenced', 7), 'old': ('', 'skipped', None)}


@needs_cc
def test_an_environment_of_system_yaml_takes_reframes_own_keys(checkout, site):
    stated = checkout / 'systems' / 'site' / 'system.yaml'
    stated.write_text(f"""\
name: site
hostnames: [login]
requires: []
checks: [{site}/check.py]
environments:
  - {{name: gnu, cc: cc, cflags: [-O2], features: [openmp], extras: {{omp_flag: -DOMP=8}}, target_systems: ['site:cpu']}}
partitions:
  - {{name: cpu, scheduler: local, launcher: local, extras: {{cores: 1, memory_bytes: 1}}}}
  - {{name: old, scheduler: local, launcher: local, extras: {{cores: 1, memory_bytes: 1}}}}
""")
    done = reframe(checkout, f'-c {site}/check.py -r --system site', RFM_COLORIZE='n')
    ended = [line for line in done.stdout.splitlines() if '/1) With' in line]
    assert len(ended) == 1 and '@site:cpu+gnu' in ended[0] and ' OK ]' in ended[0], done.stdout + done.stderr


def test_a_check_at_the_top_of_a_site_has_a_subsystem(tmp_path, monkeypatch):
    monkeypatch.setenv('PARITY_SITE', str(tmp_path))
    check = SimpleNamespace(prefix=str(tmp_path), tags=set())
    assert adopt.Answers(check).parity_subsystem == 'other'


def test_the_settings_are_taken_as_they_are(checkout, site, monkeypatch):
    monkeypatch.setenv('PARITY_ROOT', str(checkout))
    found = assemble.site_configuration('site')
    system, = found['systems']
    cpu, old = system['partitions']
    assert system['stagedir'] == '/nowhere' and system['prefix'] == str(checkout / 'results')
    assert (cpu['environs'], old['environs'], cpu['max_jobs']) == (['gnu'], ['gnu', 'plain'], 3)
    assert cpu['extras']['node'] == 'ours'
    assert [environ.get('cc') for environ in found['environments']] == ['cc', 'cc', 'cc']
    assert found['general'][-1] == {'trap_job_errors': True, 'target_systems': ['site']}, 'the checks are parity\'s to find'
    assert 'ours' in [mode['name'] for mode in found['modes']]


def test_paritys_environments_join_where_cores_and_memory_are_known(checkout, site, monkeypatch):
    monkeypatch.setenv('PARITY_ROOT', str(checkout))
    stated = checkout / 'systems' / 'site' / 'system.yaml'
    text = stated.read_text().replace('others_cpus: 1000', 'cores: 2, memory_bytes: 1000') + 'environments: [{name: codes, codes: [stream, cc]}]\n'
    stated.write_text(text)
    parts = assemble._parts(systems.read('site'))
    system, environs = parts.system, parts.environments
    assert [part['environs'] for part in system['partitions']] == [['gnu', 'codes'], ['gnu', 'plain']]
    assert system['partitions'][0]['extras']['cores'] == 2 and environs[-1]['features'] == ['stream', 'cc', 'mpi']
    stated.write_text(text.replace('name: codes', 'name: plain'))
    with pytest.raises(UsageError, match="environments: 'plain' is the name of two"):
        assemble._parts(systems.read('site'))


@pytest.mark.parametrize('old, new, said', [
    ("'environs': ['gnu', 'plain']", "'environs': [], 'time_limit': []", 'systems/0/partitions/1/time_limit: [] is not of type'),
    ("'plain'", "'absent'", "environments 'plain' are not defined for 'site'"),
    ("'max_jobs': 3", "'max_job': 3", "systems/0/partitions/0: Additional properties are not allowed ('max_job' was unexpected)")])
def test_reframe_says_what_it_refuses(checkout, site, monkeypatch, old, new, said):
    monkeypatch.setenv('PARITY_ROOT', str(checkout))
    (site / 'settings.py').write_text(SETTINGS[::-1].replace(old[::-1], new[::-1], 1)[::-1])
    with pytest.raises(UsageError) as refused:
        assemble.site_configuration('site')
    assert said in str(refused.value) and 'system.yaml:2: reframe_config: ' in str(refused.value)


def test_settings_that_take_paritys_place_are_told_in_one_line(checkout, site):
    done = shell(f'. ci/activate && reframe -C {site}/settings.py -c {site}/check.py -l --system site', checkout)
    said, = done.stderr.splitlines()
    assert said.startswith("parity: -C takes the place of parity's settings") and 'reframe_config: FILE' in said
    assert 'Found 1 check(s)' in done.stdout
    quiet = shell('. ci/activate && reframe -C "$RFM_CONFIG_FILES" -c checks/memory/stream -l', checkout)
    assert 'takes the place' not in quiet.stderr


def test_paritys_checks_refuse_the_settings_of_others(checkout, site):
    done = shell(f'.venv/bin/reframe -C {site}/settings.py -c checks/storage/fileset/fileset.py -r --system site', checkout)
    assert done.returncode == 2 and 'PASSED' not in done.stdout
    assert done.stderr.splitlines()[-1].startswith("parity: parity's checks run under parity's settings only, and ReFrame read "
                                                   f'{site}/settings.py: ')
