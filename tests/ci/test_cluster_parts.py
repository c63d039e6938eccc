"""The parts of ci/cluster: options, the choice of guests, their kernel, the trial job. No test boots a guest."""

from __future__ import annotations

import dataclasses
import importlib
import lzma
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from conftest import PATIENCE, TOP

LIB = TOP / 'ci' / 'lib' / 'cluster'
PARTS = ('backend', 'boot', 'errors', 'host', 'kernel', 'machine', 'model', 'newer', 'qemu', 'slurm_conf', 'trial', 'uml')


@pytest.fixture
def lib(monkeypatch):
    """The modules of ci/lib/cluster, which is a program and no package."""
    monkeypatch.syspath_prepend(str(LIB))
    monkeypatch.delenv('PARITY_CLUSTER_ACCELERATOR', raising=False)
    yield SimpleNamespace(**{name: importlib.import_module(name) for name in PARTS})
    for name, module in list(sys.modules.items()):
        if str(getattr(module, '__file__', '') or '').startswith(str(LIB)):
            del sys.modules[name]


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """Write a program and put its folder at the front of PATH."""
    monkeypatch.setenv('PATH', f'{tmp_path}:{os.environ["PATH"]}')

    def write(name: str, script: str) -> None:
        (tmp_path / name).write_text(f'#!/bin/sh\n{script}\n')
        (tmp_path / name).chmod(0o755)
    return write


# ---- options

def asked(words: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, '-B', LIB, *words.split()], capture_output=True, text=True)


@pytest.mark.parametrize('words, said', [
    ('', 'VERB'), ('begin', 'invalid choice'), ('up --nodes 0', 'valid are 1 to 16 nodes'), ('up --nodes 2;id', 'valid are 1 to 16'),
    ('up --cpus 99', 'valid are 1 to'), ('up --virtual-rate fast', 'valid are 1mbit to 100gbit'), ('up --physical-rate 0kbit', 'valid are'), ('up --second-network 1', 'valid are'),
    ('up --uml /bin/true', 'valid is FOLDER/usr/bin/linux.uml'), ('up --slurm /etc', 'no program sbin/slurmctld'), ('up --slurm', 'expected one argument'), ('up --shared /etc', 'a folder of the system'), ('up --shared /tmp/a,b', 'a comma')])
def test_a_bad_option_is_refused_before_anything_starts(words, said):
    done = asked(words)
    assert done.returncode == 2 and said in done.stderr and 'Traceback' not in done.stderr


@pytest.mark.skipif(Path('/run/parity-cluster').exists(), reason='the cluster is up')
@pytest.mark.parametrize('words', ['exec head true', 'kill v1', 'logs'])
def test_a_verb_that_needs_a_cluster_says_that_none_is_up(words):
    done = asked(words)
    assert done.returncode == 3 and 'not up' in done.stderr and asked('status').returncode == 3


def test_slurmdbd_finds_its_database(lib):
    database = re.search(r'^CREATE DATABASE .*?(\w+);', lib.slurm_conf.DATABASE, re.M)[1]
    assert f'GRANT ALL ON {database}.*' in lib.slurm_conf.DATABASE
    assert 'StorageLoc' not in lib.slurm_conf.SLURMDBD and database == 'slurm_acct_db', "slurmdbd's default"


def test_a_machine_has_one_cluster_at_a_time(lib, monkeypatch, tmp_path):
    monkeypatch.setattr(lib.machine, 'PLACES', {'ci/cluster': tmp_path / 'slurm', 'ci/pbs': tmp_path / 'pbs'})
    monkeypatch.setattr(lib.machine.os, 'geteuid', lambda: 0)
    (tmp_path / 'pbs').mkdir()
    lib.machine.check('ci/pbs', ['sh'], 'dash')
    with pytest.raises(lib.errors.Ended, match='ci/pbs is up on this machine: ci/pbs down first') as refused:
        lib.machine.check('ci/cluster', ['sh'], 'dash')
    assert refused.value.code == 2


# ---- the choice of guests


def uml_choice(program: str | None, why: str = '') -> SimpleNamespace:
    return SimpleNamespace(linux=program and SimpleNamespace(program=program), why=why)


