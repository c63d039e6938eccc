"""Figures that the sessions of a study measured, and how far a campaign is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from statistics import stdev
from typing import Any

import polars as pl

from parity.base import paths
from parity.base.errors import NothingMeasured, UsageError
from parity.base.figures import NOTHING
from parity.judge.compare import resolve
from parity.judge.compare.model import Measured, Side, differing
from parity.judge.store import changes, database, history, plan_file
from parity.judge.store.record import Session
from parity.measure.rfm import planning
from parity.site import systems
from parity.site.systems import Partition
from parity.study import campaign, conditions
from parity.study.conditions import Planned
from parity.study.published.estimate import LEAST
from parity.study.published.figures import FIGURE, StudyCell
from parity.study.published.model import Case, Study

Infos = Sequence[tuple[str, dict[str, Any]]]


def outcomes(study: Study, name: str, run: str, planned: Sequence[Planned]) -> dict[campaign.Key, campaign.Status]:
    """Return what became of a campaign's cases in each repeat."""
    found: dict[campaign.Key, campaign.Status] = {}
    with paths.of_study(name):
        for uuid, info in database.infos():
            if info.get('run') != run:
                continue
            side = [p for p in planned if study.side(p.case) == info['side']]
            rows = history.rows([uuid]).filter(pl.col('partition').is_in({p.case.partition for p in side}))
            ran = [((check, plan_file.parameters(case), environ), value, campaign.Status(*why))
                   for check, case, environ, value, *why in rows.select(
                       'check', 'case', 'environ', 'value', 'status', 'reason').collect().iter_rows()]
            for uuids, cases in _as_stated([(uuid, info)], [p.case for p in side]):
                for case in cases if uuids else ():
                    mine = [(value, why) for of, value, why in ran if case.is_case(*of)]
                    key = campaign.key(info['side'], info['repeat'], case)
                    if mine and (key not in found or found[key].word):
                        found[key] = next((campaign.Status() for figure, _ in mine if figure is not None),
                                          mine[0][1])
    return found


@dataclass
class Campaign:
    """The figures of one campaign of a study. ``labels`` say what it ran on."""

    uuids: list[str]
    mode: str
    system: str = ''
    cells: list[StudyCell] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    facts: dict[str, dict[str, list[str]]] = field(default_factory=dict)     # by side
    candidate: str = ''             # the partition that stands beside the only side of a study
    changed: set[str] = field(default_factory=set)          # facts of checks that changed between its sessions
    places: dict[str, str] = field(default_factory=dict)    # the partition of each side
    machine: dict[str, str] = field(default_factory=dict)   # processor, memory, network, ...
    one: str = ''                   # 'one device' or 'one host', where both sides are on it

    @property
    def quick(self) -> bool:
        return self.mode == 'quick'


def of_session(study: Study, name: str, word: str) -> Campaign:
    """Return what the session ``word`` (a uuid's beginning, or `last`) and the others of its campaign measured.

    NothingMeasured where the study has none; UsageError for a session that is none of this study's."""
    with paths.of_study(name):
        sessions = _sessions(name, word)
        first = sessions[0][1]
        found = Campaign([u for u, _ in sessions], str(first.get('mode') or 'full'))
        if not study.candidate:
            found.candidate = next((str(info['side']) for _, info in sessions
                                    if str(info.get('side')) != study.baseline), '')
            study = study.against(found.candidate) if found.candidate else study
        names = _names([info for _, info in sessions])
        cases = [case for quick in {False, found.mode == 'quick'} for case in study.cases(names, quick)]
        pairs = []
        for side in study.axes[study.contrast].values:
            mine = [case for case in cases if study.side(case) == side and case.quick == (found.mode == 'quick')]
            pairs += _read(found, side, mine, [(u, info) for u, info in sessions if str(info.get('side')) == side])
        ran = {id(case) for case, cells in pairs if cells}
        reasons = _reasons(study, found, [case for case in cases if id(case) not in ran and not case.reason])
        turns = {uuid: str(info['repeat']) for uuid, info in sessions if info.get('repeat')}
        found.cells = [replace(cell, turns=turns) for cell in _cells(study, pairs, reasons)]
        there = {cell.name for cell in found.cells}
        quick = {id(case): reasons.get(id(case)) or '--quick leaves it out' for case in cases if not case.quick}
        found.cells += [cell for cell in _cells(study, [(case, []) for case in cases if not case.quick], quick)
                        if found.mode == 'quick' and cell.name not in there]
        last = database.read(found.uuids[-1])
        found.one = _one(study, found, [info for _, info in sessions])
        found.labels = _labels(study, found, last)
        found.machine = _machine(found, last)
        return found


