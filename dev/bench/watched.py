"""The cost of watch.py to a short program: its seconds, and those of its job, with and without watch.py.

    python -m dev.bench.watched             # 20 pairs of a loop of .3 s
    python -m dev.bench.watched --pairs 40 -- mpirun -np 2 PREFIX/bin/cg.A.x

A program that prints `Time in seconds = ...`, as those of NPB do, is measured by that time as well.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dev.bench import pairs
from parity.base import errors, paths

#: One CPU works for about .3 s, by its own clock.
_LOOP = '''
import time
began = time.perf_counter()
for _ in range(6_000_000):
    pass
print('Time in seconds =', time.perf_counter() - began)
'''
#: A job begins anew below watch.py where it has no argument.
_JOB = """\
#!/bin/bash
[ "$1" = watched ] || [ "$1" = alone ] || exec python3 -IS ./watch.py "$0" watched
exec {command}
"""


#: The least ratio of each of the times.
TARGETS = {'program': 0.99, 'job': 0.9, 'cpu': 0.9}


@dataclass(frozen=True)
class Times:
    """The seconds of one job: by the program's clock, of the whole job, and of all its CPUs."""

    program: float
    job: float
    cpu: float


class Job:
    """A folder with the script of a job and watch.py, as a case's stage folder is."""

    def __init__(self, folder: Path, command: Sequence[str]):
        self.folder = folder
        shutil.copy(paths.root() / 'jobs' / 'programs' / 'watch.py', folder)
        script = folder / 'job.sh'
        script.write_text(_JOB.format(command=shlex.join(command)))
        script.chmod(0o755)

    def run(self, *words: str) -> Times:
        """Return what a run took; the word `alone` leaves watch.py out."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        done = subprocess.run(['./job.sh', *words], cwd=self.folder, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL)
        seconds = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            raise errors.InfrastructureError(f'the program ended with {done.returncode}: {done.stderr[-300:]}')
        printed = re.search(r'Time in seconds = +(\S+)', done.stdout)
        return Times(
            program=float(printed[1]) if printed else seconds,
            job=seconds,
            cpu=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def measure(command: Sequence[str], n: int) -> list[pairs.Ratio]:
    """Return the ratios of a program's own seconds, of its job's and of its CPU time, alone over watched."""
    with tempfile.TemporaryDirectory(prefix='parity-bench-') as folder:
        job = Job(Path(folder), command)
        both = pairs.in_turn(lambda: job.run('alone'), job.run, n)
    ratios = []
    for name, at_least in TARGETS.items():
        values = tuple((getattr(alone, name), getattr(seen, name)) for alone, seen in both)
        ratios.append(pairs.Ratio(f'seconds of the {name}, alone over watched', values, 's', at_least))
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(prog='python -m dev.bench.watched', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--pairs', type=int, default=20, help='default: %(default)s')
    parser.add_argument('command', nargs='*', help='a program; default: a loop of Python')
    given = parser.parse_args()
    os.environ.setdefault('OMP_NUM_THREADS', '1')
    ratios = measure(given.command or [sys.executable, '-IS', '-c', _LOOP], given.pairs)
    for ratio in ratios:
        print(ratio)
    sys.exit(errors.OK if all(ratio.good for ratio in ratios) else errors.REGRESSED)


if __name__ == '__main__':
    errors.run(main)
