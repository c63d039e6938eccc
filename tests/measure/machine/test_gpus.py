"""What a node's driver says of its GPUs (programs/gpus.py), and what is made of it (parity.measure.machine.gpu)."""

import ctypes
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from reframe.utility import import_module_from_file

from conftest import PATIENCE, TOP
from parity.judge.store.case_record import MetricRecord
from parity.measure.check.reader import Wrong
from parity.measure.machine import gpu
from parity.measure.machine.gpu import DeviceState, GpuDevice, Load, Report
from replay import Replay, check, recorded

PROGRAM = TOP / 'jobs' / 'programs' / 'gpus.py'
gpus = import_module_from_file(str(PROGRAM))


def header() -> Path | None:
    """The folder of nvml.h: of the wheel nvidia-nvml-dev, else of a toolkit."""
    wheel = importlib.util.find_spec('nvidia')
    folders = [*(Path(place) for place in (wheel.submodule_search_locations if wheel else ())), Path('/usr/local/cuda')]
    return next((file.parent for folder in folders for file in sorted(folder.glob('**/include/nvml.h'))), None)


NVML_H = 'no nvml.h here: .venv/bin/pip install --require-hashes --no-deps -r requirements-gpu.lock' if not header() else ''
NO_COMPILER = 'no C compiler here: apt install gcc libc6-dev' if not shutil.which('cc') else ''
needs_nvml_h = pytest.mark.skipif(bool(NVML_H or NO_COMPILER), reason='; '.join(filter(None, (NVML_H, NO_COMPILER))))


def test_a_load_has_the_median_clock_of_busy_samples_and_the_heat_of_all():
    def sample(busy, clock_mhz, **other):
        rest = {'temperature_c': 50, 'power_w': None, 'clocks_set': False, 'pcie_gen': 4, 'pcie_width': 16}
        return {'busy': busy, 'clock_mhz': clock_mhz, **rest, **other}

    idle = [sample(gpus.BUSY - 1, 300, temperature_c=80, pcie_gen=5), sample(None, 200, clocks_set=True)]
    busy = [sample(100, clock) for clock in (1200, 1000, 1500)]
    load = gpus.extremes([*idle, *busy, sample(gpus.BUSY, 1100)])
    assert load == {'samples': 4, 'clock_mhz': 1150, 'lowest_clock_mhz': 1000, 'temperature_c': 80, 'power_w': None,
                    'clocks_set': False, 'pcie_gen': 4, 'pcie_width': 16}
    assert gpus.extremes(busy)['clock_mhz'] == 1200
    without = gpus.extremes(idle)
    assert (without['samples'], without['clock_mhz'], without['lowest_clock_mhz'], without['clocks_set']) == (0, None, None, None)


@pytest.fixture(scope='module')
def double(tmp_path_factory):
    """The folder of a libnvidia-ml.so.1 with four devices, compiled against nvml.h."""
    folder = tmp_path_factory.mktemp('nvml')
    subprocess.run(['cc', '-Wall', '-Werror', '-Wno-deprecated-declarations', '-shared', '-fPIC', f'-I{header()}', '-o',
                    folder / 'libnvidia-ml.so.1', TOP / 'tests' / 'data' / 'nvml_double.c'], check=True)
    return folder


def start(folder, *words, wrong='', library='', path='', **env):
    return subprocess.Popen([sys.executable, '-I', PROGRAM, *words], cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env={'PATH': f'{path}:/usr/bin:/bin', 'LD_LIBRARY_PATH': str(library), 'NVML_DOUBLE': wrong, **env})


def told(folder, *words, **how) -> Report:
    """The report after a run, or that `tell` prints."""
    run = start(folder, *words, **how)
    said, complaint = run.communicate(timeout=PATIENCE)
    assert run.returncode == 0, complaint
    return Report(**json.loads(said if words == ('tell',) else (folder / 'gpus.json').read_text()))


def script(folder, name, text):
    (folder / name).write_text(f'#!/bin/sh\n{text}\n')
    (folder / name).chmod(0o755)
    return folder


# ---- without a driver

