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
    """HPL with N = 3000. The DGEMM behind HPL would take longer than HPL."""

    # a class that ReFrame distributes over nodes has no custom_prefix
    _rfm_pinned_prefix = _FOLDER
    needs = frozenset({'hpl'})
    n = '3000'

    def run_update(self):
        """Run no DGEMM."""
