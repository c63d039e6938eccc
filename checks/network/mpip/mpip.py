"""mpiP 3 (LLNL): the time of each rank inside MPI, by call; -S profile=yes runs any MPI check under it.

The text is the file PROGRAM.TASKS.PID.1.mpiP that MPI_Finalize writes with MPIP="-k 0 -e": all calls, all ranks,
fixed decimals. A rank's MPI time is a share of its run time, and its calls sum up to that."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from parity.check import Incomplete, Metric, Output, Program, Read, Unread, Wrong, number, ordered, whole

PROGRAM = Program('mpiP', title='@ mpiP')

OPTIONS = '-k 0 -e'                # of the variable MPIP
PROFILE = ('*.mpiP', 'MPIP=-k0,-e')        # the names of its reports, and the variable that it needs
#: What a profiled case measures beside its own figures.
METRICS = (
    Metric('mpi_share', '%', 'lower', zero=True, most=100),
    Metric('mpi_seconds_mean', 's', 'lower', zero=True),
    Metric('mpi_seconds_max', 's', 'lower', zero=True),
    Metric('computation_seconds_mean', 's', 'lower', zero=True),
    Metric('computation_seconds_max', 's', 'lower', zero=True),
    Metric('imbalance', '', 'lower'),
)
TASKS = ('MPI Time (seconds)', 'Task AppTime MPITime MPI%')
LONGEST = ('Aggregate Time (top twenty, descending, milliseconds)', 'Call Site Time App% MPI% Count')
TIMES = ('Callsite Time statistics (all, milliseconds)', 'Name Site Rank Count Max Mean Min App% MPI%')
#: Bytes sent, of files and of one-sided calls: all ranks, and the twenty largest calls.
BYTES = {'bytes': ('Message Sent statistics (all, sent bytes)', 'Sent Message Size', 'Sent%'),
         'io_bytes': ('I/O statistics (all, I/O bytes)', 'I/O Size', 'I/O%'),
         'rma_bytes': ('RMA statistics (all, origin bytes)', 'RMA Origin Size', 'I/O%')}
MOST = 20               # calls in a table of the longest or the largest
ALL = '*'               # for all ranks
_Row = dict[str, str]              # of a section, by its columns
_ByRank = dict[tuple[str, str], Any]        # (call, rank or * for all)


@dataclass(frozen=True)
class Task:
    """App time and MPI time of a rank or of all (s), and the one's share of the other (%)."""

    app: Decimal
    mpi: Decimal
    share: Decimal

    @property
    def computation(self) -> Decimal:
        """The time outside MPI."""
        return self.app - self.mpi


def read(text: str) -> Read:
    """app_, mpi_ and computation_seconds_max and _mean over ranks (s), mpi_share (%), imbalance.

    App time is the time between MPI_Init and MPI_Finalize; computation is its part outside MPI. mpi_share is the
    MPI time of all ranks over their App time. imbalance is the longest computation over the mean (1: even). Times
    have a resolution of 1 ms. Raise Incomplete, with the line, for a report that is cut. Raise Unread for one of
    other options of mpiP, and Wrong if figures contradict each other.

    Facts: version, command, tasks, nodes (names), ranks and calls. ``ranks``: rank, node, app_seconds,
    mpi_seconds, computation_seconds of each. ``calls``, longest first: call, seconds and count over all ranks;
    max_seconds and mean_seconds over ranks, imbalance (max over mean); bytes (sent), io_bytes, rma_bytes, None
    where mpiP counts none: it counts nothing of calls with a count for each rank, such as Alltoallv."""
    out = PROGRAM.output(text)
    out.ends_with('@--- End of Report( -+)?', '@--- End of Report')
    out.refuse('mpiP: WARNING')
    options = out.one('@ MPIP env var : (.*)')[1]
    if not re.fullmatch('-k ?0[ ,]-e', options):
        raise Unread(f'a report of MPIP="{options[:80]}" is not read; set MPIP="{OPTIONS}"')
    out.one('@ Report generation : Single collector task')
    facts: dict[str, Any] = {'version': out.one(r'@ Version : (3\.\d+\.\d+)')[1],
                             'command': out.one('@ Command : ?(.*)')[1]}
    nodes = _nodes(out)
    tasks = _tasks(out, len(nodes))
    ranks = [task for rank, task in tasks.items() if rank != ALL]
    calls = _calls(out, tasks)
    facts |= {'tasks': len(nodes), 'nodes': list(dict.fromkeys(nodes)), 'ranks': _facts_of_ranks(nodes, ranks),
              'calls': sorted(calls, key=lambda call: -call['seconds'])}
    return {**_figures(ranks), 'mpi_share': float(tasks[ALL].share), 'imbalance': _imbalance(ranks)}, facts