def test_a_command_keeps_its_output_and_exit_code_and_the_report_says_why_nobody_told(tmp_path):
    run = start(tmp_path, 'run', '--', 'sh', '-c', 'echo $0; echo no >&2; exit 7', 'two words')
    assert (*run.communicate(timeout=PATIENCE), run.returncode) == ('two words\n', 'no\n', 7)
    report = Report(**json.loads((tmp_path / 'gpus.json').read_text()))
    assert (report.source, report.devices) == ('none', []) and report.seconds > 0
    assert all(name in report.why for name in ('libnvidia-ml.so.1', 'nvidia-smi: not on PATH', 'amd-smi: not on PATH', 'rocm-smi: not on PATH'))
    assert (gpu.bad(report), gpu.causes(report), gpu.disturbed(report)) == ([], [], '') and gpu.facts(report)['why'] == report.why


def test_a_command_receives_signals(tmp_path):
    waits = ('import signal, sys\nsignal.signal(signal.SIGUSR1, lambda *_: (print("told"), sys.exit(3)))\n'
             'print("ready", flush=True)\nwhile True: signal.pause()')     # a shell may lose a signal while it forks
    run = start(tmp_path, 'run', '--', sys.executable, '-c', waits)
    assert run.stdout.readline() == 'ready\n'
    run.send_signal(signal.SIGUSR1)
    assert run.communicate(timeout=PATIENCE)[0] == 'told\n' and run.returncode == 3
    run = start(tmp_path, 'run', '--', 'sh', '-c', 'kill -SEGV $$')
    run.communicate(timeout=PATIENCE)
    assert run.returncode == 128 + signal.SIGSEGV


@pytest.mark.parametrize('words, code, said', [
    (['run', '--', '/nosuch'], 127, 'gpus.py: /nosuch: No such file or directory'), (['each', '--', 'true'], 1, 'gpus.py: no device answers: nvml: '),
    (['run', 'true'], 2, 'usage: '), (['run', '--'], 2, 'usage: '), (['tell', '--', 'true'], 2, 'usage: '), ([], 2, 'usage: ')])
def test_what_cannot_be_started_is_named(tmp_path, words, code, said):
    run = start(tmp_path, *words)
    assert run.communicate(timeout=PATIENCE)[1].startswith(said) and run.returncode == code


def test_a_rocm_smi_without_a_driver_gives_its_error_although_it_exits_0(tmp_path):
    tools = script(tmp_path, 'rocm-smi', 'echo "cat: /sys/module/amdgpu/initstate: No such file or directory"\n'
                                         'echo "ERROR:root:Driver not initialized (amdgpu not found in modules)"')
    assert told(tmp_path, 'tell', path=tools).why.endswith('rocm-smi: ERROR:root:Driver not initialized (amdgpu not found in modules)')


# ---- nvidia-smi, in the form of tests/recorded/gpu

def test_nvidia_smi_answers_where_nvml_does_not(tmp_path):
    tools = script(tmp_path, 'nvidia-smi', '''case "$*" in
*driver_version*) echo 580.95.05; echo 580.95.05 ;;
*pci.bus_id*) echo "GPU-b, 00000000:43:00.0"; echo "GPU-a, 00000000:1B:00.0" ;;
*GPU-b*ecc*) echo "[Unknown Error]" ;;
*compute_cap*) echo "NVIDIA A100-SXM4-40GB, 8.0, Disabled, 1410, 1215, 4, 16, 400.00, 400.00" ;;
*utilization*) echo "98, 1395, 61, 250.51, 4, 16" ;;
*ecc*) echo "[N/A]" ;;
esac''')
    report = told(tmp_path, 'run', '--', 'sleep', '1.5', path=tools)
    first, second = report.devices
    assert (report.source, report.driver) == ('nvidia-smi', '580.95.05')
    assert (first.uuid, first.index, first.arch, first.mig, first.clock_mhz, first.units, first.error) == ('GPU-a', 0, 'sm_80', False, 1410, None, '')
    assert (first.during.samples, first.during.clock_mhz, first.during.power_w, first.after.uncorrected) == (first.during.samples or 1, 1395, 250.51, None)
    assert gpu.bad(report) == ['gpu1 (GPU-b, bus 00000000:43:00.0): lost: [Unknown Error]']


