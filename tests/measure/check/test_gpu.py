"""Checks of GPUs: a metric a device in the plan, joined to the driver's report, with one accepted value for all."""

from __future__ import annotations

import json

import pytest

import nights
import stored
from parity.judge.refs import measured
from parity.judge.store.case_record import MetricRecord
from parity.judge.verdict import cells, judge
from parity.measure.check.reader import Wrong
from parity.measure.machine.gpu import DeviceState, GpuDevice, Report
from replay import Replay, check

CARDS = {'GPU-b': '1b:00.0', 'GPU-a': '2c:00.0', 'GPU-d': '3d:00.0', 'GPU-c': '4e:00.0'}
FIGURES = {'GPU-a': 98.0, 'GPU-b': 100.0, 'GPU-c': 30.0, 'GPU-d': 102.0}


def device(index: int, uuid: str, **other) -> GpuDevice:
    return GpuDevice(index=index, uuid=uuid, bus=CARDS[uuid], arch='sm_80', units=108, clock_mhz=1410, memory_clock_mhz=1215,
                  memory_bus_bits=5120, **other)


def ran(folder, *cards: GpuDevice, stated: int = 4):
    """A case of a node with so many devices, whose driver tells of ``cards``."""
    report = Report(node='g1', source='nvml', driver='580', seconds=10, devices=cards or [device(at, uuid) for at, uuid in enumerate(CARDS)])
    (folder / 'gpus.json').write_text(report.model_dump_json())
    made = Replay(check('gpu-babelstream', 'GpuStream'), {}, asked={'devices': stated, 'stagedir': str(folder)},
                  calls=['parity_declare_even', 'parity_declare_each'])
    made.parity.metrics, made.parity.node = {m.name: MetricRecord() for m in made.metrics}, {'node': 'g1'}
    return made


def figures(*uuids: str) -> dict[str, dict[str, float]]:
    return {uuid: {'triad_gpu': FIGURES[uuid]} for uuid in uuids}


def test_a_metric_a_device_stands_in_the_plan_of_a_partition_with_devices(planned):
    metrics = {c.partition: [m.name for m in c.metrics] for c in planned('example-slurm').cases if c.check == 'GpuStream'}
    assert list(metrics) == ['gpu'], 'partitions without a GPU plan nothing'
    assert [f'triad_gpu{at}' for at in range(4)] + ['triad_lowest_over_median'] == [n for n in metrics['gpu'] if n.startswith('triad')]
    checks = {c.check: [m.name for m in c.metrics] for c in planned('example-slurm').checks}
    assert 'triad_gpu' in checks['GpuStream'] and 'triad_gpu0' not in checks['GpuStream'], 'what a reference may name'


def test_figures_are_joined_to_devices_by_uuid_in_the_order_of_their_buses(results, tmp_path):
    case = ran(tmp_path)
    found = case.by_device(figures('GPU-a', 'GPU-b', 'GPU-c', 'GPU-d'))
    assert [found[f'triad_gpu{at}'] for at in range(4)] == [100.0, 98.0, 102.0, 30.0]
    assert found['triad_lowest_over_median'] == pytest.approx(30 / 99)
    assert case.parity['devices']['gpu3'] == 'GPU-c, bus 4e:00.0'
    limit = case.parity.metrics['triad_gpu3'].limit
    assert limit['value'] == pytest.approx(1555.2) and limit['certain'] and case.parity.metrics['triad_lowest_over_median'].limit is None
    assert case.parity['node']['gpus'] == 'GPU-b GPU-a GPU-d GPU-c'


def test_an_absent_device_is_named_where_it_was_seen_before(results, tmp_path):
    three = [device(at, uuid) for at, uuid in enumerate(CARDS) if uuid != 'GPU-d']
    with pytest.raises(Wrong, match=r'^3 devices, the partition states 4$'):
        ran(tmp_path, *three).by_device(figures('GPU-a', 'GPU-b', 'GPU-c'))
    ran(tmp_path).by_device(figures(*FIGURES))
    with pytest.raises(Wrong, match=r'^3 devices, the partition states 4; absent: gpu2 \(GPU-d, bus 3d:00.0\)$'):
        ran(tmp_path, *three).by_device(figures('GPU-a', 'GPU-b', 'GPU-c'))
    with pytest.raises(Wrong, match=r'^4 devices, the partition states 2$'):
        ran(tmp_path, stated=2).by_device(figures(*FIGURES))


def test_a_lost_device_without_a_name_is_named_where_it_was_seen_before(results, tmp_path):
    ran(tmp_path).by_device(figures(*FIGURES))
    here = [device(at, uuid) for at, uuid in enumerate(CARDS) if uuid != 'GPU-d']
    lost = GpuDevice(index=3, uuid='unknown', bus='unknown', error='GPU is lost (NVML error 15)')
    with pytest.raises(Wrong, match=r'gpu3 \(unknown, bus unknown\): lost: GPU is lost .*; absent: gpu2 \(GPU-d, bus 3d:00.0\)$'):
        ran(tmp_path, *here, lost).parity_hardware()


