"""The network: a bridge in its own namespace, a port a node, one link to this machine.

No packet passes this machine's own firewall or routes. The network ends with one process.
"""

from __future__ import annotations

import ipaddress
import json
import subprocess

import options
import process
from model import Cluster, Node
from told import Told

LINK = 'parity0'  # this machine's end


def free() -> str:
    """Return a private network that this machine does not route yet."""
    routes = json.loads(process.run('ip', '-j', '-4', 'route', 'show', 'table', 'all') or '[]')
    used = [ipaddress.ip_network(route['dst'], strict=False) for route in routes
            if route['dst'][0].isdigit() and route.get('dev') != LINK]
    for candidate in ('10.77.61', '172.29.61', '192.168.61', '10.203.61'):
        if not any(ipaddress.ip_network(f'{candidate}.0/24').overlaps(net) for net in used):
            return candidate
    raise Told(4, 'no free private network here: 10.77.61.0/24 and three others are all routed somewhere')


def ensure(cluster: Cluster) -> None:
    if process.alive('switch'):
        return
    switch = new_switch()
    subprocess.run(['ip', 'link', 'del', LINK], capture_output=True)
    _batch(None, f'link add {LINK} type veth peer name host netns {switch}',
           f'addr add {cluster.host}/24 dev {LINK}', f'link set {LINK} up')
    _batch(switch, f'addr add {cluster.files_address}/24 dev br0', 'link set host master br0', 'link set host up')


def new_switch() -> int:
    """Start a bridge in its own namespace, without a link to this machine; return its process."""
    switch = process.spawn('switch', ['unshare', '--net', '--', 'sleep', 'infinity'])
    process.wait(5, lambda: _own_net(switch), 'this machine allows no network namespace')
    _batch(switch, 'link add br0 type bridge', 'link set br0 up')
    return switch


def plug_namespace(node: Node, pid: int) -> None:
    """Connect a node of namespaces: one end at the bridge, the other as its eth0."""
    switch = _unplugged(node)
    _batch(None, f'link add {node.name} netns {switch} type veth peer name eth0 netns {pid}')
    _port(node)
    _batch(pid, 'link set lo up', f'addr add {node.address}/24 dev eth0', 'link set eth0 up')
    if node.rate:
        _shape(pid, 'eth0', node.rate)


def plug_guest(node: Node) -> None:
    """Connect a guest: an end at the bridge that its kernel opens."""
    switch = _unplugged(node)
    _batch(switch, f'tuntap add dev {node.name} mode tap')
    _port(node)


def burst(rate: str) -> int:
    """Return the bytes that may pass at once: 4 ms at full rate, at least two offloaded packets."""
    return max(options.bits(rate) // 8 // 250, 131072)


def _unplugged(node: Node) -> int:
    """Return the switch, without a former node's port of that name."""
    switch = process.alive('switch')
    subprocess.run([*process.inside(switch, 'net'), 'ip', 'link', 'del', node.name], capture_output=True)
    return switch


def _port(node: Node) -> None:
    switch = process.alive('switch')
    _batch(switch, f'link set {node.name} master br0', f'link set {node.name} up')
    if node.rate:
        _shape(switch, node.name, node.rate)


def _shape(pid: int, device: str, rate: str) -> None:
    process.run(*process.inside(pid, 'net'), 'tc', 'qdisc', 'add', 'dev', device, 'root', 'tbf',
                'rate', rate, 'burst', str(burst(rate)), 'latency', '50ms')


def _batch(pid: int | None, *lines: str) -> None:
    where = process.inside(pid, 'net') if pid else []
    process.run(*where, 'ip', '-batch', '-', text='\n'.join(lines) + '\n')


def _own_net(pid: int) -> bool:
    import os
    return os.readlink(f'/proc/{pid}/ns/net') != os.readlink('/proc/self/ns/net')
