"""programs/ops.c: arithmetic operations a second by kind of number, and how they went over time."""

from __future__ import annotations

import re
from statistics import median

from . import Incomplete, Wrong, kernel_text

#: Kinds of numbers and their bits.
KINDS = {'double': 64, 'int64': 64, 'int32': 32, 'int16': 16, 'int8': 8}
_OPERATIONS = 2             # of an iteration, on every lane
_FIGURES = r'iterations (?P<iterations>\d{1,18}) seconds (?P<seconds>\S{1,20}) rate (?P<rate>\S{1,20}) Gop/s'
_ROW = re.compile(rf'(?:(?P<kind>{"|".join(KINDS)}) threads (?P<threads>\d{{1,6}}) lanes (?P<lanes>\d{{1,4}}) '
                  rf'chains (?P<chains>\d{{1,4}})|sample (?P<sample>\d{{1,6}}) (?P<of>{"|".join(KINDS)})) '
                  + _FIGURES + r'(?: wrong (?P<wrong>\d{1,6}))?', re.ASCII)


def parse(text: str) -> dict[str, float]:
    """Gop/s of all threads by kind: double int64 int32 int16 int8; a fused multiply-add is two operations.

    With samples, median, lowest and lowest_over_median of the one-second rates, too. Raises Incomplete with
    the line where something is missing, Wrong where a result is wrong or figures contradict each other.
    """
    found, samples = _read(text)[:2]
    if samples:
        middle = median(samples)
        found |= {'median': middle, 'lowest': min(samples), 'lowest_over_median': min(samples) / middle}
    return found


def facts(text: str) -> dict[str, object]:
    """compiler, flags, width (bits of a vector), threads; samples: their rates (Gop/s) in order.

    Raises as ``parse`` does.
    """
    _, samples, threads, printed = _read(text)
    found = {**printed.compiled, 'width': printed.head, 'threads': threads}
    return found | ({'samples': samples} if samples else {})


def _read(text: str) -> tuple[dict[str, float], list[float], int, kernel_text.Printed]:
    printed = kernel_text.read(text, 'ops', 'width', _ROW)
    results = [row for row in printed.rows if 'kind' in row]
    if any(('kind' in row) != ('wrong' in row) for row in printed.rows):
        raise Incomplete('a line of a result is not whole')
    kinds = [row['kind'] for row in results]
    if len(set(kinds)) < len(kinds) or len({(row['threads'], row['chains']) for row in results}) > 1:
        raise Wrong(f'the results are not of different kinds with as many threads: {", ".join(kinds)}')
    found = {row['kind']: kernel_text.rate(row, int(row['iterations']) * _work(row, printed.head))
             for row in results}
    return found, _samples(printed.rows, printed.head), int(results[0]['threads']), printed


def _work(row: dict[str, str], width: int) -> int:
    """Operations of one iteration."""
    if int(row['lanes']) * KINDS[row['kind']] != width or not int(row['chains']):
        raise Wrong(f'{row["lanes"]} lanes of {row["kind"]} are not {width} bits')
    return _OPERATIONS * int(row['lanes']) * int(row['chains'])


def _samples(rows: list[dict[str, str]], width: int) -> list[float]:
    """The rates of the samples, which stand in order before the result that they are of."""
    taken = [row for row in rows if 'sample' in row]
    if not taken:
        return []
    whole = rows[len(taken)] if len(rows) > len(taken) else {}
    if [row['sample'] for row in taken] != [str(at + 1) for at in range(len(taken))] or rows[:len(taken)] != taken:
        raise Incomplete(f'{len(taken)} samples that are not numbered one after another before their result')
    if {row['of'] for row in taken} != {whole.get('kind')} or \
            sum(int(row['iterations']) for row in taken) > int(whole['iterations']):
        raise Wrong('the samples are more than the result that they are of')
    return [kernel_text.rate(row, int(row['iterations']) * _work(whole, width)) for row in taken]
