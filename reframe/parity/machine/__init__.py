"""What the machine we are on is: detection, physical bounds, and its state at an instant."""

from parity.machine.bounds import bounds, limits
from parity.machine.detect import detect
from parity.machine.memory import reading, steal_share
from parity.machine.model import Cache, Clock, Machine, MemoryChannels
from parity.machine.store import load

__all__ = ['Cache', 'Clock', 'Machine', 'MemoryChannels',
           'bounds', 'detect', 'limits', 'load', 'reading', 'steal_share']
