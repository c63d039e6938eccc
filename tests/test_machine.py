"""Detection from made-up /proc and /sys trees, bounds, the cache, and readings."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parity import machine
from parity.base import ranges
from parity.base.errors import UsageError
from parity.machine.memory import parse_dmi
from parity.machine.model import MemoryChannels

GIB = 1 << 30
AVX512 = 'fpu sse sse2 avx avx2 fma avx512f avx512dq avx512cd avx512bw avx512vl'


def plant(root, files):
    """Write ``files`` (path -> text) below ``root``."""
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(str(text) + '\n')
    return root


def cpuinfo(count, flags, **fields):
    blocks = []
    for cpu in range(count):
        lines = {'processor': cpu, 'vendor_id': 'GenuineIntel', 'cpu family': 6,
                 'model name': 'Intel(R) Xeon(R) Test', 'cpu MHz': '2300.000', **fields, 'flags': flags}
        blocks.append('\n'.join(f'{key}\t: {value}' for key, value in lines.items()))
    return '\n\n'.join(blocks)


def topology(cpu, siblings, package, llc):
    folder = f'sys/devices/system/cpu/cpu{cpu}'
    return {
        f'{folder}/topology/core_cpus_list': siblings,
        f'{folder}/topology/physical_package_id': package,
        f'{folder}/cache/index0/level': 1, f'{folder}/cache/index0/type': 'Data',
        f'{folder}/cache/index0/size': '48K', f'{folder}/cache/index0/shared_cpu_list': siblings,
        f'{folder}/cache/index1/level': 1, f'{folder}/cache/index1/type': 'Instruction',
        f'{folder}/cache/index1/size': '32K', f'{folder}/cache/index1/shared_cpu_list': siblings,
        f'{folder}/cache/index3/level': 3, f'{folder}/cache/index3/type': 'Unified',
        f'{folder}/cache/index3/size': '60M', f'{folder}/cache/index3/shared_cpu_list': llc,
    }


@pytest.fixture
def server(tmp_path):
    """Two sockets of two cores with two threads, turbo to 3.8 GHz."""
    files = {
        'proc/cpuinfo': cpuinfo(8, AVX512),
        'proc/meminfo': 'MemTotal: 8388608 kB\nMemAvailable: 4194304 kB',
        'proc/self/status': 'Name:\tpython\nCpus_allowed_list:\t0-127',
        'proc/sys/kernel/arch': 'x86_64',
        'proc/sys/kernel/hostname': 'n01',
        'proc/sys/kernel/osrelease': '6.1.0-test',
        'proc/sys/kernel/random/boot_id': 'first-boot',
        'proc/stat': 'cpu  100 0 50 800 10 0 5 35 0 0\ncpu0 1 2 3',
        'proc/loadavg': '0.42 0.30 0.20 1/200 999',
        'sys/devices/system/cpu/online': '0-7',
        'sys/devices/system/node/node0/cpulist': '0-1,4-5',
        'sys/devices/system/node/node1/cpulist': '2-3,6-7',
        'sys/class/dmi/id/sys_vendor': 'Dell Inc.',
        'sys/class/dmi/id/product_name': 'PowerEdge R760',
        'sys/devices/system/clocksource/clocksource0/current_clocksource': 'tsc',
        'sys/devices/system/cpu/vulnerabilities/meltdown': 'Not affected',
        'sys/devices/system/cpu/vulnerabilities/retbleed': 'Vulnerable',
        'sys/devices/system/cpu/vulnerabilities/spectre_v1': 'Mitigation: usercopy barriers',
    }
    for cpu in range(8):
        core, package = cpu % 4, (cpu % 4) // 2
        files |= topology(cpu, f'{core},{core + 4}', package, '0-1,4-5' if package == 0 else '2-3,6-7')
        cpufreq = f'sys/devices/system/cpu/cpu{cpu}/cpufreq'
        files |= {f'{cpufreq}/cpuinfo_max_freq': 3700000 if cpu else 3800000,
                  f'{cpufreq}/scaling_driver': 'intel_pstate', f'{cpufreq}/scaling_governor': 'performance'}
    return plant(tmp_path / 'server', files)


@pytest.fixture
def guest(tmp_path):
    """A KVM guest that is shown one core with two threads."""
    files = {
        'proc/cpuinfo': cpuinfo(2, AVX512 + ' hypervisor'),
        'proc/meminfo': 'MemTotal: 4194304 kB\nMemAvailable: 3145728 kB',
        'proc/sys/kernel/arch': 'x86_64',
        'sys/devices/system/cpu/online': '0-1',
        'sys/class/dmi/id/sys_vendor': 'QEMU',
        'sys/class/dmi/id/product_name': 'KVM Virtual Machine',
    }
    for cpu in range(2):
        files |= topology(cpu, '0-1', 0, '0-1')
    return plant(tmp_path / 'guest', files)


# --- what is detected ---

def test_physical_server(server):
    m = machine.detect(server)
    assert (m.kind, m.backend, m.container) == ('physical', None, None)
    assert (len(m.cpu_list), m.cores, m.threads_per_core, m.sockets, len(m.numa_sets)) == (8, 4, 2, 2, 2)
    assert [(c.level, c.size_bytes, len(c.cpu_sets)) for c in m.caches] == [(1, 48 << 10, 4), (3, 60 << 20, 2)]
    assert m.llc_bytes == 120 << 20
    assert (m.memory_bytes, m.memory_available_bytes) == (8 * GIB, 4 * GIB)
    assert m.clock.hz == 3.8e9 and 'intel_pstate' in m.clock.source
    assert (m.hostname, m.kernel, m.governor, m.clocksource) == ('n01', '6.1.0-test', 'performance', 'tsc')
    assert m.mitigations == 'mitigated: spectre_v1; vulnerable: retbleed'
    assert m.features() == ['physical', 'cpu', 'sse2', 'avx', 'avx2', 'avx512']


def test_affinity_leaves_only_what_the_usable_cpus_touch(server):
    plant(server, {'proc/self/status': 'Cpus_allowed_list:\t2-3'})
    m = machine.detect(server)
    assert (len(m.cpu_list), m.cores, m.threads_per_core, m.sockets, len(m.numa_sets)) == (2, 2, 1, 1, 1)
    assert m.llc_bytes == 60 << 20
    assert m.processor()['topology']['caches'][-1]['cpusets'] == ['0xc']


def test_guest_is_virtual_and_its_clock_is_unknown_whatever_it_shows(guest):
    plant(guest, {'sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq': 2300000,
                  'sys/devices/system/cpu/cpu0/cpufreq/scaling_driver': 'intel_pstate'})
    m = machine.detect(guest)
    assert (m.kind, m.backend) == ('virtual', 'kvm')
    assert any('hypervisor' in e for e in m.evidence) and any('DMI' in e for e in m.evidence)
    assert m.clock is None
    assert any('maximum clock unknown' in note for note in m.notes)


@pytest.mark.parametrize('files, backend', [
    ({'proc/cpuinfo': 'processor: 0\nvendor_id: User Mode Linux\nmodel name: UML\nmode: skas'}, 'uml'),
    ({'proc/cpuinfo': cpuinfo(1, 'sse2 hypervisor'), 'sys/class/dmi/id/sys_vendor': 'VMware, Inc.'}, 'vmware'),
    ({'proc/cpuinfo': cpuinfo(1, 'sse2 hypervisor'), 'sys/hypervisor/type': 'xen'}, 'xen'),
    ({'proc/cpuinfo': cpuinfo(1, 'sse2 hypervisor')}, 'unknown'),
    ({'proc/cpuinfo': cpuinfo(1, 'sse2 hypervisor'), 'sys/class/dmi/id/sys_vendor': 'Amazon EC2'}, 'kvm'),
    ({'proc/sys/kernel/arch': 'aarch64', 'sys/class/dmi/id/sys_vendor': 'Amazon EC2',
      'sys/class/dmi/id/product_name': 'm7g.large'}, 'kvm'),
    ({'proc/cpuinfo': 'processor: 0\ncpu: POWER9\n\nmachine: CHRP IBM pSeries (emulated by qemu)'}, 'kvm'),
])
def test_kinds_of_virtual_machine(tmp_path, files, backend):
    m = machine.detect(plant(tmp_path, files))
    assert (m.kind, m.backend) == ('virtual', backend)
    assert 'virtual' in m.features()


@pytest.mark.parametrize('files', [
    {'proc/cpuinfo': cpuinfo(1, 'sse2'), 'sys/class/dmi/id/sys_vendor': 'Amazon EC2',
     'sys/class/dmi/id/product_name': 'c5.metal'},
    {'proc/sys/kernel/arch': 'aarch64', 'sys/class/dmi/id/sys_vendor': 'Amazon EC2',
     'sys/class/dmi/id/product_name': 'm7g.metal'},
    {'proc/cpuinfo': 'processor: 0\ncpu: POWER9\n\nmachine: PowerNV 8335-GTH'},
])
def test_a_whole_machine_of_a_cloud_is_physical(tmp_path, files):
    assert machine.detect(plant(tmp_path, files)).kind == 'physical'


def test_container_with_a_v2_quota_and_memory_limit(server):
    plant(server, {
        '.dockerenv': '',
        'proc/self/cgroup': '0::/job',
        'proc/self/mountinfo': '30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw',
        'sys/fs/cgroup/job/cpu.max': '250000 100000',
        'sys/fs/cgroup/cpu.max': '600000 100000',
        'sys/fs/cgroup/job/memory.max': 'max',
        'sys/fs/cgroup/memory.max': 2 * GIB,
        'sys/fs/cgroup/memory.current': GIB,
        'sys/fs/cgroup/memory.stat': f'anon 1\ninactive_file {GIB // 2}',
    })
    m = machine.detect(server)
    assert (m.kind, m.container) == ('physical', 'docker')
    assert (m.cpu_quota, m.cores) == (2.5, 2)
    assert (m.memory_bytes, m.memory_available_bytes) == (2 * GIB, 3 * GIB // 2)
    assert m.processor()['num_cpus'] // m.processor()['num_cpus_per_core'] == 2


def test_v1_limits_are_found_behind_a_container_mount(server):
    plant(server, {
        'proc/self/cgroup': '4:memory:/docker/abc/step\n1:cpu,cpuacct:/docker/abc',
        'proc/self/mountinfo': '30 20 0:26 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n'
                               '31 20 0:27 /docker/abc /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct',
        'sys/fs/cgroup/cpu/cpu.cfs_quota_us': 50000,
        'sys/fs/cgroup/cpu/cpu.cfs_period_us': 100000,
        'sys/fs/cgroup/memory/memory.limit_in_bytes': 9223372036854771712,
        'sys/fs/cgroup/memory/step/memory.limit_in_bytes': GIB,
    })
    m = machine.detect(server)
    assert (m.cpu_quota, m.cores) == (0.5, 1)
    assert m.memory_bytes == GIB


def test_no_quota_is_no_quota(server):
    plant(server, {'proc/self/cgroup': '1:cpu:/',
                   'proc/self/mountinfo': '31 20 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu',
                   'sys/fs/cgroup/cpu/cpu.cfs_quota_us': -1, 'sys/fs/cgroup/cpu/cpu.cfs_period_us': 100000})
    assert machine.detect(server).cpu_quota is None


def test_bare_chroot_knows_little_and_says_so(tmp_path):
    m = machine.detect(tmp_path)
    assert (m.kind, len(m.cpu_list), m.cores, m.llc_bytes, m.memory_bytes, m.clock) == ('unknown', 1, 1, None, None, None)
    assert m.features() == ['cpu']
    for what in ('physical or virtual', 'number of cpus', 'memory', 'caches', 'maximum clock', 'NUMA', 'sockets'):
        assert any(what in note for note in m.notes), what
    assert machine.limits(m) == {}


def test_without_sys_intel_still_tells_its_last_level_cache(tmp_path):
    text = cpuinfo(2, 'sse2', **{'physical id': 0, 'core id': 0, 'cache size': '61440 KB'})
    m = machine.detect(plant(tmp_path, {'proc/cpuinfo': text}))
    assert (len(m.cpu_list), m.cores, m.sockets, m.llc_bytes) == (2, 1, 1, 60 << 20)


ODD = ['proc/cpuinfo', 'proc/meminfo', 'proc/self/status', 'proc/self/cgroup', 'proc/self/mountinfo', 'proc/stat',
       'proc/loadavg', 'sys/devices/system/cpu/online', 'sys/devices/system/cpu/cpu0/topology/core_cpus_list',
       'sys/devices/system/cpu/cpu0/cache/index0/size', 'sys/devices/system/node/node0/cpulist',
       'sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq', 'sys/fs/cgroup/cpu.max',
       'sys/class/dmi/id/sys_vendor']
NOISE = st.sampled_from(['', '-', '0-', '9-1', '0-99999999999', 'K', '²K', ':', 'cpu a b', 'max max', '0::/',
                         '30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw', 'processor: x\nflags:',
                         'cpu  1 2 3', 'cpu  ² 2 3 4 5 6 7 8', 'MemTotal: kB']) | st.text(max_size=60)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(ODD), NOISE))
def test_no_content_of_proc_and_sys_raises(files):
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            file = Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, errors='replace')
        machine.detect(folder)
        machine.reading(folder)


@pytest.mark.parametrize('text, cpus', [('0-3,8', {0, 1, 2, 3, 8}), ('5', {5}), ('', set()), ('x', set())])
def test_cpu_lists(text, cpus):
    assert ranges.cpus(text) == cpus


# --- this machine ---

def test_this_machine():
    m = machine.detect()
    assert set(m.cpu_list) == os.sched_getaffinity(0)
    assert m.hostname != 'unknown' and 1 <= m.cores <= len(m.cpu_list)
    assert m.kind != 'virtual' or m.backend


def test_processor_is_what_reframe_accepts(server, guest, tmp_path):
    jsonschema = pytest.importorskip('jsonschema')
    import reframe
    schema = json.loads(Path(reframe.__file__).with_name('schemas').joinpath('config.json').read_text())
    rule = {'$ref': '#/defs/processor_info', 'defs': schema['defs']}
    (tmp_path / 'empty').mkdir()
    for m in (machine.detect(), machine.detect(server), machine.detect(tmp_path / 'empty')):
        jsonschema.validate(json.loads(json.dumps(m.processor())), rule)
    assert machine.detect(server).processor()['topology']['cores'] == ['0x11', '0x22', '0x44', '0x88']


def test_import_is_quick():
    code = 'import sys, parity.machine, parity.software; ' \
           'print([m for m in ("reframe", "polars", "archspec") if m in sys.modules])'
    assert subprocess.check_output([sys.executable, '-c', code], text=True).strip() == '[]'


# --- bounds ---

def test_peak_is_clock_times_flops_times_physical_cores(server):
    found = machine.limits(machine.detect(server))
    assert found['peak_flops_core'].value == pytest.approx(3.8 * 32)
    assert found['peak_flops'].value == pytest.approx(4 * 3.8 * 32)
    assert found['peak_flops'].certain and found['peak_flops'].unit == 'Gflop/s'
    assert '3.8 GHz' in found['peak_flops'].source and 'memory_bandwidth' not in found


def test_boost_that_the_driver_does_not_show_leaves_no_peak(server):
    for cpu in range(8):
        plant(server, {f'sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_driver': 'acpi-cpufreq'})
    plant(server, {'sys/devices/system/cpu/cpufreq/boost': 1})
    m = machine.detect(server)
    assert m.clock is None and any('boost' in note for note in m.notes)
    found, notes = machine.bounds(m)
    assert found == {} and 'maximum clock unknown' in notes[0]
    plant(server, {'sys/devices/system/cpu/cpufreq/boost': 0})
    assert machine.detect(server).clock.hz == 3.8e9


@pytest.mark.parametrize('name, family, flags, kind, expected', [
    ('zen4', '25', ('fma', 'avx512f'), 'physical', 16),
    ('zen4', '26', ('fma', 'avx512f'), 'physical', 32),     # a Zen 5 that this archspec does not know
    ('zen4', '25', ('fma', 'avx512f'), 'virtual', 32),      # any AMD may hide behind a masked model
    ('zen', '23', ('fma', 'avx2'), 'physical', 8),
    ('zen', '23', ('fma', 'avx2'), 'unknown', 16),
    ('zen5', '26', ('fma', 'avx2'), 'virtual', 16),
])
def test_a_name_counts_only_where_nothing_can_mask_it(server, name, family, flags, kind, expected):
    m = machine.detect(server).model_copy(update={
        'microarchitecture': name, 'vendor': 'AuthenticAMD', 'family': family, 'simd': flags, 'kind': kind})
    assert machine.limits(m)['peak_flops_core'].value == pytest.approx(3.8 * expected)


def test_arm_in_a_guest_and_unknown_processors_have_no_peak(server):
    m = machine.detect(server)
    for update in ({'microarchitecture': 'neoverse_v1', 'vendor': 'ARM', 'kind': 'virtual'},
                   {'microarchitecture': 'm4', 'vendor': 'Apple'}, {'vendor': 'GenuineIntel', 'simd': ('sse2',)}):
        found, notes = machine.bounds(m.model_copy(update=update))
        assert 'peak_flops' not in found and 'flop per cycle unknown' in notes[0]


def test_stated_clock_of_a_guest_counts_every_cpu_as_a_core(guest):
    m = machine.detect(guest)
    assert machine.limits(m) == {}
    found = machine.limits(m, {'clock': {'value': 3800, 'unit': 'MHz', 'source': 'vendor data sheet'}})
    # the thread that the guest is shown may be a core of the host
    assert m.cores == 1 and found['peak_flops'].value == pytest.approx(2 * 3.8 * 32)
    assert found['peak_flops'].certain and 'clock' not in found


def test_what_the_operator_states_wins(server):
    found = machine.limits(machine.detect(server), {
        'peak_flops': {'value': 400, 'unit': 'Gflop/s', 'source': 'acceptance report'},
        'link_rate': {'value': 12.5, 'unit': 'GB/s', 'source': '100 GbE', 'certain': False}})
    assert (found['peak_flops'].value, found['peak_flops'].certain) == (400, True)
    assert not found['link_rate'].certain and found['peak_flops_core'].value == pytest.approx(121.6)


@pytest.mark.parametrize('entry', [
    {'value': 400, 'unit': 'Tflop/s', 'source': 'x'}, {'value': -1, 'unit': 'Gflop/s', 'source': 'x'},
    {'value': 400, 'unit': 'Gflop/s'}, {'value': 400, 'unit': 'Gflop/s', 'source': ' '}, 400])
def test_a_malformed_override_is_an_error_that_names_it(server, entry):
    with pytest.raises(UsageError, match='peak_flops'):
        machine.limits(machine.detect(server), {'peak_flops': entry})


def test_a_quota_bounds_the_peak_from_above(server):
    m = machine.detect(server).model_copy(update={'cpu_quota': 2.5})
    assert m.cores == 2 and machine.limits(m)['peak_flops'].value == pytest.approx(3 * 121.6)


DMI = '''# dmidecode 3.4
Handle 0x0030, DMI type 17, 92 bytes
Memory Device
\tData Width: 64 bits
\tSize: {size}
\tLocator: DIMM 0
\tBank Locator: {bank}
\tType: DDR5
\tConfigured Memory Speed: {rate}
'''


def dmi(*modules):
    return '\n'.join(DMI.format(size=size, bank=bank, rate=rate).replace('0x0030', f'0x{i:04x}')
                     for i, (size, bank, rate) in enumerate(modules))


def test_memory_channels_from_firmware():
    modules = [('32 GB', f'P{p} CHANNEL {c}', '4800 MT/s') for p in (0, 1) for c in 'ABCD']
    found, notes = parse_dmi(dmi(*modules, ('No Module Installed', 'P0 CHANNEL E', 'Unknown')))
    assert (found.channels, found.transfers_per_s, notes) == (8, 4.8e9, [])


def test_two_modules_on_a_channel_are_one_channel():
    banks = [f'P0_Node0_Channel{channel}_Dimm{slot}' for channel in (0, 1) for slot in (0, 1)]
    found, _ = parse_dmi(dmi(*[('32 GB', bank, '4400 MT/s') for bank in banks]))
    assert found.channels == 2


@pytest.mark.parametrize('modules', [
    [], [('32 GB', 'BANK 0', '4800 MT/s')], [('32 GB', 'P0 CHANNEL A', 'Unknown')],
    [('32 GB', 'P0 CHANNEL A', '4800 MT/s'), ('32 GB', 'P0 CHANNEL B', '4400 MT/s')]])
def test_doubtful_firmware_gives_no_channels(modules):
    found, notes = parse_dmi(dmi(*modules))
    assert found is None and 'memory channels unknown' in notes[0]


def test_memory_bandwidth_is_channels_times_rate_times_width(server):
    m = machine.detect(server).model_copy(update={'memory_channels': MemoryChannels(
        channels=8, transfers_per_s=4.8e9, bytes_per_transfer=8, source='dmidecode')})
    limit = machine.limits(m)['memory_bandwidth']
    assert (limit.value, limit.unit, limit.certain) == (pytest.approx(307.2), 'GB/s', True)


# --- the cache ---

def test_load_looks_once_a_boot_and_reads_memory_each_time(server, monkeypatch):
    cache = server / 'cache' / 'machine.json'
    first = machine.load(cache, server)
    looks = []
    monkeypatch.setattr('parity.machine.store.detect', lambda root: looks.append(root) or machine.detect(root))
    plant(server, {'proc/meminfo': 'MemTotal: 8388608 kB\nMemAvailable: 1048576 kB'})
    again = machine.load(cache, server)
    assert looks == [] and again.memory_available_bytes == GIB
    assert again.model_copy(update={'memory_available_bytes': 4 * GIB}) == first


@pytest.mark.parametrize('change', [
    {'proc/sys/kernel/random/boot_id': 'second-boot'}, {'proc/sys/kernel/osrelease': '6.1.1-test'},
    {'proc/self/status': 'Cpus_allowed_list:\t0-1'},
    {'proc/self/cgroup': '0::/', 'sys/fs/cgroup/cpu.max': '100000 100000',
     'proc/self/mountinfo': '30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw'}])
def test_load_looks_again_when_what_decides_has_changed(server, monkeypatch, change):
    cache = server / 'machine.json'
    machine.load(cache, server)
    looks = []
    monkeypatch.setattr('parity.machine.store.detect', lambda root: looks.append(root) or machine.detect(root))
    machine.load(cache, plant(server, change))
    assert len(looks) == 1


@pytest.mark.parametrize('rubbish', ['', '{', '[]', '{"key": {}}', 'null'])
def test_a_corrupt_cache_is_ignored_and_replaced(server, rubbish):
    cache = server / 'machine.json'
    cache.write_text(rubbish)
    assert machine.load(cache, server) == machine.detect(server)
    assert json.loads(cache.read_text())['value']['hostname'] == 'n01'


def test_a_cache_with_another_schema_is_ignored(server):
    cache = server / 'machine.json'
    machine.load(cache, server)
    kept = json.loads(cache.read_text())
    kept['value'] = {'hostname': 'only'}
    cache.write_text(json.dumps(kept))
    assert len(machine.load(cache, server).cpu_list) == 8


def test_an_unwritable_cache_is_no_error(server):
    (server / 'file').write_text('')
    assert len(machine.load(server / 'file' / 'machine.json', server).cpu_list) == 8


# --- readings ---

def test_reading(server):
    seen = machine.reading(server)
    assert (seen['load_1min'], seen['steal_jiffies'], seen['total_jiffies']) == (0.42, 35, 1000)
    assert (seen['clock_mhz_min'], seen['clock_mhz_max']) == (2300.0, 2300.0)
    assert seen['memory_available_bytes'] == 4 * GIB
    json.dumps(seen)


def test_steal_share(server):
    before = machine.reading(server)
    plant(server, {'proc/stat': 'cpu  150 0 50 820 10 0 5 65 0 0'})
    assert machine.steal_share(before, machine.reading(server)) == pytest.approx(0.3)


def test_steal_share_is_unknown_without_counters_or_across_a_boot(server, tmp_path):
    now, nothing = machine.reading(server), machine.reading(tmp_path / 'nowhere')
    assert machine.steal_share(nothing, now) is None
    assert machine.steal_share(now, now) is None
    assert machine.steal_share(now, now | {'total_jiffies': 10, 'steal_jiffies': 0}) is None
