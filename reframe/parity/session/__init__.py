"""One run of ReFrame: its lock, its plan, its journal, and the recovery of a killed one."""

from parity.session.current import Current, begin, enter, found, runs

__all__ = ['Current', 'begin', 'enter', 'found', 'runs']
