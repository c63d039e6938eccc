"""All that a check imports: Metric, the mixins, and the reader of outputs."""

from parity.base.reasons import Kind
from parity.measure.check.columns import COUNT, FIGURE, Columns, table
from parity.measure.check.gpu import Devices, Gpu
from parity.measure.check.mpi import Mpi
from parity.measure.check.program import Output, Program
from parity.measure.check.reader import (
    KERNEL_FIGURES,
    Alone,
    Incomplete,
    Lines,
    Read,
    Refused,
    Unread,
    Wrong,
    agree,
    by_heading,
    document,
    half,
    kernel,
    kernel_rate,
    model,
    near,
    number,
    options,
    ordered,
    same,
    sealed,
    sections,
    size,
    whole,
)
from parity.measure.check.storage import Budget, Room, Storage
from parity.measure.check.threaded import Kernel, Paired, Sweep, Threaded, by_pair
from parity.measure.check.workload import Metric, Workload
