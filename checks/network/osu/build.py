"""The CUDA that OSU's programs compile with."""

from __future__ import annotations

import re

#: Versions up to the first one do not compile with a CUDA newer than the second.
OLD, NEWEST_CUDA = [7, 4], 12


def valid_cuda(spec: str, cudas: list[str]) -> str:
    """Return the CUDA that is valid where the spec compiles with none of these versions or ranges; else ''."""
    version = re.match(r'[\w-]*@=?([\d.]*)', spec)[1]
    numbers = [int(number) for number in re.findall(r'\d+', version)]
    if '+cuda' not in spec or numbers > OLD:
        return ''
    if any(map(_compiles, cudas)):
        return ''
    return f'cuda@:{NEWEST_CUDA}'


def _compiles(cuda: str) -> bool:
    """Return whether no version of a list of versions and ranges is newer."""
    last = (each.rpartition(':')[2].lstrip('=').partition('.')[0] for each in cuda.split(','))
    return all(number.isdigit() and int(number) <= NEWEST_CUDA for number in last)
