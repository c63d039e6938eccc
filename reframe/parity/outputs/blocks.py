"""programs/blocks.c: memory read, written and updated in blocks, one after another or in random order."""

from __future__ import annotations

from . import Read, Wrong
from .reader import KERNEL_FIGURES, kernel, kernel_rate

#: How often an operation touches each byte of a block.
TOUCHES = {'read': 1, 'write': 1, 'update': 2}
_ROW = (rf'(?P<what>{"|".join(TOUCHES)}) (?P<order>sequential|random) block (?P<block>\d+) '
        rf'threads (?P<threads>\d+) blocks (?P<blocks>\d+) {KERNEL_FIGURES} GB/s wrong 0')


def read(text: str) -> Read:
    """<read|write|update>_<block> in GB/s (10^9 bytes) of all threads, block in bytes; an update counts twice.
    Facts: compiler, flags, order, threads, bytes (of each thread)."""
    head, rows, compiled = kernel(text, 'blocks', 'bytes', _ROW)
    names = [f'{row["what"]}_{row["block"]}' for row in rows]
    if len(set(names)) < len(names) or len({(row['order'], row['threads']) for row in rows}) != 1:
        raise Wrong('the results are not of different runs in one order with as many threads')
    return {name: kernel_rate(row, TOUCHES[row['what']] * int(row['blocks']) * int(row['block']))
            for name, row in zip(names, rows, strict=True)}, {
                **compiled, 'order': rows[0]['order'], 'threads': int(rows[0]['threads']), 'bytes': head}
