"""Run a parity command in this process, as `python -m parity.cli` would: starting Python takes longer than most answers."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import runpy
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from unittest import mock

import typer.main

from conftest import PATIENCE, TOP
from parity import cli
from parity.base import codes
from parity.judge.report import templates

#: Typer makes its parsers of all commands for each call: that took longer than most answers.
typer.main.get_command = functools.cache(typer.main.get_command)


def parity(*arguments: str, stdin: str = '', **env: str) -> subprocess.CompletedProcess:
    """Exit code, standard output and standard error of `parity ARGUMENTS`, in the top folder."""
    return _ended(cli.main, ['parity', *arguments], stdin, env)


def module(name: str, *arguments: str) -> subprocess.CompletedProcess:
    """Those of `python -m NAME ARGUMENTS`."""
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', RuntimeWarning)     # it is loaded already
        return _ended(lambda: runpy.run_module(name, run_name='__main__'), [name, *arguments], '', {})


def _ended(call: Callable[[], object], argv: list[str], stdin: str, env: dict[str, str]) -> subprocess.CompletedProcess:
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding='utf-8', errors='backslashreplace') for _ in range(2))
    source = io.TextIOWrapper(io.BytesIO(stdin.encode('utf-8', 'surrogateescape')), encoding='utf-8')
    with (_in_the_top_folder(), mock.patch.dict(os.environ, env), mock.patch.object(sys, 'argv', argv),
          mock.patch.object(sys, 'stdin', source), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)):
        _forget()
        code = _exit_code(call)
    texts = [stream.buffer.getvalue().decode() for stream in (out, err) if not stream.flush()]
    return subprocess.CompletedProcess(argv, code, *texts)


def process(*arguments: str, **options) -> subprocess.CompletedProcess:
    """The same in a process of its own; one test of each command needs it, to know that the command starts."""
    return subprocess.run([sys.executable, '-m', 'parity.cli', *arguments], capture_output=True, text=True, cwd=TOP,
                          timeout=PATIENCE, **options)


def _exit_code(call: Callable[[], object]) -> int:
    try:
        call()
    except SystemExit as end:
        return end.code or 0
    return 0


def _forget() -> None:
    """What a process before this one read is unknown to it, but for what no test changes: the templates, and the codes of
    this checkout."""
    own = Path(os.environ.get('PARITY_ROOT') or TOP, 'checks')
    kept = {templates.environment}
    if own == TOP / 'checks' or not own.is_dir():
        kept.add(codes._below)
    for cached in _cached():
        if cached not in kept:
            cached.cache_clear()


#: The functions of each module of parity's that keep their answers.
_keeping: dict[ModuleType, list[Callable]] = {}


def _cached() -> Iterator[Callable]:
    """Yield parity's functions that keep their answers. A module is searched once: that takes longer than most answers."""
    for name, module in list(sys.modules.items()):
        if name.startswith('parity.') and module not in _keeping:
            _keeping[module] = [value for value in vars(module).values() if callable(getattr(value, 'cache_clear', None))]
    for functions in _keeping.values():
        yield from functions


@contextlib.contextmanager
def _in_the_top_folder() -> Iterator[None]:
    before = os.getcwd()
    os.chdir(TOP)
    try:
        yield
    finally:
        os.chdir(before)
