"""HPL on one core, with a small matrix and nothing behind it."""

import sys
from pathlib import Path

import reframe as rfm

from parity.base import paths

_FOLDER = str(Path(paths.root(), 'checks', 'compute', 'hpl'))
sys.path.insert(0, _FOLDER)
import hpl  # noqa: E402


@rfm.simple_test
class Hpl(hpl.Hpl):
    """HPL with N = 4000. The DGEMM behind HPL would take longer than HPL."""

    needs = frozenset({'hpl'})
    n = '4000'

    @property
    def prefix(self):
        """Return the folder of HPL. ReFrame distributes a class over nodes with the folder of its file."""
        return _FOLDER

    def run_update(self):
        """Run no DGEMM."""
