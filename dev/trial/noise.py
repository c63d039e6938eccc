"""The scatter of the figures of quiet nights, and the size from which on a slowdown can show."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from statistics import median

import numpy as np

from dev.trial.rows import Row
from dev.trial.sealed import Noise
from parity.base.errors import UsageError
from parity.judge.stats import detect, levels
from parity.judge.stats.bounds import FIRST
from parity.judge.stats.hindsight import robust_sd
from parity.judge.verdict import budget

#: Standard errors that an oracle asks for, which knows level and noise, and the nights that it has.
SURE, WITHIN = 3.4, 3


def history(rows: Iterable[Row]) -> detect.History:
    """Return the nights of the figures, as `parity detect` reads them. A disturbed run is left out, where the
    night has another one."""
    rows = list(rows)
    calm = {(row.series, row.night) for row in rows if not row.disturbed}
    lines = ['series,night,kind,run,value,direction,group,node']
    for row in rows:
        if not row.disturbed or (row.series, row.night) not in calm:
            words = [row.series, row.night, row.kind, f'{row.run}', f'{row.value:.9g}']
            lines.append(','.join([*words, row.direction, row.group, row.node]))
    return detect.read('\n'.join([*lines, '']).encode(), 'nights.csv')


def measured(rows: Iterable[Row]) -> dict[str, Noise]:
    """Return the noise of each figure: medians over its nodes. UsageError for too few nights."""
    rows = list(rows)
    nights = history(rows)
    if nights.longest <= FIRST:
        raise UsageError(f'{nights.longest} nights; the noise needs more than {FIRST}')
    rate = budget.of(1.0, len(nights.names), 0, 0).rate
    outcome = levels.follow(nights.nights, nights.groups, rate, events=nights.events, nodes=nights.places)
    group_of = {row.series: row.group for row in rows}
    usual, scatter, least = (defaultdict(list) for _ in range(3))
    for at, name in enumerate(nights.names):
        logs = nights.nights.value[nights.nights.start[at]:nights.nights.start[at + 1]]
        logs = logs[np.isfinite(logs)]
        deviation = robust_sd(logs)
        visible = -np.expm1(-outcome.cells.visible[at])
        oracle = 1 - np.exp(-SURE * deviation / WITHIN ** 0.5)
        usual[group_of[name]].append(float(np.exp(nights.signs[at] * np.median(logs))))
        scatter[group_of[name]].append(float(deviation))
        least[group_of[name]].append(float(visible if np.isfinite(visible) else max(1.0, oracle)))
    return {group: Noise(median(usual[group]), median(scatter[group]), median(least[group]))
            for group in sorted(usual)}


def lines(noise: dict[str, Noise]) -> list[str]:
    """Return a table: what a figure usually is, its scatter, and the least slowdown that shows in three nights."""
    table = ['| figure | usually | scatter of a night | shows from | an oracle from |', '|---|' + '---:|' * 4]
    for group, figure in noise.items():
        oracle = 1 - np.exp(-SURE * figure.scatter / WITHIN ** 0.5)
        shows = f'{figure.least:.1%}' if figure.least < 1 else 'never'
        table.append(f'| {group} | {figure.usual:.4g} | {figure.scatter:.1%} | {shows} | {oracle:.1%} |')
    return table
