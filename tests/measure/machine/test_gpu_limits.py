"""The limits of GPUs beside published peaks."""

from __future__ import annotations

import pytest

from parity.measure.machine.gpu import GpuDevice, limits

#: Two columns of a table by NVIDIA or AMD, as the page that was opened gives it. NVIDIA's white papers and data sheets
#: themselves, and AMD's product pages, could not be opened: these pages quote them.
V100 = 'NVIDIA Tesla V100 table of 2017 (1455 MHz), xenon.com.au, "NVIDIA Tesla Volta"; memory clock: sysrqmts.com, "A100 PCIe vs V100 PCIe"'
V100_SXM = 'Cornell Virtual Workshop, "GPU example: Tesla V100" (80 SM, 1.53 GHz)'
A100 = 'Paderborn PC2 wiki, "NVIDIA A100 40GB with NVLINK": specification, and deviceQuery for clocks, units and bus'
H100 = 'glennklockwood.com, "H100", with NVIDIA\'s white paper; 1.98 GHz for these columns'
H100_HALF = 'the same, with the 1.83 GHz that it gives for low precision; OpenXLA, cuda_core_info_table.cc, cites table 3 of the white paper 1.04'
H100_PCIE = 'HPC Tech, "NVIDIA H100" (114 SM), with NVIDIA\'s data sheet; 1755 MHz: hmc-tech.com, "H100 vs H200"'
H200 = 'hmc-tech.com, "H100 vs H200" (132 SM, 1980 MHz)'
MI250X = 'zexron.com, "AMD MI250(X)", AMD\'s table of 2021 (220 CU, 1.7 GHz); 3277 GB/s at 1.6 GHz: siliconcat.net; halved'
MI300A = 'vengineer.hatenablog.com, 11 Dec 2023, AMD\'s data sheet (228 CU, 2100 MHz)'
MI300X = 'ROCm documentation, "MI300 series microarchitecture", peak-performance table (304 CU)'
#: Device, what it tells (arch, units, MHz, memory MHz, bus bits), published Tflop/s or TB/s by limit, source.
PUBLISHED = [
    ('V100', ('sm_70', 80, 1455, None, None), {'double': 7.5, 'single': 15, 'half_matrix': 120}, V100),
    ('V100 PCIe', ('sm_70', 80, 1380, 876, 4096), {'double': 7.066, 'single': 14.13, 'memory_bandwidth': 0.897}, V100),
    ('V100 SXM2', ('sm_70', 80, 1530, None, None), {'double': 7.8, 'single': 15.7}, V100_SXM),
    ('A100', ('sm_80', 108, 1410, 1215, 5120), {'double': 9.7, 'double_matrix': 19.5, 'single': 19.5, 'tf32_matrix': 156,
                                                'half_matrix': 312, 'memory_bandwidth': 1.555}, A100),
    ('H100 SXM', ('sm_90', 132, 1980, 2619, 5120), {'double': 33.5, 'double_matrix': 66.9, 'single': 66.9, 'memory_bandwidth': 3.35}, H100),
    ('H100 SXM, matrices', ('sm_90', 132, 1830, None, None), {'tf32_matrix': 494.7, 'half_matrix': 989.4, 'bf16_matrix': 989.4, 'int8_matrix': 1978.9}, H100_HALF),
    ('H100 PCIe', ('sm_90', 114, 1755, None, None), {'double': 26, 'double_matrix': 51, 'single': 51}, H100_PCIE),
    ('H200', ('sm_90', 132, 1980, None, None), {'single': 66.91}, H200),
    ('MI250X, one of two', ('gfx90a', 110, 1700, 1600, 4096), {'double': 47.9 / 2, 'double_matrix': 95.7 / 2, 'half_matrix': 383 / 2,
                                                               'memory_bandwidth': 3.277 / 2}, MI250X),
    ('MI300A', ('gfx942', 228, 2100, 1300, 8192), {'double': 61.3, 'double_matrix': 122.6, 'single': 122.6, 'half_matrix': 980.6,
                                                   'memory_bandwidth': 5.3}, MI300A),
    ('MI300X', ('gfx942', 304, 2100, 1300, 8192), {'double': 81.7, 'double_matrix': 163.4, 'single': 163.4, 'tf32_matrix': 653.7,
                                                   'half_matrix': 1307.4, 'memory_bandwidth': 5.3}, MI300X),
]


