"""Detection from made-up /proc and /sys trees, bounds, the cache, and readings."""

import json
import os
from pathlib import Path

import pytest

from parity.judge.verdict import judge
from parity.measure import machine
from parity.measure.machine.procfs import Tree, parse_dmi

GIB = 1 << 30
CPU, CGROUP = 'sys/devices/system/cpu', 'sys/fs/cgroup'
AVX512 = 'fpu sse sse2 avx avx2 fma avx512f avx512dq avx512cd avx512bw avx512vl'
GUEST = AVX512 + ' hypervisor'
V2_MOUNT = '30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw'


def plant(root, files):
    """Write ``files`` (path -> text) below ``root``."""
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'{text}\n', errors='replace')
    return root


def cpuinfo(count, flags, **fields):
    fields = {'vendor_id': 'GenuineIntel', 'cpu family': 6, 'model name': 'Intel(R) Xeon(R) Test', 'cpu MHz': '2300.000', **fields, 'flags': flags}
    return '\n\n'.join('\n'.join(f'{k}\t: {v}' for k, v in {'processor': cpu, **fields}.items()) for cpu in range(count))


@pytest.fixture
def server(tmp_path):
    """Two sockets of two cores with two threads, turbo to 3.8 GHz."""
    files = {
        'proc/cpuinfo': cpuinfo(8, AVX512), 'proc/meminfo': 'MemTotal: 8388608 kB\nMemAvailable: 4194304 kB',
        'proc/sys/kernel/arch': 'x86_64', 'proc/sys/kernel/hostname': 'n01', 'proc/sys/kernel/osrelease': '6.1.0-test',
        'proc/sys/kernel/random/boot_id': 'first-boot',
        'proc/stat': 'cpu  100 0 50 800 10 0 5 35 0 0\ncpu0 1 2 3', 'proc/loadavg': '0.42 0.30 0.20 1/200 999',
        f'{CPU}/online': '0-7', 'sys/devices/system/node/node0/cpulist': '0-1,4-5', 'sys/devices/system/node/node1/cpulist': '2-3,6-7',
        'sys/devices/system/clocksource/clocksource0/current_clocksource': 'tsc', f'{CPU}/vulnerabilities/meltdown': 'Not affected',
        f'{CPU}/vulnerabilities/retbleed': 'Vulnerable', f'{CPU}/vulnerabilities/spectre_v1': 'Mitigation: usercopy barriers',
    }
    for cpu in range(8):
        core, package, folder = cpu % 4, (cpu % 4) // 2, f'{CPU}/cpu{cpu}'
        siblings, near = f'{core},{core + 4}', ('0-1,4-5', '2-3,6-7')[package]
        for index, *found in ((0, 1, 'Data', '48K', siblings), (1, 1, 'Instruction', '32K', siblings), (3, 3, 'Unified', '61440K', near)):
            names = ('level', 'type', 'size', 'shared_cpu_list')
            files |= {f'{folder}/cache/index{index}/{name}': value for name, value in zip(names, found, strict=True)}
        files |= {f'{folder}/topology/core_cpus_list': siblings, f'{folder}/topology/physical_package_id': package,
                  f'{folder}/cpufreq/cpuinfo_max_freq': 3700000 if cpu else 3800000, f'{folder}/cpufreq/scaling_driver': 'intel_pstate',
                  f'{folder}/cpufreq/scaling_governor': 'performance'}
    files |= {'sys/kernel/mm/transparent_hugepage/enabled': 'always [madvise] never', 'proc/sys/vm/nr_hugepages': 512, 'proc/sys/kernel/numa_balancing': 1}
    return plant(tmp_path / 'server', files)


def counted(m):
    """Numbers of CPUs, cores, threads a core, sockets, and NUMA nodes."""
    return len(m.cpu_list), m.cores, m.processor()['num_cpus_per_core'], len(m.socket_sets), len(m.numa_sets)


def limits(m, **stated):
    return machine.bounds(m, stated)[0]