NO_KVM, NO_FIND = {'backend._no_kvm': lambda: 'no /dev/kvm here'}, {'kernel.find': lambda: None}
FALLS_BACK = 'virtual nodes: not KVM: {}: using User-mode Linux'


@pytest.mark.parametrize('absent, chosen, why, printed', [
    ({}, ('kvm', 4), '', ''),
    (NO_KVM, ('uml', 4), 'no /dev/kvm here', FALLS_BACK),
    (NO_FIND, ('uml', 4), 'no kernel with 9P in /boot (Debian: linux-image-amd64', FALLS_BACK),
    ({'qemu.why_none_boots': lambda _: 'a guest does not boot within 20 s'}, ('uml', 4), 'a guest does not boot within 20 s', FALLS_BACK),
    ({'backend.shutil.which': lambda name: None}, ('uml', 4), 'no qemu-system-x86_64 here (Debian: qemu-system-x86), no busybox here', FALLS_BACK),
    (NO_KVM | {'uml.choose': lambda given, install: uml_choice(None, 'no linux.uml here')}, ('none', 0), 'no /dev/kvm here; no linux.uml here',
     'virtual nodes: none: not KVM: {}; no partition virtual'),
    ({'backend._room': lambda kind: 3 * 1400}, ('kvm', 2), '', '2 of 4: memory for more is short'),
    ({'backend._room': lambda kind: 1400}, ('kvm', 1), '', '1 of 4: memory for more is short')])
def test_guests_are_the_best_that_this_machine_has(lib, monkeypatch, capsys, absent, chosen, why, printed):
    unasked = {'qemu.why_none_boots': lambda _: pytest.fail('a guest was tried')} if absent.keys() & {*NO_KVM, *NO_FIND} else {}
    there = {'backend._no_kvm': lambda: None, 'uml.choose': lambda given, install: uml_choice('/usr/bin/linux.uml'), 'backend._no_link': lambda: None,
             'backend._room': lambda kind: 99 * 1400, 'backend.shutil.which': lambda name: f'/usr/bin/{name}',
             'kernel.find': lambda: '6.1.0-40-amd64', 'qemu.why_none_boots': lambda accelerator: None}
    for name, stand_in in {**there, **unasked, **absent}.items():
        module, _, rest = name.partition('.')
        monkeypatch.setattr(f'{module}.{rest}', stand_in)
    virtual = lib.backend.choose(4)
    said = capsys.readouterr().out
    assert (virtual.backend, virtual.count) == chosen and why in virtual.why and bool(why) == bool(virtual.why)
    assert printed.split('{}')[0] in said and why in said and printed.split('{}')[-1] in said and bool(printed) == bool(said)


def made(lib, virtual: int, backend: str):
    return lib.model.Cluster(nodes=2, virtual_nodes=virtual, cpus=2, physical_rate=None, virtual_rate=None, shared='/srv/results',
                             backend=backend, network='10.77.61', files='virtio')


def test_a_second_network_is_a_second_link_of_each_node(lib, monkeypatch, tmp_path):
    monkeypatch.setattr(lib.uml, 'STATE', tmp_path)
    cluster = dataclasses.replace(made(lib, 1, 'uml'), second_network='100mbit')
    node, guest = cluster.node('p2'), cluster.node('v1')
    assert [tuple(link) for link in node.links] == [('p2', 'eth0', '10.77.61.12', None), ('p2-2', 'eth1', '10.77.62.12', '100mbit')]
    assert [link.bridge for link in node.links] == ['br0', 'br1'] and len({link.mac for n in (node, guest) for link in n.links}) == 4
    assert ['ifname=v1-2' in word for word in lib.uml.guest(guest, lib.uml.Linux(Path('/usr/bin/linux.uml'))) if word.startswith('vec')] == [False, True]
    assert len(made(lib, 1, 'uml').node('p2').links) == 1


def test_without_guests_there_is_no_partition_virtual(lib):
    text = lib.slurm_conf.slurm_conf(made(lib, 0, 'none'))
    assert 'PartitionName=physical Nodes=p1,p2' in text and 'PartitionName=virtual' not in text


# ---- the choice of a User-mode Linux

