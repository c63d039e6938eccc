"""`parity nodes` and `parity node` as lines of (text, style)."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterable, Iterator, Sequence

from parity.base.figures import change, counted, duration, percent, several
from parity.base.text import visible
from parity.nodes import listing as nodes
from parity.nodes.listing import PARTS, Standing
from parity.records.incidents import Change, Incident, of_system
from parity.stats.peers import FEWEST
from parity.system import systems
from parity.system.systems import System

_DAY = 86400
#: Sessions in a node's history; days after which a node counts as unmeasured for long.
_NIGHTS, _RECENT = 14, 30

Line = tuple[str, str]


def lines(system: System, found: list[Standing], unknown: str) -> Iterator[Line]:
    """Say which nodes are slower, out of service or unmeasured, then a line for each. ``unknown``: why the
    scheduler does not tell its nodes."""
    now, known = time.time(), [each for each in of_system(system.name) if each.state != 'over']
    yield from ((text, 'bold') for text in coverage(system.name, found))
    if unknown:
        yield f'the state of the nodes is not known: {visible(unknown)}', 'yellow'
    yield from ((warning, 'yellow') for warning in nodes.amiss(system, now, set()))
    if gone := systems.gone(system, now):
        yield f'retired: {several(sorted(gone))}', ''
    if not found:
        return
    parts = [part for part in PARTS if any(part in each.parts for each in found)]
    width = max(4, *(len(each.name) for each in found)) + 2
    yield f'{"node":{width}}{"measured":14}' + ''.join(f'{part:>10}' for part in parts) + '   state', 'dim'
    for each in sorted(found, key=_order):
        speeds = ''.join(f'{_speed(each, part):>10}' for part in parts)
        yield (f'{each.name:{width}}{_age(each.measured, now):14}{speeds}   {_state(each, now)}'
               + _incidents(each.name, known), 'red' if each.slower else '')
    if any(each.parts for each in found):
        yield ('change beside the peers; !: clear of their scatter by several nights (at most one of 100 '
               f'listings of sound nodes has a !); ?: not clear, or fewer than {FEWEST} peers have the same case '
               'and software', 'dim')


def coverage(system: str, found: Sequence[Standing]) -> list[str]:
    """Return the coverage, and what a person should look at."""
    if not found:
        return [f'{system}: no node is known: no figure that nobody disturbed is stored']
    now, slow = time.time(), [each for each in found if each.slower]
    recent = sum(each.measured is not None and now - each.measured < _RECENT * _DAY for each in found)
    said = [f'{system}: {recent} of {counted(len(found), "node")} measured in the last {_RECENT} days'
            + (f', {len(slow)} slower than its peers' if slow else '')]
    said += [f'{each.name} is slower: {_slower(each)}' for each in slow]
    out = [each for each in found if each.state and not each.state.takes]
    said += [f'{each.name} takes no jobs: {_state(each, now)}' for each in out]
    if never := [each.name for each in found if each.measured is None]:
        said.append(f'never measured alone: {several(never)}')
    old = [each for each in found if each.measured and now - each.measured >= _RECENT * _DAY]
    if old := sorted(old, key=lambda each: each.measured):
        ages = [f'{each.name} ({_age(each.measured, now)})' for each in old]
        said.append(f'not measured for long: {several(ages)}')
    return said


def of_node(system: System, found: Standing, unknown: str, changes: Iterable[Change]) -> Iterator[Line]:
    """Yield the state of a node, its speed by part, its incidents, its last sessions, its ``changes``."""
    now = time.time()
    yield f'{system.name}: {found.name}', 'bold'
    yield f'state     {visible(unknown) or _state(found, now)}', ''
    session = f' (session {found.session[:8]})' if found.session else ''
    yield f'measured  {_age(found.measured, now)}{session}', ''
    if entry := systems.gone(system, now).get(found.name):
        yield f'retired   since {entry.since}: {visible(entry.reason)}', ''
    yield from part_lines(found)
    for incident in of_system(system.name):
        if found.name in incident.nodes:
            yield f'incident  {incident.number} ({incident.state}): {incident.title}', ''
    history = nodes.past(nodes.figures(system.name), found.name, _NIGHTS)
    parts = [part for part in PARTS if any(part in each for _, _, each in history)]
    if history:
        yield f'{"session":28}' + ''.join(f'{part:>10}' for part in parts), 'dim'
    for start, session, each in history:
        row = Standing(found.name, parts=each)
        yield (f'{datetime.datetime.fromtimestamp(start):%Y-%m-%d %H:%M}  {session[:8]}  '
               + ''.join(f'{_speed(row, part):>10}' for part in parts), 'red' if row.slower else '')
    for each in changes:
        if found.name in each.nodes:
            yield f'changed   {each.fact} {each.old} -> {each.new} since {each.when}', ''


def part_lines(found: Standing) -> Iterator[Line]:
    """Say for each part how the node stands beside its peers."""
    for part, each in sorted(found.parts.items(), key=lambda item: PARTS.index(item[0])):
        if each is None:
            yield f'{part:9} fewer than {FEWEST} peers have the same cases with the same software', ''
        else:
            yield (f'{part:9} {change(each.share, 1)} beside {each.peers} peers: {each} (clear of their scatter: '
                   f'a drop of {percent(each.clear)})', 'red' if each.slower else '')


def _slower(each: Standing) -> str:
    return ', '.join(f'{part} {change(beside.share, 1)} beside {beside.peers} peers'
                     for part, beside in each.slower.items())


def _speed(each: Standing, part: str) -> str:
    if part not in each.parts:
        return '-'
    told = each.parts[part]
    return '?' if told is None else change(told.share, 1) + ('!' if told.slower else '?' if told.doubtful else '')


def _age(measured: float | None, now: float) -> str:
    return 'never' if measured is None else f'{duration(max(0.0, now - measured))} ago'


def _state(each: Standing, now: float) -> str:
    if each.state is None:
        return 'not known'
    said = each.state.state
    if not each.state.takes and each.state.since:
        said += f' for {duration(max(0.0, now - each.state.since))}'
    return visible(said + (f': {each.state.reason}' if each.state.reason else '')
                   + (f' (by {each.state.by})' if each.state.by else ''))


def _incidents(name: str, known: list[Incident]) -> str:
    own = [str(each.number) for each in known if name in each.nodes]
    return f'   incident {", ".join(own)}' if own else ''


def _order(each: Standing) -> tuple:
    return not each.slower, not (each.state and not each.state.takes), each.measured or 0.0, each.name
