"""Everything that is stored of a cell: the judged session, its history, its output."""

from __future__ import annotations

from statistics import median

import polars as pl

from parity.records import history, kept
from parity.report.inspect import find, output, rerun
from parity.report.inspect.model import Night, View
from parity.system import systems
from parity.verdict.attribution import cause
from parity.verdict.model import Cell, Verdict

#: Nights that are shown.
NIGHTS = 14


def view(wanted: str, session: str = '') -> View:
    """What is known of the cell that ``wanted`` names. UsageError where it fits none, or several."""
    verdict, name, cell = find.cell(wanted, session)
    uuid = verdict.session.uuid
    stored = history.load(cell.system, disturbed=True)
    frame = stored.filter(~pl.col('disturbed'))
    sessions = kept.sessions(cell.system, cause.SESSIONS)
    confirming = frame.filter(pl.col('rerun_of') == uuid)['session'].unique().to_list()
    night, *reruns = [(each.start, each.end) for each in map(kept.brief, (uuid, *confirming))]
    told = output.of(cell.outputdir, night, reruns)
    return View(name=name, session=uuid, start=verdict.session.start, cell=cell,
                nights=_nights(stored, cell, uuid),
                attribution=cause.Night(verdict.cells, frame, sessions, uuid, [cell]).of(cell),
                output=told.lines, output_note=told.why, rerun=_rerun(cell, verdict))


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
    return [_night(group, [r for r in rows if r['rerun_of'] == uuid])
            for uuid, group in list(groups.items())[-NIGHTS:]]


def _night(runs: list[dict], reruns: list[dict]) -> Night:
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
    queued = any(p.name == cell.partition and p.scheduler in rerun.NAMES_NODES for p in partitions)
    return rerun.line(cell.case, cell.system, cell.partition if len(partitions) > 1 else '',
                      cell.environ if len(environs) > 1 else '', cell.size, verdict.session.cmdline,
                      cell.nodes if queued else ())
