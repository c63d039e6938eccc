"""The page of one verdict, which a person opens, and the same for other programs: JSON, and JUnit's XML."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticSerializationError

from parity.base import files, paths
from parity.verdict.model import Verdict

if TYPE_CHECKING:
    from parity.report.beside import Beside


def of_session(verdict: Verdict) -> list[Path]:
    """Write results/report of a stored session, and return its files."""
    from parity.report import beside
    return write(verdict, paths.results() / 'report', paths.root(), beside.of_session(verdict))


def write(verdict: Verdict, directory: Path, root: Path, beside: Beside | None = None) -> list[Path]:
    """Write the report into ``directory`` and return its files; the page links outputs below ``root``.

    Raises OSError and leaves the old report as it was where a file cannot be written."""
    # Here and not above: Jinja2 is loaded only where a page is asked for.
    from parity.report import junit, page
    contents = {'index.html': page.render(verdict, directory, root, beside).encode(),
                'verdict.json': _json(verdict).encode() + b'\n', 'junit.xml': junit.render(verdict)}
    files.write_all({directory / name: content for name, content in contents.items()})
    return [directory / name for name in contents]


def _json(verdict: Verdict) -> str:
    try:
        return verdict.model_dump_json(indent=1)
    except PydanticSerializationError:
        # Half a surrogate pair: Python's way to carry a path or an argument that is not UTF-8.
        return Verdict.model_validate(_encodable(verdict.model_dump())).model_dump_json(indent=1)


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode('utf-8', 'backslashreplace').decode()
    if isinstance(value, dict):
        return {_encodable(k): _encodable(v) for k, v in value.items()}
    return [_encodable(v) for v in value] if isinstance(value, list | tuple) else value
