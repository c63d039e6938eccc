"""Sessions of ReFrame that measure chosen nodes by a night's selection of cases (reframe --distribute).

Jobs on several nodes are left out. Such a session belongs to no night: no verdict judges its cells, and none
misses one."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from parity.base import paths
from parity.base.figures import counted, several
from parity.judge.nodes.listing import ListedNode
from parity.judge.store import database
from parity.judge.store.plan_file import RERUN_OF
from parity.judge.store.record import Run, node_name
from parity.measure.session import runner
from parity.site import identity


@dataclass(frozen=True)
class Measured:
    """The outcome of measuring nodes: why ReFrame was stopped or '', the new sessions, and their runs by node."""

    stopped: str
    sessions: list[str]
    runs: dict[str, list[Run]]


def on(nodes: Sequence[ListedNode], arguments: list[str], step: str, seconds: float | None = None,
       more: Sequence[str] = ()) -> Measured:
    """Measure the nodes. ``arguments``: of a night's ReFrame, and ``more`` of this one. ``seconds``: its limit."""
    before = set(database.uuids())
    names = ','.join(node.asked for node in nodes)
    command = ['-c', str(paths.root() / 'checks'), '-r', *_selection(arguments)]
    command += ['--distribute=all', '-J', f'nodelist={names}', *more, '--session-extras', f'{RERUN_OF}=nodes']
    stopped = runner.reframe(command, seconds, step)
    sessions = [uuid for uuid in database.uuids() if uuid not in before]
    runs = defaultdict(list)
    for uuid in sessions:
        for run in database.read(uuid).runs:
            case, node = identity.undistributed(run.case)
            if node:
                runs[node_name(node)].append(replace(run, case=case))
    return Measured(stopped, sessions, runs)


def _selection(arguments: list[str]) -> list[str]:
    """Return the options that select and size a night's cases, without those that say how often and where."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument('-r', '--run', action='store_true')
    parser.add_argument('--repeat')
    parser.add_argument('--session-extras')
    parser.add_argument('-J', '--job-option')
    parser.add_argument('--distribute')
    parser.add_argument('-c', '--checkpath')
    _, others = parser.parse_known_args(arguments)
    return others


def faults(runs: list[Run]) -> str:
    """Return the first case that failed or was wrong, and how many more runs did; '' where none did."""
    bad = [run for run in runs if run.status in ('failed', 'wrong') and not run.unfinished]
    if not bad:
        return ''
    first = f'{bad[0].case}: {bad[0].status}: {bad[0].reason}'
    others = len(bad) - 1
    return f'{first} (and {counted(others, "more run")})' if others else first


def disturbed(runs: list[Run]) -> str:
    """Return that others used the node's CPUs in all runs of some cases, with their names; '' where they did
    not."""
    undisturbed = {run.case for run in runs if not run.disturbed}
    cases = sorted({run.case for run in runs} - undisturbed)
    return f'others used its CPUs in all runs of {several(cases)}' if cases else ''
