"""ReFrame's backends `pbs`, `slurm` and `squeue` with additions. A full queue is tried again."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import time

from reframe.core.exceptions import JobError, JobSchedulerError, SpawnedProcessError, SpawnedProcessTimeout
from reframe.core.schedulers import slurm as reframe_slurm
from reframe.core.schedulers.pbs import JOB_STATES, PbsJobScheduler
from reframe.core.schedulers.slurm import SlurmJobScheduler, SqueueJobScheduler
from reframe.utility import osext

from parity.base import reasons
from parity.measure.scheduler import command, pbs, scheduled, slurm
from parity.measure.scheduler.command import Forgotten, JobState, SchedulerError, note_standing, run

#: How long (seconds) a scheduler may take to end a cancelled job, before nobody waits for it.
CANCEL_WAIT = 10
#: How often (seconds) a full queue is tried again, and how long a scheduler that does not answer.
TRY_EVERY, AWAY_WAIT = 15.0, 600.0
#: Answers of qsub and sbatch where a limit on the number of jobs, or on their total size, is reached.
_FULL = re.compile(r'would exceed .*limit|Maximum number of jobs .*already in|'
                   r'\b(?:QOS|Assoc)(?:Max|Grp)SubmitJob\w*|sleeping and retrying')
#: The same where it does not answer: it may just be starting.
_AWAY = re.compile(r'cannot connect to server|Unable to contact slurm controller')
#: Characters of a scheduler's answer in a reason.
_ANSWER = 100
#: What sbatch says of a full queue (MaxJobCount) before it sleeps for two minutes.
_SLEEPS = b'sleeping and retrying'


def sbatch(command, timeout=None):
    """Run sbatch as ReFrame's run_command does, but only until it sleeps: every other case would sleep with it."""
    process = osext.run_command_async(command, start_new_session=True)
    said, until = b'', time.monotonic() + (timeout or 3600)
    while select.select([process.stderr], [], [], max(0.0, until - time.monotonic()))[0]:
        more = os.read(process.stderr.fileno(), 4096)
        said += more
        if not more or _SLEEPS in said:
            break
    else:
        os.killpg(process.pid, signal.SIGKILL)
        raise SpawnedProcessTimeout(command, process.communicate()[0], said.decode(errors='replace'), timeout)
    if _SLEEPS in said:
        os.killpg(process.pid, signal.SIGKILL)
    done = subprocess.CompletedProcess(command, 0, process.communicate()[0], said.decode(errors='replace'))
    done.returncode = process.returncode
    if done.returncode:
        raise SpawnedProcessError(command, done.stdout, done.stderr, done.returncode)
    return done


