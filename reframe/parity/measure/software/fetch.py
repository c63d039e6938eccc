"""Spack and its recipes, fetched at pinned versions where this machine has none.

A clone is made aside and renamed when it is whole: what a killed one left is never used."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from parity.base import files, paths
from parity.base.errors import InfrastructureError, UsageError
from parity.base.figures import duration, figure
from parity.measure.software.blas import attempt

#: Where Spack comes from, and the release that spack.yaml is tried with.
URL, RELEASE = 'https://github.com/spack/spack.git', 'v1.1.0'
#: A network that is closed may not answer at all.
_ANSWER_SECONDS = 30.0
#: git gives up below 1 kB/s for a minute, asks nobody for a password, and does not explain detached heads.
_GIT = ('git', '-c', 'http.lowSpeedLimit=1000', '-c', 'http.lowSpeedTime=60', '-c', 'advice.detachedHead=false')
_REACH = 'let this machine reach it (https_proxy names a proxy), '
_SET_SPACK = 'set SPACK_ROOT, put spack on PATH, '
_BRING = 'or name with PARITY_SOFTWARE_BUNDLE a bundle that parity software mirror makes on another machine'


def spack() -> Path:
    """Return the folder of the Spack that parity fetches, whether or not it is there."""
    return paths.results() / 'software' / f'spack-{RELEASE}'


def clone(what: str, url: str, tag: str, target: Path) -> None:
    """Clone a tag of ``url``, without its history, to ``target`` unless that is there.

    Raise UsageError where git or the tag is not there, InfrastructureError where the clone fails."""
    if target.exists():
        return
    fails = f'{what} {tag} cannot be fetched from {url}'
    instead = (_SET_SPACK if url == URL else '') + _BRING
    if not shutil.which('git'):
        raise UsageError(f'{fails}: no git on PATH: install it (Debian: apt install git), {instead}')
    asked = attempt([*_GIT, 'ls-remote', '--exit-code', url, f'refs/tags/{tag}'], _environ(), _ANSWER_SECONDS)
    if asked.code == 2:                 # as git documents it: no such reference
        raise UsageError(f'{url}: has no tag {tag}, which {what} is pinned to: correct the tag or the address')
    if not asked.ok:
        words = _words(asked.err) if asked.err else asked.why
        raise InfrastructureError(f'{fails}: git: {words}: {_REACH}{instead}')
    try:
        with files.alone(target.parent / f'.{target.name}.lock', f'fetches {what}') as lock:
            if target.exists():
                return
            print(f'parity: fetching {what} {tag} from {url} to {target}, once', flush=True)
            printed = _clone_aside(what, url, tag, target, lock)
    except OSError as err:
        todo = advice(str(err), target.parent) or 'PARITY_RESULTS names another folder'
        raise InfrastructureError(f'{err.filename or target}: {err.strerror}: {what} cannot be fetched: {todo}'
                                  ) from None
    if printed is not None:
        todo = advice(printed, target.parent) or _REACH + instead
        raise InfrastructureError(f'{fails}: git: {_words(printed)}: {todo}')


def _environ() -> dict[str, str]:
    return {**os.environ, 'GIT_TERMINAL_PROMPT': '0'}


def _clone_aside(what: str, url: str, tag: str, target: Path, lock: int) -> str | None:
    """Clone beside the target, and rename the clone once it is whole. Return git's complaint where it fails."""
    from parity.base import console  # it loads Rich, which the settings of a run need not
    part = target.with_name(f'{target.name}.part')
    shutil.rmtree(part, ignore_errors=True)
    began = time.monotonic()

    def state() -> tuple[int, int, str]:
        return 0, 0, f'fetching {what}, {duration(time.monotonic() - began)} so far'

    with console.progress(state):
        # git has the lock, too: it may live on for a while when parity is killed
        done = subprocess.run([*_GIT, 'clone', '--quiet', '--depth', '1', '--branch', tag, url, str(part)],
                              env=_environ(), text=True, errors='replace', stdin=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, pass_fds=[lock])
    if done.returncode:
        shutil.rmtree(part, ignore_errors=True)
        return done.stderr
    part.rename(target)
    return None


def _words(said: str) -> str:
    """Return git's own words on what failed, without the lines that follow from it."""
    lines = said.strip().splitlines()
    failures = [line.strip() for line in lines if line.strip().startswith(('fatal:', 'error:'))]
    if failures:
        return '; '.join(dict.fromkeys(failures[:2]))
    return lines[-1] if lines else 'no words'


def advice(said: str, folder: Path) -> str:
    """Return what to do where git or Spack says that a disk is full, or that no source came; '' otherwise."""
    # git says of many a full disk only that it is unable to write a file
    if any(words in said for words in ('No space left on device', 'Disk quota exceeded', 'unable to write file')):
        free = figure(shutil.disk_usage(folder).free, 'B')
        return (f'{free} are free at {folder}: make room (Spack and its recipes need 150 MB, builds more), '
                'or name another folder with PARITY_RESULTS')
    return f'sources are not here and cannot be fetched: {_REACH}{_BRING}' if 'All fetchers failed' in said else ''
