"""A system.yaml that names a site's own configuration of ReFrame: its partitions, and what is wrong with the file."""

from __future__ import annotations

import pytest

from parity.base.errors import UsageError
from parity.site import systems

SETTINGS = """\
import sys
print('loading the settings')
site_configuration = {
    'systems': [
        {'name': 'site', 'descr': 'ours', 'hostnames': ['login'], 'partitions': [
            {'name': 'cpu', 'scheduler': 'flux-of-ours', 'launcher': 'srun', 'environs': ['gnu'],
             'access': ['--account=$ACCOUNT'], 'extras': {'node': 'ours'}},
            {'name': 'gpu', 'scheduler': 'local', 'launcher': 'local', 'environs': ['gnu'], 'max_jobs': 2}]}],
    'environments': [{'name': 'gnu', 'cc': 'gcc'}],
}
"""
SYSTEM = 'name: site\nreframe_config: SETTINGS\nrequires: []\n'


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write settings.py and system.yaml of a site of their own."""
    monkeypatch.setenv('PARITY_SITE', str(tmp_path))

    def write(settings: str = SETTINGS, stated: str = SYSTEM):
        file = tmp_path / 'settings.py'
        if settings:
            file.write_text(settings)
        system = tmp_path / 'systems' / 'site' / 'system.yaml'
        system.parent.mkdir(parents=True)
        system.write_text(stated.replace('SETTINGS', str(file)))
        return file, system
    return write


def test_the_partitions_are_those_of_the_settings(write, capsys):
    write()
    system = systems.read('site')
    assert [(part.name, part.max_jobs, part.environs) for part in system.partitions] == [('cpu', 8, ['gnu']), ('gpu', 2, ['gnu'])]
    assert system.hostnames == ['login'] and system.descr == 'ours'
    printed = capsys.readouterr()
    assert not printed.out, 'an answer in JSON stays JSON'
    assert printed.err == 'loading the settings\n', 'the file is read once'


def test_system_yaml_adds_what_parity_alone_needs(write):
    write(stated=SYSTEM + 'extras: {cpu: {cores: 64, memory_bytes: 1000}}\n')
    cpu, gpu = systems.read('site').partitions
    assert (cpu.extras.cores, gpu.extras.cores) == (64, None)


@pytest.mark.parametrize('settings, said', [
    ('import os\nHERE = os.environ["NO_SUCH"]\n', "settings.py:2: KeyError: 'NO_SUCH'"),
    ('x = (\n', 'settings.py:1: SyntaxError'),
    ('raise ValueError("no\\nway")\n', 'settings.py:1: ValueError: no way; correct it'),
    ('import sys\nsys.exit("not on this host")\n', 'settings.py:2: SystemExit: not on this host'),
    ('x = 1\n', 'settings.py: assigns no site_configuration'),
    ('', 'settings.py: No such file or directory; it must be a configuration of ReFrame'),
    (SETTINGS.replace("'site'", "'daint'"), "settings.py has no system 'site'; its systems are daint"),
    ("site_configuration = {'systems': [{'name': n, 'hostnames': [], 'partitions': [{'name': 'p', 'scheduler': 'local', 'launcher': 'local'}]}"
     " for n in ('alps', 'daint')]}", "settings.py has no system 'site'; its systems are alps, daint"),
    ("site_configuration = {'systems': [{'name': 'site', 'hostnames': [], 'partitions': [{'name': 'p', 'scheduler': 'local', 'launcher': 'local'}]}] * 2}",
     "settings.py states 'site' 2 times"),
    ("site_configuration = {'systems': [{'name': 'site', 'hostnames': ['x'], 'partitions': []}]}",
     'settings.py: systems.0.partitions: must have at least 1 item'),
    ("site_configuration = {'systems': [{'name': 'site', 'hostnames': ['x'], 'partitions': [{'name': 'p'}]}]}",
     'settings.py: systems.0.partitions.0.scheduler: Field required'),
    ('site_configuration = {}', 'settings.py: systems: Field required')])
def test_wrong_settings_are_refused_with_both_files(write, settings, said):
    file, system = write(settings)
    with pytest.raises(UsageError) as refused:
        systems.read('site')
    assert str(refused.value).startswith(f'{system}:2: reframe_config: {file}')
    assert said in str(refused.value)


@pytest.mark.parametrize('stated, said', [
    (SYSTEM + 'hostnames: [x]\n', 'hostnames: reframe_config states it'),
    (SYSTEM + 'partitions: [{name: p, scheduler: local, launcher: local}]\n', 'partitions: reframe_config states it'),
    (SYSTEM + 'extras: {cpus: {cores: 1}}\n', "4: extras: unknown partition 'cpus'; did you mean 'cpu'?; valid: cpu, gpu"),
    (SYSTEM.replace('SETTINGS', 'settings.py'), "reframe_config: 'settings.py' must be an absolute path"),
    (SYSTEM.replace('SETTINGS', '/settings.yaml'), '/settings.yaml: must be a configuration of ReFrame in Python'),
    ('name: site\nrequires: []\n', 'hostnames: must be stated where there is no reframe_config'),
    ('name: site\nhostnames: [x]\nrequires: []\nextras: {p: {cores: 1}}\npartitions: [{name: p, scheduler: local, launcher: local}]\n',
     'extras: only beside reframe_config')])
def test_a_key_that_the_settings_state_is_refused(write, stated, said):
    _, system = write(stated=stated)
    with pytest.raises(UsageError) as refused:
        systems.read('site')
    assert str(refused.value).startswith(f'{system}:') and said in str(refused.value)


def test_a_folder_is_no_file_of_settings(write, tmp_path):
    (tmp_path / 'settings.py').mkdir()
    write(settings='')
    with pytest.raises(UsageError, match='settings.py: no regular file; it must be a configuration'):
        systems.read('site')
