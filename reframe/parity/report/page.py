"""From a verdict to the text of its page."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import jinja2
from markupsafe import Markup

from parity import __version__
from parity.base import figures, text
from parity.report import links, ratios, view
from parity.report.beside import Beside
from parity.report.drawing import HEIGHT, LEFT, WIDTH
from parity.verdict.model import Verdict

_HERE = Path(__file__).parent
_SCRIPTS = ('spark.js', 'details.js', 'filter.js')


def render(verdict: Verdict, directory: Path, root: Path, beside: Beside | None = None) -> str:
    """The page, self-contained; everything that comes from the verdict is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        finalize=_visible,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters['brief'] = text.brief
    script = _script()
    v = view.build(verdict, beside or Beside(), lambda path: links.of_run(path, directory, root))
    return environment.get_template('page.html.j2').render(
        v=v, figures=figures, version=__version__, script=Markup(script), script_hash=_hash(script),
        data=Markup(v.data), plot=(WIDTH, HEIGHT, LEFT), dots=(ratios.WIDTH, ratios.HEIGHT))


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
