"""Sessions of ReFrame that measure chosen nodes by a night's selection of cases (reframe --distribute).

Jobs on several nodes are left out. Such a session belongs to no night: no verdict judges its cells, and none
misses one."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from parity.base import paths
from parity.base.figures import counted, several
from parity.judge.nodes.listing import ListedNode
from parity.judge.store import database
from parity.judge.store.plan_file import RERUN_OF
from parity.judge.store.record import Run, node_name
from parity.measure.session import runner
from parity.site import identity


def on(nodes: Sequence[ListedNode], arguments: list[str], step: str, seconds: float | None = None,
       more: Sequence[str] = ()) -> tuple[str, list[str], dict[str, list[Run]]]:
    """Measure the nodes. Return why ReFrame was stopped or '', the new sessions, and their runs by node.

    ``arguments``: of a night's ReFrame, and ``more`` of this one. ``seconds``: its limit."""
    before = set(database.uuids())
    names = ','.join(node.asked for node in nodes)
    stopped = runner.reframe(['-c', str(paths.root() / 'checks'), '-r', *_selection(arguments), '--distribute=all',
                              '-J', f'nodelist={names}', *more, '--session-extras', f'{RERUN_OF}=nodes'],
                             seconds, step)
    sessions, runs = [uuid for uuid in database.uuids() if uuid not in before], defaultdict(list)
    for run in (run for uuid in sessions for run in database.read(uuid).runs):
        case, node = identity.undistributed(run.case)
        if node:
            runs[node_name(node)].append(replace(run, case=case))
    return stopped, sessions, runs


def _selection(arguments: list[str]) -> list[str]:
    """Return the options that select and size a night's cases, without those that say how often and where."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for options in (('--repeat',), ('--session-extras',), ('-J', '--job-option'), ('--distribute',),
                    ('-c', '--checkpath')):
        parser.add_argument(*options, action='append')
    parser.add_argument('-r', '--run', action='store_true')
    return parser.parse_known_args(arguments)[1]


def faults(runs: list[Run]) -> str:
    """Return the first case that failed or was wrong, and how many more runs did; '' where none did."""
    bad = [f'{run.case}: {run.status}: {run.reason}' for run in runs
           if run.status in ('failed', 'wrong') and not run.unfinished]
    more = f' (and {counted(len(bad) - 1, "more run")})' if bad[1:] else ''
    return f'{bad[0]}{more}' if bad else ''


def disturbed(runs: list[Run]) -> str:
    """Return that others used the node's CPUs in all runs of some cases, with their names; '' where they did
    not."""
    cases = sorted({run.case for run in runs} - {run.case for run in runs if not run.disturbed})
    return f'others used its CPUs in all runs of {several(cases)}' if cases else ''