def _figures(ranks: list[Task]) -> dict[str, float]:
    """Return the longest and the mean times over ranks."""
    figures = {}
    for name in ('app', 'mpi', 'computation'):
        seconds = [getattr(task, name) for task in ranks]
        figures[f'{name}_seconds_max'] = float(max(seconds))
        figures[f'{name}_seconds_mean'] = float(statistics.mean(seconds))
    return figures


def _imbalance(ranks: list[Task]) -> float:
    """Return the longest computation over the mean."""
    computations = [task.computation for task in ranks]
    longest = max(computations)
    return float(longest / statistics.mean(computations)) if longest else 1.0


def _facts_of_ranks(nodes: list[str], ranks: list[Task]) -> list[dict[str, Any]]:
    facts = []
    for rank, (node, task) in enumerate(zip(nodes, ranks, strict=True)):
        facts.append({'rank': rank, 'node': node, 'app_seconds': float(task.app), 'mpi_seconds': float(task.mpi),
                      'computation_seconds': float(task.computation)})
    return facts


def _nodes(out: Output) -> list[str]:
    """Return the node of each rank."""
    assigned = out.every(r'@ MPI Task Assignment : (\d+) ([\w.-]+)')
    if [match[1] for match in assigned] != [str(rank) for rank in range(len(assigned))]:
        raise Wrong(f'ranks {" ".join(match[1] for match in assigned)[:80]}: they are not numbered from 0 on')
    return [match[2] for match in assigned]


def _tasks(out: Output, count: int) -> dict[str, Task]:
    """Return the times of each rank and of all, which are the sums."""
    tasks = {row['Task']: _task(row) for row in _section(out, *TASKS)}
    if list(tasks) != [*map(str, range(count)), ALL]:
        raise Wrong(f'times of ranks {" ".join(tasks)[:80]}: {count} ranks and all (*) were expected')
    unsure = Decimal('0.0005') * len(tasks)
    for name in ('app', 'mpi'):
        *seconds, total = (getattr(task, name) for task in tasks.values())
        _demand_sum(f'{name} times (s)', total, seconds, unsure)
    return tasks


def _task(row: _Row) -> Task:
    """Return the times of a rank, of which one is the share of the other."""
    what = f'rank {row["Task"]}'
    app = number(row['AppTime'], f'App time of {what}', places=3)
    mpi = number(row['MPITime'], f'MPI time of {what}', zero=True, places=3)
    share = number(row['MPI%'], f'MPI% of {what}', zero=True, places=2)
    exact = float(mpi / app)
    unsure = 0.00501 + 0.05 / (float(app) - 0.0005) * (1 + exact)         # half of each last digit
    if exact > 1 or abs(100 * exact - float(share)) > unsure:
        raise Wrong(f'{what}: {mpi} s in MPI of {app} s are not {share} %')
    return Task(app, mpi, share)


def _section(out: Output, title: str, heading: str, needed: bool = True) -> list[_Row]:
    """The rows of a section by their columns; none where a section that is not ``needed`` is absent."""
    begin = rf'@--- {re.escape(title)}(?:: \d+)?(?: -+)?'
    if not needed and not out.matches(begin):
        return []
    out.one(begin, f'@--- {title}')
    first = out.matches(begin)[0][0]
    last = next((line for line, _ in out.matches('@--- .*') if line > first), out.end)
    lines = out.lines[first + 1 - out.first:last - out.first]
    rows = [line.split() for line in lines if line.strip('-')]
    if len(rows) < 2 or rows[0] != heading.split():
        raise Incomplete(f'line {first}: section "{title}" has not the heading "{heading}" and rows')
    columns = rows[0]
    for row in rows:
        if len(row) != len(columns):
            raise Wrong(f'section "{title}": {" ".join(row)[:120]!r} is no row')
    return [dict(zip(columns, row, strict=True)) for row in rows[1:]]


def _calls(out: Output, tasks: dict[str, Task]) -> list[dict[str, Any]]:
    """Each MPI call over all ranks, once the calls of every rank sum up to its MPI time."""
    rows = _section(out, *TIMES)
    announced = out.count(rf'@--- {re.escape(TIMES[0])}: (\d+)(?: -+)?')
    found = sum(row['Rank'] != ALL for row in rows)
    if found != announced:
        raise Incomplete(f'line {out.end}: {found} of {announced} rows of "{TIMES[0]}"')
    counts: _ByRank = {}
    spent: _ByRank = {}             # ms
    for row in rows:
        key = row['Name'], row['Rank']
        counts[key] = whole(row['Count'], f'count of {row["Name"]}')
        spent[key] = counts[key] * _mean_time(row)
    _demand_times_of_ranks(tasks, counts, spent)
    total = _total(counts, tasks)
    exact = _longest(out, tasks, total)
    for call, milliseconds in exact.items():
        _demand_sum(f'ms in {call}', milliseconds, [spent[call, ALL]], Decimal('0.0005') * (total[call] + 1))
    sizes = {what: _bytes(out, tasks, *titles) for what, titles in BYTES.items()}
    calls = []
    for call, count in total.items():
        by_rank = [spent.get((call, rank), 0) for rank in tasks if rank != ALL]
        calls.append({'call': call, **_over_ranks(exact.get(call, spent[call, ALL]), by_rank), 'count': count,
                      **{what: of_kind.get(call) for what, of_kind in sizes.items()}})
    return calls


