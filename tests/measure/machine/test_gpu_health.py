"""The faults of a device, and what slowed it, from the driver's report of a run."""

from __future__ import annotations

import pytest

from parity.measure.machine import gpu
from parity.measure.machine.gpu import DeviceState, GpuDevice, Load, Report

SOUND = {'pcie_gen': 5, 'pcie_width': 16, 'power_limit_w': 700, 'power_limit_default_w': 700,
         'before': DeviceState(uncorrected=1, slowed_ns={'thermal': 0}, nvlink_errors=1),
         'during': Load(samples=3, pcie_gen=5, pcie_width=16),
         'after': DeviceState(uncorrected=1, slowed_ns={'thermal': 0}, nvlink_errors=1, recovery='none')}


def report(**changes) -> Report:
    device = GpuDevice(index=0, uuid='U', bus='B', **SOUND | changes)
    return Report(node='n', source='nvml', seconds=10, devices=[device])


def test_a_sound_device_has_no_fault_and_no_cause():
    assert gpu.bad(report()) == gpu.causes(report()) == []


@pytest.mark.parametrize('changes, fault', [
    ({'error': 'fell off the bus'}, 'lost: fell off the bus'), ({'xids': [79, 31, 79]}, 'XID 31, 79 during the run'),
    ({'after': DeviceState(uncorrected=3)}, '2 uncorrected memory errors during the run'),
    ({'before': DeviceState(rows_failed=True)}, 'a memory row could not be remapped'),
    ({'before': DeviceState(recovery='reset'), 'after': DeviceState()}, 'the driver wants: reset'),
    ({'during': Load(samples=3, pcie_gen=4, pcie_width=16)}, 'PCIe generation 4 under load, card and slot can do 5'),
    ({'during': Load(samples=3, pcie_gen=5, pcie_width=8)}, 'PCIe width 8 under load, card and slot can do 16')])
def test_a_fault_is_named_with_its_device(changes, fault):
    assert gpu.bad(report(**changes)) == [f'gpu0 (U, bus B): {fault}']


def test_an_idle_link_is_no_fault():
    assert gpu.bad(report(during=Load(samples=0, pcie_gen=1, pcie_width=16))) == []


@pytest.mark.parametrize('changes, cause', [
    ({'after': DeviceState(slowed_ns={'thermal': 2 * 10**9})}, 'thermal slowdown for 20.0% of the time'),
    ({'power_limit_w': 500}, 'power limit 500 W, the default is 700 W'),
    ({'during': Load(clocks_set=True)}, 'a setting holds its clocks down'), ({'after': DeviceState(nvlink_errors=4)}, '3 errors of NVLinks')])
def test_a_cause_is_named_with_its_device(changes, cause):
    assert gpu.causes(report(**changes)) == [f'gpu0 (U, bus B): {cause}']


def test_a_slowdown_of_a_hundredth_of_the_time_is_no_cause():
    assert gpu.causes(report(after=DeviceState(slowed_ns={'thermal': 10**8}))) == []
