"""Which guests ci/cluster makes and of what: nothing here boots one, or starts a cluster."""

from __future__ import annotations

import lzma
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from conftest import PATIENCE, TOP

LIB = TOP / 'ci' / 'lib' / 'cluster'


@pytest.fixture
def lib(monkeypatch):
    """The modules of ci/lib/cluster, which is a program and no package."""
    monkeypatch.syspath_prepend(str(LIB))
    monkeypatch.delenv('PARITY_CLUSTER_ACCELERATOR', raising=False)
    import backend
    import kernel
    import machine
    import model
    import qemu
    import told
    import uml
    yield SimpleNamespace(backend=backend, kernel=kernel, machine=machine, model=model, qemu=qemu, uml=uml,
                          Told=told.Told)
    for name, module in list(sys.modules.items()):
        if str(getattr(module, '__file__', '') or '').startswith(str(LIB)):
            del sys.modules[name]


@pytest.fixture
def here(lib, monkeypatch):
    """A machine where everything is there; each test takes something away."""
    monkeypatch.setattr(lib.backend, '_no_kvm', lambda: None)
    monkeypatch.setattr(lib.backend, '_no_uml', lambda: None)
    monkeypatch.setattr(lib.backend, '_no_link', lambda: None)
    monkeypatch.setattr(lib.backend, '_room', lambda kind: 99 * lib.model.GUEST_MIB)
    monkeypatch.setattr(lib.backend.shutil, 'which', lambda name: f'/usr/bin/{name}')
    monkeypatch.setattr(lib.kernel, 'find', lambda: '6.1.0-40-amd64')
    monkeypatch.setattr(lib.qemu, 'why_none_boots', lambda accelerator: None)
    return lib


def test_guests_are_of_kvm_where_one_boots(here, capsys):
    assert here.backend.choose(4) == here.backend.Virtual('kvm', 4, '')
    assert capsys.readouterr().out == ''


@pytest.mark.parametrize('where, what, why', [
    ('backend', ('_no_kvm', lambda: 'no /dev/kvm here'), 'no /dev/kvm here'),
    ('kernel', ('find', lambda: None), 'no kernel with 9P in /boot (Debian: linux-image-amd64'),
    ('qemu', ('why_none_boots', lambda _: 'a guest does not boot within 20 s'), 'a guest does not boot within 20 s')])
def test_guests_are_of_user_mode_linux_where_none_of_kvm_boots(here, monkeypatch, capsys, where, what, why):
    monkeypatch.setattr(getattr(here, where), *what)
    chosen = here.backend.choose(4)
    assert (chosen.backend, chosen.count) == ('uml', 4) and why in chosen.why
    assert f'not KVM: {why}' in capsys.readouterr().out


def test_what_is_to_be_installed_for_kvm_is_said_at_once(here, monkeypatch):
    monkeypatch.setattr(here.backend.shutil, 'which', lambda name: None)
    monkeypatch.setattr(here.kernel, 'find', lambda: None)
    why = here.backend.choose(1).why
    assert all(word in why for word in ('qemu-system-x86_64', 'busybox', 'linux-image-amd64'))


def test_no_guest_is_tried_where_a_cheap_question_says_no(here, monkeypatch):
    monkeypatch.setattr(here.qemu, 'why_none_boots', lambda accelerator: pytest.fail('a guest was tried'))
    monkeypatch.setattr(here.backend, '_no_kvm', lambda: 'no /dev/kvm here')
    assert here.backend.choose(1).backend == 'uml'


def test_without_either_there_is_no_partition(here, monkeypatch, capsys):
    monkeypatch.setattr(here.backend, '_no_kvm', lambda: 'no /dev/kvm here')
    monkeypatch.setattr(here.backend, '_no_uml', lambda: 'no linux.uml here')
    chosen = here.backend.choose(2)
    assert (chosen.backend, chosen.count) == ('none', 0)
    assert chosen.why == 'not KVM: no /dev/kvm here; no linux.uml here'
    assert 'not KVM: no /dev/kvm here; no linux.uml here; no partition virtual' in capsys.readouterr().out


@pytest.mark.parametrize('said, why', [
    ('Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000000', None),
    ('userspace - ptrace set fp regs failed, errno = 14\nKernel panic - not syncing: Attempted to kill init! exitcode=0x0000000b',
     'User-mode Linux runs no program here: userspace - ptrace set fp regs failed, errno = 14')])
