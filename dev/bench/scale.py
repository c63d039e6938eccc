"""The time and memory of a sweep over every node of a large Slurm site: plan, run, verdict, report.

The site is simulated (``simulated``), and its jobs end at once, so the figures hold all but the measurement.

    python -m dev.bench.scale --nodes 1000 --in-flight 100
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

from dev.bench.simulated import Site
from dev.bench.took import Took, took
from parity.base import errors

NODES, IN_FLIGHT = 1000, 100
#: The limits: seconds a node in all steps together, without its measurement; MB of a step.
SECONDS, MEGABYTES = 0.6, 1000
_WHAT = ('--system', 'simulated', '-c', 'checks', '-n', '^Stream%threads=all', '--distribute=all', '-r')


def sweep(site: Site) -> dict[str, Took]:
    """Plan, run, judge and show STREAM on all cores of every node; return the cost of each step."""
    plan = f'from parity.measure.rfm import planning; print(len(planning.of_command({list(_WHAT)}).cases))'
    steps = {'plan': ('-c', plan), 'run': (f'{sys.exec_prefix}/bin/reframe', *_WHAT),
             'verdict': ('-m', 'parity.cli', 'verdict', '--json'), 'report': ('-m', 'parity.cli', 'report')}
    return {step: took(*command, cwd=site.root, env=site.environ()) for step, command in steps.items()}


def wrong(site: Site, cells: list[dict]) -> list[str]:
    """Return the nodes that the verdict judges otherwise than the site was made."""
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
    """Print the cost of each step; return True if the verdict is right and all limits hold."""
    with tempfile.TemporaryDirectory(prefix='parity-bench-') as folder:
        site = Site(Path(folder), nodes, in_flight)
        steps = sweep(site)
        for step, cost in steps.items():
            print(f'{f"{step} of STREAM on {nodes} simulated nodes":60} {cost.seconds:7.1f} s '
                  f'{cost.megabytes:6.0f} MB', flush=True)
        most, asked = site.most_in_flight(), site.asked()
        cells = json.loads(steps['verdict'].printed)['cells']
    amiss = wrong(site, cells)
    if most > in_flight:
        amiss.append(f'{most} jobs in flight, at most {in_flight} allowed')
    print('calls to Slurm: ' + ', '.join(f'{command} {count} times' for command, count in sorted(asked.items())))
    each = sum(cost.seconds for cost in steps.values()) / nodes
    words = ', '.join(f'{number} {word}' for word, number in Counter(c['verdict'] for c in cells).most_common())
    good = not amiss and each <= SECONDS and max(cost.megabytes for cost in steps.values()) <= MEGABYTES
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
    errors.run(main)
