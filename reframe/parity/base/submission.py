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
    return next((f'{str(option)!r}{why}' for option in options for pattern, why in _OPTIONS
                 if pattern.match(str(option).strip())), '')


def places_nothing(part) -> bool:
    """Return whether `access` of a PBS partition of system.yaml lets two chunks share a host."""
    return part.scheduler.startswith('pbs') and part.launcher != 'local' and part.extras.nodes != 1 \
        and not any(_PLACES.match(option) for option in part.access)


def of_case(case) -> str:
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
    options = [*case.job.sched_access, *case.job.options, *case.job.cli_options]
    packed = next((option for option in options if nodes > 1 and _PACKED.match(str(option).strip())), '')
    return f'{packed!r}: a job of {nodes} nodes never starts on one host, and PBS does not say so' if packed \
        else of_options(options)
