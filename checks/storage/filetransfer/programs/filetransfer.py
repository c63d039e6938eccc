"""Send a file from one node to another over TCP, file to file: the clock stops after fsync at the receiver.

    python3 pairs.py ... -- python3 filetransfer.py --pair {pair} --first {first} --direction inbound \\
        --bytes 1000000 --source DIR --destination DIR

python3 alone, 3.9 or later; tcp.py, room.py and filetools.py lie beside it. Both nodes of a pair start it, and the
first one prints what both did. inbound is from the first to the second, outbound back. The source leaves the page
cache of its node before, and the content is compared after. With --disks the sender then reads the file, and the
receiver writes one, as large. With --at-once N the clients of N pairs begin together; one is the node FIRST. Each
end needs room, and removes its files. --cipher is a suite of OpenSSL that needs no certificate: the file passes
over TLS 1.2. Exit codes: 0, 1 trouble on the way, 2 refused.
"""

import argparse
import hashlib
import json
import os
import platform
import shutil
import signal
import socket
import ssl
import sys
import time
import zlib

import filetools
import room
import tcp

CHUNK = 1 << 20                         # bytes of a read or write


class Lost(Exception):
    """The other end is not there any more, or gave up."""


class Talk:
    """Lines of JSON between both ends."""

    def __init__(self, conn, limit):
        conn.settimeout(limit)
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)      # no word waits for the one before
        self.conn, self.lines = conn, conn.makefile()

    def say(self, **words):
        self.conn.sendall((json.dumps(words) + '\n').encode())

    def hear(self):
        line = self.lines.readline()
        if not line:
            raise Lost('the other node went away')
        words = json.loads(line)
        if 'trouble' in words:
            raise Lost(f'the other node: {words["trouble"]}')
        return words


# Files

def make_room(folder, size):
    """Make a folder of our own for so many bytes, or refuse; it, and the file system's kind."""
    room.sweep(folder)
    room.free(folder, size, 2)
    room.quota(folder, size, 2)
    own = os.path.join(folder, f'{room.PREFIX}{os.uname().nodename}-{os.getpid()}')
    os.mkdir(own, 0o700)
    return own, room.kind(folder)


def write(path, size):
    """Write a file that cannot be compressed, with fsync; the seconds."""
    block, begin = bytearray(os.urandom(CHUNK)), time.perf_counter()
    with open(path, 'wb', buffering=0) as out:
        for at in range(0, size, CHUNK):
            block[:8] = at.to_bytes(8, 'little')
            put(out, memoryview(block)[:size - at])
        os.fsync(out.fileno())
    return time.perf_counter() - begin


def put(out, data):
    while data:
        data = data[out.write(data):]


def read(path):
    """Read a file; the seconds."""
    begin = time.perf_counter()
    with open(path, 'rb', buffering=0) as file:
        while file.read(CHUNK):
            pass
    return time.perf_counter() - begin


def digest(path):
    found = hashlib.sha256()
    with open(path, 'rb', buffering=0) as file:
        while data := file.read(CHUNK):
            found.update(data)
    return found.hexdigest()


def cached(path):
    """Let the page cache drop a file; the share of its pages that are still there, in %."""
    filetools.drop(path)
    there, pages = filetools.resident(path)
    return 100 * there / pages if pages else 100.0


# Both ends

def ciphered(data, cipher, client):
    """Pass all that follows through a cipher; neither end proves who it is."""
    if not cipher:
        return data
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT if client else ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        context.set_ciphers(f'{cipher}:@SECLEVEL=0')        # a suite without a certificate is of level 0
    except ssl.SSLError:
        raise room.Refused(f'--cipher {cipher}: {ssl.OPENSSL_VERSION} has no such suite') from None
    return context.wrap_socket(data, server_side=not client)


def send(path, data, size):
    with open(path, 'rb', buffering=0) as file:
        if not isinstance(data, ssl.SSLSocket):
            sent = data.sendfile(file)
        else:
            sent = 0
            while part := file.read(CHUNK):
                data.sendall(part)
                sent += len(part)
        if sent != size:
            raise Lost(f'{sent} bytes of {size} were sent')


def receive(path, data, size):
    buffer, got = memoryview(bytearray(CHUNK)), 0
    with open(path, 'wb', buffering=0) as out:
        while got < size:
            part = data.recv_into(buffer[:min(CHUNK, size - got)])
            if not part:
                raise Lost(f'{got} bytes of {size} came')
            put(out, buffer[:part])
            got += part
        os.fsync(out.fileno())