def test_user_mode_linux_is_tried_before_it_is_chosen(lib, monkeypatch, tmp_path, said, why):
    (tmp_path / 'linux.uml').write_text(f"#!/bin/sh\nprintf '%s\\n' '{said}'\nexit 1\n")
    (tmp_path / 'linux.uml').chmod(0o755)
    monkeypatch.setenv('PATH', f'{tmp_path}:{os.environ["PATH"]}')
    assert lib.uml.why_none_boots() == why


@pytest.mark.parametrize('room, count', [(3, 2), (1, 1)])
def test_fewer_guests_where_memory_is_short(here, monkeypatch, capsys, room, count):
    monkeypatch.setattr(here.backend, '_room', lambda kind: room * here.model.GUEST_MIB)
    assert here.backend.choose(4) == here.backend.Virtual('kvm', count, '')
    assert f'{count} of 4: memory for more is short' in capsys.readouterr().out


def test_a_device_that_is_none_of_kvm_is_no_kvm(lib, monkeypatch, tmp_path):
    monkeypatch.setattr(lib.backend, 'KVM', tmp_path / 'kvm')
    assert lib.backend._no_kvm() == f'no {tmp_path}/kvm here'
    (tmp_path / 'kvm').write_text('')
    assert lib.backend._no_kvm() == f'{tmp_path}/kvm: Inappropriate ioctl for device'


def test_another_accelerator_than_those_is_refused(lib, monkeypatch):
    monkeypatch.setenv('PARITY_CLUSTER_ACCELERATOR', 'fast')
    with pytest.raises(lib.Told, match="'fast'; valid: kvm, tcg") as refused:
        lib.backend.choose(1)
    assert refused.value.code == 2


# ---- the trial

@pytest.mark.parametrize('script, said', [
    ('echo "[    0.5] noise"; echo "parity: this guest boots"', None),
    ('echo "qemu-system-x86_64: error: failed to set MSR 0x10a" >&2; exit 1', 'error: failed to set MSR 0x10a'),
    ('echo "KVM internal error. Suberror: 1" >&2; exec sleep 7777', 'KVM internal error. Suberror: 1'),
    ('exit 1', 'QEMU said nothing'), ('exec sleep 7777', 'within 1 s')])
def test_what_a_trial_guest_said(lib, tmp_path, script, said):
    with (tmp_path / 'said').open('wb') as out:
        process = subprocess.Popen(['bash', '-c', f'exec 3>&-; {script}'], stdout=out, stderr=out)
    answer = lib.qemu._watched(process, tmp_path / 'said', 1 if said == 'within 1 s' else PATIENCE)
    process.kill()
    assert process.wait() == (-9 if 'sleep' in script else 1 if 'exit' in script else 0), 'the trial was waited for'
    assert answer is None if said is None else answer.endswith(said)


# ---- the kernel and its first root

DEP = """\
kernel/fs/9p/9p.ko{x}: kernel/net/9p/9pnet.ko{x} kernel/fs/netfs/netfs.ko{x}
kernel/net/9p/9pnet.ko{x}:
kernel/fs/netfs/netfs.ko{x}:
kernel/net/9p/9pnet_virtio.ko{x}: kernel/net/9p/9pnet.ko{x} kernel/drivers/virtio/virtio.ko{x}
kernel/drivers/virtio/virtio.ko{x}:
kernel/drivers/virtio/virtio_pci.ko{x}: kernel/drivers/virtio/virtio.ko{x}
kernel/drivers/net/virtio_net.ko{x}: kernel/drivers/virtio/virtio.ko{x}
"""


@pytest.fixture
def boot(lib, monkeypatch, tmp_path):
    """Adds a kernel to a /boot and a /lib/modules of the test's own."""
    monkeypatch.setattr(lib.kernel, 'BOOT', tmp_path / 'boot')
    monkeypatch.setattr(lib.kernel, 'INSTALLED', tmp_path / 'modules')
    (tmp_path / 'boot').mkdir()

    def add(version: str, suffix: str = '', dep: str = DEP) -> Path:
        folder = tmp_path / 'modules' / version
        text = dep.format(x=suffix)
        for line in text.splitlines():
            module = folder / line.split(':')[0]
            module.parent.mkdir(parents=True, exist_ok=True)
            module.write_bytes(lzma.compress(b'code') if suffix == '.xz' else b'code')
        (folder / 'modules.dep').write_text(text)
        (folder / 'modules.builtin').write_text('kernel/net/sched/sch_tbf.ko\n')
        (tmp_path / 'boot' / f'vmlinuz-{version}').write_text(version)
        return folder
    return add


