"""LAMMPS: one run of molecular dynamics, of parity's melt or of any other input.

Loop time and steps make each rate that LAMMPS prints; the ranks' atoms are all atoms. Of the melt the energies are
checked, too: at the beginning they are the crystal's, then they are conserved."""

import itertools
import math
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

#: A rank that knows of no other has a grid of one; serial runs have it, too.
PROGRAM = Program('LAMMPS', title=r'LAMMPS \((?P<version>\d{1,2} [A-Z][a-z]{2} (?P<year>\d{4}).*)\)',
                  tried=('2021', '2021'),
                  alone=r'LAMMPS \(\d.*\)(?=(?:(?!\d by \d)[\s\S])*1 by 1 by 1 MPI processor grid)')

#: What a fact `input` says of parity's own; no night has another one.
MELT = 'melt'
ROWS = 10                   # of the melt's table of energies, after the first
# melt.in: atoms in a sigma^3, where forces end (sigma), temperature of the crystal, time step (tau)
DENSITY, CUT, HOT, STEP = 0.8442, 2.5, 1.44, Decimal('0.005')
# Energy (epsilon) that an atom may gain or lose. Measured: 0.0004 in 200 steps, 0.0025 in 20,000; and 0.028 in
# 2,000 of twice the length.
DRIFT = 0.01
MELTED = (0.62, 0.82)       # the last temperature: 0.76 after 200 steps, 0.70 after 20,000; without forces 1.44

LOOP = r'Loop time of (?P<seconds>\S+) on (?P<ranks>\d+) procs for (?P<steps>\d+) steps with (?P<atoms>\d+) atoms'
GRID = r'(\d+) by (\d+) by (\d+) MPI processor grid'
MELT_TABLE = 'Step Temp PotEng KinEng TotEng'
MELT_ROW = (r'(?P<step>\d+) (?P<temperature>\S+) (?P<potential_sign>-?)(?P<potential>\S+) (?P<kinetic>\S+) '
            r'(?P<total_sign>-?)(?P<total>\S+)')
_DAY = 86400
#: Times of a unit style: the unit of the simulated time, and its share in a unit of the time step.
TIMES = {'lj': ('tau', 1.0), 'metal': ('ns', 1e-3), 'real': ('ns', 1e-6)}
_FACTORS = {'': 1.0, 'k': 1e3, 'M': 1e6, 'G': 1e9}


@dataclass(frozen=True)
class Loop:
    """The steps that LAMMPS timed."""

    seconds: Decimal
    ranks: int
    steps: int
    atoms: int


@dataclass(frozen=True)
class Row:
    """A row of the melt's table: a temperature, and energies of an atom (epsilon)."""

    step: int
    temperature: Decimal
    potential: Decimal
    kinetic: Decimal
    total: Decimal


def read(text: str) -> Read:
    """Atom-steps: atoms times steps over the seconds of the loop.

    Facts: version, input, atoms, ranks, threads, steps. ``input`` is `melt` for parity's own, else the unit style
    and the pair styles. Of the melt: energy (of an atom, epsilon), drift (its largest change), temperature (the
    last)."""
    out = PROGRAM.output(text)
    out.refuse('^ERROR')
    out.ends_with(r'Total wall time: \d+:\d\d:\d\d', 'Total wall time: ...')
    out.refuse(r'^\d+ (.* )?-?(nan|inf)( |$)')
    loop = _loop(out)
    _demand_atoms(out, loop)
    threads = _threads(out, loop)
    style = _rates(out, loop)
    facts = {'version': out.version, **PROGRAM.untried(out.title['year']), 'atoms': loop.atoms,
             'ranks': loop.ranks, 'threads': threads, 'steps': loop.steps}
    if _is_melt(out):
        facts |= {'input': MELT, **_conserved(out, loop)}
    else:
        facts['input'] = _input(out, style)
    return {'atom_steps': loop.atoms * loop.steps / float(loop.seconds) / 1e6}, facts


def _loop(out: Output) -> Loop:
    """Return the one loop that LAMMPS timed."""
    loops = [line for line, _ in out.matches('Loop time of .*')]
    if len(loops) > 1:
        first, second = loops[:2]
        raise Unread(f'{len(loops)} runs of one input (run, minimize), lines {first} and {second}: one is read')
    if out.every('Minimization stats:'):
        raise Unread('a minimisation (minimize): a run of molecular dynamics is read')
    match = out.one(LOOP)
    return Loop(_six_digits(match['seconds'], 'Loop time'), whole(match['ranks'], 'procs'),
                whole(match['steps'], 'steps'), whole(match['atoms'], 'atoms'))


def _six_digits(token: str, what: str) -> Decimal:
    """Return a figure that LAMMPS prints with six digits, but for zeros at its end."""
    return Decimal(f'{number(token, what):.5e}')


def _demand_atoms(out: Output, loop: Loop) -> None:
    """Raise Wrong unless the ranks' atoms are all atoms."""
    average = out.one(r'Nlocal: (\S+) ave .*')[1]
    near('Nlocal', _six_digits(average, 'Nlocal'), loop.atoms / loop.ranks)


def _threads(out: Output, loop: Loop) -> int:
    """Return the threads of a rank."""
    for grid in out.every(GRID):
        same('ranks', math.prod(map(int, grid.groups())), loop.ranks)
    tasks = out.one(r'\S+% CPU use with (\d+) MPI tasks x (\d+|no) OpenMP threads')
    same('ranks', whole(tasks[1], 'MPI tasks'), loop.ranks)
    return 1 if tasks[2] == 'no' else whole(tasks[2], 'OpenMP threads')


