"""GROMACS (Abraham et al., 2015): molecular dynamics of a box of SPC water with PME; its drift is checked."""

import math
import re
from decimal import Decimal
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import run_after, run_before

from parity.check import Incomplete, Lines, Metric, Mpi, Read, Wrong, agree, half, number, same

BOX, MOLECULES = 1.86206, 216       # spc216.gro, which GROMACS brings: nm along each edge, molecules
ATOMS_A_RANK = 2500                 # at least; GROMACS still scales with some hundred
STEPS = {'quick': 1000, 'nightly': 10000, 'acceptance': 100000}
ROWS = 10                           # of the energies in the log, after the first
STEP = 0.002                        # ps, of water.mdp
# Potential energy of a molecule in that box (kJ/mol): gmx_d 2022.5, a PME grid of 0.05 nm and order 8.
# Single precision and the grid of 0.12 nm move it by up to 0.004.
ENERGY, UNSURE = -42.601, 0.02
# kJ/mol/ps an atom: what water.mdp allows for the pair lists. Measured: 0.0014 in 1,000 steps, 0.0002 in 10,000.
DRIFT = 0.005
SUMS = (('Potential', 'LJ (SR)', 'Coulomb (SR)', 'Coul. recip.'), ('Total Energy', 'Potential', 'Kinetic En.'))
NEAR = 0.02                         # the ranks' times may differ by as much
WARM = (278.0, 294.0)               # K, on average: 287 and 285. What begins at 300 K settles so


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
        asked = {'atoms': 3 * MOLECULES * self.edge ** 3, 'ranks': self.num_tasks, 'threads': 1,
                 'steps': self.steps}
        if (ran := {name: facts[name] for name in asked}) != asked:
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


def read(text: str) -> Read:
    """speed is GROMACS's own figure. Facts: version, atoms, ranks, threads, steps, energy (kJ/mol a molecule, at
    the beginning), drift (kJ/mol/ps an atom), temperature (K, on average)."""
    out = Lines(text)
    for at, said in out.matches('(Fatal error|Inconsistency in user input|Software inconsistency.*):'):
        raise Wrong(f'line {at}: {said[0]} {" ".join(out.lines[at:at + 2])[:140]}')
    version = out.one(r'GROMACS version: (\S+)')[1]
    atoms, steps = out.count(r'There are: (\d+) Atoms'), out.count(r'nsteps = (\d+)')
    ranks = out.count(r'Using (\d+) MPI process.*')
    threads = out.count(r'Using (\d+) OpenMP thread.*')
    same('dt', out.one(r'dt = (\S+)')[1], str(STEP))
    out.one(r'Finished mdrun on rank 0 .*')
    if (ran := out.count(r'Statistics over (\d+) steps using \d+ frames') - 1) < steps:
        raise Incomplete(f'line {out.end}: stopped after {ran} of {steps} steps')
    same('steps', ran, steps)
    times = out.one(r'Time: (\S+) (\S+) \S+')
    core, wall = (number(times[i], what, places=3) for i, what in ((1, 'Core t'), (2, 'Wall t')))
    same('Wall t', out.one(r'Total (\S+) \S+ 100\.0')[1], times[2])
    speeds = out.one(r'Performance: (\S+) (\S+)')
    speed, hours = (number(speeds[i], what, places=3) for i, what in ((1, 'ns/day'), (2, 'hour/ns')))
    if abs(float(core) / float(wall) / (ranks * threads) - 1) > NEAR:
        raise Wrong(f'{core} s of cores is not {wall} s of {ranks} ranks with {threads} threads')
    same('ranks', out.count(r'On (\d+) MPI ranks?(?:, .*)?'), ranks)
    weights = out.figure(r'Calc Weights (\S+) \S+ \S+', places=6)
    if abs(float(weights) - 3e-6 * atoms * (steps + 1)) > half(weights):
        raise Wrong(f'Calc Weights: {weights} million are not 3 of {atoms} atoms in {steps + 1} steps')
    length = (steps + 1) * STEP / 1000              # ns; GROMACS counts the first energies as a step
    agree(speed, wall, length * 86400, 'ns/day')
    if abs(float(hours) - 24 / float(speed)) > half(hours) + 24 * half(speed) / float(speed) ** 2:
        raise Wrong(f'{hours} hour/ns is not {speed} ns/day')
    energies = _balance(out, _energies(Lines(text, fold=False), steps), atoms, steps)
    return {'speed': float(speed)}, {
        'version': version, 'atoms': atoms, 'ranks': ranks, 'threads': threads, 'steps': steps, **energies}


