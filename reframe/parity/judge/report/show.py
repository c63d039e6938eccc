"""`parity show`: what is stored of a cell, as data and as lines of text, and the line that reruns it."""

from __future__ import annotations

import argparse
import math
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from itertools import chain, islice
from pathlib import Path
from typing import Any

import polars as pl

from parity.base import figures, paths, times
from parity.base.console import Line
from parity.base.errors import UsageError
from parity.base.strict import Strict
from parity.base.text import visible
from parity.judge.report import incidents
from parity.judge.store import changes, database, history, plan_file
from parity.judge.verdict import cause, judge
from parity.judge.verdict.model import STYLES, Attribution, Cell, CellText, Verdict, names
from parity.site import systems
from parity.site.identity import swept_apart
from parity.site.plan import OWN

#: Nights that are shown.
NIGHTS = 14
#: Bytes that are read of a file's end, lines that are shown, and their width.
_BYTES, _LINES, _WIDTH = 1 << 16, {'rfm_job.out': 12, 'rfm_job.err': 6}, 160
#: Clocks of file servers differ.
_CLOCKS_SECONDS = 60


class ShownNight(Strict):
    """The median of a cell's first attempts in one session, and its reruns."""

    session: str
    night: str                       # local date and time of its begin, to the minute
    value: float
    runs: list[float]
    nodes: list[str]
    disturbed: bool = False          # every run was; else disturbed runs are left out
    reruns: list[tuple[float, str]] = []     # value and node


class CellView(Strict):
    """One cell of one session; ``nights`` ends with that session where the cell has a figure in it."""

    name: str
    session: str
    start: str
    cell: Cell
    nights: list[ShownNight]
    attribution: Attribution
    output: dict[str, list[str]]     # the last lines of what the job printed, by file
    output_note: str
    rerun: str                       # a line for bash; '' where no environment can run the case
    incident: str = ''               # number and title of its incident; '' for none


def of_cell(wanted: str, session: str = '') -> CellView:
    """Return everything known of the cell that ``wanted`` names. UsageError where it fits none, or several."""
    verdict, name, cell = find(wanted, session)
    uuid = verdict.session.uuid
    figures = history.parts(cell.system, reruns=True, labelled=True)
    sessions = database.sessions(cell.system, changes.SESSIONS)
    attribution, = cause.of_cells([cell], verdict.cells, figures, sessions, uuid)
    by_number = {incident.number: incident for incident in verdict.incidents}
    incident = by_number.get(cell.incident)
    title = ''
    if incident:
        title = f'{incident.number}: {incident.title}'
        attribution = incidents.as_whole(attribution, incident)
    if incident and cell.cause:
        whole = incidents.as_whole(cell.cause, incident)
        cell = cell.model_copy(update={'cause': whole})
    nights, = stored_nights([cell], uuid)
    reruns = figures.gathered(lambda part: part.filter(rerun_of=uuid).select('session').unique())
    spans = []
    for run in (uuid, *reruns['session'].unique()):
        stored = database.brief(run)
        spans.append((stored.start, stored.end))
    output, note = _output(cell.outputdir, *spans)
    rerun = _rerun(cell, verdict)
    return CellView(name=name, session=uuid, start=verdict.session.start, cell=cell, nights=nights,
                    attribution=attribution, output=output, output_note=note, rerun=rerun, incident=title)


def _output(folder: str, *sessions: tuple[float, float]) -> tuple[dict[str, list[str]], str]:
    """Return lines by file, and a note; ``sessions``: begin and end of the session, and of its reruns.

    A case has one folder, which every session uses again: an output of another time is not shown."""
    if not folder:
        return {}, ''
    files = [Path(folder, name) for name in _LINES]
    files = [file for file in files if file.is_file()]
    if not files:
        return {}, 'the output is not there any more'
    written = max(file.stat().st_mtime for file in files)
    at = times.minute(written)
    away = [max(begin - written, written - end, 0.0) for begin, end in sessions]
    nearest = min(away)
    if nearest > _CLOCKS_SECONDS:
        return {}, f'the output there is of another run ({at}): it is not shown'
    note = ''
    if away[0] > nearest:
        note = f'the output is of the run that confirms this one ({at})'
    tails = {}
    for file in files:
        last = tail(file, _LINES[file.name])
        if last:
            tails[file.name] = last
    return tails, note


def tail(file: Path, count: int) -> list[str]:
    """Return the last ``count`` lines that are not empty, made visible, cut to the width of a page."""
    try:
        with open(file, 'rb') as opened:
            size = os.fstat(opened.fileno()).st_size
            opened.seek(max(0, size - _BYTES))
            text = opened.read(_BYTES).decode('utf-8', errors='replace')
    except OSError as err:
        return [f'{file.name}: {err.strerror}']
    stripped = [line.rstrip() for line in visible(text).split('\n')]
    filled = [line for line in stripped if line]
    shown = []
    for line in filled[-count:]:
        line = line.expandtabs()
        if len(line) > _WIDTH:
            line = line[:_WIDTH - 1] + '…'
        shown.append(line)
    return shown


