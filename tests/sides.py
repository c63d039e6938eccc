"""Nights of two partitions, physical and virtual, with figures of several subsystems, and the checkout that stores them."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import sessions
from conftest import TOP
from nights import start
from stored import Stored

PHYSICAL, VIRTUAL = 'onebox:physical', 'onebox:virtual'


class Measured(NamedTuple):
    """A metric of a case on both partitions, and how much its nights differ."""

    case: str
    subsystem: str
    metric: str
    unit: str
    better: str
    physical: float
    virtual: float
    noise: float = 0.004


#: A virtual partition that loses 5 % in memory and much in small messages.
FIGURES = (
    Measured('Stream %threads=all', 'memory', 'triad', 'MB/s', 'higher', 71200.0, 67600.0),
    Measured('Hpl', 'compute', 'gflops', 'Gflop/s', 'higher', 812.0, 809.0),
    Measured('Npb %benchmark=ep', 'compute', 'mops_total', 'Mop/s', 'higher', 2410.0, 2399.0),
    Measured('OsuLatency %benchmark=latency %where=between', 'network', 'latency_8B', 'us', 'lower', 1.62, 2.05, 0.01),
    Measured('OsuBandwidth %benchmark=bw %where=between', 'network', 'bandwidth_1MiB', 'MB/s', 'higher', 11800.0, 11350.0),
    Measured('Ior %access=file-per-process', 'storage', 'write', 'MB/s', 'higher', 2210.0, 2180.0, 0.03),
)


def site(folder: Path, pairs: str) -> None:
    """Write a checkout with the system onebox and these declared pairs."""
    own = folder / 'systems' / 'onebox'
    own.mkdir(parents=True)
    shutil.copy(TOP / 'systems' / 'onebox' / 'system.yaml', own)
    (own / 'pairs.yaml').write_text(pairs)
    for name in ('checks', 'jobs'):
        (folder / name).symlink_to(TOP / name)


def nights(count: int, figures: tuple[Measured, ...] = FIGURES) -> str:
    """Store nights of both partitions, three runs a case; return the newest session."""
    stored = Stored()
    for night in range(count):
        noise = random.Random(night)
        cases, plan = [], []
        for partition in ('physical', 'virtual'):
            for own in figures:
                level = getattr(own, partition) * (1 + noise.gauss(0, own.noise))
                cases += [_ran(own, partition, night, level * (1 + noise.gauss(0, own.noise / 2))) for _ in range(3)]
                plan.append(_planned(own, partition))
        newest = stored.add(*cases, plan=plan, uuid=f'{night:08x}-0000', system='onebox', facts=_facts())
    return newest


def _planned(own: Measured, partition: str) -> dict[str, Any]:
    return sessions.planned(own.case, subsystem=own.subsystem, system='onebox', partition=partition, metrics=[_metric(own)])


def _metric(own: Measured) -> dict[str, str]:
    return {'name': own.metric, 'unit': own.unit, 'better': own.better}


def _ran(own: Measured, partition: str, night: int, value: float) -> dict[str, Any]:
    noted = {'size': 'quick', 'subsystem': own.subsystem, 'metrics': {own.metric: _metric(own)},
             'placement': {'nodes': 1, 'ranks': 2, 'binding': 'core'}, 'facts': _curve(own, value)}
    case = sessions.ran(own.case, parity=noted, job_nodelist=[f'{partition[0]}{night % 4 + 1}'],
                        job_completion_time_unix=start(night) + 60)
    return {**case, 'system': 'onebox', 'partition': partition,
            'perfvalues': {f'onebox:{partition}:{own.metric}': [value, 0, None, None, own.unit, None]}}


def _curve(own: Measured, value: float) -> dict[str, Any]:
    """Return a latency by message size, of which the metric is one point."""
    if not own.metric.startswith('latency_'):
        return {}
    sizes = [1, 8, 64, 512, 4096, 32768]
    return {'curve': {f'latency_{size}': value if size == 8 else value * (1 + size / 4096) for size in sizes}}


def _facts() -> dict[str, Any]:
    return {'software': {'distro': {'mpi': {'name': 'Open MPI', 'version': '4.1.4'}}}}
