"""All that a check imports: Code, Metric, the mixins, and the reader of outputs."""

from parity.base.codes import Code
from parity.base.reasons import Kind
from parity.check.gpu import Devices, Gpu
from parity.check.mpi import Mpi
from parity.check.reader import (
    KERNEL_FIGURES,
    Incomplete,
    Lines,
    Read,
    Wrong,
    agree,
    document,
    half,
    kernel,
    kernel_rate,
    model,
    number,
    options,
    ordered,
    same,
    sealed,
    sections,
    size,
    table,
    whole,
)
from parity.check.storage import Budget, Room, Storage
from parity.check.threaded import Kernel, Paired, Sweep, Threaded, by_pair
from parity.check.workload import Metric, Workload
