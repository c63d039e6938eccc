"""Requests that a scheduler would misread or never start, refused before a case is submitted."""

from __future__ import annotations

import re
from collections.abc import Iterable

from parity.base.figures import counted

#: Of PBS's options: those that end badly, and why.
_OPTIONS = ((re.compile(r'-j\s*(oe|eo)\b'), ' joins the files of a PBS job, and ReFrame waits for both for ever'),
            (re.compile(r'-l\s*(\S*,)?select='), ': PBS ignores a second select, and parity writes the first; '
             'write what a chunk needs without -l select, such as mem=64gb'))
#: Where the chunks of a PBS job go.
_PLACES = re.compile(r'-l\s*(\S*,)?place=')
_PACKED = re.compile(r'-l\s*(\S*,)?place=(\S*:)?pack\b')
#: The option that gives each chunk a host of its own, and nobody else.
SCATTER = '-l place=scatter:excl'
#: What is wrong where nothing says that.
SHARED = 'access places nothing: PBS may put select=2:... on one host'


def of_options(options: Iterable[object]) -> str:
    """Return a sentence on the first of PBS's options that ends badly; '' for none."""
    for option in map(str, options):
        for pattern, why in _OPTIONS:
            if pattern.match(option.strip()):
                return f'{option!r}{why}'
    return ''


def places_nothing(part) -> bool:
    """Return whether `access` of a PBS partition of system.yaml lets two chunks share a host."""
    several_nodes = part.launcher != 'local' and part.extras.nodes != 1
    if not part.scheduler.startswith('pbs') or not several_nodes:
        return False
    return not any(_PLACES.match(option) for option in part.access)


def of_case(case) -> str:
    """Say why ``case`` (a ReFrame test after its set-up) must not be submitted; '' if it may be."""
    partition = case.current_partition
    tasks = case.num_tasks or 1
    tasks_per_node = case.num_tasks_per_node or 1
    nodes = -(-tasks // tasks_per_node)
    available = partition.extras.get('nodes')
    if available and nodes > available:
        return f'needs {counted(nodes, "node")}, {partition.fullname} has {available}'
    if not partition.scheduler.registered_name.startswith('pbs'):
        return ''
    if tasks % tasks_per_node:
        return (f'{tasks} tasks do not divide by {tasks_per_node} per node: '
                f'PBS would drop the last {tasks % tasks_per_node}')
    options = [*case.job.sched_access, *case.job.options, *case.job.cli_options]
    if nodes > 1:
        for option in map(str, options):
            if _PACKED.match(option.strip()):
                return f'{option!r}: a job of {nodes} nodes never starts on one host, and PBS does not say so'
    return of_options(options)
