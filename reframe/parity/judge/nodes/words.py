"""`parity nodes` and `parity node` as lines of (text, style)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from parity.base import paths, times
from parity.base.console import Line
from parity.base.figures import change, counted, duration, percent, several
from parity.base.text import visible
from parity.judge.nodes import listing
from parity.judge.nodes.figures import PARTS
from parity.judge.nodes.listing import ListedNode
from parity.judge.stats.peers import FEWEST
from parity.judge.store import incidents
from parity.judge.store.incidents import Change
from parity.site import systems
from parity.site.nodes import Scheduled
from parity.site.systems import System

_DAY = 86400
#: Sessions in a node's history; days after which a node counts as unmeasured for long.
_NIGHTS, _RECENT = 14, 30
#: Facts of a node's hardware; another one under its name is another node.
_HARDWARE = ('processor', 'memory', 'microcode', 'firmware')
#: The last line of a listing with speeds.
_LEGEND = ('change beside the peers, in brackets that of the newest night alone; !: clear of their scatter by '
           'several nights (at most one of 100 listings of sound nodes has a !); ?: not clear, or fewer than '
           f'{FEWEST} peers have the same case and software')


def lines(system: System, nodes: list[ListedNode], scheduled: Scheduled,
          changes: Iterable[Change] = ()) -> Iterator[Line]:
    """Yield which nodes are slower, out of service, unmeasured or of other hardware, then a line for each.
    ``changes``: of its nights."""
    now = time.time()
    for text in coverage(system.name, nodes, scheduled.unknown):
        yield text, 'bold'
    for fact in changes:
        is_hardware = fact.fact in _HARDWARE and fact.nodes
        if is_hardware and now - fact.since < _RECENT * _DAY:
            yield f'other hardware under the same name: {visible(fact.what)} since {fact.when}', 'yellow'
    for warning in listing.unknown_retired(system, scheduled):
        yield warning, 'yellow'
    gone = systems.gone(system, now)
    if gone:
        yield f'retired: {several(sorted(gone))}'
    if nodes:
        yield from _table(system, nodes, now)


def _table(system: System, nodes: list[ListedNode], now: float) -> Iterator[Line]:
    """Yield a head, a line for each node, those first that a person should look at, and a legend."""
    nodes = sorted(nodes, key=_urgency)
    lasting = [incident for incident in incidents.of_system(system.name) if incident.state != 'over']
    longest = max(len(node.name) for node in nodes)
    width = max(len('node'), longest) + 2
    head, *speeds = _speeds(nodes)
    yield f'{"node":{width}}{"measured":14}{head}   state', 'dim'
    for node, speed in zip(nodes, speeds, strict=True):
        age = _age(node.measured, now)
        text = f'{node.name:{width}}{age:14}{speed}   {_state(node, now)}'
        numbers = [str(incident.number) for incident in lasting if node.name in incident.nodes]
        if numbers:
            text += f'   incident {", ".join(numbers)}'
        yield text, 'red' if node.slower else ''
    if head:
        yield _LEGEND, 'dim'


def _urgency(node: ListedNode) -> tuple[bool, bool, float, str]:
    """Return the place of a node in a listing: slower ones, those out of service, those long unmeasured."""
    return not node.slower, not node.out, node.measured or 0.0, node.name


def coverage(system: str, nodes: Sequence[ListedNode], unknown: str = '') -> list[str]:
    """Return the coverage, and what a person should look at. ``unknown``: why the scheduler does not tell
    their states."""
    now = time.time()
    text = []
    if nodes:
        text.append(_share_measured(system, nodes, now))
    else:
        nightly = paths.nightly(system)
        text.append(f'{system}: no node is known and no undisturbed figure is stored; run {nightly}')
    if unknown:
        text.append(visible(f'the state of the nodes is not known: {unknown}'))
    for node in nodes:
        if node.slower:
            text.append(f'{node.name} is slower: {_drops(node)}')
    for node in nodes:
        if node.out:
            text.append(f'{node.name} takes no jobs: {_state(node, now)}')
    never = [node.name for node in nodes if node.measured is None]
    if never:
        text.append(f'never measured alone: {several(never)}')
    measured = [node for node in nodes if node.measured is not None]
    measured.sort(key=lambda node: node.measured)
    old = [f'{node.name} ({_age(node.measured, now)})' for node in measured if not _is_recent(node, now)]
    if old:
        text.append(f'not measured for long: {several(old)}')
    return text


def _share_measured(system: str, nodes: Sequence[ListedNode], now: float) -> str:
    """Return how many nodes were measured lately, and how many are slower."""
    recent = sum(_is_recent(node, now) for node in nodes)
    slow = sum(bool(node.slower) for node in nodes)
    slower = f', {slow} slower than its peers' if slow else ''
    all_nodes = counted(len(nodes), 'node')
    return f'{system}: {recent} of {all_nodes} measured in the last {_RECENT} days{slower}'


def _is_recent(node: ListedNode, now: float) -> bool:
    return node.measured is not None and now - node.measured < _RECENT * _DAY


def _drops(node: ListedNode) -> str:
    """Return the drop of each part that is slower."""
    drops = []
    for part, speed in node.slower.items():
        drop = change(speed.share, 1)
        drops.append(f'{part} {drop} beside {speed.peers} peers')
    return ', '.join(drops)


def of_node(system: System, node: ListedNode, unknown: str, changes: Iterable[Change]) -> Iterator[Line]:
    """Yield the state of a node, its speed by part, its incidents, its last sessions, its ``changes``."""
    now = time.time()
    yield f'{system.name}: {node.name}', 'bold'
    state = visible(unknown) or _state(node, now)
    yield f'state     {state}'
    age = _age(node.measured, now)
    session = f' (session {node.session[:8]})' if node.session else ''
    yield f'measured  {age}{session}'
    retired = systems.gone(system, now).get(node.name)
    if retired:
        yield f'retired   since {retired.since}: {visible(retired.reason)}'
    yield from part_lines(node)
    for incident in incidents.of_system(system.name):
        if node.name in incident.nodes:
            yield f'incident  {incident.number} ({incident.state}): {incident.title}'
    sessions = listing.sessions(node, system.name, _NIGHTS)
    head, *speeds = _speeds(sessions)
    if sessions:
        yield f'{"session":28}{head}', 'dim'
    for then, speed in zip(sessions, speeds, strict=True):
        began = times.minute(then.measured)
        style = 'red' if then.slower else ''
        yield f'{began}  {then.session[:8]}  {speed}', style
    for fact in changes:
        if node.name in fact.nodes:
            yield f'changed   {fact.fact} {fact.old} -> {fact.new} since {fact.when}'


def part_lines(node: ListedNode) -> Iterator[Line]:
    """Yield for each part how the node stands beside its peers."""
    parts = sorted(node.parts, key=PARTS.index)
    for part in parts:
        speed = node.parts[part]
        if speed is None:
            yield f'{part:9} fewer than {FEWEST} peers have the same cases with the same software'
            continue
        word = 'SLOWER' if speed.slower else 'like its peers'
        if speed.doubtful:
            word = 'cannot be told'
        difference = change(speed.share, 1)
        clear = f'(clear of their scatter: a drop of {percent(speed.clear)})'
        line = f'{part:9} {difference} beside {speed.peers} peers: {word} {clear}'
        yield line, 'red' if speed.slower else ''


def _speeds(nodes: Sequence[ListedNode]) -> list[str]:
    """Return the head of the columns of speeds, and the columns of each node."""
    parts = [part for part in PARTS if any(part in node.parts for node in nodes)]
    rows = [parts]
    for node in nodes:
        speeds = [_speed(node, part) for part in parts]
        rows.append(speeds)
    width = 10
    for row in rows:
        for cell in row:
            width = max(width, len(cell) + 2)
    return [''.join(f'{cell:>{width}}' for cell in row) for row in rows]


def _speed(node: ListedNode, part: str) -> str:
    """Return '-5.1 %! (-7.0 %)': beside the peers, whether that is clear, and the newest night alone."""
    if part not in node.parts:
        return '-'
    speed = node.parts[part]
    if speed is None:
        return '?'
    text = change(speed.share, 1)
    if speed.slower:
        text += '!'
    elif speed.doubtful:
        text += '?'
    if speed.newest is not None:
        text += f' ({change(speed.newest, 1)})'
    return text


def _age(measured: float | None, now: float) -> str:
    return 'never' if measured is None else f'{duration(max(0.0, now - measured))} ago'


def _state(node: ListedNode, now: float) -> str:
    """Return 'drained for 3 d: broken DIMM (by root)', as far as it is known."""
    state = node.state
    if state is None:
        return 'not known'
    text = state.state
    if node.out and state.since:
        text += f' for {duration(max(0.0, now - state.since))}'
    if state.reason:
        text += f': {state.reason}'
    if state.by:
        text += f' (by {state.by})'
    return visible(text)
