"""The figures of nodes: the history by node and part of the machine."""

from __future__ import annotations

from typing import Any

import polars as pl

from parity.base import codes
from parity.judge.store import history
from parity.judge.store.history import Frame
from parity.judge.store.plan_file import CELL, cell_id
from parity.site.identity import DISTRIBUTED

PARTS = ('compute', 'memory', 'network', 'storage', 'gpu', 'other')
#: The columns that name a part.
_KIND = ['case', 'metric', 'subsystem']
_OF_RUN = ('session', 'start', 'rerun_of', 'better', 'value', 'node', 'software', 'subsystem')
#: The row is of a night, of turns or of a gate: an experiment (parity.cause.experiment) measures other software.
NO_EXPERIMENT = pl.col('rerun_of') != 'cause'
#: The job of a row ran on one node, which is known.
ON_ONE_NODE = ~pl.col('node').str.contains(',', literal=True) & (pl.col('node') != '')


def of_system(system: str, newest: int | None = None) -> pl.DataFrame:
    """Return a row for each cell, node or nodes, and session, oldest first. `log` is the logarithm of the median
    of its runs, higher is better. The reruns of a session are its own. Labelled and disturbed figures are left
    out.

    ``newest``: only so many sessions of each node and subsystem."""
    rows = _measured(system)
    if newest is not None:
        rows = _newest_sessions(rows, newest)
    rows = rows.cast({history.TEXT: pl.String})
    jobs = _medians_of_jobs(undistributed(rows))
    with_parts = jobs.join(_parts(jobs), on=_KIND, maintain_order='left')
    return with_parts.sort('start', maintain_order=True)


def _measured(system: str) -> pl.DataFrame:
    """Return the figures that count, those of reruns in the session that they confirm."""
    stored = history.load(system, reruns=True).lazy()
    has_node = pl.col('node') != ''
    has_logarithm = pl.col('value') > 0
    has_direction = pl.col('better') != ''
    measured = stored.filter(has_node, has_logarithm, has_direction, NO_EXPERIMENT)
    rows = measured.select(*CELL, *_OF_RUN).collect()
    sessions = rows['session'].unique().implode()
    is_rerun = pl.col('rerun_of').is_in(sessions)
    session = pl.when(is_rerun).then('rerun_of').otherwise('session')
    return rows.with_columns(session=session)


