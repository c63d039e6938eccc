"""A process that has loaded ReFrame and parity, and forks for each command that it reads: a line of JSON.

It answers with the exit code of the command. `warm.py` starts it."""

from __future__ import annotations

import gc
import json
import os
import runpy
import signal
import sys
import tempfile
from types import SimpleNamespace

import reframe.frontend.cli
import rich.console  # noqa: F401

# loaded for the commands; Polars and SciPy would start threads
import parity.check  # noqa: F401
from parity.measure.rfm import capture, planning  # noqa: F401
from parity.measure.session import assemble  # noqa: F401
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
    runpy.run_module(argv[0], run_name='__main__', alter_sys=True)


def exit_code(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def plan(command: list[str], env: dict[str, str], **_) -> SimpleNamespace:
    """Take the place of subprocess.run in parity.measure.rfm.planning: a night that is a fork forks for its plans."""
    with tempfile.NamedTemporaryFile('r') as printed:
        child = os.fork()
        if not child:
            try:
                become(command[2:], env, printed.name, printed.name)
            finally:
                sys.stdout.flush()
                os._exit(1)     # a plan that was made ended the process before
        exit_code(child)
        return SimpleNamespace(stdout=printed.read())


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
    planning.subprocess = SimpleNamespace(run=plan, DEVNULL=None, PIPE=None, STDOUT=None)
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asked = serve()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(asked.pop('cwd'))
    become(**asked)
