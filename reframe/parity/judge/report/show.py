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

import polars as pl

from parity.base import figures, paths, times
from parity.base.console import Line
from parity.base.errors import UsageError
from parity.base.strict import Strict
from parity.base.text import visible
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


def of_cell(wanted: str, session: str = '') -> CellView:
    """Return everything known of the cell that ``wanted`` names. UsageError where it fits none, or several."""
    verdict, name, cell = find(wanted, session)
    uuid = verdict.session.uuid
    frame = history.load(cell.system, reruns=True, labelled=True)
    sessions = database.sessions(cell.system, changes.SESSIONS)
    confirming = frame.filter(pl.col('rerun_of') == uuid)['session'].unique().to_list()
    spans = ((each.start, each.end) for each in map(database.brief, (uuid, *confirming)))
    output, note = _output(cell.outputdir, *spans)
    return CellView(name=name, session=uuid, start=verdict.session.start, cell=cell,
                nights=stored_nights([cell], uuid)[0],
                attribution=cause.of_cells([cell], verdict.cells, frame, sessions, uuid)[0],
                output=output, output_note=note, rerun=_rerun(cell, verdict))


def _output(folder: str, *sessions: tuple[float, float]) -> tuple[dict[str, list[str]], str]:
    """Return lines by file, and a note; ``sessions``: begin and end of the session, and of its reruns.

    A case has one folder, which every session uses again: an output of another time is not shown."""
    files = [file for name in _LINES if folder and (file := Path(folder, name)).is_file()]
    if not files:
        return {}, folder and 'the output is not there any more'
    written = max(file.stat().st_mtime for file in files)
    at = times.minute(written)
    away = [max(begin - written, written - end, 0.0) for begin, end in sessions]
    if min(away) > _CLOCKS_SECONDS:
        return {}, f'the output there is of another run ({at}): it is not shown'
    note = '' if away[0] == min(away) else f'the output is of the run that confirms this one ({at})'
    return {file.name: shown for file in files if (shown := tail(file, _LINES[file.name]))}, note


def tail(file: Path, count: int) -> list[str]:
    """Return the last ``count`` lines that are not empty, made visible, cut to the width of a page."""
    try:
        with open(file, 'rb') as opened:
            opened.seek(max(0, os.fstat(opened.fileno()).st_size - _BYTES))
            text = opened.read(_BYTES).decode('utf-8', errors='replace')
    except OSError as err:
        return [f'{file.name}: {err.strerror}']
    lines = [line.expandtabs() for raw in visible(text).split('\n') if (line := raw.rstrip())]
    return [line if len(line) <= _WIDTH else line[:_WIDTH - 1] + '…' for line in lines[-count:]]


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
    environs = {c.environ for c in verdict.cells if (c.case, c.partition) == (cell.case, cell.partition)}
    partitions = systems.read(cell.system).partitions
    queued = any(p.name == cell.partition and p.scheduler in NAMES_NODES for p in partitions)
    return rerun_line(cell.case, cell.system, cell.partition if len(partitions) > 1 else '',
                      cell.environ if len(environs) > 1 else '', cell.size, verdict.session.cmdline,
                      cell.nodes if queued else ())


def rerun_line(case: str, system: str, partition: str, environ: str, size: str, cmdline: str,
               nodes: Sequence[str] = ()) -> str:
    """Return ``ci/nightly ...`` for bash; ``partition`` and ``environ`` are '' where the case has one only.

    ``cmdline``: that of its session, for -S, -P, -J and --mode; ``size`` in case it was said by other means.
    ``nodes``: where it shall run; none: wherever the scheduler likes.
    The pattern is met from end to end: the name of one case may be the beginning of another's."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for option, long in _KEPT.items():
        parser.add_argument(option, long, dest=option, action='append', default=[])
    given: dict[str, list[str]] = vars(parser.parse_known_args(plan_file.words(cmdline))[0])
    own, given['-P'] = swept_apart(case, {value.partition('=')[0].rpartition('.')[2] for value in given['-P']})
    if size not in ('quick', OWN) and f'size={size}' not in given['-S'] + given['-P'] and not given['--mode']:
        given['-S'] += [f'size={size}']
    top = paths.checkout() or paths.site()
    given['-c'] = [path for path in given['-c'] if not Path(top, path).resolve().is_relative_to(top / 'checks')]
    if nodes:
        others = [value for value in given['-J'] if not _PLACES.match(value)]
        given['-J'] = [*others, f'nodelist={",".join(nodes)}']
    words = ['ci/nightly', '--system', f'{system}:{partition}' if partition else system]
    words += ['-p', f'^{_pattern(environ)}$'] if environ else []
    words += ['-n', f'^{_pattern(own.replace(" ", ""))}$']
    return shlex.join([*words, *(word for option, values in given.items() for value in values
                                 for word in (option, value))])


def _pattern(name: str) -> str:
    return _SPECIAL.sub(r'\\\1', name).replace('@', '.')     # '@' would begin the number of a variant


# ---- lines of text

def lines(view: CellView) -> Iterator[Line]:
    """Yield the lines in the order of a person's questions."""
    row = CellText(view.cell)
    yield from ((view.name, 'bold'),
                ('   '.join(filter(None, (row.word.upper(), row.figure, row.reason))), STYLES[row.word]))
    yield from (f'{label:8} {text}' for label, text in _facts(view, row) if text)
    for file, tail in view.output.items():
        yield from ('', f'{file}, its end:', *((f'  {line}', 'dim') for line in tail))
    if view.rerun:
        yield from ('', f'rerun: {view.rerun}')