def test_an_nvidia_smi_that_fails_says_why(tmp_path):
    tools = script(tmp_path, 'nvidia-smi', 'echo "NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver."; exit 9')
    assert 'nvidia-smi: NVIDIA-SMI has failed because it could not' in told(tmp_path, 'tell', path=tools).why


# ---- NVML, by a double

@needs_nvml_h
def test_the_layout_is_that_of_nvml_h(double):
    layout = (ctypes.c_uint * 46).in_dll(ctypes.CDLL(str(double / 'libnvidia-ml.so.1')), 'nvml_layout')
    ids = gpus.counters('580.95.05' if layout[27] == 269 else '575.57.08')
    assert list(layout) == [
        ctypes.sizeof(gpus.Pci), gpus.Pci.text.offset, ctypes.sizeof(gpus.Field), gpus.Field.type.offset, gpus.Field.code.offset,
        gpus.Field.value.offset, ctypes.sizeof(gpus.Process), 24, 0, 8, 0, gpus.SUCCESS, gpus.NO_PERMISSION, gpus.ABSENT, gpus.LOST, gpus.NEEDS_RESET,
        gpus.SM, gpus.MEMORY, gpus.UNCORRECTED, gpus.VOLATILE, 0, ids['power_cap'], gpus.THERMAL, gpus.ENERGY, gpus.RECOVERY, 1, 3,
        ids['thermal'], ids['hardware'], ids['power_brake'],
        ctypes.sizeof(gpus.Event), gpus.Event.type.offset, gpus.Event.data.offset, gpus.XID_ERROR, gpus.CLOCKS_SET, gpus.NVLINK_SPEED,
        gpus.NVLINKS, gpus.NVLINK_SPEED_OF, *gpus.NVLINK_TOTALS, *gpus.NVLINK_ERRORS_OF, gpus.Field.scope.offset]


@needs_nvml_h
def test_of_four_devices_the_throttled_and_the_lost_are_named(double, tmp_path):
    report = told(tmp_path, 'run', '--', 'sleep', '2.2', library=double, wrong='slow:1 lost:3')
    assert report.source == 'nvml' and [device.index for device in report.devices] == [0, 1, 2, 3]
    assert gpu.bad(report) == ['gpu3 (UUID unknown, bus unknown): lost: GPU is lost (NVML error 15)']
    cause, = gpu.causes(report)
    assert cause.startswith('gpu1 (GPU-d0b1e001-0000-4000-8000-000000000000, bus 00000000:43:00.0): hardware slowdown for ')
    first = report.devices[0]
    assert (first.units, first.memory_bus_bits, first.mig, first.after.uncorrected, first.after.recovery) == (108, 5120, False, 2, 'none')
    assert first.during.samples and first.during == Load(samples=first.during.samples, clock_mhz=1395, lowest_clock_mhz=1395, temperature_c=61, power_w=250.5, clocks_set=False, pcie_gen=4, pcie_width=16)
    assert gpu.energy_j(first) == pytest.approx(250 * report.seconds, rel=0.5) and gpu.limits(first)['gpu_double'].value == pytest.approx(9746, rel=1e-3)


@needs_nvml_h
@pytest.mark.parametrize('wrong, said', [
    ('goes:2', 'gpu2 (GPU-d0b1e002-0000-4000-8000-000000000000, bus 00000000:9B:00.0): lost: GPU is lost (NVML error 15)'),
    ('reset:0', ': lost: GPU requires reset (NVML error 16)'), ('ecc:1', ': 3 uncorrected memory errors during the run'),
    ('rows:0', ': a memory row could not be remapped'), ('xid:2', ': XID 79 during the run'), ('action:2', ': the driver wants: reset'),
    ('pcie:1', ': PCIe generation 3 under load, card and slot can do 4'), ('lanes:1', ': PCIe width 8 under load, card and slot can do 16')])
def test_a_bad_device_is_named_with_what_is_wrong(double, tmp_path, wrong, said):
    reason, = gpu.bad(told(tmp_path, 'run', '--', 'sleep', '1.3', library=double, wrong=wrong))
    assert reason.endswith(said) and reason.startswith(f'gpu{wrong[-1]} (')


