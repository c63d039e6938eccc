"""Run Apache Otava on each night of each series, in a Python of its own: JSON from standard input to output.

In: {series: {"better": 1 or -1, "values": [...]}}. Out: {series: [[night, place], ...]}, the slower change points
that were new on a night, and where each stands. One within five nights of one that was reported is not new."""

from __future__ import annotations

import json
import logging
import sys

#: Nights before the first analysis, and nights within which a change point is the same.
FIRST, SAME = 20, 5


def alarms(better: int, values: list[float]) -> list[tuple[int, int]]:
    """Analyse the nights up to each one, as `otava analyze` does by default."""
    from otava.series import AnalysisOptions, Metric, Series
    found: list[tuple[int, int]] = []
    for night in range(FIRST, len(values)):
        times = list(range(night + 1))
        series = Series('nights', None, times, {'value': Metric(better)}, {'value': values[:night + 1]}, {})
        for point in series.analyze(AnalysisOptions()).change_points['value']:
            worse = better * point.forward_change_percent() < 0
            if worse and all(abs(point.index - place) > SAME for _, place in found):
                found.append((night, int(point.index)))
    return found


def main() -> None:
    logging.disable(logging.INFO)
    wanted = json.load(sys.stdin)
    json.dump({name: alarms(each['better'], each['values']) for name, each in wanted.items()}, sys.stdout)


if __name__ == '__main__':
    main()
