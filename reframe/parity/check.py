"""All that a check imports: the public name of ``parity.measure.check``."""

from parity.measure.check import *  # noqa: F403
from parity.measure.check.gpu import printed as printed
from parity.measure.check.reader import room as room
from parity.measure.rfm import under

under.demand()