def take_part(options, talk, data, client, begin):
    """Do one end's part; what it measured. ``begin``: waits for the other pairs."""
    sends = client == (options.direction == 'inbound')
    place = options.source if sends else options.destination
    folder, kind = make_room(place, options.bytes * (2 if options.disks and not sends else 1))
    path, mine = os.path.join(folder, 'file'), {'kind': kind, 'node': platform.node().split('.')[0]}
    try:
        if sends:
            write(path, options.bytes)
            mine['cached'] = cached(path)
        talk.say(ready=True)
        talk.hear()
        begin()
        busy, start = tcp.ticks(), time.perf_counter()
        if client:
            talk.say(go=True)
        else:
            talk.hear()
        if sends:
            send(path, data, options.bytes)
        else:
            receive(path, data, options.bytes)
            talk.say(done=True)
        if client:
            if sends:
                talk.hear()
            mine['seconds'] = time.perf_counter() - start
            mine['busiest'] = tcp.busiest(busy)
        elif sends:
            talk.hear()
        mine['digest'] = digest(path)
        if options.disks:
            if sends:
                cached(path)
                mine['disk'] = read(path)
            else:
                mine['disk'] = write(os.path.join(folder, 'written'), options.bytes)
        return mine
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def serve(options):
    """The second node: wait for the client, do the part, tell what was measured."""
    door = next(opened for opened in map(tcp.listen, tcp.doors(options.token)) if opened)
    receiving = socket.create_server(('', 0))
    door.settimeout(tcp.PATIENCE)
    while True:
        conn, _ = door.accept()
        conn.sendall(f'{options.token} - {receiving.getsockname()[1]}\n'.encode())
        if conn.recv(2) == b'go':
            break
    receiving.settimeout(tcp.PATIENCE)
    data, _ = receiving.accept()
    talk = Talk(conn, options.limit)
    data.settimeout(options.limit)
    try:
        data = ciphered(data, options.cipher, False)
        talk.say(**take_part(options, talk, data, False, lambda: None))
        talk.hear()
    except (Lost, OSError, room.Refused) as error:
        talk.say(trouble=str(error))
        raise
    return 0


def measure(options):
    """The first node: find the server, do the part, print what both measured."""
    conn, _, port = tcp.find(options.pair[1], options.token)
    data = socket.create_connection((options.pair[1], port), tcp.PATIENCE)
    talk = Talk(conn, options.limit)
    data.settimeout(options.limit)
    try:
        data = ciphered(data, options.cipher, True)
        mine = take_part(options, talk, data, True, lambda: at_once(options))
        theirs = talk.hear()
        talk.say(end=True)
    except (OSError, room.Refused) as error:
        talk.say(trouble=str(error))
        raise
    ends = (mine, theirs) if options.direction == 'inbound' else (theirs, mine)
    tcp.say(f'parity-transfer 1 {options.direction} bytes {options.bytes}')
    for name, end in zip(('source', 'destination'), ends):      # noqa: B905 (Python 3.9)
        tcp.say(f'{name} on {end["node"]} filesystem {end["kind"]} sha256 {end["digest"]}')
    if options.cipher:
        tcp.say(f'cipher {data.cipher()[0]}')
    tcp.say(f'source cached {ends[0]["cached"]:.2f} %')
    tcp.say(f'seconds {mine["seconds"]:.6f} busiest {mine["busiest"]:.1f} %')
    if options.disks:
        tcp.say(f'read {ends[0]["disk"]:.6f} written {ends[1]["disk"]:.6f}')
    print(f'parity-transfer-crc32 {zlib.crc32(chr(10).join(tcp.sealed).encode()):08x}', flush=True)
    return 0


def at_once(options):
    """Wait until the clients of all pairs have come to this place; the one on FIRST waits for the others."""
    if options.at_once == 1:
        return
    token = f'parity-start-{zlib.crc32(os.getcwd().encode()):08x}'
    if options.pair[0] != options.first:
        conn, _, _ = tcp.find(options.first, token)
        conn.settimeout(options.limit)
        if conn.recv(1) != b's':
            raise Lost('the other pairs went away')
        return
    door = next(opened for opened in map(tcp.listen, tcp.doors(token)) if opened)
    door.settimeout(tcp.PATIENCE)
    others = []
    while len(others) < options.at_once - 1:
        conn, _ = door.accept()
        conn.sendall(f'{token} - 0\n'.encode())
        if conn.recv(2) == b'go':
            others.append(conn)
    for conn in others:
        conn.sendall(b's')


def main(arguments):
    parser = argparse.ArgumentParser(prog='filetransfer.py', description=__doc__.split('\n')[0])
    parser.add_argument('--pair', type=lambda names: names.split(','), required=True, help='both nodes, by names')
    parser.add_argument('--first', required=True, help='the first node of all pairs')
    parser.add_argument('--at-once', type=int, default=1, help='pairs that begin together (1)')
    parser.add_argument('--direction', choices=('inbound', 'outbound'), required=True)
    parser.add_argument('--bytes', type=int, required=True)
    parser.add_argument('--source', required=True, help='folder of the file that is sent')
    parser.add_argument('--destination', required=True, help='folder of the file that is received')
    parser.add_argument('--cipher', default='', help='suite of OpenSSL, such as AECDH-AES128-SHA')
    parser.add_argument('--disks', action='store_true', help='read and write the file apart from the network, too')
    options = parser.parse_args(arguments)
    if options.bytes < 1:
        parser.error(f'--bytes {options.bytes}: must be at least 1')
    options.limit = min(1e6, tcp.PATIENCE + options.bytes / 1e6)         # s: 1 MB/s
    options.token = f'parity-transfer-{zlib.crc32(f"{os.getcwd()} {options.pair}".encode()):08x}'
    here = platform.node().split('.')[0]
    if here not in (ends := [name.split('.')[0] for name in options.pair]):
        parser.error(f'--pair {",".join(options.pair)}: this is {here}')
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        return serve(options) if here == ends[1] else measure(options)
    except room.Refused as error:
        print(f'filetransfer.py: {error}', file=sys.stderr)
        return 2
    except (Lost, OSError) as error:
        print(f'filetransfer.py: {here}: {error}', file=sys.stderr)
        return 1


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