PANIC = 'Kernel panic - not syncing: Attempted to kill init! exitcode=0x000000'
REGISTERS = 'userspace - ptrace set fp regs failed, errno = 14'
#: What kernels print. The newer ones do not end by themselves after a panic.
RUNS, RUNS_AND_SPINS = f"echo '{PANIC}00'; exit 1", f"echo '{PANIC}00'; exec sleep 7777"
BROKEN, HANGS = f"echo '{REGISTERS}'; echo '{PANIC}0b'; exit 1", 'exec sleep 7777'


@pytest.fixture
def linux(lib, monkeypatch, tmp_path):
    """Write a false linux.uml in a folder; return its path."""
    monkeypatch.setattr(lib.uml, 'CONFINED', [])    # needs root
    monkeypatch.setattr(lib.uml, 'SECONDS', PATIENCE)

    def write(script: str, folder: str = 'installed') -> Path:
        program = tmp_path / folder / 'usr/bin/linux.uml'
        program.parent.mkdir(parents=True)
        (tmp_path / folder / 'usr/lib/uml/modules').mkdir(parents=True)
        program.write_text(f'#!/bin/sh\n{script}\n')
        program.chmod(0o755)
        monkeypatch.setenv('PATH', f'{tmp_path}/installed/usr/bin:{os.environ["PATH"]}')
        return program
    return write


@pytest.mark.parametrize('script, why', [
    (RUNS, None), (RUNS_AND_SPINS, None), (BROKEN, REGISTERS), ("echo 'Segfault with no mm'; exit 1", 'Segfault with no mm'),
    ('exit 1', 'it ended and said nothing'), (HANGS, 'its guest ran no program within 1 s')])
def test_user_mode_linux_is_tried_before_it_is_chosen(lib, linux, monkeypatch, script, why):
    program = linux(script)
    if script == HANGS:
        monkeypatch.setattr(lib.uml, 'SECONDS', 1)
    assert lib.uml.why_none_boots(lib.uml.Linux(program)) == (why and f'{program} runs no program: {why}')


def test_an_installed_user_mode_linux_that_runs_programs_is_used(lib, linux, monkeypatch):
    installed = lib.uml.Linux(linux(RUNS))
    monkeypatch.setattr(lib.newer, 'take', lambda: pytest.fail('a newer one was taken'))
    assert lib.uml.choose(None, True) == lib.uml.Choice(installed, '')


def test_a_newer_user_mode_linux_is_taken_where_the_installed_one_runs_no_program(lib, linux, monkeypatch, capsys):
    old, new = linux(BROKEN), linux(RUNS, 'newer')
    monkeypatch.setattr(lib.newer, 'take', lambda: new)
    assert lib.uml.choose(None, True) == lib.uml.Choice(lib.uml.Linux(new), f'{old} runs no program: {REGISTERS}')
    printed = capsys.readouterr().out
    assert 'taking a newer user-mode-linux from Debian' in printed and 'nothing of the system was replaced' in printed


def no_network() -> Path:
    from errors import Ended
    raise Ended(4, "apt-get: E: Failed to fetch: could not resolve")


@pytest.mark.parametrize('install, take, parts', [
    (False, lambda: pytest.fail('a newer one was taken'), ('--no-install takes no newer one',)),
    (True, no_network, ('no newer user-mode-linux from Debian: apt-get: E: Failed to fetch',)),
    (True, None, ('newer/usr/bin/linux.uml runs no program: it ended and said nothing',))], ids=['not allowed', 'no network', 'runs no program'])
def test_without_a_user_mode_linux_the_reason_names_all_that_was_tried(lib, linux, monkeypatch, install, take, parts):
    old, new = linux(BROKEN), linux('exit 1', 'newer')
    monkeypatch.setattr(lib.newer, 'take', take or (lambda: new))
    choice = lib.uml.choose(None, install)
    assert choice.linux is None
    for part in (f'{old} runs no program: {REGISTERS}', *parts, '--uml PATH takes a linux.uml that is there'):
        assert part in choice.why