# ---- the line that reruns a cell

#: Options of reframe that make a case what it is.
_KEPT = {'-c': '--checkpath', '--mode': '--mode', '-S': '--setvar', '-P': '--parameterize', '-J': '--job-option'}
#: Job options that say where a job runs: a rerun says so itself.
_PLACES = re.compile(r'(nodelist|exclude|w|x)(=|$)')
#: Schedulers that take nodes by `-J nodelist=`; parity translates it for PBS.
NAMES_NODES = ('slurm', 'squeue', 'pbs')
#: Special characters of ReFrame's -n, a regular expression.
_SPECIAL = re.compile(r'([.^$*+?{}\[\]\\|()])')


def _rerun(cell: Cell, verdict: Verdict) -> str:
    if not cell.environ:
        return ''
    environs = set()
    for other in verdict.cells:
        if other.case == cell.case and other.partition == cell.partition:
            environs.add(other.environ)
    system = systems.read(cell.system)
    schedulers = {partition.name: partition.scheduler for partition in system.partitions}
    queued = schedulers.get(cell.partition) in NAMES_NODES
    environ = cell.environ if len(environs) > 1 else ''
    partition = cell.partition if len(schedulers) > 1 else ''
    nodes = cell.nodes if queued else ()
    return rerun_line(cell.case, cell.system, partition, environ, cell.size, verdict.session.cmdline, nodes)


def rerun_line(case: str, system: str, partition: str, environ: str, size: str, cmdline: str,
               nodes: Sequence[str] = ()) -> str:
    """Return ``ci/nightly ...`` for bash; ``partition`` and ``environ`` are '' where the case has one only.

    ``cmdline``: that of its session, for -S, -P, -J and --mode; ``size`` in case it was said by other means.
    ``nodes``: where it shall run; none: wherever the scheduler likes.
    The pattern is met from end to end: the name of one case may be the beginning of another's."""
    options = _kept(cmdline)
    parameters = {_parameter(value) for value in options['-P']}
    selected, options['-P'] = swept_apart(case, parameters)
    has_size = f'size={size}' in options['-S'] + options['-P'] or options['--mode']
    if size not in ('quick', OWN) and not has_size:
        options['-S'].append(f'size={size}')
    options['-c'] = _foreign(options['-c'])
    if nodes:
        others = [value for value in options['-J'] if not _PLACES.match(value)]
        options['-J'] = [*others, f'nodelist={",".join(nodes)}']
    words = ['ci/nightly', '--system', f'{system}:{partition}' if partition else system]
    if environ:
        words += ['-p', f'^{_pattern(environ)}$']
    name = selected.replace(' ', '')
    words += ['-n', f'^{_pattern(name)}$']
    for option, values in options.items():
        for value in values:
            words += [option, value]
    return shlex.join(words)


def _foreign(folders: list[str]) -> list[str]:
    """Return the folders of checks that are not parity's own."""
    top = paths.checkout() or paths.site()
    foreign = []
    for folder in folders:
        resolved = Path(top, folder).resolve()
        if not resolved.is_relative_to(top / 'checks'):
            foreign.append(folder)
    return foreign


def _kept(cmdline: str) -> dict[str, list[str]]:
    """Return the values of the kept options of a command line."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for option, long in _KEPT.items():
        parser.add_argument(option, long, dest=option, action='append', default=[])
    words = plan_file.words(cmdline)
    options, _ = parser.parse_known_args(words)
    return vars(options)


def _parameter(value: str) -> str:
    """Return the name in a value of -P: 'threads' of 'Stream.threads=1,2'."""
    name, _, _ = value.partition('=')
    return name.rpartition('.')[2]


def _pattern(name: str) -> str:
    return _SPECIAL.sub(r'\\\1', name).replace('@', '.')     # '@' would begin the number of a variant


# ---- lines of text

def lines(view: CellView) -> Iterator[Line]:
    """Yield the lines in the order of a person's questions."""
    row = CellText(view.cell)
    yield view.name, 'bold'
    verdict = _joined('   ', row.word.upper(), row.figure, row.reason)
    yield verdict, STYLES[row.word]
    for label, text in _facts(view, row):
        if text:
            yield f'{label:8} {text}'
    for file, tail in view.output.items():
        yield ''
        yield f'{file}, its end:'
        for line in tail:
            yield f'  {line}', 'dim'
    if view.rerun:
        yield ''
        yield f'rerun: {view.rerun}'


def _joined(separator: str, *parts: str) -> str:
    return separator.join(filter(None, parts))


