"""A study on one's own partitions: what can be measured there, how long it takes, and what was measured."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import polars as pl

from parity import plan
from parity.base import paths
from parity.base.errors import NothingMeasured, UsageError, unknown
from parity.base.figures import NOTHING, amount, figure
from parity.compare import resolve
from parity.compare.model import Measured, Side, differing
from parity.plan import LoadedCheck, Plan
from parity.plan.identity import shared
from parity.records import database, history, outset
from parity.study import campaign, refuse
from parity.study.figures import FIGURE, Cell
from parity.study.model import AXIS, Case, Study, filled
from parity.system import systems
from parity.system.systems import Partition, System

#: Seconds that a job costs beside its case: a guess, used where a case was never measured.
JOB = 10.0
#: Seconds that a session of ReFrame costs beside its cases: a guess.
SESSION = 5.0
#: ReFrame's words for a variable that a check does not take, of which it then loads nothing.
_UNSET = re.compile(r"failed to set variable '(\w+)'.*cannot convert string '(.*)' to \"Str\[r'(.*)'\]\"")
#: Among the extras of a partition: the bytes that one run of a case may write, where system.yaml states them.
_ROOM = 'io_budget_case'
#: What --as takes.
AXIS_VALUE = re.compile(r'(\w+)\.([^=]+)=(.+)')


@dataclass(frozen=True)
class Planned:
    """A case of a study on a partition; ``reason`` says why it is not testable, '' where it is."""

    case: Case
    partition: str
    reason: str
    seconds: float
    guessed: bool               # nothing like it was measured: the study's own figure, and a job's cost
    beyond: str = ''            # the variable that no memory of the partition holds, for the reason: a mistake


def checked(study: Study, name: str, system: str = '') -> Plan:
    """Return the plan of the study's checks. UsageError, with file and line, for a check, a parameter, a variable
    or a metric that does not exist."""
    if system:
        systems.read(system)
    given, of = {}, {}
    for key, experiment in study.experiments.items():
        first = {axis: study.axes[axis].values[study.values(key, axis)[0]] for axis in experiment.axes}
        for variable, text in {**(experiment.quick.set if experiment.quick else {}), **experiment.set}.items():
            of.setdefault(f'{experiment.check}.{variable}', stated(study, key, variable))
            if text := filled(text, first):
                given[f'{experiment.check}.{variable}'] = text
    asked = plan.of_command(['-c', str(paths.root() / 'checks'), '-r', *(['--system', system] if system else []),
                             *(word for pair in given.items() for word in ('-S', '='.join(pair)))])
    refuse(name, [(of[variable], f'{text!r}: must be of the form {_plain(said[3])}') for problem in asked.problems
                  if (said := _UNSET.search(problem.what)) for variable, text in given.items()
                  if variable.endswith(f'.{said[1]}') and text == said[2]])
    checks = {check.check: check for check in asked.checks}
    wrong = [(keys, why) for key, experiment in study.experiments.items() if experiment.check
             for keys, why in _unknown(study, key, checks)]
    wrong += dict.fromkeys(_misformed(study, checks))
    for problem in asked.problems:
        variable = next((v for v in of if problem.what.startswith(f'-S {v}=')), '')
        if variable and not any(keys[1] == of[variable][1] for keys, _ in wrong):
            wrong.append((of[variable], problem.what.partition(': ')[2]))
    refuse(name, wrong)
    if faults := [str(problem) for problem in asked.problems if problem.refuses]:
        raise UsageError('\n'.join(faults))
    return asked


def stated(study: Study, key: str, variable: str, quick: bool = False) -> tuple[str, ...]:
    """Return the keys of study.yaml that give an experiment's variable its value."""
    experiment = study.experiments[key]
    where = quick and experiment.quick and variable in experiment.quick.set or variable not in experiment.set
    return 'experiments', key, *(('quick',) if where else ()), 'set', variable


