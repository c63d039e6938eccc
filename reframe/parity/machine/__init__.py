"""The machine that this process runs on: detection, physical bounds, and its state at an instant."""

from parity.machine.bounds import bounds
from parity.machine.memory import reading, steal_share
from parity.machine.model import Machine
from parity.machine.store import detect, load

__all__ = ['Machine', 'bounds', 'detect', 'load', 'reading', 'steal_share']
