"""What is stored of a cell: its judged session, its nights, the end of its output, and the line that reruns it."""

from __future__ import annotations

import datetime
import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import polars as pl

from parity.base.strict import Strict
from parity.base.text import visible
from parity.plan.identity import swept_apart
from parity.records import history, kept
from parity.report.inspect import find
from parity.system import systems
from parity.verdict.attribution import cause
from parity.verdict.attribution.changes import Attribution
from parity.verdict.model import Cell, Verdict

#: Nights that are shown.
NIGHTS = 14
#: What is read of a file's end, the lines shown of it, and how wide one may be.
_BYTES, _LINES, _WIDTH = 1 << 16, {'rfm_job.out': 12, 'rfm_job.err': 6}, 160
#: Clocks of file servers differ.
_CLOCKS_SECONDS = 60
#: When a session began and when it ended, Unix time.
Span = tuple[float, float]
#: Options of reframe that make a case what it is; each has one argument.
_KEPT = ('-S', '--setvar', '-P', '--parameterize', '-J', '--job-option', '--mode')
_JOB = ('-J', '--job-option')
#: Job options that say where a job runs: a rerun says so itself.
_PLACES = re.compile(r'(nodelist|exclude|w|x)(=|$)')
#: Schedulers that are told nodes by `-J nodelist=`: Slurm's own, and PBS by what parity makes of it (parity.pbs).
NAMES_NODES = ('slurm', 'squeue', 'pbs')
#: What means something in ReFrame's -n, a regular expression. '@' would make it the name of a variant.
_SPECIAL = re.compile(r'([.^$*+?{}\[\]\\|()])')


class Night(Strict):
    """The median of a cell's first attempts in one session, and what its reruns gave."""

    session: str
    night: str                       # local date and time of its begin, to the minute
    value: float
    runs: list[float]
    nodes: list[str]
    disturbed: bool = False          # every run was; else those that were are left out
    reruns: list[tuple[float, str]] = []     # value and node


class View(Strict):
    """One cell of one session; ``nights`` ends with that session where the cell has a figure in it."""

    name: str
    session: str
    start: str
    cell: Cell
    nights: list[Night]
    attribution: Attribution
    output: dict[str, list[str]]     # the last lines of what the job printed, by file
    output_note: str
    rerun: str                       # a line for bash; '' where no environment can run the case


def of_cell(wanted: str, session: str = '') -> View:
    """What is known of the cell that ``wanted`` names. UsageError where it fits none, or several."""
    verdict, name, cell = find.cell(wanted, session)
    uuid = verdict.session.uuid
    stored = history.load(cell.system, disturbed=True)
    frame = stored.filter(~pl.col('disturbed'))
    sessions = kept.sessions(cell.system, cause.SESSIONS)
    confirming = frame.filter(pl.col('rerun_of') == uuid)['session'].unique().to_list()
    night, *reruns = [(each.start, each.end) for each in map(kept.brief, (uuid, *confirming))]
    output, why = _output(cell.outputdir, night, reruns)
    return View(name=name, session=uuid, start=verdict.session.start, cell=cell,
                nights=_nights(stored, cell, uuid),
                attribution=cause.Night(verdict.cells, frame, sessions, uuid, [cell]).of(cell),
                output=output, output_note=why, rerun=_rerun(cell, verdict))


def _nights(frame: pl.DataFrame, cell: Cell, session: str) -> list[Night]:
    """The newest nights up to the session."""
    own = frame.filter(pl.all_horizontal(pl.col(key) == getattr(cell, key) for key in history.CELL))
    tonight = own.filter(pl.col('session') == session)
    rows = own.to_dicts()
    until = tonight['start'][0] if len(tonight) else None
    groups: dict[str, list[dict]] = {}
    for row in rows:
        if not row['rerun_of'] and (until is None or row['start'] <= until):
            groups.setdefault(row['session'], []).append(row)
    return [_one_night(group, [r for r in rows if r['rerun_of'] == uuid])
            for uuid, group in list(groups.items())[-NIGHTS:]]


def _one_night(runs: list[dict], reruns: list[dict]) -> Night:
    calm = [r for r in runs if not r['disturbed']]
    values = [r['value'] for r in calm or runs]
    return Night(session=runs[0]['session'], night=runs[0]['night'], value=median(values), runs=values,
                 disturbed=not calm,
                 nodes=sorted({node for r in runs for node in r['node'].split(',') if node}),
                 reruns=[(r['value'], r['node']) for r in reruns if not r['disturbed']])