def _misformed(study: Study, checks: Mapping[str, LoadedCheck]) -> Iterator[tuple[tuple, str]]:
    for quick, case in ((each, case) for each in (False, True) for case in study.cases(quick=each)):
        forms = checks[case.check].forms if case.check in checks else {}
        for variable, text in case.variables.items():
            if text and variable in forms and not re.fullmatch(forms[variable], text):
                yield (stated(study, case.experiment, variable, quick),
                       f'{text!r}: must be of the form {forms[variable]}')


def _plain(quoted: str) -> str:
    return quoted.replace('\\\\', '\\')


def _unknown(study: Study, key: str, checks: Mapping[str, LoadedCheck]) -> Iterator[tuple[tuple, str]]:
    experiment, at = study.experiments[key], ('experiments', key)
    if experiment.check not in checks:
        yield (*at, 'check'), unknown('check', experiment.check, list(checks))
        return
    check = checks[experiment.check]
    if lost := sorted({*check.parameters} - {*experiment.parameters}):
        yield (*at, 'parameters'), f'must name {lost[0]}, one of {", ".join(check.parameters[lost[0]])}'
    for parameter, text in experiment.parameters.items():
        values = [text] if not (axes := AXIS.findall(text)) else [
            study.axes[axes[0]].values[value] for value in study.values(key, axes[0])]
        if parameter not in check.parameters:
            yield (*at, 'parameters'), unknown('parameter', parameter, list(check.parameters))
        elif lost := [v for v in values if v not in (valid := check.parameters[parameter])]:
            yield (*at, 'parameters', parameter), unknown(f'value of {parameter}', lost[0], valid)
    valid = [metric.name for metric in check.metrics]
    for metric, names in experiment.metrics.items():
        for name in (name for _, of in _named(study, key, names) for name in of):
            if shared(name) not in valid:
                yield (*at, 'metrics', metric), unknown('metric', name, valid)
                break


def _named(study: Study, key: str, names: Sequence[str],
           quick: bool = False) -> Iterator[tuple[dict[str, str], list[str]]]:
    """Yield the points of an experiment's axes that one case measures, and the check's metrics of each."""
    axes = [axis for axis in study.experiments[key].axes if study.axes[axis].kind == 'metric']
    for values in itertools.product(*(study.values(key, axis, quick) for axis in axes)):
        point = dict(zip(axes, values, strict=True))
        here = {axis: study.axes[axis].values[value] for axis, value in point.items()}
        yield point, [filled(name, here) for name in names]


def planned(study: Study, name: str, system: str, quick: bool = False, partitions: Sequence[str] = (),
            names: Mapping[str, Mapping[str, str]] | None = None, asked: Plan | None = None) -> list[Planned]:
    """Return the study's cases on a system. ``partitions``: baseline and candidate, by default by their features.

    UsageError for an unknown system or partition, and for a study whose files are wrong."""
    site = _site(system)
    asked = asked or checked(study, name, system)
    sides, lost = _sides(study, site, partitions)
    able = {(c.check, c.partition): c for c in asked.cases if c.environ}
    in_memory = {check.check: check.in_memory for check in asked.checks}
    times, costs = _times(name)
    found = []
    for case in study.cases(names, quick):
        side = study.side(case)
        part = sides.get(side) or sides.get('')
        experiment = study.experiments[case.experiment]
        if not part:
            found.append(Planned(case, '', lost.get(side, ''), 0.0, True))
            continue
        beyond, why = _beyond(case, part, in_memory.get(case.check, ()))
        reason = why or case.reason or _lacking(study, case, part, names or {}) or (
            '' if (case.check, part.name) in able else _not_able(asked, case.check, part.name))
        place = f'{system}:{part.name}'
        measured = [s for at, check, having, s in times if at == place and case.is_case(check, having)]
        guess = experiment.quick.seconds if quick and experiment.quick else experiment.seconds
        seconds = costs.get(place, 0.0 if measured else JOB) + (median(measured) if measured else guess)
        found.append(Planned(case, part.name, reason, seconds, not measured, beyond))
    return found


