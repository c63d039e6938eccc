"""The network: a bridge in its own namespace, a port a node, one link to this machine.

No packet passes this machine's own firewall or routes. The network ends with one process.
"""

from __future__ import annotations

import ipaddress
import json
import subprocess

import options
import process
from errors import Ended
from model import Cluster, Link, Node

LINK = 'parity0'  # this machine's end


def free() -> str:
    """Return a private network that this machine does not route yet."""
    routes = json.loads(process.run('ip', '-j', '-4', 'route', 'show', 'table', 'all') or '[]')
    used = [ipaddress.ip_network(route['dst'], strict=False) for route in routes
            if route['dst'][0].isdigit() and route.get('dev') != LINK]
    for candidate in ('10.77.60', '172.29.60', '192.168.60', '10.203.60'):      # and the next, the second network
        if not any(ipaddress.ip_network(f'{candidate}.0/23').overlaps(net) for net in used):
            return candidate
    raise Ended(4, 'no free private network here: 10.77.60.0/23 and three others are all routed somewhere')


def ensure(cluster: Cluster) -> None:
    if process.alive('switch'):
        return
    switch = new_switch()
    if cluster.second_network:
        _batch(switch, 'link add br1 type bridge', 'link set br1 up')
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
    """Connect a node of namespaces: one end at the bridge, the other as its eth0; the same for eth1.

    The node goes on once eth0 has its address, so that comes last."""
    for link in reversed(node.links):
        switch = _unplugged(link)
        _batch(None, f'link add {link.port} netns {switch} type veth peer name {link.device} netns {pid}')
        _port(link)
        _batch(pid, 'link set lo up', f'addr add {link.address}/24 dev {link.device}',
               f'link set {link.device} up')
        if link.rate:
            _shape(pid, link.device, link.rate)


def plug_guest(node: Node) -> None:
    """Connect a guest: ends at the bridges that its kernel opens."""
    for link in node.links:
        _batch(_unplugged(link), f'tuntap add dev {link.port} mode tap')
        _port(link)


def burst(rate: str) -> int:
    """Return the bytes that may pass at once: 4 ms at full rate, at least two offloaded packets."""
    return max(options.bits(rate) // 8 // 250, 131072)


def _unplugged(link: Link) -> int:
    """Return the switch, without a former node's port of that name."""
    switch = process.alive('switch')
    subprocess.run([*process.inside(switch, 'net'), 'ip', 'link', 'del', link.port], capture_output=True)
    return switch


def _port(link: Link) -> None:
    switch = process.alive('switch')
    _batch(switch, f'link set {link.port} master {link.bridge}', f'link set {link.port} up')
    if link.rate:
        _shape(switch, link.port, link.rate)


def _shape(pid: int, device: str, rate: str) -> None:
    process.run(*process.inside(pid, 'net'), 'tc', 'qdisc', 'add', 'dev', device, 'root', 'tbf',
                'rate', rate, 'burst', str(burst(rate)), 'latency', '50ms')


def _batch(pid: int | None, *lines: str) -> None:
    where = process.inside(pid, 'net') if pid else []
    process.run(*where, 'ip', '-batch', '-', text='\n'.join(lines) + '\n')


def _own_net(pid: int) -> bool:
    import os
    return os.readlink(f'/proc/{pid}/ns/net') != os.readlink('/proc/self/ns/net')