def device(arch='', units=None, clock=None, memory=None, bits=None, **other) -> GpuDevice:
    return GpuDevice(index=0, uuid='GPU-1', bus='0000:01:00.0', arch=arch, units=units, clock_mhz=clock, memory_clock_mhz=memory,
                  memory_bus_bits=bits, **other)


@pytest.mark.parametrize('name, told, published, source', PUBLISHED, ids=[row[0] for row in PUBLISHED])
def test_a_limit_is_within_two_percent_of_the_published_peak_at_its_clock(name, told, published, source):
    found = limits(device(*told))
    assert {n: found[f'gpu_{n}'].value / 1000 for n in published} == pytest.approx(published, rel=0.02), source
    assert all(limit.certain for limit in found.values())


def test_a_published_peak_is_no_bound():
    """H100's 989 Tflop/s in half are at 1.83 GHz; a device that clocks to 1.98 makes more. H200's memory, 6 stacks of 1024
    bits, ran at 3201 MHz where nvidia-smi was asked; 4.8 TB/s are published."""
    half, = (found['gpu_half_matrix'] for found in [limits(device('sm_90', 132, 1980))])
    assert half.value == pytest.approx(1070500, rel=1e-3) and half.source == '132 units x 1.98 GHz x 4096 flop'
    assert not half.exceeded_by(1000e3) and half.exceeded_by(1130e3)
    memory = limits(device('sm_90', 132, 1980, 3201, 6144))['gpu_memory_bandwidth']
    assert memory.value == pytest.approx(4917, abs=1) and memory.source == '3201 MHz x 2 x 6144 bits' and not memory.exceeded_by(4900)


@pytest.mark.parametrize('gen, width, gigabytes', [(1, 16, 4), (2, 16, 8), (3, 16, 15.75), (4, 16, 31.5), (5, 16, 63.0), (5, 8, 31.5), (6, 16, 121)])
def test_the_link_is_what_the_coding_leaves(gen, width, gigabytes):
    """16 lanes carry 4, 8, 15.75, 31.5, 63 and 121 GB/s one way: Wikipedia, "PCI Express", comparison table."""
    link = limits(device(pcie_gen=gen, pcie_width=width))['gpu_link']
    assert link.value == pytest.approx(gigabytes, rel=0.001) and link.unit == 'GB/s' and not link.certain
    assert link.source.startswith(f'PCIe {gen}: ')


def test_what_a_device_does_not_tell_bounds_nothing():
    whole = ('sm_90', 132, 1980, 2619, 5120)
    link = {'pcie_gen': 5, 'pcie_width': 16}
    assert limits(device(*whole, **link, mig=True)) == {} == limits(device(*whole, **link, error='lost')) == limits(device())
    assert limits(device('sm_70', 80, 1530)).keys() == {'gpu_clock', 'gpu_double', 'gpu_single', 'gpu_half', 'gpu_half_matrix'}
    assert limits(device('sm_100', 148, 1965, 3996, 8192, **link)).keys() == {'gpu_clock', 'gpu_memory_bandwidth', 'gpu_link', 'gpu_collective'}
    assert limits(device('gfx1100', 96, 2500, 1250, 384)).keys() == {'gpu_clock'}, 'how often its memory moves bits a cycle has no source'
    assert limits(device('sm_90', None, 1980, 2619, None, pcie_gen=7, pcie_width=16)).keys() == {'gpu_clock'}