def _medians_of_jobs(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the median of each cell in each session on the same node or nodes, as a logarithm."""
    is_higher_better = pl.col('better') == 'higher'
    sign = pl.when(is_higher_better).then(1.0).otherwise(-1.0)
    log = sign * pl.col('value').log()
    start = pl.col('start').min().over('session')
    runs = rows.with_columns(start, log=log)
    of_job = runs.group_by(*CELL, 'software', 'node', 'session', maintain_order=True)
    median = pl.col('log').median()
    newest_start = pl.col('start').max()
    subsystem = pl.col('subsystem').first()
    return of_job.agg(median, newest_start, subsystem)


def _newest_sessions(rows: pl.DataFrame, count: int) -> pl.DataFrame:
    """Return the rows of the newest sessions of each node and subsystem."""
    place = ['node', 'subsystem']
    of_session = [*place, 'session']
    start = pl.col('start')
    sessions = rows.group_by(of_session).agg(start.min())
    age = start.rank('dense', descending=True).over(place)
    newest = sessions.filter(age <= count)
    return rows.join(newest, on=of_session, how='semi', maintain_order='left')


def _parts(jobs: pl.DataFrame) -> pl.DataFrame:
    """Return the part of each kind of cell."""
    kinds = jobs.select(_KIND).unique()
    parts = []
    for case, metric, subsystem in kinds.iter_rows():
        case_name = case.replace(' ', '')
        part = listed_part(f'{case_name}.{metric}', subsystem)
        parts.append(part)
    column = pl.Series(parts, dtype=pl.String)
    return kinds.with_columns(part=column)


def listed_part(name: str, subsystem: str) -> str:
    """Return the one of PARTS that a cell counts for in lists of nodes: fewer than codes.part_of has. A GPU is
    one part, and messages within a node pass through its memory."""
    if subsystem == 'gpu':
        return 'gpu'
    part = codes.part_of(name, subsystem)
    if part == 'within a node':
        return 'memory'
    return part if part in PARTS else 'other'


def undistributed(frame: Frame) -> Frame:
    """Return the rows with the names that the cases have where ReFrame does not distribute them over nodes."""
    return frame.with_columns(pl.col('case').str.replace(DISTRIBUTED, ''))


def by_node(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the figures by single node. A figure of several nodes is weaker, as a slow partner slows a node
    down. A node counts with the better one of two jobs after another, and only if they were of different nodes."""
    of_one_node = rows.filter(ON_ONE_NODE)
    of_several = rows.filter(~ON_ONE_NODE)
    nodes = pl.col('node').str.split(',')
    jobs = of_several.with_columns(job='node', node=nodes)
    jobs = jobs.explode('node', empty_as_null=True)
    of_node = [*CELL, 'software', 'node']
    job_before = pl.col('job').shift(1).over(of_node)
    log_before = pl.col('log').shift(1).over(of_node)
    better = pl.max_horizontal('log', log_before)
    jobs = jobs.with_columns(job_before=job_before, log=better)
    has_other_nodes = pl.col('job') != pl.col('job_before')
    compared = jobs.filter(has_other_nodes)
    return pl.concat([of_one_node, compared.select(rows.columns)])


def since(system: str, node: str, start: float) -> dict[str, float]:
    """Return the newest figure of each cell, named with its size, that a job on the node measured after ``start``
    (Unix time)."""
    is_later = pl.col('start') > start
    later = history.load(system, reruns=True).filter(is_later, NO_EXPERIMENT)
    rows = undistributed(later.cast({history.TEXT: pl.String}))
    nodes = pl.col('node').str.split(',')
    on_node = rows.filter(nodes.list.contains(node))
    newest = {}
    for row in on_node.iter_rows(named=True):
        cell = cell_id(row, environ=True)
        size = row['size']
        newest[f'{cell} ({size})'] = row['value']
    return newest


def last_by_node(frame: pl.DataFrame, column: str) -> dict[str, Any]:
    """Return for each node the greatest value of a column, such as a time, in the rows of jobs that ran there."""
    greatest = pl.col(column).max()
    by_nodes = frame.group_by('node').agg(greatest)     # the nodes of a job are one text: 'n1,n2'
    last: dict[str, Any] = {}
    for names, value in by_nodes.sort(column).iter_rows():
        for name in filter(None, names.split(',')):
            last[name] = value      # the rows ascend: the greatest value comes last
    return last


def speeds(frame: pl.DataFrame) -> dict[str, tuple[float, int]]:
    """Return each node's speed as a share of the median over the nodes, and from how many cells.

    From the runs on one node: a node's median of a cell over the median of the nodes' medians, turned over where
    lower is better; then the median over the cells that three nodes or more have measured: of two, nobody can say
    which is the slow one. ``frame``: of history.load."""
    value = pl.col('value')
    figures = history.counted(frame).cast({'node': pl.String})
    alone = figures.filter(ON_ONE_NODE, value > 0)
    of_node = alone.group_by(*CELL, 'better', 'node')
    medians = of_node.agg(value.median())
    usual = value.median().over(*CELL)
    is_higher_better = pl.col('better') == 'higher'
    share = pl.when(is_higher_better).then(value / usual).otherwise(usual / value)
    nodes = pl.len().over(*CELL)
    compared = medians.with_columns(share=share).filter(nodes > 2)
    speed = pl.col('share').median()
    summary = compared.group_by('node').agg(speed, cells=pl.len())
    return {name: (speed, cells) for name, speed, cells in summary.iter_rows()}
