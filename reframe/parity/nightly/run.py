"""Run ReFrame, then judge what it stored: the run's exit status is the verdict's, not ReFrame's."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from typing import NoReturn

from parity.base import console, paths
from parity.base.errors import INFRASTRUCTURE, MISSING, OK, REGRESSED, InfrastructureError
from parity.base.figures import counted
from parity.base.text import node_name
from parity.judge import report
from parity.judge.report import answer
from parity.judge.store import database, plan_file
from parity.judge.store.plan_file import RERUN_OF
from parity.judge.verdict import judge
from parity.judge.verdict.model import Cell, Coverage, Verdict
from parity.measure.scheduler import nodes as of_scheduler
from parity.measure.session import runner
from parity.nightly import guard
from parity.nightly.heartbeat import Heartbeat
from parity.nightly.notify import Notifier
from parity.site import selection, systems
from parity.site.systems import System

#: Seconds of benchmarks from which on the overhead of a run says something of a night's.
LONG = 60.0


def judged(arguments: list[str], limit_seconds: float, began: float, notice: Notifier, beat: Heartbeat,
           required: Sequence[str] = ()) -> int:
    """Run, judge, report and notify; return the exit code. ``began``: the Unix time at which the set-up began;
    ``required``: the codes of --require."""
    notice.catch_up()
    before = set(database.uuids())
    stopped = runner.reframe([*arguments, *plan_file.NIGHT], limit_seconds)
    interrupted = stopped in runner.INTERRUPTED
    new = [uuid for uuid in database.uuids() if uuid not in before]
    if not new:
        _refuse_without_session(notice, stopped)
    beat.write(session=new[-1])
    verdict = judge.newest(new[-1])
    if not stopped:
        verdict, stopped = _confirmed(verdict, arguments, limit_seconds - (time.time() - began))
    verdict = notice.recorded(verdict, interrupted)
    console.lines(answer.lines(verdict))
    code = _demanded(verdict.exit_code, required, verdict.coverage)
    if stopped:
        print(f'parity: {stopped}: what had finished is judged above', file=sys.stderr)
        code = _cut_short(code)
    code = _reported(verdict, code)
    print(_overhead(verdict.session.run_time, verdict.session.wait_time, time.time() - began), flush=True)
    notice.judged(verdict)
    if not stopped:
        stopped = _nodes_by_turns(verdict, arguments, limit_seconds - (time.time() - began))
        # the time limit ends the turns of every night on a large system
        if stopped and time.time() - began < limit_seconds:
            code = _cut_short(code)
    return code


def _refuse_without_session(notice: Notifier, stopped: str) -> NoReturn:
    notice.recorded(None, stopped in runner.INTERRUPTED)
    notice.judged(None)
    database.demand_room()  # a disk that filled in the meantime is named
    why = f' ({stopped})' if stopped else ''
    raise InfrastructureError(f'ReFrame stored no session{why}; see {paths.results() / "reframe.log"}')


def _reported(verdict: Verdict, code: int) -> int:
    """Write the page; return the exit code. Without a page it is 4, but a regression stays 1."""
    try:
        index, *_ = report.of_session(verdict)
    except OSError as err:
        print(f'parity: {paths.results() / "report"}: {err.strerror}: no report was written', file=sys.stderr)
        return code if code == REGRESSED else INFRASTRUCTURE
    print(f'report: {index}')
    return code


def _nodes_by_turns(verdict: Verdict, arguments: list[str], seconds: float) -> str:
    """Measure nodes that had no turn lately, suspects first. Return '' or how that was stopped."""
    from parity.judge.verdict import cause  # it loads polars
    from parity.measure.nodes import turns
    suspects = cause.named_once(verdict.cells)
    system = systems.read(verdict.session.system)
    return turns.by_turns(system, arguments, verdict.session.uuid, seconds, suspects)


def _demanded(code: int, required: Sequence[str], coverage: Coverage) -> int:
    """Return the exit code, and say which of the ``required`` codes were not measured."""
    unmet = guard.unmet(required, coverage)
    if not unmet:
        return code
    code = code or MISSING
    print(f'parity: {unmet} (exit code {code})', file=sys.stderr)
    return code


def _cut_short(code: int) -> int:
    return INFRASTRUCTURE if code in (OK, MISSING) else code


def _confirmed(verdict: Verdict, arguments: list[str], seconds: float) -> tuple[Verdict, str]:
    """Measure suspicious cells again in what is left of the night's time. Return the verdict then, and '' or how
    an operator stopped that."""
    suspicious = [cell for cell in verdict.cells if cell.suspicious]
    names = sorted({cell.case.replace(' ', '') for cell in suspicious})
    named = ', '.join(names[:3])
    if len(names) > 3:
        named += f' and {counted(len(names) - 3, "more case")}'
    again = runs(systems.read(verdict.session.system), verdict.session.uuid, suspicious, arguments)
    stopped = ''
    for number, more in enumerate(again, 1):
        began = time.monotonic()
        step = f'rerun {number} of {len(again)}'
        print(f'parity: {step} before the verdict: {named}', flush=True)
        stopped = runner.reframe(more, seconds, step) if seconds > 0 else 'no time is left'
        if stopped:
            print('parity: what was not measured again is judged by its first runs', file=sys.stderr)
            break
        seconds -= time.monotonic() - began
    if suspicious:
        verdict = judge.newest(verdict.session.uuid)
    by_operator = stopped if stopped in runner.INTERRUPTED else ''
    return verdict, by_operator


def _overhead(ran: float, waited: float, wall: float) -> str:
    """Tell how a night spent its seconds. A queue is no benchmark, and no overhead of parity's."""
    queues = f', waited {waited:.1f} s in queues' if waited >= 0.05 else ''
    if ran < 0.05:     # what failed at once is no benchmark
        return f'no benchmark ran{queues}; {wall:.1f} s in all'
    if queues:
        queues += ','
    sentence = f'benchmarks ran {ran:.1f} s{queues} of {wall:.1f} s'
    if ran < LONG:
        return sentence
    overhead = (wall - ran - waited) / ran
    return f'{sentence}: overhead {100 * overhead:.1f} %'


