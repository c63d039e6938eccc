"""The codes that parity measures beside the same programs built by hand, in turns, as ratios.

    python -m dev.bench.codes                                       # Spack's build here: HPL over DGEMM
    python -m dev.bench.codes --hand FOLDER                         # and all codes over those in FOLDER
    python -m dev.bench.codes --ours PREFIX --hand FOLDER --pairs 10 stream npb

A folder has its programs in bin/, or is bin/ itself. 1.00 is as fast as by hand. The ratio of a latency is turned:
more is better in every line. A line says why a code was left out.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dev.bench import pairs
from parity.base import codes, errors, paths
from parity.base.errors import InfrastructureError
from parity.measure import machine
from parity.measure.check import sizing
from parity.measure.check.reader import Refused, room
from parity.measure.check.sizing import Dense
from parity.measure.software import discover
from parity.measure.software.programs import Environ, root_variables

#: HPL takes this share of the memory, and about so many seconds.
MEMORY, SECONDS = 0.5, 30
#: The least ratio of HPL to DGEMM of its shape, and of a build to the same by hand.
OF_DGEMM, OF_HAND = 0.85, 0.98
OSU = '../libexec/osu-micro-benchmarks/mpi/pt2pt'


@dataclass(frozen=True)
class Race:
    """One program of a code, and the figure that is compared. ``lower``: less is better."""

    code: str
    title: str
    program: str                    # below bin/
    figure: str                     # as `parity parse` names it
    unit: str
    arguments: tuple[str, ...] = ()
    ranks: int = 0                  # 0: without a launcher
    lower: bool = False


def races(cores: int, npb_class: str) -> list[Race]:
    """Return what is compared on a node of so many cores, but for HPL."""
    ranks = 1 << cores.bit_length() - 1         # of NPB: a power of two
    two = min(2, cores)
    ior = ('-a', 'POSIX', '-F', '-b', '128m', '-t', '1m', '-e', '-w', '-r', '-o', 'data')
    fio = ('--output-format=json', '--name=random', '--filename=data', '--size=64m', '--rw=randread', '--bs=4k',
           '--ioengine=psync', '--runtime=3', '--time_based')
    npb = []
    for name in ('cg', 'ep', 'ft', 'is', 'lu', 'mg'):
        title = f'NPB {name.upper()}.{npb_class}'
        npb.append(Race('npb', title, f'{name}.{npb_class}.x', 'mops_total', 'Mop/s', (), ranks))
    return [
        Race('stream', 'STREAM Triad', 'stream_c.exe', 'triad', 'MB/s'),
        *npb,
        Race('osu', 'OSU latency, 8 B', f'{OSU}/osu_latency', 'latency_8', 'us', ('-m', '1:8192'), two, True),
        Race('osu', 'OSU bandwidth, 1 MiB', f'{OSU}/osu_bw', 'bw_1048576', 'MB/s', ('-m', '1:1048576'), two),
        Race('ior', 'IOR write', 'ior', 'write', 'MiB/s', ior, two),
        Race('fio', 'fio random read, 4 KiB', 'fio', 'random_read_iops', 'op/s', fio),
    ]


class Build:
    """The programs in a folder, with the variables that they run with: those of parity's checks."""

    def __init__(self, folder: Path, variables: dict[str, str], cores: int):
        self.bin = folder / 'bin' if (folder / 'bin').is_dir() else folder
        self.cores = cores
        self.variables = {**os.environ, **root_variables(), 'OMP_NUM_THREADS': '1', 'OPENBLAS_NUM_THREADS': '1'}
        for name, value in variables.items():
            self.variables[name] = value.replace('$PATH', os.environ.get('PATH', ''))

    @classmethod
    def of_environ(cls, environ: Environ, cores: int) -> Build:
        return cls(Path(environ.software['view']), environ.env_vars, cores)

    def program(self, name: str) -> str:
        """Return the path of a program; '' where there is none."""
        for file in (self.bin / name, self.bin / Path(name).name):
            if file.is_file():
                return str(file)
        return ''

    def hpl(self, problem: Dense) -> float:
        """Return the Gflop/s of one HPL run on all cores whose residual passed."""
        own = codes.named('hpl')
        dat = problem.into((own.file.parent / 'HPL.dat').read_text())
        text = self._run('hpl', [self.program('xhpl')], self.cores, {}, {'HPL.dat': dat})
        return room(own).read(text)[0]['gflops']

    def dgemm(self, problem: Dense) -> float:
        """Return the Gflop/s of all cores that run DGEMM of HPL's shape, with the BLAS of HPL."""
        own = room(codes.named('hpl'))
        program = Path(own.__file__).parent / 'programs' / 'dgemm.py'
        words = [self.program('xhpl'), str(own.update_order(problem)), str(problem.nb), '4']
        text = self._run('hpl', ['python3', '-IS', str(program), *words], self.cores, {})
        gflops = own.update_gflops(text, self.cores)
        if not gflops:
            raise InfrastructureError(f'DGEMM of HPL: {text[-300:]}')
        return gflops

    def triad(self, threads: int, bind: str) -> float:
        """Return the MB/s of STREAM's Triad with this number and binding of threads."""
        placed = {'OMP_NUM_THREADS': str(threads), 'OMP_PROC_BIND': bind, 'OMP_PLACES': 'cores'}
        text = self._run('stream', [self.program('stream_c.exe')], 0, placed)
        return room(codes.named('stream')).read(text)[0]['triad']

    def race(self, race: Race) -> float:
        """Return the figure of one run."""
        if race.code == 'stream':
            return self.triad(self.cores, 'spread')
        text = self._run(race.code, [self.program(race.program), *race.arguments], race.ranks, {})
        return room(codes.named(race.code)).read(text)[0][race.figure]

    def _run(self, code: str, words: list[str], ranks: int, more: dict[str, str],
             files: dict[str, str] | None = None) -> str:
        """Return what a program of a code printed, which ran in a folder with these files."""
        variables = {**self.variables, **more}
        if codes.named(code).huge_pages:
            variables.setdefault('GLIBC_TUNABLES', 'glibc.malloc.hugetlb=1')
        launcher = ['mpirun', '-np', str(ranks)] if ranks else []
        with tempfile.TemporaryDirectory(prefix='parity-bench-') as work:
            for name, content in (files or {}).items():
                Path(work, name).write_text(content)
            done = subprocess.run([*launcher, *words], cwd=work, env=variables, capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL)
        if done.returncode:
            raise InfrastructureError(f'{" ".join(words)}: exit code {done.returncode}: {done.stderr[-300:]}')
        return done.stdout


