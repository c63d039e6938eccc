"""What a sweep over every node of a large Slurm site takes: plan, run, verdict, report, each with its time.

Everything but the measurement itself is measured: the site is simulated (``simulated``), and its jobs end at once.

    python -m dev.bench.scale --nodes 1000 --in-flight 100
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from dev.bench.simulated import Site
from parity.base import errors

NODES, IN_FLIGHT = 1000, 100
#: What a node may cost in all steps together beside its measurement (seconds), and what a step may take (MB).
SECONDS, MEGABYTES = 0.6, 1000
_WHAT = ('--system', 'simulated', '-c', 'checks', '-n', 'Stream%threads=all', '--distribute=all', '-r')


@dataclass(frozen=True)
class Step:
    """One command: its seconds, and the most memory (MB) that it, or a process of its, had."""

    what: str
    seconds: float
    megabytes: float
    code: int
    printed: str


def sweep(site: Site) -> list[Step]:
    """STREAM on all cores of every node: planned, run, judged, shown."""
    plan = f'from parity import plan; print(len(plan.of_command({list(_WHAT)}).cases))'
    return [_step(site, 'plan', '-c', plan),
            _step(site, 'run', f'{sys.exec_prefix}/bin/reframe', *_WHAT),
            _step(site, 'verdict', '-m', 'parity.cli', 'verdict', '--json'),
            _step(site, 'report', '-m', 'parity.cli', 'report')]


def _step(site: Site, what: str, *command: str) -> Step:
    began = time.perf_counter()
    with tempfile.TemporaryFile('w+') as out:
        child = subprocess.Popen([sys.executable, *command], cwd=site.root, env=site.environ(),
                                 stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        return Step(what, time.perf_counter() - began, used.ru_maxrss / 1024, child.returncode, out.read())


def wrong(site: Site, cells: list[dict]) -> list[str]:
    """What the verdict does not say as the site was made; [] where all is well."""
    words: dict[str, set[str]] = {name: set() for name in site.names}
    for cell in cells:
        words[cell['case'].rpartition('=')[2]].add(cell['verdict'])
    found = []
    for name, said in words.items():
        want = 'failed' if name in site.states else 'regressed' if name in site.slow else 'ok'
        if said - {'skipped'} != {want}:
            found.append(f'{name}: {", ".join(sorted(said)) or "nothing"}, not {want}')
    return found


def run(nodes: int = NODES, in_flight: int = IN_FLIGHT) -> bool:
    """Print what each step took; True where the verdict is right, and all is as it should be."""
    with tempfile.TemporaryDirectory(prefix='parity-bench-') as folder:
        site = Site(Path(folder), nodes, in_flight)
        steps = sweep(site)
        for step in steps:
            print(f'{f"{step.what} of STREAM on {nodes} simulated nodes":60} {step.seconds:7.1f} s '
                  f'{step.megabytes:6.0f} MB', flush=True)
        most, asked = site.most_in_flight(), site.asked()
        cells = json.loads(steps[2].printed)['cells']
    amiss = wrong(site, cells)
    if most > in_flight:
        amiss.append(f'{most} jobs in flight, at most {in_flight} allowed')
    print('Slurm was asked: ' + ', '.join(f'{command} {count} times' for command, count in sorted(asked.items())))
    each = sum(step.seconds for step in steps) / nodes
    words = ', '.join(f'{number} {word}' for word, number in Counter(c['verdict'] for c in cells).most_common())
    good = not amiss and each <= SECONDS and max(step.megabytes for step in steps) <= MEGABYTES
    print(f'{len(cells)} cells: {words}; {most} jobs in flight at most; {each:.2f} s a node, at most {SECONDS} s, '
          f'and {MEGABYTES} MB   {"ok" if good else "; ".join(amiss[:5]) or "ABOVE"}', flush=True)
    return good


def main() -> None:
    parser = argparse.ArgumentParser(prog='python -m dev.bench.scale', description=__doc__)
    parser.add_argument('--nodes', type=int, default=NODES)
    parser.add_argument('--in-flight', type=int, default=IN_FLIGHT)
    args = parser.parse_args()
    if min(args.nodes, args.in_flight) < 1:
        parser.error('--nodes and --in-flight must be whole numbers above 0')
    sys.exit(errors.OK if run(args.nodes, args.in_flight) else errors.REGRESSED)


if __name__ == '__main__':
    errors.told(main)