def _facts(view: CellView, row: CellText) -> Iterator[tuple[str, str]]:
    cell, known = view.cell, view.attribution
    day, _, clock = view.start.partition('T')
    yield 'session', f'{view.session[:8]} · {day} {clock[:5]} · size {cell.size}'
    better = 'lower is better' if cell.better == 'lower' else ''
    yield 'band', '   '.join(filter(None, (figures.band(cell.low, cell.high, cell.unit), better)))
    yield 'limit', row.bound and f'{figures.percent(cell.efficiency)} of the {row.bound} ({cell.limit_source})'
    yield 'nights', _history(view)
    for i, change in enumerate(cell.anew):
        yield '' if i else 'anew', f'other work since {change.when[:10]}: {change.what}'
    yield 'runs', runs(view.cell, view.nights, view.session)
    yield 'nodes', ' · '.join(filter(None, (*cell.nodes, cell.virtualisation, cell.jobid and f'job {cell.jobid}')))
    yield 'output', ' · '.join(filter(None, (cell.outputdir, view.output_note)))
    if row.word == 'regressed':
        yield 'where', str(known.where)
        yield 'part', str(known.subsystem)
        yield '', ', '.join(name for name in known.subsystem.cells if name != view.name)
    for i, change in enumerate(known.changes):
        yield '' if i else 'changed', str(change)


def _history(view: CellView) -> str:
    if len(view.nights) < 2:
        return f'only {view.nights[0].night[:10]}' if view.nights else 'no figure is stored'
    values = [night.value for night in view.nights]
    count = sum(night.disturbed for night in view.nights)
    return (f'{sparkline(values, view.cell.low, view.cell.high)}   '
            f'{figures.band(min(values), max(values), view.cell.unit)}   '
            f'{len(values)}, {view.nights[0].night[:10]} .. {view.nights[-1].night[:10]}'
            + (f', {count} of them disturbed' if count else ''))


def stored_nights(cells: Sequence[Cell], session: str) -> list[list[ShownNight]]:
    """Return the newest nights of each cell of one system up to the session."""
    if not cells:
        return []
    keys = [tuple(getattr(cell, name) for name in history.CELL) for cell in cells]
    wanted = pl.DataFrame(keys, schema=dict.fromkeys(history.CELL, history.TEXT), orient='row')
    stored = history.load(cells[0].system, reruns=True, labelled=True, disturbed=True).join(
        wanted, on=history.CELL, how='semi', maintain_order='left')
    until = {tuple(cell): start for *cell, start in
             stored.filter(session=session).select(*history.CELL, 'start').iter_rows()}
    found: dict[tuple, list[dict]] = {}
    for row in history.nights(stored).collect().iter_rows(named=True):
        cell = tuple(row[name] for name in history.CELL)
        if row['start'] <= until.get(cell, math.inf):
            found.setdefault(cell, []).append(row)
    return [[ShownNight(session=row['session'], night=row['night'], value=row['value'], runs=row['runs'],
                   nodes=sorted({*row['node'].replace(',', ' ').split()}), disturbed=row['disturbed'],
                   reruns=[tuple(again.values()) for again in row['reruns']])
             for row in found.get(key, [])[-NIGHTS:]] for key in keys]


