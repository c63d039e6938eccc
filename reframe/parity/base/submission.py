"""Requests that a scheduler would misread or never start, refused before a case is submitted."""

from __future__ import annotations

import re

from parity.base.figures import counted

#: Makes one file of a PBS job's two; ReFrame waits until both are there.
JOINS = re.compile(r'-j\s*(oe|eo)\b')
#: A second request for chunks, which PBS ignores: parity's own comes first.
SELECTS = re.compile(r'-l\s*(\S*,)?select=')
#: Where the chunks of a PBS job go.
PLACES = re.compile(r'-l\s*(\S*,)?place=')


def one_host(part) -> str:
    """Return a sentence on a PBS partition of system.yaml whose `access` lets two chunks share a host, or ''."""
    if not part.scheduler.startswith('pbs') or part.launcher == 'local' or part.extras.nodes == 1 \
            or any(PLACES.match(option) for option in part.access):
        return ''
    return (f"partition {part.name}: access places nothing: PBS may put select=2:... on one host; "
            "add '-l place=scatter:excl'")


def problem(case) -> str:
    """Say why ``case`` (a ReFrame test after its set-up) must not be submitted; '' if it may be."""
    tasks, each = case.num_tasks or 1, case.num_tasks_per_node or 1
    have = case.current_partition.extras.get('nodes')
    nodes = -(-tasks // each)
    if have and nodes > have:
        return f'{counted(nodes, "node")} can never be had: {case.current_partition.fullname} has {have}'
    if not case.current_partition.scheduler.registered_name.startswith('pbs'):
        return ''
    if tasks % each:
        return f'{tasks} tasks, {each} a node: PBS is asked for {tasks // each} whole nodes, the rest is lost'
    job = case.job
    joins = [o for o in (*job.sched_access, *job.options, *job.cli_options) if JOINS.match(str(o).strip())]
    return f'{joins[0]}: joins the files of a PBS job, and ReFrame waits for both for ever' if joins else ''