@needs_nvml_h
def test_what_is_normal_or_not_told_is_no_fault(double, tmp_path):
    report = told(tmp_path, 'run', '--', 'sleep', '1.3', library=double, wrong='capped:0 pending:1 idle:2 mute:3')
    assert (gpu.bad(report), gpu.causes(report), gpu.disturbed(report)) == ([], [], '')
    assert [gpu.capped(report, device) != '' for device in report.devices] == [True, False, False, False]
    assert re.fullmatch(r', held by its power limit for \d+ % of the time at 1395 MHz', gpu.capped(report, report.devices[0]).replace('%', ' %'))
    capped, pending, idle, mute = gpu.facts(report)['devices']
    assert capped['slowed_power_cap'] == pytest.approx(0.5, abs=0.3) and pending['rows_pending'] is True
    assert 'clock_mhz' in idle['unknown'] and {'uncorrected', 'recovery', 'rows_failed', 'pcie_gen', 'slowed_hardware', 'energy_j'} <= {*mute['unknown']}


@needs_nvml_h
@pytest.mark.parametrize('wrong, cause', [('limit:1', 'power limit 300 W, the default is 400 W'), ('set:2', 'a setting holds its clocks down'), ('links:0', '5 errors of NVLinks')])
def test_a_setting_and_errors_of_links_are_causes(double, tmp_path, wrong, cause):
    report = told(tmp_path, 'run', '--', 'sleep', '1.3', library=double, wrong=wrong)
    assert gpu.causes(report) == [f'{report.devices[int(wrong[-1])]}: {cause}'] and gpu.bad(report) == []
    assert gpu.limits(report.devices[3])['gpu_collective'].value == pytest.approx(12 * 26.562)


def test_errors_of_infiniband_ports_that_grow_are_causes():
    assert gpus.grown({'mlx5_0 port 1': {'link_downed': 1}}, {'mlx5_0 port 1': {'link_downed': 3, 'symbol_error': 4}, 'mlx5_1 port 1': {'symbol_error': 9}}) == {
        'mlx5_0 port 1': {'link_downed': 2}, 'mlx5_1 port 1': {}}
    report = Report(node='n', source='nvml', seconds=1, infiniband={'mlx5_0 port 1': {'link_downed': 2}, 'mlx5_1 port 1': {}})
    assert gpu.causes(report) == ['mlx5_0 port 1: link_downed grew by 2']
    assert gpu.facts(report)['infiniband'] == report.infiniband and 'infiniband' not in gpu.facts(report.model_copy(update={'infiniband': {}}))


@needs_nvml_h
@pytest.mark.parametrize('driver', ['535.104.05', '570.86'])
def test_an_older_driver_counts_thermal_slowdowns_alone(double, tmp_path, driver):
    report = told(tmp_path, 'run', '--', 'sleep', '0.5', library=double, wrong=f'hot:0 slow:1 driver:{driver}')
    assert [reason.partition(' for ')[0] for reason in gpu.causes(report)] == [f'{report.devices[0]}: thermal slowdown']
    assert 'slowed_hardware' in gpu.facts(report)['devices'][1]['unknown']


def test_the_counters_have_the_ids_of_the_driver():
    assert {version: gpus.counters(version).get('hardware') for version in ('', '570.211.01', '575.51.03', '580.65.06', '580.82.07', '590.48.01')} == {
        '': None, '570.211.01': None, '575.51.03': 252, '580.65.06': 252, '580.82.07': 270, '590.48.01': 270}


@needs_nvml_h
def test_other_processes_on_a_device_disturb_and_the_job_s_own_do_not(double, tmp_path):
    report = told(tmp_path, 'run', '--', 'sleep', '1.2', library=double, wrong='busy:2 own:1')
    assert gpu.disturbed(report) == f'{report.devices[2]}: used by others, too: process 4711, 4712'


