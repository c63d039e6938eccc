"""What the page shows, in its order: plain data, put together from a verdict before any HTML."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from parity.base import text
from parity.report import drawing, facts, news, ratios, rows
from parity.report.beside import Beside
from parity.verdict.model import WORDS, Verdict

#: Reasons that the table cuts are told whole where a row is opened, up to so much.
WHOLE = 2000


@dataclass
class View:
    verdict: Verdict
    when: str
    counts: list[tuple[str, int]]
    changes: news.Changes | None
    unreadable: str                  # why there are none, although there was a session before
    differences: list
    attention: list[tuple[str, list[news.Entry]]]
    causes: dict[int, list[str]]     # by the number of the row: what is known of a slower figure
    pairs: list[ratios.Chart]
    table: list[tuple[str, list[rows.Table]]]
    columns: set[str]                # of the tables, those that some row fills
    partitions: list[str]
    sources: list[str]
    plots: list[tuple[str, list[drawing.Drawn]]]
    plots_left_out: int
    nodes: object
    facts: list[facts.Fact]
    data: str                        # JSON for the page's script


def build(verdict: Verdict, beside: Beside, links: Callable[[str], list[tuple[str, str]]]) -> View:
    """``links`` gives what an output directory holds, and the addresses."""
    given, sources = rows.of_cells(verdict.cells)
    reasons = {r.number: text.visible(r.cell.reason[:WHOLE]) for r in given if len(r.cell.reason) > rows.SHORT}
    plots, left_out = _plots(beside)
    return View(
        verdict=verdict,
        when=verdict.session.start[:16].replace('T', ' '),
        counts=[(word, verdict.counts[word]) for word in (*WORDS[:-1], 'ok') if verdict.counts.get(word)],
        changes=news.changes(given, beside.before) if beside.before else None,
        unreadable=beside.unreadable,
        differences=beside.differences,
        attention=news.not_ok(given),
        causes={r.number: r.cell.cause.lines() for r in given if r.cell.cause},
        pairs=[ratios.chart(pair) for pair in beside.pairs or ratios.of_outcomes(verdict.pairs)],
        table=rows.tables(given, links),
        columns=_columns(given, beside),
        partitions=sorted({c.partition for c in verdict.cells}),
        sources=sources,
        plots=plots, plots_left_out=left_out,
        nodes=_nodes(verdict, beside),
        facts=facts.facts(verdict.session.facts),
        data=_data(beside, given, reasons),
    )


def _columns(given: list[rows.Row], beside: Beside) -> set[str]:
    """change and reference, limit, history: a column that no row fills is not shown."""
    known = {'reference': any(r.reference for r in given), 'limit': any(r.limit for r in given),
             'history': bool(beside.nights and len(beside.nights.labels) > 1)}
    return {name for name, there in known.items() if there}


def _plots(beside: Beside) -> tuple[list[tuple[str, list[drawing.Drawn]]], int]:
    if not beside.plots:
        return [], 0
    from parity.report.curves import MOST
    drawn = [d for d in map(drawing.draw, beside.plots) if d]
    drawn.sort(key=lambda d: rows.rank(d.plot.subsystem))
    groups: dict[str, list[drawing.Drawn]] = {}
    for one in drawn[:MOST]:
        groups.setdefault(one.plot.subsystem, []).append(one)
    return list(groups.items()), len(drawn[MOST:])


def _nodes(verdict: Verdict, beside: Beside):
    from parity.report import nodes
    return nodes.of_session(verdict.cells, beside.facts, beside.speeds)


def _data(beside: Beside, given: list[rows.Row], reasons: dict[int, str]) -> str:
    from parity.report import series
    return series.as_json(beside.nights or series.Nights(), [news.key(r.cell) for r in given], reasons)
