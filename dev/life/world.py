"""The figures of the made-up system: levels, noise, nodes, maintenance, and the effects of planted faults."""

from __future__ import annotations

import datetime
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from math import exp, log
from typing import Any

import numpy as np

from dev.life.faults import Cell, Fault
from dev.life.site import PARTITIONS, SYSTEM, PlannedCase, Site, name_of
from parity.base import codes

#: The first evening; clocks change 41 nights later. Nights begin at 02:14.
_FIRST = datetime.date(2025, 2, 17)
#: Of a cell: the bounds of its standard deviation, and how its nights depend on each other.
LEAST, MOST, CORRELATION = 0.003, 0.06, 0.3
#: Of the variance: what a night has in common, and what the figures of a case have in common.
_NIGHT, _CASE = 0.7, 0.5
NODES, OUTLIERS, MAINTENANCE, SHIFT, MISSING, WEEKDAY = 0.005, 0.003, 42, 0.01, 0.05, 0.002
_RUNS, _COMPILER = 3, '13.2.0'
#: Jobs of a night that run on a node that a fault draws.
_DRAWN = 3


class World:
    """A life of so many days. ``faults`` are planted by whoever made it."""

    def __init__(self, rng: np.random.Generator, site: Site, days: int):
        self.rng, self.site, self.cases, self.faults = rng, site, site.cases, []
        self.nodes = {name: [f'{name[0]}{n:02}' for n in range(1, count + 1)]
                      for name, (count, *_) in PARTITIONS.items()}
        self.cells = {(c.partition, c.case): list(self._cells(c)) for c in self.cases}
        every = [cell for own in self.cells.values() for cell in own]
        gone = set(rng.choice(np.arange(1, days), round(MISSING * days), replace=False))
        self.days = [day for day in range(days) if day not in gone]
        self._effect = defaultdict(lambda: rng.normal(0, NODES))
        shifts = days // MAINTENANCE + 1
        self._moved = {(p, s): np.cumsum(np.append(0, rng.uniform(-SHIFT, SHIFT, shifts)))
                       for p, s in sorted({(c.partition, c.check) for c in every})}
        self._state = {name: rng.standard_normal() for name in [c.name for c in every] + [*self.cells]}
        self._jobs = 0

    def _cells(self, case: PlannedCase) -> Iterator[Cell]:
        for metric in case.metrics:
            name = name_of(case, metric.name)
            sd = exp(self.rng.uniform(log(LEAST), log(MOST)))
            yield Cell(name, case.partition, case.environ, case.check, case.case, metric.name, metric.better,
                       case.subsystem, codes.group_of(name, case.subsystem),
                       float(f'{exp(self.rng.uniform(0, 9)):.4g}'),
                       sd, 2 if '=between' in case.case else 1)

    def begin(self, night: int) -> float:
        """Return when a night began, Unix time; and let its noise be of that night."""
        day = _FIRST + datetime.timedelta(self.days[night])
        phi = CORRELATION / _NIGHT
        for name, value in self._state.items():
            self._state[name] = phi * value + (1 - phi * phi) ** 0.5 * self.rng.standard_normal()
        self.hit: dict[str, dict[int, float]] = defaultdict(dict)
        self._now = time.mktime((day.year, day.month, day.day, 2, 14, 0, 0, 0, -1)), night, day.weekday()
        return self._now[0]

    @property
    def started(self) -> float:
        return self._now[0]

    def planned(self) -> list[PlannedCase]:
        """Return tonight's plan, with the units of tonight."""
        night = self._now[1]
        found = []
        for case in self.cases:
            cell = self.cells[case.partition, case.case][0]
            mine = [f for f in self.faults if f.loss(cell, (), night) and f.word in ('missing', 'other work')]
            if any(f.reason == 'unit' for f in mine):
                case = case.model_copy(update={'metrics': [m.model_copy(update={'unit': f'k{m.unit}'})
                                                           for m in case.metrics]})
            if any(f.word == 'missing' for f in mine):
                self._note(self.cells[case.partition, case.case], mine, ())
                continue
            found.append(case)
        return found

    def _note(self, cells: Iterable[Cell], faults: Iterable[Fault], nodes: Sequence[str]) -> None:
        for cell in cells:
            for fault in faults:
                if share := fault.loss(cell, nodes, self._now[1]):
                    self.hit[cell.name][self.faults.index(fault)] = share

    def facts(self, name: str) -> str | None:
        """Return the value of a fact that a fault changed by tonight: 'compiler', 'swapped'."""
        return next((f.facts[name] for f in self.faults if name in f.facts and f.first <= self._now[1]
                     and (f.accepted or self._now[1] < f.end)), None)

    def _available(self, partition: str) -> list[str]:
        """A node that died takes no job for three nights."""
        down = {f.facts['down'] for f in self.faults if 'down' in f.facts and f.end <= self._now[1] < f.end + 3}
        away = {node for f in self.faults if f.drawn and not f.drawn(self._now[1]) for node in f.place[1]}
        return [node for node in self.nodes[partition] if node not in down | away]

    def _drawn(self, free: Sequence[str]) -> list[str]:
        """Return the nodes of ``free`` on which the first jobs of tonight run."""
        drawn = {node for f in self.faults if f.drawn and f.drawn(self._now[1]) for node in f.place[1]}
        return [node for node in free if node in drawn]

    def session_facts(self) -> dict[str, Any]:
        compiler = self.facts('compiler') or _COMPILER
        packages = {'npb': {'spec': 'npb@3.4.2', 'hash': ('a' if compiler == _COMPILER else 'b') * 32,
                            'compiler': f'gcc@{compiler}', 'mpi': 'openmpi@4.1.6'}}
        one = {'provider': 'modules', 'packages': packages}
        return {'machine': {'hostname': 'login'}, 'parity': '0', 'software': {'gcc': one, 'cuda': one}}

    def ran(self, cases: Iterable[PlannedCase], number: str, nodes: tuple[str, ...] = (), elsewhere: bool = False
            ) -> list[dict[str, Any]]:
        """Run cases as a session does, on ``nodes``, on others than these, or anywhere; return the records."""
        found, jobs = [], Counter[str]()
        for case in cases:
            cells = self.cells[case.partition, case.case]
            free = [n for n in self._available(case.partition) if not elsewhere or n not in nodes]
            dead = [i for i, f in enumerate(self.faults) if 'down' in f.facts and f.first == self._now[1]
                    and f.facts['down'] in free]
            here = nodes if nodes and not elsewhere else tuple(sorted(
                self.rng.choice(free, min(cells[0].nodes, len(free)), replace=False)))
            # a job dies there, and it is free again: the first of the night, and some of the others
            if dead and not nodes and (self.rng.random() < 0.12
                                       or not any(dead[0] in by for by in self.hit.values())):
                here = (self.faults[dead[0]].facts['down'], *here[1:])
            drawn = self._drawn(free)
            if drawn and not nodes and jobs[case.partition] < _DRAWN:
                here = (drawn[0], *here[1:])
                jobs[case.partition] += 1
            if not nodes:
                self._note(cells, self.faults, here)
            self._jobs += 1
            outlier = log(1 - self.rng.uniform(0.1, 0.4)) if self.rng.random() < OUTLIERS else 0.0
            references = self.site.references(case)
            found += [self._run(case, cells, here, number, outlier, references) for _ in range(_RUNS)]
        return found

    def _value(self, cell: Cell, nodes: Sequence[str], outlier: float, common: float) -> float:
        """Return a run's figure. The logarithm is of the speed."""
        start, night, weekday = self._now
        share = self._state[cell.partition, cell.case], self._state[cell.name]
        noise = _NIGHT ** 0.5 * (_CASE ** 0.5 * share[0] + (1 - _CASE) ** 0.5 * share[1])
        own = _CASE ** 0.5 * common + (1 - _CASE) ** 0.5 * self.rng.standard_normal()
        noise += ((1 - _NIGHT) * _RUNS) ** 0.5 * own
        speed = cell.sd * noise + outlier + sum(self._effect[n, cell.subsystem] for n in nodes) / len(nodes)
        speed += self._moved[cell.partition, cell.check][self.days[night] // MAINTENANCE]
        speed -= WEEKDAY * (weekday < 5) * (cell.group in ('network', 'storage'))
        speed += sum(f.shift(cell, nodes, night) for f in self.faults)
        return cell.usual * exp(speed if cell.better == 'higher' else -speed)

    def _run(self, case: PlannedCase, cells: list[Cell], nodes: tuple[str, ...], number: str, outlier: float,
             references: dict[str, tuple]) -> dict[str, Any]:
        start, night, _ = self._now
        common = self.rng.standard_normal()
        active = [f for f in self.faults if f.loss(cells[0], nodes, night)]
        bad = next((f for f in active if f.word in ('failed', 'wrong')), None)
        figures = {} if bad else {f'{SYSTEM}:{case.partition}:{c.metric}': [
            self._value(c, nodes, outlier, common), *references.get(c.metric, (0, None, None))[:3], m.unit, 'pass']
            for c, m in zip(cells, case.metrics, strict=True)}
        record = self._record(case, nodes[0], number)
        ended = {'result': 'pass', 'fail_phase': None, 'fail_reason': None}
        if bad:
            why = bad.reason.format(job=self._jobs, node=','.join(nodes))
            record |= {'status': bad.word, 'reason': why}
            phase = 'sanity' if bad.word == 'wrong' else 'run'
            ended = {'result': 'fail', 'fail_phase': phase, 'fail_reason': why}
        size = 'large' if any(f.reason == 'size' for f in active) else 'small'
        return {'name': case.case, 'display_name': case.case, 'unique_name': case.unique_name, 'system': SYSTEM,
                'partition': case.partition, 'environ': case.environ, **ended, 'fixture': False,
                'perfvalues': figures, 'job_nodelist': [*nodes], 'jobid': str(self._jobs), 'time_run': 60.0,
                'scheduler': 'slurm', 'job_submit_time': start, 'job_completion_time_unix': start + 70,
                'num_tasks': 64, 'outputdir': '', 'stagedir': '', 'executable_opts': ['--size', size],
                'env_vars': {}, 'parity': record}

    def _record(self, case: PlannedCase, node: str, number: str) -> dict[str, Any]:
        """Return what a check notes beside ReFrame's record of a run."""
        compiler = self.facts('compiler') if case.check == 'Npb' else None
        swapped, started = self.facts('swapped') == node, self._now[0]
        return {'journal': number, 'subsystem': case.subsystem, 'size': case.size, 'needs': case.needs,
                'metrics': {m.name: {'unit': m.unit, 'better': m.better, 'limit': None, 'ceiling': None}
                            for m in case.metrics},
                'software': {'provider': 'modules', 'identity': f'{case.check} by {compiler or _COMPILER}'},
                'labels': {}, 'left_out': {}, 'sizing': {}, 'changed': {}, 'variant': self.site.variant(case),
                'check': '6ddac180b872', 'job': {'submitted': started, 'waited': 10.0, 'ran': 60.0},
                'node': {'node': node, 'kernel': f'6.1.{180 + self.days[self._now[1]] // MAINTENANCE}',
                         'virtualisation': 'kvm' if case.partition == 'virtual' else 'none',
                         'processor': 'made up 7643' if swapped else 'made up 7763',
                         'microcode': '0xa0011d5' if swapped else '0xa0011d1'}}
