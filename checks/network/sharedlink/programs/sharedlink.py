"""A server that two clients share: round trips of the second client, idle, while the first one sends, and after
that; then the second one sends within the time in which the first one does.

    python3 pairs.py --three ... -- python3 sharedlink.py --nodes {pair} --seconds 5 -- iperf3

python3 alone, 3.9 or later; tcp.py lies beside it. It starts on three nodes: the first and the third are
clients, the second is the server, which prints what both measured. All times are seconds after a common start.
The last line has a checksum of all others. Exit codes: 0, 1 if a part failed, 2 for what it cannot start with.
"""

import argparse
import json
import os
import platform
import socket
import sys
import threading
import time
import zlib

import tcp

REST = 3                # seconds between two transfers of the first client
ENDED = 0.7             # seconds until a transfer has ended, at both ends
FEWEST = 4              # seconds of a transfer: the second client sends for half as long


def serve(options):
    """Serve both clients, and print what they send."""
    door = next(opened for opened in map(tcp.listen, tcp.doors(options.token)) if opened)
    ports = [tcp.start_iperf3(options.iperf3) for _ in range(2)]
    echoing = socket.create_server(('', 0))
    threading.Thread(target=tcp.accepting, args=(echoing, tcp.echo), daemon=True).start()
    both, parts, ended = threading.Barrier(2), {}, threading.Semaphore(0)

    def greet(conn):
        conn.sendall(f'{options.token} {ports[0]},{ports[1]} {echoing.getsockname()[1]}\n'.encode())
        said = conn.makefile()
        if (name := said.readline().split())[:1] == ['go']:
            both.wait(tcp.PATIENCE)
            conn.sendall(b'start\n')
            parts[name[1]] = said.read().splitlines()
            ended.release()

    threading.Thread(target=tcp.accepting, args=(door, greet), daemon=True).start()
    limit = 4 * options.seconds + 2 * tcp.PATIENCE
    if not (ended.acquire(timeout=limit) and ended.acquire(timeout=limit)):
        print(f'sharedlink.py: {len(parts)} of 2 clients ended within {limit} s', file=sys.stderr)
        return 1
    tcp.say(f'parity-shared 2 {platform.node().split(".")[0]} seconds {options.seconds}')
    for line in parts['first'] + parts['third']:
        tcp.say(line)
    whole = all(lines[-1:] == ['whole'] for lines in parts.values())
    print(f'parity-shared-crc32 {zlib.crc32(chr(10).join(tcp.sealed).encode()):08x}', flush=True)
    return 0 if whole else 1


def measure(options, name):
    """Do a client's part, and send what it measured to the server."""
    conn, ports, echoing = tcp.find(options.nodes[1], options.token)
    with conn:
        conn.sendall(f' {name}\n'.encode())
        if conn.makefile().readline() != 'start\n':
            sys.exit('sharedlink.py: the other client did not come')
        start, lines = time.perf_counter(), []

        def until(seconds):
            time.sleep(max(0.0, start + seconds - time.perf_counter()))

        def send(what, at, port, seconds):
            until(at)
            lines.extend(transfer(options, what, port, seconds, start))

        def echo(what, at, seconds):
            until(at)
            code, said = tcp.round_trips(options.nodes[1], echoing, seconds)
            if code:
                sys.exit(f'sharedlink.py: {what}: {said}')
            lines.append(f'{what} {said}')

        idle, (first, second) = min(options.seconds / 2, tcp.IDLE), ports.split(',')
        again = idle + options.seconds + REST
        if name == 'first':
            send('alone', idle, first, options.seconds)
            send('first', again, first, options.seconds)
        else:
            echo('idle', 0, idle - tcp.SETTLE)
            echo('loaded', idle + tcp.SETTLE, options.seconds - 2 * tcp.SETTLE)
            echo('after', again - REST + ENDED, REST - 2 * ENDED)
            send('second', again + options.seconds / 4, second, options.seconds // 2)
        conn.sendall('\n'.join([*lines, 'whole']).encode())
    return 0


def transfer(options, name, port, seconds, start):
    """Send one stream; a line for the whole, and one for each part of a second: its time and its bytes."""
    every = max(0.1, min(1, options.seconds / 20))
    begun = time.perf_counter() - start
    asked = argparse.Namespace(iperf3=options.iperf3, seconds=seconds, length=0)
    code, said = tcp.transfer(asked, options.nodes[1], port, 'tcp:1', '-i', f'{every:g}')
    values = json.loads(said) if said.startswith('{') else {'error': said}
    if code or 'error' in values:
        sys.exit(f'sharedlink.py: {name}: exit code {code}: {values.get("error", "no error")}')
    sent, received = values['end']['sum_sent'], values['end']['sum_received']
    yield (f'{name} asked {seconds} sent {sent["bytes"]} received {received["bytes"]} '
           f'seconds {received["seconds"]:.6f}')
    for each in (interval['sum'] for interval in values['intervals']):
        yield f'{name} from {begun + each["start"]:.6f} to {begun + each["end"]:.6f} bytes {each["bytes"]}'


def main(arguments):
    parser = argparse.ArgumentParser(prog='sharedlink.py', description=__doc__.split('\n')[0])
    parser.add_argument('--nodes', type=lambda names: names.split(','), required=True,
                        help='client, server and second client, by their names')
    parser.add_argument('--seconds', type=int, required=True, help=f'of a transfer, {FEWEST} or more')
    parser.add_argument('iperf3')
    options = parser.parse_args(arguments)
    options.token = f'parity-shared-{zlib.crc32(f"{os.getcwd()} {options.nodes}".encode()):08x}'
    here, names = platform.node().split('.')[0], [name.split('.')[0] for name in options.nodes]
    if len(set(names)) != 3 or here not in names:
        parser.error(f'--nodes {",".join(options.nodes)}: must be three nodes, and this is {here}')
    if options.seconds < FEWEST:
        parser.error(f'--seconds {options.seconds}: must be {FEWEST} or more')
    return serve(options) if here == names[1] else measure(options, 'first' if here == names[0] else 'third')


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
