"""What is left of a run, and the relative address of each of its files."""

from __future__ import annotations

import os
from pathlib import Path

from parity.base import text

#: Word on the page -> the file's name in the run's folder, as ReFrame names it.
_FILES = {'output': 'rfm_job.out', 'errors': 'rfm_job.err', 'script': 'rfm_job.sh'}


def of_run(outputdir: str, directory: Path, root: Path) -> list[tuple[str, str]]:
    """(word, address) of the run's folder and of the files in it that say something, for a page in ``directory``.

    [] where the folder is not there, or not below ``root``.
    """
    folder = text.link(outputdir, directory, root)
    if not folder or not os.path.isdir(outputdir):
        return []
    files = [(word, folder + name) for word, name in _FILES.items() if _says_something(outputdir, name)]
    return [('run', folder), *files]


def _says_something(folder: str, name: str) -> bool:
    try:
        return os.path.getsize(os.path.join(folder, name)) > 0
    except OSError:
        return False