def _demand_times_of_ranks(tasks: dict[str, Task], counts: _ByRank, spent: _ByRank) -> None:
    """Raise Wrong unless the calls of each rank sum up to its MPI time."""
    for rank, task in tasks.items():
        own = [key for key in counts if key[1] == rank]
        unsure = Decimal('0.5') + Decimal('0.0005') * sum(counts[key] for key in own)
        _demand_sum(f'ms in MPI of rank {rank}', 1000 * task.mpi, [spent[key] for key in own], unsure)


def _longest(out: Output, tasks: dict[str, Task], total: dict[str, int]) -> dict[str, Decimal]:
    """Return the ms of the longest calls, over all ranks."""
    rows = _section(out, *LONGEST)
    exact = {row['Call']: number(row['Time'], f'ms in {row["Call"]}', zero=True) for row in rows}
    if not exact.keys() <= total.keys() or len(exact) != min(len(total), MOST):
        raise Wrong(f'"{LONGEST[0]}" and "{TIMES[0]}" have other calls')
    if len(exact) == len(total):
        shares = [number(row['App%'], 'App%', zero=True) for row in rows]
        _demand_sum('MPI% of all ranks', tasks[ALL].share, shares, Decimal('0.005') * (len(exact) + 1))
    return exact


def _mean_time(row: _Row) -> Decimal:
    """Return the mean time of a call (ms), between the shortest and the longest."""
    what = f'times of {row["Name"]} of rank {row["Rank"]}'
    least, mean, most = (number(row[name], what, zero=True, places=3) for name in ('Min', 'Mean', 'Max'))
    ordered(what, least, mean, most)
    return mean


def _over_ranks(milliseconds: Decimal, by_rank: list[Decimal]) -> dict[str, float]:
    """Return the times of a call over ranks (s), which took so many ms in all."""
    seconds = float(milliseconds) / 1000
    mean = seconds / len(by_rank)
    longest = max(float(own) / 1000 for own in by_rank)
    longest = min(max(mean, longest), seconds)
    return {'seconds': round(seconds, 6), 'max_seconds': round(longest, 6), 'mean_seconds': round(mean, 6),
            'imbalance': round(longest / mean, 4) if mean else 1.0}


def _bytes(out: Output, tasks: dict[str, Task], every: str, top: str, share: str) -> dict[str, int]:
    """Return the bytes of each call, over all ranks."""
    rows = _section(out, f'Callsite {every}', 'Name Site Rank Count Max Mean Min Sum', needed=False)
    largest = _section(out, f'Aggregate {top} (top twenty, descending, bytes)',
                       f'Call Site Count Total Avrg {share}', needed=False)
    sizes = {(row['Name'], row['Rank']): int(number(row['Sum'], every, zero=True, places=4)) for row in rows}
    total = _total(sizes, tasks)
    printed = {row['Call']: int(number(row['Total'], top, zero=True, places=3)) for row in largest}
    if len(printed) != min(len(total), MOST) or not printed.items() <= total.items():
        raise Incomplete(f'line {out.end}: "Callsite {every}" and "Aggregate {top}" have other calls or bytes')
    return total


def _total(values: _ByRank, tasks: dict[str, Task]) -> dict[str, int]:
    """Return the rows * of each call, which must be the sums of the rows of the ranks."""
    total: dict[str, int] = {}
    summed: dict[str, int] = {}
    for (call, rank), value in values.items():
        if rank not in tasks:
            raise Wrong('the rows * are not the sums of the rows of the ranks')
        summed.setdefault(call, 0)
        if rank == ALL:
            total[call] = value
        else:
            summed[call] += value
    if summed != total:
        raise Wrong('the rows * are not the sums of the rows of the ranks')
    return total


def _demand_sum(what: str, total: Decimal, parts: Iterable[Decimal], unsure: Decimal) -> None:
    """Raise Wrong unless the parts sum up to the total."""
    summed = sum(parts)
    if abs(total - summed) > unsure * Decimal('1.001'):
        raise Wrong(f'{what}: {total}, but its parts sum up to {summed}')
