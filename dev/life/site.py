"""The made-up system below a folder, and all that a life asks of the product: no other module here calls it."""

from __future__ import annotations

import datetime
import os
import re
import shlex
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from dev import clock
from parity.cli import ack
from parity.judge.compare import join
from parity.judge.refs import accept, accepted, levels, propose
from parity.judge.refs.accepted import Accepted
from parity.judge.store import plan_file, writing
from parity.judge.store.incidents import Incident, of_system
from parity.judge.store.plan_file import cell_id, parameters
from parity.judge.verdict import judge, nights
from parity.judge.verdict.model import Cell, Verdict, names
from parity.measure.rfm import planning
from parity.nightly import run
from parity.nightly.notify import Notifier
from parity.site import systems
from parity.site.plan import Plan, PlannedCase
from parity.site.systems import Notify

#: A verdict imports some of these late; they must be loaded before `Site` replaces the clock.
__all__ = ['Incident', 'PlannedCase', 'Site', 'Verdict', 'join', 'nights']

SYSTEM = 'life'
#: Nodes of each partition, its kind, and its environment.
PARTITIONS = {'cpu': (24, 'physical', 'gcc'), 'fat': (12, 'physical', 'gcc'), 'virtual': (20, 'virtual', 'gcc'),
              'gpu': (8, 'physical, gpu', 'cuda')}
#: Names of cases, and how many of their metrics a life has.
_CASES = {'Hpl$': 1, 'Ops%threads=(one|all)': 2, 'Npb': 1, 'Hpcc': 6, 'Stream%threads=(half|all)': 4,
          'Blocks%threads=(one|all)': 1, 'OsuLatency.*where=between': 2,
          'OsuLatency.*within.*(latency|alltoall)': 1, 'OsuBandwidth.*(=bw|=bibw)': 2, 'Pingpong': 2,
          'Imb.*PingPong': 2, 'Tcp%.*=tcp': 2, 'Fio': 2, 'Ior%api=POSIX': 1,
          'Fileset%file=(1KB|1GB)': 1, 'FileCopy%mode=large-copy%clients=one': 1, 'Mdtest.*shared.*one': 1,
          'GpuGemm': 8, 'GpuBabelStream': 5, 'GpuOsu': 1}
_FEW = 'Hpl', 'Npb', 'Stream', 'OsuLatency', 'OsuBandwidth', 'Fio', 'GpuGemm'
_CODES = 'npb, hpl, stream, osu, imb, ior, mdtest, hpcc, filecopy, fileset, pingpong, iperf3, fio, cc'
_HEAD = f"""\
name: {SYSTEM}
descr: a made-up system
hostnames: ['^nowhere$']
modules_system: nomod
detect: false
requires: [stream]
environments:
  - {{name: gcc, codes: [{_CODES}]}}
  - {{name: cuda, codes: [stream, npb, cc, osu-gpu, babelstream-gpu]}}
partitions:
"""
_PARTITION = """\
  - name: {name}
    scheduler: slurm
    sched_options: {{use_nodes_option: true}}
    launcher: srun
    access: [--partition={name}, --exclusive]
    features: [cpu, {kind}]
    environs: [{environ}]
    extras: {{nodes: {nodes}, cores: 64, memory_bytes: 257_698_037_760, llc_bytes: 268_435_456,
              filesystems: {{scratch: /lustre/parity}}}}
"""
_ARGUMENTS = ['-c', 'checks', '-r', '--system', SYSTEM, f'--repeat={run.RUNS}']
#: Daylight saving of central Europe, wherever this runs.
_ZONE = 'CET-1CEST,M3.5.0,M10.5.0/3'

class Rerun(NamedTuple):
    """A session that confirms: its cases run on ``nodes``, or on others where ``elsewhere``."""

    arguments: list[str]
    cases: list[PlannedCase]
    nodes: tuple[str, ...]
    elsewhere: bool


