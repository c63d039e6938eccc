"""iperf3 and round-trip times, from one end to the other of a pair of nodes, or within one machine.

    python3 tcp.py --runs tcp:1,tcp:4 --seconds 1 --round-trips -- iperf3            # within this machine
    python3 pairs.py ... -- python3 tcp.py --pair {pair} --runs udp:1 --seconds 1 -- iperf3

python3 alone, 3.9 or later. With --pair it starts on both nodes. The second serves iperf3 and echoes bytes
on free ports, until the first has done all runs. The first finds the second by its name. A run is
PROTOCOL:STREAMS. The first prints what iperf3 prints between lines of its own; the last has a checksum of all
others. Exit codes: 0, 1 if a run failed, 2 for what it cannot start with.
"""

import argparse
import array
import contextlib
import ctypes
import fcntl
import json
import os
import platform
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import zlib
from typing import NamedTuple

PATIENCE = 60                           # seconds that the other end, or the end of a run, may be late
DOORS = 16                              # ports that the server may be behind, if others use the first
LOAD, SETTLE = 4, 0.3                   # streams that are the load of round trips, seconds until they flow
IDLE = 5                                # seconds at most of round trips before the runs
sealed = []


def say(line):
    sealed.append(line)
    print(line, flush=True)


# The server

def serve(options):
    """Serve until the client, which knows the token, goes away; the exit code: 1 where none comes."""
    door = next(opened for opened in map(listen, doors(options.token)) if opened)
    serving = start_iperf3(options.iperf3)
    echoing = socket.create_server(('', 0))
    threading.Thread(target=accepting, args=(echoing, echo), daemon=True).start()
    come, gone = threading.Event(), threading.Event()

    def greet(conn):
        conn.sendall(f'{options.token} {serving} {echoing.getsockname()[1]}\n'.encode())
        if conn.recv(2) == b'go':
            come.set()
            conn.recv(1)
            gone.set()

    threading.Thread(target=accepting, args=(door, greet), daemon=True).start()
    if not come.wait(PATIENCE):
        print(f'tcp.py: no client came within {PATIENCE} s', file=sys.stderr)
        return 1
    gone.wait()
    return 0


def doors(token):
    first = 20000 + zlib.crc32(token.encode()) % 12000
    return range(first, first + DOORS)


def listen(port):
    with contextlib.suppress(OSError):
        return socket.create_server(('', port))


def accepting(listening, work):
    while True:
        conn, _ = listening.accept()
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=quietly, args=(work, conn), daemon=True).start()


def quietly(work, conn):
    with contextlib.suppress(OSError), conn:
        work(conn)


def echo(conn):
    while data := conn.recv(1 << 16):
        conn.sendall(data)


