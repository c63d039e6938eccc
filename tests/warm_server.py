"""A process that has loaded ReFrame and parity, and forks for each command that it reads: a line of JSON.

It answers with the exit code of the command. `warm.py` starts it."""

from __future__ import annotations

import gc
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import warnings
from types import SimpleNamespace
from typing import NoReturn

import reframe.frontend.cli
import rich.console  # noqa: F401

# loaded for the commands; Polars and SciPy would start threads
import parity.check  # noqa: F401
import parity.cli  # noqa: F401
from parity.measure.rfm import capture, planning  # noqa: F401
from parity.measure.session import assemble, runner  # noqa: F401
from parity.nightly import doctor, guard, run  # noqa: F401


def become(argv: list[str], env: dict[str, str], out: str, err: str) -> None:
    """Run a command in this process: `reframe WORDS` or `MODULE WORDS`."""
    for number, name, mode in ((0, os.devnull, os.O_RDONLY), (1, out, os.O_WRONLY), (2, err, os.O_WRONLY)):
        os.dup2(os.open(name, mode | os.O_CREAT | os.O_APPEND), number)
    os.environ.clear()
    os.environ.update(env)
    sys.argv[:] = argv
    if argv[0] == 'reframe':
        sys.exit(reframe.frontend.cli.main())
    warnings.filterwarnings('ignore', message='.* found in sys.modules', category=RuntimeWarning)
    runpy.run_module(argv[0], run_name='__main__', alter_sys=True)


def exit_code(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run_forked(command: list[str], env: dict[str, str], stderr: int | None = None, **_) -> subprocess.CompletedProcess:
    """Take the place of subprocess.run where a night asks ReFrame for a plan or rehearses it: a fork forks again."""
    with tempfile.TemporaryDirectory(prefix='parity-warm-') as folder:
        out = f'{folder}/out'
        err = out if stderr == subprocess.STDOUT else f'{folder}/err'
        child = os.fork()
        if not child:
            end_as(argv_of(command), env, out, err)
        code = exit_code(child)
        with open(out) as printed:
            return subprocess.CompletedProcess(command, code, printed.read())


def argv_of(command: list[str]) -> list[str]:
    """Return `reframe WORDS` of `/path/reframe WORDS`, `MODULE WORDS` of `python -m MODULE WORDS`."""
    if command[0].endswith('/reframe'):
        return ['reframe', *command[1:]]
    return command[2:]


def end_as(argv: list[str], env: dict[str, str], out: str, err: str) -> NoReturn:
    """Run a command and end this process, without what the process that forked had registered for its own end."""
    code = 1
    try:
        become(argv, env, out, err)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else bool(end.code)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def serve() -> dict:
    """Fork for each line of standard input; return the command in the fork."""
    for line in sys.stdin:
        child = os.fork()
        if not child:
            return json.loads(line)
        print(exit_code(child), flush=True)
    sys.exit()


if __name__ == '__main__':
    assert len(os.listdir('/proc/self/task')) == 1, 'a fork of a process with threads may wait for ever'
    planning.subprocess = runner.subprocess = SimpleNamespace(**{**vars(subprocess), 'run': run_forked})
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asked = serve()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(asked.pop('cwd'))
    become(**asked)