class Patient:
    """Mixin before a backend of ReFrame's. Its ``give_up`` ends a job that the scheduler never took."""

    def tried(self, *words):
        """Run a scheduler's command; None, and a line in the log, where it is missing or does not end."""
        try:
            return run(list(words))
        except SchedulerError as err:
            self.log(str(err))
            return None

    def submit(self, job):
        first = job.submit_time or time.time()
        try:
            super().submit(job)
        except SpawnedProcessError as err:
            said = ' '.join((err.stderr or err.stdout or '').split()) or str(err)
            if not (_FULL.search(said) or _AWAY.search(said)):
                raise JobSchedulerError(said) from None
            if said != getattr(job, 'refused', ''):
                job.refused_since = time.time()
            job._jobid, job.refused, job.tried = '', said, time.time()
            note_standing(job, True, said)
        else:
            job.refused_for = job.submit_time - first
            note_standing(job, True)
        job._submit_time = first

    def taken(self, jobs):
        """Submit refused jobs again, and return those of ``jobs`` that the scheduler has."""
        jobs = [job for job in jobs if job is not None]
        for job in jobs:
            if job.jobid == '' and not self.finished(job):
                self._try_again(job)
        return [job for job in jobs if job.jobid]

    def _try_again(self, job):
        now = time.time()
        if job.max_pending_time and now - job.submit_time >= job.max_pending_time:
            self.give_up(job, f'{scheduled.WAITED}; {job.refused}')
        elif _AWAY.search(job.refused) and now - job.refused_since >= AWAY_WAIT:
            self.give_up(job, f'no answer for {AWAY_WAIT:g} s; {job.refused}')
        elif now - job.tried >= TRY_EVERY:
            try:
                with osext.change_dir(job.workdir):     # the script is named without its folder
                    self.submit(job)
            except JobSchedulerError as err:
                self.give_up(job, str(err))

    def end_overdue(self, job):
        """Cancel a job that has outlived its limits, and fail its case, whatever the scheduler says of the job.
        Return whether it has."""
        if job.standing.waits and scheduled.begun(job):
            note_standing(job, False)
        late = scheduled.overdue(job)
        if not late:
            return False
        kind, why = late
        why = f'{why}; {self.words_of(job)}'
        record = getattr(job, 'record', None)
        if record:
            record.refuse('failed', why, kind)
        self.cancel(job)
        job._exception = JobError(why, job.jobid)
        return True

    def answer(self, *words):
        """Return what one of the scheduler's commands says."""
        done = self.tried(*words)
        if done is None:
            return f'{words[0]} does not answer'
        text = ' '.join((done.stdout or done.stderr).split())
        return f'{words[0]} says {reasons.cut(text, _ANSWER)}' if text else f'{words[0]} says nothing'


#: How long (seconds) the output of an ended job may take to appear on a shared file system.
OUTPUT_WAIT = 120
#: How long (seconds) a job that can never run, or is forgotten, is waited for: the server may just be starting.
NEVER_WAIT = 60
#: How often (seconds) the nodes of running jobs are looked at, and how long a node may be down: a daemon that
#: starts again takes its jobs back.
NODES_EVERY, NODE_WAIT = 15, 60
#: ReFrame's line for `-J nodelist=`, which PBS does not know.
_NODELIST = '#PBS --nodelist='
FORGOTTEN = 'PBS has forgotten it (set server job_history_enable = True)'
#: Its end where the server keeps a history.
DELETED = 'PBS deleted it, as a routing queue does with a job that none of its queues takes'
#: The answers of qdel where the node's own daemon does not answer.
_NO_ANSWER = re.compile('could not connect to MOM|No route to host|MOM.* communication', re.I)
#: qstat's exit codes where it knows not all of the jobs, or some have ended (pbs_error.h, modulo 256).
_SOME_UNKNOWN = (0, 35, 153)


