"""The experiment that finds the cause of a slowdown: its cells, its nodes, its software, its turns.

parity.cause.design makes it from what is stored, `run` measures it by sessions of ReFrame, one a turn. A session
has the experiment and its turn in its extras, so that the same command goes on after a kill. It belongs to no
night."""

from __future__ import annotations

import json
import math
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from parity.base import console, files, paths
from parity.base.errors import InfrastructureError
from parity.base.figures import several
from parity.cause import factorial
from parity.cause.factorial import Decision, Turn
from parity.judge.store import database
from parity.judge.store.plan_file import RERUN_OF
from parity.judge.store.record import Run, Session
from parity.measure.session import runner
from parity.measure.software import earlier
from parity.site import identity, selection
from parity.site.systems import ROTATES, System

#: `parity_rerun_of` of these sessions: they measure other software, and count for no node.
CAUSE = 'cause'
#: Seconds that ReFrame and the scheduler take beside a turn's runs, for the time that is announced.
_OVERHEAD = 10.0
#: A run that others disturbed is measured again so often.
_TRIES = 3
#: Rounds of any experiment at most.
_MOST = 100


@dataclass(frozen=True)
class Measure:
    """A slower cell. ``slower``: the logarithm of its slowdown; ``expected``: that of the speed before. ``noise``:
    of one run, a share."""

    name: str
    case: str
    metric: str
    better: str
    slower: float
    noise: float
    expected: float | None = None
    weight: float = 1.0

    def log(self, value: float) -> float:
        return math.log(value) if self.better == 'higher' else -math.log(value)


@dataclass(frozen=True)
class TurnSoftware:
    """Software of a turn: an environment, and the facts and the identity of its programs. ``restored``: these
    facts take the place of what is found today."""

    environ: str
    label: str
    identity: str = ''
    facts: Mapping[str, Any] = field(default_factory=dict)
    night: str = ''
    restored: bool = False


@dataclass(frozen=True)
class Trial:
    """``key`` names it among those of this results folder. ``peer`` and ``before`` are empty where node or
    software is no question. ``seconds``: that all cases take once. ``of_environs``: two environments, of which
    none is known to be slower."""

    key: str
    system: System
    partition: str
    cells: Sequence[Measure]
    arguments: Sequence[str]
    now: TurnSoftware
    before: TurnSoftware | None = None
    node: Sequence[str] = ()
    peer: Sequence[str] = ()
    seconds: float = 1.0
    of_environs: bool = False

    @property
    def runs(self) -> int:
        """Return the runs of a turn: more where a run is short beside the start of a job."""
        return 3 if self.seconds < 30 else 1

    @property
    def loss(self) -> float:
        slower = sum(cell.weight * cell.slower for cell in self.cells)
        return factorial.as_share(slower)

    @property
    def noise(self) -> float:
        """Return the noise of a turn: the metrics of a case scatter alike."""
        of_run = sum(cell.weight * cell.noise for cell in self.cells)
        return of_run / math.sqrt(self.runs)

    @property
    def wanted(self) -> int:
        """Return the rounds that tell half the slowdown from none."""
        return factorial.rounds(self.noise, self.loss)

    @property
    def most(self) -> int:
        """Return the rounds that the budget allows."""
        budget = self.system.cause.node_hours * 3600
        rounds = budget / (self.node_seconds(1) or 1)
        return min(_MOST, int(rounds))

    def node_seconds(self, rounds: int) -> float:
        nodes = max(1, len(self.node))
        turns = rounds * factorial.TURNS
        return turns * self.runs * self.seconds * nodes

    def wall_seconds(self, rounds: int) -> float:
        of_turn = self.runs * self.seconds + _OVERHEAD
        return rounds * factorial.TURNS * of_turn

    @property
    def digest(self) -> str:
        """Return the same for experiments whose turns can stand in one table."""
        cells = [cell.name for cell in self.cells]
        sides = [[self.now.environ, self.now.identity]]
        if self.before:
            sides.append([self.before.environ, self.before.identity])
        design = [self.system.name, self.partition, cells, self.node, self.peer, sides, self.runs]
        text = json.dumps(design)
        return identity.digest(text.encode())

    def turns(self, rounds: int) -> list[tuple[bool, bool]]:
        """Return the turns of so many rounds, as (on the slow node, with tonight's software)."""
        has_node, has_software = bool(self.peer), self.before is not None
        turns = []
        for number in range(rounds):
            turns += factorial.order(number, has_node, has_software)
        return turns

    def place(self, slow: bool) -> Sequence[str]:
        return self.node if slow else self.peer

    def side(self, tonight: bool) -> TurnSoftware:
        is_earlier = self.before and not tonight
        return self.before if is_earlier else self.now