def test_the_kernel_that_runs_here_comes_first_then_the_newest(lib, boot, monkeypatch):
    assert lib.kernel.find() is None
    for version in ('6.1.0-9-amd64', '6.1.0-40-amd64', '5.10.0-41-amd64'):
        boot(version)
    boot('6.12.0-1-cloud-amd64', dep=DEP.partition('\n')[2])        # has no 9P
    assert lib.kernel.find() == '6.1.0-40-amd64'
    monkeypatch.setattr(lib.kernel.os, 'uname', lambda: SimpleNamespace(release='5.10.0-41-amd64'))
    assert lib.kernel.find() == '5.10.0-41-amd64'


def test_a_kernel_without_its_modules_is_none(lib, boot):
    shutil.rmtree(boot('6.1.0-40-amd64'))
    assert lib.kernel.find() is None


def test_modules_load_after_what_they_need(lib, boot):
    boot('6.1.0-40-amd64', '.xz')
    order = [Path(file).name.split('.')[0] for file in lib.kernel._needed('6.1.0-40-amd64')]
    assert sorted(order) == sorted({'virtio', 'virtio_pci', '9pnet', '9pnet_virtio', 'netfs', '9p', 'virtio_net'})
    for early, late in (('virtio', 'virtio_pci'), ('9pnet', '9p'), ('netfs', '9p'), ('9pnet', '9pnet_virtio')):
        assert order.index(early) < order.index(late)


@pytest.mark.skipif(not shutil.which('busybox'), reason='no busybox here (Debian: busybox)')
@pytest.mark.parametrize('suffix', ['', '.xz'])
def test_the_first_root_has_all_that_a_guest_needs(lib, boot, tmp_path, suffix):
    boot('6.1.0-40-amd64', suffix)
    (tmp_path / 'out').mkdir()
    lib.kernel.prepare(tmp_path / 'out')
    assert sorted(file.name for file in (tmp_path / 'out').iterdir()) == ['initramfs', 'vmlinuz']
    root = tmp_path / 'root'
    root.mkdir()
    subprocess.run(['busybox', 'cpio', '-i', '-F', tmp_path / 'out/initramfs'], cwd=root, check=True, capture_output=True)
    assert {'init', 'bin', 'modules', 'proc', 'root'} <= {file.name for file in root.iterdir()}
    assert (root / 'init').stat().st_mode & 0o111 and (root / 'bin/busybox').stat().st_mode & 0o111
    for module in (root / 'modules/order').read_text().split():
        assert (root / 'modules' / module).read_bytes() == b'code'


def test_a_guest_sees_this_machine_read_only_and_has_its_own_link(lib):
    made = lib.model.Cluster(nodes=1, virtual_nodes=1, cpus=2, physical_rate=None, virtual_rate=None, shared='/srv/results',
                             backend='kvm', network='10.77.61', files='virtio')
    words = ' '.join(lib.qemu.guest('kvm', made.node('v1'), made.shared))
    assert 'path=/,mount_tag=root' in words and 'readonly=on' in words.split('mount_tag=root')[1].split()[0]
    assert 'path=/srv/results,mount_tag=shared' in words and words.count('readonly=on') == 1
    assert '-accel kvm -cpu host -smp 2' in words and 'ifname=v1' in words and '02:70:61:72:00:1f' in words
    assert 'node=v1' in words


# ---- one of them at a time

def test_a_machine_has_one_of_both(lib, monkeypatch, tmp_path):
    monkeypatch.setattr(lib.machine, 'PLACES', {'ci/cluster': tmp_path / 'slurm', 'ci/pbs': tmp_path / 'pbs'})
    monkeypatch.setattr(lib.machine.os, 'geteuid', lambda: 0)
    (tmp_path / 'pbs').mkdir()
    lib.machine.check('ci/pbs', ['sh'], 'dash')
    with pytest.raises(lib.Told, match='ci/pbs is up on this machine: ci/pbs down first') as refused:
        lib.machine.check('ci/cluster', ['sh'], 'dash')
    assert refused.value.code == 2
