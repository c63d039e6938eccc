"""fio 3 with --output-format=json: one or several groups of jobs, each with rates and measured latencies."""

from __future__ import annotations

import os
import re
from typing import Any

from . import Incomplete, Wrong, document
from .document import Object

DIRECTIONS = ('read', 'write')
#: Percentiles of the latency that are read: fio's name of each.
PERCENTILES = {'p50': '50.000000', 'p95': '95.000000', 'p99': '99.000000', 'p999': '99.900000'}
#: What is kept of a group's options, its own and those of all.
_OPTIONS = ('rw', 'bs', 'numjobs', 'size', 'direct', 'ioengine', 'iodepth', 'time_based', 'runtime')
_DIRECTIONS = {'read': ['read'], 'write': ['write'], 'rw': ['read', 'write'], 'readwrite': ['read', 'write']}
_UNITS = {'': 1, 'k': 1 << 10, 'm': 1 << 20, 'g': 1 << 30}
_BIN = 0.02         # fio counts latencies in bins: a percentile is true to 1/64
_EXACT = 1e-6


def parse(text: str) -> dict[str, float]:
    """<group>_<read|write>_rate in MiB/s and _iops, then _mean, _p50, _p95, _p99, _p999 of the latency in us.

    The latency is that from submission to completion (clat), as fio measured it; a percentile is of its
    histogram. Raises Incomplete with the line or key where something is missing, Wrong for an error that
    fio counted, short or dropped operations, or figures that contradict each other.
    """
    return {f'{name}_{direction}_{figure}': value for name, group in _groups(text).items()
            for direction, figures in _figures(name, group).items() for figure, value in figures.items()}


def facts(text: str) -> dict[str, Any]:
    """version; groups: the options of each as they were given. Raises as ``parse`` does."""
    parse(text)
    whole = document.only(text)
    return {'version': whole.text('fio version').removeprefix('fio-'),
            'groups': {name: group[1] for name, group in _groups(text).items()}}


def _groups(text: str) -> dict[str, tuple[Object, dict[str, str]]]:
    """The groups by name, each with its options."""
    whole = document.only(text)
    if ended := re.search(r'^fio: terminating on signal \d+', text, re.MULTILINE):
        raise Incomplete(ended[0])                  # its document is whole, and the exit code may be 0
    if not re.match(r'fio-3\.\d', whole.text('fio version')):
        raise Wrong(f'{whole.text("fio version")[:40]!r} is not read; valid is fio 3')
    common = whole.object('global options') if 'global options' in whole else Object({})
    found: dict[str, tuple[Object, dict[str, str]]] = {}
    last = 0
    for each in whole.objects('jobs'):
        name = each.text('jobname')
        if name in found:
            raise Wrong(f'two groups are called {name[:40]!r}: jobs of one need group_reporting')
        if each.count('groupid') not in (last, last + 1):
            raise Incomplete(f'{name} is of group {each.count("groupid")}, the one before of {last}')
        last = each.count('groupid')
        own = each.object('job options')
        found[name] = each, {key: options.text(key) for key in _OPTIONS
                             for options in (own if key in own else common,) if key in options}
    if not found:
        raise Incomplete('no job is there')
    return found


def _figures(name: str, group: tuple[Object, dict[str, str]]) -> dict[str, dict[str, float]]:
    job, options = group
    if code := job.count('error'):
        raise Wrong(f'{name}: error {code}: {os.strerror(code)}')
    if 'total_err' in job and job.count('total_err'):
        raise Wrong(f'{name}: {job.count("total_err")} errors')
    wanted = _wanted(name, options.get('rw', 'read'))
    done = [each for each in DIRECTIONS if job.object(each).count('total_ios')]
    if done != wanted:
        raise (Wrong if set(done) - set(wanted) else Incomplete)(
            f'{name}: {" and ".join(done) or "nothing"} was done, asked for {" and ".join(wanted)}')
    return {each: _direction(name, job.object(each), options) for each in done}


def _wanted(name: str, rw: str) -> list[str]:
    """The directions of fio's option rw, for instance randrw."""
    found = _DIRECTIONS.get(rw.removeprefix('rand').partition(':')[0])
    if found is None:
        raise Wrong(f'{name}: rw={rw[:20]} is not read; valid are {", ".join(_DIRECTIONS)}, and these with rand')
    return found


def _direction(name: str, told: Object, options: dict[str, str]) -> dict[str, float]:
    count, size, milliseconds = (told.count(key) for key in ('total_ios', 'io_bytes', 'runtime'))
    for key in ('short_ios', 'drop_ios'):
        if told.count(key):
            raise Wrong(f'{told.named(key)} is {told.count(key)}')
    block = _bytes(options.get('bs', ''))
    if block and size != count * block:
        raise Wrong(f'{name}: {count} operations of {block} bytes are not {size} bytes')
    asked = re.fullmatch(r'(\d{1,9})(|s|ms)', options.get('runtime', ''), re.ASCII)
    least = int(asked[1]) * (1 if asked[2] == 'ms' else 1000) if asked and options.get('time_based') == '1' else 0
    if milliseconds < 0.95 * least:
        raise Incomplete(f'{told.named("runtime")} is {milliseconds} ms, asked for {least} ms')
    _near(told, 'bw_bytes', 1000 * size / milliseconds, 1)
    _near(told, 'iops', 1000 * count / milliseconds, 1e-5)
    return {'rate': 1000 * size / milliseconds / (1 << 20), 'iops': 1000 * count / milliseconds,
            **_latency(told.object('clat_ns'), count)}


def _latency(told: Object, count: int) -> dict[str, float]:
    """us; the histogram and the mean are of all operations."""
    if 'N' in told and told.count('N') != count:
        raise Wrong(f'{told.named("N")} is {told.count("N")}, there were {count} operations')
    least, mean, most = (told.figure(key) for key in ('min', 'mean', 'max'))
    percentiles = [told.object('percentile').figure(name) for name in PERCENTILES.values()]
    ascending = [least * (1 - _BIN), *percentiles, most * (1 + _BIN)]
    if ascending != sorted(ascending) or not least <= mean <= most or not most:
        raise Wrong(f'{told.named("percentile")}: minimum {least:g}, {", ".join(f"{p:g}" for p in percentiles)}, '
                    f'maximum {most:g}, mean {mean:g}')
    return {'mean': mean / 1000,
            **{name: value / 1000 for name, value in zip(PERCENTILES, percentiles, strict=True)}}


def _bytes(size: str) -> int | None:
    """A block size as fio reads it; None for a range, or one for each direction."""
    match = re.fullmatch(r'(\d{1,12})([kmg]?)(?:i?b)?', size.lower())
    return int(match[1]) * _UNITS[match[2]] if match else None


def _near(told: Object, key: str, expected: float, near: float) -> None:
    if abs(told.figure(key) - expected) > near + _EXACT * expected:
        raise Wrong(f'{told.named(key)} is {told.figure(key):g}, {expected:g} by what it is made of')