def _site(system: str) -> System:
    """Return a system, whose partitions say what a case may write; one that is this machine has its cores and its
    memory, as each case will find them."""
    site = systems.read(system)
    found: dict[str, int | None] = {}
    if site.detect is True:
        from parity import machine
        known = machine.load(paths.results() / 'cache' / 'machine.json')
        found = {'nodes': 1, 'cores': known.cores, 'memory_bytes': known.memory_bytes}
    found[_ROOM] = site.io_budget.case
    return site.model_copy(update={'partitions': [part.model_copy(update={'extras': part.extras.model_copy(
        update={key: getattr(part.extras, key, None) or value for key, value in found.items()})})
        for part in site.partitions]})


def seconds(steps: Sequence[campaign.Step], planned: Sequence[Planned]) -> float:
    """Return how long these sessions take. A case of several experiments runs once."""
    by_case = {id(p.case): p.seconds for p in planned}
    return sum(SESSION + sum({case.runs: by_case[id(case)] for case in step.cases}.values()) for step in steps)


def _sides(study: Study, site: System, named: Sequence[str]) -> tuple[dict[str, Partition], dict[str, str]]:
    """Return the partition of each value of the contrasted axis, '' where it is not of partitions; and why not."""
    by_name = {part.name: part for part in site.partitions}
    for partition in named:
        if partition not in by_name:
            raise UsageError(unknown('partition', partition, list(by_name)))
    if twice := [partition for partition in named if named.count(partition) > 1]:
        raise UsageError(f'--partition {twice[0]}: given twice; each side needs its own partition')
    axis = study.axes[study.contrast]
    if axis.kind != 'partition' and named[1:]:
        raise UsageError(f'--partition {named[1]}: the sides of {study.contrast} run on one partition')
    if axis.kind != 'partition':
        return {'': by_name[named[0]] if named else site.partitions[0]}, {}
    if named and len(named) != len(axis.values):
        valid = 'two, baseline and candidate' if study.candidate else 'one, or two to compare'
        raise UsageError(f'--partition: {len(named)} given; must be {valid}')
    if named:
        return dict(zip(axis.values, (by_name[each] for each in named), strict=False)), {}
    found = {value: next((p for p in site.partitions if feature in ('', *p.features)), None)
             for value, feature in axis.values.items()}
    return ({value: part for value, part in found.items() if part},
            {value: f'no partition of {site.name} has the feature {axis.values[value]}'
             for value, part in found.items() if not part})


def _lacking(study: Study, case: Case, part: Partition, names: Mapping[str, Mapping[str, str]]) -> str:
    """Return what a partition lacks for a case, as far as that is known before it runs."""
    for axis, value in case.point.items():
        kind = study.axes[axis].kind
        if kind in ('network', 'filesystem'):
            wanted = names.get(axis, {}).get(value) or study.axes[axis].values[value]
            if wanted not in (valid := _there(part, kind)):
                return f'{value}: {part.name} names no {kind} {wanted} ({", ".join(valid) or "none"})'
    roles = [case.variables[name] for name in ('source', 'destination', 'on') if name in case.variables]
    for role in roles:
        if role not in part.extras.filesystems:
            return f'{part.name} names no filesystem {role} ({", ".join(part.extras.filesystems) or "none"})'
    needs = len(roles) * _bytes(case.variables.get('bytes', ''))        # a file on each of its file systems
    has = getattr(part.extras, _ROOM, None) or 2 * (part.extras.memory_bytes or math.inf)
    if needs > has:
        return f'space: needs {figure(needs, "B")}, has {figure(has, "B")} (io_budget: case, on {part.name})'
    nodes, cores, where = part.extras.nodes, part.extras.cores, case.parameters.get('where')
    if nodes and any(int(case.variables.get(variable, 1)) > nodes for variable in ('nodes', 'client_nodes')):
        return f'needs more nodes than {part.name} has ({nodes})'
    needed = 2 if where == 'between' else study.experiments[case.experiment].nodes
    if nodes and needed > nodes:
        return f'needs {needed} nodes, {part.name} has {nodes}'
    if cores and (threads := int(case.variables.get('thread_count', 1))) > cores:
        return f'{threads} threads, a node of {part.name} has {cores} cores'
    two = where == 'within' or case.variables.get('ranks_a_node') == '2'
    return f'2 ranks a node, a node of {part.name} has {cores}' if two and cores and cores < 2 else ''


