"""The machine that this process runs on: detection, physical bounds, and its state at an instant."""

from parity.measure.machine.model import Machine, bounds
from parity.measure.machine.procfs import reading
from parity.measure.machine.store import detect, load
