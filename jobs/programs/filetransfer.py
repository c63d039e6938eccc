"""Send a file from one node to another over TCP, file to file: the clock stops after fsync at the receiver.

    python3 pairs.py ... -- python3 files.py send --pair {pair} --first {first} --direction inbound \\
        --bytes 1000000 --source DIR --destination DIR

tcp.py lies beside it. Both nodes of a pair start it, and the first one prints what both did. inbound is from the
first to the second, outbound back. The source leaves the page cache of its node before, and the content is
compared after. With --disks the sender then reads the file, and the receiver writes one, as large. With --at-once
N the clients of N pairs begin together; one is the node FIRST. --cipher is a suite of OpenSSL that needs no
certificate: the file passes over TLS 1.2.
"""

import contextlib
import hashlib
import json
import os
import platform
import socket
import ssl
import time
import zlib

import filetools
import tcp
from filetools import CHUNK, Trouble


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
            raise Trouble(1, 'the other node went away')
        words = json.loads(line)
        if 'trouble' in words:
            raise Trouble(1, f'the other node: {words["trouble"]}')
        return words


# Files

def write(path, size):
    """Write a file that cannot be compressed, with fsync; the seconds."""
    block = bytearray(os.urandom(CHUNK))
    begin = time.perf_counter()
    with filetools.opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as out:
        for position in range(0, size, CHUNK):
            block[:8] = position.to_bytes(8, 'little')
            filetools.write(out, memoryview(block)[:size - position])
        os.fsync(out)
    return time.perf_counter() - begin


def read(path, use=len):
    """Read a file, and use its pieces; the seconds."""
    begin = time.perf_counter()
    for piece in filetools.read(path, memoryview(bytearray(CHUNK))):
        use(piece)
    return time.perf_counter() - begin


def digest(path):
    checksum = hashlib.sha256()
    read(path, checksum.update)
    return checksum.hexdigest()


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
        raise Trouble(2, f'--cipher {cipher}: {ssl.OPENSSL_VERSION} has no such suite') from None
    return context.wrap_socket(data, server_side=not client)


def send(path, data, size):
    with open(path, 'rb', buffering=0) as file:
        if isinstance(data, ssl.SSLSocket):
            sent = 0
            while part := file.read(CHUNK):
                data.sendall(part)
                sent += len(part)
        else:
            sent = data.sendfile(file)
    if sent != size:
        raise Trouble(1, f'{sent} bytes of {size} were sent')


def receive(path, data, size):
    buffer, got = memoryview(bytearray(CHUNK)), 0
    with filetools.opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as out:
        while got < size:
            part = data.recv_into(buffer[:min(CHUNK, size - got)])
            if not part:
                raise Trouble(1, f'{got} bytes of {size} came')
            filetools.write(out, buffer[:part])
            got += part
        os.fsync(out)


def at_once(options):
    """Wait until the clients of all pairs have come to this place; the one on FIRST waits for the others."""
    if options.at_once == 1:
        return
    token = f'parity-start-{zlib.crc32(os.getcwd().encode()):08x}'
    if options.pair[0] != options.first:
        conn, _, _ = tcp.find(options.first, token)
        conn.settimeout(options.limit)
        if conn.recv(1) != b's':
            raise Trouble(1, 'the other pairs went away')
        return
    door = open_door(token)
    others = [greeted(door, token, 0) for _ in range(options.at_once - 1)]
    for conn in others:
        conn.sendall(b's')


def open_door(token):
    """Listen where others find this end."""
    door = next(opened for opened in map(tcp.listen, tcp.doors(token)) if opened)
    door.settimeout(tcp.PATIENCE)
    return door


def greeted(door, token, port):
    """The connection of the next one that knows the token; it is sent the port for data."""
    while True:
        conn, _ = door.accept()
        conn.sendall(f'{token} - {port}\n'.encode())
        if conn.recv(2) == b'go':
            return conn