class Lacking(Exception):
    """A comparison lacks a program, or a side: it is left out."""


@dataclass(frozen=True)
class Bench:
    """Our programs beside those by hand, where there are any: so many pairs each."""

    ours: Build
    hand: Build | None
    problem: Dense
    pairs: int
    npb_class: str = 'A'

    def run(self, chosen: list[str]) -> bool:
        """Print the ratios of the chosen codes, and why others are left out. Return whether all are good."""
        good = True
        for title, measure in self._turns(chosen):
            try:
                ratio = measure()
            except Lacking as why:
                print(f'skipped: {title}: {why}', flush=True)
            except (InfrastructureError, Refused) as why:
                print(f'failed: {title}: {why}', flush=True)
                good = False
            else:
                print(ratio, flush=True)
                good = good and ratio.good
        return good

    def _turns(self, chosen: list[str]) -> Iterator[tuple[str, Callable[[], pairs.Ratio]]]:
        """Yield the title of each comparison, and what measures it."""
        if 'hpl' in chosen:
            print(f'HPL: {self.problem.why}', flush=True)
            yield 'HPL over DGEMM of its shape', self._over_dgemm
            hpl = Race('hpl', 'HPL', 'xhpl', 'gflops', 'Gflop/s')
            yield 'HPL', partial(self._over_hand, hpl, lambda build: build.hpl(self.problem))
        for race in races(self.ours.cores, self.npb_class):
            if race.code in chosen:
                yield race.title, partial(self._over_hand, race, partial(_raced, race))

    def _over_dgemm(self) -> pairs.Ratio:
        if not self.ours.program('xhpl'):
            raise Lacking(f'no xhpl in {self.ours.bin}')
        return pairs.run('HPL over DGEMM of its shape', partial(self.ours.hpl, self.problem),
                         partial(self.ours.dgemm, self.problem), 'Gflop/s', OF_DGEMM, self.pairs)

    def _over_hand(self, race: Race, figure: Callable[[Build], float]) -> pairs.Ratio:
        if self.hand is None:
            raise Lacking('no --hand FOLDER')
        for build in (self.ours, self.hand):
            if not build.program(race.program):
                raise Lacking(f'no {Path(race.program).name} in {build.bin}')
        sides = [partial(figure, self.ours), partial(figure, self.hand)]
        what = f'{race.title} over the same by hand'
        if race.lower:
            sides.reverse()
            what = f'{race.title}, by hand over ours'
        return pairs.run(what, *sides, race.unit, OF_HAND, self.pairs)


def _raced(race: Race, build: Build) -> float:
    return build.race(race)


def built(root: Path, cache: Path) -> Environ | None:
    """Return Spack's environment on this machine; None where nothing is built."""
    found = discover.discover(root, (), cache / 'software.json', 'local')
    return next((environ for environ in found.environs if environ.provider == 'spack'), None)


def main() -> None:
    known = ['hpl', *dict.fromkeys(race.code for race in races(1, 'A'))]
    parser = argparse.ArgumentParser(prog='python -m dev.bench.codes', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--ours', type=Path, metavar='FOLDER', help="default: Spack's build on this machine")
    parser.add_argument('--hand', type=Path, metavar='FOLDER', help='the same programs, built by hand')
    parser.add_argument('--pairs', type=int, default=5, help='default: %(default)s')
    parser.add_argument('--npb-class', default='A', help='default: %(default)s')
    parser.add_argument('codes', nargs='*', metavar='CODE', help=f'default: all: {", ".join(known)}')
    given = parser.parse_args()
    unknown = set(given.codes) - set(known)
    if unknown:
        parser.error(f'unknown: {", ".join(sorted(unknown))}; valid: {", ".join(known)}')
    cache = paths.results() / 'cache'
    here = machine.load(cache / 'machine.json')
    ours = _ours(given.ours, cache, here.cores)
    hand = Build(given.hand, {}, here.cores) if given.hand else None
    guess = here.cores * sizing.gflops_guess(here.simd)
    problem = sizing.dense(here.memory_bytes, here.cores, MEMORY, SECONDS, guess)
    bench = Bench(ours, hand, problem, given.pairs, given.npb_class)
    sys.exit(errors.OK if bench.run(given.codes or known) else errors.REGRESSED)


def _ours(folder: Path | None, cache: Path, cores: int) -> Build:
    if folder:
        return Build(folder, {}, cores)
    environ = built(paths.root(), cache)
    if environ is None:
        raise errors.UsageError('nothing is built here: name a folder with --ours, or run parity software build')
    return Build.of_environ(environ, cores)


if __name__ == '__main__':
    errors.run(main)