def test_physical_server(server):
    m = machine.detect(server)
    assert (m.kind, m.backend, m.container) == ('physical', None, None) and counted(m) == (8, 4, 2, 2, 2)
    assert [(c.level, c.size_bytes, len(c.cpu_sets)) for c in m.caches] == [(1, 48 << 10, 4), (3, 60 << 20, 2)]
    assert (m.llc_bytes, m.llc_one_bytes) == (120 << 20, 60 << 20)
    assert (m.memory_bytes, m.memory_available_bytes) == (8 * GIB, 4 * GIB)
    assert m.clock.hz == 3.8e9 and 'intel_pstate' in m.clock.source
    assert (m.hostname, m.kernel, m.governor, m.clocksource) == ('n01', '6.1.0-test', 'performance', 'tsc')
    assert (m.transparent_huge_pages, m.huge_pages, m.numa_balancing) == ('madvise', '512', '1')
    assert m.mitigations == 'mitigated: spectre_v1; vulnerable: retbleed'
    assert m.features() == ['physical', 'cpu', 'sse2', 'avx', 'avx2', 'avx512']
    # a part of the CPUs leaves only what the usable CPUs touch
    m = machine.detect(plant(server, {f'{CPU}/online': '2-3'}))
    assert counted(m) == (2, 2, 1, 1, 1) and m.llc_bytes == 60 << 20
    assert m.processor()['topology']['caches'][-1]['cpusets'] == ['0xc']


UML = 'processor: 0\nvendor_id: User Mode Linux\nmodel name: UML\nmode: skas'
LSCPU = 'Vendor ID: GenuineIntel\nHypervisor vendor:   VMware\n'


@pytest.mark.parametrize('cpuinfo, programs, kind, backend', [
    (UML, {'systemd-detect-virt': 'kvm\n'}, 'virtual', 'uml'), (cpuinfo(1, GUEST), {'systemd-detect-virt': 'kvm\n'}, 'virtual', 'kvm'),
    (cpuinfo(1, GUEST), {'lscpu': LSCPU}, 'virtual', 'vmware'), (cpuinfo(1, GUEST), {}, 'virtual', 'unknown'),
    (cpuinfo(1, AVX512), {}, 'physical', None), ('CPU implementer: 0x41', {'systemd-detect-virt': 'none\n'}, 'physical', None),
    ('CPU implementer: 0x41', {}, 'unknown', None)])
def test_physical_or_virtual(tmp_path, monkeypatch, cpuinfo, programs, kind, backend):
    monkeypatch.setattr(Tree, 'printed', lambda tree, *command: programs.get(command[0], ''))
    m = machine.detect(plant(tmp_path, {'proc/cpuinfo': cpuinfo}))
    assert (m.kind, m.backend) == (kind, backend) and (kind in m.features()) == (kind != 'unknown') == bool(m.evidence)