def start_iperf3(iperf3):
    """The port of an iperf3 server that ends with this process."""
    with socket.create_server(('', 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen([iperf3, '-s', '-p', str(port)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              preexec_fn=die_with_parent)
    until = time.monotonic() + 10
    while not is_open(port):
        if server.poll() is not None or time.monotonic() > until:
            sys.exit(f'tcp.py: {iperf3} -s does not serve on {platform.node()}')
        time.sleep(0.02)
    return port


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)          # PR_SET_PDEATHSIG


def is_open(port):
    """Return whether something listens; iperf3 would take a trial connection for a client."""
    for name in ('tcp', 'tcp6'):
        with contextlib.suppress(OSError), open(f'/proc/net/{name}') as table:
            for line in table:
                _, local, _, state, *_ = line.split()
                if local.endswith(f':{port:04X}') and state == '0A':
                    return True
    return False


# The client

def find(host, token):
    """The server's connection, and the ports of its iperf3 and its echo."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        for port in doors(token):
            with contextlib.suppress(OSError):
                conn = socket.create_connection((host, port), 5)
                words = conn.makefile().readline().split()
                if words[:1] == [token]:
                    conn.settimeout(None)
                    conn.sendall(b'go')
                    return conn, words[1], int(words[2])
                conn.close()
        time.sleep(0.1)
    sys.exit(f'tcp.py: no server on {host} within {PATIENCE} s: is its port closed to this node?')


class Ended(NamedTuple):
    """A run that has ended."""

    code: int
    printed: str                # of iperf3, its JSON


def transfer(options, host, port, run, *more):
    """Do one run, such as tcp:4, with ``more`` arguments of iperf3."""
    protocol, _, streams = run.partition(':')
    command = [options.iperf3, '-c', host, '-p', port, '-J', '-t', str(options.seconds), '-P', streams]
    if options.length:
        command += ['-l', str(options.length)]
    if protocol == 'udp':
        command += ['-u', '-b', options.offered]
    command += more
    limit = options.seconds + PATIENCE
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors='replace', timeout=limit, preexec_fn=die_with_parent)
    except subprocess.TimeoutExpired:
        return Ended(124, f'iperf3 did not end within {limit} s')
    return Ended(done.returncode, done.stdout.rstrip('\n'))


def round_trips(host, port, seconds, message=b'x'):
    """A message to and fro, again and again: one line with the times in us."""
    times = []
    with socket.create_connection((host, port), 10) as conn:
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        until = time.perf_counter() + seconds
        while (start := time.perf_counter()) < until:
            try:
                conn.sendall(message)
                came = conn.recv(len(message))
                while came and len(came) < len(message):
                    came += conn.recv(len(message) - len(came)) or message      # more than was sent: refused below
            except OSError as err:
                return Ended(1, f'the echo: {err}')
            if came != message:
                return Ended(1, 'the echo went away, or another message came back')
            times.append((time.perf_counter() - start) * 1e6)
    times.sort()
    count = len(times)
    low, median, high, top = times[0], times[count // 2], times[count * 99 // 100], times[-1]
    return Ended(0, f'samples {count} min {low:.2f} median {median:.2f} p99 {high:.2f} max {top:.2f} us')


def print_run(name, run):
    """Print one run; 1 if it failed, the reason on standard error."""
    if run.code:
        print(f'tcp.py: {name}: exit code {run.code}: {reason(run.printed)[:200]}', file=sys.stderr)
    say(f'parity-tcp-run {name}')
    say(run.printed)
    say(f'parity-tcp-end {name} exit {run.code}')
    return run.code != 0


def reason(printed):
    """Return the first error of iperf3's JSON, else the last line."""
    lines = printed.splitlines()
    for line in lines:
        if '"error"' in line:
            return line.strip()
    return lines[-1].strip() if lines else ''


def link(conn):
    """Describe the interface of a connection: its name and driver, its bytes a second, shaped or not."""
    own = conn.getsockname()[0]
    name = next((name for _, name in socket.if_nameindex() if address(name) == own), '-')
    driven, shaped = driver(name), shaping(name)
    speed = shaped
    if not shaped and driven not in ('veth', '-'):
        with contextlib.suppress(OSError, ValueError), open(f'/sys/class/net/{name}/speed') as file:
            speed = max(0, int(file.read())) * 125_000         # Mb/s; -1 where the card does not know
    return f'parity-tcp-link {name} driver {driven} rate {speed or "-"} {"shaped" if shaped else "whole"}'


def address(interface):
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        asked = fcntl.ioctl(sock, 0x8915, struct.pack('256s', interface.encode()[:15]))       # SIOCGIFADDR
        return socket.inet_ntoa(asked[20:24])


def driver(interface):
    """Return the driver of an interface: veth has no card behind it."""
    info = array.array('B', struct.pack('I', 3) + bytes(192))          # ETHTOOL_GDRVINFO
    asked = struct.pack('16sP', interface.encode()[:15], info.buffer_info()[0])
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, 0x8946, asked)                                # SIOCETHTOOL
        return info.tobytes()[4:36].rstrip(b'\0').decode() or '-'
    return '-'


def shaping(interface):
    """Return the bytes a second that the kernel lets through an interface; None where it does not limit them."""
    with contextlib.suppress(OSError, ValueError, KeyError, subprocess.SubprocessError):
        done = subprocess.run(['tc', '-j', 'qdisc', 'show', 'dev', interface], capture_output=True, timeout=10)
        for discipline in json.loads(done.stdout):
            if discipline.get('kind') == 'tbf':
                return discipline['options']['rate']
    return None


class Ticks(NamedTuple):
    """The time of a core so far, in ticks of the kernel."""

    busy: int
    every: int


def ticks():
    """The time of each core so far."""
    cores = []
    with open('/proc/stat') as file:
        for line in file:
            if line.startswith('cpu') and line[3].isdigit():
                times = [int(word) for word in line.split()[1:9]]
                idle, waits_for_disk = times[3:5]
                cores.append(Ticks(sum(times) - idle - waits_for_disk, sum(times)))
    return cores


def busiest(before):
    """The busiest core since ``before``, in %."""
    shares = []
    for then, now in zip(before, ticks()):                  # noqa: B905 (Python 3.9)
        every = max(1, now.every - then.every)
        shares.append(100 * (now.busy - then.busy) / every)
    return max(shares, default=0)


def measure(options, host):
    conn, serving, echoing = find(host, options.token)
    with conn:
        say(f'parity-tcp 1 {host} seconds {options.seconds} runs {",".join(options.runs)}')
        say(link(conn))
        failed = 0
        if options.round_trips:
            failed += print_run('idle', round_trips(host, echoing, options.seconds / 2))
        if options.round_trips and options.length:
            message = bytes(place * 7 % 251 for place in range(options.length))
            failed += print_run('length', round_trips(host, echoing, options.seconds / 2, message))
        if options.idle:
            failed += print_run('idle', round_trips(host, echoing, min(options.seconds / 2, IDLE)))
        before = ticks()
        for run in options.runs:
            failed += print_run(run, transfer(options, host, serving, run))
        say(f'parity-tcp-busiest {busiest(before):.1f} %')
        if options.round_trips:
            failed += loaded(options, host, serving, echoing)
        say(f'parity-tcp-last failed {failed}')
        checksum = zlib.crc32('\n'.join(sealed).encode())
        print(f'parity-tcp-crc32 {checksum:08x}', flush=True)
    return 1 if failed else 0


def loaded(options, host, serving, echoing):
    """Measure round trips while streams flow, and report the streams to prove that they flowed."""
    load = []
    flowing = threading.Thread(target=lambda: load.append(transfer(options, host, serving, f'tcp:{LOAD}')))
    flowing.start()
    time.sleep(SETTLE)
    trips = round_trips(host, echoing, options.seconds - 2 * SETTLE)
    flowing.join()
    return print_run(f'load-tcp:{LOAD}', load[0]) + print_run('loaded', trips)


def main(arguments):
    parser = argparse.ArgumentParser(prog='tcp.py', description=__doc__.split('\n')[0])
    parser.add_argument('--pair', type=lambda names: names.split(','), help='client and server, by their names')
    parser.add_argument('--runs', type=lambda names: names.split(','), required=True)
    parser.add_argument('--seconds', type=int, default=1, help='of one run (1)')
    parser.add_argument('--length', type=int, default=0, help='bytes of a write or datagram; also of round trips')
    parser.add_argument('--offered', default='0', help='bits a second of each stream of UDP, such as 1M (0: all)')
    parser.add_argument('--round-trips', action='store_true', help='before the runs, and while streams flow')
    parser.add_argument('--idle', action='store_true', help='round trips before the runs')
    parser.add_argument('--serve', action='store_true', help=argparse.SUPPRESS)
    parser.add_argument('iperf3')
    options = parser.parse_args(arguments)
    # one folder, one pair: what tells this server from those of other jobs
    options.token = f'parity-tcp-{zlib.crc32(f"{os.getcwd()} {options.pair}".encode()):08x}'
    here = platform.node().split('.')[0]
    if options.pair and here not in (ends := [name.split('.')[0] for name in options.pair]):
        parser.error(f'--pair {",".join(options.pair)}: this is {here}')
    if options.serve or (options.pair and here == ends[1]):
        return serve(options)
    if options.pair:
        return measure(options, options.pair[1])
    server = subprocess.Popen([sys.executable, __file__, '--serve', *arguments], preexec_fn=die_with_parent)
    try:
        return measure(options, '127.0.0.1')
    finally:
        server.terminate()
        server.wait()


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
