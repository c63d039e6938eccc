"""Suspicious cases are measured again the same night, before anything is said of them.

As ReFrame sessions of their own, which name the session that they confirm: on the nodes of that session,
and, where Slurm can be told so and the partition has more, on others."""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Iterable

from parity.plan.identity import swept_apart
from parity.records.outset import RERUN_OF
from parity.system.schema import System
from parity.verdict.model import Cell

#: As many as a night has runs of a case by default: the confirmation is as sharp as the suspicion.
RUNS = 3

_SWEEPS = ('-P', '--parameterize')
#: What selects cases on ReFrame's command line: a confirmation selects its own.
_SELECTS = (('-n', '--name'), ('-x', '--exclude'), ('-t', '--tag'), ('-T', '--exclude-tag'),
            ('-E', '--filter-expr'), ('-p', '--prgenv'), ('--system',), ('--repeat',), _SWEEPS)


def runs(system: System, session: str, suspicious: Iterable[Cell], arguments: list[str]) -> list[list[str]]:
    """The arguments of one ReFrame run for each partition, environment and set of nodes. ``arguments`` are those
    of the session: what they set for the checks is set again."""
    found: dict[tuple, set[str]] = defaultdict(set)
    names = _swept(arguments)
    for cell in suspicious:
        case, swept = swept_apart(cell.case, names)
        found[cell.partition, cell.environ, tuple(cell.nodes), tuple(swept)].add(case)
    kept = _without_selection(arguments)
    return [[*kept, *_selection(system.name, partition, environ, cases), *(w for s in swept for w in ('-P', s)),
             *where, f'--repeat={RUNS}', '--session-extras', f'{RERUN_OF}={session}']
            for (partition, environ, nodes, swept), cases in sorted(found.items())
            for where in _places(system, partition, nodes)]


def _swept(arguments: list[str]) -> set[str]:
    """The variables that -P made parameters of."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument(*_SWEEPS, action='append', default=[])
    given = parser.parse_known_args(arguments)[0].parameterize
    return {one.partition('=')[0].rpartition('.')[2] for one in given}


def _without_selection(arguments: list[str]) -> list[str]:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for names in _SELECTS:
        parser.add_argument(*names, action='append')
    return parser.parse_known_args(arguments)[1]


def _selection(system: str, partition: str, environ: str, cases: set[str]) -> list[str]:
    """ReFrame matches a pattern against the start of a name without spaces; a repeat's name goes on with %. An '@'
    would make it the name of a variant."""
    names = [f'^{re.escape(case.replace(" ", "")).replace("@", ".")}(%|$)' for case in sorted(cases)]
    return ['--system', f'{system}:{partition}', '-p', f'^{re.escape(environ)}$', '-n', '|'.join(names)]


def _places(system: System, partition: str, nodes: tuple[str, ...]) -> list[list[str]]:
    """The options that send a job to the same nodes, and those that send it to others."""
    part = next(p for p in system.partitions if p.name == partition)
    if part.scheduler not in ('slurm', 'squeue') or not nodes:
        return [[]]
    listed = ','.join(nodes)
    others = part.extras.nodes is None or part.extras.nodes >= 2 * len(nodes)
    return [['-J', f'nodelist={listed}'], *([['-J', f'exclude={listed}']] if others else [])]
