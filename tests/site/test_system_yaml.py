"""system.yaml: what is refused, with file, line, key and what is valid; and what its parts mean."""

from __future__ import annotations

import datetime

import pytest
from pydantic import ValidationError

from parity.base import yamlfile
from parity.base.errors import UsageError
from parity.site import systems
from parity.site.systems import Nightly, System, Waiver
from system_files import GOOD, example

HOSTILE = ('x;touch pwned', '$(id)', 'a b', "a'b", '`id`', 'a\nb', '../x', '')
NAMES = ('name', 'partitions.0.name', 'partitions.0.features.0', 'environments.0.name', 'environments.0.codes.0', 'requires.0')
COMMANDS = ('partitions.0.scheduler', 'partitions.0.launcher', 'partitions.0.access.0', 'modules_system', 'partitions.0.env_vars.0.0',
            'partitions.0.env_vars.0.1', 'environments.0.modules.0')


@pytest.mark.parametrize('path, value', [
    *((path, hostile) for path in NAMES for hostile in HOSTILE),
    *((path, hostile) for path in COMMANDS for hostile in ('x;touch pwned', '$(id)', '`id`', 'a\nb')),
    *(('partitions.0.environs', [hostile]) for hostile in HOSTILE), *(('partitions.0.extras.filesystems', {hostile: '/scratch'}) for hostile in HOSTILE)])
def test_a_hostile_name_or_value_is_refused(path, value):
    with pytest.raises(ValidationError):
        System.model_validate(example(path, value))


@pytest.mark.parametrize('network, said', [
    ({'interface': 'eth0; id', 'env_vars': [['A', 'b']]}, 'should match'), ({'interface': 'eth0', 'env_vars': [['A', '$(id)']]}, 'should match'),
    ({'interface': 'eth0', 'env_vars': []}, 'at least 1 item'), ({'interface': 'eth0', 'env_vars': [['A', 'b']], 'device': 'x'}, 'not permitted'),
    ({'interface': 'eth0', 'env_vars': [['A', 'b']], 'limits': {'link_bandwidth': {'value': 1, 'unit': 'GB/s', 'source': 'sheet'}}}, 'valid: MB/s')])
def test_a_network_names_its_interface_and_what_makes_mpi_take_it(network, said):
    with pytest.raises(ValidationError, match=said):
        System.model_validate(example('partitions.0.extras.networks', {'slow': network}))


@pytest.mark.parametrize('path, value', [
    ('partitions.0.access.0', '--constraint=(icelake|rome)&ib'), ('partitions.0.access.0', '-l place=scatter:excl'),
    ('partitions.0.env_vars.0.1', '${HOME}/x:$PATH'), ('environments.0.modules.0', 'gcc/13.2.0-abc+mpi')])
def test_what_sites_write_is_accepted(path, value):
    System.model_validate(example(path, value))


@pytest.mark.parametrize('old, new, said', [
    ('requires: []', 'requires: [hpccc]', "3: requires.0: unknown code 'hpccc'; valid: babelstream"),
    ('requires: []', 'requires: offered', "3: requires: 'offered' must be a list"),
    ('requires: []', 'require: []', "3: require: no such key; did you mean 'requires'?"),
    ('requires: []\n', '', '1: requires: Field required'),
    ('requires: []', 'requires: []\nwaivers: [{code: hpl, reason: x, until: soon}]', "4: waivers.0.until: 'soon' must be a date"),
    ('[login]', '[]', '2: hostnames: must have at least 1 item'), ('[login]', 'x', "2: hostnames: 'x' must be a list"), ('[login]', '[login', ''),
    ('hostnames: [login]', 'hostnames: ["("]', "2: hostnames.0: '(' is no regular expression"),
    ('name: site', 'name: site\nname: twice', "2: key 'name' is given twice"), ('name: site', 'name: 7', '1: name: 7 must be text'),
    ('name: site', 'name: !!python/object/apply:os.system [id]', '1: could not determine a constructor'),
    ('launcher: srun', 'launcher: srun\n    lancher: srun', "8: partitions.0.lancher: no such key; did you mean 'launcher'?"),
    ('scheduler: slurm', 'scheduler: slrum', "6: partitions.0.scheduler: 'slrum'; valid: 'flux', 'local'"),
    ('launcher: srun', 'launcher: srun\n    devices: [{type: gpu, num_device: 4}]', "8: partitions.0.devices.0.num_device: no such key; did you mean 'num_devices'?"),
    ('cores: 1', 'core: 1', "did you mean 'cores'?"), ('nodes: 1', 'nodes: -1', '8: partitions.0.extras.nodes: -1 must be greater than 0'),
    ('memory_bytes: 1', 'memory_bytes: 1.5', '8: partitions.0.extras.memory_bytes: 1.5 must be a whole number'),
    (GOOD, '- a\n', '1: must be a mapping'), (GOOD, '', ''), (GOOD, '\udcff\udcfe\x00', 'not YAML in UTF-8'),
    ('requires: []', 'requires: []\nenvironments: [{name: a, prefix: opt/x, codes: [hpl]}]', "4: environments.0.prefix: 'opt/x' must be an absolute path"),
    ('requires: []', 'requires: []\nenvironments: [{name: a, prefix: "/opt/x;id", codes: [hpl]}]', "4: environments.0.prefix: '/opt/x;id' must be an absolute path"),
    ('requires: []', 'requires: []\nenvironments: [{name: a, modules: [x], codes: [hpl], target_systems: [site:gpu]}]',
     "environments: a: target_systems: 'site:gpu'; valid: *, site, site:cpu, *:cpu"),
    ('scheduler: slurm', 'scheduler: pbs\n    access: [-q workq, -j oe]', "7: partitions.0.access: '-j oe' joins the files of a PBS job, and ReFrame waits for both"),
    ('scheduler: slurm', "scheduler: pbs\n    access: [-q workq, '-l select=2:ncpus=4']", "7: partitions.0.access: '-l select=2:ncpus=4': PBS ignores a second select"),
    ('cores: 1', 'cores: 1, limits: {memory_bandwidth: {value: 1, unit: MB/s, source: data sheet}}',
     "8: partitions.0.extras: limits: memory_bandwidth: unit 'MB/s'; valid: GB/s"),
])
def test_an_error_names_file_line_key_and_what_is_valid(tmp_path, old, new, said):
    file = tmp_path / 'system.yaml'
    file.write_text(GOOD)
    assert old in GOOD and yamlfile.read(file, System).name == 'site'
    file.write_text(GOOD.replace(old, new), errors='surrogateescape')
    with pytest.raises(UsageError) as caught:
        yamlfile.read(file, System)
    assert (f'{file}:{said}' if said[:1].isdigit() else said) in str(caught.value) and str(caught.value).startswith(f'{file}:')