#: Runs of each case, as many as a night has by default: the confirmation is as sharp as the suspicion.
RUNS = 3

def runs(system: System, session: str, suspicious: Iterable[Cell], arguments: list[str]) -> list[list[str]]:
    """Return the arguments of one ReFrame run for each partition, environment and set of nodes.

    ``arguments`` are those of the session: what they set for the checks is set again. A case that --distribute
    made is the case of its node, and runs there only."""
    distributed = any(word.partition('=')[0] == '--distribute' for word in arguments)
    cases = [(cell.partition, cell.environ, tuple(cell.nodes), cell.case) for cell in suspicious]
    confirming = [f'--repeat={RUNS}', '--session-extras', f'{RERUN_OF}={session}']
    commands = []
    for partition, nodes, selected in selection.again(system.name, cases, arguments):
        places = _places(system, partition, nodes)
        for place in places[:1] if distributed else places:
            commands.append([*selected, *place, *confirming])
    return commands


def _places(system: System, partition: str, nodes: tuple[str, ...]) -> list[list[str]]:
    """Return the options that send a job to the same nodes, and those that send it to others."""
    part = next(p for p in system.partitions if p.name == partition)
    if part.scheduler not in ('slurm', 'squeue') or not nodes:
        return [[]]
    full_names = {node_name(state.name): state.name for state in of_scheduler.of_system(system).nodes}
    listed = ','.join(full_names.get(node, node) for node in nodes)
    places = [['-J', f'nodelist={listed}']]
    size = part.extras.nodes
    if size is None or size >= 2 * len(nodes):
        places.append(['-J', f'exclude={listed}'])
    return places
