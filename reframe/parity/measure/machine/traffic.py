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
_ROW = re.compile(r'/proc/net/dev: *([\w.-]+):((?: +\d+){16}) *')
_PORT = re.compile(r'/sys/class/infiniband/([\w-]+)/ports/(\d+)/counters/port_xmit_data:(\d+)')


def command(file: str) -> str:
    """Return a command that writes the counters of a node into a file of the stage directory."""
    return f"grep -H '' /proc/net/dev {_PORTS} >{file} 2>/dev/null || :"     # without InfiniBand grep fails


def sent(text: str) -> dict[str, int]:
    """Return the bytes that each interface has sent, by name: eth0, or mlx5_0:1 for a port of InfiniBand."""
    rows = [_ROW.fullmatch(line) for line in text.splitlines()]
    ports = [_PORT.fullmatch(line) for line in text.splitlines()]
    return {**{row[1]: int(row[2].split()[8]) for row in rows if row},
            **{f'{port[1]}:{port[2]}': 4 * int(port[3]) for port in ports if port}}


def counted(stage: Path) -> dict[str, int]:
    """Return the bytes that each interface of a job's first node sent while the program ran; {} if not known."""
    before, after = (sent(file.read_text(errors='replace')) if file.exists() else {}
                     for file in (stage / BEFORE, stage / AFTER))
    return {name: after[name] - count for name, count in before.items() if name in after}


def problem(chosen: str, networks: Mapping[str, Mapping], went: Mapping[str, int], least: int) -> str:
    """Say how the data took another network than ``chosen``; '' where it did not.

    ``networks``: those of the partition, with their interfaces; ``went``: bytes by interface;
    ``least``: bytes that the first node's ranks sent to other nodes, as far as the program tells."""
    interface = networks[chosen]['interface']
    if interface not in went:
        there = ', '.join(name for name in went if name != 'lo')
        return f'network {chosen}: the first node has no interface {interface} (there: {there or "none is known"})'
    own = went[interface]
    for name, network in networks.items():
        other = went.get(network['interface'], 0)
        if name != chosen and other > own + OTHERS_BYTES:
            return f'network {chosen}: {interface} sent {own} bytes, {network["interface"]} ({name}) {other}'
    if own < max(least, 1):
        return f'network {chosen}: {interface} sent {own} bytes, the ranks there {max(least, 1)} at least'
    return ''
