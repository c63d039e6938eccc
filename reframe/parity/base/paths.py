"""The places of the checkout, the site and the results (docs/files.md), and the version of parity."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from parity import __version__
from parity.base.errors import InfrastructureError, UsageError


def root() -> Path:
    """Return the top of the checkout in use. UsageError where there is none: whatever measures needs one."""
    top = checkout()
    if top is None:
        raise UsageError('this needs a checkout of parity, with its checks: run it there, or let PARITY_ROOT name '
                         'its top')
    return top


#: Where a checkout is, if this library is one's.
ABOVE = Path(__file__).resolve().parents[3]


def checkout() -> Path | None:
    """Return the top of the checkout in use: PARITY_ROOT, else the folder above the library. None where parity was
    installed without one, or runs outside of the one that it was installed from.

    UsageError where PARITY_ROOT names none."""
    named = os.environ.get('PARITY_ROOT')
    if named:
        if not (Path(named) / 'systems').is_dir():
            raise UsageError(f'{named}: no folder systems/ here; PARITY_ROOT must name the top of the checkout')
        return _resolved(named)
    is_checkout = (ABOVE / 'systems').is_dir() and (ABOVE / 'checks').is_dir()
    return ABOVE if is_checkout and _is_in_use(ABOVE) else None


def _is_in_use(top: Path) -> bool:
    """Return whether the checkout's own .venv runs, or the current folder lies in it.

    An editable install in another environment takes its library from a checkout, and may serve any site."""
    own = top / '.venv'
    if own.is_dir() and own.samefile(sys.prefix):
        return True
    try:
        return Path.cwd().is_relative_to(top)
    except FileNotFoundError:       # the current folder was removed
        return False


#: The command that brings nights where there is no checkout.
BRINGS_NIGHTS = 'parity import FILE'


def nightly(system: str = '') -> str:
    """Return the command that brings more nights here; of ``system``, where it is named."""
    if checkout() is None:
        return BRINGS_NIGHTS
    return f'ci/nightly --system {system}' if system else 'ci/nightly'


def site() -> Path:
    """Return the folder that holds systems/: PARITY_SITE (`--site`), else the checkout in use, else
    ~/.config/parity.

    UsageError where PARITY_SITE names no folder."""
    named = os.environ.get('PARITY_SITE')
    if named:
        if not Path(named).is_dir():
            raise UsageError(f'{named}: no such folder; make it, or let --site or PARITY_SITE name another')
        return _resolved(os.path.abspath(named))
    return checkout() or _of_user('XDG_CONFIG_HOME', '.config')


def _of_user(variable: str, default: str) -> Path:
    """Return parity's folder below the one that the XDG base directory specification names."""
    return _resolved(str(Path(os.environ.get(variable) or Path.home() / default) / 'parity'))


def named(file: str | Path) -> str:
    """Return a file's name as a message has it: from the top of the checkout or the site on, if it lies there."""
    file = Path(file).absolute()
    for top in (checkout(), site()):
        if top and file.is_relative_to(top):
            return str(file.relative_to(top))
    return str(file)


def programs() -> Path:
    """Return the folder of programs that jobs start on their nodes: a check copies them to its stage directory."""
    return root() / 'jobs' / 'programs'


@functools.cache
def _resolved(named: str) -> Path:
    return Path(named).resolve()


def results() -> Path:
    """Return the folder that every run writes to: PARITY_RESULTS, else results/ of the site; of ~/.config/parity
    it is ~/.local/share/parity."""
    named = os.environ.get('PARITY_RESULTS')
    if named:
        folder = _resolved(os.path.abspath(named))
    elif site() == _of_user('XDG_CONFIG_HOME', '.config'):
        folder = _of_user('XDG_DATA_HOME', '.local/share')
    else:
        folder = site() / 'results'
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
    with _with_variables({STUDY: name}):
        yield database().parent


@contextlib.contextmanager
def of_results(folder: Path) -> Iterator[None]:
    """Read this results folder, and the site that it lies in, if it does."""
    results = folder.absolute()
    variables = {'PARITY_RESULTS': str(results)}
    site = results.parent
    if (site / 'systems').is_dir():
        variables['PARITY_SITE'] = str(site)
    with _with_variables(variables):
        yield


@contextlib.contextmanager
def _with_variables(variables: dict[str, str]) -> Iterator[None]:
    """Set variables of the environment, and restore them at the end."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


#: These folders measure and judge; other files (docs, a system's references) change no figure.
_OURS = ('reframe', 'checks', 'jobs/programs')


def version() -> str:
    """Return '0.2.0 1a2b3c4d5e', with '+' and a digest where files are changed; outside git the version alone."""
    if checkout() is None:
        return __version__
    commit = _git('log', '-1', '--format=%h', '--abbrev=10', '--', *_OURS).decode().strip()
    if not commit:
        return __version__
    changes = _git('diff', 'HEAD', '--', *_OURS)
    if not changes:
        return f'{__version__} {commit}'
    digest = hashlib.sha256(changes).hexdigest()[:8]
    return f'{__version__} {commit} + {digest}'


def _git(*arguments: str) -> bytes:
    try:
        done = subprocess.run(['git', '-C', str(root()), *arguments], capture_output=True, timeout=20,
                              stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        return b''
    return b'' if done.returncode else done.stdout
