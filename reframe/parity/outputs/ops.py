"""programs/ops.c: arithmetic operations a second by kind of number, and how they went over time."""

from __future__ import annotations

from statistics import median

from . import Incomplete, Read, Wrong
from .reader import KERNEL_FIGURES, kernel, kernel_rate

#: Kinds of numbers and their bits.
KINDS = {'double': 64, 'int64': 64, 'int32': 32, 'int16': 16, 'int8': 8}
_OPERATIONS = 2             # of an iteration, on every lane
_KIND = '|'.join(KINDS)
_FIGURES = rf'iterations (?P<iterations>\d+) {KERNEL_FIGURES} Gop/s'
_ROW = (rf'(?:(?P<kind>{_KIND}) threads (?P<threads>\d+) lanes (?P<lanes>\d+) chains (?P<chains>\d+) '
        rf'|sample (?P<sample>\d+) (?P<of>{_KIND}) ){_FIGURES}(?P<end> wrong 0)?')


def read(text: str) -> Read:
    """Gop/s of all threads by kind: double int64 int32 int16 int8; a fused multiply-add is two operations. With
    samples, median, lowest and lowest_over_median of the one-second rates, too.
    Facts: compiler, flags, width (bits of a vector), threads; samples: their rates (Gop/s) in order."""
    width, rows, compiled = kernel(text, 'ops', 'width', _ROW)
    results, samples = ([row for row in rows if row[word]] for word in ('kind', 'sample'))
    if not results or any(bool(row['kind']) != bool(row['end']) for row in rows):
        raise Incomplete('a line of a result is not whole')
    found = {row['kind']: kernel_rate(row, int(row['iterations']) * _work(row, width)) for row in results}
    if len(found) < len(results) or len({(row['threads'], row['chains']) for row in results}) > 1:
        raise Wrong(f'the results are not of different kinds with as many threads: {", ".join(found)}')
    ran = {**compiled, 'width': width, 'threads': int(results[0]['threads'])}
    if samples:
        ran['samples'] = taken = _samples(samples, rows, width)
        middle = median(taken)
        found |= {'median': middle, 'lowest': min(taken), 'lowest_over_median': min(taken) / middle}
    return found, ran


def _work(row: dict[str, str], width: int) -> int:
    """Operations of one iteration."""
    if int(row['lanes']) * KINDS[row['kind']] != width or not int(row['chains']):
        raise Wrong(f'{row["lanes"]} lanes of {row["kind"]} are not {width} bits')
    return _OPERATIONS * int(row['lanes']) * int(row['chains'])


def _samples(samples: list[dict[str, str]], rows: list[dict[str, str]], width: int) -> list[float]:
    """The rates of the samples, which stand in order before the one result that they are of."""
    numbers = [str(at) for at in range(1, len(rows))]
    if len(rows) != len(samples) + 1 or [row['sample'] for row in rows[:-1]] != numbers:
        raise Incomplete(f'{len(samples)} samples that are not numbered one after another before their result')
    whole = rows[-1]
    if {row['of'] for row in samples} != {whole['kind']} or \
            sum(int(row['iterations']) for row in samples) > int(whole['iterations']):
        raise Wrong('the samples are more than the result that they are of')
    return [kernel_rate(row, int(row['iterations']) * _work(whole, width)) for row in samples]
