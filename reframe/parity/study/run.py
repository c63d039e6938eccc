"""Measure a study: one session of ReFrame after another, and from where the last run of the same command stopped.

results/studies/NAME/run.json has the id of each command's campaign. How far one is, its sessions say
(parity.study.here)."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from parity import study
from parity.base import console, files, paths
from parity.base.errors import (
    INFRASTRUCTURE,
    OK,
    REGRESSED,
    InfrastructureError,
    NothingMeasured,
    ParityError,
    UsageError,
)
from parity.base.figures import counted, figure
from parity.jobs import sent, write
from parity.nightly import guard
from parity.nightly import run as nightly_run
from parity.records import database
from parity.session import recovery
from parity.study import campaign, here, told

_RUNS = TypeAdapter(dict[str, str])
#: Begins what became of a case that the same command measures again.
_AGAIN = ('missing', 'failed')


def measure(name: str, system: str, quick: bool = False, partitions: Sequence[str] = (), given: Sequence[str] = (),
            dry_run: bool = False, again: bool = False, submit: bool = False) -> int:
    """Measure what the system can run of a study; return the exit code. ``given``: of --as. ``dry_run``: only say
    what would be done; ``again``: measure anew what was measured; ``submit``: send it as a job.

    Raises UsageError for a name that is not there, and NothingMeasured where nothing can be measured. Another run
    beside it, too little space and a session that was not stored are an InfrastructureError."""
    found, mode = study.read(name), 'quick' if quick else 'full'
    if len(partitions) == 2 and not found.candidate:
        found = found.against(partitions[1])
    names = here.named(found, system, given)
    asked = here.checked(found, name, system)
    planned = here.planned(found, name, system, quick, partitions, names, asked)
    study.refuse(name, [*dict.fromkeys((here.stated(found, p.case.experiment, p.beyond, quick), p.reason)
                                       for p in planned if p.beyond)])
    ready = [p for p in planned if not p.reason]
    if not ready:
        console.lines(told.not_testable(planned))
        raise NothingMeasured(f'{system} can measure nothing of {name} ({mode})')
    with paths.of_study(name) as folder, contextlib.ExitStack() as stack:
        if not (dry_run or submit):
            stack.callback(guard.alone(f'parity study run {name}', ['--system', system], name).release)
            recovery.recover_all()
        known, command = _known(folder / 'run.json'), ' '.join([mode, system, *partitions, *sorted(given)])
        number = uuid.uuid4().hex[:8] if again or command not in known else known[command]
        before = here.outcomes(found, name, number, planned)
        done = [key for key, why in before.items() if not why.startswith(_AGAIN)]
        steps = campaign.steps(found, [p.case for p in ready], quick, done)
        seconds = here.seconds(steps, ready)
        sides = {found.side(p.case): p.partition for p in ready}
        console.lines(told.ahead(f'{name}, {mode} on {system}: '
                                 + ', '.join(f'{side} {part}' for side, part in sides.items()),
                                 planned, steps, len(done), seconds))
        if not steps:
            console.lines(told.without_figure(before))
            print(f'all was measured before (run {number}); --again measures it anew\n'
                  f'next: parity study compare {name} last')
            return OK if dry_run else _code(name, before)
        _demand_room(len(steps))
        if dry_run:
            return OK
        files.write(folder / 'run.json', _RUNS.dump_json({**known, command: number}, indent=1))
        if submit:
            words = [name, '--system', system, *(['--quick'] if quick else []),
                     *(word for part in partitions for word in ('--partition', part)),
                     *(word for text in given for word in ('--as', text))]
            try:
                print(sent.submit('campaign', system, *write.of_study(name, system, words)).id)
            except ParityError:
                files.write(folder / 'run.json', _RUNS.dump_json(known, indent=1))
                raise
            return OK
        began = time.monotonic()
        extras = {'study': name, 'mode': mode, 'run': number,
                  **{f'{campaign.AS}{axis}.{value}': to for axis, of in names.items() for value, to in of.items()}}
        sources = {check.check: check.file for check in asked.checks}
        for i, step in enumerate(steps, 1):
            stated = campaign.digests(p.case for p in planned if found.side(p.case) == step.side)
            _session(campaign.arguments(step, sources, f'{system}:{sides[step.side]}', extras, stated),
                     f'session {i} of {len(steps)}, {step.side}, repeat {step.repeat}')
        after = here.outcomes(found, name, number, planned)
    wanted = [campaign.key(step.side, step.repeat, case) for step in steps for case in step.cases]
    lost = {key: why for key in wanted if (why := after.get(key, 'failed: ReFrame left it out'))}
    console.lines(told.behind(name, lost, len(wanted), time.monotonic() - began, seconds))
    return _code(name, {**after, **lost})


def _code(name: str, outcomes: Mapping[campaign.Key, str]) -> int:
    """Return the exit code of a campaign by what became of its runs: any that is wrong comes first.

    Raises NothingMeasured where none has a figure."""
    wrong, again = (sum(why.startswith(words) for why in outcomes.values()) for words in (('wrong',), _AGAIN))
    if wrong:
        print(f'parity: {counted(wrong, "run", "were")} wrong: --again measures all anew', file=sys.stderr)
    if again:
        print(f'parity: {counted(again, "run")} failed: the same command measures them again', file=sys.stderr)
    if wrong or again:
        return REGRESSED if wrong else INFRASTRUCTURE
    if all(outcomes.values()):
        raise NothingMeasured(f'{name} has no figure')
    return OK


def _known(file: Path) -> dict[str, str]:
    """Return the campaign of each command. UsageError for a file that another hand wrote."""
    try:
        return _RUNS.validate_json(file.read_bytes())
    except FileNotFoundError:
        return {}
    except ValidationError:
        raise UsageError(f'{file}: must have ids of runs as parity study run writes them; remove it') from None


def _demand_room(sessions: int) -> None:
    """Say how much space the results of so many sessions take, and demand it."""
    folder = next(f for f in (paths.results(), *paths.results().parents) if f.exists())
    needed, free = database.ROOM_BYTES * sessions, shutil.disk_usage(folder).free
    print(f'  at most {figure(needed, "B")} in {paths.results()}: {figure(free, "B")} are free', flush=True)
    if needed > free:
        raise InfrastructureError(f'{paths.results()}: no space for the results of {counted(sessions, "session")}')


def _session(arguments: list[str], step: str) -> None:
    """Run a session of ReFrame. InfrastructureError where it was stopped, or stored nothing."""
    print(f'parity: {step}', flush=True)
    os.environ.setdefault('RFM_CONFIG_FILES', str(paths.root() / 'reframe' / 'settings.py'))
    stored = len(database.uuids())
    stopped = nightly_run.reframe(arguments, step=step)
    if stopped or len(database.uuids()) == stored:
        database.demand_room()     # a disk that filled in the meantime is named
        raise InfrastructureError(f'{stopped or "ReFrame stored no session"} ({paths.results() / "reframe.log"}): '
                                  'the same command goes on from here')
