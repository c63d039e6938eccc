"""A case in a batch system: the options of every job, its longest wait, and how it was ended.

The scheduler's word for the end comes first. srun of a job out of time, and mpirun of a job whose node was killed
and came back, both exit with 0."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import NamedTuple

from parity.base.reasons import WINDOW_ENDED, Kind
from parity.judge.store.case_record import JobTimes
from parity.measure.scheduler import command, pbs, placement, slurm
from parity.site.systems import QUEUED

#: A measurement that begins again on another node is another measurement, and writes into the same output.
_NEVER_AGAIN = {'slurm': '--no-requeue', 'squeue': '--no-requeue', 'pbs': '-r n', 'pbspro': '-r n'}
#: The longest that a job waits for its nodes, where the partition states nothing (`extras: max_pending_time`).
LONGEST_WAIT = '6h'

#: How long (seconds) a scheduler may take to end a job that has outlived its limits. Slurm rounds a time limit up
#: to minutes, looks every half minute, and leaves a job another half minute.
GRACE = 120.0

#: The Unix time from which on no job starts: the end of a night's window (`nightly:` in system.yaml).
UNTIL = 'PARITY_UNTIL'

#: How mpirun of an Open MPI without `tm` reaches the other nodes of a PBS job, where the site says nothing.
_REMOTE_SHELL = ('export PATH="$PATH:$PWD" OMPI_MCA_plm_rsh_agent="${OMPI_MCA_plm_rsh_agent:-pbs_rsh.sh}" '
                 'PRTE_MCA_plm_ssh_agent="${PRTE_MCA_plm_ssh_agent:-pbs_rsh.sh}"')

#: How the reason of a job begins that waited for too long.
WAITED = 'maximum pending time exceeded'

#: The output of node.sh.
NODE = 'node.txt'

#: A job ends with its program's exit code where that is not 0, whatever runs after the program and reads $?.
_NOTE_CODE = 'parity_ended=$?; (exit $parity_ended)'
_END_WITH_CODE = '(exit $((parity_ended ? parity_ended : $?)))'


class End(NamedTuple):
    """The end that something other than the program made of a job."""

    kind: Kind
    words: str


#: Slurm's words for a job that something other than the program ended (sacct(1), JOB STATE CODES).
_ENDED = {
    'TIMEOUT': End(Kind.LIMIT, 'time limit reached'),
    'DEADLINE': End(Kind.LIMIT, 'deadline reached'),
    'OUT_OF_MEMORY': End(Kind.LIMIT, 'memory exceeded'),
    'NODE_FAIL': End(Kind.NODE, 'a node failed'),
    'BOOT_FAIL': End(Kind.NODE, 'a node did not start'),
    'PREEMPTED': End(Kind.NONE, 'preempted by another job'),
    'CANCELLED': End(Kind.CANCELLED, 'cancelled'),
    'REVOKED': End(Kind.CANCELLED, 'cancelled by a sibling'),
}
#: Complaints of srun and slurmstepd about a step that ended so, although the job went on.
_OF_A_STEP = {
    'OUT_OF_MEMORY': re.compile(r'^slurmstepd\S*: error: Detected \d+ oom.kill event', re.M),
    'NODE_FAIL': re.compile(r'^srun: error: Node failure on ', re.M),
}
#: The same of PBS (JOB_EXEC_KILL_* of its job.h).
_ENDED_BY_PBS = {
    -24: End(Kind.NONE, 'more cores used than asked for'),
    -25: End(Kind.NONE, 'more cores used than asked for'),
    -26: End(Kind.LIMIT, 'virtual memory exceeded'),
    -27: _ENDED['OUT_OF_MEMORY'],
    -28: End(Kind.LIMIT, 'CPU time limit reached'),
    -29: _ENDED['TIMEOUT'],
}


def demand_modules(case) -> None:
    """Have a job end where a module did not load: programs on PATH would run in place of the module's."""
    modules = [*case.current_partition.local_env.modules, *case.current_environ.modules, *case.modules]
    if modules and not case.standalone:
        case.stage_program('modules.sh')
        case.prerun_cmds = [f'(. ./modules.sh {" ".join(modules)}) || exit 2', *case.prerun_cmds]


