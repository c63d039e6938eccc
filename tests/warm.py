"""ReFrame's commands in forks of one process that has loaded ReFrame and parity: loading takes longer than most of them."""

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

_SERVER = '''
import gc, json, os, runpy, signal, sys
import reframe.frontend.cli
import parity.check, parity.measure.rfm.capture, parity.measure.session.assemble
gc.freeze()
signal.signal(signal.SIGINT, signal.SIG_IGN)
for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if not child:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
signal.signal(signal.SIGINT, signal.default_int_handler)
for number, name, mode in ((0, os.devnull, os.O_RDONLY), (1, asked['out'], os.O_WRONLY), (2, asked['err'], os.O_WRONLY)):
    os.dup2(os.open(name, mode | os.O_CREAT | os.O_APPEND), number)
os.chdir(asked['cwd'])
os.environ.clear()
os.environ.update(asked['env'])
name, *sys.argv[1:] = asked['argv']
sys.argv[0] = name
if name == 'reframe':
    sys.exit(reframe.frontend.cli.main())
runpy.run_module(name, run_name='__main__', alter_sys=True)
'''


@functools.cache
def _server() -> subprocess.Popen:
    """Start the process. It outlives the test that asks first, and ends with this process."""
    environ = {name: value for name, value in os.environ.items() if name != MARK}
    server = subprocess.Popen([sys.executable, '-c', _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env={**environ, 'PYTHONPATH': str(TOP / 'reframe')})
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


def reframe(checkout: Path, words: str, **env: str) -> subprocess.CompletedProcess:
    """`. ci/activate && reframe WORDS` in a checkout; the library is this checkout's."""
    active = {'PARITY_ROOT': str(checkout), 'RFM_CONFIG_FILES': str(checkout / 'reframe' / 'settings.py'),
              'PATH': activated(checkout, os.environ['PATH'])}
    return _ran(['reframe', *shlex.split(words)], checkout, {**os.environ, **active, **env})


def _plans(command: list[str], env: dict[str, str], **_) -> subprocess.CompletedProcess:
    """Take the place of subprocess.run in parity.measure.rfm.planning."""
    return _ran(command[2:], os.getcwd(), env, merged=True)


#: Take the place of the module subprocess in parity.measure.rfm.planning.
PLANNING = SimpleNamespace(run=_plans, DEVNULL=None, PIPE=None, STDOUT=None)
