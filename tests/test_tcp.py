"""programs/tcp.py and its parser: real transfers on this machine, and real outputs of jobs on one node and several."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zlib

import pytest

from conftest import PATIENCE, TOP
from parity.check.reader import Incomplete, Wrong
from replay import recorded, room

pairs = room('osu')
tcp = room('iperf3')

PROGRAM = TOP / 'jobs' / 'programs' / 'tcp.py'
TEXTS = {file.stem: file.read_text() for file in sorted((recorded('iperf3') / 'tcp').glob('*.txt'))}
WITHIN = TEXTS['within-tcp']


def run(folder, *arguments):
    return subprocess.run([sys.executable, PROGRAM, *arguments], cwd=folder, capture_output=True, text=True, timeout=PATIENCE)


@pytest.mark.skipif(not shutil.which('iperf3'), reason='no iperf3 here')
def test_a_real_run_within_this_machine(tmp_path):
    done = run(tmp_path, '--runs', 'tcp:1,udp:2', '--seconds', '1', '--round-trips', '--', 'iperf3')
    assert done.returncode == 0, done.stderr
    found = tcp.read_ends(done.stdout, ['tcp:1', 'udp:2'])
    assert list(found.metrics) == ['tcp:1', 'udp:2', 'load-tcp:4'] and list(found.trips) == ['idle', 'loaded']
    assert all(metrics['rate'] > 0 for metrics in found.metrics.values())
    assert 0 < found.trips['idle']['min'] <= found.trips['idle']['median'] <= found.trips['idle']['p99']


@pytest.mark.parametrize('iperf3, why', [('no-such-iperf3', 'no-such-iperf3'), ('false', 'does not serve')])
def test_an_iperf3_that_does_not_serve_is_told(tmp_path, iperf3, why, monkeypatch):
    """The client would wait a minute for the server: it is the server that is asked here."""
    done = run(tmp_path, '--serve', '--runs', 'tcp:1', '--', iperf3)
    assert done.returncode == 1 and why in done.stderr


def test_the_seconds_of_a_transfer_add_up_and_the_link_is_told():
    text = TEXTS['pairs-disjoint-one-by-one']
    first = text[text.index('parity-tcp 1'):text.index('parity-pair-end')]
    ends = tcp.read_ends(first, ['tcp:1'])
    seconds = ends.series['tcp:1']
    assert len(seconds.rates) == 5 and sum(seconds.rates) / 5 == pytest.approx(ends.metrics['tcp:1']['sent_rate'], rel=.01)
    assert (seconds.mtu, ends.link) == (1500, {'interface': 'eth0', 'driver': 'veth', 'shaped': 'shaped', 'rate': 125.0})
    assert 0 < seconds.window <= ends.metrics['tcp:1']['window'] and 0 < ends.busiest <= 100 and list(ends.trips) == ['idle']
    printed = first[first.index('{\n'):first.rindex('\n}') + 2]
    values = json.loads(printed)
    values['intervals'].pop()
    with pytest.raises(Wrong, match='the seconds have'):
        tcp.read_ends(sealed(first.replace(printed, json.dumps(values, indent=1))), ['tcp:1'])


def test_a_node_that_is_no_end_of_the_pair_is_refused(tmp_path):
    done = run(tmp_path, '--pair', 'no-such-node,another', '--runs', 'tcp:1', '--', 'iperf3')
    assert done.returncode == 2 and '--pair no-such-node,another: this is' in done.stderr


def sealed(text: str) -> str:
    """The text with the checksum that fits it: what a program would print that did something else."""
    lines = text.split('\n')
    at = next(i for i, line in enumerate(lines) if line.startswith('parity-tcp-crc32'))
    lines[at] = f'parity-tcp-crc32 {zlib.crc32(chr(10).join(lines[:at]).encode()):08x}'
    return '\n'.join(lines)


@pytest.mark.parametrize('changes, error, why', [
    ({'failed 0': 'failed 1'}, Incomplete, '1 runs failed'), ({'run tcp:4\n': 'run tcp:8\n'}, Wrong, 'the end of what has not begun'),
    ({'seconds 1 ': 'seconds 5 '}, Wrong, 'ran tcp:1 for 1 s, asked for tcp:1 for 5 s'),
    ({'runs tcp:1,tcp:4': 'runs tcp:1,tcp:2'}, Wrong, 'ran tcp:1, tcp:2, asked for'),
    ({'end tcp:1 exit 0': 'end tcp:1 exit 1'}, Incomplete, 'run tcp:1: exit code 1'), ({'samples': 'simples'}, Incomplete, 'ends without "samples of round trips"'),
    ({'tcp-run tcp:4': 'tcp-run tcp:8', 'tcp-end tcp:4': 'tcp-end tcp:8'}, Wrong, 'ran tcp:4 for 1 s, asked for tcp:8')])
def test_a_job_that_did_something_else_is_refused(changes, error, why):
    text = WITHIN
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new, 1)
    with pytest.raises(error, match=why):
        tcp.read_ends(sealed(text), ['tcp:1', 'tcp:4'])
    with pytest.raises(Incomplete, match='the checksum'):
        tcp.read_ends(text, ['tcp:1', 'tcp:4'])
