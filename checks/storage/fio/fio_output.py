"""fio 3 with --output-format=json: one or several groups of jobs, each with rates and measured latencies."""

import math
import os
import re
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, NonNegativeFloat, NonNegativeInt

from parity.base import units
from parity.check import Incomplete, Read, Wrong, document, model

#: What is kept of a group's options, its own and those of all.
_OPTIONS = ('rw', 'bs', 'numjobs', 'size', 'direct', 'ioengine', 'iodepth', 'time_based', 'runtime')
_WANTED = {'read': ['read'], 'write': ['write'], 'rw': ['read', 'write'], 'readwrite': ['read', 'write']}
_BIN = 0.02         # fio counts latencies in bins: a percentile is true to 1/64
_LEAST = 0.01       # %: fio prints smaller shares as this
_EXACT = 1e-6
_CLOCK = 60_000     # ms by which the system's clock may be set while fio runs


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
    N: NonNegativeInt | None = None         # the older fio 3 do not tell
    percentile: _Percentiles

    def quantiles(self) -> list[tuple[float, float]]:
        """Shares of the operations, in order, and the latency that these have at most."""
        told = {float(name): value for name, value in self.percentile.model_dump(by_alias=True).items()
                if re.fullmatch(r'\d\d?\.\d{6}', name, re.ASCII)}
        return [(0, self.min), *((name / 100, told[name]) for name in sorted(told)), (1, self.max)]


class _Whole(BaseModel, strict=True, defer_build=True):
    """Latency with the time to submit; without operations where it was not asked for."""

    mean: NonNegativeFloat
    N: NonNegativeInt | None = None


class _Direction(BaseModel, strict=True, defer_build=True):
    total_ios: NonNegativeInt
    io_bytes: NonNegativeInt
    runtime: NonNegativeInt                 # ms
    bw_bytes: NonNegativeFloat              # 1/s
    iops: NonNegativeFloat
    short_ios: Literal[0]
    drop_ios: Literal[0]
    clat_ns: _Latency
    lat_ns: _Whole


_IfDone = Annotated[_Direction | None, BeforeValidator(
    lambda told: None if isinstance(told, dict) and told.get('total_ios') == 0 else told)]


#: Share (%) of the operations of a group with a latency below each, from the next smaller one on.
_Shares = dict[Annotated[str, Field(pattern='^(>=)?[0-9]{1,4}$')], NonNegativeFloat]


def _none(error: int) -> int:
    if error:
        raise ValueError(os.strerror(error))
    return error


class _Group(BaseModel, strict=True, defer_build=True):
    error: Annotated[NonNegativeInt, AfterValidator(_none)]
    total_err: Literal[0] = 0
    jobname: str
    groupid: NonNegativeInt
    options: dict[str, str] = Field(alias='job options')
    read: _IfDone
    write: _IfDone
    elapsed: NonNegativeInt                 # s
    job_start: NonNegativeInt | None = None     # ms; the older fio 3 do not tell
    latency_ns: _Shares
    latency_us: _Shares
    latency_ms: _Shares


class _Document(BaseModel, strict=True, defer_build=True):
    version: str = Field(alias='fio version', pattern=r'^fio-3\.\d')
    ended: NonNegativeInt = Field(alias='timestamp_ms')
    options: dict[str, str] = Field(alias='global options', default={})
    jobs: list[_Group]


def read(text: str) -> Read:
    """<group>_<read|write>_rate in MiB/s and _iops, then _mean, _p50, _p95, _p99, _p999 of the latency in us.
    Facts: version; groups: the options of each as they were given."""
    values = document(text)
    if ended := re.search(r'^fio: terminating on signal \d+', text, re.MULTILINE):
        raise Incomplete(ended[0])                  # its document is whole, and the exit code may be 0
    told = model(_Document, values)
    last, metrics = -1, {}
    groups: dict[str, dict[str, str]] = {}
    for group in told.jobs:
        name, options = group.jobname, told.options | group.options
        if name in groups:
            raise Wrong(f'two groups are called {name[:40]!r}: jobs of one need group_reporting')
        groups[name] = {key: options[key] for key in _OPTIONS if key in options}
        if group.groupid - last not in (0, 1):
            raise Incomplete(f'{name} is of group {group.groupid}: one before it is absent')
        last = group.groupid
        done = {way: found for way in ('read', 'write') if (found := getattr(group, way))}
        asked = options.get('rw', 'read')
        wanted = _WANTED.get(asked.removeprefix('rand').partition(':')[0], [])
        if list(done) != wanted:
            raise (Wrong if set(done) - set(wanted) else Incomplete)(
                f'{name}: {" and ".join(done) or "nothing"} was done, asked for rw={asked[:20]}')
        if (began := group.job_start) and not -_CLOCK < told.ended - began < 1000 * group.elapsed + _CLOCK:
            raise Wrong(f'{name} began at {began} ms, not within {group.elapsed} s before {told.ended} ms')
        for way, found in done.items():
            metrics |= {f'{name}_{way}_{figure}': value
                        for figure, value in _figures(f'{name}: {way}', found, options).items()}
        _counted(name, group, done)
    if not metrics:
        raise Incomplete('no job is there')
    return metrics, {'version': told.version.removeprefix('fio-'), 'groups': groups}


