"""systems/<name>/system.yaml: errors name file, line, key and what is valid; stated wins over detected."""

from __future__ import annotations

import datetime
from types import SimpleNamespace

import pytest

from parity.base import yamlfile
from parity.base.errors import UsageError
from parity.site import assemble
from parity.system import systems
from parity.system.systems import Partition, System, Waiver

GOOD = """\
name: site
hostnames: [login]
requires: offered
partitions:
  - name: cpu
    scheduler: slurm
    launcher: srun
    extras: {cores: 1, nodes: 1, memory_bytes: 1}
"""


def device(text: str) -> tuple[str, str]:
    return 'launcher: srun', f'launcher: srun\n    devices: [{{type: gpu, {text}}}]'


@pytest.mark.parametrize('old, new, said', [
    ('requires: offered', 'requires: [hpccc]', "3: requires: unknown code 'hpccc'; valid: babelstream"),
    ('requires: offered', 'requires: everything', "3: requires: 'everything': must be 'offered' or a list of codes"),
    ('requires: offered', 'require: offered', "3: require: no such key; did you mean 'requires'?"),
    ('requires: offered\n', '', '1: requires: Field required'),
    ('requires: offered', 'requires: offered\nwaivers: [{code: hpl, reason: x, until: soon}]', "4: waivers.0.until: 'soon' is no valid date"),
    ('requires: offered', 'requires: offered\ndetect: maybe', "4: detect: 'maybe' is neither true nor false; or 'maybe'; valid: 'host'"),
    ('hostnames: [login]', 'hostnames: []', '2: hostnames: must have at least 1 item'), ('hostnames: [login]', 'hostnames: [login', ''),
    ('hostnames: [login]', 'hostnames: ["("]', "2: hostnames.0: '(' is no regular expression"),
    ('name: site', 'name: site\nname: twice', "2: key 'name' is given twice"), ('name: site', 'name: 7', '1: name: 7 is no valid string'),
    ('name: site', 'name: !!python/object/apply:os.system [id]', '1: could not determine a constructor'),
    ('name: cpu', "name: 'x;touch pwned'", "5: partitions.0.name: 'x;touch pwned' does not match pattern"),
    ('launcher: srun', 'launcher: srun\n    lancher: srun', "8: partitions.0.lancher: no such key; did you mean 'launcher'?"),
    ('launcher: srun', 'launcher: srun\n    max_jobs: 0', '8: partitions.0.max_jobs: 0 must be greater than 0'),
    ('launcher: srun', 'launcher: srun\n    name: a b', ''),
    ('launcher: srun', 'launcher: srun\n    access: --exclusive', "8: partitions.0.access: '--exclusive' is no list"),
    ('scheduler: slurm', 'scheduler: slrum', "6: partitions.0.scheduler: unknown scheduler 'slrum'; valid: flux,"),
    (*device('num_devices: four'), "8: partitions.0.devices.0.num_devices: 'four' is no whole number"),
    (*device('num_devices: 0'), '8: partitions.0.devices.0.num_devices: 0 must be greater than 0'),
    (*device('num_device: 4'), "8: partitions.0.devices.0.num_device: no such key; did you mean 'num_devices'?"),
    ('cores: 1', 'core: 1', "did you mean 'cores'?"), ('nodes: 1', 'nodes: -1', '8: partitions.0.extras.nodes: -1 must be greater than 0'),
    ('memory_bytes: 1', 'memory_bytes: 1.5', '8: partitions.0.extras.memory_bytes: 1.5 is no whole number'),
    (GOOD, 'until: 2027-02-30\n', "1: '2027-02-30': day is out of range"), (GOOD, 'a: ' + '[' * 5000, 'nested too deeply'),
    (GOOD, '- a\n', '1: must be a mapping'), (GOOD, '[]', '1: must be a mapping'), (GOOD, '', ''), (GOOD, 'a: \x00', ''),
])
def test_an_error_names_file_line_key_and_what_is_valid(tmp_path, old, new, said):
    file = tmp_path / 'system.yaml'
    file.write_text(GOOD)
    assert old in GOOD and yamlfile.read(file, System).name == 'site'
    file.write_text(GOOD.replace(old, new))
    with pytest.raises(UsageError) as caught:
        yamlfile.read(file, System)
    assert (f'{file}:{said}' if said[:1].isdigit() else said) in str(caught.value) and str(caught.value).startswith(f'{file}:')


def test_bytes_that_are_no_utf_8_are_one_clear_error(tmp_path):
    (tmp_path / 'system.yaml').write_bytes(b'\xff\xfe\x00')
    with pytest.raises(UsageError, match='system.yaml: not YAML in UTF-8'):
        yamlfile.read(tmp_path / 'system.yaml', System)


def test_every_system_of_the_project_is_valid_and_local_is_tried_last():
    names = systems.names()
    assert names[-1] == 'local' and [systems.read(name).name for name in names] == names
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
    limit = {'value': 5.0, 'unit': 'Gflop/s', 'source': 'data sheet'}
    stated = Partition(name='p', scheduler='local', launcher='mpirun', features=['fast'], extras={'cores': 1, 'limits': {'peak_flops': limit}})
    part = assemble._partition(systems.read('local'), stated, here, ['distro'], SimpleNamespace(announcement='software: none'))
    assert part['extras']['cores'] == 1 and part['extras']['memory_bytes'] == here.memory_bytes
    assert part['extras']['limits']['peak_flops'] == {**limit, 'certain': True}
    assert {'fast', 'cpu'} <= set(part['features']) and part['max_jobs'] == 1


def configuration(folder, system: str):
    """The configuration as ReFrame reads it."""
    from reframe.core.config import load_config
    file = folder / 'settings.py'
    file.write_text('from parity.site import assemble\nsite_configuration = assemble.site_configuration()\n')
    site = load_config('<builtin>', str(file))
    site.validate()
    site.select_subconfig(system, ignore_resolve_errors=True)
    return site


def test_the_configuration_is_what_reframe_accepts(results):
    site = configuration(results, 'local')
    assert site.get('systems/0/partitions/0/max_jobs') == 1
    assert site.get('storage/0/enable') and site.get('general/0/check_search_recursive')
    assert site.get('storage/0/sqlite_db_file') == str(results / 'results.db')


def test_where_many_jobs_are_in_flight_the_scheduler_is_asked_once_a_second(tmp_path, monkeypatch):
    monkeypatch.setenv('PARITY_ROOT', str(tmp_path))
    for name, jobs in (('one', 1), ('many', 50)):
        (tmp_path / 'systems' / name).mkdir(parents=True)
        (tmp_path / 'systems' / name / 'system.yaml').write_text(
            GOOD.replace('site', name).replace('offered', '[]').replace('launcher: srun', f'launcher: srun\n    max_jobs: {jobs}'))
    for name, rate in (('one', 10), ('many', 1)):
        site = configuration(tmp_path, name)
        assert site.get('general/0/poll_rate_max') == rate and site.get('general/0/check_search_recursive')


def test_schedulers_and_launchers_are_those_of_reframe():
    import importlib

    import reframe.core.backends as backends

    from parity.system import systems
    for module in (*backends._scheduler_backend_modules, *backends._launcher_backend_modules):
        importlib.import_module(module)
    assert (set(systems.SCHEDULERS), set(systems.LAUNCHERS)) == (set(backends._schedulers), set(backends._launchers))
