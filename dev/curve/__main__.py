"""Measure the rule: false alarms, slowdowns found, counts, life cycles, a large system, coverage of comparisons.

Exit code 1 if a figure misses its target by more than chance explains (one-sided 5 %).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator

from dev import coverage
from dev.curve import cases, noise, rule
from dev.curve.families import GROUP
from dev.curve.figures import Amount, Figure, Row, table
from parity.base import errors

_LITTLE = Amount(20, 60, 20, 6, 20, 500)


def main() -> None:
    parser = argparse.ArgumentParser(prog='ci/operating-curve', description=__doc__)
    parser.add_argument('--small', action='store_true', help='a few seconds: few families, small samples')
    parser.add_argument('--seed', type=int, default=2026, help='another sample (default %(default)s)')
    parser.add_argument('--part', choices=PARTS, help='only this part')
    chosen = parser.parse_args()
    started, missed, amount = time.monotonic(), [], _LITTLE if chosen.small else Amount()
    print(f'seed {chosen.seed}; stated: 1 new false alarm in {1 / rule.RATE:.0f} cell-nights; {amount.groups} '
          f'groups of {GROUP} like cells, {amount.nights} nights; slowdowns in half the cells of {amount.stepped} '
          'groups; ± is a standard error')
    for name, (title, part) in PARTS.items():
        if chosen.part in (None, name):
            found = table(f'{name}: {title}', part(chosen.small, chosen.seed, amount))
            missed += [f'{name}: {each}' for each in found]
    print(f'\n{time.monotonic() - started:.0f} s', f'missed {len(missed)} times' if missed else 'held everywhere',
          *missed, sep='\n')
    sys.exit(errors.REGRESSED if missed else errors.OK)


def _compared(small: bool, seed: int, amount: Amount) -> Iterator[Row]:
    found = coverage.table(amount.trials, seed)
    wrong = coverage.missed(found)
    for name in dict.fromkeys(row.name.partition(';')[0] for row in found):
        mine = sorted((row for row in found if row.name.startswith(f'{name};')), key=lambda row: row.coverage)
        least, most = (Figure(100 * row.coverage, 100 * row.error) for row in (mine[0], mine[-1]))
        yield Row(name, {'figures': Figure(len(mine)), 'least': least, 'most': most,
                         'outside': Figure(sum(row in wrong for row in mine), most=0)})


PARTS: dict[str, tuple[str, Callable[[bool, int, Amount], Iterator[Row]]]] = {
    'stationary': ('alarms per 1000 cell-nights, the rest in %', noise.STEADY_ONES),
    'harder': ('the same for what the rule cannot see', noise.HARDER),
    'nonstationary': ('the same where the history is not stationary', noise.MOVING_ONES),
    'lives': ('the same where the first nights are not calm; an operator accepts', noise.LIVES),
    'default': (f'the same at 1 in {1 / rule.DEFAULT:.0f}', noise.default),
    'counts': ('alarms per 1000 cell-nights, the rest in %', cases.counts),
    'cycles': (f'% of cells that do so (CV {100 * cases.CV:g} %)', cases.cycles),
    'large': ('50 nights, 1 alarm a month; shares in %', cases.large),
    'compare': ('% of 95 % intervals that hold the true ratio', _compared)}

if __name__ == '__main__':
    errors.run(main)
