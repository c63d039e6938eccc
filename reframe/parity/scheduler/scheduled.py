"""A case in a batch system: what every job asks for, how long it may wait, how it was ended. The scheduler's own
word for the end comes first: srun of a job out of time, and mpirun of one whose node was killed and came back,
both end with 0."""

from __future__ import annotations

import re
from pathlib import Path

from parity.scheduler import command, pbs, placement

#: A measurement that is begun again on another node is another measurement, and writes into one output.
_NEVER_AGAIN = {'slurm': '--no-requeue', 'squeue': '--no-requeue', 'pbs': '-r n', 'pbspro': '-r n'}
#: Backends whose jobs wait in a queue: 'local' has none.
QUEUED = tuple(_NEVER_AGAIN)
#: How long a job may wait for its nodes, where the partition states nothing (`extras: max_pending_time`).
LONGEST_WAIT = '6h'

#: How mpirun of an Open MPI without `tm` reaches the other nodes of a PBS job, where the site says nothing.
_REMOTE_SHELL = ('export PATH="$PATH:$PWD" OMPI_MCA_plm_rsh_agent="${OMPI_MCA_plm_rsh_agent:-pbs_rsh.sh}" '
                 'PRTE_MCA_plm_ssh_agent="${PRTE_MCA_plm_ssh_agent:-pbs_rsh.sh}"')

#: The job writes into it what node.sh says.
_NODE = 'node.txt'
#: The line of it that is of the job, not of the node.
_NODES = 'nodes'

#: How Slurm says that it was not the program that ended the job (sacct(1), JOB STATE CODES).
_ENDED = {
    'TIMEOUT': 'time limit reached', 'DEADLINE': 'deadline reached', 'OUT_OF_MEMORY': 'memory exceeded',
    'NODE_FAIL': 'a node failed', 'BOOT_FAIL': 'a node did not start', 'PREEMPTED': 'preempted by another job',
    'CANCELLED': 'cancelled', 'REVOKED': 'cancelled by a sibling',
}
#: What srun and slurmstepd say of a step that ended so, although the job went on.
_OF_A_STEP = {
    'OUT_OF_MEMORY': re.compile(r'^slurmstepd\S*: error: Detected \d+ oom.kill event', re.M),
    'NODE_FAIL': re.compile(r'^srun: error: Node failure on ', re.M),
}
#: The same of PBS (JOB_EXEC_KILL_* of its job.h).
_ENDED_BY_PBS = {
    -24: 'more cores used than asked for', -25: 'more cores used than asked for', -26: 'virtual memory exceeded',
    -27: 'memory exceeded', -28: 'CPU time limit reached', -29: _ENDED['TIMEOUT'],
}


def begin(case) -> None:
    """Ask what every job asks for; ``case`` is a ReFrame test after its set-up."""
    scheduler = case.current_partition.scheduler.registered_name
    if scheduler in QUEUED:
        if not case.standalone:
            case.stage_program('node.sh')
            case.prerun_cmds = [f'./node.sh >{_NODE}', *case.prerun_cmds]
        needed = nodes(case)
        if case.job.pin_nodes and needed > len(case.job.pin_nodes):       # reframe --distribute: a node by itself
            case.skip_case(f'nodes: needs {needed}, and is to run on {", ".join(case.job.pin_nodes)} alone')
        if needed > 1 and placement.needs_node_file(case.current_partition):
            case.stage_program('pbs_rsh.sh')
            case.prerun_cmds = [_REMOTE_SHELL, *case.prerun_cmds]
        case.job.options = [*case.job.options, _NEVER_AGAIN[scheduler]]
        case.job.times = case.parity.setdefault('job', {})
        if case.max_pending_time is None:
            case.max_pending_time = case.current_partition.extras.get('max_pending_time') or LONGEST_WAIT


