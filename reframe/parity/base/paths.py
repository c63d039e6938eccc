"""The places of the checkout and of the results, and the version of parity."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from parity import __version__
from parity.base.errors import InfrastructureError, UsageError


def root() -> Path:
    """Return the top of the checkout: PARITY_ROOT, or the folder above the library with systems/ and checks/."""
    named = os.environ.get('PARITY_ROOT')
    top = Path(named) if named else Path(__file__).resolve().parents[3]
    if not (top / 'systems').is_dir():
        raise UsageError(f'{top}: no folder systems/ here; PARITY_ROOT must name the top of the checkout')
    return _resolved(str(top))


def named(file: str | Path) -> str:
    """Return a file's name as a message has it: from the top of the checkout on, where it lies there."""
    file = Path(file).absolute()
    return str(file.relative_to(root()) if file.is_relative_to(root()) else file)


def programs() -> Path:
    """Return the folder of programs that jobs start on their nodes: a check copies them to its stage directory."""
    return root() / 'jobs' / 'programs'


@functools.cache
def _resolved(named: str) -> Path:
    return Path(named).resolve()


def results() -> Path:
    """Return the folder that every run writes to: results/ at the top, or ``PARITY_RESULTS``."""
    named = os.environ.get('PARITY_RESULTS')
    folder = _resolved(os.path.abspath(named)) if named else root() / 'results'
    if folder.exists() and not folder.is_dir():
        raise InfrastructureError(f'{folder}: not a folder; PARITY_RESULTS names where results go')
    return folder


#: Names the study whose results database this process uses, and all that it starts.
STUDY = 'PARITY_STUDY'


#: Seconds that another process may hold the results database: ReFrame waits as long to store a session.
PATIENCE = 300.0


def database() -> Path:
    """Return the file of ReFrame's results database. A study has its own: nothing else reads its sessions."""
    study = os.environ.get(STUDY)
    return (results() / 'studies' / study if study else results()) / 'results.db'


@contextlib.contextmanager
def of_study(name: str) -> Iterator[Path]:
    """Use the results database of a study, that of no study for ''; yields its folder."""
    before = os.environ.get(STUDY)
    os.environ[STUDY] = name
    try:
        yield database().parent
    finally:
        os.environ.pop(STUDY)
        if before is not None:
            os.environ[STUDY] = before


#: These folders measure and judge; other files (docs, a system's references) change no figure.
_OURS = ('reframe', 'checks', 'jobs/programs')


def version() -> str:
    """Return '0.2.0 1a2b3c4d5e', with '+' and a digest where files are changed; outside git the version alone."""
    commit = _git('log', '-1', '--format=%h', '--abbrev=10', '--', *_OURS).decode().strip()
    if not commit:
        return __version__
    changed = _git('diff', 'HEAD', '--', *_OURS)
    return f'{__version__} {commit}' + (f' + {hashlib.sha256(changed).hexdigest()[:8]}' if changed else '')


def _git(*arguments: str) -> bytes:
    try:
        done = subprocess.run(['git', '-C', str(root()), *arguments], capture_output=True, timeout=20,
                              stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        return b''
    return b'' if done.returncode else done.stdout
