"""fio 2.2 to 3 with --output-format=json: one or several groups of jobs, each with rates and latencies.

Operations, bytes and time make each rate, and the block size makes bytes of operations. Percentiles rise, the mean
lies between them, and the shares of the operations by latency are those that the percentiles have."""

import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, NonNegativeFloat, NonNegativeInt

from parity.base import units
from parity.check import Incomplete, Program, Read, Unread, Wrong, document, model

PROGRAM = Program('fio', title=r'\{(?=\s*(?:\n.*)?"fio version"\s*:\s*"fio-(?P<version>\d[^"\s]*)").*',
                  tried=('3.33', '3.37'))
TEXT = r'^fio-\d[\w.-]*$|^Starting \d+ (process|thread)|^.{0,80}: \(groupid=\d+, jobs=\d+\): err='

#: What is kept of a group's options, its own and those of all. A figure depends on them: none stands twice.
OPTIONS = ('rw', 'bs', 'numjobs', 'size', 'direct', 'ioengine', 'iodepth', 'time_based', 'runtime')
WAYS = {'read': ['read'], 'write': ['write'], 'rw': ['read', 'write'], 'readwrite': ['read', 'write']}
PERCENTILES = ('p50', 'p95', 'p99', 'p999')
#: With these a group has blocks of several sizes.
SEVERAL_SIZES = ('bsrange', 'bssplit', 'bs_unaligned', 'zonemode')
DEFAULT_BLOCK = '4k'
_BIN = 0.02         # fio counts latencies in bins: a percentile is true to 1/64
_LEAST = 0.01       # %: fio prints smaller shares as this
_EXACT = 1e-6
_CLOCK = 60_000     # ms by which the system's clock may be set while fio runs
_UNITS = (('latency_ns', 1.0), ('latency_us', 1e3), ('latency_ms', 1e6))


@dataclass(frozen=True)
class Precision:
    """The rounding of a version of fio: by so much may its figures differ from what the others make."""

    bytes: int          # of a group
    bandwidth: float    # bytes/s
    iops: float
    share: float        # of the operations of a group


PRECISION = Precision(bytes=0, bandwidth=1, iops=1e-5, share=0.5e-8)
#: fio 2 prints KiB, and two decimals.
OLD_PRECISION = Precision(bytes=1023, bandwidth=2048, iops=0.006, share=0.5e-4)


class _Percentiles(BaseModel, strict=True, defer_build=True, extra='allow'):
    __pydantic_extra__: dict[str, NonNegativeFloat]
    p50: NonNegativeFloat = Field(alias='50.000000')
    p95: NonNegativeFloat = Field(alias='95.000000')
    p99: NonNegativeFloat = Field(alias='99.000000')
    p999: NonNegativeFloat = Field(alias='99.900000')


class _Latency(BaseModel, strict=True, defer_build=True):
    """Latency from submission to completion (ns); percentiles come from fio's histogram."""

    min: NonNegativeFloat
    mean: NonNegativeFloat
    max: NonNegativeFloat
    N: NonNegativeInt | None = None         # fio 2 and the older fio 3 do not tell
    percentile: _Percentiles

    def quantiles(self) -> list[tuple[float, float]]:
        """Shares of the operations, in order, and the latency that these have at most."""
        printed = self.percentile.model_dump(by_alias=True)
        shares = sorted(name for name in printed if re.fullmatch(r'\d\d?\.\d{6}', name, re.ASCII))
        points = [(float(name) / 100, printed[name]) for name in shares]
        return [(0, self.min), *sorted(points), (1, self.max)]


class _Whole(BaseModel, strict=True, defer_build=True):
    """Latency with the time to submit; without operations where it was not asked for."""

    mean: NonNegativeFloat
    N: NonNegativeInt | None = None


class _Direction(BaseModel, strict=True, defer_build=True):
    """All reads of a group, or all writes."""

    total_ios: NonNegativeInt
    io_bytes: NonNegativeInt
    runtime: NonNegativeInt                 # ms
    bw_bytes: NonNegativeFloat              # 1/s
    iops: NonNegativeFloat
    short_ios: Literal[0]
    drop_ios: Literal[0]
    clat_ns: _Latency
    lat_ns: _Whole


def _none_if_idle(direction: Any) -> Any:
    """Return None for a direction without an operation: its latencies are none."""
    if isinstance(direction, dict) and direction.get('total_ios') == 0:
        return None
    return direction


def _no_error(error: int) -> int:
    if error:
        raise ValueError(os.strerror(error))
    return error


_IfDone = Annotated[_Direction | None, BeforeValidator(_none_if_idle)]
#: Share (%) of the operations of a group with a latency below each, from the next smaller one on.
_Shares = dict[Annotated[str, Field(pattern='^(>=)?[0-9]{1,4}$')], NonNegativeFloat]