class Pbs(Patient, PbsJobScheduler):
    """The backend `pbs`: it also tells nodes, and ends jobs that do not end by themselves.

    ReFrame 4.10 lists no nodes of PBS, so it cannot distribute jobs over them. It waits for ever for a job that
    was deleted before it ran, or whose node is down. It ends the whole session when the server is restarted. It
    does not say that a waiting job is held or can never run, and gives a number only where PBS ended a job."""

    def allnodes(self):
        return pbs.hosts(_asked('pbsnodes', '-a'))

    def filternodes(self, job, nodes):
        """Return the nodes of a job's queue that have what its options ask of each."""
        options = [*job.sched_access, *job.options, *job.cli_options]
        queue = command.read('pbs', options).where.get('queue', '')
        chunk = {**_default_chunk(queue), **_asked_of_chunk(options)}
        named = set()
        for option in options:
            if option.startswith('--nodelist='):
                named.update(option.partition('=')[2].split(','))
        return {node for node in pbs.left(nodes, queue, chunk) if not named or node.name in named}

    def is_node_avail(self, node):
        return node.is_available

    def _emit_lselect_option(self, job):
        """Ask for each node by name, if the job is pinned to nodes or has `-J nodelist=a,b` as for Slurm."""
        lines, names = [], job.pin_nodes
        for line in super()._emit_lselect_option(job):
            if not line.startswith(_NODELIST):
                lines.append(line)
            elif not job.pin_nodes:
                names = [name for name in line.removeprefix(_NODELIST).split(',') if name]
        select = re.fullmatch(r'(?P<option>.*-l select=)(?P<nodes>\d+):(?P<chunk>.*)', lines[0]) if lines else None
        if not names or not select:
            return lines
        if not job.pin_nodes and len(names) != int(select['nodes']):
            raise JobSchedulerError(f'nodelist={",".join(names)} names {len(names)}, '
                                    f'the job needs {select["nodes"]}; name as many')
        chunks = [f'1:{select["chunk"]}:host={name}' for name in names]
        lines[0] = select['option'] + '+'.join(chunks)
        return lines

    def poll(self, *jobs):
        jobs = [job for job in self.taken(jobs) if not job.completed]
        if not jobs:
            return
        known = self._records([job.jobid for job in jobs])
        if known is not None:   # else the server is restarted: it is asked again
            self._look(jobs, known)
        for job in jobs:
            if not (job.completed or job.cancelled) and self.end_overdue(job):
                self._over(job, None)

    def words_of(self, job):
        """Return what qstat says of a job."""
        done = self.tried('qstat', '-f', '-w', job.jobid)
        state = re.search(r'job_state = (\w+)', done.stdout) if done else None
        return f'qstat says {state[1]}' if state else self.answer('qstat', '-f', '-w', job.jobid)

    def _look(self, jobs, records):
        """Bring the jobs to the state in which PBS has them."""
        busy = set()
        for record in records.values():
            busy.update(pbs.busy(record))
        down = self._down(busy)
        for job in jobs:
            record = records.get(_number(job.jobid))
            state = self._state(job, record)
            job._state = JOB_STATES.get(state.word, 'COMPLETED' if state.phase == 'ended' else state.word)
            if state.nodes:
                self._update_nodelist(job, state.nodes)
            if state.phase == 'pending':
                self._waits(job, state)
            elif state.phase == 'ended':
                self._ended(job, state, record)
            else:
                self._runs(job, state, {name: down[name] for name in pbs.busy(record) if name in down})

    def _state(self, job, record):
        """Return the state of a job by its record; PBS has none of a job that it deleted or forgot."""
        if record:
            return pbs.state(job.jobid, record)
        return JobState(job.jobid, 'ended', 'F', reason=DELETED if self._history else FORGOTTEN)

    def _records(self, ids):
        """Return the attributes of the jobs that PBS knows, by their number; None where it does not answer."""
        for history in (['-x'], []):    # a server that keeps none refuses -x
            done = self.tried('qstat', *history, '-f', '-w', *ids)
            if done is None:
                return None
            if done.returncode not in _SOME_UNKNOWN:
                self.log(f'qstat does not answer: {done.stderr.strip()}')
                return None
            self._history = bool(history) and 'history' not in done.stderr
            if 'history' not in done.stderr:
                break
        return {_number(name): record for name, record in pbs.records(done.stdout).items()}

    def _down(self, names: set[str]) -> dict[str, str]:
        """Return the nodes that PBS cannot reach, with its comment. Its last answer holds for NODES_EVERY."""
        if names and time.time() - getattr(self, '_asked_at', 0.0) >= NODES_EVERY:
            self._asked_at = time.time()
            done = self.tried('pbsnodes', *sorted(names))
            if done:
                self._known_down = pbs.down(done.stdout)
        return getattr(self, '_known_down', {})

    def _runs(self, job, state, down):
        """Fail a job whose node stays down. PBS itself calls it running until the node is back."""
        why = ', '.join(f'{name} is down ({comment})' for name, comment in down.items())
        command.note_standing(job, False, why)
        if not down or not hasattr(job, 'down_since'):
            job.down_since = time.time()
        if time.time() - job.down_since >= NODE_WAIT:
            self.cancel(job)
            self._over(job, state.times, f'a node failed: {why}')

    def cancel(self, job):
        """Cancel a job, by force where its node does not answer."""
        if not job.jobid:
            self.give_up(job)
            return
        job._cancelled, job.cancelled_at = True, time.time()
        for force in ([], ['-W', 'force']):
            done = self.tried('qdel', *force, job.jobid)
            if not (done and done.returncode and _NO_ANSWER.search(done.stderr)):
                return

    def wait(self, job):
        while not self.finished(job):
            self.poll(job)
            if job.cancelled and time.time() - job.cancelled_at >= CANCEL_WAIT:
                self._over(job, None)
            elif not self.finished(job):
                time.sleep(1)

    def give_up(self, job, why=''):
        """End a job that PBS never took."""
        self._over(job, (time.time() - job.submit_time, 0.0), why)

    def _waits(self, job, state):
        command.note_standing(job, True, state.reason)
        waited = time.time() - job.submit_time
        if job.max_pending_time and waited >= job.max_pending_time:
            what = scheduled.WAITED
        elif state.never and waited >= NEVER_WAIT:
            what = 'can never run'
        else:
            return
        self.cancel(job)
        in_queue = waited - getattr(job, 'refused_for', 0.0)
        self._over(job, (in_queue, 0.0), _joined(what, state.reason))

    def _over(self, job, times, why=''):
        """End the job; ``why`` is the reason of a failure."""
        scheduled.note_times(job, times)
        if why:
            job._exception = JobError(why, job.jobid) if job.jobid else JobSchedulerError(why)
        job._completed = True

    def _ended(self, job, state, record):
        job.pbs = record or {}
        job._exitcode = int(job.pbs['Exit_status']) if 'Exit_status' in job.pbs else None
        files = [os.path.join(job.workdir, name) for name in (job.stdout, job.stderr)]
        if job.cancelled or all(map(os.path.exists, files)):
            self._over(job, state.times)
            return
        job.ended_at = getattr(job, 'ended_at', time.time())
        if record and not state.nodes:
            self._over(job, state.times, state.reason or 'it never ran')
        elif time.time() - job.ended_at > OUTPUT_WAIT:
            what = f'its output did not come to {job.workdir} within {OUTPUT_WAIT} s'
            self._over(job, state.times, _joined(what, state.reason))


