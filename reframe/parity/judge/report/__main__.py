"""``python -m parity.judge.report SYSTEM``: print the answer of a run that just ended with ReFrame's exit code."""

from __future__ import annotations

import gc
import sys

from parity.base import console, errors
from parity.judge.report import answer
from parity.judge.verdict import judge

gc.set_threshold(100_000)       # as of `parity verdict`: the cells of a large system are no garbage
errors.run(lambda: console.lines(answer.lines(judge.newest('', sys.argv[1]), exits=False)))
