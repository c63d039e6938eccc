"""Figures that the sessions of a study measured, and how far a campaign is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import stdev
from typing import Any

import polars as pl

from parity.base import paths
from parity.base.errors import NothingMeasured, UsageError
from parity.base.figures import NOTHING
from parity.base.groups import grouped
from parity.judge.compare import resolve
from parity.judge.compare.model import Measured, differing
from parity.judge.store import changes, database, history, plan_file
from parity.judge.store.record import Session
from parity.measure.rfm import planning
from parity.site import systems
from parity.site.systems import Partition
from parity.study import campaign, conditions
from parity.study.campaign import Key, Status
from parity.study.conditions import Plans
from parity.study.published.estimate import LEAST
from parity.study.published.figures import FIGURE, StudyCell
from parity.study.published.model import Case, Cases, Names, Study

#: Each session's uuid, and what it says of itself.
Infos = Sequence[tuple[str, Mapping[str, Any]]]


def outcomes(study: Study, name: str, run: str, planned: Plans) -> dict[Key, Status]:
    """Return what became of a campaign's cases in each repeat."""
    statuses: dict[Key, Status] = {}
    every = [plan.case for plan in planned]
    with paths.of_study(name):
        for uuid, info in database.infos():
            if info.get('run') != run:
                continue
            cases = [case for case in every if study.side(case) == info['side']]
            for key, status in _of_session(uuid, info, cases).items():
                before = statuses.get(key)
                if before is None or before.word:
                    statuses[key] = status
    return statuses


def _of_session(uuid: str, info: Mapping[str, Any], cases: Cases) -> dict[Key, Status]:
    """Return what became of cases in a session: '' where one of its figures is there."""
    rows = history.rows([uuid]).filter(pl.col('partition').is_in({case.partition for case in cases}))
    rows = rows.select('check', 'case', 'environ', 'value', 'status', 'reason').collect()
    statuses: dict[Key, Status] = {}
    for measured in _as_stated([(uuid, info)], cases):
        for case in measured.cases if measured.uuids else ():
            key = campaign.key(info['side'], info['repeat'], case)
            for check, name, environ, value, word, reason in rows.iter_rows():
                if case.is_case(check, plan_file.parameters(name), environ):
                    status = Status(word, reason) if value is None else Status()
                    statuses[key] = statuses.get(key, status) if status.word else status
    return statuses


@dataclass
class Campaign:
    """The figures of one campaign of a study. ``labels`` say what it ran on."""

    uuids: list[str]
    mode: str
    system: str = ''
    cells: list[StudyCell] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    facts: dict[str, list[str]] = field(default_factory=dict)        # values of each fact, on all sides
    candidate: str = ''             # the partition that stands beside the only side of a study
    changed: set[str] = field(default_factory=set)          # facts of checks that changed between its sessions
    places: dict[str, str] = field(default_factory=dict)    # the partition of each side
    machine: dict[str, str] = field(default_factory=dict)   # processor, memory, network, ...
    one: str = ''                   # 'one device' or 'one host', where both sides are on it

    @property
    def quick(self) -> bool:
        return self.mode == 'quick'

    @property
    def partitions(self) -> Sequence[Partition]:
        """Return the partitions of its system; none where it is no longer described."""
        return systems.read(self.system).partitions if self.system in systems.names() else ()


@dataclass(frozen=True)
class _Ran:
    """A case, and its measured figures."""

    case: Case
    figures: Sequence[Measured] = ()


@dataclass(frozen=True)
class _Stated:
    """The sessions that measured an experiment as study.yaml states it now, and its cases."""

    uuids: list[str]
    cases: list[Case]


def of_session(study: Study, name: str, word: str) -> Campaign:
    """Return what the session ``word`` (a uuid's beginning, or `last`) and the others of its campaign measured.

    NothingMeasured where the study has none; UsageError for a session that is none of this study's."""
    with paths.of_study(name):
        sessions = _sessions(name, word)
        infos = [info for _, info in sessions]
        found = Campaign([uuid for uuid, _ in sessions], str(infos[0].get('mode') or 'full'))
        sides = [str(info.get('side')) for info in infos]
        others = [side for side in sides if side != study.baseline]
        if others and not study.candidate:
            found.candidate = others[0]
            study = study.against(found.candidate)
        names = _names(infos)
        full = list(study.cases(names))
        cases = list(study.cases(names, quick=True)) if found.quick else full
        ran = []
        for side in study.axes[study.contrast].values:
            of_side = [session for session, its_side in zip(sessions, sides, strict=True) if its_side == side]
            ran += _read(found, side, [case for case in cases if study.side(case) == side], of_side)
        turns = {uuid: str(info['repeat']) for uuid, info in sessions if info.get('repeat')}
        found.cells = [replace(cell, turns=turns) for cell in _all_cells(study, found, ran, full)]
        last = database.read(found.uuids[-1])
        found.one = _one(study, found, infos)
        found.labels = list(_labels(study, found, last))
        found.machine = _machine(found, last)
        return found


