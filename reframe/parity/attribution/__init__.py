"""What is known of the cause of a slower figure: where, in what part of the machine, what changed."""

from parity.attribution.cause import of_cell
from parity.attribution.model import Attribution, Change, Subsystem, Where

__all__ = ['Attribution', 'Change', 'Subsystem', 'Where', 'of_cell']
