"""GROMACS: the log (-g) of one run of molecular dynamics, of parity's water or of any other input.

Wall time, steps and time step make the speed. Of the water the energies are checked, too: at the beginning they
are those of the box, then they are conserved."""

import re
from dataclasses import dataclass
from decimal import Decimal

from parity.check import (
    Incomplete,
    Output,
    Program,
    Read,
    Unread,
    Wrong,
    agree,
    half,
    near,
    number,
    same,
    whole,
)

#: The log's title. A rank that knows of no other says so on standard error; a log has a blank line there.
PROGRAM = Program('GROMACS', title=r'(?:GROMACS|Gromacs) version: (?:VERSION )?(?P<version>\d\S*)',
                  tried=('2022', '2022'), alone=r'Using 1 MPI process(?=[\t\r]*\n.*\S)')
SCREEN = r':-\) GROMACS - .*mdrun.*'

#: What a fact `input` says of parity's own; no night has another one.
WATER = 'water'
BOX, MOLECULES = 1.86206, 216       # spc216.gro, which GROMACS brings: nm along each edge, molecules
ROWS = 10                           # of the energies in the water's log, after the first
STEP = Decimal('0.002')             # ps, of water.mdp
# Potential energy of a molecule in that box (kJ/mol): gmx_d 2022.5, a PME grid of 0.05 nm and order 8.
# Single precision and the grid of 0.12 nm move it by up to 0.004.
ENERGY, UNSURE = -42.601, 0.02
# kJ/mol/ps an atom: what water.mdp allows for the pair lists. Measured: 0.0014 in 1,000 steps, 0.0002 in 10,000.
DRIFT = 0.005
WARM = (278.0, 294.0)               # K, on average: 287 and 285. What begins at 300 K settles so
WATER_COLUMNS = (r'LJ \(SR\) Coulomb \(SR\) Coul\. recip\. Potential Kinetic En\.',
                 r'Total Energy Temperature Pressure \(bar\)')
SUMS = (('Potential', 'LJ (SR)', 'Coulomb (SR)', 'Coul. recip.'), ('Total Energy', 'Potential', 'Kinetic En.'))

DYNAMICS = ('md', 'md-vv', 'md-vv-avek', 'sd', 'bd')
SLACK = 0.02                        # share by which the ranks' times may differ
WIDTH = 15                          # characters of a column of energies
_DAY = 86400
COMPLAINTS = '(Fatal error|Inconsistency in user input|Software inconsistency.*):'

Energies = dict[str, Decimal]


@dataclass(frozen=True)
class Run:
    """A run: ``counted`` are the steps in GROMACS's times, with the first energies as a step."""

    atoms: int
    ranks: int
    threads: int
    steps: int
    counted: int
    step: Decimal           # ps


def read(text: str) -> Read:
    """speed is GROMACS's own figure.

    Facts: version, input, atoms, ranks, threads, steps. ``input`` is `water` for parity's own, else the
    integrator, the time step and the kind of Coulomb forces. Of the water: energy (kJ/mol a molecule, at the
    beginning), drift (kJ/mol/ps an atom), temperature (K, on average)."""
    if re.search(SCREEN, text) and 'version:' not in text and 'Performance:' in text:
        raise Unread('what mdrun prints on its screen; its log (mdrun -g, md.log) is read')
    out = PROGRAM.output(text)
    _refuse_complaints(out)
    _refuse_thread_mpi(out)
    out.ends_with(r'Finished mdrun on (?:rank|node) 0 .*', 'Finished mdrun on rank 0 ...')
    integrator = _integrator(out)
    run = _run(out)
    wall = _wall(out, run)
    speed = _speed(out, run, wall)
    facts = {'version': out.version, **PROGRAM.untried(out.version), 'atoms': run.atoms, 'ranks': run.ranks,
             'threads': run.threads, 'steps': run.steps}
    if _is_water(out, run):
        energies = _energies(PROGRAM.output(text, fold=False), run.steps)
        facts |= {'input': WATER, **_balance(out, energies, run)}
    else:
        out.refuse('(^| )-?nan( |$)')
        forces = out.one(r'coulomb-?type = (\S+)')[1]
        facts['input'] = f'{integrator}, {run.step} ps, {forces}'[:80]
    return {'speed': float(speed)}, facts


