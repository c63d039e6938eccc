"""Histories made by hand: the figures of some nights, the facts of their sessions, cells as they are judged."""

from __future__ import annotations

from typing import Any

import polars as pl

from parity.judge.store.history import SCHEMA, TEXT
from parity.judge.store.record import Session
from parity.judge.verdict.model import WORDS, Cell, CodeCoverage, Coverage, JudgedSession, Verdict

DAY = 86400.0
FIRST = 1794960000.0         # 2026-11-18, at midnight UTC


def start(night: int) -> float:
    """When night 0, 1, 2... began: at noon, so that the day is the same in most time zones."""
    return FIRST + night * DAY + DAY / 2


def figure(night: int, value: float, node: str = 'v1', **other: Any) -> dict[str, Any]:
    return {'session': f'night-{night}', 'start': start(night), 'night': f'n{night}', 'rerun_of': '', 'system': 'onebox',
            'partition': 'virtual', 'environ': 'distro', 'check': 'Stream', 'case': 'Stream %threads=all',
            'size': 'quick', 'metric': 'triad', 'unit': 'GB/s', 'better': 'higher', 'run': 0, 'value': value,
            'node': node, 'jobid': '1', 'software': 'x', 'label': '', 'changed': '', 'reference': None,
            'low': None, 'high': None, 'disturbed': False, **other}


#: The nodes of `six_nodes`.
NODES = [f'p{i}' for i in range(1, 7)]


def node_figure(night: int, value: float, node: str, **other: Any) -> dict[str, Any]:
    return figure(night, value, node, **{'partition': 'physical', 'subsystem': 'memory', **other})


def six_nodes() -> list[dict[str, Any]]:
    """Return two nights of six nodes: p3 has half the speed in night 1, and p6 was not measured then."""
    speeds = dict(zip(NODES, (100, 101, 100, 99.5, 100.5, 99), strict=True))
    found = [node_figure(0, value, node) for node, value in speeds.items()]
    found += [node_figure(1, value * (0.5 if node == 'p3' else 1), node) for node, value in speeds.items() if node != 'p6']
    # a job on several nodes is as slow as its slowest node
    for night, value, nodes in ((1, 5.0, 'p1,p3'), (0, 10.0, 'p1,p2'), (1, 10.0, 'p2,p4'), (0, 4.9, 'p3,p4'), (0, 10.1, 'p4,p5')):
        found.append(node_figure(night, value, nodes, metric='exchange'))
    return found


def rerun(night: int, value: float, node: str = 'v1', **other: Any) -> dict[str, Any]:
    return figure(night, value, node, session=f'rerun-{night}', rerun_of=f'night-{night}', start=start(night) + 600, **other)


def frame(*rows: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=SCHEMA).cast({pl.String: TEXT}).sort('start', maintain_order=True)


def facts(night: int, nodes: dict[str, dict[str, str]] | None = None, reframe: str = '4.10.4', **machine: Any) -> Session:
    return Session(uuid=f'night-{night}', start=start(night), system='onebox', cmdline='', reframe=reframe, facts=machine, nodes=nodes or {})


def cell(word: str = 'regressed', case: str = 'Stream %threads=all', metric: str = 'triad', subsystem: str = 'memory', **other: Any) -> Cell:
    return Cell(**{'check': case.split()[0], 'case': case, 'subsystem': subsystem, 'system': 'onebox',
                   'partition': 'virtual', 'environ': 'distro', 'size': 'quick', 'metric': metric, 'unit': 'GB/s',
                   'better': 'higher', 'verdict': word, **other})


def verdict_of(cells, **given):
    session = JudgedSession(uuid='3f2a91b4-0000', system='onebox', start='2026-11-20T02:14:00', end='2026-11-20T03:26:00', elapsed=4320.0,
                      run_time=3480.0, cmdline='reframe -r', reframe='4.10.0', **given.pop('session', {}))
    coverage = Coverage(line='1 of 2 codes (no Spack: NPB)', measured=1, total=2, cells=len(cells), codes=[
        CodeCoverage(code='STREAM', measured=True, by='distro package'), CodeCoverage(code='NPB', measured=False, reason='no Spack')])
    return Verdict(**{'session': session, 'coverage': coverage, 'counts': {word: sum(c.verdict == word for c in cells) for word in WORDS},
                      'trust': 'no rate is stated', 'warnings': [], 'next': 'parity show', 'exit_code': 1, 'cells': list(cells), **given})