def demand_target(case) -> None:
    """Have a job end where the node's processor does not run what its environment was built for."""
    target = case.current_environ.extras.get('target')      # its name, then the features of a processor
    if target and not case.standalone:
        case.stage_program('target.sh')
        case.prerun_cmds = [f'./target.sh {" ".join(target)} || exit 2', *case.prerun_cmds]


def begin(case) -> None:
    """Set the options of every job; ``case`` is a ReFrame test after its set-up."""
    scheduler, job = case.current_partition.scheduler.registered_name, case.job
    if case.postrun_cmds:
        case.postrun_cmds = [_NOTE_CODE, *case.postrun_cmds, _END_WITH_CODE]
    if scheduler not in QUEUED:
        return
    if not case.standalone:
        case.stage_program('node.sh')
        case.prerun_cmds = [f'./node.sh >{NODE}', *case.prerun_cmds]
    needed = nodes(case)
    if job.pin_nodes and needed > len(job.pin_nodes):       # reframe --distribute: a node by itself
        case.skip_case(f'nodes: needs {needed}, and is to run on {", ".join(job.pin_nodes)} alone', Kind.NODES)
    if needed > 1 and placement.needs_node_file(case.current_partition):
        case.stage_program('pbs_rsh.sh')
        case.prerun_cmds = [_REMOTE_SHELL, *case.prerun_cmds]
    job.options = [*job.options, _NEVER_AGAIN[scheduler]]
    job.record = case.parity
    _limit_wait(case)


def _limit_wait(case) -> None:
    """Set the longest wait of a case in the queue: its own, the partition's, and the end of the night's window."""
    if case.max_pending_time is None:
        case.max_pending_time = case.current_partition.extras.get('max_pending_time') or LONGEST_WAIT
    until = float(os.environ.get(UNTIL, 0))
    if not until:
        return
    left = until - time.time()
    if left <= 0:
        case.skip_case(f'{WINDOW_ENDED} before its job started: it is left for the next night', Kind.WINDOW)
    if left < case.max_pending_time:        # ReFrame reads a time as seconds
        case.max_pending_time = left
        case.parity.until_unix = until


def begun(job) -> bool:
    """Return whether a job's first file is there. Its scheduler may not say that it began."""
    return os.path.exists(os.path.join(job.workdir, NODE))


def overdue(job) -> End | None:
    """Return the end of a job that has outlived its longest wait, or its time limit, by GRACE."""
    now = time.time()
    if job.standing.waits:
        end = End(Kind.CANCELLED, WAITED)
        limit = job.max_pending_time
        lived = now - job.submit_time
    else:
        end = _ENDED['TIMEOUT']
        limit = job.time_limit
        lived = now - job.standing.since
    if not limit or lived < limit + GRACE:
        return None
    return End(end.kind, f'{end.words}, {limit:g} s: job {job.jobid} had not ended after {lived:.0f} s')


