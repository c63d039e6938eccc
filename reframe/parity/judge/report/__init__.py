"""Write the report of one verdict: the page that a person opens, and the documents for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from parity.base import files, paths
from parity.judge.report import answer
from parity.judge.report.answer import Answered
from parity.judge.verdict.model import Verdict

if TYPE_CHECKING:
    from parity.judge.report.previous import Previous


def of_session(verdict: Verdict, directory: Path | None = None, answered: Answered | None = None) -> list[Path]:
    """Write the report of a stored session into ``directory``, results/report by default; return its files.

    ``answered``: the verdict with its answer, where that is worked out already."""
    from parity.judge.report import previous
    where = directory or paths.results() / 'report'
    return write(verdict, where, paths.site(), previous.of_session(verdict), answered)


def write(verdict: Verdict, directory: Path, root: Path, previous: Previous | None = None,
          answered: Answered | None = None) -> list[Path]:
    """Write the report into ``directory`` and return its files; the page links outputs below ``root``.

    Raises OSError and leaves the old report as it was where a file cannot be written."""
    # Here and not above: Jinja2 and XML are loaded only where a page is asked for.
    from parity.judge.report import documents, page
    full = answered or answer.answered(verdict)
    pages = page.render(full, directory, root, previous)
    main = directory / 'index.html'
    json = directory / 'verdict.json'
    junit = directory / 'junit.xml'
    contents = {main: pages.pop('index.html').encode(),
                json: documents.as_json(full).encode() + b'\n',
                junit: documents.junit(verdict)}
    for name, content in pages.items():
        contents[directory / name] = content.encode()
    files.write_all(contents)
    there = {*directory.glob('figures/*.html'), *directory.glob('incidents/*.html')}
    for old in there - contents.keys():
        old.unlink()
    return [main, json, junit]
