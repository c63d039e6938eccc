"""tcp.py, `files.py send` and their parsers: real transfers on this machine, real outputs of jobs on one node and several."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import shutil
import socket
import ssl
import subprocess
import sys
import zlib

import pytest
from reframe.utility import import_module_from_file

from conftest import PATIENCE, TOP
from parity.measure.check.reader import Incomplete, Wrong
from replay import check, recorded, room

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


# ---- storage/filetransfer

FILES = (recorded('filetransfer') / 'disks-outbound.txt').read_text()


def sealed_again(text: str) -> str:
    """The text of pairs with the checksums that fit it."""
    out, own = [], []
    for line in text.split('\n'):
        own = [] if line.startswith('parity-pair ') else own
        if line.startswith('parity-transfer-crc32'):
            line = f'parity-transfer-crc32 {zlib.crc32(chr(10).join(own[1:]).encode()):08x}'
        own.append(line)
        out.append(line)
    return '\n'.join(out)


@pytest.mark.parametrize('was, now, error, why', [
    ('destination on p1 filesystem ext4 sha256 d', 'destination on p1 filesystem ext4 sha256 e', Wrong, 'the content that p1 has differs from what p3 sent'),
    ('1 outbound bytes 67108864', '1 inbound bytes 67108864', Wrong, 'direction: outbound and inbound'), ('seconds 0.606626', 'seconds 0.000000', Wrong, 'above zero'),
    ('source cached 0.00 %', 'cipher AECDH-AES128-SHA\nsource cached 0.00 %', Wrong, 'cipher: None and AECDH-AES128-SHA'),
    ('source on p3', 'sauce on p3', Incomplete, 'without a source and a destination'), ('source cached 0.00 %', 'x', Incomplete, 'source cached')])
def test_a_transfer_that_did_something_else_is_refused(was, now, error, why):
    assert sealed_again(FILES) == FILES and was in FILES
    with pytest.raises(error, match=why):
        room('filetransfer').read(sealed_again(FILES.replace(was, now, 1)))


def partner(folder, *more, size=3 << 20):
    """The second node of a pair, which sends; and our connection in the place of the first one."""
    here, programs = platform.node().split('.')[0], TOP / 'jobs' / 'programs'
    for name in check('filetransfer', 'FileTransfer').programs:
        shutil.copy(programs / name, folder)
    (folder / 'files').mkdir()
    served = subprocess.Popen([sys.executable, folder / 'files.py', 'send', '--pair', f'first,{here}', '--first', 'first', '--direction', 'outbound',
                               '--bytes', str(size), '--source', folder / 'files', '--destination', folder / 'files', *more],
                              cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    pair = ['first', here]
    own = import_module_from_file(str(programs / 'tcp.py'))
    conn, _, port = own.find('127.0.0.1', f'parity-transfer-{zlib.crc32(f"{folder} {pair}".encode()):08x}')
    return served, conn, socket.create_connection(('127.0.0.1', port), 10)


def test_a_lost_node_ends_the_transfer_and_its_partner_removes_the_file(tmp_path):
    served, conn, data = partner(tmp_path)
    assert json.loads(conn.makefile().readline()) == {'ready': True} and list((tmp_path / 'files').glob('*/file'))
    data.close()
    conn.close()
    _, error = served.communicate(timeout=PATIENCE)
    assert served.returncode == 1 and 'the other node went away' in error and not list((tmp_path / 'files').iterdir())


def test_a_file_passes_through_the_cipher_that_was_asked_for(tmp_path):
    served, conn, data = partner(tmp_path, '--cipher', 'AECDH-AES128-SHA')
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.maximum_version, context.check_hostname, context.verify_mode = ssl.TLSVersion.TLSv1_2, False, ssl.CERT_NONE
    context.set_ciphers('AECDH-AES256-SHA:AECDH-AES128-SHA:@SECLEVEL=0')
    with context.wrap_socket(data) as ciphered, conn, conn.makefile() as said:
        assert json.loads(said.readline()) == {'ready': True} and ciphered.cipher()[0] == 'AECDH-AES128-SHA'
        conn.sendall(b'{"ready": true}\n{"go": true}\n')
        content = b''
        while len(content) < 3 << 20:
            content += ciphered.recv(1 << 20)
        conn.sendall(b'{"done": true}\n')
        ended = json.loads(said.readline())
        conn.sendall(b'{"end": true}\n')
    assert ended['digest'] == hashlib.sha256(content).hexdigest()
    assert served.wait(PATIENCE) == 0


def test_a_cipher_that_openssl_lacks_is_refused(tmp_path):
    served, conn, data = partner(tmp_path, '--cipher', 'AECDH-ROT13')
    with conn, data:
        assert '--cipher AECDH-ROT13: OpenSSL' in json.loads(conn.makefile().readline())['trouble']
        _, error = served.communicate(timeout=PATIENCE)
    assert served.returncode == 2 and 'has no such suite' in error


def test_a_file_without_space_is_refused(tmp_path):
    served, conn, data = partner(tmp_path, size=1 << 60)
    assert 'not enough space: needs' in json.loads(conn.makefile().readline())['trouble']
    _, error = served.communicate(timeout=PATIENCE)
    data.close()
    conn.close()
    assert served.returncode == 2 and re.match(r'filetransfer: \S+: not enough space: needs', error) and not list((tmp_path / 'files').iterdir())
