"""Run a parity command in this process, as `python -m parity.cli` would: starting Python takes longer than most answers."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from conftest import PATIENCE, TOP
from parity import cli
from parity.base import codes


def parity(*arguments: str, stdin: str = '', **env: str) -> subprocess.CompletedProcess:
    """Exit code, standard output and standard error of `parity ARGUMENTS`, in the top folder."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding='utf-8', errors='backslashreplace') for _ in range(2))
    source = io.TextIOWrapper(io.BytesIO(stdin.encode('utf-8', 'surrogateescape')), encoding='utf-8')
    with (_in_the_top_folder(), mock.patch.dict(os.environ, env), mock.patch.object(sys, 'argv', ['parity', *arguments]),
          mock.patch.object(sys, 'stdin', source), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)):
        _forget()
        code = _exit_code()
    texts = [stream.buffer.getvalue().decode() for stream in (out, err) if not stream.flush()]
    return subprocess.CompletedProcess(['parity', *arguments], code, *texts)


def process(*arguments: str, **options) -> subprocess.CompletedProcess:
    """The same in a process of its own; one test of each command needs it, to know that the command starts."""
    return subprocess.run([sys.executable, '-m', 'parity.cli', *arguments], capture_output=True, text=True, cwd=TOP,
                          timeout=PATIENCE, **options)


def _exit_code() -> int:
    try:
        cli.main()
    except SystemExit as end:
        return end.code or 0
    return 0


def _forget() -> None:
    """What a process before this one read is unknown to it, but for the codes of this checkout, which no test changes."""
    own = Path(os.environ.get('PARITY_ROOT') or TOP, 'checks')
    kept = codes._below if own == TOP / 'checks' or not own.is_dir() else None
    for name, module in list(sys.modules.items()):
        if name.startswith('parity.'):
            for value in list(vars(module).values()):
                if value is not kept and callable(getattr(value, 'cache_clear', None)):
                    value.cache_clear()


@contextlib.contextmanager
def _in_the_top_folder() -> Iterator[None]:
    before = os.getcwd()
    os.chdir(TOP)
    try:
        yield
    finally:
        os.chdir(before)
