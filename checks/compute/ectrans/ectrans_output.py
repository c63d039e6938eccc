"""The output of ecTrans' benchmark with --norms, 1.1 to 1.5: times of a step, and of its parts by routine.

Steps make the time of the loop. Calls and times of a routine make its share of the program's time."""

from decimal import Decimal

from parity.check import Lines, Output, Program, Read, Unread, Wrong, half, number, same, whole

PROGRAM = Program('ecTrans', title='======= Start of runtime parameters =======', alone='nproc 1')
END = '===-=== END OF TIMING STATISTICS ===-==='

#: Facts by the words of the parameters.
PARAMETERS = {'truncation': 'nsmax', 'latitudes': 'ndgl', 'levels': 'nlev', 'ranks': 'nproc', 'threads': 'nthread'}
MOST_ERROR = Decimal('1e-10')       # ecTrans repeats the transforms of one field: its rounding errors add up
SKEW = 1e-3                         # share: the loop is of one rank's clock, the steps are means of all ranks
# routines in the statistics, by number and name
STEP = {'4 INV_TRANS': 'Inverse transform', '5 DIR_TRANS': 'Direct transform'}
TRANSPOSITIONS = {152: 'M to L', 153: 'L to M', 157: 'L to G', 158: 'G to L'}


def read(text: str) -> Read:
    """Seconds of a step, the mean over ranks and steps: of both transforms, of their four transpositions, and of
    the rest, which is computation. Facts: truncation, latitudes, levels, ranks, threads, steps, error."""
    out = PROGRAM.output(text)
    out.refuse(r'ABORT|ABOR1')
    out.ends_with(END)
    error = _error(out)
    facts: dict[str, float] = {name: out.count(rf'{word} (\d+)') for name, word in PARAMETERS.items()}
    steps = _steps(out)
    stats = out.part('STATS FOR ALL TASKS', 'TOTAL MEASURED IMBALANCE = .*')
    total = _total(stats)
    _demand_loop(out, steps, _mean(stats, '3 TIME STEP', 'Time step', steps, total))
    step = sum(_mean(stats, name, what, steps, total) for name, what in STEP.items())
    moved = Decimal(0)
    for at, what in TRANSPOSITIONS.items():
        moved += _mean(stats, rf'{at} \w+_CTL', f'{what} transposition', steps, total)
    if moved > step:
        raise Wrong(f'{moved} ms of transpositions in a step of {step} ms')
    facts |= {'steps': steps, 'error': float(error)}
    return {'step': float(step) / 1e3, 'computation': float(step - moved) / 1e3,
            'transposition': float(moved) / 1e3}, facts


def _error(out: Output) -> Decimal:
    """Return the largest error of the transforms. Raise Wrong for one that is too large."""
    errors = [number(row[1], 'max error', zero=True) for row in out.every(r'max error z\S+ = (\S+)')]
    if not errors:
        raise Unread('no line "max error z... = ...": a run with --norms is read')
    error = out.figure(r'max error combined = = (\S+)', zero=True)
    same('the largest max error', max(errors), error)
    if error > MOST_ERROR:
        raise Wrong(f'max error combined is {error}: beyond {MOST_ERROR}')
    return error


def _steps(out: Output) -> int:
    """Return the steps that are in the statistics. Raise Wrong where they took other times than these say."""
    rows = out.every(r'time step (\d+) took (\S+) .*')
    numbers = [whole(row[1], 'a step') for row in rows]
    same('the numbers of the steps', numbers, list(range(1, len(numbers) + 1)))
    warm = _warm_up(out, len(rows))
    seconds = [number(row[2], f'time step {row[1]}', places=4) for row in rows[warm:]]
    stats = out.part('Inverse-direct transforms', '======= End of time step stats =======')
    least = stats.figure(r'min \(s\): (\S+)', places=4)
    most = stats.figure(r'max \(s\): (\S+)', places=4)
    if not seconds or not least <= min(seconds) <= max(seconds) <= most:
        raise Wrong(f'{len(seconds)} steps took other times than {least} to {most} s')
    return len(seconds)


def _warm_up(out: Output, printed: int) -> int:
    """Return how many steps ran first and are in no statistics. ecTrans 1.1 has none, and 1.5 says how many."""
    match = out.maybe(r'Running for (\d+) iterations with (\d+) extra warm-up iterations')
    if not match:
        return 0
    steps = whole(match[1], 'iterations')
    warm = whole(match[2], 'warm-up iterations', zero=True)
    same('the number of the steps', printed, steps + warm)
    return warm


def _demand_loop(out: Output, steps: int, mean: Decimal) -> None:
    """Raise Wrong unless the steps make the time of the loop."""
    loop = out.figure(r'loop \(s\): (\S+)', places=4)
    seconds = steps * float(mean) / 1000
    unsure = SKEW * seconds + half(loop) + steps * half(mean) / 1000
    if abs(float(loop) - seconds) > unsure:
        raise Wrong(f'loop: {loop} s is not {steps} steps of {mean} ms')


def _total(stats: Lines) -> float:
    """Return the program's time (ms), which is 100 %: that of its row makes its share."""
    row = _row(stats, '0 PROGRAM', 'Total')
    same('calls of Total', whole(row['calls'], 'CALLS'), 1)
    longest = number(row['longest'], 'Total: MAX(ms)', places=3)
    share = number(row['share'], 'Total: FRAC(%)', places=2)
    total = float(longest / share * 100)
    _demand_shares(row, 'Total', 1, total)
    return total


def _mean(stats: Lines, name: str, what: str, calls: int, total: float) -> Decimal:
    """Return MEAN(ms) of a routine."""
    row = _row(stats, name, what)
    same(f'calls of {what}', whole(row['calls'], 'CALLS'), calls)
    _demand_shares(row, what, calls, total)
    return number(row['mean'], f'{what}: MEAN(ms)', places=3)


def _row(stats: Lines, name: str, what: str) -> dict[str, str]:
    """Return the words of a routine's row."""
    figures = r'(?P<calls>\d+) (?P<mean>\S+) (?P<longest>\S+) (?P<share>\S+) (?P<unbalanced>\S+)'
    return stats.one(rf'{name} - {what} {figures}', f'{what} of {name}').groupdict()


def _demand_shares(row: dict[str, str], what: str, calls: int, total: float) -> None:
    """Raise Wrong unless MAX and its distance from MEAN, of all calls, are FRAC(%) and UNBAL(%) of the program's
    time."""
    mean = number(row['mean'], f'{what}: MEAN(ms)', places=3)
    longest = number(row['longest'], f'{what}: MAX(ms)', places=3)
    share = number(row['share'], f'{what}: FRAC(%)', places=2)
    unbalanced = number(row['unbalanced'], f'{what}: UNBAL(%)', zero=True, places=2)
    unsure = 100 * calls * half(longest) * 2 / total
    for column, milliseconds, shown in (('FRAC(%)', longest, share), ('UNBAL(%)', longest - mean, unbalanced)):
        percent = 100 * calls * float(milliseconds) / total
        if abs(percent - float(shown)) > half(shown) + unsure + 1e-4 * percent:
            raise Wrong(f'{what}: {column} is {shown}, MAX(ms) and {calls} calls make {percent:.2f}')