class Site:
    """A checkout with one system, and its results. ``few``: one figure of some checks. One a process.

    Its notices go into the file ``mail``, the newest night's last."""

    def __init__(self, folder: Path, few: bool = False):
        root, top = folder / 'root', Path(__file__).resolve().parents[2]
        (root / 'systems' / SYSTEM / 'references').mkdir(parents=True)
        for name in ('checks', 'jobs', 'reframe', 'spack.yaml'):
            (root / name).symlink_to(top / name)
        (root / 'systems' / SYSTEM / 'system.yaml').write_text(_HEAD + ''.join(
            _PARTITION.format(name=name, nodes=nodes, kind=kind, environ=environ)
            for name, (nodes, kind, environ) in PARTITIONS.items()))
        os.environ |= {'PARITY_ROOT': str(root), 'PARITY_RESULTS': str(folder / 'results'), 'TZ': _ZONE,
                       'RFM_CONFIG_FILES': str(root / 'reframe' / 'settings.py')}
        (folder / 'results').mkdir()
        time.tzset()
        self.plan = planning.of_command(['-c', str(root / 'checks'), '-r', '--system', SYSTEM])
        self.cases = list(_chosen(self.plan, few))
        self.mail = folder / 'mail'
        self.notifier = Notifier(SYSTEM, Notify(command=['/bin/sh', '-c', f'cat >>{shlex.quote(str(self.mail))}']))
        clock.stand()

    def at(self, unix: float) -> None:
        """Set the clock."""
        clock.set_to(unix)

    def variant(self, case: PlannedCase) -> dict[str, str]:
        """Return which of its check's variants a case is."""
        check = next(each for each in self.plan.checks if each.check == case.check)
        return {name: values[0] for name, values in check.variants.items()}

    def references(self, case: PlannedCase) -> dict[str, tuple]:
        """Return the accepted references that ReFrame applies to a case, by metric.

        ci/nightly refuses one of another unit, so that the operator took it out."""
        units = {metric.name: metric.unit for metric in case.metrics}
        index = {'size': case.size, '$environ': case.environ, **parameters(case.case), **self.variant(case)}
        return {each.metric: tuple(each.reference) for each in accepted.of_system(SYSTEM)
                if (each.partition, each.check) == (case.partition, case.check)
                and each.index.items() <= index.items() and each.reference[3] == units.get(each.metric)}

    def stored(self, cases: Iterable[PlannedCase], ran: Callable[[str], list[dict]], start: float, seconds: float,
               facts: dict[str, Any], arguments: Sequence[str] = (*_ARGUMENTS, *plan_file.NIGHT)) -> str:
        """Store a session as ReFrame does; ``ran`` makes its test cases from the session's id."""
        number = uuid.uuid4().hex
        plan_file.write({'id': number, 'facts': facts, 'announcement': 'made up', 'plan': {
            'system': SYSTEM, 'providers': ['modules'], 'checks': [], 'problems': [],
            'cases': [case.model_dump() for case in cases]}})
        report = writing.as_report({}, ran(number), start, start + seconds, version='4.10.4',
                                 cmdline=shlex.join(['reframe', *arguments]), **plan_file.extras([*arguments]))
        self.at(start + seconds)
        return writing.store(report)

    def judged(self, session: str) -> Verdict:
        return judge.newest(session)

    def reruns(self, verdict: Verdict, cases: Iterable[PlannedCase]) -> list[Rerun]:
        """Return the sessions that ci/nightly would run to confirm the verdict."""
        suspicious = [cell for cell in verdict.cells if cell.suspicious]
        found = []
        for words in run.runs(systems.read(SYSTEM), verdict.session.uuid, suspicious, _ARGUMENTS):
            *_, place = (word for word in words if word.startswith(f'{SYSTEM}:'))
            pattern = re.compile(words[words.index('-n') + 1])
            own = [case for case in cases if f'{SYSTEM}:{case.partition}' == place
                   and pattern.match(case.case.replace(' ', ''))]
            kind, _, names = (words[words.index('-J') + 1] if '-J' in words else '').partition('=')
            found.append(Rerun(words, own, tuple(names.split(',')), kind == 'exclude'))
        return found

    def recorded(self, verdict: Verdict) -> Verdict:
        """Record and tell the night's incidents."""
        self.mail.write_text('')
        found = self.notifier.recorded(verdict)
        _quietly(lambda: self.notifier.judged(found))
        return found

    @staticmethod
    def named(verdict: Verdict) -> dict[str, Cell]:
        """Return the cells by name."""
        return names(verdict.cells)

    @staticmethod
    def day_of(unix: float) -> str:
        return f'{clock.day(unix)}'

    def incidents(self) -> list[Incident]:
        return of_system(SYSTEM)

    def acknowledge(self, number: int, days: int, why: str) -> None:
        until = clock.day(clock.now()) + datetime.timedelta(days)
        _quietly(lambda: ack.run(str(number), str(until), why, 'operator', '', listed=False))

    def accept(self, chosen: Callable[[str], bool], why: str, since: str = '') -> int:
        """Accept what is proposed for the chosen cells, by name; return how many.

        ``since``: of a change. What cannot be proposed begins a level there; its accepted value is taken out."""
        found = propose.run(SYSTEM, since=since)
        names = [cell.id for cell, _ in found.proposals if chosen(cell.id)]
        if names:
            accept.run(SYSTEM, names, accept.reason(why, 'operator'), planning.of_system(SYSTEM))
        left = [cell for cell, _ in found.refused if since and chosen(cell.id)]
        if left:
            levels.write(SYSTEM, [levels.Level(cell=cell.id, since=since, why=why, by='operator')
                                  for cell in left])
            for known in accepted.of_system(SYSTEM):
                if any(cell.has(known) for cell in left):
                    _take_out(known)
        return len(names)


