"""NAS Parallel Benchmarks 3.3 and 3.4 (MPI, OpenMP and serial): BT, CG, EP, FT, IS, LU, MG and SP.

The total rate times the seconds is the class's number of operations. The rates of the processes or threads add up
to the total. All have two decimals: a change below them is not noticed. The printed size is that of the class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from npb_problems import BENCHMARKS, PROBLEMS, Problem, million_operations

from parity.check import (
    Incomplete,
    Lines,
    Output,
    Program,
    Read,
    Unread,
    Wrong,
    agree,
    half,
    number,
    ordered,
    same,
)
from parity.measure.check.reader import whole

PROGRAM = Program('NPB', tried=('3.3', '3.4'), alone='Total processes = 1',
                  title=r'NAS Parallel Benchmarks \(?(?:NPB)?(?P<version>\d\.\d+)(?P<model>[-A-Z]*)\)? --? '
                        r'(?P<benchmark>\S.*) Benchmark')

MPI, OPENMP, SERIAL = 'MPI', 'OpenMP', 'serial'
#: What the titles call the programming models.
MODELS = {'': MPI, '-OMP': OPENMP, '-SER': SERIAL}
#: Of what a rate is printed beside the total.
WORKERS = {MPI: 'process', OPENMP: 'thread', SERIAL: ''}

#: The rate of one of all.
SHARE = r'Mop/s/(process|thread) = .*'
END = r'(?:Internet: )?npb@nas\.nasa\.gov'
#: How the programs refuse a number of processes or a size (3.3 and 3.4).
REFUSED = '|'.join((
    'Expecting a .{1,40} number of processes', 'ERROR: [Nn]umber of processes ', 'ERROR: requested for ',
    '(couldn.t|could not) determine proper proc_grid', 'SIZE IS TOO SMALL', 'Cell size too small',
    'Too many nodes'))
NO_MEMORY = 'Error encountered in allocating space|ERROR: memoy allocation failed|Error: integer overflow'
FAILED = ('(?i:' + '|'.join((
    'verification failed', 'no verification performed', '^FAILURE:', 'UNSUCCESSFUL', 'NOT PERFORMED',
    'Failed partial verification', 'number of keys out of sort', r'(?<![\w.])(nan|inf|infinity)(?![\w.])')) + ')')
OPERATIONS = {'ep': 'Random numbers generated', 'is': 'keys ranked'}

#: Of BT with NPB_TIMER_FLAG: the seconds of a routine, by the timer that has them.
COMPUTATION = {'rhs_computation': 'rhs', 'xsolve_computation': 'xsolve',
               'ysolve_computation': 'ysolve', 'zsolve_computation': 'zsolve'}
COMMUNICATION = {'rhs_communication': 'exch', 'xsolve_communication': 'xcomm',
                 'ysolve_communication': 'ycomm', 'zsolve_communication': 'zcomm'}
ROUTINES = COMPUTATION | COMMUNICATION
ROUNDED = Decimal('0.00025')            # seconds: four decimals of five timers


def read(text: str) -> Read:
    """mops_total (Mop/s), seconds; mops_per_process (MPI) or mops_per_thread (OpenMP), of one of all.

    ``seconds`` is the time printed; for a run below 0.005 s, which prints 0.00, operations over rate.
    Facts: benchmark (bt ... sp), class, version; model: MPI, OpenMP or serial; of MPI total_processes and
    active_processes: fewer where NPB let some idle; of OpenMP threads: 1 where it was compiled without OpenMP."""
    out = _output(text)
    model = _model(out)
    benchmark = _benchmark(out)
    out.refuse(REFUSED)
    out.refuse(NO_MEMORY, Incomplete)
    out.refuse(FAILED)
    out.ends_with(END, 'npb@nas.nasa.gov')
    out.one(rf'{benchmark.upper()} Benchmark Completed\.?', f'{benchmark.upper()} Benchmark Completed')
    verification = out.one(r'Verification = (.*)')[1]
    if verification != 'SUCCESSFUL':
        raise Wrong(f'verification: {verification[:40]!r}')
    version = _version(out)
    npb_class = _class(out, benchmark)
    _demand_workers(out, model)
    rate = out.figure(r'Mop/s total = (\S+)', places=2)
    decimals = None if model == SERIAL else 2               # some serial ones print three
    seconds = out.figure(r'Time in seconds = (\S+)', zero=True, places=decimals)
    if not seconds and not out.every(SHARE):
        raise Unread('a run of 0.00 s on one core: nothing in the output confirms its rate')
    work = million_operations(benchmark, npb_class)
    agree(rate, seconds, work, f'Mop/s of {benchmark.upper()} class {npb_class}')
    figures = {'mops_total': float(rate), 'seconds': float(seconds) or work / float(rate)}
    facts = {'benchmark': benchmark, 'class': npb_class, 'version': version, 'model': model,
             **PROGRAM.untried(version)}
    if model == MPI:
        total = out.count(r'Total processes = (\S+)')
        figures['mops_per_process'] = _share(out, 'process', total, rate)
        facts |= {'total_processes': total, 'active_processes': _active(out, total)}
    elif model == OPENMP and _tells_threads(out):
        threads = out.count(r'Total threads = (\S+)')
        figures['mops_per_thread'] = _share(out, 'thread', threads, rate)
        facts['threads'] = threads
    elif model == OPENMP:
        facts['threads'] = 1
    if benchmark == 'bt' and model == MPI and out.every(r'timer .*'):
        figures |= _routines(out)
    return figures, facts


def _output(text: str) -> Output:
    """Return the program's lines. Raise Wrong for a run that NPB refused before its title."""
    try:
        return PROGRAM.output(text)
    except Incomplete:
        Lines(text).refuse(REFUSED)
        raise


