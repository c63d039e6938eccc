"""The command line of ci/bench: one printed line a ratio; exit code 1 if one misses its target."""

from __future__ import annotations

import argparse
import sys
from functools import partial

from dev.bench import harness, large, page, pairs, scale
from dev.bench.codes import OF_DGEMM, Build, built
from dev.bench.took import took
from parity.base import errors, paths
from parity.measure import machine
from parity.measure.check import sizing

PAIRS = 3
#: The size of the study of 2012 (N 4942, NB 16): small blocks, where DGEMM is far from its best.
STUDY = (4942, 16)


def main() -> None:
    argparse.ArgumentParser(prog='ci/bench', description=__doc__).parse_args()
    ratios = [_listing()]
    cache = paths.results() / 'cache'
    here = machine.load(cache / 'machine.json')
    environ = built(paths.root(), cache)
    if environ:
        ratios += _codes(Build.of_environ(environ, here.cores), here)
    else:
        print('skipped: HPL and STREAM: nothing is built (parity software build)')
    others = [harness.run(), page.run(), large.run(), scale.run()]
    sys.exit(errors.OK if all(others) and all(r.good for r in ratios) else errors.REGRESSED)


def _show(ratio: pairs.Ratio) -> pairs.Ratio:
    print(ratio, flush=True)
    return ratio


def _listing() -> pairs.Ratio:
    words = f'{sys.exec_prefix}/bin/reframe', '-c', str(paths.root() / 'checks'), '-l'
    return _show(pairs.run('2 s against listing all checks', lambda: 2.0, lambda: _listed(words), 's', 1.0, PAIRS))


def _listed(words: tuple[str, ...]) -> float:
    listed = took(*words)
    if listed.code:
        raise errors.InfrastructureError(f'reframe -l ended with {listed.code}: {listed.printed[-500:]}')
    return listed.seconds


def _codes(build: Build, here: machine.Machine) -> list[pairs.Ratio]:
    guess = here.cores * sizing.gflops_guess(here.simd)
    ours = sizing.dense(here.memory_bytes, here.cores, 0.5, 60, guess)
    small = sizing.Dense(*STUDY, *sizing.grid(here.cores), why='the study of 2012')
    print(f'HPL: {ours.why}')
    beside = _show(pairs.run('HPL over DGEMM of its shape', lambda: build.hpl(ours), lambda: build.dgemm(ours),
                             'Gflop/s', OF_DGEMM, PAIRS))
    against = _show(pairs.run(f'HPL against N {STUDY[0]}, NB {STUDY[1]}', lambda: build.hpl(ours),
                              lambda: build.hpl(small), 'Gflop/s', 1.5, PAIRS))
    return [beside, against, _triad(build, here.cores)]


def _triad(build: Build, cores: int) -> pairs.Ratio:
    ways = {f'{n} threads, {bind}': partial(build.triad, n, bind)
            for n in sorted({1, max(1, cores // 2), cores}) for bind in ('spread', 'close', 'false')}
    return _show(pairs.among('Triad against the best way', f'{cores} threads, spread', ways, 'MB/s', 0.95, PAIRS))


if __name__ == '__main__':
    errors.run(main)