def _balance(out: Lines, found: list[dict[str, Decimal]], atoms: int, steps: int) -> dict[str, float]:
    """Return energy, drift and temperature. Raises Wrong where they are not those of the water in the box."""
    energy, temperature = float(3 * found[0]['Potential'] / atoms), float(found[-1]['Temperature'])
    if abs(energy - ENERGY) > UNSURE:
        raise Wrong(f'began with a potential energy of {energy:.4f} kJ/mol a molecule: the box has {ENERGY}')
    totals = [float(each['Total Energy']) for each in found]
    drift = out.one(r'Conserved energy drift: (-?)(\S+) kJ/mol/ps per atom')
    told = number(drift[2], 'Conserved energy drift', zero=True)
    moved = (totals[-2] - totals[0]) / (STEP * steps * atoms)
    unsure = half(told) + 2 * half(found[0]['Total Energy']) / (STEP * steps * atoms)
    if abs(moved - float(f'{drift[1]}{told}')) > unsure:
        raise Wrong(f'Conserved energy drift: {drift[1]}{told}, the energies moved by {moved:.2e}')
    if told > DRIFT:
        raise Wrong(f'the energy drifts by {drift[1]}{told} kJ/mol/ps an atom: beyond {DRIFT}')
    if not WARM[0] < temperature < WARM[1]:
        raise Wrong(f'{temperature} K on average: the water has {WARM[0]} to {WARM[1]}')
    return {'energy': round(energy, 4), 'drift': float(told), 'temperature': temperature}


def _energies(out: Lines, steps: int) -> list[dict[str, Decimal]]:
    """Return the energies of each row of the log, and at last their averages: names above figures, in columns of
    15 characters. Raises Wrong where the parts of an energy are not its sum."""
    begins = [at for at, line in enumerate(out.lines) if line.split() == ['Energies', '(kJ/mol)']]
    rows = [(out.lines[max(at - 2, 0)].split() or [''])[0] for at in begins]
    if rows != [*(str(steps * i // ROWS) for i in range(ROWS + 1)), 'Statistics']:
        raise Incomplete(f'line {out.end}: the log has not the energies of {ROWS + 1} steps from 0 to {steps} and '
                         'their averages')
    found = []
    for row, at in zip(rows, begins, strict=True):
        each: dict[str, Decimal] = {}
        for names, figures in zip(out.lines[at + 1::2], out.lines[at + 2::2], strict=False):
            if not names:
                break
            each |= {names[i:i + 15].strip(): _figure(figures[i:i + 15].strip(), row)
                     for i in range(0, len(figures), 15)}
        for names in SUMS:
            if lacking := next((name for name in (*names, 'Temperature') if name not in each), ''):
                raise Incomplete(f'line {at + 1}: the energies of {row} have no {lacking}')
            total, *parts = (each[name] for name in names)
            if abs(float(total - sum(parts))) > sum(half(each[name]) for name in names):
                raise Wrong(f'{row}: {" + ".join(names[1:])} is not {names[0]} {total}')
        found.append(each)
    return found


def _figure(token: str, row: str) -> Decimal:
    if not re.fullmatch(r'-?\d\.\d{5}e[+-]\d\d', token, re.ASCII):
        raise Wrong(f'{row}: {token[:40]!r} is no figure with 5 decimals')
    return Decimal(token)