def test_every_system_of_the_project_is_valid_and_local_is_tried_last():
    names = systems.names()
    assert names[-1] == 'local' and [systems.read(name).name for name in names] == names
    with pytest.raises(UsageError, match="unknown system 'nosuch'; valid: "):
        systems.read('nosuch')


def test_the_codes_of_a_prefix_are_required_beside_the_list(tmp_path):
    file = tmp_path / 'system.yaml'
    file.write_text(GOOD.replace('requires: []', 'requires: [osu]\nenvironments: [{name: a, prefix: /opt/x, codes: [hpl]}, '
                                                 '{name: b, modules: [x], codes: [imb]}]'))
    assert systems.required(yamlfile.read(file, System)) == {'osu', 'hpl'}


def test_a_waiver_holds_until_its_day_and_then_expires_loudly():
    day = datetime.date(2027, 1, 31)
    system = systems.read('local').model_copy(update={'waivers': [Waiver(code='hpcc', reason='no MPI yet', until=day)]})
    assert systems.waived(system, day) == ({'hpcc': 'waived until 2027-01-31: no MPI yet'}, [])
    assert systems.waived(system, day + datetime.timedelta(1)) == ({}, ['the waiver of hpcc expired on 2027-01-31 (no MPI yet)'])


@pytest.mark.parametrize('window, now, begin, end', (
    ('01:00-05:00', '2026-11-22 00:30', '2026-11-22 01:00', '2026-11-22 05:00'),
    ('01:00-05:00', '2026-11-22 04:59', '2026-11-22 01:00', '2026-11-22 05:00'),
    ('01:00-05:00', '2026-11-22 05:00', '2026-11-23 01:00', '2026-11-23 05:00'),
    ('22:00-05:00', '2026-11-22 23:00', '2026-11-22 22:00', '2026-11-23 05:00'),
    ('22:00-05:00', '2026-11-23 04:00', '2026-11-22 22:00', '2026-11-23 05:00'),
    ('22:00-05:00', '2026-11-23 12:00', '2026-11-23 22:00', '2026-11-24 05:00')))
def test_when_a_window_opens(window, now, begin, end):
    now, *wanted = (datetime.datetime.fromisoformat(text).timestamp() for text in (now, begin, end))
    assert Nightly(node_hours=1, window=window).opens(now) == tuple(wanted)


@pytest.mark.parametrize('text, why', (
    ('{node_hours: 0}', 'greater than 0'), ('{node_hours: 40, window: "05:00-05:00"}', 'never opens: it ends when it begins'),
    ('{node_hours: 40, window: "1-5"}', 'is no window; valid is, for instance'),
    ('{node_hours: 40}', 'needs a partition whose scheduler takes a node by its name: slurm, squeue, pbs')))
def test_what_the_file_may_not_say(site, text, why):
    site.write_text(f'{site.read_text()}\nnightly: {text}\n')
    with pytest.raises(UsageError, match=why):
        systems.read('local')


def test_a_night_without_a_window_may_begin_at_once():
    assert Nightly(node_hours=1).opens(7.0) == (7.0, float('inf'))


def test_an_environment_of_a_partition_of_the_system_and_one_of_a_prefix_are_read(tmp_path):
    file = tmp_path / 'system.yaml'
    file.write_text(GOOD.replace('requires: []', 'requires: []\nenvironments:\n  - {name: a, modules: [x], codes: [hpl], target_systems: ["site:cpu"]}\n'
                                                 '  - {name: b, prefix: /opt/x/, codes: [hpl]}'))
    a, b = yamlfile.read(file, System).environments
    assert (a.target_systems, b.prefix) == (['site:cpu'], '/opt/x')