def _joined(*reasons: str) -> str:
    """Return the reasons that there are, one after another."""
    return '; '.join(filter(None, reasons))


def _default_chunk(queue: str) -> dict[str, str]:
    """Return what a queue asks of each node of its jobs (default_chunk), but for the CPUs."""
    if not queue:
        return {}
    attributes = pbs.records(_asked('qstat', '-Q', '-f', queue), 'Queue: ').get(queue, {})
    chunk = {}
    for name, value in attributes.items():
        if name.startswith('default_chunk.') and name != 'default_chunk.ncpus':
            chunk[name.removeprefix('default_chunk.')] = value
    return chunk


def _asked_of_chunk(options: list[str]) -> dict[str, str]:
    """Return what options such as mem=64gb:ngpus=1 ask of each node."""
    chunk = {}
    for option in options:
        if option.startswith(('-', '#')):
            continue
        for word in option.split(':'):
            name, equals, value = word.partition('=')
            if equals:
                chunk[name] = value
    return chunk


def _number(name: str) -> str:
    """Return a job's id without the server: qsub and qstat may name it differently."""
    return name.partition('.')[0]


def _asked(*words: str) -> str:
    try:
        return command.answer(list(words))
    except SchedulerError as err:
        raise JobSchedulerError(str(err)) from None


