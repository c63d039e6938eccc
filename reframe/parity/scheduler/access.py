"""A partition's `access`, sorted: where and on whose account a job runs, and options for the measured node."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

#: Each scheduler's options for where a job runs and who pays, before their value, by parity's name.
_WHERE = {
    'slurm': {'queue': '--partition[ =]|-p', 'account': '--account[ =]|-A', 'qos': '--qos[ =]|-q',
              'reservation': '--reservation[ =]'},
    'pbs': {'queue': '-q', 'account': '-A', 'project': '-P'},
}
_EXCLUSIVE = {'slurm': r'--exclusive(=\S+)?', 'pbs': r'-l\s*place=(\S+)'}


@dataclass
class Access:
    """``where`` is for every job; ``node`` only for a job on the measured node."""

    where: dict[str, str] = field(default_factory=dict)
    exclusive: str = ''                 # as the site writes it
    node: list[str] = field(default_factory=list)


def read(scheduler: str, options: list[str]) -> Access:
    """Sort the options of a partition's `access` for ``scheduler`` (slurm, pbs; anything else has none)."""
    access = Access()
    for option in options if scheduler in _WHERE else ():
        said = {name: found[1].strip('\'"') for name, form in _WHERE[scheduler].items()
                if (found := re.fullmatch(rf'(?:{form})\s*([^\s=-]\S*)', option))}
        access.where |= said
        if re.fullmatch(_EXCLUSIVE[scheduler], option):
            access.exclusive = option
        elif not said:
            access.node.append(option)
    return access