def _take_out(known: Accepted) -> None:
    """Take an accepted value out of its file."""
    data = yaml.safe_load(known.file.read_text())
    del data[accepted.PROVENANCE][known.path]
    _remove(data, (known.check, *known.index.values(), known.metric))
    known.file.write_text(yaml.safe_dump(data, sort_keys=False))


def _remove(tree: dict[str, Any], keys: Sequence[str]) -> None:
    """Remove the value behind the keys, and each mapping that is empty then."""
    first, *rest = keys
    if rest:
        _remove(tree[first], rest)
    if not rest or not tree[first].keys() - {'$index'}:
        del tree[first]


def name_of(case: PlannedCase, metric: str) -> str:
    """Return the name by which the product knows the cell."""
    return cell_id({**case.model_dump(include={'case', 'system', 'partition'}), 'metric': metric})


def place_of(incident: Incident) -> tuple[str, set[str]]:
    """Return node, partition or everything, and its names; by its title where an incident has no other place."""
    if incident.where.kind:
        return incident.where.kind, {*incident.where.name.split(', ')}
    names = {*incident.title.replace(f'{SYSTEM}:', '').partition(':')[0].split(', ')}
    return 'partition' if names <= PARTITIONS.keys() else 'node', names


def _chosen(planned: Plan, few: bool) -> Iterable[PlannedCase]:
    found: set[tuple[str, str]] = set()
    for case in planned.cases:
        most = next((most for name, most in _CASES.items() if re.match(name, case.case.replace(' ', ''))), 0)
        metrics = [m for m in case.metrics if m.better and m.unit not in ('', 'count') and not m.left_out][:most]
        alike = case.partition, case.check
        if case.environ and metrics and not (few and (alike in found or case.check not in _FEW)):
            found.add(alike)
            yield case.model_copy(update={'metrics': metrics[:1] if few else metrics})


def _quietly(act: Callable[[], None]) -> None:
    printed, sys.stdout = sys.stdout, open(os.devnull, 'w')     # noqa: SIM115
    try:
        act()
    finally:
        sys.stdout.close()
        sys.stdout = printed
