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
from parity.study.campaign import Outcomes, Status, Step
from parity.study.conditions import Planned, Plans
from parity.study.published import FOLDER, read, refuse
from parity.study.published.model import Names, Study

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
        words = [self.name, '--system', self.system]
        if self.quick:
            words.append('--quick')
        outside = os.environ.get(FOLDER)
        if outside:
            words += ['--studies', outside]
        for partition in self.partitions:
            words += ['--partition', partition]
        for name in self.given:
            words += ['--as', name]
        return words


def measure(command: StudyCommand, dry_run: bool = False, again: bool = False, submit: bool = False) -> int:
    """Measure what the system can run of a study; return the exit code. ``dry_run``: only print what would be
    done; ``again``: measure anew what was measured; ``submit``: send it as a job.

    Raises UsageError for a name that is not there, and NothingMeasured where nothing can be measured. Another run
    beside it, too little space and a session that was not stored are an InfrastructureError."""
    study = read(command.name)
    if len(command.partitions) == 2 and not study.candidate:
        study = study.against(command.partitions[1])
    site = systems.read(command.system)
    names = conditions.given_names(study, command.system, command.given)
    planned = _planned(study, command, names)
    ready = conditions.testable(planned)
    findings.refuse(partitions.examined(site, {plan.case.partition for plan in ready}))
    with paths.of_study(command.name) as folder, contextlib.ExitStack() as stack:
        if not (dry_run or submit):
            lock = runner.lock_results(f'parity study run {command.name}', ['--system', command.system],
                                       command.name)
            stack.callback(lock.release)
        file = folder / 'run.json'
        ids = _ids(file)
        known_id = '' if again else ids.get(command.key, '')
        run = known_id or uuid.uuid4().hex[:8]
        before = measured.outcomes(study, command.name, run, planned)
        steps = _announced(study, command, planned, before)
        if not steps:
            console.lines(wording.without_figure(before))
            print(f'all was measured before (run {run}); --again measures it anew\n'
                  f'next: parity study compare {command.name} last')
            return errors.OK if dry_run else _code(command.name, before)
        print(f'  {database.demand_room_for(len(steps))}', flush=True)
        if dry_run:
            return errors.OK
        files.write(file, _RUNS.dump_json({**ids, command.key: run}, indent=1))
        if submit:
            return _send(command, file, ids)
        extras = {'study': command.name, 'mode': command.mode, 'run': run}
        if conditions.one_device(study, site, ready[0].case.partition, names):
            extras[campaign.ONE] = 'device'
        for axis, given in names.items():
            extras |= {f'{campaign.AS}{axis}.{value}': name for value, name in given.items()}
        began = time.monotonic()
        _run_sessions(study, command, planned, steps, extras)
        after = measured.outcomes(study, command.name, run, planned)
    outcomes = {**after, **_left_out(steps, after)}
    taken = time.monotonic() - began
    of_steps = {key: outcomes[key] for key in campaign.keys(steps)}
    console.lines(wording.outcome(command.name, of_steps, taken, conditions.seconds(steps, ready)))
    return _code(command.name, outcomes)


def _left_out(steps: Sequence[Step], outcomes: Outcomes) -> Outcomes:
    """Return the status of the runs of these sessions that ReFrame did not store."""
    status = Status('failed', 'ReFrame left it out')
    return {key: status for key in campaign.keys(steps) if key not in outcomes}


def _planned(study: Study, command: StudyCommand, names: Names) -> list[Planned]:
    """Return the study's cases. UsageError for a size beyond all memory, NothingMeasured where none can run."""
    wanted = conditions.wanted(study, command.name, command.system, command.partitions, names)
    modes = conditions.of_one(wanted)
    planned = modes[command.mode]
    beyond = {}
    for plan in planned:
        if plan.beyond:
            beyond[conditions.stated(study, plan.case, plan.beyond), plan.reason] = None
    refuse(command.name, list(beyond))
    if not conditions.testable(planned):
        console.lines(wording.not_testable(planned))
        raise NothingMeasured(f'{command.system} can measure nothing of {command.name} ({command.mode}): '
                              'the lines above say why')
    return planned


def _announced(study: Study, command: StudyCommand, planned: Plans,
               before: Outcomes) -> list[Step]:
    """Print what is about to be measured, and return its sessions."""
    ready = conditions.testable(planned)
    done = [key for key, status in before.items() if status.word not in _AGAIN]
    cases = [plan.case for plan in ready]
    steps = campaign.steps(study, cases, command.quick, done)
    seconds = conditions.seconds(steps, ready)
    places = dict.fromkeys(f'{study.side(plan.case)} {plan.case.partition}' for plan in ready)
    head = f'{command.name}, {command.mode} on {command.system}: {", ".join(places)}'
    console.lines(wording.announced(head, planned, steps, len(done), seconds))
    return steps


def _send(command: StudyCommand, file: Path, ids: dict[str, str]) -> int:
    """Send the command as a job, and print its id. A job that is refused leaves run.json as it was."""
    script = write.of_command(f'study-{command.name}', command.system, ['study', 'run', *command.words])
    try:
        print(sent.submit('campaign', command.system, *script).id)
    except ParityError:
        files.write(file, _RUNS.dump_json(ids, indent=1))
        raise
    return errors.OK


def _run_sessions(study: Study, command: StudyCommand, planned: Plans, steps: Sequence[Step],
                  extras: Mapping[str, str]) -> None:
    """Run the sessions of ReFrame. InfrastructureError where one was stopped, or stored nothing."""
    sources = {plan.case.check: str(paths.root() / plan.file) for plan in planned}     # from whatever folder
    for number, step in enumerate(steps, 1):
        name = f'session {number} of {len(steps)}, {step.side}, repeat {step.repeat}'
        print(f'parity: {name}', flush=True)
        stated = campaign.digests(plan.case for plan in planned if study.side(plan.case) == step.side)
        stored = len(database.uuids())
        stopped = runner.reframe(campaign.arguments(step, sources, command.system, extras, stated), step=name)
        if stopped or len(database.uuids()) == stored:
            database.demand_room()     # a disk that filled in the meantime is named
            raise InfrastructureError(f'{stopped or "ReFrame stored no session"} '
                                      f'({paths.results() / "reframe.log"}): the same command goes on from here')


def _code(name: str, outcomes: Outcomes) -> int:
    """Return the exit code of a campaign by what became of its runs: any that is wrong comes first.

    Raises NothingMeasured where none has a figure."""
    words = [status.word for status in outcomes.values()]
    wrong, again = words.count('wrong'), sum(words.count(word) for word in _AGAIN)
    if wrong:
        print(f'parity: {counted(wrong, "run", "were")} wrong: --again measures all anew', file=sys.stderr)
    if again:
        print(f'parity: {counted(again, "run")} failed: the same command measures them again', file=sys.stderr)
    if wrong or again:
        return errors.REGRESSED if wrong else errors.INFRASTRUCTURE
    if all(words):
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