def _bytes(text: str) -> float:
    """Return the largest of these sizes in bytes; 0 where none is a number."""
    return max(found[0] if (found := amount(each)) else 0.0 for each in text.split(','))


def _beyond(case: Case, part: Partition, in_memory: Sequence[str]) -> tuple[str, str]:
    """Return the variable whose bytes no process on the partition can hold, and what is valid; '' for none."""
    memory = part.extras.memory_bytes
    for variable in in_memory:
        if memory and _bytes(text := case.variables.get(variable, '')) > memory:
            most = f'{figure(memory, "B")}, the memory of a node of {part.name}'
            return variable, f'{text!r}: must be at most {most}'
    return '', ''


def _there(part: Partition, kind: str) -> list[str]:
    """Return the names of a partition's networks or file systems."""
    there = getattr(part.extras, f'{kind}s', None) or ()
    return [each if isinstance(each, str) else getattr(each, 'name', '') for each in there]


def named(study: Study, system: str, given: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return what --as says, axis -> value in print -> name here. UsageError, with what is valid."""
    found: dict[str, dict[str, str]] = {}
    partitions = systems.read(system).partitions
    for text in given:
        axis, value, name = said.groups() if (said := AXIS_VALUE.fullmatch(text)) else ('', '', '')
        axes = [each for each, of in study.axes.items() if of.kind in ('network', 'filesystem')]
        if not axis:
            raise UsageError(f'--as {text!r}: must be AXIS.VALUE=NAME; axes: {", ".join(axes) or "none"}')
        if axis not in axes and name in (part.name for part in partitions):
            raise UsageError(f'--as {text}: a job takes nodes of one partition; name one that has the nodes of '
                             'both, by --partition (docs/studies.md)')
        if axis not in axes:
            raise UsageError(f'--as {text}: ' + unknown('axis', axis, axes or ['none']))
        if value not in study.axes[axis].values:
            raise UsageError(f'--as {text}: ' + unknown(f'value of {axis}', value, list(study.axes[axis].values)))
        kind = study.axes[axis].kind
        valid = sorted({each for part in partitions for each in _there(part, kind)})
        if name not in valid:
            raise UsageError(f'--as {text}: ' + unknown(f'{kind} of {system}', name, valid or ['none']))
        found.setdefault(axis, {})[value] = name
    return found


def _not_able(asked: Plan, check: str, partition: str) -> str:
    needs = next((c.needs for c in asked.cases if (c.check, c.partition) == (check, partition)), None)
    return f'{partition} lacks a feature that {check} needs (a GPU, for instance)' if needs is None else \
        f'no environment of {partition} offers {", ".join(needs)}'


def _times(name: str) -> tuple[list[tuple[str, str, dict[str, str], float]], dict[str, float]]:
    """Return system:partition, check, parameters and seconds of what the study's sessions ran; and the seconds
    that a job costs beside its case on each system:partition, the median of the sessions."""
    with paths.of_study(name):
        elapsed = {u: info.get('time_elapsed') for u, info in database.infos() if not info.get('interrupted')}
        rows = history.rows(elapsed).filter(pl.col('seconds').is_not_null()).select(
            'session', 'run', 'system', 'partition', 'check', 'case', 'seconds').unique().collect()
    found = [(session, f'{system}:{partition}', check, outset.parameters(case), seconds)
             for session, _, system, partition, check, case, seconds in rows.iter_rows()]
    ran: dict[tuple[str, str], list[float]] = {}
    for session, place, *_, seconds in found:
        ran.setdefault((session, place), []).append(seconds)
    costs: dict[str, list[float]] = {}
    for (session, place), of in ran.items():
        if elapsed[session]:
            costs.setdefault(place, []).append(max(0.0, elapsed[session] - sum(of)) / len(of))
    return [each for _, *each in found], {place: median(of) for place, of in costs.items()}


# ---- what was measured

def outcomes(study: Study, name: str, run: str, planned: Sequence[Planned]) -> dict[campaign.Key, str]:
    """Return what became of a campaign's cases in each repeat: '' where there are figures, else the reason."""
    found: dict[campaign.Key, str] = {}
    with paths.of_study(name):
        for uuid, info in database.infos():
            if info.get('run') != run:
                continue
            side = [p for p in planned if study.side(p.case) == info['side']]
            rows = history.rows([uuid]).filter(pl.col('partition').is_in({p.partition for p in side}))
            ran = [(check, outset.parameters(case), value, reason) for check, case, value, reason in
                   rows.select('check', 'case', 'value', 'reason').collect().iter_rows()]
            for _, cases in (each for each in _as_stated([(uuid, info)], [p.case for p in side]) if each[0]):
                for case in cases:
                    own = [(value, reason) for check, having, value, reason in ran if case.is_case(check, having)]
                    key = campaign.key(info['side'], info['repeat'], case)
                    if own and found.get(key, 'none'):
                        found[key] = '' if any(value is not None for value, _ in own) else own[0][1]
    return found


@dataclass
class Ran:
    """The figures of one campaign of a study. ``labels`` say what it ran on."""

    uuids: list[str]
    mode: str
    system: str
    cells: list[Cell]
    labels: list[str] = field(default_factory=list)
    facts: dict[str, dict[str, list[str]]] = field(default_factory=dict)     # by side
    candidate: str = ''             # the partition that stands beside the only side of a study
    left_out: list[Cell] = field(default_factory=list)      # what --quick leaves out and the system lacks, too
    changed: set[str] = field(default_factory=set)          # facts of checks that changed between its sessions


def ran(study: Study, name: str, word: str) -> Ran:
    """Return what the session ``word`` (a uuid's beginning, or `last`) and the others of its campaign measured.

    NothingMeasured where the study has none; UsageError for a session that is none of this study's."""
    with paths.of_study(name):
        return _ran(study, name, word)


def _ran(study: Study, name: str, word: str) -> Ran:
    own = database.infos()
    if not own:
        raise NothingMeasured(f'no session of the study {name} is stored; '
                              f'run: parity study run {name} --system NAME')
    chosen = own[-1][1] if word == 'last' else next((info for u, info in own if u.startswith(word)), None)
    if chosen is None:
        raise UsageError(f'no session of the study {name} starts with {word!r}; valid: last, '
                         + ', '.join(u[:8] for u, _ in own[-5:]))
    key = chosen.get('mode'), chosen.get('run')
    together = [(u, info) for u, info in own if (info.get('mode'), info.get('run')) == key]
    found = Ran([u for u, _ in together], str(key[0] or 'full'), '', [])
    if not study.candidate:
        found.candidate = next((str(info['side']) for _, info in together
                                if str(info.get('side')) != study.baseline), '')
        study = study.against(found.candidate) if found.candidate else study
    names = _names([info for _, info in together])
    cases = list(study.cases(names, found.mode == 'quick'))
    for side in study.axes[study.contrast].values:
        mine, part = [(u, info) for u, info in together if str(info.get('side')) == side], None
        for uuids, of_them in _as_stated(mine, [case for case in cases if study.side(case) == side]):
            of = Side(side, 'session', [])
            if uuids:
                of = resolve.of_rows(side, 'session', history.rows(uuids).lazy())
            found.changed |= {f'{cell.check}: {fact}' for cell in of.cells for value in cell.values
                              for fact in differing(value.facts, cell.facts)}
            facts = found.facts.setdefault(side, {})
            for fact, values in of.facts.items():
                facts[fact] = [*dict.fromkeys([*facts.get(fact, ()), *values])]
            places = [c.place for c in sorted(of.cells, key=lambda c: not c.values)]
            found.system, _, name = next(iter(places), found.system).partition(':')
            part = next((p for p in _partitions(found.system) if p.name == name), None)
            found.cells += _cells(study, of_them, of.cells, part, names, found.mode == 'quick')
        if part and found.mode == 'quick':
            whole = [case for case in study.cases(names) if study.side(case) == side]
            found.left_out += [c for c in _cells(study, whole, [], part, names) if c.reason != 'not measured']
    found.labels = _labels(study, found)
    return found


def _as_stated(sessions: Sequence[tuple[str, dict[str, Any]]],
               cases: Sequence[Case]) -> Iterator[tuple[list[str], list[Case]]]:
    """Yield the sessions that measured an experiment as study.yaml states it now, and its cases."""
    digests = campaign.digests(cases)
    for experiment, digest in digests.items():
        yield ([u for u, info in sessions if info.get(f'{campaign.OF}{experiment}', digest) == digest],
               [case for case in cases if case.experiment == experiment])


def _names(infos: Sequence[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """Return what --as said, axis -> value -> name, of session extras as.AXIS.VALUE=NAME."""
    found: dict[str, dict[str, str]] = {}
    for info in infos:
        for key, name in info.items():
            if key.startswith(campaign.AS):
                axis, _, value = key.removeprefix(campaign.AS).partition('.')
                found.setdefault(axis, {})[value] = str(name)
    return found


def _cells(study: Study, cases: Sequence[Case], measured: Sequence[Measured], part: Partition | None,
           said: Mapping[str, Mapping[str, str]], quick: bool = False) -> Iterator[Cell]:
    """Yield the study's cells of one side. Several metrics that stand for one in print are cells of their own."""
    stored = [(cell, outset.parameters(cell.case)) for cell in measured]
    for case in cases:
        mine = [cell for cell, having in stored if case.is_case(cell.check, having)]
        none = case.reason or (part and not mine and _lacking(study, case, part, said)) or 'not measured'
        for metric, names in study.experiments[case.experiment].metrics.items():
            for point, wanted in _named(study, case.experiment, names, quick):
                for name in wanted:
                    cell = next((c for c in mine if c.metric == name), None)
                    at = {axis: value for axis in study.experiments[case.experiment].axes
                          for value in [{**case.point, **point}.get(axis)] if value is not None}
                    at |= {FIGURE: name} if len(wanted) > 1 else {}
                    yield Cell(case.experiment, metric, at, cell.unit if cell else '', cell.better if cell else '',
                               list(cell.values) if cell else [], label=cell.label if cell else '',
                               reason=cell.reason if cell else none)


def _partitions(system: str) -> Sequence[Partition]:
    """Return the partitions of a system; none where it is no longer described."""
    return _site(system).partitions if system in systems.names() else ()


def _labels(study: Study, found: Ran) -> list[str]:
    """Say what the figures are of, where they are no figures of a cluster."""
    facts = {fact: {v for side in found.facts.values() for v in side.get(fact, ())}
             for fact in ('virtualisation', 'file system', 'link')}
    said = [f'changed while it ran: {", ".join(sorted(found.changed))}'] if found.changed else []
    said += ['User-mode Linux'] if 'uml' in facts['virtualisation'] else []
    if shared := [p for p in _partitions(found.system) if p.extras.nodes_share_cpus]:
        machine = database.read(found.uuids[-1]).facts.get('machine') or {}
        said.append(f'{shared[0].extras.nodes or "its"} nodes on '
                    f'{len(machine.get("core_sets", ())) or NOTHING} cores: no figures of a cluster')
        if study.axes[study.contrast].kind == 'network':
            said.append('the networks differ in their rates only')
        if study.axes[study.contrast].kind == 'filesystem':
            said.append(f'{" and ".join(study.axes[study.contrast].values)} are one machine')
    if links := [words for link in facts['link'] if (words := [
            *(['kernel links'] if 'veth' in link else []), *(['rate shaped'] if 'shaped' in link else [])])]:
        said.append(', '.join(links[0]))
    return said + (['local disk is memory'] if {'tmpfs', 'ramfs'} & facts['file system'] else [])
