"""The page of one verdict, which a person opens, and what other programs read: JSON, and JUnit's XML."""

from __future__ import annotations

import os
import shutil
import uuid
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
    """Write results/report of a stored session, with what stands beside its verdict; returns its files.

    Raises as `write` does, and InfrastructureError where the database cannot be read.
    """
    from parity.report import beside
    return write(verdict, paths.results() / 'report', paths.root(), beside.of_session(verdict))


def write(verdict: Verdict, directory: Path, root: Path, beside: Beside | None = None) -> list[Path]:
    """Write the report into ``directory`` and return its files; the page links outputs below ``root``.

    The files are written whole beside the old ones and then put in their place, the page last.
    When anything fails the old report stands as it was, and the OSError is the caller's.
    """
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
    """Replace the files ``contents`` names, in its order: all of them, or none."""
    mark = uuid.uuid4().hex[:8]
    new = {name: directory / f'.{name}.{mark}.new' for name in contents}
    old = {name: directory / f'.{name}.{mark}.old' for name in contents}
    try:
        for name, content in contents.items():
            _keep(directory / name, old[name])
            _write(new[name], content)
        _exchange(directory, new, old)
    finally:
        for path in (*new.values(), *old.values()):
            with suppress(OSError):
                path.unlink(missing_ok=True)


def _keep(path: Path, copy: Path) -> None:
    """Copy what is to be replaced while there is still room: putting it back must not need any."""
    with suppress(FileNotFoundError):
        shutil.copy2(path, copy)


def _write(path: Path, content: bytes) -> None:
    with open(path, 'xb') as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _exchange(directory: Path, new: dict[str, Path], old: dict[str, Path]) -> None:
    done: list[str] = []
    try:
        for name, path in new.items():
            os.replace(path, directory / name)
            done.append(name)
    except BaseException:
        for name in done:
            _put_back(directory / name, old[name])
        raise
    _sync_folder(directory)


def _put_back(path: Path, copy: Path) -> None:
    # A failure here must not hide the one that brought us here.
    with suppress(OSError):
        if copy.exists():
            os.replace(copy, path)
        else:
            path.unlink()


def _sync_folder(directory: Path) -> None:
    # The report is complete already, and some network file systems refuse to sync a folder.
    with suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
