"""Published studies: studies/NAME holds study.yaml (parity.study.published.model), published.csv and README.md."""

from __future__ import annotations

import os
import re
from pathlib import Path

from parity.base import files, paths, yamlfile
from parity.base.errors import UsageError, unknown
from parity.study.published import problems
from parity.study.published.model import Study

#: A folder of studies outside the checkout.
FOLDER = 'PARITY_STUDIES'
NAME = re.compile(r'[A-Za-z0-9][\w-]*')


def folders() -> list[Path]:
    """Return the folders of studies: the checkout's, and the one that --studies names."""
    outside = os.environ.get(FOLDER)
    if outside and not Path(outside).is_dir():
        raise UsageError(f'--studies {outside}: no such folder; make it, or name another')
    return [paths.root() / 'studies', *([Path(outside)] if outside else [])]


def names() -> list[str]:
    return sorted({top.name for folder in folders() for top in folder.glob('*') if _has_study(top)})


def _has_study(folder: Path) -> bool:
    """Return whether a folder has a study.yaml, be it a link to nothing."""
    return os.path.lexists(folder / 'study.yaml')


def folder(name: str) -> Path:
    """Return the folder of a study. UsageError names the valid studies, and both folders that have one name."""
    found = [top / name for top in folders() if NAME.fullmatch(name) and _has_study(top / name)]
    if not found:
        raise UsageError(unknown('study', name, names() or ['none']))
    if found[1:]:
        raise UsageError(f'{found[0]} and {found[1]} have one name: rename one')
    return found[0]


def file_of(name: str, file: str) -> Path:
    """Return a file of a study. UsageError for a link that leaves its folder, and for what is no regular file:
    a study may be a stranger's, and messages quote its files."""
    home = folder(name)
    path = home / file
    files.demand_file(path)
    if not path.resolve().is_relative_to(home.resolve()):
        raise UsageError(f'{path}: a link that leaves the folder of the study; copy the file into it')
    return path


def read(name: str) -> Study:
    """Read a study's file. UsageError names the valid studies, or file, line and key."""
    study = yamlfile.read(file_of(name, 'study.yaml'), Study)
    refuse(name, list(problems.of_study(study)))
    return study


def refuse(name: str, wrong: list[tuple[tuple, str]]) -> None:
    """Raise UsageError with file and line for each (keys of study.yaml, sentence); nothing for none."""
    if wrong:
        file = folder(name) / 'study.yaml'
        node = yamlfile.load(file)[1]
        raise UsageError('\n'.join(f'{file}:{yamlfile.line_of(node, keys)}: {".".join(map(str, keys))}: {what}'
                                   for keys, what in wrong))
