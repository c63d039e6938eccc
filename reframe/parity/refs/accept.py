"""What was proposed becomes a reference: merged into systems/<name>/references/<partition>.yaml."""

from __future__ import annotations

import datetime
import getpass
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from parity import plan
from parity.base import files, paths
from parity.base.errors import NothingMeasured, UsageError
from parity.base.text import refuse
from parity.records import history
from parity.refs import accepted, edit, nights, propose
from parity.refs.edit import Line, Tree
from parity.refs.propose import Proposal
from parity.system import systems

#: What a new file begins with.
_HEAD = '# Accepted values of {}: ReFrame applies them. `parity refs accept` adds to them, and so may you.\n'
#: Half a year: systems are serviced once or twice in it, so that kernel, firmware or MPI are then others
#: than those that were measured, and a drift too slow for any night's bounds is looked at by a person.
LIFETIME = datetime.timedelta(days=183)


def reason(why: str, by: str = '', expires: str = '') -> dict[str, Any]:
    """Who accepts, when, why, until when. UsageError for a reason that is none, or a day that has passed."""
    today = datetime.date.today()
    why, by = ' '.join(why.split()), ' '.join(by.split()) or _user()
    for option, text in (('--why', why), ('--by', by)):
        refuse(option, text)
    if not why:
        raise UsageError("--why '': say why these values are right; it stands beside them")
    try:
        until = datetime.date.fromisoformat(expires) if expires else today + LIFETIME
    except ValueError:
        raise UsageError(f'--expires {expires!r}: must be a date such as {today + LIFETIME}') from None
    if until <= today:
        raise UsageError(f'--expires {expires}: must be after today, {today}')
    return {'date': today, 'by': by, 'why': why, 'expires': until}


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        raise UsageError('--by NAME is needed: this user has no name here') from None


def run(system: str, cells: list[str], why: dict[str, Any]) -> list[tuple[Path, list[Proposal]]]:
    """Accept the proposals for ``cells`` (all: none named); returns them by file. All or none are accepted. Raises
    UsageError for a cell that is not proposed, and where something changed since it was."""
    site = systems.read(system)
    waiting = {file.partition: file.proposals for file in propose.read(system)}
    chosen = _chosen(system, waiting, cells)
    planned = plan.of_command(['-c', str(paths.root() / 'checks'), '-r', '--system', system])
    _refuse(accepted.problems(site, planned))
    _refuse(_changed(system, chosen))
    texts = {_file(system, part): _merged(system, part, found, why) for part, found in chosen.items()}
    for file, (_, new) in texts.items():
        _refuse(accepted.problems_of(site, planned, file, new))
    for file, (old, new) in texts.items():
        _replace(file, old, new)
    propose.write(system, {partition: [p for p in found if p not in chosen.get(partition, [])]
                             for partition, found in waiting.items()})
    return [(_file(system, partition), found) for partition, found in chosen.items()]


def _file(system: str, partition: str) -> Path:
    return paths.root() / 'systems' / system / 'references' / f'{partition}.yaml'


def _chosen(system: str, waiting: dict[str, list[Proposal]], cells: list[str]) -> dict[str, list[Proposal]]:
    """The proposals by partition; a cell that is proposed in several sizes is all of them."""
    every = sorted({p.cell for found in waiting.values() for p in found})
    if not every:
        raise NothingMeasured(f'nothing is proposed for {system}; run: parity refs propose --system {system}')
    for cell in cells:
        if cell not in every:
            near = get_close_matches(cell, every, n=1)
            hint = f'did you mean {near[0]}?' if near else f'proposed: {", ".join(every[:8])}' \
                + (f' and {len(every) - 8} more' if len(every) > 8 else '')
            raise UsageError(f'{cell} is not proposed; {hint}')
    chosen = {part: [p for p in found if not cells or p.cell in cells] for part, found in waiting.items()}
    return {part: found for part, found in chosen.items() if found}


def _refuse(wrong: Iterable[str]) -> None:
    if found := list(wrong):
        raise UsageError('\n'.join([*found, 'nothing was accepted']))


def _changed(system: str, chosen: dict[str, list[Proposal]]) -> Iterator[str]:
    """What is no longer as it was when it was proposed."""
    there = {(a.partition, a.path): a.reference for a in accepted.of_system(system)}
    indexes = accepted.indexes(system)
    now = {cell.id: cell.nights[-1].software for cell in nights.cells(history.load(system)) if cell.nights}
    again = f'propose again: parity refs propose --system {system}'
    for part, found in chosen.items():
        for p in found:
            index = indexes.get((part, p.check))
            if p.digest != p.expected_digest():
                yield (f'{propose.folder(system) / part}.yaml: {p.cell} was edited by hand: '
                       f'a value of your own goes into {_file(system, part)}')
            elif index and index.names != tuple(p.index):
                names = ', '.join(index.names)
                yield f'{index.file}:{index.line}: $index [{names}] does not fit {p.cell}; {again}'
            elif there.get((part, p.path)) != p.replaces:
                yield f'{p.cell}: its accepted value changed since it was proposed; {again}'
            elif now.get(p.cell, p.observed.software) != p.observed.software:
                yield f'{p.cell}: its software changed since it was proposed; {again}'


def _merged(system: str, partition: str, found: list[Proposal], why: dict[str, Any]) -> tuple[str, str]:
    """The file as it is, and as it will be."""
    file = _file(system, partition)
    text = _text(file)
    tree: Tree = {}
    there = accepted.indexes(system)
    for p in found:
        level = tree.setdefault(p.check, {} if (partition, p.check) in there else {'$index': Line(list(p.index))})
        for key in p.index.values():
            level = level.setdefault(key, {})
        level[p.metric] = Line([int(part) if isinstance(part, float) and part.is_integer() else part
                                for part in p.reference])
        tree.setdefault(accepted.PROVENANCE, {})[p.path] = Line({**why, **p.observed.model_dump()})
    return text, edit.merged(file, text or _HEAD.format(f'{system}:{partition}'), tree)


def _text(file: Path) -> str:
    """With the line ends that it has."""
    try:
        return file.read_bytes().decode('utf-8')
    except FileNotFoundError:
        return ''


def _replace(file: Path, old: str, new: str) -> None:
    """Refuse to overwrite what another hand has written since."""
    if _text(file) != old:
        raise UsageError(f'{file}: was written while this ran: accept again')
    files.write(file, new)