@needs_nvml_h
def test_each_device_is_shown_to_a_command_of_its_own(double, tmp_path):
    run = start(tmp_path, 'each', '--', 'sh', '-c', 'sleep 0.1; printf "$CUDA_DEVICE_ORDER $CUDA_VISIBLE_DEVICES"; case $CUDA_VISIBLE_DEVICES in *2-*-*) exit 4; esac',
                library=double, wrong='lost:0 denied:1')
    assert run.communicate(timeout=PATIENCE)[0] == ''.join(
        f'parity-device {at} {uuid} {bus}\nPCI_BUS_ID {uuid}\nparity-device-end {at} {uuid} {bus} exit {code}\n' for at, uuid, bus, code in (
            (1, 'GPU-d0b1e002-0000-4000-8000-000000000000', '00000000:9B:00.0', 4), (2, 'GPU-d0b1e003-0000-4000-8000-000000000000', '00000000:C3:00.0', 0))) + 'parity-devices-end 2\n'
    assert run.returncode == 4 and len(json.loads((tmp_path / 'gpus.json').read_text())['devices']) == 3


@needs_nvml_h
@pytest.mark.parametrize('visible, seen', [('0,3', '03'), ('GPU-d0b1e002', '2'), ('', '0123'), ('MIG-1', '0123')])
def test_only_the_devices_of_the_job_are_asked(double, tmp_path, visible, seen):
    report = told(tmp_path, 'tell', library=double, CUDA_VISIBLE_DEVICES=visible)
    assert ''.join(str(device.index) for device in report.devices) == seen


@needs_nvml_h
def test_a_library_that_does_not_fit_its_driver_gives_no_device(double, tmp_path):
    assert told(tmp_path, 'tell', library=double, wrong='fails:18').why.startswith('nvml: Driver/library version mismatch (NVML error 18); ')


@needs_nvml_h
def test_a_device_that_never_answers_is_named_and_the_command_runs(double, tmp_path):
    impatient = tmp_path / 'gpus.py'
    impatient.write_text(PROGRAM.read_text().replace('PATIENCE = 30', 'PATIENCE = 3'))
    run = subprocess.run([sys.executable, '-I', impatient, 'run', '--', 'echo', 'ran'], cwd=tmp_path, capture_output=True, text=True,
                         timeout=PATIENCE, env={**os.environ, 'LD_LIBRARY_PATH': str(double), 'NVML_DOUBLE': 'hangs:1'})
    assert (run.stdout, run.returncode) == ('ran\n', 0)
    assert [reason.split(': ', 1)[1] for reason in gpu.bad(Report(**json.loads((tmp_path / 'gpus.json').read_text())))] == ['lost: no answer in 3 s']


def test_the_report_of_a_real_device_is_what_nvidia_smi_says_of_its_like():
    report = Report(**json.loads('{' + (recorded('gpu-health') / 'h100.txt').read_text().partition('\n{')[2]))
    device, smi = report.devices[0], (TOP / 'tests' / 'recorded' / 'gpu' / 'nvidia-smi-q.txt').read_text()
    said = {' '.join(line.split(' : ')[0].split()): line.split(' : ')[1].strip() for line in smi.splitlines() if ' : ' in line}
    assert (device.name, report.driver) == (said['Product Name'], said['Driver Version'])
    for value, section, name in ((f'{device.clock_mhz:.0f} MHz', 'Max Clocks', 'SM'), (f'{device.memory_clock_mhz:.0f} MHz', 'Max Clocks', 'Memory'),
                                 (f'{device.power_limit_default_w:.2f} W', 'GPU Power Readings', 'Default Power Limit'),
                                 (f'{device.pcie_gen}', 'PCIe Generation', 'Max'), (f'{device.pcie_width}x', 'Link Width', 'Max')):
        assert re.search(rf' {section}\n(?: +.*\n)*? +{name} +: {value}\n', smi), (section, name)
    assert (device.mig, device.after.recovery, device.xids, device.during.clocks_set, report.infiniband) == (False, 'none', [], False, {})
    assert gpu.bad(report) == gpu.causes(report) == [] and gpu.energy_j(device) / report.seconds == pytest.approx(370, abs=15)


# ---- the rules

DEVICE = {'index': 0, 'uuid': 'GPU-a', 'bus': '1B', 'pcie_gen': 4, 'pcie_width': 16}


def of(**device):
    return Report(node='n', source='nvml', seconds=10, devices=[GpuDevice(**DEVICE | device)])


