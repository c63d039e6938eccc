"""Physical or virtual, and which kind of virtual: decided by evidence, which is kept."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from collections.abc import Callable
from typing import Any

from parity.machine.cpuinfo import Tree, flags

#: Firmware (DMI) strings that only a virtual machine has, and what makes it.
_DMI_GUEST = {'kvm': 'kvm', 'qemu': 'qemu', 'bochs': 'qemu', 'vmware': 'vmware', 'innotek': 'virtualbox',
              'virtualbox': 'virtualbox', 'xen': 'xen', 'bhyve': 'bhyve', 'parallels': 'parallels',
              'openstack': 'openstack', 'virtual machine': 'hyperv', 'firecracker': 'kvm'}
#: Vendors of clouds that lend both guests and whole machines under the same name.
_DMI_CLOUD = {'amazon ec2': 'kvm', 'google compute engine': 'kvm', 'alibaba cloud': 'kvm', 'hetzner': 'kvm'}
#: CPUID leaf 0x40000000, the hypervisor's signature.
_SIGNATURES = {'KVMKVMKVM': 'kvm', 'VMwareVMware': 'vmware', 'Microsoft Hv': 'hyperv', 'XenVMMXenVMM': 'xen',
               'TCGTCGTCGTCG': 'qemu', 'bhyve bhyve ': 'bhyve', ' lrpepyh vr': 'parallels'}


#: What was seen, and what it proves.
_Seen = tuple[str, Any] | None


def kind(tree: Tree, cpu: dict[str, str]) -> tuple[dict, list[str]]:
    """The fields kind, backend, container and evidence."""
    evidence: list[str] = []

    def ask(seen: _Seen) -> Any:
        if seen:
            evidence.append(seen[0])
        return seen and seen[1]

    facts, notes = {'kind': 'unknown', 'backend': None, 'container': ask(_container(tree))}, []
    if backend := ask(_uml(cpu)) or _guest(tree, cpu, ask):
        facts |= {'kind': 'virtual', 'backend': backend}
    elif ask(_hardware(tree, cpu)):
        facts['kind'] = 'physical'
    else:
        notes = ['physical or virtual: unknown, neither /proc/cpuinfo nor firmware (DMI, device tree) tells']
    return facts | {'evidence': tuple(evidence)}, notes


def _uml(cpu: dict[str, str]) -> _Seen:
    """User-mode Linux. First: it shows the host's flags and runs the host's CPUID."""
    if 'User Mode Linux' in (cpu.get('vendor_id'), cpu.get('model name')) or cpu.get('model name') == 'UML':
        return "/proc/cpuinfo: 'User Mode Linux'", 'uml'
    return None


def _guest(tree: Tree, cpu: dict[str, str], ask: Callable[[_Seen], Any]) -> str | None:
    """The hypervisor's name, or None where nothing says that there is one."""
    flagged = ask(('/proc/cpuinfo: flag hypervisor', True) if 'hypervisor' in flags(tree, cpu) else None)
    named = ask(_signature(tree)) if flagged else None
    by_firmware = ask(_firmware(tree, flagged))
    by_kernel = tree.text('sys/hypervisor/type')
    found = ask((f'/sys/hypervisor/type: {by_kernel}', named or by_kernel) if by_kernel else None) or named \
        or by_firmware or ask(_power(cpu)) or ask(_device_tree(tree))
    return found or (ask(_systemd(tree)) or 'unknown' if flagged else None)


def _signature(tree: Tree) -> _Seen:
    """What the hypervisor calls itself in CPUID (x86)."""
    if not tree.real:
        return None
    try:
        from archspec.vendor.cpuid.cpuid import CPUID
        answer = CPUID().registers_for(eax=0x40000000, ecx=0)
        signature = struct.pack('III', answer.ebx, answer.ecx, answer.edx).decode('latin-1').rstrip('\0')
    except Exception:                   # no such archspec, or no executable memory allowed here
        return None
    return f'CPUID 0x40000000: {signature!r}', _SIGNATURES.get(signature)


def _firmware(tree: Tree, flagged: bool) -> _Seen:
    arm = (tree.text('proc/sys/kernel/arch') or '').startswith('aarch64')
    # a whole machine of a cloud has no hypervisor flag on x86 and '.metal' in its name on ARM
    lent = flagged or arm and 'metal' not in (tree.text('sys/class/dmi/id/product_name') or 'metal')
    for name in ('product_name', 'sys_vendor', 'board_vendor', 'bios_vendor'):
        text = tree.text(f'sys/class/dmi/id/{name}') or ''
        for needle, backend in (_DMI_GUEST | _DMI_CLOUD if lent else _DMI_GUEST).items():
            if needle in text.lower():
                return f'DMI {name}: {text}', backend
    return None


def _power(cpu: dict[str, str]) -> _Seen:
    machine = cpu.get('machine', '')
    if 'pSeries' not in machine:
        return None
    return f'/proc/cpuinfo machine: {machine}', 'kvm' if 'qemu' in machine.lower() else 'powervm'


def _device_tree(tree: Tree) -> _Seen:
    found = tree.text('proc/device-tree/hypervisor/compatible')
    if not found and 'linux,dummy-virt' in (tree.text('proc/device-tree/compatible') or ''):
        found = 'qemu (linux,dummy-virt)'
    if not found:
        return None
    return f'device tree: {found}', next((n for n in ('kvm', 'xen', 'qemu', 'vmware') if n in found), 'unknown')


def _systemd(tree: Tree) -> _Seen:
    program = shutil.which('systemd-detect-virt') if tree.real else None
    try:
        done = subprocess.run([program, '--vm'], capture_output=True, text=True, timeout=2) if program else None
    except (OSError, subprocess.SubprocessError):
        return None
    answer = done.stdout.strip() if done and not done.returncode else ''
    return (f'systemd-detect-virt --vm: {answer}', answer) if answer not in ('', 'none') else None


def _hardware(tree: Tree, cpu: dict[str, str]) -> _Seen:
    """What would betray a hypervisor, was read, and does not."""
    if cpu.get('flags'):
        return '/proc/cpuinfo: no flag hypervisor', True
    if vendor := tree.text('sys/class/dmi/id/sys_vendor'):
        return f'DMI sys_vendor: {vendor}', True
    if 'PowerNV' in cpu.get('machine', ''):
        return '/proc/cpuinfo machine: PowerNV', True
    model = tree.text('proc/device-tree/model')
    return (f'device tree: {model}', True) if model else None


def _container(tree: Tree) -> _Seen:
    """Docker and others; a container's kernel and processors are its host's."""
    for path, name in (('.dockerenv', 'docker'), ('run/.containerenv', 'podman')):
        if tree.exists(path):
            return f'/{path} exists', name
    environ = dict(re.findall(r'([^=\0]+)=([^\0]*)', tree.text('proc/1/environ') or ''))
    if named := tree.text('run/systemd/container') or environ.get('container'):
        return f'container={named}', named
    word = next((word for word in ('kubepods', 'docker', 'lxc', 'libpod')
                 if f'/{word}' in (tree.text('proc/1/cgroup') or '')), '')
    return (f'/proc/1/cgroup: {word}', word) if word else None