def _sessions(name: str, word: str) -> Infos:
    """Return the sessions of the campaign that the session ``word`` is of."""
    stored = database.infos()
    if not stored:
        raise NothingMeasured(f'no session of the study {name} is stored; '
                              f'run: parity study run {name} --system NAME')
    chosen = stored[-1][1] if word == 'last' else next((info for u, info in stored if u.startswith(word)), None)
    if chosen is None:
        raise UsageError(f'no session of the study {name} starts with {word!r}; valid: last, '
                         + ', '.join(u[:8] for u, _ in stored[-5:]))
    key = chosen.get('mode'), chosen.get('run')
    return [(u, info) for u, info in stored if (info.get('mode'), info.get('run')) == key]


def _read(found: Campaign, side: str, cases: Sequence[Case],
          sessions: Infos) -> Iterator[tuple[Case, list[Measured]]]:
    """Yield the cases of one side, each with its measured figures."""
    of_sessions = cache(lambda *uuids: resolve.with_disturbed(side, history.rows(list(uuids)).lazy()) if uuids
                        else Side(side, 'session', []))
    for uuids, of_them in _as_stated(sessions, cases):
        of = of_sessions(*uuids)
        found.changed |= {f'{cell.check}: {fact}' for cell in of.cells for value in cell.values
                          for fact in differing(value.facts, cell.facts)}
        facts = found.facts.setdefault(side, {})
        for fact, values in of.facts.items():
            facts[fact] = [*dict.fromkeys([*facts.get(fact, ()), *values])]
        for place in [c.place for c in sorted(of.cells, key=lambda c: not c.values)][:1]:
            found.system, _, found.places[side] = place.partition(':')
        stored = [(cell, plan_file.parameters(cell.case)) for cell in of.cells]
        yield from ((case, [cell for cell, having in stored if case.is_case(cell.check, having, cell.environ)])
                    for case in of_them)


def _reasons(study: Study, found: Campaign, cases: Sequence[Case]) -> dict[int, str]:
    """Return why these cases cannot run where their side ran, by their id. A system may no longer be described."""
    names = [part.name for part in _partitions(found.system)]
    there = {id(case): case.model_copy(update={'partition': place}) for case in cases
             if (place := found.places.get(study.side(case))) in names}
    answers = planning.of_cases([*there.values()], found.system).answers if there else ()
    return {number: answer.reason for number, answer in zip(there, answers, strict=True)}


def _as_stated(sessions: Infos, cases: Sequence[Case]) -> Iterator[tuple[list[str], list[Case]]]:
    """Yield the sessions that measured an experiment as study.yaml states it now, and its cases."""
    digests = campaign.digests(cases)
    for experiment, digest in digests.items():
        yield ([u for u, info in sessions if info.get(f'{campaign.OF}{experiment}', digest) == digest],
               [case for case in cases if case.experiment == experiment])


