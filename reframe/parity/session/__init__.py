"""One run of ReFrame: its lock, its plan, its journal, and what a killed one left behind."""

from parity.session.current import Current, begin, enter

__all__ = ['Current', 'begin', 'enter']
