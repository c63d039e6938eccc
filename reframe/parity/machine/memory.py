"""Memory: how much there is, and the channels that firmware describes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from parity.machine import cgroup
from parity.machine.model import MemoryChannels
from parity.machine.tree import Tree

#: A locator that names processor and channel: 'P0 CHANNEL A', 'CPU1_CH3', 'P0_Node1_Channel2_Dimm0'.
_CHANNEL = re.compile(r'\b(?:P|CPU|PROC)[ _]?(\d+)[ _](?:[^|]*[ _])?(?:CHANNEL|CH)[ _]?([A-Z]|\d+)(?![A-Z])',
                      re.IGNORECASE)


def memory(tree: Tree) -> tuple[dict, list[str]]:
    """Bytes there are and bytes available now, within the cgroup's limit."""
    fields = meminfo(tree)
    total, available = fields.get('MemTotal'), fields.get('MemAvailable')
    limit = cgroup.memory_limit(tree)
    if limit:
        total = min(total or limit[0], limit[0])
        available = min(available or limit[1], limit[1])
    notes = [] if total else ['memory unknown: neither /proc/meminfo nor a cgroup limit']
    return {'memory_bytes': total, 'memory_available_bytes': available}, notes


def meminfo(tree: Tree) -> dict[str, int]:
    """/proc/meminfo in bytes (it says kB and means KiB, see proc(5))."""
    found = {}
    for line in (tree.text('proc/meminfo') or '').splitlines():
        key, _, value = line.partition(':')
        words = value.split()
        if words and words[0].isdecimal():
            found[key] = int(words[0]) * (1024 if words[1:] == ['kB'] else 1)
    return found


def channels(tree: Tree, kind: str) -> tuple[MemoryChannels | None, list[str]]:
    """From dmidecode, for root on a physical machine; None wherever there is a doubt."""
    program = shutil.which('dmidecode', path=os.environ.get('PATH', '') + ':/usr/sbin:/sbin')
    if kind != 'physical' or not tree.real or os.geteuid() != 0 or not program:
        return None, []
    try:
        done = subprocess.run([program, '-t', '17'], capture_output=True, text=True, timeout=2)
    except (OSError, subprocess.SubprocessError) as error:
        return None, [f'memory channels unknown: dmidecode: {error}']
    return parse_dmi(done.stdout)


def parse_dmi(text: str) -> tuple[MemoryChannels | None, list[str]]:
    """Channels out of ``dmidecode -t 17``: only if every module is DDR, runs at the same rate,
    is 64 bits wide and says on which processor's channel it sits."""
    slots = map(_fields, re.split(r'\n(?=Handle )', text))
    modules = [slot for slot in slots if re.match(r'[1-9]', slot.get('Size', ''))]
    places = [_CHANNEL.search(f"{m.get('Bank Locator', '')} | {m.get('Locator', '')}") for m in modules]
    rates = {m.get('Configured Memory Speed') or m.get('Configured Clock Speed') for m in modules}
    rate = re.fullmatch(r'(\d+) M(?:T/s|Hz)', rates.pop() or '') if len(rates) == 1 else None
    if not modules or not all(places) or not rate:
        return None, ['memory channels unknown: dmidecode does not state channel and rate of every module']
    kinds = {m.get('Type', '') for m in modules}
    widths = {m.get('Data Width') for m in modules}
    if widths != {'64 bits'} or len(kinds) != 1 or not min(kinds).startswith('DDR'):
        return None, ['memory channels unknown: modules differ, or are not DDR of 64 bits']
    count = len({place.groups() for place in places if place})
    return MemoryChannels(channels=count, transfers_per_s=int(rate[1]) * 1e6, bytes_per_transfer=8,
                          source=f'dmidecode: {count} channels of {kinds.pop()}-{rate[1]}'), []


def _fields(block: str) -> dict[str, str]:
    pairs = (line.strip().partition(': ') for line in block.splitlines())
    return {key: value.strip() for key, colon, value in pairs if colon}