class _Timed(Patient):
    """The additions to both backends of Slurm: how long a job waited and ran, and why it waits. A cancelled job
    ends, whatever state Slurm gives."""

    #: Of one cluster; ReFrame 4.10 adds the names of several.
    _sacct, _squeue = 'sacct', 'squeue'

    def poll(self, *jobs):
        jobs = self.taken(jobs)
        try:
            super().poll(*jobs)
        except SpawnedProcessError as err:      # of sacct: the controller is asked
            self.log(str(err))
        self._ask_controller(jobs)
        for job in jobs:
            if not self.finished(job) and not job.is_cancelling:
                self.end_overdue(job)
            self._end_requeued(job)
            if not self.finished(job) and job.is_cancelling and time.time() - job.cancelled_at >= CANCEL_WAIT:
                job._state, job._nodespec = 'CANCELLED', job._nodespec or ''
            if self.finished(job):
                self._over(job)
            elif job.state:
                self._note_wait(job)

    def _note_wait(self, job):
        """Note whether a job waits, and cancel one that can never run."""
        pending = _pending(job) and 'COMPLETING' not in job.state and not scheduled.begun(job)
        why = job.standing.reason if pending and job.standing.waits else ''
        command.note_standing(job, pending, why)
        late = time.time() - job.submit_time >= NEVER_WAIT
        if late and slurm.never_starts(why) and not job.is_cancelling:
            self.cancel_many([job])
            job._exception = JobError(f'can never run; {why}', job.jobid)

    def _end_requeued(self, job):
        """Cancel a job that Slurm queues again, although its options forbid that: it would measure twice. The word
        for its first end stays its state. Before PENDING, sacct says PREEMPTED for some seconds."""
        words = set((job.state or '').split(','))
        if words & slurm.PENDING and scheduled.begun(job):
            if not _queued(job.jobid):      # sacct is late: it has just begun
                return
            done = self.tried('sacct', '-n', '-X', '-D', '-P', '-j', job.jobid, '-o', 'State')
            ends = [word for word in done.stdout.split() if word in slurm.ENDED] if done else []
            job._state = ends[0] if ends else 'CANCELLED'
        elif 'PREEMPTED' not in words:
            return
        self.cancel_many([job])

    def words_of(self, job):
        """Return what squeue and sacct say of a job."""
        queue = self.answer(*self._squeue.split(), '-h', '-j', job.jobid, '-o', '%T')
        accounting = self.answer(*self._sacct.split(), '-n', '-X', '-P', '-j', job.jobid, '-o', 'State')
        return f'{queue}, {accounting}'

    def _ask_controller(self, jobs):
        """Ask the controller for the jobs that the accounting does not name, and for those that left the queue:
        ReFrame would wait for ever. It has forgotten some, as a killed slurmctld loses those that it had not
        saved."""
        now = time.time()
        late = [job for job in jobs if not self.finished(job) and now - job.submit_time >= NEVER_WAIT]
        if not late or now - getattr(self, '_looked_at', 0.0) < NEVER_WAIT:
            return
        self._looked_at = now
        with contextlib.suppress(SchedulerError):       # it does not answer: it is asked again
            known = set(map(_job_id, slurm.folders()))
            for job in late:
                job.unnamed = job.state is None or getattr(job, 'unnamed', False)     # by the accounting
                try:
                    if job.unnamed or job.jobid not in known:
                        _take(job, slurm.states(job.jobid))
                except Forgotten as err:
                    self.give_up(job, f'Slurm has forgotten job {job.jobid}: {err}')

    def _over(self, job, times=None):
        if not getattr(job, 'over', False):
            job.over = True
            if job.exitcode and slurm.kept_code(job.jobid) == command.SIGNAL + job.exitcode:
                job._exitcode += command.SIGNAL
            scheduled.note_times(job, times or _times(job.jobid))

    def give_up(self, job, why=''):
        """End a job that Slurm never took, or has forgotten."""
        job._state, job._nodespec = 'CANCELLED', ''
        job._exception = JobSchedulerError(why) if why else None
        self._over(job, (time.time() - job.submit_time, 0.0))

    def cancel(self, job):
        if job.jobid:
            self.cancel_many([job])
        else:
            self.give_up(job)

    def cancel_many(self, jobs):
        """Cancel jobs, each once. A complaint of scancel does not end ReFrame."""
        jobs = [job for job in jobs if not job.is_cancelling]
        self._note_reasons(jobs)
        for job in jobs:
            job._is_cancelling, job.cancelled_at = True, time.time()
        if not jobs:
            return
        done = self.tried('scancel', *(job.jobid for job in jobs))
        if done:
            self.log(done.stderr.strip())

    def _note_reasons(self, jobs, reasons=None):
        """Keep the reasons (squeue(1), JOB REASON CODES) why jobs wait, and return them: after the end of a job,
        sacct of new versions has none. Without ``reasons`` squeue is asked."""
        waiting = [job for job in jobs if _pending(job)]
        if reasons is None and waiting:
            reasons = self._reasons([job.jobid for job in waiting])
        if reasons:
            for job in waiting:
                command.note_standing(job, True, ', '.join(reasons.get(job.jobid, [])))
        return reasons

    def _reasons(self, ids: list[str]) -> dict[str, list[str]]:
        """Ask squeue why jobs wait. An array has a reason for each element."""
        done = self.tried(*self._squeue.split(), '-h', '-j', ','.join(ids), '-o', '%i|%r')
        reasons: dict[str, list[str]] = {}
        for line in done.stdout.splitlines() if done else ():
            name, _, reason = line.partition('|')
            if reason != 'None':        # it was not looked at yet
                reasons.setdefault(_job_id(name), []).append(reason)
        return reasons

    def _cancel_if_pending_too_long(self, jobs):
        """Cancel jobs that wait for too long. ReFrame 4.9 gives one job, and the job words of its own."""
        before = getattr(jobs, '_exception', None)
        super()._cancel_if_pending_too_long(jobs)
        if hasattr(jobs, 'jobid'):
            jobs._exception = before

    def _cancel_if_blocked(self, jobs, reasons=None):
        """Cancel the jobs that wait for one of the reasons that ReFrame takes for a block. ReFrame 4.9 gives one
        job, with a list of reasons."""
        if hasattr(jobs, 'jobid'):
            known = self._note_reasons([jobs], {jobs.jobid: reasons} if reasons else None) or {}
            if jobs.jobid in known:
                super()._cancel_if_blocked(jobs, known[jobs.jobid])
        elif reasons := self._note_reasons(jobs, reasons):
            super()._cancel_if_blocked(jobs, reasons)


