"""How a job in a queue stands, written into its stage directory for whoever watches the run."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from parity.base import files

#: In a job's stage directory while it is in the scheduler's hands.
FILE = 'queue.json'


@dataclass(frozen=True)
class Standing:
    """How a job stands, and since when (Unix time)."""

    waits: bool
    since: float
    reason: str = ''


def note(job, waits: bool, reason: str = '') -> None:
    """Write down how a job stands, where that has changed. A full disk is no reason to end it."""
    before = getattr(job, 'standing', None)
    if before and (before.waits, before.reason) == (waits, reason):
        return
    since = before.since if before and before.waits == waits else time.time()
    job.standing = Standing(waits, since, reason)
    with contextlib.suppress(OSError):
        files.write(Path(job.workdir, FILE), json.dumps(asdict(job.standing)))


def read(folder: Path) -> Standing | None:
    """How the job of a stage directory stands; None where no scheduler has said anything of it."""
    try:
        return Standing(**json.loads((folder / FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return None