def _refuse_complaints(out: Output) -> None:
    """Raise Wrong for what GROMACS ends with, and the two lines below it."""
    for line, complaint in out.matches(COMPLAINTS):
        below = line - out.first + 1
        reason = ' '.join(out.lines[below:below + 2])
        raise Wrong(f'line {line}: {complaint[0]} {reason[:140]}')


def _refuse_thread_mpi(out: Output) -> None:
    """Raise Unread for a build whose ranks are threads of one process."""
    if out.every(r'MPI library: thread_mpi.*') or out.every(r'Using \d+ MPI threads?.*'):
        raise Unread('GROMACS with thread-MPI (gmx mdrun -ntmpi): GROMACS with MPI (gmx_mpi) is read')


def _integrator(out: Output) -> str:
    """Return the integrator of a run of molecular dynamics."""
    integrator = out.one(r'integrator = (\S+)')[1]
    if integrator in ('steep', 'cg', 'l-bfgs'):
        raise Unread(f'a minimisation (integrator = {integrator}): a run of molecular dynamics is read')
    if integrator not in DYNAMICS:
        raise Unread(f'integrator = {integrator[:40]}: read are {", ".join(DYNAMICS)}')
    return integrator


def _run(out: Output) -> Run:
    """Return what ran, and to its last step."""
    if out.every(r'Step \d+: Run time exceeded .*'):
        raise Unread('a run with a time limit (-maxh): a run of all its steps is read')
    steps = out.count(r'nsteps = (\d+)')
    ran = out.count(r'Statistics over (\d+) steps using \d+ frames') - 1
    if ran < steps:
        raise Incomplete(f'line {out.end}: stopped after {ran} of {steps} steps')
    same('steps', ran, steps)
    ranks = out.count(r'Using (\d+) MPI process.*')
    parts = out.every(r'[Oo]n (\d+) MPI ranks?(?: doing (?:PP|PME))?(?:,.*)?')
    same('ranks', sum(int(part[1]) for part in parts), ranks)
    reset = out.maybe(r'step (\d+): resetting all time and cycle counters')
    counted = steps + 1 - (whole(reset[1], 'the step of the reset') if reset else 0)
    run = Run(atoms=out.count(r'There are: (\d+) Atoms'), ranks=ranks,
              threads=out.count(r'Using (\d+) OpenMP threads?(?: per MPI process)?'),
              steps=steps, counted=counted, step=out.figure(r'dt = (\S+)'))
    weights = out.maybe(r'Calc Weights (\S+) \S+ \S+')
    if weights:
        _demand_weights(number(weights[1], 'Calc Weights', places=6), run)
    return run


def _demand_weights(millions: Decimal, run: Run) -> None:
    """Raise Wrong unless PME had three weights of each atom in each step."""
    expected = 3e-6 * run.atoms * run.counted
    if abs(float(millions) - expected) > half(millions):
        raise Wrong(f'Calc Weights: {millions} million are not 3 of {run.atoms} atoms in {run.counted} steps')


def _wall(out: Output, run: Run) -> Decimal:
    """Return the wall time (s), which ranks and threads make of that of the cores."""
    times = out.one(r'Time: (\S+) (\S+) (\S+)')
    core = number(times[1], 'Core t', places=3)
    wall = number(times[2], 'Wall t', places=3)
    same('Wall t', out.one(r'Total (\S+) \S+ 100\.0')[1], times[2])
    others = out.every(r'Using \d+ OpenMP threads? per MPI process for PME')
    if not others and abs(float(core) / float(wall) / (run.ranks * run.threads) - 1) > SLACK:
        raise Wrong(f'{core} s of cores is not {wall} s of {run.ranks} ranks with {run.threads} threads')
    return wall


def _speed(out: Output, run: Run, wall: Decimal) -> Decimal:
    """Return ns/day, which steps and wall time make, as they do hours/ns."""
    speeds = out.one(r'Performance: (\S+) (\S+)')
    speed = number(speeds[1], 'ns/day', places=3)
    hours = number(speeds[2], 'hour/ns', places=3)
    length = run.counted * float(run.step) / 1000       # ns
    agree(speed, wall, length * _DAY, 'ns/day')
    near('hour/ns', hours, float(wall) / 3600 / length, half(wall) / 3600 / length)
    return speed


