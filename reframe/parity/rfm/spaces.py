"""Paths with spaces: ReFrame's local scheduler splits a job script's, and PBS jobs `cd` without quotes."""

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
    from reframe.core.schedulers import local, pbs
    from reframe.utility import osext
    preamble = pbs.PbsJobScheduler.emit_preamble

    class Quoting:
        def __getattr__(self, name):
            return getattr(osext, name)

        @staticmethod
        def run_command_async(command, *args, **kwargs):
            return osext.run_command_async(shlex.quote(command), *args, **kwargs)

    def quoting_preamble(scheduler, job):
        return [f'cd {shlex.quote(job.workdir)}' if line == f'cd {job.workdir}' else line
                for line in preamble(scheduler, job)]

    local.osext = Quoting()
    pbs.PbsJobScheduler.emit_preamble = quoting_preamble
