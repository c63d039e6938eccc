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
from parity.judge.store.incidents import Change, of_system
from parity.site import systems
from parity.site.nodes import Scheduled
from parity.site.systems import System

_DAY = 86400
#: Sessions in a node's history; days after which a node counts as unmeasured for long.
_NIGHTS, _RECENT = 14, 30


#: Facts of a node's hardware; another one under its name is another node.
_HARDWARE = ('processor', 'memory', 'microcode', 'firmware')


def lines(system: System, nodes: list[ListedNode], scheduled: Scheduled,
          changes: Iterable[Change] = ()) -> Iterator[Line]:
    """Yield which nodes are slower, out of service, unmeasured or of other hardware, then a line for each.
    ``changes``: of its nights."""
    now, incidents = time.time(), [one for one in of_system(system.name) if one.state != 'over']
    yield from ((text, 'bold') for text in coverage(system.name, nodes, scheduled.unknown))
    yield from ((f'other hardware under the same name: {visible(fact.what)} since {fact.when}', 'yellow')
                for fact in changes if fact.fact in _HARDWARE and fact.nodes and now - fact.since < _RECENT * _DAY)
    yield from ((warning, 'yellow') for warning in listing.unknown_retired(system, scheduled))
    if gone := systems.gone(system, now):
        yield f'retired: {several(sorted(gone))}'
    if not nodes:
        return
    nodes = sorted(nodes, key=lambda node: (not node.slower, not node.out, node.measured or 0.0, node.name))
    width = max(4, *(len(node.name) for node in nodes)) + 2
    head, *speeds = _speeds(nodes)
    yield f'{"node":{width}}{"measured":14}{head}   state', 'dim'
    for node, speed in zip(nodes, speeds, strict=True):
        numbers = ', '.join(str(one.number) for one in incidents if node.name in one.nodes)
        yield (f'{node.name:{width}}{_age(node.measured, now):14}{speed}   {_state(node, now)}'
               + (f'   incident {numbers}' if numbers else ''), 'red' if node.slower else '')
    if head:
        yield ('change beside the peers, in brackets that of the newest night alone; '
               '!: clear of their scatter by several nights (at most one of 100 '
               f'listings of sound nodes has a !); ?: not clear, or fewer than {FEWEST} peers have the same case '
               'and software', 'dim')


def coverage(system: str, nodes: Sequence[ListedNode], unknown: str = '') -> list[str]:
    """Return the coverage, and what a person should look at. ``unknown``: why the scheduler does not tell
    their states."""
    text = [visible(f'the state of the nodes is not known: {unknown}')] if unknown else []
    if not nodes:
        return [f'{system}: no node is known and no undisturbed figure is stored; run '
                f'{paths.nightly(system)}', *text]
    now, slow = time.time(), [node for node in nodes if node.slower]
    recent = sum(node.measured is not None and now - node.measured < _RECENT * _DAY for node in nodes)
    text.insert(0, f'{system}: {recent} of {counted(len(nodes), "node")} measured in the last {_RECENT} days'
                + (f', {len(slow)} slower than its peers' if slow else ''))
    text += [f'{node.name} is slower: ' + ', '.join(
        f'{part} {change(speed.share, 1)} beside {speed.peers} peers' for part, speed in node.slower.items())
        for node in slow]
    text += [f'{node.name} takes no jobs: {_state(node, now)}' for node in nodes if node.out]
    if never := [node.name for node in nodes if node.measured is None]:
        text.append(f'never measured alone: {several(never)}')
    old = [node for node in nodes if node.measured and now - node.measured >= _RECENT * _DAY]
    if old := sorted(old, key=lambda node: node.measured):
        ages = several([f'{node.name} ({_age(node.measured, now)})' for node in old])
        text.append(f'not measured for long: {ages}')
    return text


def of_node(system: System, node: ListedNode, unknown: str, changes: Iterable[Change]) -> Iterator[Line]:
    """Yield the state of a node, its speed by part, its incidents, its last sessions, its ``changes``."""
    now = time.time()
    yield f'{system.name}: {node.name}', 'bold'
    yield f'state     {visible(unknown) or _state(node, now)}'
    session = f' (session {node.session[:8]})' if node.session else ''
    yield f'measured  {_age(node.measured, now)}{session}'
    if entry := systems.gone(system, now).get(node.name):
        yield f'retired   since {entry.since}: {visible(entry.reason)}'
    yield from part_lines(node)
    for one in of_system(system.name):
        if node.name in one.nodes:
            yield f'incident  {one.number} ({one.state}): {one.title}'
    sessions = listing.sessions(node, system.name, _NIGHTS)
    head, *speeds = _speeds(sessions)
    if sessions:
        yield f'{"session":28}{head}', 'dim'
    for then, speed in zip(sessions, speeds, strict=True):
        yield (f'{times.minute(then.measured)}  {then.session[:8]}  {speed}',
               'red' if then.slower else '')
    for fact in changes:
        if node.name in fact.nodes:
            yield f'changed   {fact.fact} {fact.old} -> {fact.new} since {fact.when}'


def part_lines(node: ListedNode) -> Iterator[Line]:
    """Yield for each part how the node stands beside its peers."""
    for part, speed in sorted(node.parts.items(), key=lambda item: PARTS.index(item[0])):
        if speed is None:
            yield f'{part:9} fewer than {FEWEST} peers have the same cases with the same software'
        else:
            yield (f'{part:9} {change(speed.share, 1)} beside {speed.peers} peers: {speed} (clear of their '
                   f'scatter: a drop of {percent(speed.clear)})', 'red' if speed.slower else '')


def _speeds(nodes: Sequence[ListedNode]) -> list[str]:
    """Return the head of the columns of speeds, and the columns of each node."""
    parts = [part for part in PARTS if any(part in node.parts for node in nodes)]

    def text(node: ListedNode, part: str) -> str:
        if (speed := node.parts.get(part)) is None:
            return '?' if part in node.parts else '-'
        mark = '!' if speed.slower else '?' if speed.doubtful else ''
        newest = f' ({change(speed.newest, 1)})' if speed.newest is not None else ''
        return change(speed.share, 1) + mark + newest
    lines = [parts]
    for node in nodes:
        lines.append([text(node, part) for part in parts])
    width = max(10, *(len(cell) + 2 for cells in lines for cell in cells)) if parts else 10
    return [''.join(f'{cell:>{width}}' for cell in cells) for cells in lines]


def _age(measured: float | None, now: float) -> str:
    return 'never' if measured is None else f'{duration(max(0.0, now - measured))} ago'


def _state(node: ListedNode, now: float) -> str:
    if node.state is None:
        return 'not known'
    since = f' for {duration(max(0.0, now - node.state.since))}' if node.out and node.state.since else ''
    return visible(node.state.state + since + (f': {node.state.reason}' if node.state.reason else '')
                   + (f' (by {node.state.by})' if node.state.by else ''))
