"""mpiP 3 (LLNL): the time of each rank inside MPI, by call; -S profile=yes runs any MPI check under it.

The text is the file PROGRAM.TASKS.PID.1.mpiP that MPI_Finalize writes with MPIP="-k 0 -e": all calls, all ranks,
fixed decimals. A rank's MPI time is a share of its run time, and its calls sum up to that."""

from __future__ import annotations

import re
import statistics
from decimal import Decimal
from typing import Any, NamedTuple

from parity.check import Incomplete, Lines, Metric, Read, Wrong, number, ordered, whole

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
_TASKS = ('MPI Time (seconds)', 'Task AppTime MPITime MPI%')
_LONGEST = ('Aggregate Time (top twenty, descending, milliseconds)', 'Call Site Time App% MPI% Count')
_TIMES = ('Callsite Time statistics (all, milliseconds)', 'Name Site Rank Count Max Mean Min App% MPI%')
# Bytes sent, of files and of one-sided calls: all ranks, and the twenty largest calls.
_BYTES = {'bytes': ('Message Sent statistics (all, sent bytes)', 'Sent Message Size', 'Sent%'),
          'io_bytes': ('I/O statistics (all, I/O bytes)', 'I/O Size', 'I/O%'),
          'rma_bytes': ('RMA statistics (all, origin bytes)', 'RMA Origin Size', 'I/O%')}
_Row = dict[str, str]              # of a section, by its columns
_ByRank = dict[tuple[str, str], Any]        # (call, rank or * for all)


class _Task(NamedTuple):
    """App time and MPI time of a rank or of all (s), and the one's share of the other (%)."""

    app: Decimal
    mpi: Decimal
    share: Decimal


def read(text: str) -> Read:
    """app_, mpi_ and computation_seconds_max and _mean over ranks (s), mpi_share (%), imbalance.

    App time is the time between MPI_Init and MPI_Finalize; computation is its part outside MPI. mpi_share is the
    MPI time of all ranks over their App time. imbalance is the longest computation over the mean (1: even). Times
    have a resolution of 1 ms. Raise Incomplete, with the line, for a report that is cut or made with other
    options of mpiP, and Wrong if figures contradict each other.

    Facts: version, command, tasks, nodes (names), ranks and calls. ``ranks``: rank, node, app_seconds,
    mpi_seconds, computation_seconds of each. ``calls``, longest first: call, seconds and count over all ranks;
    max_seconds and mean_seconds over ranks, imbalance (max over mean); bytes (sent), io_bytes, rma_bytes, None
    where mpiP counts none: it counts nothing of calls with a count for each rank, such as Alltoallv."""
    header, (*tasks, total), nodes, calls = _read(text)
    seconds = {'app': [task.app for task in tasks], 'mpi': [task.mpi for task in tasks],
               'computation': [task.app - task.mpi for task in tasks]}
    found = {f'{name}_seconds_{how}': float(of(values)) for name, values in seconds.items()
             for how, of in (('max', max), ('mean', statistics.mean))}
    longest, mean = max(seconds['computation']), statistics.mean(seconds['computation'])
    ranks = [{'rank': rank, 'node': node, 'app_seconds': float(task.app), 'mpi_seconds': float(task.mpi),
              'computation_seconds': float(task.app - task.mpi)}
             for rank, (node, task) in enumerate(zip(nodes, tasks, strict=True))]
    imbalance = float(longest / mean) if longest else 1.0
    return {**found, 'mpi_share': float(total.share), 'imbalance': imbalance}, {
        **header, 'tasks': len(nodes), 'nodes': list(dict.fromkeys(nodes)), 'ranks': ranks,
        'calls': sorted(calls, key=lambda call: -call['seconds'])}


def _read(text: str) -> tuple[dict[str, str], list[_Task], list[str], list[dict]]:
    out = Lines(text)
    out.one('@--- End of Report( -+)?', '@--- End of Report')
    out.one('@ mpiP')
    out.refuse('mpiP: WARNING')
    if not re.fullmatch('-k ?0[ ,]-e', options := out.one('@ MPIP env var : (.*)')[1]):
        raise Incomplete(f'line {out.end}: a report of MPIP="{options[:80]}" is not read; set MPIP="{OPTIONS}"')
    header = {'version': out.one(r'@ Version : (3\.\d+\.\d+)')[1], 'command': out.one('@ Command : ?(.*)')[1]}
    out.one('@ Report generation : Single collector task')
    nodes = [match.groups() for match in out.every(r'@ MPI Task Assignment : (\d+) ([\w.-]+)')]
    tasks = {row['Task']: _task(*row.values()) for row in _section(out, *_TASKS)}
    names = [*map(str, range(len(nodes))), '*']
    if list(tasks) != names or [rank for rank, _ in nodes] != names[:-1]:
        raise Wrong(f'times of ranks {" ".join(tasks)[:80]}: {len(nodes)} ranks and all (*) were expected')
    for what in ('app', 'mpi'):
        *each, total = (getattr(task, what) for task in tasks.values())
        _near(f'{what} times (s)', total, sum(each), Decimal('0.0005') * len(tasks))
    return header, list(tasks.values()), [node for _, node in nodes], _calls(out, tasks)


def _section(out: Lines, title: str, heading: str, needed: bool = True) -> list[_Row]:
    """The rows of a section by their columns; none where a section that is not ``needed`` is absent."""
    begin = rf'@--- {re.escape(title)}(?:: \d+)?(?: -+)?'
    if not needed and not out.matches(begin):
        return []
    out.one(begin, f'@--- {title}')
    start = out.matches(begin)[0][0]
    stop = next((at for at, _ in out.matches('@--- .*') if at > start), out.end)
    rows = [line.split() for line in out.lines[start:stop - 1] if line.strip('-')]
    if len(rows) < 2 or rows[0] != heading.split():
        raise Incomplete(f'line {start}: section "{title}" has not the heading "{heading}" and rows')
    if short := [row for row in rows if len(row) != len(rows[0])]:
        raise Wrong(f'section "{title}": {" ".join(short[0])[:120]!r} is no row')
    return [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]


