"""ecTrans (ECMWF): the spectral transforms of a weather model, from waves to its grid and back; no time stepping.

A step is an inverse and a direct transform: Legendre and Fourier transforms, and four transpositions between the
ranks, which are its communication."""

from decimal import Decimal

import reframe as rfm
import reframe.utility.typecheck as typ
from reframe.core.builtins import parameter, run_after, variable

from parity.check import Incomplete, Lines, Metric, Mpi, Read, Wrong, half, number, same, whole

# latitudes between equator and pole, twice as many along each: the grids of 128x64, 256x128 and 512x256 points
GRIDS = {'42': 32, '85': 64, '170': 128}
# steps of T170; of a smaller truncation more
STEPS = {'quick': 10, 'nightly': 50, 'acceptance': 500}
MOST_ERROR = Decimal('1e-10')       # ecTrans repeats the transforms of one field: its rounding errors add up
SKEW = 1e-3                         # share: the loop is of one rank's clock, the steps are means of all ranks
# routines in the statistics, by number and name
STEP = {'4 INV_TRANS': 'Inverse transform', '5 DIR_TRANS': 'Direct transform'}
TRANSPOSITIONS = {152: 'M to L', 153: 'L to M', 157: 'L to G', 158: 'G to L'}


@rfm.simple_test
class Ectrans(rfm.RunOnlyRegressionTest, Mpi):
    """A rank a core. ``truncation`` is the largest wave number, ``levels`` the fields above one another."""

    truncation = parameter(list(GRIDS))
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
        if (ran := {name: facts[name] for name in asked}) != asked:
            raise Wrong(f'ran {ran}, asked for {asked}')
        self.note(facts)
        return values


def read(text: str) -> Read:
    """Seconds of a step, the mean over ranks and steps: of both transforms, of their four transpositions, and of
    the rest, which is computation. Facts: truncation, latitudes, levels, ranks, threads, steps, error."""
    out = Lines(text)
    out.refuse(r'ABORT|ABOR1')
    out.one('===-=== END OF TIMING STATISTICS ===-===')
    error = out.figure(r'max error combined = = (\S+)', zero=True)
    errors = [number(row[1], 'max error', zero=True) for row in out.every(r'max error z\S+ = (\S+)')]
    if not errors:
        raise Incomplete(f'line {out.end}: the output ends without "max error z... = ..."')
    same('the largest max error', max(errors), error)
    if error > MOST_ERROR:
        raise Wrong(f'max error combined is {error}: beyond {MOST_ERROR}')
    facts = {name: out.count(rf'{word} (\d+)') for name, word in (
        ('truncation', 'nsmax'), ('latitudes', 'ndgl'), ('levels', 'nlev'), ('ranks', 'nproc'),
        ('threads', 'nthread'))}
    took = out.every(r'time step (\d+) took (\S+) .*')
    numbers = [whole(row[1], 'a step') for row in took]
    same('the numbers of the steps', numbers, list(range(1, len(numbers) + 1)))
    warm = _warm_up(out, len(took))
    steps = len(took) - warm
    _within(out, [number(row[2], f'time step {row[1]}', places=4) for row in took][warm:])
    stats = out.part('STATS FOR ALL TASKS', 'TOTAL MEASURED IMBALANCE = .*')
    total = _row(stats, '0 PROGRAM', 'Total', 1)
    loop = out.figure(r'loop \(s\): (\S+)', places=4)
    mean = _row(stats, '3 TIME STEP', 'Time step', steps, total)
    whole_loop = steps * float(mean) / 1000
    if abs(float(loop) - whole_loop) > SKEW * whole_loop + half(loop) + steps * half(mean) / 1000:
        raise Wrong(f'loop: {loop} s is not {steps} steps of {mean} ms')
    transforms = [_row(stats, name, what, steps, total) for name, what in STEP.items()]
    moves = [_row(stats, rf'{at} \w+_CTL', f'{what} transposition', steps, total)
             for at, what in TRANSPOSITIONS.items()]
    step, moved = sum(transforms), sum(moves)
    if moved > step:
        raise Wrong(f'{moved} ms of transpositions in a step of {step} ms')
    facts |= {'steps': steps, 'error': float(error)}
    of = {'step': step, 'computation': step - moved, 'transposition': moved}
    return {name: float(milliseconds) / 1e3 for name, milliseconds in of.items()}, facts


def _warm_up(out: Lines, printed: int) -> int:
    """Return how many steps ran first and are in no statistics. ecTrans 1.1 has none, and 1.5 says how many."""
    says = out.maybe(r'Running for (\d+) iterations with (\d+) extra warm-up iterations')
    if not says:
        return 0
    steps, warm = whole(says[1], 'iterations'), whole(says[2], 'warm-up iterations', zero=True)
    same('the number of the steps', printed, steps + warm)
    return warm


def _within(out: Lines, took: list[Decimal]) -> None:
    """Raise Wrong unless the steps that the first rank timed are between the shortest and the longest of all."""
    stats = out.part('Inverse-direct transforms', '======= End of time step stats =======')
    least, most = (stats.figure(rf'{which} \(s\): (\S+)', places=4) for which in ('min', 'max'))
    if not took or not least <= min(took) <= max(took) <= most:
        raise Wrong(f'{len(took)} steps took other times than {least} to {most} s')


def _row(stats: Lines, name: str, what: str, calls: int, total: Decimal | None = None) -> Decimal:
    """Return MEAN(ms) of a routine, or of the whole program MAX(ms) as 100 %. A routine's MAX and its
    distance from MEAN, of all calls, are FRAC(%) and UNBAL(%) of the program's time."""
    row = stats.one(rf'{name} - {what} (\d+) (\S+) (\S+) (\S+) (\S+)', f'{what} of {name}')
    same(f'calls of {what}', whole(row[1], 'CALLS'), calls)
    mean, most, share, unbalanced = (number(row[i], f'{what}: {column}', i == 5, places) for i, column, places in (
        (2, 'MEAN(ms)', 3), (3, 'MAX(ms)', 3), (4, 'FRAC(%)', 2), (5, 'UNBAL(%)', 2)))
    base = float(total or most / share * 100)
    for column, told, shown in (('FRAC(%)', most, share), ('UNBAL(%)', most - mean, unbalanced)):
        percent = 100 * calls * float(told) / base
        if abs(percent - float(shown)) > half(shown) + 100 * calls * half(most) * 2 / base + 1e-4 * percent:
            raise Wrong(f'{what}: {column} is {shown}, MAX(ms) and {calls} calls make {percent:.2f}')
    return mean if total else Decimal(base)
