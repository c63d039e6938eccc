#!/usr/bin/env python3
"""Time messages between two ranks, one by one: comms1 and comms2 of ParkBench (Hockney and Berry, 1994).

    mpirun -np 2 python3 comms.py send|sendrecv BYTES:REPEATS ...

`send`: MPI_Send to the other rank, which sends the message back; a time is that of both ways. `sendrecv`: both
ranks call MPI_Sendrecv; a time is that of the call. The first message of each size is not timed. Prints every time
of rank 0, and a checksum of all. Needs Python 3.9 and mpi4py. Exit status: 1 if a message arrives altered, 2 if it
is refused.
"""
import sys
import zlib
from time import perf_counter_ns

import mpi4py

mpi4py.rc.threads = False               # a lock in every call would be timed, too
from mpi4py import MPI  # noqa: E402

HERE = MPI.COMM_WORLD
OTHER = 1 - HERE.rank


def send(out, back):
    if HERE.rank == 0:
        HERE.Send([out, MPI.BYTE], OTHER)
        HERE.Recv([back, MPI.BYTE], OTHER)
    else:
        HERE.Recv([back, MPI.BYTE], OTHER)
        HERE.Send([back, MPI.BYTE], OTHER)


def sendrecv(out, back):
    HERE.Sendrecv([out, MPI.BYTE], OTHER, recvbuf=[back, MPI.BYTE], source=OTHER)


def measure(call, size, repeats):
    """Microseconds of each call but the first."""
    out, back, times = bytearray(bytes(range(251)) * (size // 251 + 1))[:size], bytearray(size), []
    HERE.Barrier()
    for repeat in range(repeats + 1):
        out[0] = out[-1] = repeat % 256         # a message is not the one before
        start = perf_counter_ns()
        call(out, back)
        times.append((perf_counter_ns() - start) / 1000)
        if back[0] != out[0] or back[-1] != out[-1] or repeat == repeats and back != out:
            print(f'comms: message {repeat} of {size} B arrived altered', flush=True)
            HERE.Abort(1)
    return times[1:]


def main(call, *sizes):
    if HERE.size != 2 or call not in ('send', 'sendrecv') or not sizes:
        print(f'comms: {HERE.size} ranks of {call}; must be 2, of send or sendrecv, with sizes', file=sys.stderr)
        HERE.Abort(2)
    nodes = HERE.gather(MPI.Get_processor_name())
    version = MPI.Get_library_version().split(',')[0].split('\n')[0].strip('\0 ')
    lines = [f'comms 1 {call} mpi4py {mpi4py.__version__}, {version}']
    for size, repeats in (map(int, each.split(':')) for each in sizes):
        times = measure(globals()[call], size, repeats)
        lines.append(f'{size} B {repeats} times, us: {" ".join(f"{time:.3f}" for time in times)}')
    if HERE.rank == 0:
        lines.insert(1, f'nodes {" ".join(nodes)}')
        text = '\n'.join(lines)
        print(f'{text}\ncomms end crc32 {zlib.crc32(text.encode()):08x}', flush=True)


main(*sys.argv[1:] or [''])
