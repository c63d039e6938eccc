"""The figures of every stored session of a system: regressions, references and comparisons judge from these."""

from parity.records.cells import CELL, cell_id
from parity.records.facts import SessionFacts, newest, sessions
from parity.records.figures import load

__all__ = ['CELL', 'SessionFacts', 'cell_id', 'load', 'newest', 'sessions']
