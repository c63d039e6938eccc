"""A guest of QEMU: the words that start one, and a trial boot."""

from __future__ import annotations

import tempfile
from pathlib import Path

import boot
import kernel
from boot import Signs
from model import GUEST_MIB, STATE, Node

PROGRAM = 'qemu-system-x86_64'
FILES = STATE / 'qemu'
#: The processor that guests see. Emulation (tcg) tries everything else where KVM boots nothing, at a twentieth of
#: the speed.
PROCESSORS = {'kvm': 'host', 'tcg': 'max'}
SECONDS = {'kvm': 20, 'tcg': 300}
BOOTED = 'parity: this guest boots'
#: QEMU prints an internal error if the processor cannot run a guest's kernel, and then waits for ever.
SIGNS = Signs(ran=BOOTED, given_up='KVM internal error', telling=('KVM internal error', 'error', 'Error'))


def guest(accelerator: str, node: Node, shared: str) -> list[str]:
    """Return the words that start a node: root read-only, two writable folders, a link, its console on stdin."""
    return [*_machine(accelerator, FILES, f'node={node.name} quiet panic=-1', GUEST_MIB, node.cpus),
            *_folder('shared', shared), *_folder('mail', f'{STATE}/mail/{node.name}'),
            *(word for i, link in enumerate(node.links) for word in (
                '-netdev', f'tap,id=link{i},ifname={link.port},script=no,downscript=no',
                '-device', f'virtio-net-pci,netdev=link{i},mac={link.mac},romfile='))]


def why_none_boots(accelerator: str) -> str | None:
    """Boot a guest until it runs a program of this machine's root; return None, or the reason of its failure."""
    with tempfile.TemporaryDirectory(prefix='parity-guest-') as name:
        folder = Path(name)
        kernel.prepare(folder)
        # the parameter in quotes reaches the first program as one variable
        words = _machine(accelerator, folder, f'"trial={BOOTED}" quiet panic=-1', 256, 1)
        reason = boot.why_not(words, folder / 'output', SIGNS, SECONDS[accelerator])
    return f'a guest does not boot: {reason}' if reason else None


def _machine(accelerator: str, files: Path, parameters: str, mib: int, cpus: int) -> list[str]:
    return [PROGRAM, '-nodefaults', '-no-user-config', '-no-reboot', '-display', 'none', '-serial', 'stdio',
            '-machine', 'q35', '-accel', accelerator, '-cpu', PROCESSORS[accelerator],
            '-smp', str(cpus), '-m', f'{mib}M', '-kernel', f'{files}/vmlinuz', '-initrd', f'{files}/initramfs',
            '-append', f'console=ttyS0 {parameters}', *_folder('root', '/', 'readonly=on')]


def _folder(tag: str, path: str, *more: str) -> list[str]:
    """Return the words that share a folder by 9P.

    passthrough: the guest's user who makes a file owns it here. remap: files of all mounts have distinct numbers.
    """
    options = ['local', f'path={path}', f'mount_tag={tag}', 'security_model=passthrough', 'multidevs=remap', *more]
    return ['-virtfs', ','.join(options)]