def _rates(out: Output, loop: Loop) -> str:
    """Return the unit style. Raise Wrong where a rate is not what steps, time step and seconds make."""
    style = out.one(r'Unit style : (\S+)')[1]
    step = out.figure(r'Time step : (\S+)')
    rates = {}
    for part in out.one(r'Performance: (.+)')[1].split(', '):
        rate, _, unit = part.partition(' ')
        rates[unit] = number(rate, unit, places=3)
    if 'timesteps/s' not in rates:
        raise Unread('no timesteps/s in the line "Performance: ..."')
    agree(rates['timesteps/s'], loop.seconds, loop.steps, 'timesteps/s')
    if style in TIMES:
        unit, share = TIMES[style]
        simulated = float(step) * share * loop.steps
        if f'{unit}/day' not in rates:
            raise Wrong(f'Performance: no {unit}/day of units {style}')
        agree(rates[f'{unit}/day'], loop.seconds, _DAY * simulated, f'{unit}/day')
        if f'hours/{unit}' in rates:
            near(f'hours/{unit}', rates[f'hours/{unit}'], float(loop.seconds) / 3600 / simulated,
                 half(loop.seconds) / 3600 / simulated)
    for prefix, factor in _FACTORS.items():
        atom_steps = rates.get(f'{prefix}atom-step/s')
        if atom_steps:
            agree(atom_steps, loop.seconds, loop.atoms * loop.steps / factor, f'{prefix}atom-step/s')
    return style


def _is_melt(out: Output) -> bool:
    """Return whether parity's melt ran: an input that makes its crystal and prints these columns."""
    return bool(out.every(MELT_TABLE) and out.every(r'Created \d+ atoms'))


def _input(out: Output, style: str) -> str:
    """Return what tells another input: its unit style and its pair styles."""
    pairs = [match[1] for match in out.every(r'\(\d+\) pair (\S+), perpetual.*')]
    return f'{style}, {" and ".join(pairs) or "no pairs"}'[:80]


def _conserved(out: Output, loop: Loop) -> dict[str, float]:
    """Return energy, drift and the last temperature of the table. Raise Wrong where they are not the melt's."""
    same('the time step of the melt', out.figure(r'Time step : (\S+)'), STEP)
    same('atoms', out.count(r'Created (\d+) atoms'), loop.atoms)
    table = _table(out, loop)
    first, last = table[0], table[-1]
    crystal = lattice_energy()
    if abs(float(first.potential) - crystal) > 1e-7 or first.temperature != Decimal(str(HOT)):
        raise Wrong(f'began with PotEng {first.potential} at Temp {first.temperature}: the crystal has '
                    f'{crystal:.9f} at {HOT}')
    drift = max(abs(row.total - first.total) for row in table)
    if drift > DRIFT:
        raise Wrong(f'the energy of an atom moved by {drift}: beyond {DRIFT}')
    if not MELTED[0] < last.temperature < MELTED[1]:
        raise Wrong(f'ended at Temp {last.temperature}: a melt has {MELTED[0]} to {MELTED[1]}')
    return {'energy': float(first.total), 'drift': float(drift), 'temperature': float(last.temperature)}


def _table(out: Output, loop: Loop) -> list[Row]:
    """Return the rows of the melt's table, from step 0 to the last."""
    part = out.part(MELT_TABLE, LOOP)
    rows = [_row(match, loop.atoms) for match in part.every(MELT_ROW)]
    asked = [loop.steps * at // ROWS for at in range(ROWS + 1)]
    if [row.step for row in rows] != asked or len(rows) < len(part.lines):
        raise Incomplete(f'line {part.end}: the table of energies has not {ROWS + 1} rows from step 0 to '
                         f'{loop.steps}')
    return rows


def _row(match, atoms: int) -> Row:
    """Return a row of which the energies add up, and the kinetic one is the temperature's."""
    step = match['step']
    temperature = number(match['temperature'], f'Temp of step {step}', places=9)
    kinetic = number(match['kinetic'], f'KinEng of step {step}', places=9)
    potential = _signed(match, 'potential', f'PotEng of step {step}')
    total = _signed(match, 'total', f'TotEng of step {step}')
    if abs(kinetic + potential - total) > Decimal('2e-9'):
        raise Wrong(f'step {step}: PotEng {potential} and KinEng {kinetic} are not TotEng {total}')
    moving = 1.5 * float(temperature) * (atoms - 1) / atoms
    if abs(float(kinetic) - moving) > 3 * half(kinetic):
        raise Wrong(f'step {step}: KinEng {kinetic} is not the {moving:.9f} of Temp {temperature}')
    return Row(int(step), temperature, potential, kinetic, total)


def _signed(match, name: str, what: str) -> Decimal:
    """Return an energy, which may be negative."""
    size = number(match[name], what, places=9)
    return -size if match[f'{name}_sign'] else size


def lattice_energy() -> float:
    """Return the potential energy of an atom of the crystal (epsilon): half the sum over its neighbours."""
    edge = (4 / DENSITY) ** (1 / 3)
    most = math.ceil(2 * CUT / edge)
    at_cut = _pair_energy(CUT ** 2)
    energy = 0.0
    for site in itertools.product(range(-most, most + 1), repeat=3):
        square = sum(along * along for along in site) * (edge / 2) ** 2
        if sum(site) % 2 == 0 and 0 < square < CUT ** 2:
            energy += (_pair_energy(square) - at_cut) / 2
    return energy


def _pair_energy(square: float) -> float:
    """Return the energy of two atoms (epsilon); ``square`` is that of their distance (sigma)."""
    return 4 * (square ** -6 - square ** -3)
