"""system.yaml files for tests: a good one, and that of example-slurm with one value replaced."""

from __future__ import annotations

import functools
import json
import operator

from conftest import TOP
from parity.base import yamlfile

GOOD = """\
name: site
hostnames: [login]
requires: []
partitions:
  - name: cpu
    scheduler: slurm
    launcher: srun
    extras: {cores: 1, nodes: 1, memory_bytes: 1}
"""


def example(path: str, value) -> dict:
    """example-slurm as data, with one value replaced."""
    data = json.loads(json.dumps(yamlfile.load(TOP / 'systems' / 'example-slurm' / 'system.yaml')[0]))
    *way, last = (int(key) if key.isdigit() else key for key in path.split('.'))
    functools.reduce(operator.getitem, way, data)[last] = value
    return data