@pytest.mark.parametrize('device, wrong', [
    ({}, ''), ({'error': 'x'}, 'lost: x'), ({'before': DeviceState(uncorrected=5), 'after': DeviceState(uncorrected=5)}, ''),
    ({'after': DeviceState(uncorrected=5)}, ''), ({'before': DeviceState(uncorrected=5), 'after': DeviceState(uncorrected=6)}, '1 uncorrected memory errors during the run'),
    ({'before': DeviceState(uncorrected=5), 'after': DeviceState(uncorrected=0)}, ''), ({'before': DeviceState(rows_failed=True)}, 'a memory row could not be remapped'),
    ({'after': DeviceState(rows_pending=True, recovery='none')}, ''), ({'after': DeviceState(recovery='reboot')}, 'the driver wants: reboot'),
    ({'during': Load(samples=0, pcie_gen=1, pcie_width=1)}, ''), ({'during': Load(samples=1, pcie_gen=4, pcie_width=16)}, ''),
    ({'during': Load(samples=1, pcie_gen=5)}, ''), ({'during': Load(samples=9, pcie_width=8)}, 'PCIe width 8 under load, card and slot can do 16')])
def test_what_is_wrong_with_a_device(device, wrong):
    assert gpu.bad(of(**device)) == ([f'gpu0 (GPU-a, bus 1B): {wrong}'] if wrong else [])


@pytest.mark.parametrize('reason, ns, cause', [
    ('hardware', 99_000_000, ''), ('hardware', 110_000_000, 'hardware slowdown for 1.1% of the time'), ('thermal', 5e9, 'thermal slowdown for 50.0% of the time'),
    ('power_brake', 2e8, 'power-brake slowdown for 2.0% of the time'), ('power_cap', 9e9, ''), ('hardware', None, '')])
def test_a_slowdown_is_a_cause_above_one_percent_of_the_time(reason, ns, cause):
    report = of(before=DeviceState(slowed_ns={reason: 7_000_000_000}), after=DeviceState(slowed_ns={reason: ns and 7_000_000_000 + int(ns)}))
    assert gpu.causes(report) == ([f'gpu0 (GPU-a, bus 1B): {cause}'] if cause else []) and gpu.bad(report) == []


def test_energy_is_unknown_where_the_counter_stands_still_or_is_absent():
    assert [gpu.energy_j(of(before=DeviceState(energy_mj=before), after=DeviceState(energy_mj=after)).devices[0])
            for before, after in ((1000, 251000), (1000, 1000), (5000, 100), (None, 7))] == [250, None, None, None]


# ---- the check

def case(results, devices, **asked):
    """A case of GpuHealth that has run."""
    made = Replay(check('gpu-health', 'GpuHealth'), {}, asked={'devices': devices, 'seconds': 3, **asked}, calls=['parity_declare_even', 'parity_declare_each'])
    made.parity.metrics = {metric.name: MetricRecord() for metric in made.metrics}
    return made


def test_without_a_driver_the_clocks_are_left_out_with_the_reason(results):
    made = case(results, 1)
    assert made.replay((recorded('gpu-health') / 'no-driver.txt').read_text()) == {}
    assert made.parity['left_out']['clock_gpu0'].startswith('no driver answers: nvml: libnvidia-ml.so.1: ')


@needs_nvml_h
def test_a_device_that_does_not_tell_its_clock_has_none(double, results, tmp_path):
    told(tmp_path, 'run', '--', 'sleep', '1', library=double, wrong='mute:0')
    made, load = case(results, 1, seconds=1), (recorded('gpu-health') / 'no-driver.txt').read_text().partition('{')[0]
    assert made.replay(load + (tmp_path / 'gpus.json').read_text()) == {}
    assert made.parity['left_out']['clock_gpu0'] == 'the driver does not tell the clock under load'


@needs_nvml_h
def test_a_lost_device_is_named_although_the_load_did_not_start(double, results, tmp_path):
    assert start(tmp_path, 'run', '--', 'sh', '-c', 'exit 2', library=double, wrong='lost:1').wait(PATIENCE) == 2
    with pytest.raises(Wrong, match=r'^gpu1 \(UUID unknown, bus unknown\): lost: GPU is lost'):
        case(results, 4).parse((tmp_path / 'gpus.json').read_text())
