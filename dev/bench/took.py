"""The cost of a command, and one printed line a figure."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from typing import Any, NamedTuple


class Took(NamedTuple):
    """The cost of one command: wall and CPU seconds, and the peak memory of its largest process."""

    seconds: float
    cpu: float
    megabytes: float
    code: int
    printed: str


def took(*command: str, **options: Any) -> Took:
    """Run Python with these words and Popen's options, and return the cost."""
    start = time.perf_counter()
    with tempfile.TemporaryFile('w+') as out:
        child = subprocess.Popen([sys.executable, *command], stdin=subprocess.DEVNULL, stdout=out,
                                 stderr=subprocess.STDOUT, **options)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        return Took(time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6,
                    child.returncode, out.read())


def at_most(what: str, value: float, limit: float, unit: str) -> bool:
    """Print a figure with its limit; return True if it keeps to it."""
    good = value <= limit
    print(f'{what:60} {value:5.2f} {unit}   at most {limit:.2f} {unit}   {"ok" if good else "ABOVE"}', flush=True)
    return good
