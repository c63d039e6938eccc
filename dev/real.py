"""Measure the rule of regression on real histories: python -m dev.real PATH... [--accept-after N] [--json]

A PATH is a CSV in the form of `parity detect`, gzipped if its name ends with .gz, or a folder of such files.
Nobody knows the truth of a real history. Here it is hindsight's, by a method that has nothing of the rule:

- **A lasting drop**: parity.stats.hindsight finds it.
- **The kind of an alarm**, from the nights around it. `step`: a lasting drop. `small step`: the next 15 nights are
  lower by 1 % and two robust standard deviations. `drift`: lower than 60 to 200 nights before. `short`: some
  nights, gone. `end`: the series ends soon after. `nothing`: an operator would call it false.

An alarm is new after three nights without one. The first 40 nights of a series do not count.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from parity.base import errors, files
from parity.base.errors import UsageError
from parity.stats import detect, levels
from parity.stats.bounds import WANTED
from parity.stats.hindsight import FLOOR, boundaries, drops, fresh, neighbours_sd, robust_sd

#: Nights that do not count; the shortest series; the scatter of the last 60 nights of a calm one.
FIRST, SHORTEST, CALM = 40, 60, 0.015
#: Drops are counted that were told within so many nights; the segmentation may place a drop two nights late.
WITHIN, LATE = (3, 7, 30), 2
KINDS = ('nothing', 'short', 'small step', 'drift', 'step', 'end')


def kind(x: np.ndarray, at: int, lasting: list[tuple[int, float]]) -> str:
    """Return the kind of an alarm that is new on night ``at`` of the logarithms ``x``; ``lasting``: its drops."""
    before, after = x[max(0, at - 33):max(1, at - 3)], x[at:at + 15]
    noise, base = max(robust_sd(before), FLOOR), np.median(before)
    change = np.median(after) - base
    if any(abs(night - at) <= 12 for night, _ in lasting):
        return 'step'
    if change < -max(0.01, 2 * noise) and len(after) >= 8:
        return 'small step'
    long = x[max(0, at - 200):max(0, at - 60)]
    if len(long) > 30 and np.median(x[max(0, at - 9):at + 1]) - np.median(long) < -0.02 and change > -2 * noise:
        return 'drift'
    if np.median(x[max(0, at - 2):at + 3]) - base < -max(0.01, 2 * noise):
        return 'short'
    return 'end' if len(after) < 8 and x[at] - base < -2 * noise else 'nothing'


class Scored(NamedTuple):
    """One series, scored on its nights after the first 40."""

    series: str
    slowdowns: list[int | str]       # the labels of the nights on which a slowdown was found
    judged: int
    kinds: Counter[str]              # of the new alarms
    delays: list[int]                # of each lasting drop: nights until it was told, from 0; 99: not told
    kept: list[bool]                 # of each drop that the rule said would show: told within three nights
    blind: bool                      # 5 % would not show at the end, or the series is not judged
    calm: bool


def score(path: Path, accept_after: int, rate: float = levels.RATE) -> list[Scored]:
    """Score the rule on every series of a file that is long enough. UsageError names the file and line."""
    history = detect.read(files.unpacked(path), str(path))
    outcome = _follow(history, accept_after, rate)
    scored = []
    for k, name in enumerate(history.names):
        here = np.arange(*history.nights.start[k:k + 2])
        here = here[np.isfinite(history.nights.value[here])]
        if len(here) < SHORTEST or history.nights.counts[k]:
            continue
        x, state = history.nights.value[here], outcome.state[here]
        lasting = [d for d in drops(x, boundaries(x)) if d[0] >= FIRST]
        slow, known = (np.isin(state, each) for each in (levels.LOW_NIGHTS, levels.KNOWN))
        delays = [int(np.append(np.flatnonzero(slow[at - LATE:at + max(WITHIN)]), 99 + LATE)[0]) - LATE
                  for at, _ in lasting]
        said = [_visible(history, k, int(history.nights.when[here[at - 1]]), accept_after, rate)
                for at, _ in lasting]
        kept = [delay < levels.WITHIN for delay, (_, change), least in zip(delays, lasting, said, strict=True)
                if least <= -change]
        scored.append(Scored(
            name, [history.labels[here[i]] for i in fresh(known)], int((state[FIRST:] != levels.TOO_FEW).sum()),
            Counter(kind(x, i, lasting) for i in fresh(known) if i >= FIRST), delays, kept,
            not -np.expm1(-outcome.cells.visible[k]) <= WANTED,
            max(robust_sd(x[-60:]), neighbours_sd(x[-60:])) < CALM))
    return scored


def _follow(history: detect.History, accept_after: int, rate: float) -> levels.Outcome:
    return levels.follow(history.nights, history.groups, rate, events=history.events, nodes=history.places,
                         accept_after=accept_after)


def _visible(history: detect.History, k: int, until: int, accept_after: int, rate: float) -> float:
    """Return the log of the slowdown that would show in series ``k``, as known on the night ``until``."""
    part = history.part(history.groups[k], until)
    visible = _follow(part, accept_after, rate).cells.visible
    return float(np.nan_to_num(visible[part.names.index(history.names[k])], nan=np.inf))


def row(name: str, scored: list[Scored]) -> str:
    """Return a row of the table for the series of one file, or of all."""
    judged, delays = sum(s.judged for s in scored), [d for s in scored for d in s.delays]
    kinds, kept = sum((s.kinds for s in scored), Counter()), [k for s in scored for k in s.kept]
    told = [str(sum(d < within for d in delays)) for within in WITHIN]
    alarms = [f'{1000 * n / max(judged, 1):.2f}' for n in (kinds.total(), *(kinds[k] for k in KINDS))]
    blind = [s for s in scored if s.blind]
    return ' | '.join((f'| {name}', str(len(scored)), str(judged), *alarms, str(len(delays)), *told,
                       f'{sum(kept)} of {len(kept)}', f'{len(blind)}', f'{sum(s.calm for s in blind)} of '
                       f'{sum(s.calm for s in scored)}')) + ' |'


def main() -> None:
    parser = argparse.ArgumentParser(prog='python -m dev.real', description=__doc__.partition('\n')[0])
    parser.add_argument('paths', nargs='+', type=Path, metavar='PATH', help='a CSV, gzipped or not, or a folder')
    parser.add_argument('--accept-after', type=int, default=7, metavar='N',
                        help='nights until an operator accepts an alarm; 0: never (default %(default)s)')
    parser.add_argument('--rate', type=float, default=levels.RATE, metavar='R',
                        help='stated false alarms a cell-night (default 1/3000)')
    parser.add_argument('--json', action='store_true', help='each series: its alarms, and whether 5 %% would show')
    chosen = parser.parse_args()
    found = {path: score(path, chosen.accept_after, chosen.rate) for given in chosen.paths
             for path in (sorted(given.glob('*.csv*')) if given.is_dir() else [given])}
    if not found:
        raise UsageError(f'{chosen.paths[0]}: no file *.csv or *.csv.gz in this folder')
    if chosen.json:
        print(json.dumps({str(path): {s.series: {'found': s.slowdowns, 'blind': s.blind} for s in scored}
                          for path, scored in found.items()}, indent=1))
        return
    head = ('data', 'series', 'nights judged', 'new alarms per 1000', *KINDS, 'lasting drops',
            *(f'told in {n}' for n in WITHIN), '`visible` kept', 'cannot show 5 %', 'calm ones')
    print('| ' + ' | '.join(head) + ' |\n|---' + '|---:' * (len(head) - 1) + '|')
    for path, scored in found.items():
        print(row(path.name.partition('.')[0], scored), flush=True)
    if len(found) > 1:
        print(row('all', [s for scored in found.values() for s in scored]))


if __name__ == '__main__':
    errors.run(main)
    sys.exit(errors.OK)
