"""From a verdict to the text of its page."""

from __future__ import annotations

from pathlib import Path

import jinja2
from markupsafe import Markup

from parity import __version__, figures
from parity.report import text, view
from parity.verdict.model import Verdict


def render(verdict: Verdict, directory: Path, root: Path) -> str:
    """The page, self-contained; everything that comes from the verdict is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        finalize=_visible,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters['brief'] = text.brief
    return environment.get_template('page.html.j2').render(
        v=view.build(verdict, lambda path: text.link(path, directory, root)),
        figures=figures,
        version=__version__,
    )


def _visible(value: object) -> object:
    """Applied by Jinja2 to whatever a template prints, before it is escaped."""
    return text.visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value