def _model(out: Output) -> str:
    """Return the programming model that the title names."""
    named = out.title['model']
    if named not in MODELS:
        raise Unread(f'NPB{out.version}{named[:20]} is not read; read are NPB with MPI, with OpenMP (-OMP) '
                     'and serial (-SER)')
    return MODELS[named]


def _benchmark(out: Output) -> str:
    """Return the benchmark that the title names."""
    name = out.title['benchmark']
    if name.lower() not in BENCHMARKS or not name.isupper():
        raise Unread(f'{name[:40]} of NPB has no check; read are {", ".join(BENCHMARKS).upper()}')
    return name.lower()


def _version(out: Output) -> str:
    """Return the version, which begins as that of the title does."""
    version = out.one(r'Version = (\d[\d.]*)')[1]
    if version != out.version and not version.startswith(f'{out.version}.'):
        raise Wrong(f'version: {version[:40]} and {out.version} in one output')
    return version


def _class(out: Output, benchmark: str) -> str:
    """Return the class, whose size, iterations and kind of operation are those printed."""
    npb_class = out.one(r'Class = (.*)')[1]
    problem = PROBLEMS.get((benchmark, npb_class))
    if not problem:
        raise Wrong(f'{benchmark.upper()} class {npb_class[:40]!r} is none of NPB')
    _demand_size(out, npb_class, problem)
    same('iterations', out.count(r'Iterations = (\S+)', zero=True), problem.iterations)
    same('operations', out.one(r'Operation type = (.*)')[1], OPERATIONS.get(benchmark, 'floating point'))
    beside_the_size = out.maybe(r'.*\(class ([A-Z])\)', '(class ...)')
    if beside_the_size:
        same('class', beside_the_size[1], npb_class)
    return npb_class


def _demand_size(out: Output, npb_class: str, problem: Problem) -> None:
    """Raise Wrong unless the size is that of the class."""
    printed = out.one(r'Size = (\d[\dx .]*)', 'Size = ...')[1]
    expected = 'x'.join(map(str, problem.size))
    size = printed.replace(' ', '').rstrip('.')
    if size != expected:
        raise Wrong(f'the size is {size[:40]}, that of class {npb_class} is {expected}')


def _demand_workers(out: Output, model: str) -> None:
    """Raise Wrong for rates of processes or threads that the model of the title does not have."""
    for rate in out.every(SHARE):
        if rate[1] != WORKERS[model]:
            raise Wrong(f'Mop/s/{rate[1]} in an output of NPB with the title of its {model} version')