def _figures(name: str, told: _Direction, options: dict[str, str]) -> dict[str, float]:
    """The metrics of one direction: its time, bytes and operations make its rates, and are what was asked for."""
    count, size, latency = told.total_ios, told.io_bytes, told.clat_ns
    block = _block_bytes(options)
    if block and size != count * block:
        raise Wrong(f'{name}: {count} operations of bs={options["bs"][:40]} are not {size} bytes')
    asked = re.fullmatch('([0-9]{1,9})(s|ms)?', options.get('runtime', ''))
    least = int(asked[1]) * (1 if asked[2] == 'ms' else 1000) if asked and options.get('time_based') == '1' else 1
    if told.runtime < 0.95 * least:
        raise Incomplete(f'{name}: {told.runtime} ms, asked for {least} ms')
    bytes_per_second, iops = 1000 * size / told.runtime, 1000 * count / told.runtime
    for what, rate, expected, near in (('bw_bytes', told.bw_bytes, bytes_per_second, 1),
                                       ('iops', told.iops, iops, 1e-5)):
        if abs(rate - expected) > near + _EXACT * expected:
            raise Wrong(f'{name}: {what} is {rate:g}, {expected:g} by operations, bytes and time')
    if latency.N not in (None, count):
        raise Wrong(f'{name}: latencies of {latency.N} operations, there were {count}')
    percentiles = {name: getattr(latency.percentile, name) for name in ('p50', 'p95', 'p99', 'p999')}
    points = [value for _, value in latency.quantiles()]
    ascending = [points[0] * (1 - _BIN), *points[1:-1], points[-1] * (1 + _BIN)]
    if ascending != sorted(ascending) or not latency.min <= latency.mean <= latency.max or not latency.max:
        raise Wrong(f'{name}: latencies do not rise: minimum {latency.min:g}, '
                    f'{", ".join(f"{figure} {value:g}" for figure, value in percentiles.items())}, '
                    f'maximum {latency.max:g}, mean {latency.mean:g}')
    _mean(name, latency, told.lat_ns)
    return {'rate': bytes_per_second / (1 << 20), 'iops': iops, 'mean': latency.mean / 1000,
            **{figure: value / 1000 for figure, value in percentiles.items()}}


def _block_bytes(options: dict[str, str]) -> int | None:
    """Return the size of a block; None for several, such as a range.

    By default fio counts k and KB in 1024, and KiB in 1000. With kb_base=1000 it is the other way round."""
    as_others = options.get('kb_base') == '1000'
    kilo, kibi = (1000, 1024) if as_others else (1024, 1000)
    block = options.get('bs', '')
    if block.lower().endswith('i'):         # 4Ki is no 4KiB: fio reads its k alone
        block = block[:-1]
    return units.size(block, kilo, kibi)


def _mean(name: str, latency: _Latency, whole: _Whole) -> None:
    """Raise Wrong for a mean that the percentiles do not allow, or that is above the mean of the whole latency."""
    steps = list(pairwise(latency.quantiles()))
    least = sum((to[0] - at[0]) * at[1] for at, to in steps) * (1 - _BIN)
    most = sum((to[0] - at[0]) * to[1] for at, to in steps) * (1 + _BIN)
    if whole.N not in (None, 0):
        most = min(most, whole.mean)
    if not least <= latency.mean <= most:
        raise Wrong(f'{name}: mean latency {latency.mean:g}, {least:g} to {most:g} by the other figures')


def _counted(name: str, group: _Group, done: dict[str, _Direction]) -> None:
    """Raise Wrong unless the shares of a group by latency are whole operations, as its percentiles have them."""
    count = sum(each.total_ios for each in done.values())
    shares = [(float(below) * unit if below[0] != '>' else math.inf, share)
              for told, unit in ((group.latency_ns, 1), (group.latency_us, 1e3), (group.latency_ms, 1e6))
              for below, share in told.items()]
    least, most = 0.0, 0.0
    for below, share in shares:
        operations = share / 100 * count
        near = count * 0.5e-8 + 1e-3
        if share != _LEAST and near < 0.25 and abs(operations - round(operations)) > near:
            raise Wrong(f'{name}: {share:g} % of {count} operations are no whole number')
        least, most = least + (0 if share == _LEAST else operations), most + operations
        fewest, largest = (sum(each.total_ios * _below(each.clat_ns, below, bound) for each in done.values())
                           for bound in (_BIN, -_BIN))
        if not fewest - 1 - _EXACT * count <= most or not least <= largest + 1 + _EXACT * count:
            raise Wrong(f'{name}: {least:.0f} operations below {below:g} ns, {fewest:.0f} to {largest:.0f} by the '
                        'percentiles')


def _below(latency: _Latency, limit: float, near: float) -> float:
    """Return the least share of operations below the limit, in bins of this width: the largest if negative."""
    points = [(share, value * (1 + near)) for share, value in latency.quantiles()]
    if near > 0:
        return max((share for share, value in points if value < limit), default=0)
    return min((share for share, value in points if value >= limit), default=1)
