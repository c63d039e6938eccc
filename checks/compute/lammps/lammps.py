"""LAMMPS (Sandia; Thompson et al., 2022): a Lennard-Jones crystal that melts; its energy is checked."""

import itertools
import math
from decimal import Decimal
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import run_after, run_before

from parity.check import Incomplete, Lines, Metric, Mpi, Read, Wrong, agree, half, number, same, whole

ATOMS_A_RANK = 16000        # at least; two ranks have the 32,000 atoms of LAMMPS's own benchmark
STEPS = {'quick': 200, 'nightly': 4000, 'acceptance': 40000}
ROWS = 10                   # of the table of energies, after the first
# melt.in: atoms in a sigma^3, where forces end (sigma), temperature of the crystal, time step (tau)
DENSITY, CUT, HOT, STEP = 0.8442, 2.5, 1.44, 0.005
# Energy (epsilon) that an atom may gain or lose. Measured: 0.0004 in 200 steps, 0.0025 in 20,000; and 0.028 in
# 2,000 of twice the length.
DRIFT = 0.01
MELTED = (0.62, 0.82)       # the last temperature: 0.76 after 200 steps, 0.70 after 20,000; without forces 1.44


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
        asked = {'atoms': 4 * self.edge ** 3, 'ranks': self.num_tasks, 'threads': 1, 'steps': self.steps}
        if (ran := {name: facts[name] for name in asked}) != asked:
            raise Wrong(f'ran {ran}, asked for {asked}')
        self.note(facts)
        return values


def edge(ranks: int) -> int:
    """Unit cells of 4 atoms along each axis, for ATOMS_A_RANK at least."""
    return math.ceil(round((ranks * ATOMS_A_RANK / 4) ** (1 / 3), 6))


def lattice_energy() -> float:
    """Return the potential energy of an atom of the crystal (epsilon): half the sum over its neighbours."""
    def pair(r2):
        return 4 * (r2 ** -6 - r2 ** -3)
    cell = (4 / DENSITY) ** (1 / 3)
    most = math.ceil(2 * CUT / cell)
    sites = (at for at in itertools.product(range(-most, most + 1), repeat=3) if sum(at) % 2 == 0)
    squares = (sum(i * i for i in at) * (cell / 2) ** 2 for at in sites)
    return sum(pair(r2) - pair(CUT ** 2) for r2 in squares if 0 < r2 < CUT ** 2) / 2


def read(text: str) -> Read:
    """Atom-steps: atoms times steps over the seconds of the loop. Facts: version, atoms, ranks, threads, steps,
    energy (of an atom, epsilon), drift (its largest change), temperature (the last)."""
    out = Lines(text)
    out.refuse('ERROR')
    version = out.one(r'LAMMPS \((.+)\)')[1]
    begin = 'Step Temp PotEng KinEng TotEng'
    loop = out.one(end := r'Loop time of (\S+) on (\d+) procs for (\d+) steps with (\d+) atoms')
    ranks, steps, atoms = (whole(loop[i], what) for i, what in ((2, 'procs'), (3, 'steps'), (4, 'atoms')))
    same('atoms', out.count(r'Created (\d+) atoms'), atoms)
    same('ranks', math.prod(map(int, out.one(r'(\d+) by (\d+) by (\d+) MPI processor grid').groups())), ranks)
    tasks = out.one(r'\S+% CPU use with (\d+) MPI tasks x (\d+|no) OpenMP threads')
    same('ranks', whole(tasks[1], 'MPI tasks'), ranks)
    out.one(r'Total wall time: \d+:\d\d:\d\d')
    seconds = number(loop[1], 'Loop time')
    speed = out.one(r'Performance: (\S+) tau/day, (\S+) timesteps/s(, .*)?', 'Performance:')
    agree(number(speed[1], 'tau/day', places=3), seconds, 86400 * STEP * steps, 'tau/day')
    agree(number(speed[2], 'timesteps/s', places=3), seconds, steps, 'timesteps/s')
    energy, drift, temperature = _conserved(out.part(begin, end), atoms, steps)
    return {'atom_steps': atoms * steps / float(seconds) / 1e6}, {
        'version': version, 'atoms': atoms, 'ranks': ranks, 'threads': 1 if tasks[2] == 'no' else int(tasks[2]),
        'steps': steps, 'energy': float(energy), 'drift': float(drift), 'temperature': float(temperature)}


def _conserved(rows: Lines, atoms: int, steps: int) -> tuple[Decimal, Decimal, Decimal]:
    """Return energy, drift and the last temperature of the table. Raises Wrong where they are not the melt's."""
    found = rows.every(r'(\d+) (\S+) (-?)(\S+) (\S+) (-?)(\S+)')
    asked = [steps * i // ROWS for i in range(ROWS + 1)]
    if [int(row[1]) for row in found] != asked or len(found) < len(rows.lines):
        raise Incomplete(f'line {rows.end}: the table of energies has not {ROWS + 1} rows from step 0 to {steps}')
    table = []
    for row in found:
        temperature, potential, kinetic, total = (
            number(row[i], f'{what} of step {row[1]}', places=9)
            for i, what in ((2, 'Temp'), (4, 'PotEng'), (5, 'KinEng'), (7, 'TotEng')))
        potential, total = Decimal(f'{row[3]}{potential}'), Decimal(f'{row[6]}{total}')
        if abs(kinetic + potential - total) > Decimal('2e-9'):
            raise Wrong(f'step {row[1]}: PotEng {potential} and KinEng {kinetic} are not TotEng {total}')
        moving = 1.5 * float(temperature) * (atoms - 1) / atoms
        if abs(float(kinetic) - moving) > 3 * half(kinetic):
            raise Wrong(f'step {row[1]}: KinEng {kinetic} is not the {moving:.9f} of Temp {temperature}')
        table.append((temperature, potential, total))
    if abs(float(table[0][1]) - lattice_energy()) > 1e-7 or table[0][0] != Decimal(str(HOT)):
        raise Wrong(f'began with PotEng {table[0][1]} at Temp {table[0][0]}: the crystal has '
                    f'{lattice_energy():.9f} at {HOT}')
    drift = max(abs(total - table[0][2]) for *_, total in table)
    if drift > DRIFT:
        raise Wrong(f'the energy of an atom moved by {drift}: beyond {DRIFT}')
    if not MELTED[0] < table[-1][0] < MELTED[1]:
        raise Wrong(f'ended at Temp {table[-1][0]}: a melt has {MELTED[0]} to {MELTED[1]}')
    return table[0][2], drift, table[-1][0]
