"""systems/<name>/system.yaml: errors name file, line, key and what is valid; stated wins over detected."""

from __future__ import annotations

import datetime
from types import SimpleNamespace

import pytest

from parity.base import yamlfile
from parity.base.errors import UsageError
from parity.site import assemble
from parity.system import systems
from parity.system.schema import Partition, System, Waiver

GOOD = """\
name: site
hostnames: [login]
requires: offered
partitions:
  - name: cpu
    scheduler: slurm
    launcher: srun
"""


@pytest.mark.parametrize('old, new, line, said', [
    ('requires: offered', 'requires: [hpccc]', 3, "unknown code 'hpccc'; valid: babelstream"),
    ('requires: offered', 'requires: everything', 3, "must be 'offered' or a list of codes"),
    ('requires: offered', 'require: offered', 3, "no such key; did you mean 'requires'?"),
    ('requires: offered\n', '', 1, 'requires: Field required'),
    ('hostnames: [login]', 'hostnames: []', 2, 'at least 1 item'),
    ('hostnames: [login]', 'hostnames: [login', 2, ''),
    ('name: site', 'name: site\nname: twice', 2, "key 'name' is given twice"),
    ('    launcher: srun', '    launcher: srun\n    lancher: srun', 8, "no such key; did you mean 'launcher'?"),
    ('    launcher: srun', '    launcher: srun\n    max_jobs: 0', 8, 'greater than 0'),
    ('    launcher: srun', '    launcher: srun\n    name: a b', 8, ''),
    ('name: cpu', "name: 'x;touch pwned'", 5, 'match pattern'),
    ('requires: offered', 'requires: offered\nwaivers: [{code: hpl, reason: x, until: soon}]', 4, 'valid date'),
    ('    launcher: srun', '    launcher: srun\n    devices: [{type: gpu, num_devices: four}]', 8,
     "partitions.0.devices.0.num_devices: 'four' is no whole number"),
    ('    launcher: srun', '    launcher: srun\n    devices: [{type: gpu, num_devices: 0}]', 8, 'num_devices: 0 must be greater than 0'),
    ('    launcher: srun', '    launcher: srun\n    devices: [{type: gpu, num_device: 4}]', 8, "did you mean 'num_devices'?"),
    ('name: site', 'name: !!python/object/apply:os.system [id]', 1, 'could not determine a constructor'),
])
def test_an_error_names_file_line_key_and_what_is_valid(tmp_path, old, new, line, said):
    file = tmp_path / 'system.yaml'
    assert old in GOOD
    file.write_text(GOOD.replace(old, new))
    with pytest.raises(UsageError) as caught:
        yamlfile.read(file, System)
    if said:
        assert f'{file}:{line}: ' in str(caught.value) and said in str(caught.value)
    else:
        assert str(caught.value).startswith(f'{file}:')


@pytest.mark.parametrize('content', [b'', b'[]', b'\xff\xfe\x00', b'a: \x00', b'- 1\n'])
def test_what_is_no_mapping_is_one_clear_error(tmp_path, content):
    file = tmp_path / 'system.yaml'
    file.write_bytes(content)
    with pytest.raises(UsageError, match='system.yaml'):
        yamlfile.read(file, System)


def test_every_system_of_the_project_is_valid_and_local_is_tried_last():
    names = systems.names()
    assert names[-1] == 'local'
    for name in names:
        assert systems.read(name).name == name
    with pytest.raises(UsageError, match="unknown system 'nosuch'; valid: "):
        systems.read('nosuch')


def test_a_waiver_holds_until_its_day_and_then_expires_loudly():
    day = datetime.date(2027, 1, 31)
    system = System(name='s', hostnames=['x'], requires=['hpcc'], partitions=[{'name': 'p', 'scheduler': 'local',
                    'launcher': 'local'}], waivers=[Waiver(code='hpcc', reason='no MPI yet', until=day)])
    holding, expired = systems.waived(system, day)
    assert 'no MPI yet' in holding['hpcc'] and not expired
    holding, expired = systems.waived(system, day + datetime.timedelta(1))
    assert not holding and 'expired on 2027-01-31' in expired[0]


def test_what_is_stated_wins_over_what_was_detected(results):
    from parity import machine
    here = machine.load(results / 'machine.json')
    stated = Partition(name='p', scheduler='local', launcher='mpirun', features=['fast'], extras={
        'cores': 1, 'limits': {'peak_flops': {'value': 5.0, 'unit': 'Gflop/s', 'source': 'data sheet'}}})
    found = SimpleNamespace(announcement='software: none')
    part = assemble._partition(systems.read('local'), stated, here, ['distro'], found)
    assert part['extras']['cores'] == 1 and part['extras']['memory_bytes'] == here.memory_bytes
    assert part['extras']['limits']['peak_flops'] == {
        'value': 5.0, 'unit': 'Gflop/s', 'source': 'data sheet', 'certain': True}
    assert {'fast', 'cpu'} <= set(part['features']) and part['max_jobs'] == 1