def test_a_user_mode_linux_of_the_users_own_is_used_or_refused(lib, linux, monkeypatch):
    monkeypatch.setattr(lib.uml, '_installed', lambda: pytest.fail('the installed one was tried'))
    assert lib.uml.choose(linux(RUNS, 'good'), True).linux.root.name == 'good'
    broken = linux(BROKEN, 'bad')
    with pytest.raises(lib.errors.Ended, match=f'--uml: {broken} runs no program: {REGISTERS}') as refused:
        lib.uml.choose(broken, True)
    assert refused.value.code == 4


def test_a_guest_answers_system_calls_by_seccomp_where_it_can(lib, linux, monkeypatch, tmp_path):
    monkeypatch.setattr(lib.uml, 'STATE', tmp_path)
    kernel = lib.uml.Linux(linux(RUNS))
    assert 'seccomp=auto' in kernel.words(64, '/bin/true', '/srv/x', 'v1')
    assert 'seccomp=auto' in lib.uml.guest(made(lib, 1, 'uml').node('v1'), kernel)


def test_a_kernel_with_its_own_c_library_starts_in_its_own_root(lib, linux):
    program = linux(RUNS)
    assert str(program) in lib.uml.Linux(program).words(64, '/bin/true', '/srv/x', 'v1')
    library = program.parents[1] / 'lib64/ld-linux-x86-64.so.2'
    library.parent.mkdir()
    library.symlink_to('nowhere')       # glob lists it all the same
    words = lib.uml.Linux(program).words(64, '/bin/true', '/srv/x', 'v1')
    assert str(program) not in words and str(LIB / 'uml-root') in words and 'uml_dir=/host/srv/x/' in words


def test_a_guest_loads_what_a_module_needs_first(tmp_path):
    folder = tmp_path / os.uname().release
    folder.mkdir()
    (folder / 'modules.dep').write_text('kernel/x/parity9p.ko: kernel/x/paritynet.ko kernel/x/parityfs.ko\n')
    script = f'. {LIB}/uml; insmod() {{ echo "${{1##*/}}"; }}; modules={tmp_path}; load x/parity9p; load x/absent || echo absent'
    done = subprocess.run(['bash', '-c', script], capture_output=True, text=True)
    assert done.stdout.split() == ['parityfs.ko', 'paritynet.ko', 'parity9p.ko', 'absent'], done.stderr


SOURCES = ('bookworm-security main http://security.example/debian-security/', 'nodistro main http://node.example/', 'bookworm contrib http://a.example/',
           'bookworm main http://b.example/debian/', 'bookworm main http://c.example/debian/')


@pytest.fixture
def apt(lib, tool, monkeypatch, tmp_path):
    """A false apt that lists sources and writes packages, and a false dpkg."""
    monkeypatch.setattr(lib.newer, 'STATE', tmp_path / 'state')
    monkeypatch.setattr(lib.newer, 'FOLDER', tmp_path / 'state/linux')
    monkeypatch.setattr(lib.newer, 'KEYS', tmp_path / 'dpkg')
    tool('dpkg', 'mkdir -p "$3/usr/bin"; echo "$2" >>"$3/usr/bin/linux.uml"')

    def write(sources: tuple[str, ...], update: str = ':') -> None:
        listed = '\n'.join(sources)
        tool('apt-get', f"""echo "$@" >>{tmp_path}/asked
case "$*" in indextargets*) echo '{listed}' ;; *update) cp *.list {tmp_path}; {update} ;; *download*) touch one.deb ;; esac""")
    return write


def test_a_newer_user_mode_linux_comes_signed_from_this_machines_mirror_into_a_folder_of_its_own(lib, apt, tmp_path):
    apt(SOURCES)
    program = lib.newer.take()
    assert program == tmp_path / 'state/linux/usr/bin/linux.uml' and program.exists()
    assert [entry.name for entry in (tmp_path / 'state').iterdir()] == ['linux'], "apt's files are gone"
    assert (tmp_path / 'sources.list').read_text() == f'deb [signed-by={tmp_path}/dpkg] http://b.example/debian/ unstable main\n'
    asked = (tmp_path / 'asked').read_text().splitlines()
    assert asked[-1].endswith('download user-mode-linux libc6 libgcc-s1') and not any(' install ' in line for line in asked)
    for line in asked[1:]:
        for setting in ('Dir::Etc::SourceParts=/dev/null', f'Dir::State::Lists={tmp_path}/state', f'Dir::Cache={tmp_path}/state'):
            assert setting in line
    lib.newer.take()
    assert len((tmp_path / 'asked').read_text().splitlines()) == len(asked), 'it is there'


