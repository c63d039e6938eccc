"""A made-up contract of the system `local`: its file, its plan, its nodes, and a ReFrame that measures them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from parity.judge.store.plan_file import extras
from parity.measure.rfm import planning
from parity.measure.scheduler import nodes as of_scheduler
from parity.measure.session import runner
from parity.site.nodes import NodeState, Scheduled
from parity.site.plan import CaseAnswer, Plan
from sessions import METRICS, case, planned

SYSTEM = '''name: local
hostnames: ['.*']
requires: []
partitions:
  - name: default
    scheduler: slurm
    launcher: srun
    time_limit: 30m
    extras: {cores: 1, memory_bytes: 8000000000}
'''
TOY = {'check': 'Toy', 'file': 'checks/compute/toy.py', 'needs': ['hpcc'], 'parameters': {'mode': ['one', 'all']}, 'metrics': METRICS}
CLAUSE = {'id': 'speed', 'promise': 'HPL of 100 Gflop/s on each node', 'page': 12, 'partition': 'default', 'check': 'Toy',
          'parameters': {'mode': 'all'}, 'size': 'quick', 'metric': 'hpl', 'at_least': 100, 'unit': 'Gflop/s', 'runs': 5}


def clause(**changed: Any) -> dict[str, Any]:
    """A clause; what is None is left out."""
    return {key: value for key, value in {**CLAUSE, **changed}.items() if value is not None}


class Machine:
    """Nodes with a level each and noise, their contract, and the sessions that were run."""

    def __init__(self, stored, site: Path, monkeypatch):
        self.stored, self.file = stored, site.with_name('contract.yaml')
        site.write_text(SYSTEM)
        self.levels: dict[str, float] = {'p1': 110.0, 'p2': 111.0, 'p3': 112.0}
        self.away: dict[str, str] = {}
        self.lacking: dict[str, str] = {}
        self.environs = ['distro']
        self.ran: list[tuple[str, ...]] = []
        #: What becomes of a run instead, by its node and the number of its session from 1.
        self.broken: dict[tuple[str, int], dict[str, Any]] = {}
        self.ends: Callable[[int], str] = lambda number: ''
        monkeypatch.setattr(runner, 'reframe', self.reframe)
        monkeypatch.setattr(planning, 'of_cases', self.plan)
        monkeypatch.setattr(of_scheduler, 'of_system', lambda _: self.scheduled())

    def write(self, *clauses: dict[str, Any], **more: Any) -> None:
        self.file.write_text(yaml.safe_dump({**more, 'clauses': list(clauses)}, sort_keys=False))

    def scheduled(self) -> Scheduled:
        return Scheduled(tuple(NodeState(name, self.away.get(name, 'idle'), takes=name not in self.away) for name in self.levels))

    def plan(self, asked, system: str) -> Plan:
        answers = [CaseAnswer(reason=self.lacking.get(each.check, ''), metrics=['hpl', 'latency']) for each in asked]
        cases = [planned('Toy %mode=all', environ) for environ in self.environs]
        other = {**TOY, 'check': 'Other', 'parameters': {}}
        return Plan(system=system, cases=cases, checks=[TOY, other], problems=[], answers=answers)

    def reframe(self, arguments: list[str], limit=None, step: str = '', shown: bool = True) -> str:
        number = len(self.ran) + 1
        listed = next((word.partition('=')[2] for word in arguments if word.startswith('nodelist=')), next(iter(self.levels)))
        nodes = tuple(listed.split(','))
        if stopped := self.ends(number):
            return stopped
        self.ran.append(nodes)
        wiggle = (-1, 0, 1)[number % 3]
        runs = [self.run(node, self.levels[node] * (1 + .002 * wiggle), number) for node in nodes]
        self.stored.add(*runs, plan=[planned()], **extras(arguments))
        return ''

    def run(self, node: str, value: float, number: int) -> dict[str, Any]:
        broken = self.broken.get((node, number), {})
        name = f'Toy %mode=all %part=default %nid={node}'
        about = {'job': {'submitted': 1.0, 'waited': 1.0, 'ran': 60.0}, 'node': {'node': node, 'processor': 'Xeon', 'kernel': '6.1'}, **broken.get('parity', {})}
        rest = {key: given for key, given in broken.items() if key != 'parity'}
        return case(**{'hpl': value, 'case': name, 'job_nodelist': [node], 'time_run': 60.0, 'parity': about, **rest})