def test_the_configuration_is_what_reframe_accepts(results):
    from reframe.core.config import load_config
    file = results / 'settings.py'
    file.write_text('from parity.site import assemble\nsite_configuration = assemble.site_configuration()\n')
    site = load_config('<builtin>', str(file))
    site.validate()
    site.select_subconfig('local', ignore_resolve_errors=True)
    assert site.get('systems/0/partitions/0/max_jobs') == 1
    assert site.get('storage/0/enable') and site.get('general/0/check_search_recursive')
    assert site.get('storage/0/sqlite_db_file') == str(results / 'results.db')


def test_where_many_jobs_are_in_flight_the_scheduler_is_asked_once_a_second(tmp_path, monkeypatch):
    from reframe.core.config import load_config
    monkeypatch.setenv('PARITY_ROOT', str(tmp_path))
    for name, jobs in (('one', 1), ('many', 50)):
        (tmp_path / 'systems' / name).mkdir(parents=True)
        (tmp_path / 'systems' / name / 'system.yaml').write_text(
            f'name: {name}\nhostnames: [x]\nrequires: []\npartitions:\n  - name: p\n    scheduler: slurm\n    launcher: srun\n'
            f'    max_jobs: {jobs}\n    extras: {{cores: 1, memory_bytes: 1}}\n')
    file = tmp_path / 'settings.py'
    file.write_text('from parity.site import assemble\nsite_configuration = assemble.site_configuration()\n')
    for name, rate in (('one', 10), ('many', 1)):
        site = load_config('<builtin>', str(file))
        site.validate()
        site.select_subconfig(name, ignore_resolve_errors=True)
        assert site.get('general/0/poll_rate_max') == rate and site.get('general/0/check_search_recursive')


BAD = {
    'name: s': 'name: 7', 'hostnames: [x]': 'hostnames: ["("]', 'requires: offered': 'requires: offered\ndetect: maybe', 'scheduler: local': 'scheduler: slrum',
    'launcher: local': 'launcher: local\n    access: --exclusive', 'cores: 1': 'core: 1', 'nodes: 1': 'nodes: -1', 'memory_bytes: 1': 'memory_bytes: 1.5',
}
WORDS = ("1: name: 7 is no valid string", "2: hostnames.0: '(' is no regular expression", "4: detect: 'maybe' is neither true nor false; or 'maybe'; valid: 'host'",
         "6: partitions.0.scheduler: unknown scheduler 'slrum'; valid: flux,", "8: partitions.0.access: '--exclusive' is no list", "did you mean 'cores'?",
         '8: partitions.0.extras.nodes: -1 must be greater than 0', '8: partitions.0.extras.memory_bytes: 1.5 is no whole number')


@pytest.mark.parametrize('change, said', list(zip(BAD.items(), WORDS, strict=True)), ids=[w.split()[-1] for w in WORDS])
def test_an_error_says_what_stands_there_and_what_would_be_valid(tmp_path, change, said):
    file = tmp_path / 'system.yaml'
    good = ('name: s\nhostnames: [x]\nrequires: offered\npartitions:\n  - name: p\n    scheduler: local\n    launcher: local\n'
            '    extras: {cores: 1, nodes: 1, memory_bytes: 1}\n')
    file.write_text(good)
    assert yamlfile.read(file, System).name == 's'
    file.write_text(good.replace(*change))
    with pytest.raises(UsageError) as err:
        yamlfile.read(file, System)
    assert said in str(err.value), err.value


@pytest.mark.parametrize('text, said', [('until: 2027-02-30\n', ":1: '2027-02-30': day is out of range"), ('a: ' + '[' * 5000, 'nested too deeply'),
                                        ('- a\n', ':1: must be a mapping')])
def test_what_no_yaml_can_be_is_told_with_its_line(tmp_path, text, said):
    file = tmp_path / 'x.yaml'
    file.write_text(text)
    with pytest.raises(UsageError, match=said):
        yamlfile.read(file, System)


def test_schedulers_and_launchers_are_those_of_reframe():
    import importlib

    import reframe.core.backends as backends

    from parity.system import schema
    for module in (*backends._scheduler_backend_modules, *backends._launcher_backend_modules):
        importlib.import_module(module)
    assert (set(schema.SCHEDULERS), set(schema.LAUNCHERS)) == (set(backends._schedulers), set(backends._launchers))
