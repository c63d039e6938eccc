"""The time and memory of a sweep over every node of a large Slurm site, from the plan to the page and the export.

The site is simulated (``simulated``), and its jobs end at once, so the figures hold all but the measurement.

    python -m dev.bench.scale --nodes 10000
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from dev.bench.page import is_quick
from dev.bench.simulated import Site
from dev.bench.took import Took, at_most, took
from parity.base import errors

NODES, IN_FLIGHT = 1000, 100
#: The limits of a step hold for so many nodes. For fewer nodes the seconds are fewer in proportion.
_LIMITED = 10_000
#: Seconds that a step may take on the smallest site: it starts Python.
_LEAST = 3.0
_WHAT = ('--system', 'simulated', '-c', 'checks', '-n', '^Stream%threads=all', '--distribute=all', '-r')
_PLAN = f'from parity.measure.rfm import planning; print(len(planning.of_command({list(_WHAT)}).cases))'


@dataclass(frozen=True)
class Step:
    """A command: the words for Python, and its limits on a site of ``_LIMITED`` nodes."""

    words: tuple[str, ...]
    seconds: float
    megabytes: float = 600

    def at_most(self, nodes: int) -> float:
        """Return the seconds that it may take on a site of so many nodes."""
        return max(_LEAST, self.seconds * nodes / _LIMITED)


def _parity(*words: str, seconds: float, megabytes: float = 600) -> Step:
    return Step(('-m', 'parity.cli', *words), seconds, megabytes)


STEPS = {
    'plan': Step(('-c', _PLAN), seconds=30),
    'run': Step((f'{sys.exec_prefix}/bin/reframe', *_WHAT), seconds=1800, megabytes=1000),
    'verdict': _parity('verdict', '--json', seconds=10),
    'report': _parity('report', seconds=30, megabytes=1100),
    'nodes': _parity('nodes', seconds=5),
    'summary': _parity('summary', seconds=15, megabytes=700),
    'export': _parity('export', '--openmetrics', 'metrics.txt', '--csv', 'figures.csv',
                      seconds=15, megabytes=700),
}


def sweep(site: Site) -> dict[str, Took]:
    """Run STREAM on all cores of every node, with all steps before and after; return the cost of each step."""
    return {name: took(*step.words, cwd=site.root, env=site.environ()) for name, step in STEPS.items()}


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
    print(f'STREAM on {nodes:,} simulated nodes, {in_flight} jobs in flight', flush=True)
    with tempfile.TemporaryDirectory(prefix='parity-bench-') as folder:
        site = Site(Path(folder), nodes, in_flight)
        costs = sweep(site)
        kept = [_kept(name, costs[name], nodes) for name in STEPS]
        kept.append(_page(site))
        return _right(site, costs['verdict'], in_flight) and all(kept)


def _kept(name: str, cost: Took, nodes: int) -> bool:
    """Print the cost of a step with its limits; return whether it keeps to them."""
    step = STEPS[name]
    if cost.code not in (errors.OK, errors.REGRESSED):
        print(f'{name} ended with {cost.code}: {cost.printed[-500:]}')
        return False
    in_time = at_most(f'{name} (CPU {cost.cpu:.1f} s)', cost.seconds, step.at_most(nodes), 's')
    return at_most('    memory at its peak', cost.megabytes, step.megabytes, 'MB') and in_time


def _page(site: Site) -> bool:
    """Print the size of the report's first page and the time to open it; return whether it keeps to the limits."""
    folder = site.results / 'report'
    first = folder / 'index.html'
    others = [file for file in folder.rglob('*.html') if file != first]
    total = sum(file.stat().st_size for file in others) / 1e6
    return is_quick(first, f'the page; {len(others)} others have {total:.1f} MB')


def _right(site: Site, verdict: Took, in_flight: int) -> bool:
    """Print the verdict's words and the calls to Slurm; return whether they are as the site was made."""
    cells = json.loads(verdict.printed)['cells']
    amiss = wrong(site, cells)
    most = site.most_in_flight()
    if most > in_flight:
        amiss.append(f'{most} jobs in flight, at most {in_flight} allowed')
    calls = ', '.join(f'{command} {count:,} times' for command, count in sorted(site.asked().items()))
    print(f'calls to Slurm: {calls}; {most} jobs in flight at most')
    counts = Counter(cell['verdict'] for cell in cells)
    words = ', '.join(f'{count:,} {word}' for word, count in counts.most_common())
    print(f'{len(cells):,} cells: {words}   {"; ".join(amiss[:5]) or "ok"}', flush=True)
    return not amiss


def main() -> None:
    parser = argparse.ArgumentParser(prog='python -m dev.bench.scale', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--nodes', type=int, default=NODES)
    parser.add_argument('--in-flight', type=int, default=IN_FLIGHT)
    args = parser.parse_args()
    if min(args.nodes, args.in_flight) < 1:
        parser.error('--nodes and --in-flight must be whole numbers above 0')
    sys.exit(errors.OK if run(args.nodes, args.in_flight) else errors.REGRESSED)


if __name__ == '__main__':
    errors.run(main)
