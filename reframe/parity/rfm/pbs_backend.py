"""ReFrame's backend `pbs` with additions: nodes, and jobs that do not end by themselves.

ReFrame 4.10 lists no nodes of PBS, so it cannot distribute jobs over them. It waits for ever for a job that was
deleted before it ran, or whose node is down. It ends the whole session when the server is restarted. It does not
say that a waiting job is held or can never run, and gives a number only where PBS ended a job."""

from __future__ import annotations

import os
import re
import time

from reframe.core.exceptions import JobError, JobSchedulerError
from reframe.core.schedulers.pbs import JOB_STATES, PbsJobScheduler

from parity.rfm.patient import CANCEL_WAIT, Patient
from parity.scheduler import command, pbs, scheduled
from parity.scheduler.command import SchedulerError, State

#: How long (seconds) the output of an ended job may take to appear on a shared file system.
OUTPUT_WAIT = 120
#: How long (seconds) a job that can never run stays in the queue: the server may just be starting.
NEVER_WAIT = 60
#: How often (seconds) the nodes of running jobs are looked at, and how long a node may be down: a daemon that
#: starts again takes its jobs back.
NODES_EVERY, NODE_WAIT = 15, 60
#: ReFrame's line for `-J nodelist=`, which PBS does not know.
_NODELIST = '#PBS --nodelist='
FORGOTTEN = 'PBS has forgotten it (set server job_history_enable = True)'
#: The answers of qdel where the node's own daemon does not answer.
_NO_ANSWER = re.compile('could not connect to MOM|No route to host|MOM.* communication', re.I)
#: qstat's exit codes where it knows not all of the jobs, or some have ended (pbs_error.h, modulo 256).
_SOME_UNKNOWN = (0, 35, 153)


class Scheduler(Patient, PbsJobScheduler):
    """The backend; it takes the place of ReFrame's own."""

    def allnodes(self):
        return pbs.hosts(_asked('pbsnodes', '-a'))

    def filternodes(self, job, known):
        options = [*job.sched_access, *job.options, *job.cli_options]
        queue = command.read('pbs', options).where.get('queue', '')
        # a queue's default_chunk holds for each node of its jobs
        of_queue = pbs.records(_asked('qstat', '-Q', '-f', queue), 'Queue: ').get(queue, {}) if queue else {}
        chunk = {name.removeprefix('default_chunk.'): value for name, value in of_queue.items()
                 if name.startswith('default_chunk.') and name != 'default_chunk.ncpus'}
        chunk |= dict(word.split('=', 1) for o in options if not o.startswith(('-', '#'))
                      for word in o.split(':') if '=' in word)
        return set(pbs.left(known, queue, chunk))

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
        if names and lines and (found := re.fullmatch(r'(.*-l select=)(\d+):(.*)', lines[0])):
            if not job.pin_nodes and len(names) != int(found[2]):
                raise JobSchedulerError(f'nodelist={",".join(names)} names {len(names)}, the job needs {found[2]}')
            lines[0] = found[1] + '+'.join(f'1:{found[3]}:host={name}' for name in names)
        return lines

    def poll(self, *jobs):
        jobs = [job for job in self.taken(jobs) if not job.completed]
        if not jobs:
            return
        known = self._records([job.jobid for job in jobs])
        if known is None:       # the server is restarted: it is asked again
            return
        down = self._down({name for record in known.values() for name in pbs.busy(record)})
        for job in jobs:
            record = known.get(_number(job.jobid))
            state = pbs.state(job.jobid, record) if record else State(job.jobid, 'ended', 'F', reason=FORGOTTEN)
            job._state = JOB_STATES.get(state.word, 'COMPLETED' if state.phase == 'ended' else state.word)
            if state.nodes:
                self._update_nodelist(job, state.nodes)
            if state.phase == 'pending':
                self._waits(job, state)
            elif state.phase == 'ended':
                self._ended(job, state, record)
            else:
                self._runs(job, state, {name: down[name] for name in pbs.busy(record) if name in down})

    def _records(self, ids):
        """Return the attributes of the jobs that PBS knows, by their number; None where it does not answer."""
        for history in (['-x'], []):    # a server that keeps none refuses -x
            done = self.tried('qstat', *history, '-f', '-w', *ids)
            if done is None:
                return None
            if done.returncode not in _SOME_UNKNOWN:
                self.log(f'qstat does not answer: {done.stderr.strip()}')
                return None
            if 'history' not in done.stderr:
                break
        return {_number(name): record for name, record in pbs.records(done.stdout).items()}

    def _down(self, names: set[str]) -> dict[str, str]:
        """Return the nodes that PBS cannot reach, with its comment. Its last answer holds for NODES_EVERY."""
        if names and time.time() - getattr(self, '_asked_at', 0.0) >= NODES_EVERY:
            self._asked_at = time.time()
            if done := self.tried('pbsnodes', *sorted(names)):
                self._known_down = pbs.down(done.stdout)
        return getattr(self, '_known_down', {})

    def _runs(self, job, state, down):
        """Fail a job whose node stays down. PBS itself calls it running until the node is back."""
        said = ', '.join(f'{name} is down ({why})' for name, why in down.items())
        command.note_standing(job, False, said)
        job.down_since = getattr(job, 'down_since', time.time()) if down else time.time()
        if time.time() - job.down_since >= NODE_WAIT:
            self.cancel(job)
            self._over(job, state.times, f'a node failed: {said}')

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
        too_long = job.max_pending_time and waited >= job.max_pending_time
        if too_long or (state.never and waited >= NEVER_WAIT):
            what = 'maximum pending time exceeded' if too_long else 'can never run'
            self.cancel(job)
            taken = waited - getattr(job, 'refused_for', 0.0)
            self._over(job, (taken, 0.0), '; '.join(filter(None, (what, state.reason))))

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
        never_ran = record and not state.nodes
        if never_ran or time.time() - job.ended_at > OUTPUT_WAIT:
            what = '' if never_ran else f'its output did not come to {job.workdir} within {OUTPUT_WAIT} s'
            self._over(job, state.times, '; '.join(filter(None, (what, state.reason))) or 'it never ran')


def _number(name: str) -> str:
    """Return a job's id without the server: qsub and qstat may name it differently."""
    return name.partition('.')[0]


def _asked(*words: str) -> str:
    try:
        return command.answer(list(words))
    except SchedulerError as err:
        raise JobSchedulerError(str(err)) from None
