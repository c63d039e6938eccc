"""The page of one verdict, which a person opens, and what other programs read: JSON, and JUnit's XML."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticSerializationError

from parity.base import paths
from parity.verdict.model import Verdict

if TYPE_CHECKING:
    from parity.report.beside import Beside

PAGE = 'index.html'
DATA = 'verdict.json'
JUNIT = 'junit.xml'


def of_session(verdict: Verdict) -> list[Path]:
    """Write results/report of a stored session, with what stands beside its verdict; returns its files."""
    from parity.report import beside
    return write(verdict, paths.results() / 'report', paths.root(), beside.of_session(verdict))


def write(verdict: Verdict, directory: Path, root: Path, beside: Beside | None = None) -> list[Path]:
    """Write the report into ``directory`` and return its files; the page links outputs below ``root``.

    The files are written whole beside the old ones and then put in their place, the page last.
    When anything fails the old report stands as it was, and the OSError is the caller's."""
    # Here and not above: Jinja2 is loaded only where a page is asked for.
    from parity.report import junit, page

    directory.mkdir(parents=True, exist_ok=True)
    _replace_all(directory, {
        DATA: _json(verdict).encode() + b'\n',
        JUNIT: junit.render(verdict),
        PAGE: page.render(verdict, directory, root, beside).encode(),
    })
    return [directory / name for name in (PAGE, DATA, JUNIT)]


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


def _replace_all(directory: Path, contents: dict[str, bytes]) -> None:
    """Replace the files that ``contents`` names, in its order: all of them, or none."""
    with tempfile.TemporaryDirectory(prefix='.report-', dir=directory, ignore_cleanup_errors=True) as aside:
        old, new = Path(aside, 'old'), Path(aside, 'new')
        old.mkdir()
        new.mkdir()
        for name, content in contents.items():
            with suppress(FileNotFoundError):   # copied while there is room: putting it back must not need any
                shutil.copy2(directory / name, old / name)
            with open(new / name, 'xb') as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        try:
            for name in contents:
                os.replace(new / name, directory / name)
        except BaseException:
            for name in contents:
                _put_back(directory / name, old / name)
            raise
    with suppress(OSError):     # the report is complete, and some network file systems refuse to sync a folder
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _put_back(path: Path, copy: Path) -> None:
    with suppress(OSError):     # a failure here must not hide the one that brought us here
        if copy.exists():
            os.replace(copy, path)
        else:
            path.unlink(missing_ok=True)