class _Group(BaseModel, strict=True, defer_build=True):
    """A group of jobs. The options are None where fio does not print them: before 2.3."""

    error: Annotated[NonNegativeInt, AfterValidator(_no_error)]
    total_err: Literal[0] = 0
    jobname: str
    groupid: NonNegativeInt
    options: dict[str, str] | None = Field(alias='job options')
    read: _IfDone
    write: _IfDone
    elapsed: NonNegativeInt                 # s
    job_start: NonNegativeInt | None = None     # ms; the older fio 3 do not tell
    latency_ns: _Shares
    latency_us: _Shares
    latency_ms: _Shares


class _Document(BaseModel, strict=True, defer_build=True):
    ended: NonNegativeInt = Field(alias='timestamp_ms')
    options: dict[str, str] = Field(alias='global options', default={})
    jobs: list[_Group]


def read(text: str) -> Read:
    """<group>_<read|write>_rate in MiB/s and _iops, then _mean, _p50, _p95, _p99, _p999 of the latency in us.
    Facts: version; groups: the options of each as they were given."""
    _refuse_text(text)
    out = PROGRAM.output(text, fold=False)
    interrupted = re.search(r'^fio: terminating on signal \d+', text, re.MULTILINE)
    values = document(_without_twins(out.text))
    if interrupted:
        raise Incomplete(interrupted[0])            # its document is whole, and the exit code may be 0
    _refuse_kinds(values)
    precision = PRECISION
    if out.numbers < (2, 2):
        raise Unread(f'fio {out.version}: 2.2 and later are read')
    if out.numbers < (2, 99):
        precision = OLD_PRECISION
        values = _in_nanoseconds(values)
    run = model(_Document, values)
    metrics: dict[str, float] = {}
    groups: dict[str, dict[str, str]] = {}
    last = -1
    for group in run.jobs:
        if group.jobname in groups:
            raise Wrong(f'two groups are called {group.jobname[:40]!r}: jobs of one need group_reporting')
        if group.groupid - last not in (0, 1):
            raise Incomplete(f'{group.jobname} is of group {group.groupid}: one before it is absent')
        last = group.groupid
        _demand_began(group, run.ended)
        options = run.options | (group.options or {})
        groups[group.jobname] = {key: options[key] for key in OPTIONS if key in options}
        metrics |= _metrics(group, options, precision)
    if not metrics:
        raise Incomplete('no job is there')
    return metrics, {'version': out.version, **PROGRAM.untried(out.version), 'groups': groups}


def _refuse_text(text: str) -> None:
    """Raise Unread for fio's text, which has fewer digits."""
    if '"fio version"' not in text and re.search(TEXT, text, re.ASCII | re.MULTILINE):
        raise Unread("fio's text: run it with --output-format=json")


def _refuse_kinds(values: dict[str, Any]) -> None:
    """Raise Unread for documents that have other figures."""
    if 'client_stats' in values:
        raise Unread('fio of several clients (--client): a run of one fio is read')
    for job in _jobs(values):
        if 'mixed' in job:
            raise Unread('reads and writes in one figure (unified_rw_reporting): each for itself is read')
        for way in ('read', 'write'):
            latency = _part(job, way, 'clat_ns') or _part(job, way, 'clat')
            if latency and _part(job, way).get('total_ios') and 'percentile' not in latency:
                raise Unread(f'{way}: no percentiles of clat (clat_percentiles=0, lat_percentiles or gtod_reduce)')


