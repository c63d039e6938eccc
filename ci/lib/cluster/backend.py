"""The choice of guests for the virtual nodes: KVM, User-mode Linux or none, and how many fit."""

from __future__ import annotations

import fcntl
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import kernel
import qemu
import uml
from errors import Ended, say
from model import GUEST_MIB

MIB = 2**20
KVM = Path('/dev/kvm')
CREATE_VM = 0xae01  # KVM_CREATE_VM of linux/kvm.h


@dataclass(frozen=True)
class Virtual:
    backend: str            # kvm, uml, none; tcg in a test
    count: int
    why: str                # the reason against KVM; '' for KVM
    uml: str = ''           # the path of linux.uml


def choose(wanted: int, given: Path | None = None, install: bool = True) -> Virtual:
    """Choose the best that this machine has; print why it is not KVM, or has fewer nodes.

    `given` is a linux.uml to use instead of the installed one. `install` allows taking one from Debian.
    """
    accelerator = _accelerator()
    lacks = _no_link()
    refused = None if lacks else _why_not(accelerator)
    why = f'not KVM: {refused}' if refused else ''
    program = ''
    if refused:
        choice = uml.choose(given, install)
        if choice.linux:
            program = str(choice.linux.program)
            why += f'; {choice.why}' if choice.why else ''
        else:
            lacks = choice.why
    if lacks:
        return _none(f'{why}; {lacks}' if why else lacks)
    if why:
        say(f'virtual nodes: {why}: using User-mode Linux')
    kind = 'uml' if why else accelerator
    fit = _room(kind) // GUEST_MIB
    count = wanted if wanted <= fit else min(2, wanted, fit)
    if not count:
        return _none(f'memory is short ({GUEST_MIB} MiB each)')
    if count < wanted:
        say(f'virtual nodes: {count} of {wanted}: memory for more is short ({GUEST_MIB} MiB each)')
    return Virtual(kind, count, why, program)


def _none(why: str) -> Virtual:
    say(f'virtual nodes: none: {why}; no partition virtual')
    return Virtual('none', 0, why)


def _accelerator() -> str:
    """Return kvm, or tcg if the cluster's own tests ask for emulation; never for a measurement."""
    asked = os.environ.get('PARITY_CLUSTER_ACCELERATOR', 'kvm')
    if asked not in qemu.PROCESSORS:
        raise Ended(2, f'PARITY_CLUSTER_ACCELERATOR is {asked!r}; valid: {", ".join(qemu.PROCESSORS)}')
    return asked


def _why_not(accelerator: str) -> str | None:
    """Return the reason against guests of QEMU here, or None if one boots.

    Cheap questions come first. A /dev/kvm may answer them all and still boot no guest.
    """
    if accelerator == 'kvm' and (no := _no_kvm()):
        return no
    missing = [f'no {name} here (Debian: {package})' for name, package in
               ((qemu.PROGRAM, 'qemu-system-x86'), ('busybox', 'busybox')) if not shutil.which(name)]
    if not kernel.find():
        missing.append(kernel.MISSING)
    return ', '.join(missing) or qemu.why_none_boots(accelerator)


def _no_kvm() -> str | None:
    try:
        with KVM.open('r+b', buffering=0) as device:
            os.close(fcntl.ioctl(device, CREATE_VM, 0))
    except FileNotFoundError:
        return f'no {KVM} here'
    except OSError as error:
        return f'{KVM}: {error.strerror}'
    return None


def _no_link() -> str | None:
    return None if Path('/dev/net/tun').exists() else 'no /dev/net/tun here'


def _room(kind: str) -> int:
    """Return the MiB for all guests: half of the free memory; for User-mode Linux, no more than /dev/shm takes."""
    lines = dict(line.split(':') for line in Path('/proc/meminfo').read_text().splitlines())
    half = int(lines['MemAvailable'].split()[0]) // 1024 // 2
    shm = os.statvfs('/dev/shm')
    return min(half, shm.f_bavail * shm.f_frsize // MIB) if kind == 'uml' else half
