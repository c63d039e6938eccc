"""Measure a study: one session of ReFrame after another, and from where the last run of the same command stopped.

results/studies/NAME/run.json has the id of each command's campaign. How far one is, its sessions say
(parity.study.measured)."""

from __future__ import annotations

import contextlib
import os
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from parity.base import console, errors, files, findings, paths
from parity.base.errors import InfrastructureError, NothingMeasured, ParityError, UsageError
from parity.base.figures import counted
from parity.judge.store import database
from parity.measure.jobs import sent, write
from parity.measure.probe import partitions
from parity.measure.session import runner
from parity.site import systems
from parity.study import campaign, conditions, measured, wording
from parity.study.conditions import Planned
from parity.study.published import FOLDER, read, refuse
from parity.study.published.model import Study

_RUNS = TypeAdapter(dict[str, str])
#: Cases that the same command measures again.
_AGAIN = ('missing', 'failed')


@dataclass(frozen=True)
class StudyCommand:
    """`parity study run` as it was typed. ``given``: of --as."""

    name: str
    system: str
    quick: bool = False
    partitions: Sequence[str] = ()
    given: Sequence[str] = ()

    @property
    def mode(self) -> str:
        return 'quick' if self.quick else 'full'

    @property
    def key(self) -> str:
        """Return the name of the command's campaign in run.json."""
        return ' '.join([self.mode, self.system, *self.partitions, *sorted(self.given)])

    @property
    def words(self) -> list[str]:
        outside = os.environ.get(FOLDER)
        return [self.name, '--system', self.system, *(['--quick'] if self.quick else []),
                *(['--studies', outside] if outside else []),
                *(word for part in self.partitions for word in ('--partition', part)),
                *(word for text in self.given for word in ('--as', text))]


def measure(command: StudyCommand, dry_run: bool = False, again: bool = False, submit: bool = False) -> int:
    """Measure what the system can run of a study; return the exit code. ``dry_run``: only print what would be
    done; ``again``: measure anew what was measured; ``submit``: send it as a job.

    Raises UsageError for a name that is not there, and NothingMeasured where nothing can be measured. Another run
    beside it, too little space and a session that was not stored are an InfrastructureError."""
    study = read(name := command.name)
    if len(command.partitions) == 2 and not study.candidate:
        study = study.against(command.partitions[1])
    names = conditions.given_names(study, command.system, command.given)
    planned = _planned(study, command, names)
    used = {p.case.partition for p in planned if not p.reason}
    findings.refuse(partitions.examined(systems.read(command.system), used))
    with paths.of_study(name) as folder, contextlib.ExitStack() as stack:
        if not (dry_run or submit):
            lock = runner.lock_results(f'parity study run {name}', ['--system', command.system], name)
            stack.callback(lock.release)
        file = folder / 'run.json'
        ids = _ids(file)
        number = uuid.uuid4().hex[:8] if again or command.key not in ids else ids[command.key]
        before = measured.outcomes(study, name, number, planned)
        steps, seconds = _steps(study, command, planned, before)
        if not steps:
            console.lines(wording.without_figure(before))
            print(f'all was measured before (run {number}); --again measures it anew\n'
                  f'next: parity study compare {name} last')
            return errors.OK if dry_run else _code(name, before)
        print(f'  {database.demand_room_for(len(steps))}', flush=True)
        if dry_run:
            return errors.OK
        files.write(file, _RUNS.dump_json({**ids, command.key: number}, indent=1))
        if submit:
            return _send(command, file, ids)
        began = time.monotonic()
        place = next(p.case.partition for p in planned if not p.reason)
        one = conditions.one_device(study, systems.read(command.system), place, names)
        _sessions(study, command, planned, steps, {
            'study': name, 'mode': command.mode, 'run': number, **({campaign.ONE: 'device'} if one else {}),
            **{f'{campaign.AS}{axis}.{value}': to for axis, of in names.items() for value, to in of.items()}})
        after = measured.outcomes(study, name, number, planned)
    wanted = [campaign.key(step.side, step.repeat, case) for step in steps for case in step.cases]
    unmeasured = campaign.Status('failed', 'ReFrame left it out')
    lost = {key: of for key in wanted if (of := after.get(key, unmeasured)).word}
    console.lines(wording.outcome(name, lost, len(wanted), time.monotonic() - began, seconds))
    return _code(name, {**after, **lost})


