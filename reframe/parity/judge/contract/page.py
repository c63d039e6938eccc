"""The page of a contract, which prints on paper: what was promised and measured, on what, by whom and when."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from parity.base import files, paths
from parity.base.errors import InfrastructureError
from parity.base.figures import counted, several
from parity.base.times import minute
from parity.judge.contract import histogram, words
from parity.judge.contract.evidence import Measured
from parity.judge.contract.model import ClauseVerdict
from parity.judge.report.templates import template
from parity.judge.store.record import MEMORY_SETTINGS
from parity.site import contract as contracts
from parity.site.contract import Contract

#: Facts of a node, and of the software, in the order of the page.
_OF_NODE = ('processor', 'virtualisation', 'kernel', 'microcode', 'firmware', 'governor', 'clocksource',
            *MEMORY_SETTINGS, 'gpu_driver')
_OF_SOFTWARE = ('software', 'MPI', 'BLAS', 'ranks', 'nodes', 'threads', 'binding', 'input', 'arguments', 'check')
#: Nodes of a clause that the page lists, the worst first.
_LISTED = 20


class Fact(NamedTuple):
    """A fact, and its values; of several each has its nodes or clauses."""

    name: str
    values: list[str]


def write(system: str, contract: Contract, verdicts: Sequence[ClauseVerdict], file: Path) -> Path:
    """Write the page. InfrastructureError where it cannot be written."""
    text = rendered(system, contract, verdicts)
    try:
        files.write_all({file: text.encode()})
    except OSError as err:
        raise InfrastructureError(f'{file}: {err.strerror}; --page names a file that you may write') from None
    return file


def rendered(system: str, contract: Contract, verdicts: Sequence[ClauseVerdict]) -> str:
    """Return the page. It has no script, and all that it prints is escaped."""
    measured: list[Measured] = []
    for verdict in verdicts:
        measured += verdict.measured
    facts = {'Machine': _machines(measured), 'Software and digests': _software(verdicts),
             'Measured': _made(measured)}
    page = template('contract.html.j2', Path(__file__).parent, words=words, size=histogram)
    file = contracts.file_of(system)
    today = datetime.date.today()
    return page.render(
        title=words.answer(system, contract, verdicts),
        system=system,
        verdicts=verdicts,
        drawings={verdict.clause.id: histogram.draw(verdict) for verdict in verdicts},
        listed=_LISTED,
        facts=facts.items(),
        digest=files.sha256(file),
        version=paths.version(),
        today=today.isoformat())


def _machines(measured: Iterable[Measured]) -> list[Fact]:
    """Return what the nodes said of themselves: each value with the nodes that have it."""
    of_nodes: dict[str, dict[str, str]] = {}
    for one in measured:
        for node in one.run.nodes:
            of_nodes[node] = {**of_nodes.get(node, {}), **one.run.context}
    facts = []
    for name in _OF_NODE:
        nodes_of: dict[str, list[str]] = defaultdict(list)
        for node, context in sorted(of_nodes.items()):
            if name in context:
                nodes_of[context[name]].append(node)
        if nodes_of:
            facts.append(Fact(name.replace('_', ' '), _with_names(nodes_of)))
    return facts


def _software(verdicts: Sequence[ClauseVerdict]) -> list[Fact]:
    """Return what ran: the facts and digests of each clause's newest run."""
    facts = []
    for verdict in verdicts:
        ran = [one.run for one in verdict.measured if not one.run.status]
        if not ran:
            continue
        newest = ran[-1]
        values = []
        for name in _OF_SOFTWARE:
            value = newest.alike.get(name)
            if value:
                values.append(f'{name} {value}')
        identity = f'identity {newest.software}'
        if newest.software and identity != newest.alike.get('software'):
            values.append(identity)
        facts.append(Fact(verdict.clause.id, values))
    return facts


def _made(measured: Iterable[Measured]) -> list[Fact]:
    """Return who measured, when, and with what."""
    of_sessions = {one.session.uuid: one for one in measured}
    if not of_sessions:
        return []
    starts_of: dict[str, list[float]] = defaultdict(list)
    versions = set()
    for one in of_sessions.values():
        person = one.by or 'not known'
        starts_of[person].append(one.session.start)
        parity = one.session.facts.get('parity', 'not known')
        versions.add(f'parity {parity}, ReFrame {one.session.reframe}')
    people = []
    for person, starts in sorted(starts_of.items()):
        sessions = counted(len(starts), 'session')
        first = minute(min(starts))
        last = minute(max(starts))
        people.append(f'{person}: {sessions}, {first} to {last}')
    uuids = sorted(uuid[:8] for uuid in of_sessions)
    return [Fact('measured by', people), Fact('versions', sorted(versions)), Fact('sessions', uuids)]


def _with_names(nodes_of: Mapping[str, list[str]]) -> list[str]:
    """Return each value, with its nodes where there are several values."""
    if len(nodes_of) == 1:
        return list(nodes_of)
    return [f'{value} ({several(names)})' for value, names in nodes_of.items()]
