"""Measure the rule of regression on real histories: python -m dev.real PATH... [--beside] [--json]

A PATH is a CSV in the form of `parity detect`, gzipped if its name ends with .gz, or a folder of such files.
Nobody knows the truth of a real history. Here it is hindsight's, by a method that has nothing of the rule:

- **A lasting drop**: parity.judge.stats.hindsight finds it.
- **The kind of an alarm**, from the nights around it. `step`: a lasting drop. `small step`: the next 15 nights are
  lower by 1 % and two robust standard deviations. `drift`: lower than 60 to 200 nights before. `short`: some
  nights, gone. `end`: the series ends soon after. `nothing`: an operator would call it false.

--beside and --otava PYTHON measure other rules, too (dev.plain_rules). An alarm is new after three nights without
one. The first 10 nights of a series do not count: none is judged.

--least measures what `alarms: {least: X %}` would do: alarms a month, and drops told, over the smallest slowdown
that alarms and over the number of series. Each history is a system with one false alarm a month: half of its
groups, all groups, and all histories together.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dev import plain_rules
from parity.base import errors
from parity.base.errors import UsageError
from parity.judge.stats import detect, hindsight, levels, rule
from parity.judge.stats.bounds import WANTED
from parity.judge.stats.hindsight import FLOOR, boundaries, drops, fresh, neighbours_sd, robust_sd
from parity.judge.store.reading import Reading
from parity.judge.verdict import budget

#: Nights that do not count; the shortest series; the scatter of the last 60 nights of a calm one.
FIRST, SHORTEST, CALM = 10, 60, 0.015
#: Drops are counted that were told within so many nights; the segmentation may place a drop two nights late.
WITHIN, LATE = (3, 7, 30), 2
#: The rule of parity.
PARITY = 'parity'
KINDS = ('nothing', 'short', 'small step', 'drift', 'step', 'end')
#: The smallest slowdowns that may alarm, as shares.
LEAST = (0.0, 0.02, 0.03, 0.04, 0.05, 0.08)


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
    """One series, scored on its nights after the first 10."""

    series: str
    slowdowns: list[int | str]       # the labels of the nights on which a slowdown was found
    judged: int
    kinds: Counter[str]              # of the new alarms
    delays: list[int]                # of each lasting drop: nights until it was told, from 0; 99: not told
    kept: list[bool]                 # of each drop that the rule said would show: told within three nights
    blind: bool                      # 5 % would not show at the end, or the series is not judged
    calm: bool


class Long(NamedTuple):
    """A series that is long enough to be scored."""

    number: int
    name: str
    here: np.ndarray                 # the places of its nights in the history
    x: np.ndarray                    # logarithms, higher is better
    lasting: list[tuple[int, float]]


def series_of(history: detect.History) -> Iterator[Long]:
    """Yield the series that are long enough."""
    for k, name in enumerate(history.names):
        here = np.arange(*history.nights.start[k:k + 2])
        here = here[np.isfinite(history.nights.value[here])]
        if len(here) >= SHORTEST and not history.nights.counts[k]:
            x = history.nights.value[here]
            yield Long(k, name, here, x, [d for d in drops(x, boundaries(x)) if d[0] >= FIRST])


def score(history: detect.History, accept_after: int, rate: float = rule.RATE) -> list[Scored]:
    """Score parity's rule on every series of a history that is long enough."""
    outcome, scored = _follow(history, accept_after, rate), []
    for k, name, here, x, lasting in series_of(history):
        state = outcome.state[here]
        slow, known = (np.isin(state, each) for each in (rule.LOW_NIGHTS, rule.KNOWN))
        delays = _delays(np.flatnonzero(slow), lasting)
        said = [_visible(history, k, int(history.nights.when[here[at - 1]]), accept_after, rate)
                for at, _ in lasting]
        kept = [delay < rule.WITHIN for delay, (_, change), least in zip(delays, lasting, said, strict=True)
                if least <= -change]
        scored.append(Scored(
            name, [history.labels[here[i]] for i in fresh(known)], int((state[FIRST:] != rule.TOO_FEW).sum()),
            Counter(kind(x, i, lasting) for i in fresh(known) if i >= FIRST), delays, kept,
            not -np.expm1(-outcome.cells.visible[k]) <= WANTED,
            max(robust_sd(x[-60:]), neighbours_sd(x[-60:])) < CALM))
    return scored