def _rerun(cell: Cell, verdict: Verdict) -> str:
    if not cell.environ:
        return ''
    environs = {c.environ for c in verdict.cells if (c.case, c.partition) == (cell.case, cell.partition)}
    partitions = systems.read(cell.system).partitions
    queued = any(p.name == cell.partition and p.scheduler in NAMES_NODES for p in partitions)
    return rerun_line(cell.case, cell.system, cell.partition if len(partitions) > 1 else '',
                      cell.environ if len(environs) > 1 else '', cell.size, verdict.session.cmdline,
                      cell.nodes if queued else ())


def _output(folder: str, night: Span, reruns: list[Span]) -> tuple[dict[str, list[str]], str]:
    """Lines by file of a session that ran in ``night``, or of one of its ``reruns``, and a note. A case has one
    folder, which every session uses again: an output of another time is not shown."""
    if not folder:
        return {}, ''
    files = [file for name in _LINES if (file := Path(folder, name)).is_file()]
    if not files:
        return {}, 'the output is not there any more'
    written = max(file.stat().st_mtime for file in files)
    at, why = f'{datetime.datetime.fromtimestamp(written):%Y-%m-%d %H:%M}', ''
    if not _within(written, night):
        if not any(_within(written, span) for span in reruns):
            return {}, f'the output there is of another run ({at}): it is not shown'
        why = f'the output is of the run that confirms this one ({at})'
    return {file.name: shown for file in files if (shown := tail(file, _LINES[file.name]))}, why


def _within(moment: float, span: Span) -> bool:
    return span[0] - _CLOCKS_SECONDS <= moment <= span[1] + _CLOCKS_SECONDS


def tail(file: Path, count: int) -> list[str]:
    """The last ``count`` lines that are not empty, made visible, cut to the width of a page."""
    try:
        with open(file, 'rb') as opened:
            opened.seek(max(0, os.fstat(opened.fileno()).st_size - _BYTES))
            text = opened.read(_BYTES).decode('utf-8', errors='replace')
    except OSError as err:
        return [f'{file.name}: {err.strerror}']
    lines = [line.expandtabs() for raw in visible(text).split('\n') if (line := raw.rstrip())]
    return [line if len(line) <= _WIDTH else line[:_WIDTH - 1] + '…' for line in lines[-count:]]


def rerun_line(case: str, system: str, partition: str, environ: str, size: str, cmdline: str,
         nodes: Sequence[str] = ()) -> str:
    """``ci/nightly ...`` for bash; ``partition`` and ``environ`` are '' where the case has one only.

    ``cmdline``: that of its session, for -S, -P, -J and --mode; ``size`` in case it was said by other means.
    ``nodes``: where it ran, and shall run again; none: wherever the scheduler likes.
    The pattern is met from end to end: the name of one case may be the beginning of another's."""
    kept = [word for word in _kept(cmdline) if not (nodes and word[0] in _JOB and _PLACES.match(word[1]))]
    words = ['ci/nightly', '--system', f'{system}:{partition}' if partition else system]
    words += ['-p', f'^{_pattern(environ)}$'] if environ else []
    parameters = {value.partition('=')[0].rpartition('.')[2] for option, value in kept
                  if option in ('-P', '--parameterize')}
    own, swept = swept_apart(case, parameters)
    words += ['-n', f'^{_pattern(own.replace(" ", ""))}$']
    for option, value in kept:
        words += [option, value] if option not in ('-P', '--parameterize') else []
    if size != 'quick' and f'size={size}' not in words + swept and '--mode' not in words:
        words += ['-S', f'size={size}']
    for parameter in swept:
        words += ['-P', parameter]
    if nodes:
        words += ['-J', f'nodelist={",".join(nodes)}']
    return shlex.join(words)


def _pattern(name: str) -> str:
    return _SPECIAL.sub(r'\\\1', name).replace('@', '.')


def _kept(cmdline: str) -> list[tuple[str, str]]:
    """The options of the session that its reruns need, with their arguments."""
    found, words = [], iter(shlex.split(cmdline)[1:])
    for word in words:
        name, equals, value = word.partition('=')
        if word in _KEPT:
            found.append((word, next(words, '')))
        elif equals and name in _KEPT and name.startswith('--'):
            found.append((name, value))
        elif word[:2] in _KEPT and not word.startswith('--'):
            found.append((word[:2], word[2:]))
    return found
