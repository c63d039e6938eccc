"""From a verdict to the text of its page."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from parity import __version__
from parity.base import figures, text
from parity.report import curves, facts, news, nodes, ratios, rows, series
from parity.report.beside import Beside
from parity.report.curves import MOST
from parity.verdict.model import WORDS, Verdict

_HERE = Path(__file__).parent
_SCRIPTS = ('spark.js', 'details.js', 'filter.js')
#: Reasons that the table cuts are told whole where a row is opened, up to so much.
_WHOLE = 2000
#: Word on the page -> the file's name in the run's folder, as ReFrame names it.
_FILES = {'output': 'rfm_job.out', 'errors': 'rfm_job.err', 'script': 'rfm_job.sh'}


def render(verdict: Verdict, directory: Path, root: Path, beside: Beside | None = None) -> str:
    """The page, self-contained; everything that comes from the verdict is escaped."""
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(_HERE), autoescape=True, finalize=_visible,
                                     undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters['brief'] = text.brief
    script = _script()
    v = _shown(verdict, beside or Beside(), lambda path: _links(path, directory, root))
    return environment.get_template('page.html.j2').render(
        v=v, figures=figures, version=__version__, script=Markup(script), script_hash=_hash(script),
        data=Markup(v['data']), plot=(curves.WIDTH, curves.HEIGHT, curves.LEFT),
        dots=(ratios.WIDTH, ratios.HEIGHT))


def _shown(verdict: Verdict, beside: Beside, links: Callable[[str], list[tuple[str, str]]]) -> dict[str, Any]:
    """What the page shows, as plain data. ``links`` gives what an output directory holds, and the addresses."""
    given, sources = rows.of_cells(verdict.cells)
    reasons = {r.number: text.visible(r.cell.reason[:_WHOLE]) for r in given if len(r.cell.reason) > rows.SHORT}
    plots, left_out = _plots(beside)
    return {
        'verdict': verdict,
        'when': verdict.session.start[:16].replace('T', ' '),
        'counts': [(word, verdict.counts[word]) for word in (*WORDS[:-1], 'ok') if verdict.counts.get(word)],
        'changes': news.changes(given, beside.before) if beside.before else None,
        'unreadable': beside.unreadable,        # why there are none, although there was a session before
        'differences': beside.differences,
        'attention': news.not_ok(given),
        'causes': {r.number: r.cell.cause.lines() for r in given if r.cell.cause},
        'pairs': [ratios.chart(pair) for pair in beside.pairs or ratios.of_outcomes(verdict.pairs)],
        'table': rows.tables(given, links),
        'columns': _columns(given, beside),
        'partitions': sorted({c.partition for c in verdict.cells}),
        'sources': sources,
        'plots': plots, 'plots_left_out': left_out,
        'nodes': nodes.of_session(verdict.cells, beside.facts, beside.speeds),
        'facts': facts.facts(verdict.session.facts),
        'data': series.as_json(beside.nights or series.Nights(), [news.key(r.cell) for r in given], reasons),
    }


def _columns(given: list[rows.Row], beside: Beside) -> set[str]:
    """change and reference, limit, history: a column that no row fills is not shown."""
    known = {'reference': any(r.reference for r in given), 'limit': any(r.limit for r in given),
             'history': bool(beside.nights and len(beside.nights.labels) > 1)}
    return {name for name, there in known.items() if there}


def _plots(beside: Beside) -> tuple[list[tuple[str, list[curves.Drawn]]], int]:
    """The plots by subsystem, and how many are left out."""
    drawn = sorted(filter(None, map(curves.draw, beside.plots)), key=lambda d: rows.rank(d.plot.subsystem))
    groups = groupby(drawn[:MOST], lambda d: d.plot.subsystem)
    return [(subsystem, list(same)) for subsystem, same in groups], len(drawn[MOST:])


def _links(outputdir: str, directory: Path, root: Path) -> list[tuple[str, str]]:
    """(word, address) of a run's folder and of the files in it that say something, for a page in ``directory``. []
    where the folder is not there, or not below ``root``."""
    folder = text.link(outputdir, directory, root)
    if not folder or not os.path.isdir(outputdir):
        return []
    return [('run', folder), *((word, folder + name) for word, name in _FILES.items()
                               if _says_something(os.path.join(outputdir, name)))]


def _says_something(file: str) -> bool:
    try:
        return os.path.getsize(file) > 0
    except OSError:
        return False


def _script() -> str:
    """Our own, with which the page filters, unfolds and draws: it holds nothing of what a job printed."""
    parts = ''.join((_HERE / name).read_text(encoding='utf-8') for name in _SCRIPTS)
    return f"'use strict';\n(() => {{\n{parts}}})();\n"


def _hash(script: str) -> str:
    """What the page's policy names: no other script runs in it."""
    return 'sha256-' + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _visible(value: object) -> object:
    """Applied by Jinja2 to whatever a template prints, before it is escaped."""
    return text.visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value