def _delays(slow: np.ndarray, lasting: list[tuple[int, float]]) -> list[int]:
    """Return the nights from each drop to the first of the nights ``slow``; 99 where none is near."""
    near = ([night - at for night in slow if at - LATE <= night < at + max(WITHIN)] for at, _ in lasting)
    return [max(0, int(nights[0])) if nights else 99 for nights in near]


def others(history: detect.History, accept_after: int, otava: Path | None) -> Iterator[tuple[str, list[Scored]]]:
    """Yield the name of each other rule, and its scores."""
    long = list(series_of(history))
    for name, follow in (('fixed -5 %', plain_rules.fixed), ('median of three', plain_rules.three)):
        slow = [follow(each.x, accept_after) for each in long]
        yield name, [_scored(each, fresh(nights), np.flatnonzero(nights))
                     for each, nights in zip(long, slow, strict=True)]
    if otava:
        found = plain_rules.otava(otava, {each.name: (
            history.signs[each.number], np.exp(history.signs[each.number] * each.x).tolist()) for each in long})
        yield 'Otava', [_scored(each, [place for _, place in found[each.name]],
                                np.array([night for night, _ in found[each.name]], dtype=int)) for each in long]


def _scored(of: Long, new: list[int], slow: np.ndarray) -> Scored:
    kinds = Counter(kind(of.x, i, of.lasting) for i in new if i >= FIRST)
    return Scored(of.name, new, len(of.x) - FIRST, kinds, _delays(slow, of.lasting), [], False, False)


def _follow(history: detect.History, accept_after: int, rate: float) -> rule.Outcome:
    return levels.follow(history.nights, history.groups, rate, events=history.events, nodes=history.places,
                         accept_after=accept_after)


def _visible(history: detect.History, k: int, until: int, accept_after: int, rate: float) -> float:
    """Return the log of the slowdown that would show in series ``k``, as known on the night ``until``."""
    part = history.part(history.groups[k], until)
    visible = _follow(part, accept_after, rate).cells.visible
    return float(np.nan_to_num(visible[part.names.index(history.names[k])], nan=np.inf))


# ---- the smallest slowdown that alarms

class Alarming(NamedTuple):
    """Alarms of a system's series, with one smallest slowdown."""

    kinds: Counter[str]              # of the new alarms
    delays: list[int]                # of each lasting drop
    judged: int                      # nights of series


def alarming(history: detect.History, accept_after: int, rate: float) -> dict[float, Alarming]:
    """Return by LEAST what alarms in a history."""
    outcome = _follow(history, accept_after, rate)
    found = {least: Alarming(Counter(), [], 0) for least in LEAST}
    for _, _, here, x, lasting in series_of(history):
        state = outcome.state[here]
        known, slow = (np.isin(state, words) for words in (rule.KNOWN, rule.LOW_NIGHTS))
        judged = int((state[FIRST:] != rule.TOO_FEW).sum())
        for least, so_far in found.items():
            told = hindsight.reaching(known, outcome.deepest[here], least)
            new = [i for i in fresh(told) if i >= FIRST]
            kinds = so_far.kinds + Counter(kind(x, i, lasting) for i in new)
            delays = so_far.delays + _delays(np.flatnonzero(told & slow), lasting)
            found[least] = Alarming(kinds, delays, so_far.judged + judged)
    return found


def half(history: detect.History) -> detect.History:
    """Return every second group of a history."""
    groups = np.unique(history.groups)
    return history.part(groups[::2])


def curve(histories: dict[str, detect.History], accept_after: int) -> None:
    """Print alarms a month, and drops told, over the smallest slowdown that alarms."""
    head = ('data', 'series', 'least', 'alarms a month', 'nothing', 'short', 'lasting drops',
            *(f'told in {n}' for n in WITHIN))
    print('| ' + ' | '.join(head) + ' |\n|---' + '|---:' * (len(head) - 1) + '|', flush=True)
    systems = {}
    for name, history in histories.items():
        systems[f'half of {name}'] = [half(history)]
        systems[name] = [history]
    systems['all together'] = [*histories.values()]
    for name, parts in systems.items():
        series = sum(len(list(series_of(part))) for part in parts)
        rate = budget.of(1.0, series, 0, 0).rate
        found = [alarming(part, accept_after, rate) for part in parts]
        for least in LEAST:
            print(_of_least(name, series, least, [each[least] for each in found]), flush=True)


