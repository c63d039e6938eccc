"""The machine that this process runs on: detection, physical bounds, and its state at an instant."""

from parity.machine.model import Machine, bounds
from parity.machine.procfs import reading, steal_share
from parity.machine.store import detect, load
