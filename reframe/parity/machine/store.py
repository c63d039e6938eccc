"""Detection once a boot: the machine as cached JSON."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from parity import __version__
from parity.base import files
from parity.machine import memory, topology
from parity.machine.cpuinfo import Tree, processors
from parity.machine.detect import detect
from parity.machine.model import Machine


def load(cache_file: Path | str, root: Path | str = '/') -> Machine:
    """The cached machine with the memory available now, or a new look where what decides it has changed."""
    tree = Tree(root)
    key = _key(tree)
    cached = read(cache_file, key)
    if cached is not None:
        try:
            machine = Machine.model_validate(cached)
            now = memory.memory(tree)[0]['memory_available_bytes']
            return machine.model_copy(update={'memory_available_bytes': now})
        except ValueError:                      # written by another hand
            pass
    machine = detect(root)
    write(cache_file, key, machine.model_dump(mode='json'))
    return machine


def read(cache_file: Path | str, key: dict[str, Any]) -> Any:
    """The value stored under ``key``; None where there is none or the file is not ours."""
    try:
        stored = json.loads(Path(cache_file).read_text())
        return stored['value'] if stored['key'] == key else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write(cache_file: Path | str, key: dict[str, Any], value: Any) -> None:
    """A cache that cannot be written costs time, not the run."""
    with contextlib.suppress(OSError):
        files.write(Path(cache_file), json.dumps({'key': key, 'value': value}))


def _key(tree: Tree) -> dict[str, Any]:
    return {
        'parity': __version__,
        'boot': tree.text('proc/sys/kernel/random/boot_id'),
        'kernel': tree.text('proc/sys/kernel/osrelease'),
        'cpus': sorted(topology.usable(tree, processors(tree))[0]),
        'cpu_quota': memory.cpu_quota(tree),
        'memory_limit': (memory.memory_limit(tree) or [None])[0],
        'root': str(tree.root),
        'user': os.geteuid(),                   # only root sees the memory channels
    }