def _facts(view: CellView, row: CellText) -> Iterator[tuple[str, str]]:
    cell = view.cell
    day, _, clock = view.start.partition('T')
    yield 'session', f'{view.session[:8]} · {day} {clock[:5]} · size {cell.size}'
    band = figures.band(cell.low, cell.high, cell.unit)
    better = 'lower is better' if cell.better == 'lower' else ''
    yield 'band', _joined('   ', band, better)
    if row.bound:
        share = figures.percent(cell.efficiency)
        yield 'limit', f'{share} of the {row.bound} ({cell.limit_source})'
    yield 'nights', _history(view)
    anew = [f'other work since {change.when[:10]}: {change.what}' for change in cell.anew]
    yield from _listed('anew', anew)
    yield 'runs', runs(cell, view.nights, view.session)
    job = f'job {cell.jobid}' if cell.jobid else ''
    yield 'nodes', _joined(' · ', *cell.nodes, cell.virtualisation, job)
    yield 'output', _joined(' · ', cell.outputdir, view.output_note)
    yield 'incident', view.incident
    if row.word == 'regressed':
        part = view.attribution.subsystem
        yield 'where', str(view.attribution.where)
        yield 'part', str(part)
        others = [name for name in part.cells if name != view.name]
        yield '', ', '.join(others)
    changed = map(str, view.attribution.changes)
    yield from _listed('changed', changed)