@dataclass(frozen=True)
class TrialResult:
    """A finished experiment. ``nodes``: what each node said of itself in it. ``level``: the logarithm of the speed
    on the slow node with tonight's software, beside what was expected; None where that is not known."""

    id: str
    decision: Decision
    turns: int
    nodes: Mapping[str, Mapping[str, str]]
    level: float | None = None


def weighted(cells: Sequence[Measure]) -> list[Measure]:
    """Return the cells with weights that sum to 1: what slowed down much and scatters little counts most."""
    weights = []
    for cell in cells:
        noise = max(cell.noise, 1e-3)
        weights.append(cell.slower / noise ** 2)
    total = sum(weights)
    return [replace(cell, weight=weight / total) for cell, weight in zip(cells, weights, strict=True)]


# ---- its turns

def run(experiment: Trial, store_answer: Callable[[TrialResult], object] = lambda _: None) -> TrialResult:
    """Measure what is left of an experiment, until it is decided or its budget is spent.

    ``store_answer`` takes the result before the experiment counts as ended: a kill between both loses no answer.

    InfrastructureError where another run measures, or a case cannot be measured: the same command goes on."""
    lock = runner.lock_results(f'parity cause {experiment.key}', ['--system', experiment.system.name])
    try:
        number = _begun(experiment)
        rounds = min(experiment.wanted, experiment.most)
        logs = _logs(experiment, _runs(number))
        while True:
            _measure_missing(experiment, number, rounds, logs)
            decision = _decision(experiment, rounds, logs)
            if not decision.more or rounds >= experiment.most:
                break
            rounds = min(experiment.most, rounds + decision.more)
            console.say(f'parity: not decided yet: {rounds} rounds')
        turns = rounds * factorial.TURNS
        level = _level(experiment, rounds, logs)
        measured = TrialResult(number, decision, turns, _nodes(number), level)
        store_answer(measured)
        if decision.word != 'not decided':
            _end(experiment, decision)
        return measured
    finally:
        lock.release()


def decided(experiment: Trial, measured: TrialResult, cell: Measure) -> Decision:
    """Return what the turns of a finished experiment say of one of its cells."""
    one = replace(experiment, cells=[replace(cell, weight=1.0)])
    rounds = measured.turns // factorial.TURNS
    logs = _logs(one, _runs(measured.id))
    return _decision(one, rounds, logs)


def _decision(experiment: Trial, rounds: int, logs: Mapping[int, float]) -> Decision:
    turns = []
    for number, (slow, tonight) in enumerate(experiment.turns(rounds)):
        turn = Turn(node=slow, software=tonight, log=logs[number])
        turns.append(turn)
    return factorial.decide(turns, experiment.loss, either=experiment.of_environs)


def folder() -> Path:
    return paths.results() / 'cause'


def _note(experiment: Trial) -> Path:
    return folder() / f'{experiment.key}.json'


def _noted(experiment: Trial) -> dict[str, Any]:
    """Return what was noted of this very design; {} where nothing was, or it cannot be read."""
    try:
        text = _note(experiment).read_text()
        noted = json.loads(text)
        is_whole = noted['id'] and 'ended' in noted
        is_of_design = noted['design'] == experiment.digest
    except (OSError, ValueError, TypeError, KeyError):
        return {}
    return noted if is_whole and is_of_design else {}