def _planned(study: Study, command: StudyCommand, names: Mapping[str, Mapping[str, str]]) -> list[Planned]:
    """Return the study's cases. UsageError for a size beyond all memory, NothingMeasured where none can run."""
    planned = conditions.of_one(conditions.wanted(
        study, command.name, command.system, command.partitions, names))[command.mode]
    refuse(command.name, [*dict.fromkeys((conditions.stated(study, p.case, p.beyond), p.reason)
                                         for p in planned if p.beyond)])
    if all(p.reason for p in planned):
        console.lines(wording.not_testable(planned))
        raise NothingMeasured(f'{command.system} can measure nothing of {command.name} ({command.mode}): '
                              'the lines above say why')
    return planned


def _steps(study: Study, command: StudyCommand, planned: Sequence[Planned],
           before: Mapping[campaign.Key, campaign.Status]) -> tuple[list[campaign.Step], float]:
    """Print what is about to be measured; return its sessions, and the seconds that they take."""
    ready = [p for p in planned if not p.reason]
    done = [key for key, of in before.items() if of.word not in _AGAIN]
    steps = campaign.steps(study, [p.case for p in ready], command.quick, done)
    seconds = conditions.seconds(steps, ready)
    places = ', '.join(dict.fromkeys(f'{study.side(p.case)} {p.case.partition}' for p in ready))
    console.lines(wording.announced(f'{command.name}, {command.mode} on {command.system}: {places}', planned,
                                    steps, len(done), seconds))
    return steps, seconds


def _send(command: StudyCommand, file: Path, ids: dict[str, str]) -> int:
    """Send the command as a job, and print its id. A job that is refused leaves run.json as it was."""
    script = write.of_command(f'study-{command.name}', command.system, ['study', 'run', *command.words])
    try:
        print(sent.submit('campaign', command.system, *script).id)
    except ParityError:
        files.write(file, _RUNS.dump_json(ids, indent=1))
        raise
    return errors.OK


def _sessions(study: Study, command: StudyCommand, planned: Sequence[Planned], steps: Sequence[campaign.Step],
              extras: Mapping[str, str]) -> None:
    """Run the sessions of ReFrame. InfrastructureError where one was stopped, or stored nothing."""
    sources = {p.case.check: str(paths.root() / p.file) for p in planned}     # from whatever folder
    for i, step in enumerate(steps, 1):
        name, stored = f'session {i} of {len(steps)}, {step.side}, repeat {step.repeat}', len(database.uuids())
        print(f'parity: {name}', flush=True)
        stated = campaign.digests(p.case for p in planned if study.side(p.case) == step.side)
        stopped = runner.reframe(campaign.arguments(step, sources, command.system, extras, stated), step=name)
        if stopped or len(database.uuids()) == stored:
            database.demand_room()     # a disk that filled in the meantime is named
            raise InfrastructureError(f'{stopped or "ReFrame stored no session"} '
                                      f'({paths.results() / "reframe.log"}): the same command goes on from here')


def _code(name: str, outcomes: Mapping[campaign.Key, campaign.Status]) -> int:
    """Return the exit code of a campaign by what became of its runs: any that is wrong comes first.

    Raises NothingMeasured where none has a figure."""
    wrong, again = (sum(of.word in words for of in outcomes.values()) for words in (('wrong',), _AGAIN))
    if wrong:
        print(f'parity: {counted(wrong, "run", "were")} wrong: --again measures all anew', file=sys.stderr)
    if again:
        print(f'parity: {counted(again, "run")} failed: the same command measures them again', file=sys.stderr)
    if wrong or again:
        return errors.REGRESSED if wrong else errors.INFRASTRUCTURE
    if all(of.word for of in outcomes.values()):
        raise NothingMeasured(f'{name} has no figure: the lines above say why')
    return errors.OK


def _ids(file: Path) -> dict[str, str]:
    """Return the campaign of each command. UsageError for a file that another hand wrote."""
    try:
        return _RUNS.validate_json(file.read_bytes())
    except FileNotFoundError:
        return {}
    except ValidationError:
        raise UsageError(f'{file}: parity study run did not write this; remove it: each command then begins '
                         'anew') from None