@pytest.mark.parametrize('sources, update, why', [
    (SOURCES[:3], ':', "none of this machine's apt sources has a release of Debian"),
    (SOURCES, 'echo "E: Failed to fetch http://me:secret@b.example/x  Could not resolve" >&2; exit 100',
     'apt-get: E: Failed to fetch http://b.example/x Could not resolve')])
def test_no_newer_user_mode_linux_leaves_a_reason_and_no_file(lib, apt, tmp_path, sources, update, why):
    apt(sources, update)
    with pytest.raises(lib.errors.Ended) as ended:
        lib.newer.take()
    assert str(ended.value) == why and not any((tmp_path / 'state').glob('*'))


def test_a_cluster_started_anew_keeps_the_newer_linux_and_down_keeps_nothing(lib, monkeypatch, tmp_path):
    state = tmp_path / 'state'
    monkeypatch.setattr(lib.host, 'STATE', state)
    monkeypatch.setattr(lib.host, 'MAPS_BEFORE', state / 'max_map_count')
    monkeypatch.setattr(lib.host, '_ours', lambda: False)
    monkeypatch.setattr(lib.host, '_clear_cgroups', lambda: [])
    monkeypatch.setattr(lib.host.process, 'end_all', lambda: [])
    monkeypatch.setattr(lib.host.network, 'LINK', 'no-such-link')
    (state / 'linux').mkdir(parents=True)
    (state / 'log').mkdir()
    (state / 'state.json').touch()
    assert lib.host.clear(keep=state / 'linux') == [] and [entry.name for entry in state.iterdir()] == ['linux']
    assert lib.host.clear() == [] and not state.exists()


@pytest.mark.parametrize('script, said', [
    ('echo "[    0.5] noise"; echo "parity: this guest boots"', None),
    ('echo "qemu-system-x86_64: error: failed to set MSR 0x10a" >&2; exit 1', 'error: failed to set MSR 0x10a'),
    ('echo "KVM internal error. Suberror: 1" >&2; exec sleep 7777', 'KVM internal error. Suberror: 1'),
    ('exit 1', 'it ended and said nothing'), ('exec sleep 7777', 'its guest ran no program within 1 s')])
def test_a_trial_guest_boots_or_says_why_not(lib, tmp_path, script, said):
    pid = tmp_path / 'pid'
    words = ['bash', '-c', f'echo $$ >{pid}; {script}']
    answer = lib.boot.why_not(words, tmp_path / 'output', lib.qemu.SIGNS, 1 if said and 'within' in said else PATIENCE)
    assert not Path('/proc', pid.read_text().strip()).exists(), 'the trial was waited for'
    assert answer is None if said is None else answer.endswith(said)


# ---- the kernel and its first root

#: Modules of a kernel, each with those that it needs.
MODULES = {'fs/9p/9p': ('net/9p/9pnet', 'fs/netfs/netfs'), 'net/9p/9pnet': (), 'fs/netfs/netfs': (), 'drivers/virtio/virtio': (),
           'net/9p/9pnet_virtio': ('net/9p/9pnet', 'drivers/virtio/virtio'), 'drivers/virtio/virtio_pci': ('drivers/virtio/virtio',),
           'drivers/net/virtio_net': ('drivers/virtio/virtio',)}


@pytest.fixture
def boot(lib, monkeypatch, tmp_path):
    """Add a kernel to a /boot and a /lib/modules of the test's own."""
    monkeypatch.setattr(lib.kernel, 'BOOT', tmp_path / 'boot')
    monkeypatch.setattr(lib.kernel, 'INSTALLED', tmp_path / 'modules')
    (tmp_path / 'boot').mkdir()

    def add(version: str, suffix: str = '', lacks: str = '') -> Path:
        folder = tmp_path / 'modules' / version
        names = {module: f'kernel/{module}.ko{suffix}' for module in MODULES}
        for name in names.values():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(lzma.compress(b'code') if suffix == '.xz' else b'code')
        (folder / 'modules.dep').write_text(''.join(f'{names[m]}: {" ".join(map(names.get, needs))}\n' for m, needs in MODULES.items() if m != lacks))
        (folder / 'modules.builtin').write_text('kernel/net/sched/sch_tbf.ko\n')
        (tmp_path / 'boot' / f'vmlinuz-{version}').write_text(version)
        return folder
    return add