def _jobs(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the jobs of a document."""
    jobs = values.get('jobs', [])
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        raise Wrong('jobs is no list of objects')
    return jobs


def _part(values: Any, *names: str) -> dict[str, Any]:
    """Return an object within another one; an empty one where it is absent."""
    for name in names:
        values = values.get(name) if isinstance(values, dict) else None
    return values if isinstance(values, dict) else {}


def _without_twins(text: str) -> str:
    """Leave out options that stand twice, such as two file names, but for those that a figure depends on."""
    return re.sub(r'"(?:job|global) options"\s*:\s*\{[^{}]*\}', _without_twin_lines, text)


def _without_twin_lines(options: re.Match[str]) -> str:
    """Keep the last line of each option."""
    kept: list[str] = []
    names: set[str] = set()
    for line in reversed(options[0].split('\n')):
        name = line.partition(':')[0].strip(' "')
        if name in names and name not in OPTIONS:
            continue
        names.add(name)
        kept.append(line)
    return '\n'.join(reversed(kept))


def _in_nanoseconds(values: dict[str, Any]) -> dict[str, Any]:
    """Return a document of fio 2 in the form of fio 3: it has microseconds, KiB and no clock."""
    jobs = []
    for job in _jobs(values):
        job = {'job options': None, 'latency_ns': {}, **job}
        for way in ('read', 'write'):
            if way in job:
                job[way] = _direction_in_nanoseconds(job[way])
        jobs.append(job)
    return {'timestamp_ms': 0, **values, 'jobs': jobs}


def _direction_in_nanoseconds(direction: Any) -> Any:
    if not isinstance(direction, dict):
        return direction
    renamed = {'clat': 'clat_ns', 'lat': 'lat_ns', 'bw': 'bw_bytes'}
    factors = {'clat': 1000, 'lat': 1000, 'bw': 1024, 'io_bytes': 1024}
    found = {}
    for name, value in direction.items():
        found[renamed.get(name, name)] = _scaled(value, factors.get(name, 1))
    return found


def _scaled(value: Any, factor: int) -> Any:
    """Return a figure, or all of an object, times a factor."""
    if isinstance(value, dict):
        return {name: _scaled(part, factor) for name, part in value.items()}
    if isinstance(value, int | float):
        return value * factor
    return value


def _demand_began(group: _Group, ended: int) -> None:
    """Raise Wrong for a group that did not begin while fio ran."""
    began = group.job_start
    if began and not -_CLOCK < ended - began < 1000 * group.elapsed + _CLOCK:
        raise Wrong(f'{group.jobname} began at {began} ms, not within {group.elapsed} s before {ended} ms')


def _metrics(group: _Group, options: dict[str, str], precision: Precision) -> dict[str, float]:
    """The metrics of a group, by their names."""
    name = group.jobname
    done = {way: getattr(group, way) for way in ('read', 'write') if getattr(group, way)}
    if group.options is not None:
        _demand_asked(name, list(done), options.get('rw', 'read'))
    metrics = {}
    for way, direction in done.items():
        if group.options is not None:
            _demand_bytes(f'{name}: {way}', way, direction, options, precision)
            _demand_time(f'{name}: {way}', direction, options)
        figures = _figures(f'{name}: {way}', direction, precision)
        metrics |= {f'{name}_{way}_{figure}': value for figure, value in figures.items()}
    _demand_shares(name, group, list(done.values()), precision)
    return metrics


def _demand_asked(name: str, done: list[str], rw: str) -> None:
    """Raise unless what was asked for was done: reads, writes or both."""
    wanted = WAYS.get(rw.removeprefix('rand').partition(':')[0])
    if wanted is None:
        raise Unread(f'{name}: rw={rw[:20]} is not read; read are {", ".join(WAYS)}, and rand before each')
    if done == wanted:
        return
    error = Wrong if set(done) - set(wanted) else Incomplete
    raise error(f'{name}: {" and ".join(done) or "nothing"} was done, asked for rw={rw[:20]}')


def _demand_bytes(name: str, way: str, direction: _Direction, options: dict[str, str],
                  precision: Precision) -> None:
    """Raise Wrong unless the operations have as many bytes as were done, where all are of one size."""
    if any(option in options for option in SEVERAL_SIZES):
        return
    sizes = options.get('bs', DEFAULT_BLOCK).split(',')         # of reads, writes and trims
    size = sizes[-1] if way == 'write' and len(sizes) < 2 else sizes[0 if way == 'read' else 1]
    block = _block_bytes(size, options)
    if block is None:
        raise Wrong(f'{name}: bs={size[:20]!r} is no size such as 4k or 1M')
    lacking = direction.total_ios * block - direction.io_bytes
    if not 0 <= lacking <= precision.bytes:
        raise Wrong(f'{name}: {direction.total_ios} operations of bs={size} are not {direction.io_bytes} bytes')


def _block_bytes(size: str, options: dict[str, str]) -> int | None:
    """Return the bytes of a block. fio takes k for 1024 and KiB for 1000, unless kb_base says otherwise."""
    if size.lower().endswith('i'):          # 4Ki is no 4KiB: fio reads its k alone
        size = size[:-1]
    if options.get('kb_base', '1024') == '1000':
        return units.size(size, kilo=1000, kibi=1024)
    return units.size(size, kilo=1024, kibi=1000)


def _demand_time(name: str, direction: _Direction, options: dict[str, str]) -> None:
    """Raise Incomplete for a run that ended before its time."""
    asked = re.fullmatch('([0-9]{1,9})(s|ms)?', options.get('runtime', ''))
    if not asked or options.get('time_based') != '1':
        return
    least = int(asked[1]) * (1 if asked[2] == 'ms' else 1000)
    if direction.runtime < 0.95 * least:
        raise Incomplete(f'{name}: {direction.runtime} ms, asked for {least} ms')


def _figures(name: str, direction: _Direction, precision: Precision) -> dict[str, float]:
    """The metrics of one direction: its time, bytes and operations make its rates."""
    count = direction.total_ios
    seconds = direction.runtime / 1000
    if not seconds:
        raise Wrong(f'{name}: {count} operations in 0 ms')
    bandwidth = direction.io_bytes / seconds
    iops = count / seconds
    _demand_rate(f'{name}: bw_bytes', direction.bw_bytes, bandwidth, precision.bandwidth)
    _demand_rate(f'{name}: iops', direction.iops, iops, precision.iops)
    latency = direction.clat_ns
    if latency.N not in (None, count):
        raise Wrong(f'{name}: latencies of {latency.N} operations, there were {count}')
    _demand_rising(name, latency)
    _demand_mean(name, latency, direction.lat_ns)
    figures = {'rate': bandwidth / (1 << 20), 'iops': iops, 'mean': latency.mean / 1000}
    return figures | {percentile: getattr(latency.percentile, percentile) / 1000 for percentile in PERCENTILES}


def _demand_rate(what: str, rate: float, expected: float, unsure: float) -> None:
    """Raise Wrong unless a rate is what operations, bytes and time make."""
    if abs(rate - expected) > unsure + _EXACT * expected:
        raise Wrong(f'{what} is {rate:g}, {expected:g} by operations, bytes and time')


def _demand_rising(name: str, latency: _Latency) -> None:
    """Raise Wrong unless the latencies rise from the minimum to the maximum."""
    points = [value for _, value in latency.quantiles()]
    ascending = [points[0] * (1 - _BIN), *points[1:-1], points[-1] * (1 + _BIN)]
    between = latency.min <= latency.mean <= latency.max
    if ascending == sorted(ascending) and between and latency.max:
        return
    percentiles = [f'{percentile} {getattr(latency.percentile, percentile):g}' for percentile in PERCENTILES]
    raise Wrong(f'{name}: latencies do not rise: minimum {latency.min:g}, {", ".join(percentiles)}, '
                f'maximum {latency.max:g}, mean {latency.mean:g}')


def _demand_mean(name: str, latency: _Latency, whole: _Whole) -> None:
    """Raise Wrong for a mean that the percentiles do not allow, or that is above the mean of the whole latency."""
    least, most = 0.0, 0.0
    for (share, shortest), (next_share, longest) in pairwise(latency.quantiles()):
        least += (next_share - share) * shortest * (1 - _BIN)
        most += (next_share - share) * longest * (1 + _BIN)
    if whole.N not in (None, 0):
        most = min(most, whole.mean)
    if not least <= latency.mean <= most:
        raise Wrong(f'{name}: mean latency {latency.mean:g}, {least:g} to {most:g} by the other figures')


def _shares(group: _Group) -> Iterator[tuple[float, float]]:
    """Yield latencies (ns), in order, and the share (%) of the operations below each, from the one before on."""
    for name, unit in _UNITS:
        for below, share in getattr(group, name).items():
            yield math.inf if below.startswith('>') else float(below) * unit, share


def _demand_shares(name: str, group: _Group, done: list[_Direction], precision: Precision) -> None:
    """Raise Wrong unless the shares of a group by latency are whole operations, as its percentiles have them."""
    count = sum(direction.total_ios for direction in done)
    slack = 1 + (_EXACT + 30 * precision.share) * count
    unsure = count * precision.share + 1e-3
    least, most = 0.0, 0.0
    for below, share in _shares(group):
        operations = share / 100 * count
        if share != _LEAST and unsure < 0.25 and abs(operations - round(operations)) > unsure:
            raise Wrong(f'{name}: {share:g} % of {count} operations are no whole number')
        if share != _LEAST:
            least += operations
        most += operations
        fewest = sum(direction.total_ios * _least_share(direction.clat_ns, below) for direction in done)
        largest = sum(direction.total_ios * _most_share(direction.clat_ns, below) for direction in done)
        if most < fewest - slack or least > largest + slack:
            raise Wrong(f'{name}: {least:.0f} operations below {below:g} ns, {fewest:.0f} to {largest:.0f} by the '
                        'percentiles')


def _least_share(latency: _Latency, limit: float) -> float:
    """Return the share of the operations that are below the limit at least."""
    below = [share for share, value in latency.quantiles() if value * (1 + _BIN) < limit]
    return max(below, default=0)


def _most_share(latency: _Latency, limit: float) -> float:
    """Return the share of the operations that are below the limit at most."""
    above = [share for share, value in latency.quantiles() if value * (1 - _BIN) >= limit]
    return min(above, default=1)
