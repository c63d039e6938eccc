"""ReFrame's local scheduler takes the path of a job script for a command line and splits it at spaces."""

from __future__ import annotations

import shlex
from pathlib import Path


def allow_in(folder: Path) -> None:
    """Make job scripts below ``folder`` start although its path has white space or quotes.

    ReFrame 4.10: LocalJobScheduler.submit hands os.path.abspath(script) to run_command_async,
    which splits it as a shell would. Does nothing for a path that survives that.
    """
    if shlex.quote(str(folder)) == str(folder):
        return
    from reframe.core.schedulers import local
    from reframe.utility import osext

    class Quoting:
        def __getattr__(self, name):
            return getattr(osext, name)

        @staticmethod
        def run_command_async(command, *args, **kwargs):
            return osext.run_command_async(shlex.quote(command), *args, **kwargs)

    local.osext = Quoting()