def nodes(case) -> int:
    """Return the number of nodes that a case needs."""
    tasks = case.num_tasks or 1
    tasks_per_node = case.num_tasks_per_node or 1
    return -(-tasks // tasks_per_node)


def note_times(job, times: tuple[float, float] | None) -> None:
    """Keep how long a job waited in the queue, refusals included, and ran. Without ``times`` its files tell: it
    writes NODE when it begins, and its output until it ends."""
    record = getattr(job, 'record', None)
    if record is None:
        return
    if times:
        waited, ran = times
        waited += getattr(job, 'refused_for', 0.0)
    else:
        try:
            began = Path(job.workdir, NODE).stat().st_mtime
            ended = Path(job.workdir, job.stdout).stat().st_mtime
        except OSError:
            return
        waited = began - job.submit_time
        ran = ended - began
    record.job = JobTimes(job.submit_time, waited_s=max(0.0, waited), ran_s=max(0.0, ran))


def node_report(stagedir: str) -> dict[str, str]:
    """Return the output of programs/node.sh; {} where the job did not begin. Its `nodes` are a list of Slurm."""
    try:
        lines = Path(stagedir, NODE).read_text(errors='replace').splitlines()
    except OSError:
        return {}
    facts = {}
    for line in lines:
        name, _, value = line.partition(':')
        if value:
            facts[name] = value.strip()
    return facts


def node(stagedir: str) -> dict[str, str]:
    """Return the facts of the node that ran the job."""
    return {key: value[:200] for key, value in node_report(stagedir).items() if key != 'nodes'}


def ended(job, complaints: str = '') -> tuple[Kind, str]:
    """Return the kind of the end that something other than the program made of the job, and a sentence with its
    id and nodes; '' where nothing did. Only ``complaints``, its standard error, tell of a killed step where the
    script went on."""
    words = [word for word in str(job.state or '').split(',') if word in _ENDED]
    words += [word for word, sign in _OF_A_STEP.items() if sign.search(complaints)]
    if words[:1] == ['CANCELLED'] and not job.nodelist:     # by ReFrame, which does not say why
        return Kind.CANCELLED, _cancelled_in_queue(job)
    record = getattr(job, 'pbs', {})        # parity.measure.rfm.queues
    if words:
        end = _ENDED[words[0]]
        evidence = _of_slurm(job, words[0])
    else:
        end = _ended_by_pbs(record)
        evidence = _of_pbs(record)
    if end is None:
        return Kind.NONE, ''
    limit = _limit(job, record) if end == _ENDED['TIMEOUT'] else ''
    on_nodes = f' on {", ".join(job.nodelist)}' if job.nodelist else ''
    return end.kind, f'{end.words}{limit} (job {job.jobid}{on_nodes}: {evidence})'


def _cancelled_in_queue(job) -> str:
    longest = f', at most {job.max_pending_time:g} s' if job.max_pending_time else ''
    reason = _waited_for(job)
    evidence = f'CANCELLED, Reason {reason}' if reason else 'CANCELLED'
    return f'cancelled while it waited in the queue{longest} (job {job.jobid}: {evidence})'


def _of_slurm(job, word: str) -> str:
    """Return Slurm's word for the end of a job, and who or what is to blame."""
    if word not in slurm.BLAMED:
        return word
    blame = slurm.blame(job.jobid, word, ','.join(job.nodelist or []))
    if not blame:
        return word
    return f'{word} {blame}' if blame.startswith('by ') else f'{word}; {blame}'


def _ended_by_pbs(record: dict[str, str]) -> End | None:
    """Return the end that PBS made of a job; None where it made none."""
    status = int(record.get('Exit_status', 0))
    if record.get('substate') == pbs.DELETED:
        return _ENDED['CANCELLED']
    if status < 0:
        return _ENDED_BY_PBS.get(status, End(Kind.NONE, 'PBS could not run it'))
    if status > pbs.KILLED:
        return End(Kind.NONE, f'ended by signal {status - pbs.KILLED}')
    return None


def _of_pbs(record: dict[str, str]) -> str:
    """Return PBS's words for the end of a job."""
    if record.get('substate') == pbs.DELETED and record.get('comment'):
        return record['comment']
    return f'Exit_status {int(record.get("Exit_status", 0))}'


def _limit(job, record: dict[str, str]) -> str:
    """Return the time that a job had; a hook of PBS may have cut what was asked for."""
    asked = job.time_limit or 0
    given = command.seconds(record.get('Resource_List.walltime', '')) or asked
    if not given:
        return ''
    cut = f' of {asked:g} s asked for' if given < asked else ''
    return f', {given:g} s{cut}'


def signalled(job) -> str:
    """Say which signal ended the program; '' where none did. A shell ends with 128 and the signal's number."""
    number = getattr(job, 'signal', None)
    code = job.exitcode or 0
    if not number and 128 < code <= 128 + signal.NSIG:
        number = code - 128
    if not number:
        return ''
    name = signal.strsignal(number) or 'unknown'
    return f'ended by signal {number} ({name})'


def no_output(job, stagedir: str) -> str:
    """Say why a job that has ended may have left no output."""
    nodes = f' of {", ".join(job.nodelist)}' if job.nodelist else ''
    return (f'a node{nodes} was gone before it wrote any, or does not see {stagedir} '
            '(results must be in a folder that all nodes share: PARITY_RESULTS)')


def _waited_for(job) -> str:
    """Return why a job waited, as squeue last gave it, or else sacct; '' where neither has a reason."""
    standing = getattr(job, 'standing', None)
    if standing and standing.waits and standing.reason:
        return standing.reason
    try:
        printed = command.run(['sacct', '-n', '-X', '-P', '-j', job.jobid, '-o', 'Reason']).stdout
    except command.SchedulerError:
        return ''
    for word in printed.split():
        if word not in ('None', 'Unknown'):
            return word
    return ''