def _listed(label: str, texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the texts, the first with the label."""
    for text in texts:
        yield label, text
        label = ''


def _history(view: CellView) -> str:
    nights, cell = view.nights, view.cell
    if not nights:
        return 'no figure is stored'
    first = nights[0].night[:10]
    if len(nights) == 1:
        return f'only {first}'
    last = nights[-1].night[:10]
    values = [night.value for night in nights]
    curve = sparkline(values, cell.low, cell.high)
    span = figures.band(min(values), max(values), cell.unit)
    text = f'{curve}   {span}   {len(values)}, {first} .. {last}'
    disturbed = sum(night.disturbed for night in nights)
    return f'{text}, {disturbed} of them disturbed' if disturbed else text


def stored_nights(cells: Sequence[Cell], session: str) -> list[list[ShownNight]]:
    """Return the newest nights of each cell of one system up to the session."""
    if not cells:
        return []
    keys = [_key(cell) for cell in cells]
    schema = dict.fromkeys(history.CELL, history.TEXT)
    wanted = pl.LazyFrame(keys, schema=schema, orient='row')
    everything = history.parts(cells[0].system, reruns=True, labelled=True, disturbed=True)
    of_cases = everything.of_cases({cell.case for cell in cells})
    stored = of_cases.gathered(
        lambda part: part.join(wanted, on=history.CELL, how='semi', maintain_order='left'))
    until: dict[tuple, float] = {}
    tonight = stored.filter(session=session)
    for *cell, start in tonight.select(*history.CELL, 'start').iter_rows():
        until[tuple(cell)] = start
    nights: dict[tuple, list[dict[str, Any]]] = {key: [] for key in keys}
    for row in history.nights(stored).collect().iter_rows(named=True):
        key = tuple(row[name] for name in history.CELL)
        if row['start'] <= until.get(key, math.inf):
            nights[key].append(row)
    shown = []
    for key in keys:
        newest = nights[key][-NIGHTS:]
        shown.append(list(map(_night, newest)))
    return shown


def _key(cell: Cell) -> tuple:
    return tuple(getattr(cell, name) for name in history.CELL)


def _night(row: dict[str, Any]) -> ShownNight:
    names = row['node'].replace(',', ' ').split()
    nodes = sorted(set(names))
    reruns = [tuple(rerun.values()) for rerun in row['reruns']]
    return ShownNight(session=row['session'], night=row['night'], value=row['value'], runs=row['runs'],
                      nodes=nodes, disturbed=row['disturbed'], reruns=reruns)


def runs(cell: Cell, nights: Sequence[ShownNight], session: str) -> str:
    """Return the single runs of this session where there are several, and its reruns with their nodes."""
    if not nights or nights[-1].session != session:
        return ''
    tonight = nights[-1]
    count = len(tonight.runs)
    if count + len(tonight.reruns) < 2:
        return ''
    values = [value for value, _ in tonight.reruns]
    texts, unit = figures.alike(cell.unit, *tonight.runs, *values)
    first = ' '.join([*texts[:count], unit]).strip()
    again = []
    for figure, (_, node) in zip(texts[count:], tonight.reruns, strict=True):
        again.append(f'{figure} on {node}' if node else figure)
    if not again:
        return first
    return f'{first}; again: {", ".join(again)}'


BLOCKS = '▁▂▃▄▅▆▇█'
#: Nights that differ by less than this share of their height are drawn level: noise is no landscape.
_LEVEL = 0.05


def sparkline(values: Sequence[float], *also: float | None) -> str:
    """Return one block a value, oldest first; ``also``: bounds that the scale takes in, too."""
    bounds = [bound for bound in also if bound is not None]
    scale = [*values, *bounds]
    first = min(scale)
    last = max(scale)
    room = _LEVEL * max(abs(first), abs(last))
    if last - first < room:
        first -= room / 2
        last += room / 2
    if first == last:
        return BLOCKS[3] * len(values)
    top = len(BLOCKS) - 1
    blocks = ''
    for value in values:
        share = (value - first) / (last - first)
        blocks += BLOCKS[round(share * top)]
    return blocks


#: The newest sessions that are judged to find a cell; before them only cells with a figure are found.
SESSIONS = 3
_APART = re.compile(r'[.@:%=+\s]+')


def find(wanted: str, session: str = '') -> tuple[Verdict, str, Cell]:
    """Return the judged session, the cell's name and the cell: of ``session``, or the newest one that planned it.

    Raises UsageError where ``wanted`` fits several cells or none, NothingMeasured without any session."""
    names_seen: set[str] = set()
    older = () if session else _older(wanted)
    for verdict in chain(_sessions(session), older):
        cells = names(verdict.cells)
        names_seen |= cells.keys()
        matches = fitting(wanted, cells)
        if len(matches) > 1:
            raise UsageError(f'{wanted!r} fits {len(matches)} cells; name one:\n  {_first(matches)}')
        if matches:
            name = matches[0]
            return verdict, name, cells[name]
    raise UsageError(f'no cell {wanted!r} in the newest sessions; {_hint(wanted, names_seen)}')


def _hint(wanted: str, existing: Iterable[str]) -> str:
    """Return the names nearest to one that fits no cell, or what lists all."""
    by_lower = {name.lower(): name for name in sorted(existing)}
    typed = wanted.replace(' ', '').lower()
    near = get_close_matches(typed, by_lower, n=3, cutoff=0.3)
    if not near:
        return 'parity verdict --all lists them'
    nearest = [by_lower[name] for name in near]
    return f'the nearest: {", ".join(nearest)}'


def _first(lines: list[str]) -> str:
    shown = lines[:20]
    if len(lines) > 20:
        shown.append(f'and {len(lines) - 20} more')
    return '\n  '.join(shown)


def cells_like(wanted: str) -> dict[str, Cell]:
    """Return the cells of the newest sessions by name.

    Where ``wanted`` fits none there, return those of the newest session that has a figure of such a cell."""
    cells = newest()
    if fitting(wanted, cells):
        return cells
    for verdict in _older(wanted):
        return names(verdict.cells)
    return cells


def newest() -> dict[str, Cell]:
    """Return every cell of the newest sessions by name, as it was when it was planned last."""
    if not database.uuids():
        return {}
    cells: dict[str, Cell] = {}
    for verdict in _sessions(''):
        cells = names(verdict.cells) | cells
    return cells


def _sessions(session: str) -> Iterator[Verdict]:
    """Yield ``session``, or the newest ones that confirm no other, the newest first."""
    database.uuid(session)      # it says where there is none
    if session:
        yield judge.newest(session)
        return
    nights = (uuid for uuid in reversed(database.uuids()) if not database.confirms(uuid))
    for uuid in islice(nights, SESSIONS):
        yield judge.newest(uuid)


def _older(wanted: str) -> Iterator[Verdict]:
    """Yield the newest session with a figure of a cell that ``wanted`` may mean."""
    last: dict[str, tuple[float, str]] = {}
    for system in systems.names():
        frame = history.load(system, labelled=True)
        newest = frame.unique(['system', *history.CELL], keep='last')
        for row in newest.iter_rows(named=True):
            session = row['start'], row['session']
            short = history.cell_id(row, False)
            whole = history.cell_id(row, True)
            last[short] = last[whole] = session
    matches = fitting(wanted, last)
    if matches:
        _, uuid = max(last[name] for name in matches)
        yield judge.newest(uuid)


def fitting(wanted: str, existing: Iterable[str]) -> list[str]:
    """Return the names that ``wanted`` may mean: that very one, else those with its words in that order, else
    those with its pieces in that order. Case and spaces do not count."""
    pieces = [re.escape(piece) for piece in _APART.split(wanted) if piece]
    if not pieces:
        return []
    whole = re.escape(wanted.replace(' ', ''))
    exact = f'^{whole}$'
    with_words = r'\b.*\b'.join(['', *pieces, ''])
    with_pieces = '.*'.join(pieces)
    for pattern in (exact, with_words, with_pieces):
        matches = [name for name in existing if re.search(pattern, name, re.IGNORECASE)]
        if matches:
            return matches
    return []
