"""Live through nights of a made-up system, quiet ones and ones with planted faults; print what an operator saw.

Exit code 1 if a figure is not what is wanted.
"""

from __future__ import annotations

import argparse
import sys

from dev.life import faults, run, score
from parity.base import errors

DAYS, _FEW_DAYS, STORY_DAYS = 180, 50, 38
#: The first seed, and how many follow it.
SEED, LIVES = 1, 3
_ROWS = {'quiet': score.QUIET, 'planted': score.PLANTED}


def tell(story: str, seed: int) -> run.Life:
    """Print each mail of a short life, night by night, and return it."""
    (_, (life,)), = run.apart([seed], STORY_DAYS, [story], True)
    for night, lived in enumerate(life.nights):
        hit = sorted({life.faults[i].kind for faults_of in lived.hit.values() for i in faults_of})
        if lived.mail or hit:
            print(f'==== night {night}, exit code {lived.exit_code}; planted: {", ".join(hit) or "nothing"}')
            print(lived.mail or '(no mail)')
    return life


def main() -> None:
    parser = argparse.ArgumentParser(prog='ci/operating-curve --life', description=__doc__)
    parser.add_argument('--small', action='store_true', help=f'few cells, {_FEW_DAYS} days, one life of each kind')
    parser.add_argument('--seed', type=int, default=SEED, help='the first of the seeds (default %(default)s)')
    parser.add_argument('--lives', type=int, help=f'so many of each kind (default {LIVES})')
    parser.add_argument('--kind', choices=[*_ROWS], help='only these')
    parser.add_argument('--story', choices=[*faults.STORIES], help='print each mail of a short life')
    parser.add_argument('--examples', type=int, default=0, metavar='N', help='name so many of what misses')
    chosen = parser.parse_args()
    if chosen.seed < 0 or chosen.lives is not None and chosen.lives < 1:
        parser.error('--seed must be 0 or more, --lives 1 or more')
    if chosen.story:
        tell(chosen.story, chosen.seed)
        return
    days, count = (_FEW_DAYS, 1) if chosen.small else (DAYS, LIVES)
    seeds = range(chosen.seed, chosen.seed + (chosen.lives or count))
    missed, kinds = [], [chosen.kind] if chosen.kind else [*_ROWS]
    for kind, lives in run.apart(seeds, days, kinds, chosen.small):
        missed += score.table(f'{kind}, {days} days', _ROWS[kind], lives)
        for life in lives if kind == 'planted' else ():
            score.of_faults(life)
        print(f'\nCPU: {", ".join(f"{life.cpu:.0f} s" for life in lives)}; the last verdict: '
              f'{", ".join(f"{life.last:.1f} s" for life in lives)}', flush=True)
    print(f'\n{"not " if missed else ""}as wanted')
    for name, share in missed:
        print(f'- {name}', *share.examples[:chosen.examples], sep='\n    ')
    sys.exit(errors.REGRESSED if missed else errors.OK)


if __name__ == '__main__':
    errors.run(main)