def test_work_stands_beside_the_energy_that_a_driver_tells(results, tmp_path):
    told = device(0, 'GPU-a', before=DeviceState(energy_mj=5_000), after=DeviceState(energy_mj=45_000))
    case = ran(tmp_path, told, device(1, 'GPU-b'), stated=2)
    case.by_device(figures('GPU-a', 'GPU-b'))
    case.per_joule({'GPU-a': 2000.0, 'GPU-b': 2000.0})
    assert case.parity['gpus']['gflop_per_joule'] == {'gpu0 (GPU-a, bus 2c:00.0)': 50.0}, 'the other does not tell'


def test_a_device_that_the_driver_does_not_know_is_wrong(results, tmp_path):
    known = [device(at, uuid) for at, uuid in enumerate(CARDS) if uuid != 'GPU-d']
    with pytest.raises(Wrong, match='device GPU-d: the driver knows GPU-b, GPU-a, GPU-c'):
        ran(tmp_path, *known).by_device(figures(*FIGURES))


def test_without_a_report_figures_keep_the_order_of_the_program(results, tmp_path):
    case = ran(tmp_path, stated=2)
    (tmp_path / 'gpus.json').write_text('{"node": ')
    found = case.by_device({'0': {'triad_gpu': 1.0}, '1': {'triad_gpu': 2.0}})
    assert (found['triad_gpu0'], found['triad_gpu1'], found['triad_lowest_over_median']) == (1.0, 2.0, 1 / 1.5)


def test_one_value_is_proposed_for_all_devices_of_a_partition(monkeypatch):
    rows = [nights.figure(night, value + at, metric=f'triad_gpu{at}') for night, value in enumerate([100.0, 101.0]) for at in range(3)]
    monkeypatch.setattr(measured.history, 'load', lambda *_, **__: nights.frame(*rows))
    found, = measured.cells('onebox')
    assert found.metric == 'triad_gpu' and [n.value for n in found.nights] == [101.0, 102.0] and found.nights[0].runs == [100.0, 101.0, 102.0]


def test_a_figure_of_a_test_bed_is_unreferenced_whatever_was_accepted():
    figure = cells.Figure(95.0, 99.0, None, 100.0, label='test bed', why='the partition only tries checks')
    metric = cells.PlannedMetric(name='triad_gpu0', unit='GB/s', better='higher')
    assert cells._word(metric, figure, None, '') == ('unreferenced', 'test bed: the partition only tries checks')


def test_the_report_of_a_program_may_hold_no_unknown_key():
    with pytest.raises(ValueError, match='speed'):
        Report(**json.loads('{"node": "g1", "source": "nvml", "seconds": 1, "speed": 1}'))


def test_what_slowed_a_gpu_stands_beside_the_slower_figure(results):
    kept = stored.Stored()

    def night(uuid, hpl, slowed):
        on = {'node': {'node': 'node01', 'gpus': 'GPU-a', 'gpu_slowed': slowed}}
        kept(uuid, stored.case(hpl, refs={'hpl': (100.0, -0.05, 0.05)}, parity=on),
             {**stored.case(5.0, parity={'node': {'node': 'node01'}}), 'name': 'Cpu', 'unique_name': 'Cpu'})
    night('a', 100.0, 'no')
    night('b', 50.0, 'gpu0 (GPU-a, bus 1b:00.0): thermal slowdown for 31.0% of the time')
    cell = next(c for c in judge.newest('b').cells if c.metric == 'hpl')
    assert cell.once == 0.5, 'one night'
    assert [(c.fact, c.old, c.new) for c in cell.cause.changes] == [
        ('gpu_slowed', 'no', 'gpu0 (GPU-a, bus 1b:00.0): thermal slowdown for 31.0% of the time')]


def test_ranks_of_osu_take_a_device_each_while_the_driver_is_asked(rehearsed):
    found = {line for file in (rehearsed('example-slurm') / 'results' / 'stage').rglob('GpuOsuLatency*/rfm_job.sh')
             for line in file.read_text().splitlines() if './rank.sh' in line}
    assert found == {f'python3 -I gpus.py run -- srun --cpus-per-task=1 ./rank.sh --device cuda {osu} -i 500 -m 1:1048576 -d cuda{buffers}'
                     for osu, buffers in (('osu_latency', ' D D'), ('osu_allreduce', ''))}


def test_devices_of_an_mpi_program_are_those_of_the_driver(results, tmp_path):
    ran(tmp_path)
    case = Replay(check('gpu-osu', 'GpuOsuLatency'), {}, asked={'devices': 4, 'stagedir': str(tmp_path)})
    case.note_devices()
    assert case.parity['devices']['gpu3'] == 'GPU-c, bus 4e:00.0' and case.parity['node']['gpus'] == 'GPU-b GPU-a GPU-d GPU-c'
    ran(tmp_path, device(0, 'GPU-b'))
    with pytest.raises(Wrong, match=r'^1 device, the partition states 4; absent: '):
        case.note_devices()
    (tmp_path / 'gpus.json').unlink()
    assert case.note_devices() == ([], {}) and 'gpus.json' in case.parity['gpus']['why']
