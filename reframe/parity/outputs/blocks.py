"""programs/blocks.c: memory read, written and updated in blocks, one after another or in random order."""

from __future__ import annotations

import re

from . import Wrong, kernel_text

#: How often an operation touches each byte of a block.
TOUCHES = {'read': 1, 'write': 1, 'update': 2}
_ROW = re.compile(rf'(?P<what>{"|".join(TOUCHES)}) (?P<order>sequential|random) block (?P<block>\d{{1,12}}) '
                  r'threads (?P<threads>\d{1,6}) blocks (?P<blocks>\d{1,18}) seconds (?P<seconds>\S{1,20}) '
                  r'rate (?P<rate>\S{1,20}) GB/s wrong (?P<wrong>\d{1,6})', re.ASCII)


def parse(text: str) -> dict[str, float]:
    """<read|write|update>_<block> in GB/s (10^9 bytes) of all threads, block in bytes; an update counts twice.

    Raises Incomplete with the line where something is missing, Wrong where memory held something else than
    was written, or figures contradict each other.
    """
    return {f'{row["what"]}_{row["block"]}': _rate(row) for row in _read(text).rows}


def facts(text: str) -> dict[str, object]:
    """compiler, flags, order, threads, bytes (of each thread). Raises as ``parse`` does."""
    parse(text)
    printed = _read(text)
    return {**printed.compiled, 'order': printed.rows[0]['order'], 'threads': int(printed.rows[0]['threads']),
            'bytes': printed.head}


def _read(text: str) -> kernel_text.Printed:
    printed = kernel_text.read(text, 'blocks', 'bytes', _ROW)
    runs = [(row['what'], row['block']) for row in printed.rows]
    if len(set(runs)) < len(runs) or len({(row['order'], row['threads']) for row in printed.rows}) > 1:
        raise Wrong('the results are not of different runs in one order with as many threads')
    return printed


def _rate(row: dict[str, str]) -> float:
    return kernel_text.rate(row, TOUCHES[row['what']] * int(row['blocks']) * int(row['block']))
