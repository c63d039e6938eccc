"""The nights that a reference may stand on: of one software, one kind of node, and of figures that are judged."""

from __future__ import annotations

from typing import Any

from parity.records import history
from parity.refs.nights import RECENT, Cell, Night
from parity.stats import bounds

_WORDS = {'software': 'the software', 'unit': 'the unit', 'better': 'the direction', 'variant': 'the variant'}


class Refused(Exception):
    """Why no reference is proposed for a cell."""


def nights(cell: Cell, kinds: dict[tuple[str, str], str]) -> tuple[Night, ...]:
    """The newest nights of ``cell`` that are of one software, unit and kind of node.

    ``kinds`` is what the node of a session is, by session and node. Raises Refused where they are too
    few or of several kinds, or where their figures are never judged.
    """
    if not cell.nights:
        raise Refused('no night counts: a rerun, or too old')
    if not cell.recent:
        raise Refused(f'not in the last {RECENT} sessions; its last night is {cell.nights[-1].night[:10]}')
    kept, why = _since_the_last_change(cell.nights)
    kept = kept[-bounds.MOST:]
    _of_one_label(kept)
    if len(kept) < bounds.FEWEST:
        raise Refused(f'{len(kept)} night{"s" if len(kept) > 1 else ""}{why}; {bounds.FEWEST} are needed')
    _of_one_kind(kept, kinds)
    return kept


def _of_one_label(kept: tuple[Night, ...]) -> None:
    labels = {label for night in kept for label in night.labels}
    word = max(labels)
    if labels == {word} and word:
        raise Refused(f'{word}: such a figure is never judged')
    if len(labels) > 1:
        raise Refused(f'not alike: {sum(word in n.labels for n in kept)} of {len(kept)} nights are {word}')


def _of_one_kind(kept: tuple[Night, ...], kinds: dict[tuple[str, str], str]) -> None:
    seen: dict[str, str] = {}
    for night in kept:
        for node in night.node.replace(',', ' ').split():
            if kind := kinds.get((night.session, node)):
                seen.setdefault(kind, f'{node} on {night.night[:10]}')
    if len(seen) > 1:
        said = '; '.join(f'{kind} ({where})' for kind, where in list(seen.items())[:3])
        raise Refused(f'not alike: nodes of several kinds: {said}')


def _since_the_last_change(every: tuple[Night, ...]) -> tuple[tuple[Night, ...], str]:
    """The nights that ran what the newest one ran, and since when that is."""
    for at in range(len(every) - 1, 0, -1):
        for what, said in _WORDS.items():
            if getattr(every[at - 1], what) != getattr(every[-1], what):
                return every[at:], f' since {said} changed ({every[at].night[:10]})'
    return every, ''


def kinds(system: str, sessions: set[str]) -> dict[tuple[str, str], str]:
    """What each node of these sessions is, by session and node: virtual or not, and its processor.

    A node of a batch system says so in its job; a case on this very machine is on what the session found.
    """
    found = {}
    for facts in history.sessions(system, last=RECENT):
        if facts.uuid not in sessions:
            continue
        machine: dict[str, Any] = facts.machine.get('machine') or {}
        if name := machine.get('hostname'):
            virtual = machine.get('backend') or machine.get('kind')
            found[facts.uuid, name] = _kind(virtual, machine.get('model_name'))
        for name, said in facts.nodes.items():
            found[facts.uuid, name] = _kind(said.get('virtualisation'), said.get('processor'))
    return found


def _kind(virtualisation: str | None, processor: str | None) -> str:
    return ', '.join(filter(None, ('' if virtualisation == 'none' else virtualisation, processor)))