def test_the_running_kernel_comes_first_then_the_newest_and_modules_load_in_order(lib, boot, monkeypatch):
    shutil.rmtree(boot('6.1.0-41-amd64'))
    assert lib.kernel.find() is None
    for version in ('6.1.0-9-amd64', '6.1.0-40-amd64', '5.10.0-41-amd64'):
        boot(version)
    boot('6.12.0-1-cloud-amd64', lacks='fs/9p/9p')
    assert lib.kernel.find() == '6.1.0-40-amd64'
    monkeypatch.setattr(lib.kernel.os, 'uname', lambda: SimpleNamespace(release='5.10.0-41-amd64'))
    assert lib.kernel.find() == '5.10.0-41-amd64'
    order = [Path(file).name.split('.')[0] for file in lib.kernel._needed('5.10.0-41-amd64')]
    assert sorted(order) == sorted(Path(module).name for module in MODULES)
    assert all(order.index(Path(need).name) < order.index(Path(module).name) for module, needs in MODULES.items() for need in needs)


@pytest.mark.skipif(not shutil.which('busybox'), reason='no busybox here (Debian: busybox)')
@pytest.mark.parametrize('suffix', ['', '.xz'])
def test_the_first_root_has_all_that_a_guest_needs(lib, boot, tmp_path, suffix):
    boot('6.1.0-40-amd64', suffix)
    root, out = tmp_path / 'root', tmp_path / 'out'
    out.mkdir()
    root.mkdir()
    lib.kernel.prepare(out)
    assert sorted(file.name for file in out.iterdir()) == ['initramfs', 'vmlinuz']
    subprocess.run(['busybox', 'cpio', '-i', '-F', out / 'initramfs'], cwd=root, check=True, capture_output=True)
    assert {'init', 'bin', 'modules', 'proc', 'root'} <= {file.name for file in root.iterdir()}
    assert all((root / program).stat().st_mode & 0o111 for program in ('init', 'bin/busybox'))
    assert {(root / 'modules' / module).read_bytes() for module in (root / 'modules/order').read_text().split()} == {b'code'}


def test_a_guest_sees_this_machine_read_only_and_has_its_own_link(lib):
    words = ' '.join(lib.qemu.guest('kvm', made(lib, 1, 'kvm').node('v1'), '/srv/results'))
    assert 'path=/,mount_tag=root' in words and 'readonly=on' in words.split('mount_tag=root')[1].split()[0]
    assert 'path=/srv/results,mount_tag=shared' in words and words.count('readonly=on') == 1
    for part in ('-accel kvm -cpu host -smp 2', 'ifname=v1', '02:70:61:72:3d:1f', 'node=v1'):
        assert part in words


# ---- the trial job

QUEUED = 'srun: job 4 queued and waiting for resources\nsrun: job 4 has been allocated resources\n'
NO_PMIX = 'srun: error:  mpi/pmix_v4: init: (null) [0]: mpi_pmix.c:195: pmi/pmix: can not load PMIx library\n' \
          'srun: error: cannot create mpi context for mpi/pmix\n'


@pytest.mark.parametrize('script, why', [
    ('printf "1\\n0\\n"', None), (f'echo "{QUEUED}" >&2; printf "0\\n1\\n"', None),
    (f'echo "{QUEUED}{NO_PMIX}" >&2; exit 1', 'can not load PMIx library'),
    ('exit 1', 'srun ended 1, its ranks printed []'), ('printf "0\\n0\\n"', "its ranks printed ['0', '0']")])
def test_a_partition_is_up_once_two_ranks_ran_there(lib, script, why):
    srun = subprocess.Popen(['sh', '-c', script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = lib.trial.why_not('physical', srun, 60)
    assert said == why if why is None else why in said
