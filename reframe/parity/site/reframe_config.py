"""A site's own configuration of ReFrame, which a system.yaml may name: `reframe_config: /site/settings.py`.

ReFrame checks all of the file and gets it as it is, when something is measured. Here it tells which partitions
there are."""

import contextlib
import functools
import runpy
import stat
import sys
import traceback
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from parity.base import yamlfile
from parity.base.errors import UsageError


class Partition(BaseModel, defer_build=True):
    """The keys of a partition that parity looks at, with ReFrame's defaults."""

    name: str
    descr: str = ''
    scheduler: str
    launcher: str
    access: list[str] = []
    environs: list[str] = []
    max_jobs: int = 8
    features: list[str] = []


class System(BaseModel, defer_build=True):
    """The keys of a system that parity looks at."""

    name: str
    descr: str = ''
    hostnames: list[str]
    partitions: list[Partition] = Field(min_length=1)


class Configuration(BaseModel, defer_build=True):
    """The keys of a configuration that parity looks at."""

    systems: list[System] = Field(min_length=1)


def system(file: Path, name: str, where: str) -> System:
    """Return what the file states of a system. UsageError, which ``where`` begins, for a file that states none."""
    where = f'{where}: reframe_config'
    try:
        stated = site_configuration(file)
    except UsageError as err:
        raise UsageError(f'{where}: {err}') from None
    try:
        systems = Configuration.model_validate(stated).systems
    except ValidationError as err:
        wrong = yamlfile.sentences(stated, Configuration, err.errors())
        lines = [f'{where}: {file}: {".".join(map(str, keys))}: {sentence}' for keys, sentence in wrong]
        raise UsageError('\n'.join(lines)) from None
    names = [entry.name for entry in systems]
    if names.count(name) == 1:
        return systems[names.index(name)]
    states = f'states {name!r} {names.count(name)} times' if name in names else f'has no system {name!r}'
    raise UsageError(f'{where}: {file} {states}; its systems are {", ".join(names)}; '
                     'name: of system.yaml, and its folder, must be one of these names')


def site_configuration(file: Path) -> dict[str, Any]:
    """Return the configuration of a file in Python. UsageError with file and line where it raises."""
    if file.suffix != '.py':
        raise UsageError(f'{file}: must be a configuration of ReFrame in Python, FILE.py')
    try:
        state = file.stat()
    except OSError as err:
        raise UsageError(f'{file}: {err.strerror}; it must be a configuration of ReFrame') from None
    if not stat.S_ISREG(state.st_mode):
        raise UsageError(f'{file}: no regular file; it must be a configuration of ReFrame')
    return _executed(file, state.st_mtime_ns, state.st_size)


@functools.cache
def _executed(file: Path, _changed: int, _size: int) -> dict[str, Any]:
    """Return the configuration that a file assigns. What it prints goes to the standard error."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            names = runpy.run_path(str(file))
    except KeyboardInterrupt:
        raise
    except BaseException as err:        # a file may raise anything, and end the process, too
        why = ' '.join(str(err).split())
        raise UsageError(f'{file}:{_line(file, err)}: {type(err).__name__}: {why}; correct it, or import what it '
                         'needs where parity runs') from None
    if not isinstance(names.get('site_configuration'), dict):
        raise UsageError(f'{file}: assigns no site_configuration; it must be a configuration of ReFrame')
    return names['site_configuration']


def _line(file: Path, err: BaseException) -> int:
    """Return the line of the file that raised."""
    if isinstance(err, SyntaxError) and err.filename == str(file):
        return err.lineno or 1
    line = 1
    for frame in traceback.extract_tb(err.__traceback__):
        if frame.filename == str(file):
            line = frame.lineno
    return line