def _begun(experiment: Trial) -> str:
    """Return the id of this experiment: of one that was begun and did not end, or a new one."""
    noted = _noted(experiment)
    if noted and not noted['ended']:
        number = noted['id']
        turns = _logs(experiment, _runs(number))
        console.say(f'parity: it was begun before: {len(turns)} turns are measured')
        return number
    number = uuid.uuid4().hex[:12]
    for side in (experiment.now, experiment.before):
        if side and side.restored:
            facts = {side.environ: side.facts}
            files.write(_software(number, side), json.dumps(facts))
    noted = {'id': number, 'design': experiment.digest, 'ended': False}
    files.write(_note(experiment), json.dumps(noted))
    return number


def _end(experiment: Trial, decision: Decision) -> None:
    """Note that an experiment ended, and by what share its software was slower."""
    noted = _noted(experiment)
    noted['ended'] = True
    effect = decision.software
    noted['software'] = [effect.share, *effect.interval] if effect else []
    files.write(_note(experiment), json.dumps(noted))


def _software(number: str, side: TurnSoftware) -> Path:
    facts = json.dumps(side.facts, sort_keys=True)
    digest = identity.digest(facts.encode())
    return folder() / f'software-{number}-{digest}.json'


def outcome(experiment: Trial) -> list[float]:
    """Return by what share the software was slower in an experiment that ended, and its interval; [] for none."""
    noted = _noted(experiment)
    return noted.get('software', []) if noted and noted['ended'] else []


def _measure_missing(experiment: Trial, number: str, rounds: int, logs: dict[int, float]) -> None:
    """Measure the turns of so many rounds that have no logarithm yet."""
    turns = experiment.turns(rounds)
    total = len(turns)
    for turn, (slow, tonight) in enumerate(turns):
        if turn not in logs:
            logs[turn] = _measure(experiment, number, turn, slow, tonight, total)


def _measure(experiment: Trial, number: str, turn: int, slow: bool, tonight: bool, total: int) -> float:
    """Measure a turn, and return its logarithm. InfrastructureError where a case fails, or the earlier software is
    not what it was."""
    side = experiment.side(tonight)
    place = experiment.place(slow)
    where = side.label
    if place:
        where = f'{several([*place])}, {where}'
    extras = [f'{CAUSE}={number}', f'turn={turn}']
    disturbed = ''
    for _ in range(_TRIES):
        step = f'turn {turn + 1} of {total}: {where}'
        if disturbed:
            step += f' (again: {disturbed})'
        console.say(f'parity: {step}')
        last = _last_session()
        _reframe(experiment, side, place, extras, step)
        found = _runs(number, last)
        logs = _logs(experiment, found)
        if turn in logs:
            return logs[turn]
        runs = found.get(turn, [])
        _demand_software(runs, side, where)
        disturbed = next((run.disturbed for run in runs if run.disturbed), '')
        if not disturbed:
            break
    failed = next((f'{run.case}: {run.status}: {run.reason}' for run in runs if run.status), 'no case ran')
    raise InfrastructureError(f'{where}: {disturbed or failed} ({paths.results() / "reframe.log"}): the same '
                              'command goes on from here')


def _last_session() -> int:
    """Return the row of the newest stored session; 0 where none is."""
    rows = database.query('SELECT COALESCE(MAX(rowid), 0) FROM sessions')
    return rows[0][0] if rows else 0


def _demand_software(runs: Sequence[Run], side: TurnSoftware, where: str) -> None:
    """Raise InfrastructureError where the nodes ran other software than the turn's."""
    if not side.identity:
        return
    identities = {run.software for run in runs if not run.status}
    other = identities - {side.identity}
    if other:
        raise InfrastructureError(f'{where}: the nodes ran other software ({", ".join(other)}) than that of '
                                  f'the night ({side.identity}): it cannot be measured again; put '
                                  'that software back on the nodes')


