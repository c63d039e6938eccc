"""A notice as text: a subject as sendmail reads it, what changed, the verdict."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable

from parity.base.text import visible
from parity.nightly.notify.state import Fault, State
from parity.verdict import terminal
from parity.verdict.model import Verdict

#: Cells that are named one by one; the verdict below names the others.
_NAMED = 20
#: Nodes that are named one by one.
_NODES = 4


def text(subject: str, lines: Iterable[str], verdict: Verdict | None) -> str:
    """Subject, an empty line, ``lines``, the verdict as the terminal shows it."""
    said = [f'Subject: {subject}', '', *(visible(line) for line in lines)]
    if verdict:
        said += ['', *(line for line, _ in terminal.lines(verdict))]
    return '\n'.join(said) + '\n'


def subject(system: str, state: State, news: str) -> str:
    """One line, of words and numbers only: nothing that a job printed is in it."""
    if news == 'well':
        return f'parity: {system}: all is well again'
    words = ', '.join(f'{n} {word}' for word, n in Counter(map(_word, state.bad.values())).items())
    return f'parity: {system}: ' + ('still ' if news == 'reminder' else '') + words


def changes(state: State) -> list[str]:
    """What is new since the last notice, what is over, what stays; a line a cell."""
    told = state.told
    new = [f'now {fault.word}: {name}' + (f' (was {told[name]})' if name in told else '')
           for name, fault in state.bad.items() if told.get(name) != fault.word]
    over = [f'over: {name} (was {word})' for name, word in told.items()
            if name not in state.bad and name not in state.acknowledged]
    known = [f'acknowledged: {name} ({fault.word})' for name, fault in state.acknowledged.items()]
    still = [f'{_still(fault)}: {name}' + _unseen(fault)
             for name, fault in state.bad.items() if told.get(name) == fault.word]
    return [line for group in (new, over, still, known) for line in _first(group)]


def _word(fault: Fault) -> str:
    return 'not measured again' if fault.elsewhere else fault.word


def _still(fault: Fault) -> str:
    since = f'{fault.word} since {_day(fault.since)}'
    if not fault.elsewhere:
        return f'still {since}'
    return f'not measured again on {", ".join(fault.nodes[:_NODES])} ({since}; in order on other nodes)'


def _first(lines: list[str]) -> list[str]:
    rest = len(lines) - _NAMED
    return lines[:_NAMED] + ([f'and {rest} more'] if rest > 0 else [])


def _unseen(fault: Fault) -> str:
    day = _day(fault.seen)
    return '' if day == datetime.date.today() else f', last measured {day}'


def _day(unix: float) -> datetime.date:
    return datetime.datetime.fromtimestamp(unix).date()
