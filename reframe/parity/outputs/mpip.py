"""mpiP 3.5: how long each rank was inside MPI between MPI_Init and MPI_Finalize, and in which calls.

Set MPIP="-k 0 -e" for a report with all calls, all ranks and fixed decimals. mpiP prints a time many
times over, each rounded: as a mean, as a share of the rank's run time, as a share of its MPI time. A
report is believed when times exist that round to all of them, of every call and rank, and that sum up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import NamedTuple

from . import Incomplete, Wrong, mpip_text
from .mpip_text import BYTES, CALLSITES, OPTIONS, TASKS, TIME, TOP_TIME, Report
from .printed import duration, positive, whole

_TOP = 20                          # rows that mpiP prints of each aggregate
_HALF_SECOND_DIGIT = 0.0005        # half the last digit of times: ms in the first table, us elsewhere
_HALF_PERCENT_DIGIT = 0.005
_RANK = re.compile(r'\d{1,9}|\*', re.ASCII)

_Key = tuple[str, int]             # call and site; with -k 0 there is one site a call


class Span(NamedTuple):
    """Where a time (ms) can be that was rounded."""

    low: float
    high: float

    def middle(self) -> float:
        return (self.low + self.high) / 2


@dataclass(frozen=True)
class _Task:
    """App time and MPI time (s) of a rank, or of all."""

    app: Decimal
    mpi: Decimal


@dataclass(frozen=True)
class _Time:
    """What a rank, or all ranks, spent in the calls of a site."""

    count: int
    most: Decimal
    least: Decimal
    span: Span


@dataclass(frozen=True)
class _Profile:
    report: Report
    tasks: list[_Task]
    share: Decimal
    times: dict[_Key, dict[str, _Time]]
    bytes: dict[str, dict[_Key, int]]


def parse(text: str) -> dict[str, float]:
    """app_, mpi_ and computation_seconds_max and _mean over ranks (s), mpi_share (%), imbalance.

    App time is that between MPI_Init and MPI_Finalize, computation what of it is outside MPI, mpi_share
    the MPI time of all ranks over their App time, imbalance the longest computation over the mean (1:
    even). Times have a resolution of 1 ms. Raises Incomplete, with the line, for a report that is cut or
    limited by an option of mpiP, Wrong when figures contradict each other.
    """
    profile = _profile(text)
    seconds = {'app': [task.app for task in profile.tasks], 'mpi': [task.mpi for task in profile.tasks],
               'computation': [task.app - task.mpi for task in profile.tasks]}
    found = {f'{name}_seconds_{how}': float(of(values)) for name, values in seconds.items()
             for how, of in (('max', max), ('mean', _mean))}
    return {**found, 'mpi_share': float(profile.share), 'imbalance': _imbalance(seconds['computation'])}


def facts(text: str) -> dict[str, object]:
    """version, command, tasks, nodes (names), ranks and calls; raises as ``parse`` does.

    ``ranks``: rank, node, app_seconds, mpi_seconds, computation_seconds of each. ``calls``, longest
    first: call, seconds and count over all ranks; max_seconds and mean_seconds over ranks, imbalance
    (max over mean); bytes (sent), io_bytes, rma_bytes, None where mpiP counts none: it counts nothing of
    calls with a count for each rank, such as Alltoallv. Seconds of a rank are the middle of what the
    rounded figures allow.
    """
    profile = _profile(text)
    header, nodes = profile.report.header, profile.report.nodes
    ranks = [{'rank': rank, 'node': node, 'app_seconds': float(task.app), 'mpi_seconds': float(task.mpi),
              'computation_seconds': float(task.app - task.mpi)}
             for rank, (node, task) in enumerate(zip(nodes, profile.tasks, strict=True))]
    names = dict.fromkeys(call for call, _ in profile.times)
    calls = sorted((_call(profile, name) for name in names), key=lambda call: -call['seconds'])
    return {'version': header['Version'], 'command': header['Command'], 'tasks': float(len(nodes)),
            'nodes': list(dict.fromkeys(nodes)), 'ranks': ranks, 'calls': calls}


def _call(profile: _Profile, name: str) -> dict[str, str | float | None]:
    """One MPI call over all its sites."""
    sites = {key: rows for key, rows in profile.times.items() if key[0] == name}
    by_rank = [0.0] * len(profile.tasks)
    for rows in sites.values():
        for rank, time in rows.items():
            if rank != '*':
                by_rank[int(rank)] += time.span.middle() / 1000
    seconds = sum(rows['*'].span.middle() for rows in sites.values()) / 1000
    mean = seconds / len(by_rank)
    longest = max(mean, *by_rank)
    sums = {what: [of_kind[key] for key in sites if key in of_kind] for what, of_kind in profile.bytes.items()}
    count = sum(rows['*'].count for rows in sites.values())
    return {'call': name, 'seconds': round(seconds, 6), 'count': float(count),
            'max_seconds': round(longest, 6), 'mean_seconds': round(mean, 6),
            'imbalance': round(longest / mean, 4) if mean else 1.0,
            **{what: float(sum(values)) if values else None for what, values in sums.items()}}


def _mean(values: list[Decimal]) -> Decimal:
    return sum(values) / len(values)


def _imbalance(values: list[Decimal]) -> float:
    """The longest over the mean; where none of the times can be told from zero they are even."""
    return float(max(values) / _mean(values)) if any(values) else 1.0


def _profile(text: str) -> _Profile:
    report = mpip_text.read(text)
    if not re.fullmatch(r'3\.\d+\.\d+', report.header['Version'], re.ASCII):
        raise Wrong(f'mpiP {report.header["Version"][:40]!r}: reports of mpiP 3 are read')
    if whole(report.header['Collector Rank'], 'Collector Rank') >= len(report.nodes):
        raise Wrong(f'rank {report.header["Collector Rank"]} of {len(report.nodes)} collected the report')
    tasks, total, share = _tasks(report)
    times = _times(report, tasks, total)
    _callsites(report, times)
    times = _top_times(report, times, total)
    sent = {what: _bytes(report, times, *titles) for what, titles in BYTES.items()}
    return _Profile(report, tasks, share, times, sent)


def _tasks(report: Report) -> tuple[list[_Task], _Task, Decimal]:
    """(App and MPI time of each rank, of all, share of all in %)."""
    rows = report.rows(TASKS, (4,))
    if not any(re.fullmatch(r'\d+\.\d{3}', row[1]) for row in rows):
        raise Incomplete(f'line {report.sections[TASKS].line}: the times have 3 digits only; set MPIP="{OPTIONS}"')
    names = [row[0] for row in rows]
    if names != [*map(str, range(len(report.nodes))), '*']:
        raise Wrong(f'times of ranks {" ".join(names)[:80]}: {len(report.nodes)} ranks and all (*) were expected')
    *tasks, total = [_task(*row) for row in rows]
    for what in ('app', 'mpi'):
        summed, said = sum(getattr(task, what) for task in tasks), getattr(total, what)
        if abs(summed - said) > Decimal('0.0005') * (len(tasks) + 1):
            raise Wrong(f'the {what} times of {len(tasks)} ranks sum up to {summed} s, not {said} s')
    return tasks, total, duration(rows[-1][3], 'MPI% of all ranks', places=2)


def _task(rank: str, app: str, mpi: str, share: str) -> _Task:
    what = 'all ranks' if rank == '*' else f'rank {rank}'
    task = _Task(positive(app, f'App time of {what}', places=3), duration(mpi, f'MPI time of {what}', places=3))
    if task.mpi > task.app:
        raise Wrong(f'{what}: {mpi} s in MPI of {app} s')
    _common(f'{what}: {mpi} s in MPI of {app} s, MPI% {share}', _span(1000 * task.mpi, 1000 * _HALF_SECOND_DIGIT),
            _part(duration(share, f'MPI% of {what}', places=2), task.app))
    return task


def _times(report: Report, tasks: list[_Task], total: _Task) -> dict[_Key, dict[str, _Time]]:
    """The times of each site: of its ranks, and of all ('*'); together they are the MPI time of each rank."""
    groups = _groups(report, TIME, 9, len(tasks))
    rows = sum(len(group) - 1 for group in groups.values())
    section = report.sections[TIME]
    if rows < section.announced:
        raise Incomplete(f'line {section.line}: {rows} of {section.announced} rows are printed; '
                         f'set MPIP="{OPTIONS}", without the threshold -t')
    if rows > section.announced:
        raise Wrong(f'section "{TIME}" announces {section.announced} rows and has {rows}')
    times = {key: {rank: _time(f'{key[0]} of rank {rank}', row, total if rank == '*' else tasks[int(rank)])
                   for rank, row in group.items()} for key, group in groups.items()}
    for key, of_site in times.items():
        _agree(f'{key[0]}, site {key[1]}', of_site)
    for rank, task in [*enumerate(tasks), ('*', total)]:
        spans = [of_site[str(rank)].span for of_site in times.values() if str(rank) in of_site]
        _common(f'MPI time of rank {rank}, {task.mpi} s, and of its calls', _sum(spans),
                _span(1000 * task.mpi, 1000 * _HALF_SECOND_DIGIT))
    return times


def _groups(report: Report, title: str, words: int, ranks: int) -> dict[_Key, dict[str, list[str]]]:
    """Rows by call and site, then by rank: sorted as mpiP sorts them, '*' after the ranks of each site."""
    groups: dict[_Key, dict[str, list[str]]] = {}
    before = ('', 0, 0.0)
    for call, site, rank, *figures in report.rows(title, (words,)):
        if not _RANK.fullmatch(rank) or rank != '*' and int(rank) >= ranks:
            raise Wrong(f'{call[:40]}: rank {rank[:40]!r} in a run of {ranks}')
        key = (call, whole(site, f'site of {call[:40]}'))
        place = (*key, float('inf') if rank == '*' else int(rank))
        if place <= before:
            raise Wrong(f'section "{title}": rank {rank} of {call[:40]}, site {site}, is not where it belongs')
        groups.setdefault(key, {})[rank] = figures
        before = place
    for (call, site), group in groups.items():
        if '*' not in group:
            raise Wrong(f'section "{title}": {call[:40]}, site {site}, has no row * of all ranks')
    return groups


def _time(what: str, row: list[str], of: _Task) -> _Time:
    count = _count(what, row[0])
    most, mean, least = (duration(token, f'{name} time of {what}', places=3)
                         for token, name in zip(row[1:4], ('maximum', 'mean', 'minimum'), strict=True))
    _ordered(what, count, most, mean, least)
    app, mpi = (duration(token, f'share of {what}', places=2) for token in row[4:])
    span = _common(f'{what}: mean {mean} ms of {count} calls, App% {app}, MPI% {mpi}',
                   _span(count * mean, count * _HALF_SECOND_DIGIT), _part(app, of.app), _part(mpi, of.mpi))
    _common(f'{what}: {count} calls of {least} to {most} ms, mean {mean} ms', span, Span(
        float(most + (count - 1) * least) - count * _HALF_SECOND_DIGIT,
        float(least + (count - 1) * most) + count * _HALF_SECOND_DIGIT))
    return _Time(count, most, least, span)


def _agree(what: str, of_site: dict[str, _Time]) -> None:
    """'*' has the calls of all ranks, their maximum and minimum, and their time."""
    total = of_site['*']
    ranks = [time for rank, time in of_site.items() if rank != '*']
    if not ranks:
        raise Wrong(f'{what}: no rank has a row')
    for name, of, said in (('count', sum, total.count), ('most', max, total.most), ('least', min, total.least)):
        found = of(getattr(time, name) for time in ranks)
        if said != found:
            raise Wrong(f'{what}: {name} {said} of all ranks, {found} by their rows')
    _common(f'{what}: the times of its ranks and of all', total.span, _sum(time.span for time in ranks))


def _callsites(report: Report, times: dict[_Key, dict[str, _Time]]) -> None:
    """Without -k 0 there is a list of callsites: it has those that have times."""
    if CALLSITES not in report.sections:
        return
    announced = report.sections[CALLSITES].announced
    rows = [row for row in report.sections[CALLSITES].rows if len(row) > 2 and row[1] == '0']
    listed = {(row[-1], whole(row[0], 'ID of a callsite')) for row in rows}
    if listed != times.keys() or len(rows) != announced:
        raise Wrong(f'{announced} callsites are announced, {len(rows)} listed, {len(times)} have times')


def _top_times(report: Report, times: dict[_Key, dict[str, _Time]], total: _Task) -> dict[_Key, dict[str, _Time]]:
    """The times, those of all ranks with the digits that the list of the longest twenty adds."""
    precise: dict[_Key, Span] = {}
    for call, site, ms, app, mpi, count, *_ in report.rows(TOP_TIME, (6, 7)):
        key = _listed(TOP_TIME, call, site, times, precise)
        of_all = times[key]['*']
        if _count(call, count) != of_all.count:
            raise Wrong(f'{call}, site {site}: {count} calls, {of_all.count} by the rows of its ranks')
        precise[key] = _span(duration(ms, f'time of {call}', places=3), _HALF_SECOND_DIGIT)
        _common(f'{call}, site {site}: {ms} ms, App% {app}, MPI% {mpi}, and the times of its ranks',
                precise[key], of_all.span, _part(duration(app, f'App% of {call}', places=2), total.app),
                _part(duration(mpi, f'MPI% of {call}', places=2), total.mpi))
    absent = {key: of_site['*'].span.low for key, of_site in times.items() if key not in precise}
    _descending(TOP_TIME, [span.high for span in precise.values()], absent)
    return {key: {**of_site, '*': replace(of_site['*'], span=precise.get(key, of_site['*'].span))}
            for key, of_site in times.items()}


def _bytes(report: Report, times: dict[_Key, dict[str, _Time]], top: str, every: str) -> dict[_Key, int]:
    """Bytes of each site that has any, by the rows of its ranks; the list of the largest twenty agrees."""
    if every not in report.sections:
        return {}
    groups = _groups(report, every, 8, len(report.nodes))
    found = {key: _site_bytes(key, group, times) for key, group in groups.items()}
    listed: dict[_Key, int] = {}
    for call, site, count, size, mean, share in report.rows(top, (6,)):
        key = _listed(top, call, site, found, listed)
        what, calls = f'{call}, site {site}', times[key]['*'].count
        listed[key] = _size(f'total of {call}', size, 3)
        if (listed[key], _count(call, count)) != (found[key], calls):
            raise Wrong(f'{what}: {count} calls and {size} bytes, {calls} and {found[key]} by its ranks')
        _near(f'{what}: bytes a call', found[key] / calls, duration(mean, f'mean of {call}', places=3))
        _near(f'{what}: % of bytes', 100 * found[key] / sum(found.values()),
              duration(share, f'% of bytes of {call}', places=2))
    _descending(top, list(listed.values()), {key: size for key, size in found.items() if key not in listed})
    return found


def _site_bytes(key: _Key, group: dict[str, list[str]], times: dict[_Key, dict[str, _Time]]) -> int:
    sums, counts, most, least = {}, {}, {}, {}
    for rank, (calls, high, mean, low, total) in group.items():
        what = f'bytes of {key[0]}, site {key[1]}, rank {rank}'
        counts[rank], sums[rank] = _count(what, calls), _size(what, total, 4)
        most[rank], least[rank] = _size(what, high, 4), _size(what, low, 4)
        average = duration(mean, what, places=4)
        _ordered(what, counts[rank], most[rank], average, least[rank])
        _near(f'{what}: the mean', sums[rank] / counts[rank], average)
        if rank != '*' and (key not in times or rank not in times[key] or times[key][rank].count != counts[rank]):
            raise Wrong(f'{what}: {calls} calls, others by the times')
    of_all = sums.pop('*'), counts.pop('*'), most.pop('*'), least.pop('*')
    if not sums or of_all != (sum(sums.values()), sum(counts.values()), max(most.values()), min(least.values())):
        raise Wrong(f'bytes of {key[0]}, site {key[1]}: the row * is not that of its ranks')
    return of_all[0]


def _listed(title: str, call: str, site: str, known: Iterable[_Key], before: dict[_Key, object]) -> _Key:
    key = (call, whole(site, f'site of {call[:40]}'))
    if key not in known or key in before:
        raise Wrong(f'section "{title}": {call[:40]}, site {site}, {"twice" if key in before else "of no rank"}')
    return key


def _descending(title: str, listed: list[float], absent: dict[_Key, float]) -> None:
    """The largest twenty are listed: others may be absent only below them, or where they are zero."""
    if len(listed) > _TOP or any(after > before for before, after in zip(listed, listed[1:], strict=False)):
        raise Wrong(f'section "{title}" is not the largest {_TOP}, descending')
    bound = listed[-1] if len(listed) == _TOP else 0
    for (call, site), least in absent.items():
        if least > bound:
            raise Wrong(f'section "{title}" lacks {call}, site {site}')


def _ordered(what: str, count: int, most: Decimal | int, mean: Decimal, least: Decimal | int) -> None:
    if not least <= mean <= most or count == 1 and least != most:
        raise Wrong(f'{what}: minimum {least}, mean {mean}, maximum {most} of {count} calls')


def _count(what: str, token: str) -> int:
    count = whole(token, f'count of {what}')
    if not count:
        raise Wrong(f'{what}: 0 calls')
    return count


def _size(what: str, token: str, places: int) -> int:
    size = duration(token, what, places=places)
    if size != int(size):
        raise Wrong(f'{what}: {token[:40]} is no whole number of bytes')
    return int(size)


def _near(what: str, value: float, printed: Decimal) -> None:
    digit = 10.0 ** printed.as_tuple().exponent
    if abs(value - float(printed)) > 0.5 * digit + 1e-9 * value:
        raise Wrong(f'{what}: {printed}, by other figures {value:.6g}')


def _span(value: Decimal | float, half: float) -> Span:
    return Span(float(value) - half, float(value) + half)


def _part(percent: Decimal, seconds: Decimal) -> Span:
    """The time (ms) that is this share of these seconds."""
    share, of = _span(percent, _HALF_PERCENT_DIGIT), _span(1000 * seconds, 1000 * _HALF_SECOND_DIGIT)
    return Span(max(share.low, 0) * max(of.low, 0) / 100, share.high * of.high / 100)


def _sum(spans: Iterable[Span]) -> Span:
    spans = list(spans)
    return Span(sum(max(span.low, 0) for span in spans), sum(span.high for span in spans))


def _common(what: str, *spans: Span) -> Span:
    """What all of the spans allow."""
    low, high = max(0.0, *(span.low for span in spans)), min(span.high for span in spans)
    if low > high + 1e-9 * max(1.0, high):
        raise Wrong(f'{what} contradict each other')
    return Span(low, max(low, high))