@pytest.mark.parametrize('files, quota, cores, memory, available', [
    ({'proc/self/cgroup': '0::/job', 'proc/self/mountinfo': V2_MOUNT, f'{CGROUP}/job/cpu.max': '250000 100000', f'{CGROUP}/cpu.max': '600000 100000',
      f'{CGROUP}/job/memory.max': 'max', f'{CGROUP}/memory.max': 2 * GIB, f'{CGROUP}/memory.current': GIB,
      f'{CGROUP}/memory.stat': f'anon 1\ninactive_file {GIB // 2}'}, 2.5, 2, 2 * GIB, 3 * GIB // 2),
    ({'proc/self/cgroup': '4:memory:/docker/abc/step\n1:cpu,cpuacct:/docker/abc',         # v1, behind a container's mount
      'proc/self/mountinfo': '30 20 0:26 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n'
                             '31 20 0:27 /docker/abc /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct',
      f'{CGROUP}/cpu/cpu.cfs_quota_us': 50000, f'{CGROUP}/cpu/cpu.cfs_period_us': 100000,
      f'{CGROUP}/memory/memory.limit_in_bytes': 9223372036854771712, f'{CGROUP}/memory/step/memory.limit_in_bytes': GIB}, 0.5, 1, GIB, GIB),
    ({}, None, 4, 8 * GIB, 4 * GIB)])
def test_limits_of_cgroups(server, files, quota, cores, memory, available):
    m = machine.detect(plant(server, {'.dockerenv': '', **files}))
    assert (m.kind, m.container, m.cpu_quota, m.cores) == ('physical', 'docker', quota, cores)
    assert (m.memory_bytes, m.memory_available_bytes, m.processor()['num_cpus']) == (memory, available, 2 * cores)


def test_a_container_without_a_mark_is_named_as_systemd_names_it(server):
    assert machine.detect(plant(server, {'run/systemd/container': 'lxc'})).container == 'lxc'


def test_bare_chroot_knows_little_and_says_so(tmp_path):
    m = machine.detect(tmp_path)
    assert (m.kind, len(m.cpu_list), m.cores, m.llc_bytes, m.memory_bytes, m.clock) == ('unknown', 1, 1, None, None, None)
    assert m.features() == ['cpu'] and limits(m) == {}
    for what in ('physical or virtual', 'memory', 'caches', 'maximum clock', 'NUMA', 'sockets'):
        assert any(what in note for note in m.notes), what


@pytest.mark.parametrize('noise', ['', '-', '9-1', '0-99999999999', '²K', ':', 'max max', V2_MOUNT, 'processor: x\nflags:', 'cpu  ² 2 3 4 5 6 7 8'])
def test_no_content_of_proc_and_sys_raises(server, noise):
    plant(server, {file.relative_to(server): noise for file in server.rglob('*') if file.is_file()})
    assert machine.detect(server).kind and machine.reading(server)


def test_this_machine_and_a_processor_that_reframe_accepts(server, tmp_path):
    jsonschema = pytest.importorskip('jsonschema')
    import reframe
    schema = json.loads(Path(reframe.__file__).with_name('schemas').joinpath('config.json').read_text())
    here = machine.detect()
    assert set(here.cpu_list) == os.sched_getaffinity(0) and 1 <= here.cores <= len(here.cpu_list)
    assert here.hostname != 'unknown' and (here.kind != 'virtual' or here.backend)
    for m in (here, machine.detect(server), machine.detect(tmp_path / 'nowhere')):
        jsonschema.validate(json.loads(json.dumps(m.processor())), {'$ref': '#/defs/processor_info', 'defs': schema['defs']})
    assert machine.detect(server).processor()['topology']['cores'] == ['0x11', '0x22', '0x44', '0x88']


def test_peak_is_clock_times_flops_times_physical_cores(server):
    found = limits(machine.detect(server))
    assert found['peak_flops_core'].value == pytest.approx(3.8 * 32) and found['peak_flops'].value == pytest.approx(4 * 3.8 * 32)
    assert found['peak_flops'].certain and found['peak_flops'].unit == 'Gflop/s'
    assert '3.8 GHz' in found['peak_flops'].source and 'memory_bandwidth' not in found
    # a boost that the driver does not show leaves no peak
    for cpu in range(8):
        plant(server, {f'{CPU}/cpu{cpu}/cpufreq/scaling_driver': 'acpi-cpufreq', f'{CPU}/cpufreq/boost': 1})
    m = machine.detect(server)
    assert m.clock is None and any('boost' in note for note in m.notes)
    assert machine.bounds(m, {}) == ({}, ['no peak_flops: maximum clock unknown'])
    assert machine.detect(plant(server, {f'{CPU}/cpufreq/boost': 0})).clock.hz == 3.8e9


@pytest.mark.parametrize('vendor, name, family, flags, kind, expected', [
    ('AuthenticAMD', 'zen4', '25', ('fma', 'avx512f'), 'physical', 16),
    ('AuthenticAMD', 'zen4', '26', ('fma', 'avx512f'), 'physical', 32),     # a Zen 5 that this archspec does not know
    ('AuthenticAMD', 'zen4', '25', ('fma', 'avx512f'), 'virtual', 32),      # any AMD may hide behind a masked model
    ('AuthenticAMD', 'zen', '23', ('fma', 'avx2'), 'unknown', 16), ('ARM', 'neoverse_v1', None, (), 'physical', 16),
    ('ARM', 'neoverse_v1', None, (), 'virtual', None), ('GenuineIntel', None, None, ('sse2',), 'physical', None)])
def test_a_name_counts_only_where_nothing_can_mask_it(server, vendor, name, family, flags, kind, expected):
    found, notes = machine.bounds(machine.detect(server).model_copy(update={
        'microarchitecture': name, 'vendor': vendor, 'family': family, 'simd': flags, 'kind': kind}), {})
    assert ('peak_flops' in found) == bool(expected) != bool('flop per cycle unknown' in ''.join(notes))
    assert not expected or found['peak_flops_core'].value == pytest.approx(3.8 * expected)


def test_a_kernel_that_calls_the_threads_of_a_core_siblings_groups_them_too(server):
    for file in list(server.rglob('core_cpus_list')):
        file.rename(file.with_name('thread_siblings_list'))
    assert counted(machine.detect(server)) == (8, 4, 2, 2, 2)


@pytest.mark.parametrize('architecture, hertz', [('aarch64', 3.8e9), ('x86_64', None)])
def test_a_driver_without_a_switch_hides_a_boost_on_x86_alone(server, architecture, hertz):
    plant(server, {'proc/sys/kernel/arch': architecture, f'{CPU}/cpu0/cpufreq/scaling_driver': 'cppc_cpufreq'})
    clock = machine.detect(server).clock
    assert (clock and clock.hz) == hertz


def test_the_operators_statement_wins(server):
    m = machine.detect(plant(server, {'proc/cpuinfo': cpuinfo(8, GUEST)}))
    assert m.clock is None and limits(m) == {} and any('a virtual machine cannot vouch for' in note for note in m.notes)
    found = limits(m, clock={'value': 3800, 'unit': 'MHz', 'source': 'vendor data sheet', 'certain': True})
    # the thread that the guest is shown may be a core of the host
    assert m.cores == 4 and found['peak_flops'].value == pytest.approx(8 * 3.8 * 32)
    assert found['peak_flops'].certain and 'clock' not in found
    m = machine.detect(plant(server, {'proc/cpuinfo': cpuinfo(8, AVX512)})).model_copy(update={'cpu_quota': 2.5})
    assert m.cores == 2 and limits(m)['peak_flops'].value == pytest.approx(3 * 121.6)     # bounded from above
    found = limits(m, peak_flops={'value': 400, 'unit': 'Gflop/s', 'source': 'acceptance report', 'certain': False})
    assert (found['peak_flops'].value, found['peak_flops'].certain) == (400, False)
    assert found['peak_flops_core'].value == pytest.approx(121.6)


MODULE = '''Handle 0x{:04x}, DMI type 17, 92 bytes\nMemory Device\n\tData Width: 64 bits\n\tSize: {}\n\tLocator: DIMM 0\n\tBank Locator: {}
\tType: DDR5\n\tConfigured Memory Speed: {}\n'''
EIGHT = [('32 GB', f'P{p} CHANNEL {c}', '4800 MT/s') for p in (0, 1) for c in 'ABCD']


@pytest.mark.parametrize('modules, channels, rate', [
    ([*EIGHT, ('No Module Installed', 'P0 CHANNEL E', 'Unknown')], 8, 4.8e9),
    ([('32 GB', f'P0_Node0_Channel{channel}_Dimm{slot}', '4400 MT/s') for channel in (0, 1) for slot in (0, 1)], 2, 4.4e9),
    ([], None, None), ([('32 GB', 'BANK 0', '4800 MT/s')], None, None), ([('32 GB', 'P0 CHANNEL A', 'Unknown')], None, None),
    ([EIGHT[0], ('32 GB', 'P0 CHANNEL B', '4400 MT/s')], None, None)])
def test_memory_channels_from_firmware(server, modules, channels, rate):
    tree = Tree()
    found = parse_dmi(tree, '# dmidecode 3.4\n' + '\n'.join(MODULE.format(i, *module) for i, module in enumerate(modules)))
    assert (found and (found.channels, found.transfers_per_s)) == (channels and (channels, rate))
    assert bool(found) != any('memory channels unknown' in note for note in tree.notes)
    bandwidth = limits(machine.detect(server).model_copy(update={'memory_channels': found})).get('memory_bandwidth')
    assert (bandwidth and (bandwidth.value, bandwidth.unit, bandwidth.certain)) == (found and (pytest.approx(channels * rate * 8 / 1e9), 'GB/s', True))


@pytest.mark.parametrize('change, again', [
    ({}, 0), ({'proc/sys/kernel/random/boot_id': 'second-boot'}, 1), ({'proc/sys/kernel/osrelease': '6.1.1-test'}, 1),
    ({f'{CPU}/online': '0-1'}, 1),
    ({'proc/self/cgroup': '0::/', f'{CGROUP}/cpu.max': '100000 100000', 'proc/self/mountinfo': V2_MOUNT}, 1)])
def test_load_looks_once_a_boot_and_reads_memory_each_time(server, monkeypatch, change, again):
    cache = server / 'cache' / 'machine.json'
    first = machine.load(cache, server)
    looks = []
    monkeypatch.setattr('parity.measure.machine.store.detect', lambda root: looks.append(root) or machine.detect(root))
    now = machine.load(cache, plant(server, {'proc/meminfo': 'MemTotal: 8388608 kB\nMemAvailable: 1048576 kB', **change}))
    assert len(looks) == again and now.memory_available_bytes == GIB
    assert again or now.model_copy(update={'memory_available_bytes': 4 * GIB}) == first


def test_readings_and_the_share_of_stolen_time(server, tmp_path):
    before, nothing = machine.reading(server), machine.reading(tmp_path / 'nowhere')
    assert before == {'time_s': before['time_s'], 'load_1min': 0.42, 'steal_jiffies': 35, 'total_jiffies': 1000, 'clock_mhz_min': 2300.0,
                      'clock_mhz_max': 2300.0, 'memory_available_bytes': 4 * GIB}
    after = machine.reading(plant(server, {'proc/stat': 'cpu  150 0 50 820 10 0 5 65 0 0'}))
    assert judge.steal_share(before, after) == pytest.approx(0.3)
    # unknown without counters, at the same instant, and across a boot
    assert {judge.steal_share(nothing, after), judge.steal_share(after, after),
            judge.steal_share(after, after | {'total_jiffies': 2000, 'steal_jiffies': 0})} == {None}
