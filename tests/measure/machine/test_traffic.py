"""The network that the data of a job took, by the byte counters of its first node."""

import pytest

from parity.measure.machine import traffic

NETWORKS = {'fast': {'interface': 'eth0'}, 'slow': {'interface': 'eth1'}, 'ib': {'interface': 'mlx5_0:1'}}
DEV = '/proc/net/dev:Inter-|   Receive\n/proc/net/dev: face |bytes\n' + ''.join(
    f'/proc/net/dev: {name:>5}: 7 1 0 0 0 0 0 0 {{{name}}} 2 0 0 0 0 0 0\n' for name in ('lo', 'eth0', 'eth1')
) + '/sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data:{ib}\n/sys/class/infiniband/x: no row\n'


@pytest.mark.parametrize('chosen, went, least, why', [
    ('slow', {'eth1': 10**9}, 10**9, ''), ('slow', {'eth0': 9 * 10**6, 'eth1': 5}, 0, ''), ('ib', {'ib': 250}, 1000, ''),
    ('slow', {'eth0': 5 * 10**8}, 0, 'network slow: eth1 sent 0 bytes, eth0 (fast) 500000000'),
    ('fast', {'eth0': 10**6, 'eth1': 10**8}, 0, 'network fast: eth0 sent 1000000 bytes, eth1 (slow) 100000000'),
    ('slow', {'ib': 10**8, 'eth1': 5}, 0, 'network slow: eth1 sent 5 bytes, mlx5_0:1 (ib) 400000000'),
    ('slow', {}, 0, 'network slow: eth1 sent 0 bytes, the ranks there 1 at least'),
    ('slow', {'eth1': 900}, 1000, 'network slow: eth1 sent 900 bytes, the ranks there 1000 at least'),
    ('slow', None, 0, 'network slow: the first node has no interface eth1 (there: none is known)')])
def test_data_that_took_another_network(tmp_path, chosen, went, least, why):
    for file, counts in ((traffic.BEFORE, {}), (traffic.AFTER, went)):
        if went is not None:
            (tmp_path / file).write_text(DEV.format(**dict.fromkeys(('lo', 'eth0', 'eth1', 'ib'), 0) | {'lo': 4} | counts))
    assert traffic.problem(chosen, NETWORKS, traffic.counted(tmp_path), least) == why