class Job:
    """One end of a pair, and its part: the first node of the pair is the client."""

    def __init__(self, options):
        self.options, self.team, self.folder = options, filetools.Team(mpi=False), ''
        self.node = platform.node().split('.')[0]
        self.client = options.pair[1].split('.')[0] != self.node
        self.sends = self.client == (options.direction == 'inbound')

    def run(self):
        options = self.options
        conn, data = self.find() if self.client else self.serve()
        talk = Talk(conn, options.limit)
        data.settimeout(options.limit)
        try:
            data = ciphered(data, options.cipher, self.client)
            mine = self.take_part(talk, data)
            if self.client:
                results(options, data, mine, talk.hear())
                talk.say(end=True)
            else:
                talk.say(**mine)
                talk.hear()
        except (Trouble, OSError) as error:
            status, why = 1, str(error)
            if isinstance(error, Trouble):
                status, why = error.args
            with contextlib.suppress(OSError):
                talk.say(trouble=why)
            raise Trouble(status, f'{self.node}: {why}') from None
        return 0

    def serve(self):
        """Wait for the client: connections for words and for data."""
        door = open_door(self.options.token)
        receiving = socket.create_server(('', 0))
        conn = greeted(door, self.options.token, receiving.getsockname()[1])
        receiving.settimeout(tcp.PATIENCE)
        data, _ = receiving.accept()
        return conn, data

    def find(self):
        """Connect to the server, as serve() waits for it."""
        conn, _, port = tcp.find(self.options.pair[1], self.options.token)
        return conn, socket.create_connection((self.options.pair[1], port), tcp.PATIENCE)

    def occupy(self):
        """Make a folder of our own, or refuse where there is no room; the file system's kind."""
        options = self.options
        place = options.source if self.sends else options.destination
        filetools.sweep(place)
        files = 2 if options.disks and not self.sends else 1
        need = filetools.fit(place, [place], files * options.bytes, 2)
        self.folder = os.path.join(place, filetools.unique())
        filetools.claim(self.folder)
        filetools.reserve(self.folder, need)
        kind, _ = filetools.mount(place)
        return kind

    def take_part(self, talk, data):
        """Do one end's part; what it measured."""
        options = self.options
        mine = {'kind': self.occupy(), 'node': self.node}
        path = os.path.join(self.folder, 'file')
        if self.sends:
            write(path, options.bytes)
            mine['cached'] = cached(path)
        talk.say(ready=True)
        talk.hear()
        if self.client:
            at_once(options)
        busy = tcp.ticks()
        start = time.perf_counter()
        if self.client:
            talk.say(go=True)
        else:
            talk.hear()
        if self.sends:
            send(path, data, options.bytes)
            talk.hear()
        else:
            receive(path, data, options.bytes)
            talk.say(done=True)
        if self.client:
            mine['seconds'] = time.perf_counter() - start
            mine['busiest'] = tcp.busiest(busy)
        mine['digest'] = digest(path)
        if options.disks and self.sends:
            cached(path)
            mine['disk'] = read(path)
        elif options.disks:
            mine['disk'] = write(os.path.join(self.folder, 'written'), options.bytes)
        return mine

    def clean(self):
        if not self.folder:
            return []
        filetools.remove(self.folder)
        return [filetools.plain(self.folder)] if os.path.lexists(self.folder) else []

    def close(self):
        """Nothing is left to the other end."""


def results(options, data, mine, theirs):
    source, destination = (mine, theirs) if options.direction == 'inbound' else (theirs, mine)
    tcp.say(f'parity-transfer 1 {options.direction} bytes {options.bytes}')
    for name, end in (('source', source), ('destination', destination)):
        tcp.say(f'{name} on {end["node"]} filesystem {end["kind"]} sha256 {end["digest"]}')
    if options.cipher:
        tcp.say(f'cipher {data.cipher()[0]}')
    tcp.say(f'source cached {source["cached"]:.2f} %')
    tcp.say(f'seconds {mine["seconds"]:.6f} busiest {mine["busiest"]:.1f} %')
    if options.disks:
        tcp.say(f'read {source["disk"]:.6f} written {destination["disk"]:.6f}')
    checksum = zlib.crc32('\n'.join(tcp.sealed).encode())
    print(f'parity-transfer-crc32 {checksum:08x}', flush=True)


def arguments(parser, words):
    parser.add_argument('--pair', type=lambda names: names.split(','), required=True, help='both nodes, by names')
    parser.add_argument('--first', required=True, help='the first node of all pairs')
    parser.add_argument('--at-once', type=int, default=1, help='pairs that begin together (1)')
    parser.add_argument('--direction', choices=('inbound', 'outbound'), required=True)
    parser.add_argument('--bytes', type=int, required=True)
    parser.add_argument('--cipher', default='', help='suite of OpenSSL, such as AECDH-AES128-SHA')
    parser.add_argument('--disks', action='store_true', help='read and write the file apart from the network, too')
    options = parser.parse_args(words)
    if options.bytes < 1:
        parser.error(f'--bytes {options.bytes}: must be at least 1')
    options.limit = min(1e6, tcp.PATIENCE + options.bytes / 1e6)         # s: 1 MB/s
    options.token = f'parity-transfer-{zlib.crc32(f"{os.getcwd()} {options.pair}".encode()):08x}'
    here = platform.node().split('.')[0]
    if here not in [name.split('.')[0] for name in options.pair]:
        parser.error(f'--pair {",".join(options.pair)}: this is {here}')
    return options
