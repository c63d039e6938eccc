"""Commands in forks of one process that has loaded ReFrame and parity: loading takes longer than most of them."""

from __future__ import annotations

import atexit
import functools
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

from conftest import MARK, TOP, activated
from warm_server import argv_of


@functools.cache
def _server() -> subprocess.Popen:
    """Start the process. It outlives the test that asks first, and ends with this process."""
    environ = {name: value for name, value in os.environ.items() if name != MARK}
    server = subprocess.Popen([sys.executable, TOP / 'tests' / 'warm_server.py'], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True, env={**environ, 'PYTHONPATH': str(TOP / 'reframe')})
    atexit.register(server.wait)
    atexit.register(server.stdin.close)     # is called before the other
    return server


def _ran(argv: list[str], cwd: Path | str, env: dict[str, str], merged: bool = False) -> subprocess.CompletedProcess:
    """Run a command to its end; its errors are among its output if ``merged``."""
    server = _server()
    with tempfile.TemporaryDirectory(prefix='parity-warm-') as folder:
        out = Path(folder, 'out')
        err = out if merged else Path(folder, 'err')
        asked = {'argv': argv, 'cwd': str(cwd), 'env': env, 'out': str(out), 'err': str(err)}
        server.stdin.write(json.dumps(asked) + '\n')
        server.stdin.flush()
        code = int(server.stdout.readline())
        return subprocess.CompletedProcess(argv, code, out.read_text(), err.read_text())


def _active(checkout: Path) -> dict[str, str]:
    """The environment after `. ci/activate` of a checkout."""
    return {**os.environ, 'PARITY_ROOT': str(checkout), 'RFM_CONFIG_FILES': str(checkout / 'reframe' / 'settings.py'),
            'PATH': activated(checkout, os.environ['PATH'])}


def reframe(checkout: Path, words: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess:
    """`. ci/activate && reframe WORDS` of a checkout, in its folder or another; the library is this checkout's."""
    return _ran(['reframe', *shlex.split(words)], cwd or checkout, {**_active(checkout), **env})


def nightly(checkout: Path, words: str, **env: str) -> subprocess.CompletedProcess:
    """`ci/nightly WORDS` of a checkout; the library is this checkout's, but for the runs of ReFrame."""
    return _ran(['parity.nightly', *shlex.split(words)], checkout, {**_active(checkout), **env})


def parity(checkout: Path, words: str, **env: str) -> subprocess.CompletedProcess:
    """`. ci/activate && parity WORDS` of a checkout, in its folder; the library is this checkout's."""
    return _ran(['parity.cli', *shlex.split(words)], checkout, {**_active(checkout), **env})


def line(checkout: Path, text: str, **env: str) -> subprocess.CompletedProcess:
    """A line that a page shows, of one of these commands."""
    program, _, words = text.partition(' ')
    run = {'reframe': reframe, 'ci/nightly': nightly, 'parity': parity}[program]
    return run(checkout, words, **env)


def _run_warm(command: list[str], env: dict[str, str], stderr: int | None = None, **_) -> subprocess.CompletedProcess:
    return _ran(argv_of(command), os.getcwd(), env, merged=stderr == subprocess.STDOUT)


#: Takes the place of the module subprocess where parity asks ReFrame for a plan, or rehearses it.
SUBPROCESS = SimpleNamespace(**{**vars(subprocess), 'run': _run_warm})