def runs(cell: Cell, nights: Sequence[ShownNight], session: str) -> str:
    """Return the single runs of this session where there are several, and its reruns with their nodes."""
    tonight = next((night for night in nights[-1:] if night.session == session), None)
    if tonight is None or len(tonight.runs) + len(tonight.reruns) < 2:
        return ''
    texts, unit = figures.alike(cell.unit, *tonight.runs, *(value for value, _ in tonight.reruns))
    first = len(tonight.runs)
    again = [f'{text} on {node}' if node else text
             for text, (_, node) in zip(texts[first:], tonight.reruns, strict=True)]
    return ' '.join((*texts[:first], unit)).strip() + (f'; again: {", ".join(again)}' if again else '')


BLOCKS = '▁▂▃▄▅▆▇█'
#: Nights that differ by less than this share of their height are drawn level: noise is no landscape.
_LEVEL = 0.05


def sparkline(values: Sequence[float], *also: float | None) -> str:
    """Return one block a value, oldest first; ``also``: bounds that the scale takes in, too."""
    known = [*values, *(x for x in also if x is not None)]
    first, last = min(known), max(known)
    room = _LEVEL * max(abs(first), abs(last))
    if last - first < room:
        first, last = first - room / 2, last + room / 2
    if first == last:
        return BLOCKS[3] * len(values)
    return ''.join(BLOCKS[round((v - first) / (last - first) * (len(BLOCKS) - 1))] for v in values)


#: The newest sessions that are judged to find a cell; before them only cells with a figure are found.
SESSIONS = 3
_APART = re.compile(r'[.@:%=+\s]+')


def find(wanted: str, session: str = '') -> tuple[Verdict, str, Cell]:
    """Return the judged session, the cell's name and the cell: of ``session``, or the newest one that planned it.

    Raises UsageError where ``wanted`` fits several cells or none, NothingMeasured without any session."""
    seen: set[str] = set()
    for verdict in chain(_sessions(session), () if session else _older(wanted)):
        known = names(verdict.cells)
        seen |= known.keys()
        match fitting(wanted, known):
            case [name]:
                return verdict, name, known[name]
            case [_, *_] as found:
                shown = found[:20] + ([f'and {len(found) - 20} more'] if len(found) > 20 else [])
                raise UsageError(f'{wanted!r} fits {len(found)} cells; name one:\n  ' + '\n  '.join(shown))
    lower = {name.lower(): name for name in sorted(seen)}
    near = [lower[name] for name in get_close_matches(wanted.replace(' ', '').lower(), lower, n=3, cutoff=0.3)]
    raise UsageError(f'no cell {wanted!r} in the newest sessions; '
                     + (f'the nearest: {", ".join(near)}' if near else 'parity verdict --all lists them'))


def newest() -> dict[str, Cell]:
    """Return every cell of the newest sessions by name, as it was when it was planned last."""
    found: dict[str, Cell] = {}
    for verdict in _sessions('') if database.uuids() else ():
        found = names(verdict.cells) | found
    return found


def _sessions(session: str) -> Iterator[Verdict]:
    """Yield ``session``, or the newest ones that confirm no other, the newest first."""
    database.uuid(session)      # it says where there is none
    nights = (uuid for uuid in reversed(database.uuids()) if not database.confirms(uuid))
    for uuid in (session,) if session else islice(nights, SESSIONS):
        yield judge.newest(uuid)


def _older(wanted: str) -> Iterator[Verdict]:
    """Yield the newest session with a figure of a cell that ``wanted`` may mean."""
    last: dict[str, tuple[float, str]] = {}
    for system in systems.names():
        frame = history.load(system, labelled=True)
        for row in frame.unique(['system', *history.CELL], keep='last').iter_rows(named=True):
            for environ in (False, True):
                last[history.cell_id(row, environ)] = row['start'], row['session']
    if found := fitting(wanted, last):
        yield judge.newest(max(last[name] for name in found)[1])


def fitting(wanted: str, known: Iterable[str]) -> list[str]:
    """Return the names that ``wanted`` may mean: that very one, else those with its words in that order, else
    those with its pieces in that order. Case and spaces do not count."""
    pieces = [re.escape(piece) for piece in _APART.split(wanted) if piece]
    exact = f'^{re.escape(wanted.replace(" ", ""))}$'
    ways = (exact, r'\b.*\b'.join(['', *pieces, '']), '.*'.join(pieces)) if pieces else ()
    found = ([name for name in known if re.search(way, name, re.IGNORECASE)] for way in ways)
    return next(filter(None, found), [])
