"""Suspicious cases are measured again the same night, before the verdict. Extra ReFrame sessions do that and
name the session that they confirm. They run on that session's nodes, and under Slurm on others, if the partition
has more."""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Iterable

from parity.plan.identity import swept_apart
from parity.records.outset import RERUN_OF
from parity.system.schema import System
from parity.verdict.model import Cell

#: Runs of each case, as many as a night has by default: the confirmation is as sharp as the suspicion.
RUNS = 3
#: Options of ReFrame that select cases: a confirmation selects its own.
_SELECTS = (('-n', '--name'), ('-x', '--exclude'), ('-t', '--tag'), ('-T', '--exclude-tag'), ('--system',),
            ('-E', '--filter-expr'), ('-p', '--prgenv'), ('--repeat',), ('-P', '--parameterize'))


def runs(system: System, session: str, suspicious: Iterable[Cell], arguments: list[str]) -> list[list[str]]:
    """Return the arguments of one ReFrame run for each partition, environment and set of nodes.

    ``arguments`` are those of the session: what they set for the checks is set again."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for options in _SELECTS:
        parser.add_argument(*options, action='append', default=[])
    given, kept = parser.parse_known_args(arguments)
    names = {one.partition('=')[0].rpartition('.')[2] for one in given.parameterize}
    found: dict[tuple, set[str]] = defaultdict(set)
    for cell in suspicious:
        case, swept = swept_apart(cell.case, names)
        found[cell.partition, cell.environ, tuple(cell.nodes), tuple(swept)].add(case)
    return [[*kept, *_selection(system.name, partition, environ, cases), *(w for s in swept for w in ('-P', s)),
             *where, f'--repeat={RUNS}', '--session-extras', f'{RERUN_OF}={session}']
            for (partition, environ, nodes, swept), cases in sorted(found.items())
            for where in _places(system, partition, nodes)]


def _selection(system: str, partition: str, environ: str, cases: set[str]) -> list[str]:
    """Return the options that select the very cases.

    ReFrame matches a pattern against the start of a name without spaces. A repeat's name goes on with %; an '@'
    would make it the name of a variant."""
    names = [f'^{re.escape(case.replace(" ", "")).replace("@", ".")}(%|$)' for case in sorted(cases)]
    return ['--system', f'{system}:{partition}', '-p', f'^{re.escape(environ)}$', '-n', '|'.join(names)]


def _places(system: System, partition: str, nodes: tuple[str, ...]) -> list[list[str]]:
    """Return the options that send a job to the same nodes, and those that send it to others."""
    part = next(p for p in system.partitions if p.name == partition)
    if part.scheduler not in ('slurm', 'squeue') or not nodes:
        return [[]]
    listed = ','.join(nodes)
    others = part.extras.nodes is None or part.extras.nodes >= 2 * len(nodes)
    return [['-J', f'nodelist={listed}'], *([['-J', f'exclude={listed}']] if others else [])]
