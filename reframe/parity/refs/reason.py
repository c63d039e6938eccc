"""Why a reference is accepted: by whom, when, and until when it is to be believed."""

from __future__ import annotations

import datetime
import getpass
from dataclasses import dataclass

from parity.base import characters
from parity.base.errors import UsageError

#: Half a year: systems are serviced once or twice in it, so that kernel, firmware or MPI are then others
#: than those that were measured, and a drift too slow for any night's bounds is looked at by a person.
LIFETIME = datetime.timedelta(days=183)


@dataclass(frozen=True)
class Reason:
    """Who accepts, when, why, until when."""

    date: datetime.date
    by: str
    why: str
    expires: datetime.date


def given(why: str, by: str = '', expires: str = '', today: datetime.date | None = None) -> Reason:
    """From the command line. UsageError for a reason that is none, or a day that has passed."""
    today = today or datetime.date.today()
    why, by = ' '.join(why.split()), ' '.join(by.split()) or _user()
    for option, text in (('--why', why), ('--by', by)):
        characters.refuse(option, text)
    if not why:
        raise UsageError("--why '': say why these values are right; it stands beside them")
    try:
        until = datetime.date.fromisoformat(expires) if expires else today + LIFETIME
    except ValueError:
        raise UsageError(f'--expires {expires!r}: must be a date such as {today + LIFETIME}') from None
    if until <= today:
        raise UsageError(f'--expires {expires}: must be after today, {today}')
    return Reason(today, by, why, until)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        raise UsageError('--by NAME is needed: this user has no name here') from None