def _task(rank: str, app: str, mpi: str, share: str) -> _Task:
    what = f'rank {rank}'
    task = _Task(number(app, f'App time of {what}', places=3), number(mpi, f'MPI time of {what}', True, places=3),
                 number(share, f'MPI% of {what}', True, places=2))
    exact = float(task.mpi / task.app)
    near = 0.00501 + 0.05 / (float(task.app) - 0.0005) * (1 + exact)         # half of each last digit
    if exact > 1 or abs(100 * exact - float(task.share)) > near:
        raise Wrong(f'{what}: {mpi} s in MPI of {app} s are not {share} %')
    return task


def _calls(out: Lines, tasks: dict[str, _Task]) -> list[dict]:
    """Each MPI call over all ranks, once the calls of every rank sum up to its MPI time."""
    rows = _section(out, *_TIMES)
    announced = out.count(rf'@--- {re.escape(_TIMES[0])}: (\d+)(?: -+)?')
    if (found := sum(row['Rank'] != '*' for row in rows)) != announced:
        raise Incomplete(f'line {out.end}: {found} of {announced} rows of "{_TIMES[0]}"')
    counts = {(row['Name'], row['Rank']): whole(row['Count'], f'count of {row["Name"]}') for row in rows}
    spent = {(row['Name'], row['Rank']): whole(row['Count'], 'count') * _mean_time(row) for row in rows}
    for rank, task in tasks.items():
        own = [key for key in counts if key[1] == rank]
        _near(f'ms in MPI of rank {rank}', 1000 * task.mpi, sum(spent[key] for key in own),
              Decimal('0.5') + Decimal('0.0005') * sum(counts[key] for key in own))
    total = _total(counts, tasks)
    longest = _section(out, *_LONGEST)
    exact = {row['Call']: number(row['Time'], f'ms in {row["Call"]}', True) for row in longest}
    if not exact.keys() <= total.keys() or len(exact) != min(len(total), 20):
        raise Wrong(f'"{_LONGEST[0]}" and "{_TIMES[0]}" have other calls')
    if len(exact) == len(total):
        _near('MPI% of all ranks', tasks['*'].share, sum(number(row['App%'], 'App%', True) for row in longest),
              Decimal('0.005') * (len(exact) + 1))
    for call, time in exact.items():
        _near(f'ms in {call}', time, spent[call, '*'], Decimal('0.0005') * (total[call] + 1))
    sizes = {what: _bytes(out, tasks, *titles) for what, titles in _BYTES.items()}
    by_rank = {call: [spent.get((call, rank), 0) for rank in tasks] for call in total}
    return [{'call': call, **_over_ranks(exact.get(call, spent[call, '*']), by_rank[call]),
             'count': count, **{what: of_kind.get(call) for what, of_kind in sizes.items()}}
            for call, count in total.items()]


def _mean_time(row: _Row) -> Decimal:
    what = f'times of {row["Name"]} of rank {row["Rank"]}'
    least, mean, most = (number(row[name], what, True, places=3) for name in ('Min', 'Mean', 'Max'))
    ordered(what, least, mean, most)
    return mean


def _over_ranks(milliseconds: Decimal, by_rank: list[Decimal]) -> dict[str, float]:
    """``by_rank`` ends with all ranks."""
    seconds, mean = float(milliseconds) / 1000, float(milliseconds) / 1000 / (len(by_rank) - 1)
    longest = min(max(mean, *(float(own) / 1000 for own in by_rank[:-1])), seconds)
    return {'seconds': round(seconds, 6), 'max_seconds': round(longest, 6), 'mean_seconds': round(mean, 6),
            'imbalance': round(longest / mean, 4) if mean else 1.0}


def _bytes(out: Lines, tasks: dict[str, _Task], every: str, top: str, share: str) -> dict[str, int]:
    rows = _section(out, f'Callsite {every}', 'Name Site Rank Count Max Mean Min Sum', needed=False)
    largest = _section(out, f'Aggregate {top} (top twenty, descending, bytes)',
                       f'Call Site Count Total Avrg {share}', needed=False)
    sizes = {(row['Name'], row['Rank']): int(number(row['Sum'], every, True, places=4)) for row in rows}
    total = _total(sizes, tasks)
    told = {row['Call']: int(number(row['Total'], top, True, places=3)) for row in largest}
    if len(told) != min(len(total), 20) or not told.items() <= total.items():
        raise Incomplete(f'line {out.end}: "Callsite {every}" and "Aggregate {top}" have other calls or bytes')
    return total


def _total(values: _ByRank, tasks: dict[str, _Task]) -> dict[str, int]:
    """Return the rows * of each call, which must be the sums of the rows of the ranks."""
    total = {call: value for (call, rank), value in values.items() if rank == '*'}
    summed = dict.fromkeys((call for call, _ in values), 0)
    for (call, rank), value in values.items():
        summed[call] += value if rank != '*' else 0
    if summed != total or not {rank for _, rank in values} <= tasks.keys():
        raise Wrong('the rows * are not the sums of the rows of the ranks')
    return total


def _near(what: str, told: Decimal, summed: Decimal, allowed: Decimal) -> None:
    if abs(told - summed) > allowed * Decimal('1.001'):
        raise Wrong(f'{what}: {told}, but its parts sum up to {summed}')
