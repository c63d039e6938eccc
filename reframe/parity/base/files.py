"""Files that other processes read at any time: written whole, or not at all."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path


def write(file: Path, text: str | bytes) -> Path:
    """Write ``file`` aside, then rename it. Follows a link, keeps the permissions, makes the folder."""
    return replace(file, lambda aside: aside.write_bytes(text.encode() if isinstance(text, str) else text))


def update(file: Path, text: str) -> Path:
    """``write``, but leave a file alone that has this text already."""
    return file if file.exists() and file.read_bytes() == text.encode() else write(file, text)


def replace(file: Path, make: Callable[[Path], object]) -> Path:
    """``write`` with what ``make`` writes."""
    file = file.resolve()
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_name(f'.{file.name}.{os.getpid()}')
    try:
        make(aside)
        if file.exists():
            aside.chmod(file.stat().st_mode & 0o777)
        os.replace(aside, file)
    finally:
        aside.unlink(missing_ok=True)
    return file


def sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open('rb') as data:
        while block := data.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
