"""Rules beside parity's: a fixed -5 %, the median of three nights, and Apache Otava."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np

from parity.base.errors import UsageError
from parity.base.paths import root

#: The drop that alarms; nights of a reference, of a history and at its least.
DROP, FEW, HISTORY, LEAST = np.log(0.95), 10, 40, 15


def fixed(x: np.ndarray, accept_after: int) -> np.ndarray:
    """Return the nights of the logarithms ``x`` that are 5 % below a reference, the median of the first ten.

    After ``accept_after`` alarms in a row their median is the reference; 0: never."""
    slow, level, row = np.zeros(len(x), dtype=bool), float(np.median(x[:FEW])), 0
    for t in range(FEW, len(x)):
        slow[t] = x[t] - level < DROP
        row = row + 1 if slow[t] else 0
        if accept_after and row >= accept_after:
            level, row = float(np.median(x[t + 1 - row:t + 1])), 0
    return slow


def three(x: np.ndarray, accept_after: int) -> np.ndarray:
    """Return the nights whose last three have a median 5 % below that of up to 40 nights before them.

    Nights that alarm are no history, until the operator accepts them: then it begins with them."""
    slow, apart = np.zeros((2, len(x)), dtype=bool)
    start, row = 0, 0
    for t in range(2, len(x)):
        past = np.arange(start, t - 2)
        past = past[~apart[past]][-HISTORY:]
        slow[t] = apart[t] = len(past) >= LEAST and np.median(x[t - 2:t + 1]) - np.median(x[past]) < DROP
        row = row + 1 if slow[t] else 0
        if accept_after and row >= accept_after:
            start, row = t + 1 - row, 0
            apart[start:] = False
    return slow


def otava(python: Path, series: dict[str, tuple[int, list[float]]]) -> dict[str, list[tuple[int, int]]]:
    """Return the night and place of each slower change point that Otava reports; ``series``: sign and figures.

    ``python``: a Python with apache-otava. UsageError where it has none."""
    wanted = {name: {'better': sign, 'values': values} for name, (sign, values) in series.items()}
    done = subprocess.run([python, root() / 'dev' / 'otava_nights.py'], input=json.dumps(wanted), text=True,
                          capture_output=True)
    if done.returncode:
        raise UsageError(f'--otava {python}: {(done.stderr.strip().splitlines() or ["it ended"])[-1]}; valid is a '
                         'Python with apache-otava')
    return json.loads(done.stdout)
