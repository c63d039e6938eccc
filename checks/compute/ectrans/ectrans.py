"""ecTrans (ECMWF): the spectral transforms of a weather model, from waves to its grid and back; no time stepping.

A step is an inverse and a direct transform: Legendre and Fourier transforms, and four transpositions between the
ranks, which are its communication."""

import reframe as rfm
import reframe.utility.typecheck as typ
from ectrans_output import PROGRAM, read  # noqa: F401
from reframe.core.builtins import parameter, run_after, variable

from parity.check import Metric, Mpi, Wrong

# latitudes between equator and pole, twice as many along each: the grids of 128x64, 256x128 and 512x256 points
GRIDS = {'42': 32, '85': 64, '170': 128}
# steps of T170; of a smaller truncation more
STEPS = {'quick': 10, 'nightly': 50, 'acceptance': 500}


@rfm.simple_test
class Ectrans(rfm.RunOnlyRegressionTest, Mpi):
    """A rank a core. ``truncation`` is the largest wave number, ``levels`` the fields above one another."""

    truncation = parameter(list(GRIDS), type=str)
    levels = variable(typ.Str[r'[1-9][0-9]{0,2}'], value='16')
    steps = variable(typ.Str[r'([1-9][0-9]{0,4})?'], value='')
    metrics = (Metric('step', 's', 'lower'), Metric('computation', 's', 'lower'),
               Metric('transposition', 's', 'lower'))

    @run_after('setup')
    def place(self):
        self.place_ranks()
        waves, rings = int(self.truncation), GRIDS[self.truncation]
        if self.num_tasks > rings:
            self.skip_case(f'{self.num_tasks} ranks: T{waves} is for at most {rings}')
        self.ran_steps = int(self.steps or STEPS[self.size] * 170 // waves)
        self.executable = self.program('ectrans-benchmark-dp')
        self.executable_opts = [f'-t {waves} -g F{rings} -l {self.levels} -n {self.ran_steps} --norms']

    def parse(self, text):
        values, facts = read(text)
        asked = {'truncation': int(self.truncation), 'latitudes': 2 * GRIDS[self.truncation],
                 'levels': int(self.levels), 'ranks': self.num_tasks, 'threads': 1, 'steps': self.ran_steps}
        ran = {name: facts[name] for name in asked}
        if ran != asked:
            raise Wrong(f'ran {ran}, asked for {asked}')
        self.note(facts)
        return values
