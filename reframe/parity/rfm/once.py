"""What ReFrame 4.10 does again at every case, done once: on a large site it takes longer than the measurements.

It reads the file of accepted values for each case: seconds, where a thousand are accepted.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

from reframe.core import pipeline

from parity.base import yamlfile


def install() -> None:
    """A file is read again when it has changed; ReFrame makes values of its own of what it holds.

    UsageError, the reason of the case, for one whose aliases would expand to more than any memory holds.
    """
    read, known = pipeline.yaml.safe_load, {}

    def safe_load(file):
        state = os.fstat(file.fileno())
        key = (file.name, state.st_ino, state.st_mtime_ns, state.st_size)
        if key not in known:
            yamlfile.guard(Path(file.name), file.read())
            file.seek(0)
            known[key] = read(file)
        return known[key]

    pipeline.yaml = SimpleNamespace(safe_load=safe_load)
