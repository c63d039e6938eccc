"""GROMACS (Abraham et al., 2015): molecular dynamics of a box of SPC water with PME; its drift is checked."""

import math
from pathlib import Path

import reframe as rfm
from gromacs_output import BOX, MOLECULES, PROGRAM, ROWS, WATER, read  # noqa: F401
from reframe.core.builtins import run_after, run_before

from parity.check import Metric, Mpi, Wrong

ATOMS_A_RANK = 2500                 # at least; GROMACS still scales with some hundred
STEPS = {'quick': 1000, 'nightly': 10000, 'acceptance': 100000}


@rfm.simple_test
class Gromacs(rfm.RunOnlyRegressionTest, Mpi):
    """One rank a core, one thread a rank; the box grows with the ranks. No rank is for PME alone, and nothing is
    tuned or balanced while it runs: the work is the same each time."""

    postrun_cmds = ['cat water.log']
    metrics = (Metric('speed', 'ns/day', 'higher'),)

    @run_after('setup')
    def place(self):
        nodes = int(self.nodes)
        self.place_ranks(nodes * most_ranks(self.ranks_on(nodes) // nodes))
        self.edge, self.steps = edge(self.num_tasks), STEPS[self.size]
        gmx = self.program('gmx_mpi')
        box, times = f'{BOX} {BOX} {BOX}', f'{self.edge} {self.edge} {self.edge}'
        self.prerun_cmds = [f'{{ {gmx} -quiet solvate -cs spc216.gro -box {box} -scale 0 -o one.gro && '
                            f'{gmx} -quiet genconf -f one.gro -nbox {times} -o water.gro && '
                            f'{gmx} -quiet grompp -f water.mdp -p water.top -c water.gro -o water.tpr; }} >&2']
        self.executable = gmx
        self.executable_opts = ['-quiet mdrun -s water.tpr -g water.log -ntomp 1 -npme 0 -dlb no -notunepme',
                                '-noconfout']

    @run_before('run')
    def write_input(self):
        for name, line in (('water.mdp', f'nsteps = {self.steps}\nnstlog = {self.steps // ROWS}'),
                           ('water.top', f'SOL {MOLECULES * self.edge ** 3}')):
            self.stage(name, f'{Path(self.prefix, name).read_text()}{line}\n')

    def parse(self, text):
        values, facts = read(text)
        if facts['input'] != WATER:
            raise Wrong(f"another input than parity's water: {facts['input']}")
        asked = {'atoms': 3 * MOLECULES * self.edge ** 3, 'ranks': self.num_tasks, 'threads': 1,
                 'steps': self.steps}
        ran = {name: facts[name] for name in asked}
        if ran != asked:
            raise Wrong(f'ran {ran}, asked for {asked}')
        self.note(facts)
        return values


def most_ranks(available: int) -> int:
    """Return the largest number of ranks of a node without a prime factor above 7: GROMACS refuses some others."""
    def rest(ranks):
        for prime in (2, 3, 5, 7):
            while ranks % prime == 0:
                ranks //= prime
        return ranks
    return next(ranks for ranks in range(available, 0, -1) if rest(ranks) == 1)


def edge(ranks: int) -> int:
    """Return the boxes along each axis, for ATOMS_A_RANK at least. One is too short for the cut-offs."""
    return max(2, math.ceil(round((ranks * ATOMS_A_RANK / 3 / MOLECULES) ** (1 / 3), 6)))