def nodes(case) -> int:
    """The nodes that a case is to run on."""
    return -(-(case.num_tasks or 1) // (case.num_tasks_per_node or 1))


def note_times(job, times: tuple[float, float] | None) -> None:
    """Keep how long a job waited in the queue, refusals included, and ran; else its own files tell."""
    kept = getattr(job, 'times', None)
    times = (times[0] + getattr(job, 'refused_for', 0.0), times[1]) if times else _times_of_files(job)
    if kept is not None and times:
        kept.update(submitted=job.submit_time, waited=max(0.0, times[0]), ran=max(0.0, times[1]))


def _times_of_files(job) -> tuple[float, float] | None:
    """A job writes _NODE when it begins, and its output until it ends."""
    try:
        began, ended = (Path(job.workdir, name).stat().st_mtime for name in (_NODE, job.stdout))
    except OSError:
        return None
    return began - job.submit_time, ended - began


def node(stagedir: str) -> dict[str, str]:
    """What the node that ran the job said of itself (programs/node.sh); {} where it did not get so far."""
    return {key: value[:200] for key, value in _said(stagedir).items() if key != _NODES}


def hostlist(stagedir: str) -> str:
    """The nodes of the job in Slurm's own form, as the job was told them; '' where nothing did."""
    return _said(stagedir).get(_NODES, '')


def _said(stagedir: str) -> dict[str, str]:
    try:
        lines = Path(stagedir, _NODE).read_text(errors='replace').splitlines()
    except OSError:
        return {}
    return {key: value.strip() for key, _, value in (line.partition(':') for line in lines) if value}


def ended(job, complaints: str = '') -> str:
    """How something else than the program ended the job, with its id and nodes; '' where nothing did. Its standard
    error (``complaints``) alone tells of a step that was killed where the script went on."""
    words = [word for word in str(job.state or '').split(',') if word in _ENDED]
    words += [word for word, sign in _OF_A_STEP.items() if sign.search(complaints)]
    if words[:1] == ['CANCELLED'] and not job.nodelist:
        return _never_began(job)
    what, word = (_ENDED[words[0]], words[0]) if words else _ended_by_pbs(getattr(job, 'pbs', {}))
    if not what:
        return ''
    on = f' on {", ".join(job.nodelist)}' if job.nodelist else ''
    limit = f', {job.time_limit:g} s' if what == _ENDED['TIMEOUT'] and job.time_limit else ''
    return f'{what}{limit} (job {job.jobid}{on}: {word})'


def no_output(job, stagedir: str) -> str:
    """Why a job that has ended may have left no output."""
    on = f' of {", ".join(job.nodelist)}' if job.nodelist else ''
    return (f'a node{on} was gone before it wrote any, or does not see {stagedir} '
            '(results must be in a folder that all nodes share: PARITY_RESULTS)')


def _never_began(job) -> str:
    """ReFrame ends a job that has waited too long, and says no word of it."""
    reason = _waited_for(job.jobid)
    longest = f', at most {job.max_pending_time:g} s' if job.max_pending_time else ''
    return (f'cancelled while it waited in the queue{longest} (job {job.jobid}: CANCELLED'
            + (f', Reason {reason})' if reason else ')'))


def _waited_for(jobid: str) -> str:
    """Slurm's last word of why a job waited; '' where it has none, or does not answer."""
    try:
        said = command.run(['sacct', '-n', '-X', '-P', '-j', jobid, '-o', 'Reason']).stdout.split()
    except command.SchedulerError:
        return ''
    return next((word for word in said if word not in ('None', 'Unknown')), '')


def _ended_by_pbs(record: dict[str, str]) -> tuple[str, str]:
    """What PBS's own attributes of a job say (parity.rfm.pbs_backend), and where."""
    status = int(record.get('Exit_status', 0))
    told = f'Exit_status {status}'
    if record.get('substate') == pbs.DELETED:
        return _ENDED['CANCELLED'], record.get('comment') or told
    if status < 0:
        return _ENDED_BY_PBS.get(status, 'PBS could not run it'), told
    return (f'ended by signal {status - pbs.KILLED}', told) if status > pbs.KILLED else ('', '')
