"""The field trial: python -m dev.trial run | noise | seal | score | try. The protocol: dev/trial/__init__.py."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

from dev.trial import faults, noise, rows, run, score, sealed
from dev.trial.sealed import Noise
from parity.base import errors
from parity.base.errors import UsageError

SEALED, NOISE = 'sealed.json', 'noise.json'


def _run(chosen: argparse.Namespace) -> None:
    file = chosen.folder / SEALED
    seed, entries = sealed.read(file) if file.exists() else (None, [])
    if chosen.seed is not None and seed != chosen.seed:
        raise UsageError(f'--seed {chosen.seed}: {file} has the seed {seed}; first: python -m dev.trial seal')
    if entries:
        print(f'sealed list: sha256 {sealed.digest(file)}')
    count = chosen.nights or sealed.nights(entries)
    run.nights(chosen.folder, count, entries, not chosen.no_cause)


def _noise(chosen: argparse.Namespace) -> None:
    quiet = [row for row in rows.nights(chosen.folder) if rows.number(row.night) < sealed.QUIET]
    if not quiet:
        raise UsageError(f'{chosen.folder / rows.NIGHTS}: no nights; first: python -m dev.trial run')
    noises = noise.measured(quiet)
    stored = {name: asdict(one) for name, one in noises.items()}
    (chosen.folder / NOISE).write_text(json.dumps(stored, indent=1) + '\n')
    print(*noise.lines(noises), sep='\n')


def _seal(chosen: argparse.Namespace) -> None:
    file = chosen.noise / NOISE
    try:
        noises = {name: Noise(**one) for name, one in json.loads(file.read_text()).items()}
    except (OSError, ValueError, TypeError) as err:
        raise UsageError(f'{file}: {err}; first: python -m dev.trial noise --folder {chosen.noise}') from None
    absent = {}
    for kind in faults.KINDS:
        base = 1000.0
        why = faults.of(kind, chosen.folder, 'p1', 0.1, base).available
        if why:
            absent[kind] = why
            print(f'{kind} is left out: {why}', file=sys.stderr)
    digest = sealed.write(chosen.folder / SEALED, chosen.seed, sealed.drawn(chosen.seed, noises, absent))
    print(f'{digest}  {SEALED}')


def _score(chosen: argparse.Namespace) -> None:
    _, entries = sealed.read(chosen.folder / SEALED)
    figures, turns = rows.nights(chosen.folder), rows.turns(chosen.folder)
    if not figures:
        raise UsageError(f'{chosen.folder / rows.NIGHTS}: no nights; first: python -m dev.trial run')
    scores = [score.of_parity(entries, turns, figures, chosen.folder),
              *score.of_rules(entries, figures, chosen.folder)]
    print(f'sealed list: sha256 {sealed.digest(chosen.folder / SEALED)}\n')
    print(*score.lines(scores, sum(turn.node_hours for turn in turns)), sep='\n')


def _try(chosen: argparse.Namespace) -> None:
    fault = faults.of(chosen.kind, chosen.folder, chosen.node, chosen.size, chosen.base)
    why = fault.available
    if why:
        raise UsageError(f'{chosen.kind}: {why}')
    with run.huge_pages(chosen.folder):
        try:
            fault.put_in()
            print(f'{chosen.kind} is in for {chosen.seconds:g} s', flush=True)
            time.sleep(chosen.seconds)
        finally:
            fault.take_out()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog='python -m dev.trial', description=__doc__)
    commands = parser.add_subparsers(required=True, metavar='COMMAND')

    def command(name: str, act, what: str) -> argparse.ArgumentParser:
        one = commands.add_parser(name, help=what, description=what)
        one.set_defaults(act=act)
        one.add_argument('--folder', type=Path, default=Path('results/trial'),
                         help='of the trial (default %(default)s)')
        return one
    one = command('run', _run, 'live through the nights that are left')
    one.add_argument('--nights', type=int, help='so many in all (default: as the list takes; 60 without it)')
    one.add_argument('--seed', type=int, help='of the sealed list: refused where that has another one')
    one.add_argument('--no-cause', action='store_true', help='no experiment on the cause of new slowdowns')
    command('noise', _noise, 'the scatter of quiet nights, and from which size on a slowdown shows')
    one = command('seal', _seal, 'draw the faults, and print the digest of their list')
    one.add_argument('--seed', type=int, required=True)
    one.add_argument('--noise', type=Path, required=True, help='the folder of the quiet nights')
    command('score', _score, 'score parity and three plain rules by the list')
    one = command('try', _try, 'put a fault in for some seconds')
    one.add_argument('kind', choices=[*faults.KINDS])
    one.add_argument('--node', default='p1')
    one.add_argument('--size', type=float, default=0.2)
    one.add_argument('--base', type=float, default=100.0, help='the usual figure of the disk or the link')
    one.add_argument('--seconds', type=float, default=10.0)
    return parser.parse_args()


def main() -> None:
    chosen = _arguments()
    chosen.folder = chosen.folder.absolute()
    chosen.act(chosen)


if __name__ == '__main__':
    errors.run(main)
