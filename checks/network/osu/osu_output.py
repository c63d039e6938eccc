"""OSU Micro-Benchmarks 7 (Panda et al., Ohio State): point to point and collectives, as the checks ask for them.
Latencies and bandwidths stand alone: an altered digit is not noticed. A table without a
row or with a cut one is. So is a bandwidth of mbw_mr that is not the message rate times the size."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

from parity.check import Incomplete, Lines, Read, Sweep, Wrong, by_pair, half, number, table

# Title of a benchmark -> its name, the heading of its figures.
_LATENCY, _BANDWIDTH, _RATES = 'Avg Latency(us)', 'Bandwidth (MB/s)', 'MB/s Messages/s'
_BENCHMARKS = {
    'Latency Test': ('latency', _LATENCY),
    'Bandwidth Test': ('bw', _BANDWIDTH),
    'Bi-Directional Bandwidth Test': ('bibw', _BANDWIDTH),
    'Multiple Bandwidth / Message Rate Test': ('mbw_mr', _RATES),
    'Allreduce Latency Test': ('allreduce', _LATENCY),
    'All-to-All Personalized Exchange Latency Test': ('alltoall', _LATENCY),
    'Broadcast Latency Test': ('bcast', _LATENCY),
    'Barrier Latency Test': ('barrier', _LATENCY),
}
_TITLE = r'# OSU MPI(\S*) (.+ Test) v(\d[\d.]*)'
_ROW, _WIDTH = r'(\d+) +(\d+\.\d\d)', 28
_RATES_ROW, _RATES_WIDTH = rf'{_ROW} +(\d+\.\d\d)', 46
_SMALL = 8                                                   # bytes; of fewer, 0.00 MB/s is a slow network


def read(text: str, max_size: int | None = None, min_size: int = 1, devices: Sequence[str] = ()) -> Read:
    """<benchmark>_<size> of every message size (bytes): mean latency in us, or MB/s (10^6 bytes).

    mbw_mr has message_rate_<size> (1/s), too; barrier has ``barrier`` (us) and no sizes. A bandwidth of messages
    below 8 B may be 0: OSU prints two decimals. ``max_size`` and ``min_size`` are the last and the first size that
    were asked for; barrier has none. ``devices`` are the runtimes that may hold the buffers, cuda or
    rocm; none: the host's memory holds them.

    Facts: benchmark and version; device, the runtime; first_size and last_size (bytes) but for barrier; pairs and
    window of mbw_mr."""
    out = Lines(text, fold=False)
    out.refuse('^(DATA VALIDATION ERROR|This test requires|Invalid option)')
    device, title, version = _title(out, devices)
    name, heading = _BENCHMARKS[title]
    ran: dict[str, int | str] = {'benchmark': name, 'version': version, **({'device': device} if device else {})}
    if name == 'barrier':
        out.one('# ' + re.escape(heading), heading)
        return {'barrier': float(out.figure(r'(?=.{17}$) +(\d+\.\d\d)'))}, ran
    rates = name == 'mbw_mr'
    row, width = (_RATES_ROW, _RATES_WIDTH) if rates else (_ROW, _WIDTH)
    rows = table(out, f'# Size {heading}', row, width, max_size, min_size)
    ran |= {'first_size': min(rows), 'last_size': max(rows)}
    figures = {size: number(row[2], f'{size} B', zero=heading != _LATENCY and size < _SMALL)
               for size, row in rows.items()}
    values = {f'{name}_{size}': float(figure) for size, figure in figures.items()}
    if rates:
        values |= {f'message_rate_{size}': _rate(row[3], size, figures[size]) for size, row in rows.items()}
        ran |= {'pairs': out.count(r'# \[ pairs: (\S+) \] .*'),
                'window': out.count(r'# .* \[ window size: (\S+) \]')}
    return values, ran


def _title(out: Lines, devices: Sequence[str]) -> tuple[str, str, str]:
    """The runtime that holds the buffers, the title, OSU's version; osu_mbw_mr of 7.0 to 7.3 repeats its title."""
    titles = {match.groups() for match in out.every(_TITLE)}
    if not titles:
        raise Incomplete(f'line {out.end}: the output ends without "# OSU MPI ... Test v..."')
    (accelerator, title, version), *more = titles
    if more:
        raise Wrong(f'{len(titles)} benchmarks in one output')
    valid = {f'-{device.upper()}': device for device in devices} or {'': ''}
    if accelerator not in valid or title not in _BENCHMARKS:
        memory = f'devices ({", ".join(devices)})' if devices else 'the host'
        raise Wrong(f'"{title[:80]}" of OSU MPI{accelerator[:20]} is not read; read are, with buffers in the '
                    f'memory of {memory}: {", ".join(name for name, _ in _BENCHMARKS.values())}')
    return valid[accelerator], title, version


def _rate(token: str, size: int, bandwidth: Decimal) -> float:
    """Messages/s, which OSU makes of the bandwidth: both are the same within their last digits."""
    rate = number(token, f'messages/s of {size} B')
    if abs(float(bandwidth) - float(rate) * size / 1e6) > (half(bandwidth) + half(rate) * size / 1e6) * (1 + 1e-6):
        raise Wrong(f'{size} B: {bandwidth} MB/s are not {rate} messages/s')
    return float(rate)


def read_pairs(text: str, size: int) -> Sweep:
    """Read one benchmark between all pairs of nodes at messages of ``size`` bytes, the last of every table."""
    own = {pair: read(each, size, size) for pair, each in by_pair(text).items()}
    benchmarks = {facts['benchmark'] for _, facts in own.values()}
    if len(benchmarks) != 1:
        raise Wrong('the pairs ran different benchmarks')
    benchmark, = benchmarks
    return Sweep({pair: figures[f'{benchmark}_{size}'] for pair, (figures, _) in own.items()},
                 benchmark == 'latency')
