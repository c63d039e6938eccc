"""The figures of nodes: the history by node and part of the machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from parity.base import codes
from parity.judge.store import history
from parity.judge.store.history import Frame
from parity.judge.store.plan_file import CELL, cell_id
from parity.site.identity import DISTRIBUTED

PARTS = ('compute', 'memory', 'network', 'storage', 'gpu', 'other')
#: The columns that name a part.
_KIND = ['case', 'metric', 'subsystem']
#: The row is of a night, of turns or of a gate: an experiment (parity.cause.experiment) measures other software.
NO_EXPERIMENT = pl.col('rerun_of') != 'cause'
#: The job of a row ran on one node, which is known.
ON_ONE_NODE = ~pl.col('node').str.contains(',', literal=True) & (pl.col('node') != '')


def of_system(system: str, newest: int | None = None) -> pl.DataFrame:
    """Return a row for each cell, node or nodes, and session, oldest first. `log` is the logarithm of the median
    of its runs, higher is better. The reruns of a session are its own. Labelled and disturbed figures are left
    out.

    ``newest``: only so many sessions of each node and subsystem."""
    frame = history.load(system, reruns=True).lazy().filter(
        pl.col('node') != '', pl.col('value') > 0, pl.col('better') != '', NO_EXPERIMENT).select(
        *CELL, 'session', 'start', 'rerun_of', 'better', 'value', 'node', 'software', 'subsystem').collect()
    known = pl.col('rerun_of').is_in(frame['session'].unique().implode())
    frame = frame.with_columns(session=pl.when(known).then('rerun_of').otherwise('session'))
    if newest is not None:
        own = ['node', 'subsystem']
        last = frame.group_by(*own, 'session').agg(pl.col('start').min()).filter(
            pl.col('start').rank('dense', descending=True).over(own) <= newest)
        frame = frame.join(last, on=[*own, 'session'], how='semi', maintain_order='left')
    sign = pl.when(pl.col('better') == 'higher').then(1.0).otherwise(-1.0)
    start, job = pl.col('start').min().over('session'), [*CELL, 'software', 'node', 'session']
    frame = undistributed(frame.cast({history.TEXT: pl.String}))
    frame = frame.with_columns(start, log=sign * pl.col('value').log()).group_by(job, maintain_order=True).agg(
        pl.col('log').median(), pl.col('start').max(), pl.col('subsystem').first())
    kinds = [(case, metric, subsystem, listed_part(f'{case.replace(" ", "")}.{metric}', subsystem))
             for case, metric, subsystem in frame.select(_KIND).unique().iter_rows()]
    parts = pl.DataFrame(kinds, dict.fromkeys((*_KIND, 'part'), pl.String), orient='row')
    return frame.join(parts, on=_KIND, maintain_order='left').sort('start', maintain_order=True)


def listed_part(name: str, subsystem: str) -> str:
    """Return the one of PARTS that a cell counts for in lists of nodes: fewer than codes.part_of has. A GPU is
    one part, and messages within a node pass through its memory."""
    part = subsystem if subsystem == 'gpu' else codes.part_of(name, subsystem)
    return 'memory' if part == 'within a node' else part if part in PARTS else 'other'


def undistributed(frame: Frame) -> Frame:
    """Return the rows with the names that the cases have where ReFrame does not distribute them over nodes."""
    return frame.with_columns(pl.col('case').str.replace(DISTRIBUTED, ''))


def by_node(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the figures by single node. A figure of several nodes is weaker, as a slow partner slows a node
    down. A node counts with the better one of two jobs after another, and only if they were of different nodes."""
    jobs = rows.filter(~ON_ONE_NODE)
    names = [node.split(',') for node in jobs['node']]
    jobs = jobs[np.repeat(np.arange(len(jobs)), [*map(len, names)])].with_columns(
        job='node', node=pl.Series([name for node in names for name in node], dtype=pl.String))
    job, log = (pl.col(name).shift(1).over(*CELL, 'software', 'node') for name in ('job', 'log'))
    jobs = jobs.with_columns(before=job, log=pl.max_horizontal('log', log))
    jobs = jobs.filter(pl.col('job') != pl.col('before'))
    return pl.concat([rows.filter(ON_ONE_NODE), jobs.select(rows.columns)])


def since(system: str, node: str, start: float) -> dict[str, float]:
    """Return the newest figure of each cell, named with its size, that a job on the node measured after ``start``
    (Unix time)."""
    rows = undistributed(history.load(system, reruns=True).filter(
        pl.col('start') > start, NO_EXPERIMENT).cast(
        {history.TEXT: pl.String})).filter(pl.col('node').str.split(',').list.contains(node))
    return {f'{cell_id(row, True)} ({row["size"]})': row['value'] for row in rows.iter_rows(named=True)}


def last_by_node(frame: pl.DataFrame, column: str) -> dict[str, Any]:
    """Return the greatest value of a column for each node that figures were measured on."""
    last: dict[str, Any] = {}
    for names, at in frame.group_by('node').agg(pl.col(column).max()).sort(column).iter_rows():
        last |= dict.fromkeys(filter(None, names.split(',')), at)
    return last


def speeds(frame: pl.DataFrame) -> dict[str, tuple[float, int]]:
    """Return each node's speed as a share of the median over the nodes, and from how many cells.

    From the runs on one node: a node's median of a cell over the median of the nodes' medians, turned over where
    lower is better; then the median over the cells that three nodes or more have measured: of two, nobody can say
    which is the slow one. ``frame``: of history.load."""
    frame = history.counted(frame).filter(pl.col('node') != '', pl.col('value') > 0)
    alone = frame.filter(~pl.col('node').cast(pl.String).str.contains(','))
    each = alone.group_by(*CELL, 'better', 'node').agg(pl.col('value').median())
    usual = pl.col('value').median().over(*CELL)
    share = pl.when(pl.col('better') == 'higher').then(pl.col('value') / usual).otherwise(usual / pl.col('value'))
    shares = each.with_columns(share.alias('share'), pl.len().over(*CELL).alias('nodes'))
    compared = shares.filter(pl.col('nodes') > 2)
    told = compared.group_by('node').agg(pl.col('share').median(), pl.len().alias('cells'))
    return {name: (value, cells) for name, value, cells in told.iter_rows()}
