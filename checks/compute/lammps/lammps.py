"""LAMMPS (Sandia; Thompson et al., 2022): a Lennard-Jones crystal that melts; its energy is checked."""

import math
from pathlib import Path

import reframe as rfm
from lammps_output import MELT, PROGRAM, ROWS, read  # noqa: F401
from reframe.core.builtins import run_after, run_before

from parity.check import Metric, Mpi, Wrong

ATOMS_A_RANK = 16000        # at least; two ranks have the 32,000 atoms of LAMMPS's own benchmark
STEPS = {'quick': 200, 'nightly': 4000, 'acceptance': 40000}


@rfm.simple_test
class Lammps(rfm.RunOnlyRegressionTest, Mpi):
    """One rank a core, one thread a rank; the crystal grows with the ranks."""

    metrics = (Metric('atom_steps', 'Matom-step/s', 'higher'),)

    @run_after('setup')
    def place(self):
        self.place_ranks()
        self.edge, self.steps = edge(self.num_tasks), STEPS[self.size]
        self.executable = self.program('lmp')
        self.executable_opts = [f'-in melt.in -log none -var edge {self.edge} -var steps {self.steps} '
                                f'-var every {self.steps // ROWS}']

    @run_before('run')
    def write_input(self):
        self.stage('melt.in', Path(self.prefix, 'melt.in').read_text())

    def parse(self, text):
        values, facts = read(text)
        if facts['input'] != MELT:
            raise Wrong(f"another input than parity's melt: {facts['input']}")
        asked = {'atoms': 4 * self.edge ** 3, 'ranks': self.num_tasks, 'threads': 1, 'steps': self.steps}
        ran = {name: facts[name] for name in asked}
        if ran != asked:
            raise Wrong(f'ran {ran}, asked for {asked}')
        self.note(facts)
        return values


def edge(ranks: int) -> int:
    """Unit cells of 4 atoms along each axis, for ATOMS_A_RANK at least."""
    return math.ceil(round((ranks * ATOMS_A_RANK / 4) ** (1 / 3), 6))
