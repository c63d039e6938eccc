"""Physical or virtual, and which kind of virtual: decided by evidence, which is kept."""

from __future__ import annotations

import shutil
import struct
import subprocess

from parity.machine.cpuinfo import flags
from parity.machine.tree import Tree

#: Firmware (DMI) strings that only a virtual machine has, and what makes it.
_DMI_GUEST = {'kvm': 'kvm', 'qemu': 'qemu', 'bochs': 'qemu', 'vmware': 'vmware', 'innotek': 'virtualbox',
              'virtualbox': 'virtualbox', 'xen': 'xen', 'bhyve': 'bhyve', 'parallels': 'parallels',
              'openstack': 'openstack', 'virtual machine': 'hyperv', 'firecracker': 'kvm'}
#: Vendors of clouds that lend both guests and whole machines under the same name.
_DMI_CLOUD = {'amazon ec2': 'kvm', 'google compute engine': 'kvm', 'alibaba cloud': 'kvm', 'hetzner': 'kvm'}
#: CPUID leaf 0x40000000, the hypervisor's signature.
_SIGNATURES = {'KVMKVMKVM': 'kvm', 'VMwareVMware': 'vmware', 'Microsoft Hv': 'hyperv', 'XenVMMXenVMM': 'xen',
               'TCGTCGTCGTCG': 'qemu', 'bhyve bhyve ': 'bhyve', ' lrpepyh vr': 'parallels'}


def kind(tree: Tree, cpu: dict[str, str]) -> tuple[dict, list[str]]:
    """The fields kind, backend, container and evidence."""
    evidence: list[str] = []
    container = _container(tree, evidence)
    backend = _uml(cpu, evidence) or _guest(tree, cpu, evidence)
    if backend:
        return _facts('virtual', backend, container, evidence), []
    if _shows_hardware(tree, cpu, evidence):
        return _facts('physical', None, container, evidence), []
    note = 'physical or virtual: unknown, neither /proc/cpuinfo nor firmware (DMI, device tree) tells'
    return _facts('unknown', None, container, evidence), [note]


def _facts(kind: str, backend: str | None, container: str | None, evidence: list[str]) -> dict:
    return {'kind': kind, 'backend': backend, 'container': container, 'evidence': tuple(evidence)}


def _uml(cpu: dict[str, str], evidence: list[str]) -> str | None:
    """User-mode Linux. First: it shows the host's flags and runs the host's CPUID."""
    if 'User Mode Linux' in (cpu.get('vendor_id'), cpu.get('model name')) or cpu.get('model name') == 'UML':
        evidence.append("/proc/cpuinfo: 'User Mode Linux'")
        return 'uml'
    return None


def _guest(tree: Tree, cpu: dict[str, str], evidence: list[str]) -> str | None:
    """The hypervisor's name, or None where nothing says that there is one."""
    flagged = 'hypervisor' in flags(tree, cpu)
    if flagged:
        evidence.append('/proc/cpuinfo: flag hypervisor')
    named = _signature(tree, evidence) if flagged else None
    by_firmware = _firmware(tree, flagged, evidence)
    by_kernel = tree.text('sys/hypervisor/type')
    if by_kernel:
        evidence.append(f'/sys/hypervisor/type: {by_kernel}')
    found = named or by_kernel or by_firmware or _power(cpu, evidence) or _device_tree(tree, evidence)
    if flagged and not found:
        found = _systemd(tree, evidence) or 'unknown'
    return found


def _signature(tree: Tree, evidence: list[str]) -> str | None:
    """What the hypervisor calls itself in CPUID (x86)."""
    if not tree.real:
        return None
    try:
        from archspec.vendor.cpuid.cpuid import CPUID
        answer = CPUID().registers_for(eax=0x40000000, ecx=0)
        signature = struct.pack('III', answer.ebx, answer.ecx, answer.edx).decode('latin-1').rstrip('\0')
    except Exception:                   # no such archspec, or no executable memory allowed here
        return None
    evidence.append(f'CPUID 0x40000000: {signature!r}')
    return _SIGNATURES.get(signature)


