"""mpi4py's ping-pong between two named nodes, which have a core each."""

import sys
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import parameter, run_after

from parity.base import paths

_FOLDER = str(Path(paths.root(), 'checks', 'network', 'pingpong'))
sys.path.insert(0, _FOLDER)
from pingpong import Pingpong  # noqa: E402


@rfm.simple_test
class Pairs(Pingpong, custom_prefix=_FOLDER):
    """A message between the nodes of a pair: 8 B, 8 KiB and 1 MiB. It belongs to the subsystem network."""

    where = parameter(['between'], type=str)
    pair = parameter(['p1-p2', 'p2-p3'], type=str)

    @run_after('setup')
    def on_the_pair(self):
        self.job.options += [f'--nodelist={self.pair.replace("-", ",")}']