def _sessions(name: str, word: str) -> Infos:
    """Return the sessions of the campaign that the session ``word`` is of."""
    stored = database.infos()
    if not stored:
        raise NothingMeasured(f'no session of the study {name} is stored; '
                              f'run: parity study run {name} --system NAME')
    chosen = stored[-1:]
    if word != 'last':
        chosen = [session for session in stored if session[0].startswith(word)]
    if not chosen:
        recent = ', '.join(uuid[:8] for uuid, _ in stored[-5:])
        raise UsageError(f'no session of the study {name} starts with {word!r}; valid: last, {recent}')
    campaigns = grouped(stored, _campaign)
    return campaigns[_campaign(chosen[0])]


def _campaign(session: tuple[str, Mapping[str, Any]]) -> tuple:
    _, info = session
    return info.get('mode'), info.get('run')


def _names(infos: Iterable[Mapping[str, Any]]) -> Names:
    """Return what --as gave, of session extras as.AXIS.VALUE=NAME."""
    names: dict[str, dict[str, str]] = {}
    for info in infos:
        for key, name in info.items():
            if key.startswith(campaign.AS):
                axis, _, value = key.removeprefix(campaign.AS).partition('.')
                of_axis = names.setdefault(axis, {})
                of_axis[value] = str(name)
    return names


def _as_stated(sessions: Infos, cases: Cases) -> Iterator[_Stated]:
    """Yield the sessions and the cases of each experiment. An older session lacks its digest."""
    for experiment, digest in campaign.digests(cases).items():
        key = f'{campaign.OF}{experiment}'
        uuids = [uuid for uuid, info in sessions if info.get(key, digest) == digest]
        mine = [case for case in cases if case.experiment == experiment]
        yield _Stated(uuids, mine)


# ---- the cells of a campaign

def _read(found: Campaign, side: str, cases: Cases, sessions: Infos) -> Iterator[_Ran]:
    """Yield the cases of one side, each with its measured figures; and note what they were measured on."""
    sides: dict[tuple[str, ...], list[tuple[Measured, dict[str, str]]]] = {(): []}
    for stated in _as_stated(sessions, cases):
        uuids = tuple(stated.uuids)
        if uuids not in sides:
            sides[uuids] = _figures(found, side, uuids)
        for case in stated.cases:
            mine = [cell for cell, having in sides[uuids] if case.is_case(cell.check, having, cell.environ)]
            yield _Ran(case, mine)


def _figures(found: Campaign, side: str, uuids: Sequence[str]) -> list[tuple[Measured, dict[str, str]]]:
    """Return the figures of these sessions, each with the parameters of its case."""
    measured = resolve.with_disturbed(side, history.rows(list(uuids)).lazy())
    for fact, values in measured.facts.items():
        there = found.facts.setdefault(fact, [])
        there += [value for value in values if value not in there]
    for cell in measured.cells:
        for run in cell.values:
            found.changed.update(f'{cell.check}: {fact}' for fact in differing(run.facts, cell.facts))
    places = sorted(measured.cells, key=lambda cell: not cell.values)
    for cell in places[:1]:
        found.system, _, found.places[side] = cell.place.partition(':')
    return [(cell, plan_file.parameters(cell.case)) for cell in measured.cells]


def _all_cells(study: Study, found: Campaign, ran: Sequence[_Ran], full: Cases) -> list[StudyCell]:
    """Return the cells of the cases that were asked for, and those that --quick leaves out, with the reason."""
    left_out = full if found.quick else []
    without = [case_ran.case for case_ran in ran if not case_ran.figures] + list(left_out)
    reasons = _reasons(study, found, [case for case in without if not case.reason])
    cells: list[StudyCell] = []
    for case_ran in ran:
        cells += _cells(study, case_ran, reasons.get(id(case_ran.case)) or 'not measured')
    there = {cell.name for cell in cells}
    for case in left_out:
        why = reasons.get(id(case)) or '--quick leaves it out'
        cells += [cell for cell in _cells(study, _Ran(case), why) if cell.name not in there]
    return cells