def _firmware(tree: Tree, flagged: bool, evidence: list[str]) -> str | None:
    for name in ('product_name', 'sys_vendor', 'board_vendor', 'bios_vendor'):
        text = tree.text(f'sys/class/dmi/id/{name}') or ''
        for needle, backend in _DMI_GUEST.items():
            if needle in text.lower():
                evidence.append(f'DMI {name}: {text}')
                return backend
        for needle, backend in _DMI_CLOUD.items():
            # a whole machine of a cloud has no hypervisor flag on x86 and '.metal' in its name on ARM
            if needle in text.lower() and (flagged or _arm_instance(tree)):
                evidence.append(f'DMI {name}: {text}')
                return backend
    return None


def _arm_instance(tree: Tree) -> bool:
    arm = (tree.text('proc/sys/kernel/arch') or '').startswith('aarch64')
    return arm and 'metal' not in (tree.text('sys/class/dmi/id/product_name') or 'metal')


def _power(cpu: dict[str, str], evidence: list[str]) -> str | None:
    machine = cpu.get('machine', '')
    if 'pSeries' not in machine:
        return None
    evidence.append(f'/proc/cpuinfo machine: {machine}')
    return 'kvm' if 'qemu' in machine.lower() else 'powervm'


def _device_tree(tree: Tree, evidence: list[str]) -> str | None:
    found = tree.text('proc/device-tree/hypervisor/compatible')
    if not found and 'linux,dummy-virt' in (tree.text('proc/device-tree/compatible') or ''):
        found = 'qemu (linux,dummy-virt)'
    if not found:
        return None
    evidence.append(f'device tree: {found}')
    return next((name for name in ('kvm', 'xen', 'qemu', 'vmware') if name in found), 'unknown')


def _systemd(tree: Tree, evidence: list[str]) -> str | None:
    program = shutil.which('systemd-detect-virt') if tree.real else None
    if not program:
        return None
    try:
        done = subprocess.run([program, '--vm'], capture_output=True, text=True, timeout=2)
    except (OSError, subprocess.SubprocessError):
        return None
    answer = done.stdout.strip()
    if done.returncode or answer in ('', 'none'):
        return None
    evidence.append(f'systemd-detect-virt --vm: {answer}')
    return answer


def _shows_hardware(tree: Tree, cpu: dict[str, str], evidence: list[str]) -> bool:
    """True where something that would betray a hypervisor was read and does not."""
    if cpu.get('flags'):
        evidence.append('/proc/cpuinfo: no flag hypervisor')
        return True
    vendor = tree.text('sys/class/dmi/id/sys_vendor')
    if vendor:
        evidence.append(f'DMI sys_vendor: {vendor}')
        return True
    if 'PowerNV' in cpu.get('machine', ''):
        evidence.append('/proc/cpuinfo machine: PowerNV')
        return True
    model = tree.text('proc/device-tree/model')
    if model:
        evidence.append(f'device tree: {model}')
    return bool(model)


def _container(tree: Tree, evidence: list[str]) -> str | None:
    """Docker and others; a container's kernel and processors are its host's."""
    for path, name in (('.dockerenv', 'docker'), ('run/.containerenv', 'podman')):
        if tree.exists(path):
            evidence.append(f'/{path} exists')
            return name
    named = tree.text('run/systemd/container') or _environ(tree).get('container')
    if named:
        evidence.append(f'container={named}')
        return named
    for word in ('kubepods', 'docker', 'lxc', 'libpod'):
        if f'/{word}' in (tree.text('proc/1/cgroup') or ''):
            evidence.append(f'/proc/1/cgroup: {word}')
            return word
    return None


def _environ(tree: Tree) -> dict[str, str]:
    entries = (tree.text('proc/1/environ') or '').split('\0')
    return dict(entry.split('=', 1) for entry in entries if '=' in entry)