def _names(infos: Sequence[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """Return what --as gave, axis -> value -> name, of session extras as.AXIS.VALUE=NAME."""
    found: dict[str, dict[str, str]] = {}
    for info in infos:
        for key, name in info.items():
            if key.startswith(campaign.AS):
                axis, _, value = key.removeprefix(campaign.AS).partition('.')
                found.setdefault(axis, {})[value] = str(name)
    return found


def _cells(study: Study, pairs: Sequence[tuple[Case, list[Measured]]],
           reasons: Mapping[int, str]) -> Iterator[StudyCell]:
    """Yield the study's cells. Several metrics that stand for one in print are cells of their own."""
    for case, measured in pairs:
        experiment = study.experiments[case.experiment]
        why = case.reason or reasons.get(id(case)) or 'not measured'
        for metric, names in experiment.metrics.items():
            for point, wanted in conditions.named_metrics(study, case.experiment, names, case.quick):
                point = {**case.point, **point}
                for name in wanted:
                    cell = next((c for c in measured if c.metric == name),
                                Measured('', '', '', name, '', '', reason=why))
                    at = {axis: point[axis] for axis in experiment.axes if axis in point}
                    at |= {FIGURE: name} if len(wanted) > 1 else {}
                    found = StudyCell(case.experiment, metric, at, cell.unit, cell.better, list(cell.values),
                                 label=cell.label, status=cell.status, reason=cell.reason)
                    yield _deviation(found) if found.values and metric.endswith('_sd') else found


def _deviation(cell: StudyCell) -> StudyCell:
    """Return the standard deviation of a cell's runs; of fewer than 3 there is none."""
    values = [v.value for v in cell.values]
    if len(values) < LEAST:
        return replace(cell, values=[], reason=f'{LEAST} repeats are the least')
    return replace(cell, better='lower', values=[replace(cell.values[0], value=stdev(values))])


def _partitions(system: str) -> Sequence[Partition]:
    """Return the partitions of a system; none where it is no longer described."""
    return systems.read(system).partitions if system in systems.names() else ()


def _machine(found: Campaign, last: Session) -> dict[str, str]:
    """Return what measured: nodes, software, and when."""
    places = ', '.join(dict.fromkeys(found.places.values()))
    texts = {'system': [f'{found.system}: {places}'], **changes.machine(last),
             'network': [link for side in found.facts.values() for link in side.get('link', ())]}
    return {key: ', '.join(dict.fromkeys(of)) for key, of in texts.items() if any(of)}


def _one(study: Study, found: Campaign, infos: Sequence[dict[str, Any]]) -> str:
    """Return what both sides are on, where they are no two; '' where they are."""
    if any(info.get(campaign.ONE) for info in infos):
        return 'one device'
    shared = any(part.extras.nodes_share_cpus for part in _partitions(found.system))
    return 'one host' if shared and study.candidate else ''


def _labels(study: Study, found: Campaign, last: Session) -> list[str]:
    """Return what the figures are of, where they are no figures of a cluster."""
    facts = {fact: {v for side in found.facts.values() for v in side.get(fact, ())}
             for fact in ('virtualisation', 'file system', 'link')}
    labels = [f'changed while it ran: {", ".join(sorted(found.changed))}'] if found.changed else []
    labels += [f'both sides are on {found.one}'] if found.one else []
    labels += ['User-mode Linux'] if 'uml' in facts['virtualisation'] else []
    if shared := [p for p in _partitions(found.system) if p.extras.nodes_share_cpus]:
        machine = last.facts.get('machine') or {}
        labels.append(f'{shared[0].extras.nodes or "its"} nodes on '
                      f'{len(machine.get("core_sets", ())) or NOTHING} cores: no figures of a cluster')
        if study.axes[study.contrast].kind == 'network':
            labels.append('the networks differ in their rates only')
        if study.axes[study.contrast].kind == 'filesystem':
            labels.append(f'{" and ".join(study.axes[study.contrast].values)} are one machine')
    links = [[words for sign, words in (('veth', 'kernel links'), ('shaped', 'rate shaped')) if sign in link]
             for link in facts['link']]
    labels += [', '.join(words) for words in links if words][:1]
    return labels + (['local disk is memory'] if {'tmpfs', 'ramfs'} & facts['file system'] else [])