def _is_water(out: Output, run: Run) -> bool:
    """Return whether parity's water ran, by its atoms, its columns and how often it prints them."""
    if run.atoms % (3 * MOLECULES) or not all(map(out.every, WATER_COLUMNS)):
        return False
    every = out.count(r'nstlog = (\d+)', zero=True)
    return every * ROWS == run.steps


def _balance(out: Output, rows: list[Energies], run: Run) -> dict[str, float]:
    """Return energy, drift and temperature. Raise Wrong where they are not those of the water in the box."""
    same('dt', run.step, STEP)
    out.one(r'Calc Weights .*')
    energy = float(3 * rows[0]['Potential'] / run.atoms)
    if abs(energy - ENERGY) > UNSURE:
        raise Wrong(f'began with a potential energy of {energy:.4f} kJ/mol a molecule: the box has {ENERGY}')
    drift = _drift(out, rows, run)
    if abs(drift) > DRIFT:
        raise Wrong(f'the energy drifts by {drift} kJ/mol/ps an atom: beyond {DRIFT}')
    average = float(rows[-1]['Temperature'])
    if not WARM[0] < average < WARM[1]:
        raise Wrong(f'{average} K on average: the water has {WARM[0]} to {WARM[1]}')
    return {'energy': round(energy, 4), 'drift': abs(float(drift)), 'temperature': average}


def _drift(out: Output, rows: list[Energies], run: Run) -> Decimal:
    """Return the drift of the energy (kJ/mol/ps an atom), which the first and the last row make."""
    match = out.one(r'Conserved energy drift: (-?)(\S+) kJ/mol/ps per atom')
    size = number(match[2], 'Conserved energy drift', zero=True)
    drift = -size if match[1] else size
    totals = [row['Total Energy'] for row in rows]
    atom_time = float(run.step) * run.steps * run.atoms
    moved = float(totals[-2] - totals[0]) / atom_time
    if abs(moved - float(drift)) > half(size) + 2 * half(totals[0]) / atom_time:
        raise Wrong(f'Conserved energy drift: {drift}, the energies moved by {moved:.2e}')
    return drift


def _energies(out: Output, steps: int) -> list[Energies]:
    """Return the energies of each row of the log, and at last their averages."""
    begins = [at for at, line in enumerate(out.lines) if line.split() == ['Energies', '(kJ/mol)']]
    names = [(out.lines[max(at - 2, 0)].split() or [''])[0] for at in begins]
    asked = [str(steps * at // ROWS) for at in range(ROWS + 1)]
    if names != [*asked, 'Statistics']:
        raise Incomplete(f'line {out.end}: the log has not the energies of {ROWS + 1} steps from 0 to {steps} and '
                         'their averages')
    rows = []
    for name, begin in zip(names, begins, strict=True):
        row = _row(out.lines[begin + 1:], name)
        lacking = [column for columns in SUMS for column in (*columns, 'Temperature') if column not in row]
        if lacking:
            raise Incomplete(f'line {out.first + begin}: the energies of {name} have no {lacking[0]}')
        _demand_sums(row, name)
        rows.append(row)
    return rows


def _row(lines: list[str], row: str) -> Energies:
    """Return the energies of a row: names above figures, in columns of one width."""
    energies: Energies = {}
    for names, figures in zip(lines[::2], lines[1::2], strict=False):
        if not names:
            break
        for begin in range(0, len(figures), WIDTH):
            name = names[begin:begin + WIDTH].strip()
            energies[name] = _figure(figures[begin:begin + WIDTH].strip(), row)
    return energies


def _figure(token: str, row: str) -> Decimal:
    if not re.fullmatch(r'-?\d\.\d{5}e[+-]\d\d', token, re.ASCII):
        raise Wrong(f'{row}: {token[:40]!r} is no figure with 5 decimals')
    return Decimal(token)


def _demand_sums(row: Energies, name: str) -> None:
    """Raise Wrong where the parts of an energy are not its sum."""
    for total, *parts in SUMS:
        unsure = sum(half(row[column]) for column in (total, *parts))
        rest = row[total] - sum(row[part] for part in parts)
        if abs(float(rest)) > unsure:
            raise Wrong(f'{name}: {" + ".join(parts)} is not {total} {row[total]}')
