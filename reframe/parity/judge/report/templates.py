"""The templates of all pages."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from parity.base import text


def template(name: str, *folders: Path, **names: Any) -> jinja2.Template:
    """Return a template, which escapes all that it prints. ``folders``: of a package with templates of its own;
    ``names``: functions and modules that it calls."""
    return environment(*folders, **names).get_template(name)


@functools.cache
def environment(*folders: Path, **names: Any) -> jinja2.Environment:
    """Return what the templates have in common. Each template, also of macros, is compiled once in it."""
    own_folder = Path(__file__).parent
    loader = jinja2.FileSystemLoader([*folders, own_folder])
    common = jinja2.Environment(
        loader=loader,
        autoescape=True,
        finalize=_visible,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True)
    common.filters.update(brief=text.brief, zip=zip)
    common.globals.update(names)
    return common


def _visible(value: object) -> object:
    """Jinja2 applies this to all that a template prints, before it escapes it."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return text.visible(value)
    return value