def _job_id(name: str) -> str:
    """Return the id of a job: elements of an array are ID_1, parts of a heterogeneous job ID+1."""
    return re.split('[_+]', name)[0]


def _pending(job) -> bool:
    return reframe_slurm.slurm_state_pending(job.state)


class Slurm(_Timed, SlurmJobScheduler):
    """The backend for a site with accounting."""


class Squeue(_Timed, SqueueJobScheduler):
    """The backend for a site without accounting. squeue forgets a job that has ended; the controller still knows
    its exit code, and that it was preempted, or killed."""

    def _over(self, job, times=None):
        if not getattr(job, 'over', False) and job.state == 'COMPLETED':
            with contextlib.suppress(SchedulerError):
                states = slurm.states(job.jobid)
                if all(state.phase == 'ended' for state in states):
                    _take(job, states)
        super()._over(job, times)


def _take(job, states: list[JobState]) -> None:
    """Give a job the state that the controller tells, of each element of an array."""
    if not states:
        return
    job._state = ','.join(state.word for state in states)
    nodes = ','.join(state.nodes for state in states if state.nodes)
    job._nodespec = nodes or job._nodespec or ''
    ended = [state for state in states if state.word in ('COMPLETED', 'FAILED')]
    if ended:
        kept = slurm.kept_code(job.jobid)
        job._exitcode = max(kept or state.exit_code for state in ended)


def _queued(jobid: str) -> bool:
    """Return whether the controller has the job in its queue, neither running nor completing."""
    try:
        return {state.phase for state in slurm.states(jobid)} == {'pending'}
    except SchedulerError:
        return False


def _times(jobid: str) -> tuple[float, float] | None:
    """Ask how many seconds a job waited and ran; None where neither controller nor accounting tells."""
    try:
        times = [state.times for state in slurm.states(jobid) if state.times]
    except SchedulerError:
        return None
    return max(times, key=lambda waited_and_ran: waited_and_ran[1], default=None)