def _share(out: Output, worker: str, workers: int, total: Decimal) -> float:
    """Return the rate of one process or thread, once those of all make the total."""
    each = out.figure(rf'Mop/s/{worker} = (\S+)', places=2)
    rounded = (workers + 1) * half(total)
    if abs(each * workers - total) > rounded:
        raise Wrong(f'{each} Mop/s a {worker} of {workers} are not {total} Mop/s in total')
    return float(each)


def _tells_threads(out: Output) -> bool:
    """Return whether NPB counted its threads: 3.4 does not where it was compiled without OpenMP."""
    return bool(out.every(r'(?:(?:Total|Avail) threads|Mop/s/thread) = .*'))


def _active(out: Output, total: int) -> int:
    """Return how many processes are active; 3.4.0 calls them procs. In 3.3, BT, CG, EP and SP tell it, the others
    tell how many there are: of these none can idle."""
    active = out.maybe(r'Active proc(?:esse)?s ?= (\S+)')
    if active:
        return whole(active[1], 'Active processes')
    began = out.one(r'Number of (?:active )?processes ?: (\d+)', 'Number of processes: ...')
    count = whole(began[1], 'Number of processes')
    if 'active' not in began[0] and count != total:
        raise Wrong(f'{count} processes began, {total} ended')
    return count


def _routines(out: Output) -> dict[str, float]:
    """Return the mean seconds of BT's routines over its ranks. Raise Wrong where timers contradict each other."""
    numbers = [int(row[1]) for row in out.every(r'timer (\d{1,9})\(.*')]
    if numbers != list(range(1, len(numbers) + 1)):
        raise Wrong('the timers do not follow one another')
    seconds = {}
    for routine, timer in ROUTINES.items():
        seconds[routine] = _timer(out, timer)
    computation = sum(seconds[routine] for routine in COMPUTATION)
    communication = sum(seconds[routine] for routine in COMMUNICATION)
    totcomp, totcomm = _timer(out, 'totcomp'), _timer(out, 'totcomm')
    if abs(communication - totcomm) > ROUNDED:
        raise Wrong(f'timers: the routines make {communication} s of communication, totcomm is {totcomm}')
    if computation - totcomp > ROUNDED:
        raise Wrong(f'timers: the routines make {computation} s of computation, totcomp is {totcomp}')
    return {routine: float(mean) for routine, mean in seconds.items()}


def _timer(out: Output, timer: str) -> Decimal:
    """Return the mean of a timer, which lies between the least and the most of the ranks."""
    row = out.one(rf'timer \d+\( ?{timer} ?\) : (\S+) (\S+) (\S+)', f'timer ({timer})')
    what = f'timer {timer}'
    least = number(row[1], what, zero=True, places=4)
    most = number(row[2], what, zero=True, places=4)
    mean = number(row[3], what, zero=True, places=4)
    ordered(what, least, mean, most)
    return mean


def check(facts: dict[str, int | str], benchmark: str, npb_class: str, ranks: int) -> None:
    """Raise Wrong unless this was MPI's benchmark and class asked for, on all ``ranks`` and no others."""
    asked = {'model': MPI, 'benchmark': benchmark, 'class': npb_class,
             'total_processes': ranks, 'active_processes': ranks}
    for name, expected in asked.items():
        if facts[name] != expected:
            raise Wrong(f'{name.replace("_", " ")}: ran {facts[name]}, asked for {expected}')


def receive_seconds(calls: Sequence[Mapping[str, Any]], npb_class: str, ranks: int) -> float:
    """Return the mean time of a rank in MPI_Recv (s), of a profile of LU. Raise Wrong for any other number of
    receives than LU's messages ask for (`parity.judge.stats.laws.lu_messages`)."""
    from parity.judge.stats import laws  # numpy, which no other case needs
    problem = PROBLEMS['lu', npb_class]
    needed = set()
    for warm_up in (0, 1):
        messages = laws.lu_messages(problem.size[0], problem.iterations, ranks, warm_up)
        needed.add(round(ranks * messages.blocking))
    receives = [call for call in calls if call['call'] == 'Recv']
    count = receives[0]['count'] if receives else 0
    if count not in needed:
        valid = ' or '.join(map(str, sorted(needed)))
        raise Wrong(f'{count} receives of LU class {npb_class} on {ranks} ranks: must be {valid}')
    return receives[0]['mean_seconds'] if receives else 0.0
