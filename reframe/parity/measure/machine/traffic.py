"""The network that a job's data took: byte counters of the first node, before and after the program.

An MPI library silently ignores a variable that it does not know, and then takes the network that it likes best."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

BEFORE, AFTER = 'network.before', 'network.after'
#: Launching a job and reading its files takes a network, too: so many bytes of another one are no ranks' data.
OTHERS_BYTES = 10 * 10**6
#: Of InfiniBand: files that count words of 4 bytes (Linux, Documentation/ABI/stable/sysfs-class-infiniband).
_PORTS = '/sys/class/infiniband/*/ports/*/counters/port_xmit_data'
_ROW = re.compile(r'/proc/net/dev: *(?P<interface>[\w.-]+):(?P<counters>(?: +\d+){16}) *')
#: The place of the bytes sent among the counters of a row.
_SENT = 8
_PORT = re.compile(r'/sys/class/infiniband/(?P<device>[\w-]+)/ports/(?P<port>\d+)'
                   r'/counters/port_xmit_data:(?P<words>\d+)')


def command(file: str) -> str:
    """Return a command that writes the counters of a node into a file of the stage directory."""
    return f"grep -H '' /proc/net/dev {_PORTS} >{file} 2>/dev/null || :"     # without InfiniBand grep fails


def sent(text: str) -> dict[str, int]:
    """Return the bytes that each interface has sent, by name: eth0, or mlx5_0:1 for a port of InfiniBand."""
    by_name = {}
    for line in text.splitlines():
        if row := _ROW.fullmatch(line):
            counters = row['counters'].split()
            by_name[row['interface']] = int(counters[_SENT])
        elif port := _PORT.fullmatch(line):
            by_name[f'{port["device"]}:{port["port"]}'] = 4 * int(port['words'])
    return by_name


def counted(stage: Path) -> dict[str, int]:
    """Return the bytes that each interface of a job's first node sent while the program ran; {} if not known."""
    before = _sent_in(stage / BEFORE)
    after = _sent_in(stage / AFTER)
    return {name: after[name] - count for name, count in before.items() if name in after}


def _sent_in(file: Path) -> dict[str, int]:
    if not file.exists():
        return {}
    return sent(file.read_text(errors='replace'))


def problem(chosen: str, networks: Mapping[str, Mapping], went: Mapping[str, int], least: int) -> str:
    """Say how the data took another network than ``chosen``; '' where it did not.

    ``networks``: those of the partition, with their interfaces; ``went``: bytes by interface;
    ``least``: bytes that the first node's ranks sent to other nodes, as far as the program tells."""
    interface = networks[chosen]['interface']
    if interface not in went:
        others = [name for name in went if name != 'lo']
        there = ', '.join(others) or 'none is known'
        return f'network {chosen}: the first node has no interface {interface} (there: {there})'
    sent_by_chosen = went[interface]
    by_chosen = f'network {chosen}: {interface} sent {sent_by_chosen} bytes'
    for name, network in networks.items():
        if name == chosen:
            continue
        sent_by_other = went.get(network['interface'], 0)
        if sent_by_other > sent_by_chosen + OTHERS_BYTES:
            return f'{by_chosen}, {network["interface"]} ({name}) {sent_by_other}'
    least = max(least, 1)
    if sent_by_chosen < least:
        return f'{by_chosen}, the ranks there {least} at least'
    return ''
