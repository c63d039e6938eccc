"""What is no longer to be believed of the accepted references, by their own word."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass

from parity.base.errors import UsageError
from parity.refs import accepted
from parity.refs.accepted import Accepted


@dataclass(frozen=True)
class Warned:
    """Something a person should look at; the reference is applied all the same."""

    reference: Accepted
    what: str

    def __str__(self) -> str:
        return f'{self.reference.where}: {self.what}'


def of(references: Iterable[Accepted], today: datetime.date | None = None) -> list[Warned]:
    """Those that have expired."""
    today = today or datetime.date.today()
    return [Warned(each, f'expired on {each.provenance.expires}; it is applied all the same: '
                         f'parity refs propose --system {each.system}')
            for each in references if each.provenance and each.provenance.expired(today)]


def grouped(warned: Iterable[Warned]) -> list[str]:
    """One sentence for all references of a file of which the same is said."""
    groups: dict[tuple, list[Warned]] = {}
    for each in warned:
        groups.setdefault((each.reference.file, each.what), []).append(each)
    return [str(first) if not more else
            f'{first.reference.where}, and {len(more)} more reference{"s" if len(more) > 1 else ""}: {first.what}'
            for first, *more in groups.values()]


def expired(system: str) -> list[str]:
    """What a verdict says of the system's references; a file that cannot be read, the next run refuses."""
    try:
        return grouped(of(accepted.of_system(system)))
    except UsageError as err:
        return [str(err)]
