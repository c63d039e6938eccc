"""Physical or virtual, and the kind of virtual machine: decided by evidence, which is kept."""

from __future__ import annotations

import os
import re
import struct
from typing import Any

from parity.machine.cpuinfo import Tree, flags

#: Firmware (DMI) strings that only a virtual machine has, and its hypervisor.
_DMI_GUEST = {'kvm': 'kvm', 'qemu': 'qemu', 'bochs': 'qemu', 'vmware': 'vmware', 'innotek': 'virtualbox',
              'virtualbox': 'virtualbox', 'xen': 'xen', 'bhyve': 'bhyve', 'parallels': 'parallels',
              'openstack': 'openstack', 'virtual machine': 'hyperv', 'firecracker': 'kvm'}
#: Vendors of clouds that lend both guests and whole machines under the same name.
_DMI_CLOUD = {'amazon ec2': 'kvm', 'google compute engine': 'kvm', 'alibaba cloud': 'kvm', 'hetzner': 'kvm'}
#: CPUID leaf 0x40000000, the hypervisor's signature.
_SIGNATURES = {'KVMKVMKVM': 'kvm', 'VMwareVMware': 'vmware', 'Microsoft Hv': 'hyperv', 'XenVMMXenVMM': 'xen',
               'TCGTCGTCGTCG': 'qemu', 'bhyve bhyve ': 'bhyve', ' lrpepyh vr': 'parallels'}


def kind(tree: Tree, cpu: dict[str, str]) -> dict[str, Any]:
    """Return the fields kind, backend, container and evidence."""
    container, backend = _container(tree), _guest(tree, cpu)
    kind = 'virtual' if backend else _hardware(tree, cpu) or tree.unknown(
        'physical or virtual: unknown, neither /proc/cpuinfo nor firmware (DMI, device tree) tells', 'unknown')
    return {'kind': kind, 'backend': backend, 'container': container, 'evidence': tuple(tree.evidence)}


def _guest(tree: Tree, cpu: dict[str, str]) -> str | None:
    """Return the hypervisor's name, or None where nothing says that there is one."""
    # first, as User-mode Linux shows the host's flags and runs the host's CPUID
    if 'User Mode Linux' in (cpu.get('vendor_id'), cpu.get('model name')) or cpu.get('model name') == 'UML':
        return tree.see("/proc/cpuinfo: 'User Mode Linux'", 'uml')
    flagged = 'hypervisor' in flags(tree, cpu) and tree.see('/proc/cpuinfo: flag hypervisor', True)
    named, by_firmware = flagged and _signature(tree), _firmware(tree, flagged)
    if by_kernel := tree.text('sys/hypervisor/type'):
        tree.see(f'/sys/hypervisor/type: {by_kernel}', by_kernel)
    return named or by_kernel or by_firmware or _not_x86(tree, cpu) or ('unknown' if flagged else None)


def _signature(tree: Tree) -> str | None:
    """Ask CPUID (x86) for the hypervisor's name for itself."""
    if not tree.real:
        return None
    try:
        from archspec.vendor.cpuid.cpuid import CPUID
        answer = CPUID().registers_for(eax=0x40000000, ecx=0)
        signature = struct.pack('III', answer.ebx, answer.ecx, answer.edx).decode('latin-1').rstrip('\0')
    except Exception:                   # no such archspec, or no executable memory allowed here
        return None
    return tree.see(f'CPUID 0x40000000: {signature!r}', _SIGNATURES.get(signature))


def _firmware(tree: Tree, flagged: bool) -> str | None:
    arm = (tree.text('proc/sys/kernel/arch') or '').startswith('aarch64')
    # a whole machine of a cloud has no hypervisor flag on x86 and '.metal' in its name on ARM
    lent = flagged or arm and 'metal' not in (tree.text('sys/class/dmi/id/product_name') or 'metal')
    for name in ('product_name', 'sys_vendor', 'board_vendor', 'bios_vendor'):
        text = tree.text(f'sys/class/dmi/id/{name}') or ''
        for needle, backend in (_DMI_GUEST | _DMI_CLOUD if lent else _DMI_GUEST).items():
            if needle in text.lower():
                return tree.see(f'DMI {name}: {text}', backend)
    return None


def _not_x86(tree: Tree, cpu: dict[str, str]) -> str | None:
    """Return the hypervisor by the machine line of POWER or the device tree of ARM."""
    machine = cpu.get('machine', '')
    if 'pSeries' in machine:
        return tree.see(f'/proc/cpuinfo machine: {machine}', 'kvm' if 'qemu' in machine.lower() else 'powervm')
    found = tree.text('proc/device-tree/hypervisor/compatible')
    if not found and 'linux,dummy-virt' in (tree.text('proc/device-tree/compatible') or ''):
        found = 'qemu (linux,dummy-virt)'
    return found and tree.see(f'device tree: {found}',
                         next((name for name in ('kvm', 'xen', 'qemu', 'vmware') if name in found), 'unknown'))


def _hardware(tree: Tree, cpu: dict[str, str]) -> str | None:
    """Return `physical` where a source that would show a hypervisor was read, and shows none."""
    seen = {'/proc/cpuinfo: no flag hypervisor': cpu.get('flags'),
            f'DMI sys_vendor: {(vendor := tree.text("sys/class/dmi/id/sys_vendor"))}': vendor,
            '/proc/cpuinfo machine: PowerNV': 'PowerNV' in cpu.get('machine', ''),
            f'device tree: {(model := tree.text("proc/device-tree/model"))}': model}
    return next((tree.see(what, 'physical') for what, there in seen.items() if there), None)


def _container(tree: Tree) -> str | None:
    """Return docker or another container's name; the kernel and processors are the host's."""
    for path, name in (('.dockerenv', 'docker'), ('run/.containerenv', 'podman')):
        if os.path.exists(tree.root / path):
            return tree.see(f'/{path} exists', name)
    environ = dict(re.findall(r'([^=\0]+)=([^\0]*)', tree.text('proc/1/environ') or ''))
    if named := tree.text('run/systemd/container') or environ.get('container'):
        return tree.see(f'container={named}', named)
    groups = tree.text('proc/1/cgroup') or ''
    return next((tree.see(f'/proc/1/cgroup: {word}', word) for word in ('kubepods', 'docker', 'lxc', 'libpod')
                 if f'/{word}' in groups), None)