def _of_least(name: str, series: int, least: float, parts: list[Alarming]) -> str:
    kinds = sum((part.kinds for part in parts), Counter())
    delays = [delay for part in parts for delay in part.delays]
    months = sum(part.judged for part in parts) / series / budget.NIGHTS
    alarms = [f'{count / months:.2f}' for count in (kinds.total(), kinds['nothing'], kinds['short'])]
    told = [str(sum(delay < within for delay in delays)) for within in WITHIN]
    return ' | '.join((f'| {name}', str(series), f'{100 * least:g} %', *alarms, str(len(delays)), *told)) + ' |'


def row(name: str, by: str, scored: list[Scored]) -> str:
    """Return a row of the table for the series of one file, or of all."""
    judged, delays = sum(s.judged for s in scored), [d for s in scored for d in s.delays]
    kinds, kept = sum((s.kinds for s in scored), Counter()), [k for s in scored for k in s.kept]
    told = [str(sum(d < within for d in delays)) for within in WITHIN]
    alarms = [f'{1000 * n / max(judged, 1):.2f}' for n in (kinds.total(), *(kinds[k] for k in KINDS))]
    blind = [s for s in scored if s.blind]
    shows = [f'{sum(kept)} of {len(kept)}', f'{len(blind)}',
             f'{sum(s.calm for s in blind)} of {sum(s.calm for s in scored)}'] if by == PARITY else ['-'] * 3
    return ' | '.join((f'| {name}', by, str(len(scored)), str(judged), *alarms, str(len(delays)), *told,
                       *shows)) + ' |'


def main() -> None:
    parser = argparse.ArgumentParser(prog='python -m dev.real', description=__doc__.partition('\n')[0])
    parser.add_argument('paths', nargs='+', type=Path, metavar='PATH', help='a CSV, gzipped or not, or a folder')
    parser.add_argument('--accept-after', type=int, default=7, metavar='N',
                        help='nights until an operator accepts an alarm; 0: never (default %(default)s)')
    parser.add_argument('--rate', type=float, default=rule.RATE, metavar='R',
                        help='stated false alarms a cell-night (default 1/3000)')
    parser.add_argument('--beside', action='store_true', help='also a fixed -5 %%, and the median of three nights')
    parser.add_argument('--otava', type=Path, metavar='PYTHON', help='also Otava: a Python with apache-otava')
    parser.add_argument('--least', action='store_true', help='alarms a month over the least slowdown that alarms')
    parser.add_argument('--json', action='store_true', help='each series: its alarms, and whether 5 %% would show')
    chosen = parser.parse_args()
    files_of = {path: detect.read(Reading().unpacked(path), str(path)) for given in chosen.paths
                for path in (sorted(given.glob('*.csv*')) if given.is_dir() else [given])}
    if not files_of:
        raise UsageError(f'{chosen.paths[0]}: no file *.csv or *.csv.gz in this folder')
    if chosen.json:
        print(json.dumps({str(path): {s.series: {'found': s.slowdowns, 'blind': s.blind}
                                      for s in score(history, chosen.accept_after, chosen.rate)}
                          for path, history in files_of.items()}, indent=1))
        return
    if chosen.least:
        curve({path.name.partition('.')[0]: history for path, history in files_of.items()}, chosen.accept_after)
        return
    head = ('data', 'rule', 'series', 'nights judged', 'new alarms per 1000', *KINDS, 'lasting drops',
            *(f'told in {n}' for n in WITHIN), '`visible` kept', 'cannot show 5 %', 'calm ones')
    print('| ' + ' | '.join(head) + ' |\n|---|---' + '|---:' * (len(head) - 2) + '|', flush=True)
    of_all: dict[str, list[Scored]] = {}
    for path, history in files_of.items():
        rules = others(history, chosen.accept_after, chosen.otava) if chosen.beside or chosen.otava else ()
        parity = PARITY, score(history, chosen.accept_after, chosen.rate)
        for name, scored in itertools.chain([parity], rules):
            print(row(path.name.partition('.')[0], name, scored), flush=True)
            of_all.setdefault(name, []).extend(scored)
    if len(files_of) > 1:
        for name, scored in of_all.items():
            print(row('all', name, scored))


if __name__ == '__main__':
    errors.run(main)
    sys.exit(errors.OK)
