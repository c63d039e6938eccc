"""Recorded outputs through the storage checks' own parse(): what came out of a cache says so."""

from __future__ import annotations

import pytest

from parity.check.reader import Wrong
from replay import Replay, check, recorded, room

fileset = room('fileset')
fio = room('fio')
ior = room('ior')
mdtest = room('mdtest')

GIB = 1 << 30


def ior_case(text: str, memory=GIB, local=True, **attributes) -> Replay:
    facts = ior.read(text)[1]
    ran = {'api': facts['api'], 'access': facts['access'], 'span': int(facts['nodes']), 'num_tasks': int(facts['tasks']),
           'direct_asked': True, 'took_direct': lambda: facts['direct'] == 'yes'}
    return Replay(check('ior', 'Ior'), {'memory_bytes': memory}, caches_known=dict, is_local=lambda: local, **{**ran, **attributes})


@pytest.mark.parametrize('name', ['ior-posix-np4-fpp', 'ior-posix-np2-odirect', 'ior-posix-np4-shared-cq'])
def test_ior_gives_every_metric_it_declares(name):
    text = (recorded('ior') / f'{name}.txt').read_text()
    case = ior_case(text)
    assert set(case.replay(text)) == {'write', 'read'}
    for wrong in ({'took_direct': lambda: not case.took_direct()}, {'api': 'X'}, {'access': 'X'}, {'span': 7}, {'num_tasks': 7}):
        with pytest.raises(Wrong, match='asked for|no -C'):
            ior_case(text, **wrong).replay(text)


def test_ior_writes_without_fsync_are_wrong():
    text = (recorded('ior') / 'ior-mpiio-np4-collective.txt').read_text()
    with pytest.raises(Wrong, match="fsync, direct .*'no'"):
        ior_case(text).replay(text)


def test_ior_reads_that_may_come_out_of_memory_are_labelled():
    text = (recorded('ior') / 'ior-posix-np4-fpp.txt').read_text()
    size = ior.read(text)[1]['aggregate_bytes']
    for case, labelled in ((ior_case(text, memory=size), True), (ior_case(text, memory=None), True),
                           (ior_case(text, memory=size // 2), False)):
        case.replay(text)
        assert set(case.labels) == ({'read'} if labelled else set())


def test_ior_on_two_nodes_is_cached_where_one_kernel_has_the_file_system():
    text = (recorded('ior') / 'ior-posix-2nodes-shared.txt').read_text()
    for local in (True, False):
        case = ior_case(text, local=local)
        case.replay(text)
        assert bool(case.labels) == local
    own = text.replace(' -C -Q 1', '').replace('constant task offset', 'no tasks offsets')
    with pytest.raises(Wrong, match='every rank reads what it wrote itself'):
        ior_case(own).replay(own)


def mdtest_case(text: str, local=True, **attributes) -> Replay:
    facts = mdtest.read(text)[1]
    cls = check('mdtest', 'Mdtest')
    ran = {'num_tasks': facts['tasks'], 'span': facts['nodes'], 'items': facts['items'], 'iterations': facts['iterations']}
    return Replay(cls, {}, caches_known=dict, is_local=lambda: local, **{**ran, **attributes})


@pytest.mark.parametrize('name', ['mdtest-np2-u-we', 'mdtest-np4-u', 'mdtest-np1'])
def test_mdtest_gives_every_metric_it_declares(name, monkeypatch):
    text = (recorded('mdtest') / f'{name}.txt').read_text()
    case = mdtest_case(text)
    assert len(case.replay(text)) == 7
    assert set(case.labels) == {'file_stat', 'file_read', 'dir_stat'}
    two = mdtest_case(text, local=False, span=2)
    values, facts = mdtest.read(text)
    on_two = lambda text: (values, {**facts, 'nodes': 2})       # noqa: E731
    with monkeypatch.context() as patched:
        patched.setitem(two.cls.parse.__globals__, 'read', on_two)
        two.replay(text)
    assert set(two.labels) == {'file_read'}         # on two nodes, what a rank reads is its own
    with pytest.raises(Wrong, match='asked for'):
        mdtest_case(text, num_tasks=99).replay(text)


@pytest.mark.parametrize('name', ['read-1rank', 'read-2nodes', 'read-2ranks-memory', 'read-write-2nodes-4ranks'])
def test_fileset_gives_every_metric_it_declares(name):
    text = (recorded('fileset') / f'{name}.txt').read_text()
    facts = fileset.read(text)[1]
    cls = check('fileset', 'Fileset')
    cls.parse.__globals__['BYTES'].update(recorded=facts['bytes'])
    case = Replay(cls, {}, mode=facts['mode'], file='recorded', files=facts['files'], num_tasks=facts['ranks'])
    assert set(case.replay(text)) == {'rate', 'ns_per_byte', 'file_rate'}
    assert bool(case.labels) == (facts['source cached'] != 'no' and facts['read_from'] == 'own')
    case.files += 1
    with pytest.raises(Wrong, match='asked for'):
        case.replay(text)


def fio_case(text: str, operation: str, memory=GIB, direct=True, kind='ext4') -> Replay:
    cls = check('fio', 'Fio')
    made = Replay(cls, {'memory_bytes': memory}, operation=operation, blocks=('4KiB', '1MiB'), jobs=(1,), took_direct=lambda: direct,
                  caches_known=dict, is_memory=lambda: kind == 'tmpfs', filesystem_type=lambda: kind,
                  rw=lambda: {'read': 'randread', 'mixed': 'rw'}[operation], label_memory=lambda *told: cls.label_memory(made, *told))
    made.metrics = cls.of(made, ('4KiB', '1MiB'), (1,))
    return made


@pytest.mark.parametrize('operation, name, names', [
    ('read', '3.33-randread-quick', {'p50_4KiB', 'p99_1MiB'}), ('mixed', '3.33-rw-quick', {'read_p50_4KiB', 'write_p99_1MiB'})])
def test_fio_gives_every_metric_that_quick_runs(operation, name, names):
    text = (recorded('fio') / f'{name}.txt').read_text()
    made = fio_case(text, operation)
    values = made.replay(text)
    assert {'rate_4KiB_1', 'rate_1MiB_1'} | names <= set(values) and not made.labels
    if operation == 'mixed':
        assert values['rate_1MiB_1'] == sum(fio.read(text)[0][f'1MiB_1_{way}_rate'] for way in ('read', 'write'))
    for wrong in ({'jobs': (2,)}, {'took_direct': lambda: False}, {'rw': lambda: 'write'}, {'blocks': ('4KiB',)}):
        with pytest.raises(Wrong, match='asked for'):
            vars(made).update(wrong)
            made.replay(text)


@pytest.mark.parametrize('direct, kind, memory, why', [
    (False, 'ext4', GIB, 'no direct I/O on ext4'), (False, 'ext4', 1 << 20, ''), (False, 'ext4', None, 'no direct I/O'), (True, 'tmpfs', GIB, 'tmpfs is memory'),
    (True, 'ext4', GIB, '')])
def test_fio_figures_that_memory_may_have_made_are_labelled(direct, kind, memory, why):
    text = (recorded('fio') / '3.33-randread-quick.txt').read_text().replace('"direct" : "1"', f'"direct" : "{int(direct)}"')
    made = fio_case(text, 'read', memory, direct, kind)
    made.replay(text)
    assert bool(made.labels) == bool(why) and all(why in reason for _, reason in made.labels.values())
