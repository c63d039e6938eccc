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
    own = paths.root() / 'studies'
    outside = os.environ.get(FOLDER)
    if not outside:
        return [own]
    if not Path(outside).is_dir():
        raise UsageError(f'--studies {outside}: no such folder; make it, or name another')
    return [own, Path(outside)]


def names() -> list[str]:
    there = set()
    for top in folders():
        there.update(place.name for place in top.glob('*') if _has_study(place))
    return sorted(there)


def _has_study(folder: Path) -> bool:
    """Return whether a folder has a study.yaml, be it a link to nothing."""
    return os.path.lexists(folder / 'study.yaml')


def folder(name: str) -> Path:
    """Return the folder of a study. UsageError names the valid studies, and both folders that have one name."""
    if not NAME.fullmatch(name) or name not in names():
        raise UsageError(unknown('study', name, names() or ['none']))
    places = [top / name for top in folders()]
    first, *others = filter(_has_study, places)
    if others:
        raise UsageError(f'{first} and {others[0]} have one name: rename one')
    return first


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
    if not wrong:
        return
    file = folder(name) / 'study.yaml'
    _, node = yamlfile.load(file)
    lines = []
    for keys, sentence in wrong:
        key = '.'.join(map(str, keys))
        lines.append(f'{file}:{yamlfile.line_of(node, keys)}: {key}: {sentence}')
    raise UsageError('\n'.join(lines))
