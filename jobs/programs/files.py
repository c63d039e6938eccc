#!/usr/bin/env python3
"""Copy, write, read or send files, and time it: `files.py MODE --help` has the options of a mode.

    large-copy, small-copy, small-write    as the 1 to n clients of a file system do (filecopy.py)
    read, read-write                       a population of files of one size, in random order (fileset.py)
    send                                   from one node to another over TCP (filetransfer.py)

Linux, Python 3.9 or later, standard library; mpi4py where there is more than one rank. The modules named above,
filetools.py and room.py lie beside it. It makes a folder of its own in each place, and removes it. The next run in
the same place removes what a killed run left, as room.py says at its top.
Exit status: 0 results; 1 trouble on the way, wrong files, nothing timed; 2 refused.
"""
import argparse
import contextlib
import importlib
import os
import signal
import sys
import traceback

from filetools import STOPS, Trouble, stop

MODES = {**dict.fromkeys(('large-copy', 'small-copy', 'small-write'), 'filecopy'),
         **dict.fromkeys(('read', 'read-write'), 'fileset'), 'send': 'filetransfer'}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('mode', choices=MODES)
    mode = parser.parse_args(sys.argv[1:2]).mode
    name = MODES[mode]
    module = importlib.import_module(name)
    parser = argparse.ArgumentParser(prog=f'files.py {mode}', description=module.__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.set_defaults(mode=mode)
    for place, without in (('source', 'small-write'), ('destination', 'read')):
        if mode != without:
            parser.add_argument(f'--{place}', type=folder, required=True, help=f'folder of the {place}')
    return live(name, module.Job(module.arguments(parser, sys.argv[2:])))


def folder(name):
    if not name:
        raise argparse.ArgumentTypeError('must name a folder')
    return os.path.realpath(name)


def live(name, job):
    """Run a job, and remove what it made however it ends; the exit status."""
    team = job.team
    if team.rank:
        sys.stdout = open(os.devnull, 'w')              # what rank 0 says is enough
    for number in STOPS:
        signal.signal(number, stop)
    status, alone = 1, True             # alone: the other ranks may not know that this one ends
    try:
        status, alone = job.run(), False
    except Trouble as trouble:
        status, alone = trouble.args[0], team.left
        if team.rank == 0:
            print(f'{name}: {trouble.args[1]}', file=sys.stderr)
    except SystemExit as stopped:
        status = why = stopped.code                    # or of tcp.py: a sentence
        if isinstance(status, int):
            why = f'rank {team.rank} stopped by {signal.Signals(status - 128).name}'
        print(f'{name}: {why}', file=sys.stderr)
    except OSError as error:
        sys.stdout = None               # if it is what failed, the interpreter would fail again at its exit
        print(f'{name}: {error}', file=sys.stderr)
    finally:
        for number in STOPS:
            signal.signal(number, signal.SIG_IGN)
        with contextlib.suppress(Trouble, OSError, KeyError):
            for own in job.clean():
                print(f'{name}: could not remove {own}', file=sys.stderr)
        if alone:
            if sys.exc_info()[0]:
                traceback.print_exc()   # a fault of this program, which must not make other ranks wait
            team.leave(status)
    team.meet()
    job.close()
    return status


if __name__ == '__main__':
    sys.exit(main())