def _reasons(study: Study, found: Campaign, cases: Cases) -> dict[int, str]:
    """Return why these cases cannot run where their side ran, by their id. A system may no longer be described."""
    names = [part.name for part in found.partitions]
    asked = {}
    for case in cases:
        place = found.places.get(study.side(case))
        if place in names:
            asked[id(case)] = case.model_copy(update={'partition': place})
    if not asked:
        return {}
    plan = planning.of_cases([*asked.values()], found.system)
    return {number: answer.reason for number, answer in zip(asked, plan.answers, strict=True)}


def _cells(study: Study, ran: _Ran, why: str) -> Iterator[StudyCell]:
    """Yield the cells of a case; ``why``: it has no figures. Several metrics that stand for one in print are cells
    of their own."""
    case = ran.case
    experiment = study.experiments[case.experiment]
    absent = Measured('', '', '', '', '', '', reason=case.reason or why)
    for metric, names in experiment.metrics.items():
        for of_metric, wanted in conditions.named_metrics(study, case.experiment, names, case.quick):
            values = {**case.point, **of_metric}
            point = {axis: values[axis] for axis in experiment.axes if axis in values}
            for name in wanted:
                cell = next((cell for cell in ran.figures if cell.metric == name), absent)
                place = {**point, FIGURE: name} if len(wanted) > 1 else point
                made = StudyCell(case.experiment, metric, place, cell.unit, cell.better, list(cell.values),
                                 label=cell.label, status=cell.status, reason=cell.reason)
                yield _deviation(made) if made.values and metric.endswith('_sd') else made


def _deviation(cell: StudyCell) -> StudyCell:
    """Return the standard deviation of a cell's runs; of fewer than 3 there is none."""
    values = [run.value for run in cell.values]
    if len(values) < LEAST:
        return replace(cell, values=[], reason=f'{LEAST} repeats are the least')
    deviation = replace(cell.values[0], value=stdev(values))
    return replace(cell, better='lower', values=[deviation])


# ---- what measured it

def _machine(found: Campaign, last: Session) -> dict[str, str]:
    """Return what measured: nodes, software, and when."""
    places = ', '.join(dict.fromkeys(found.places.values()))
    facts = {'system': [f'{found.system}: {places}']}
    facts |= changes.machine(last)
    facts['network'] = found.facts.get('link', [])
    machine = {}
    for key, texts in facts.items():
        if any(texts):
            machine[key] = ', '.join(dict.fromkeys(texts))
    return machine


def _one(study: Study, found: Campaign, infos: Iterable[Mapping[str, Any]]) -> str:
    """Return what both sides are on, where they are no two; '' where they are."""
    if any(info.get(campaign.ONE) for info in infos):
        return 'one device'
    if not study.candidate:
        return ''
    shared = [part for part in found.partitions if part.extras.nodes_share_cpus]
    return 'one host' if shared else ''


def _labels(study: Study, found: Campaign, last: Session) -> Iterator[str]:
    """Yield what the figures are of, where they are no figures of a cluster."""
    if found.changed:
        yield f'changed while it ran: {", ".join(sorted(found.changed))}'
    if found.one:
        yield f'both sides are on {found.one}'
    if 'uml' in found.facts.get('virtualisation', ()):
        yield 'User-mode Linux'
    shared = [part for part in found.partitions if part.extras.nodes_share_cpus]
    if shared:
        cores = len((last.facts.get('machine') or {}).get('core_sets', ()))
        yield f'{shared[0].extras.nodes or "its"} nodes on {cores or NOTHING} cores: no figures of a cluster'
        contrast = study.axes[study.contrast]
        if contrast.kind == 'network':
            yield 'the networks differ in their rates only'
        if contrast.kind == 'filesystem':
            yield f'{" and ".join(contrast.values)} are one machine'
    yield from _of_links(found.facts.get('link', ()))
    if {'tmpfs', 'ramfs'} & set(found.facts.get('file system', ())):
        yield 'local disk is memory'


def _of_links(links: Iterable[str]) -> list[str]:
    """Return what the first link that is none of a network's is."""
    for link in links:
        words = {'kernel links': 'veth' in link, 'rate shaped': 'shaped' in link}
        label = ', '.join(word for word, fits in words.items() if fits)
        if label:
            return [label]
    return []
