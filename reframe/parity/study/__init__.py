"""Published studies: studies/NAME holds study.yaml (parity.study.model), published.csv and README.md."""

from __future__ import annotations

from parity.base import paths, yamlfile
from parity.base.errors import UsageError, unknown
from parity.study import problems
from parity.study.model import Study


def names() -> list[str]:
    return sorted(file.parent.name for file in (paths.root() / 'studies').glob('*/study.yaml'))


def read(name: str) -> Study:
    """Read a study's file. UsageError names the valid studies, or file, line and key."""
    if name not in names():
        raise UsageError(unknown('study', name, names() or ['none']))
    file = paths.root() / 'studies' / name / 'study.yaml'
    study = yamlfile.read(file, Study)
    refuse(name, list(problems.of_study(study)))
    return study


def refuse(name: str, wrong: list[tuple[tuple, str]]) -> None:
    """Raise UsageError with file and line for each (keys of study.yaml, sentence); nothing for none."""
    if wrong:
        file = paths.root() / 'studies' / name / 'study.yaml'
        node = yamlfile.load(file)[1]
        raise UsageError('\n'.join(f'{file}:{yamlfile.line_of(node, keys)}: {".".join(map(str, keys))}: {what}'
                                   for keys, what in wrong))