def _reframe(experiment: Trial, side: TurnSoftware, place: Sequence[str], extras: list[str], step: str) -> None:
    """Run the cases once. InfrastructureError where ReFrame was stopped."""
    options = [f'--repeat={experiment.runs}']
    if place:
        nodes = ','.join(place)
        options += ['-J', f'nodelist={nodes}']
    of_session = [f'{RERUN_OF}={CAUSE}', *extras]
    options += ['--session-extras', ','.join(of_session)]
    variables = {}
    if side.restored:
        _, _, number = extras[0].partition('=')
        file = _software(number, side)
        variables[earlier.VARIABLE] = str(file)
    cases = [(experiment.partition, side.environ, '', cell.case) for cell in experiment.cells]
    for *_, selected in selection.again(experiment.system.name, cases, experiment.arguments):
        stopped = runner.reframe([*selected, *options], None, step, shown=False, **variables)
        if stopped:
            raise InfrastructureError(f'{stopped}: the same command goes on from here')


_SESSIONS = ("SELECT uuid, json_extract(json_blob, '$.session_info.turn') FROM sessions "
             "WHERE rowid > ? AND json_valid(json_blob) AND json_extract(json_blob, '$.session_info.cause') = ? "
             'ORDER BY rowid')


def _sessions(number: str, after: int = 0) -> Iterator[tuple[int, Session]]:
    """Yield the sessions of an experiment with their turns, the oldest first: those ``after`` a row."""
    for session, turn in database.query(_SESSIONS, after, number):
        if str(turn).isdecimal():
            yield int(turn), database.read(session)


def _runs(number: str, after: int = 0) -> dict[int, list[Run]]:
    """Return the runs of each turn of an experiment. ``after`` as for `_sessions`."""
    of_turns: dict[int, list[Run]] = defaultdict(list)
    for turn, session in _sessions(number, after):
        of_turns[turn] += [run for run in session.runs if not run.fixture]
    return of_turns


def _logs(experiment: Trial, measured: Mapping[int, Sequence[Run]]) -> dict[int, float]:
    """Return the logarithm of each measured turn: of its cells' speeds, weighted, if its runs have them all."""
    turns = experiment.turns(experiment.most)
    log_of_turn = {}
    for turn, runs in measured.items():
        side = experiment.now
        if turn < len(turns):
            _, tonight = turns[turn]
            side = experiment.side(tonight)
        counted = [run for run in runs if _counts(run, side)]
        log = _weighted_log(experiment, counted)
        if log is not None:
            log_of_turn[turn] = log
    return log_of_turn


def _weighted_log(experiment: Trial, runs: Sequence[Run]) -> float | None:
    """Return the weighted sum of the cells' logarithms; None where the runs lack a cell."""
    total = 0.0
    for cell in experiment.cells:
        logs = [*_logs_of(cell, runs)]
        if not logs:
            return None
        total += cell.weight * fmean(logs)
    return total


def _logs_of(cell: Measure, runs: Sequence[Run]) -> Iterator[float]:
    """Yield the logarithm of a cell's speed in each of its runs, on whichever node a run was."""
    case, _ = identity.undistributed(cell.case)
    for run in runs:
        case_of_run, _ = identity.undistributed(run.case)
        value = run.values().get(cell.metric) or 0.0
        if value > 0 and case_of_run == case:
            yield cell.log(value)


def _counts(run: Run, side: TurnSoftware) -> bool:
    return not (run.status or run.disturbed) and side.identity in ('', run.software)


def _nodes(number: str) -> dict[str, dict[str, str]]:
    """Return the facts of each node in an experiment, the newest."""
    facts: dict[str, dict[str, str]] = {}
    for _, session in _sessions(number):
        facts.update(session.nodes)
    return facts


def _level(experiment: Trial, rounds: int, logs: Mapping[int, float]) -> float | None:
    """Return the logarithm of the speed of the turns that are as the slow night was, beside that which was
    expected; None where that is open."""
    if any(cell.expected is None for cell in experiment.cells):
        return None
    turns = experiment.turns(rounds)
    as_slow = [logs[number] for number, turn in enumerate(turns) if all(turn)]
    expected = sum(cell.weight * cell.expected for cell in experiment.cells)
    return fmean(as_slow) - expected


def queued(system: System, partition: str) -> bool:
    """Return whether a job of the partition can be sent to a node by its name."""
    schedulers = [part.scheduler for part in system.partitions if part.name == partition]
    return any(scheduler in ROTATES for scheduler in schedulers)
