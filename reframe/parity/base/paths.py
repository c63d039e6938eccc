"""Where things are: the checkout, and the folder that results go to."""

from __future__ import annotations

import os
from pathlib import Path

from parity.base.errors import InfrastructureError, UsageError

#: Benchmark programs of ours that run on compute nodes: a check copies them into its stage directory.
PROGRAMS = str(Path(__file__).resolve().parents[1] / 'check' / 'programs')


def root() -> Path:
    """The top of the checkout: PARITY_ROOT, or the folder above the library, which holds systems/ and checks/."""
    named = os.environ.get('PARITY_ROOT')
    top = Path(named) if named else Path(__file__).resolve().parents[3]
    if not (top / 'systems').is_dir():
        raise UsageError(f'{top}: no folder systems/ here; PARITY_ROOT must name the top of the checkout')
    return top.resolve()


def results() -> Path:
    """The folder that every run writes to: results/ at the top, or ``PARITY_RESULTS``."""
    named = os.environ.get('PARITY_RESULTS')
    folder = Path(named).resolve() if named else root() / 'results'
    if folder.exists() and not folder.is_dir():
        raise InfrastructureError(f'{folder}: not a folder; PARITY_RESULTS names where results go')
    return folder


def database() -> Path:
    """ReFrame's results database."""
    return results() / 'results.db'
