"""Jobs that were submitted: listed, waited for, cancelled."""

from __future__ import annotations

import time

from parity.base import errors
from parity.jobs import sent
from parity.scheduler.state import SchedulerError, State, together

#: How often a job is asked for (seconds): often while it is young, and never so that a controller minds.
_FIRST, _LAST = 0.5, 15.0


def show() -> None:
    """Every job that was submitted from here, a line each."""
    for job in sent.everything():
        try:
            states = job.states()
            phase, code = together(states)
            words = sorted({s.word for s in states})
            said = f'{phase}: {", ".join(words)}' + (f', exit code {code}' if code is not None else '')
        except SchedulerError as err:
            said = f'not known: {err}'
        print(f'{job.id:12} {job.job:9} {job.system:16} {job.at:%Y-%m-%d %H:%M}  {said}')
    if not sent.everything():
        print('no job was submitted from here')


def status(name: str) -> None:
    """How a job stands, one line for each element of an array."""
    job = sent.find(name)
    for state in job.states():
        print(_line(state))
    print(f'script: {job.script}')


def _line(state: State) -> str:
    code = '' if state.exit_code is None else f'exit code {state.exit_code}'
    return '  '.join(filter(None, (state.id, state.word, code, state.reason, state.nodes, state.elapsed)))


def wait(name: str) -> int:
    """Wait for a job's end, telling what changes; returns its exit code, the highest one of an array.

    SchedulerError for a job that can never start.
    """
    job, pause, told = sent.find(name), _FIRST, set()
    while True:
        states = job.states()
        for state in states:
            if (state.id, state.word) not in told:
                told.add((state.id, state.word))
                print(_line(state), flush=True)
        phase, code = together(states)
        if phase == 'ended':
            return errors.OK if code is None else code
        if never := [s for s in states if s.never]:
            raise SchedulerError(f'{never[0].id} can never start: {never[0].never}; parity jobs cancel {job.id}')
        time.sleep(pause)
        pause = min(_LAST, pause * 1.3)


def cancel(name: str) -> None:
    """End a job, or take it out of the queue."""
    sent.find(name).cancel()
