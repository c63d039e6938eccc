"""The text of a verdict's page."""

from __future__ import annotations

import base64
import functools
import hashlib
import os
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup

from parity import __version__
from parity.base import figures, text
from parity.report import drawings, nights, rows
from parity.report.beside import Beside
from parity.verdict.model import WORDS, Verdict

_HERE = Path(__file__).parent
_SCRIPTS = ('spark.js', 'details.js', 'filter.js')
#: Characters of a reason that an opened row tells.
_WHOLE = 2000
#: Word on the page -> the file's name in the run's folder, as ReFrame names it.
_FILES = {'output': 'rfm_job.out', 'errors': 'rfm_job.err', 'script': 'rfm_job.sh'}


def render(verdict: Verdict, directory: Path, root: Path, beside: Beside | None = None) -> str:
    """Return the page, self-contained; everything that comes from the verdict is escaped."""
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(_HERE), autoescape=True, finalize=_visible,
                                     undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters['brief'] = text.brief
    # Our own script filters, unfolds and draws; no other runs, by its hash. It holds nothing that a job printed.
    parts = ''.join((_HERE / name).read_text(encoding='utf-8') for name in _SCRIPTS)
    script = f"'use strict';\n(() => {{\n{parts}}})();\n"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template('page.html.j2').render(
        v=_shown(verdict, beside or Beside(), directory, root), figures=figures, version=__version__,
        script=Markup(script), script_hash=f'sha256-{digest}',
        plot=(drawings.WIDTH, drawings.HEIGHT, drawings.LEFT), dots=(drawings.WIDE, drawings.HIGH))


def _shown(verdict: Verdict, beside: Beside, directory: Path, root: Path) -> dict[str, Any]:
    """Return what the page shows, as plain data."""
    lines, sources = rows.of_cells(verdict.cells)
    history = beside.nights or nights.Nights()
    reasons = {line.number: text.visible(line.reason[:_WHOLE]) for line in lines if len(line.reason) > rows.SHORT}
    drawn = sorted(filter(None, map(drawings.draw, beside.plots)), key=lambda d: rows.rank(d.plot.subsystem))
    plots = groupby(drawn[:drawings.MOST], lambda d: d.plot.subsystem)
    columns = {'reference': any(line.reference for line in lines), 'limit': any(line.limit for line in lines),
               'history': len(history.labels) > 1}
    return {
        'verdict': verdict,
        'when': verdict.session.start[:16].replace('T', ' '),
        'counts': [(word, verdict.counts[word]) for word in WORDS if verdict.counts.get(word)],
        'changes': rows.changes(lines, beside.before) if beside.before else None,
        'unreadable': beside.unreadable,        # why there are no changes, although there was a session before
        'differences': beside.differences,
        'attention': rows.not_ok(lines),
        'causes': {line.number: line.cell.cause.lines() for line in lines if line.cell.cause},
        'pairs': [drawings.chart(pair) for pair in beside.pairs or drawings.of_outcomes(verdict.pairs)],
        'table': rows.tables(lines, functools.partial(_links, directory=directory, root=root)),
        'columns': {name for name, filled in columns.items() if filled},
        'partitions': sorted({c.partition for c in verdict.cells}),
        'sources': sources,
        'plots': [(subsystem, list(same)) for subsystem, same in plots],
        'plots_left_out': len(drawn[drawings.MOST:]),
        'nodes': nights.nodes(verdict.cells, beside.facts, beside.speeds),
        'facts': facts(verdict.session.facts),
        'data': Markup(nights.as_json(history, [rows.key(line.cell) for line in lines], reasons)),
    }


def _links(outputdir: str, directory: Path, root: Path) -> rows.Links:
    """Return word and address of a run's folder and of each file in it that is not empty; only below ``root``."""
    folder = text.link(outputdir, directory, root)
    if not folder or not os.path.isdir(outputdir):
        return []
    files = [(word, name) for word, name in _FILES.items() if _filled(os.path.join(outputdir, name))]
    return [('run', folder), *((word, folder + name) for word, name in files)]


def _filled(file: str) -> bool:
    try:
        return os.path.getsize(file) > 0
    except OSError:
        return False


def _visible(value: object) -> object:
    """Jinja2 applies this to all that a template prints, before it escapes it."""
    return text.visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


# ---- the facts of the machine

class Fact(NamedTuple):
    """Text (and its source), or further facts."""

    name: str
    text: str = ''
    source: str = ''
    inner: list[Fact] = []


#: A key's ending names the unit of its number.
_ENDINGS = {'bytes': 'B', 'hz': 'Hz', 'seconds': 's', 'percent': '%'}
_DEEPEST, _LONG = 8, 400
_LIMIT = {'value', 'unit', 'source', 'certain'}


def facts(given: dict, depth: int = 0) -> list[Fact]:
    """Return nested facts in their order."""
    return [_fact(str(key), value, depth) for key, value in given.items()]


def _fact(key: str, value: Any, depth: int) -> Fact:
    stem, _, ending = key.rpartition('_')
    unit = _ENDINGS.get(ending.lower(), '') if stem and (value is None or _is_number(value)) else ''
    name = text.brief((stem if unit else key).replace('_', ' '), 80)
    if isinstance(value, dict) and 'value' in value and value.keys() <= _LIMIT:
        source = text.brief(str(value.get('source') or 'source not stated'), 240)
        return Fact(name, _scalar(value['value'], str(value.get('unit') or '')),
                    source + (' (certain)' if value.get('certain') else ''))
    if depth < _DEEPEST and isinstance(value, dict) and value:
        return Fact(name, inner=facts(value, depth + 1))
    if not isinstance(value, list) or not value:
        return Fact(name, _scalar(value, unit))
    if depth < _DEEPEST and any(isinstance(v, dict | list) for v in value):
        return Fact(name, inner=[_item(str(i), v, depth + 1) for i, v in enumerate(value, 1)])
    return Fact(name, text.brief(', '.join(map(_scalar, value)), _LONG))


def _item(number: str, value: Any, depth: int) -> Fact:
    """Return one of a list: a cache of one level, for instance, is one line."""
    fact = _fact(number, value, depth)
    if not fact.inner or any(f.inner for f in fact.inner):
        return fact
    return Fact(number, text.brief(', '.join(f'{f.name} {f.text}' for f in fact.inner), _LONG), fact.source)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _scalar(value: Any, unit: str = '') -> str:
    if value is None or value == '':
        return 'not known'
    if isinstance(value, bool):
        return 'yes' if value else 'no'
    if _is_number(value) and (unit or isinstance(value, float)):    # a count may be a name: it keeps its digits
        return figures.figure(value, unit)
    return 'none' if value in ({}, []) else text.brief(str(value), _LONG)
