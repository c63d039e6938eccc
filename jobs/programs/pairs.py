"""A two-rank program between every two nodes of a job, so many pairs at once; python3 alone, 3.9 or later.

    python3 pairs.py --launcher srun|mpirun --in-flight N [--nodes a,b,c] [--disjoint] -- PROGRAM ARGUMENTS

The nodes are those of the job (Slurm, PBS) unless named. Pairs come in rounds, as in a tournament: in
a round every node is in one pair at most, so that pairs in flight share no node. With --disjoint there is one
round: each node of the first half with the one of the second half in its place. --half takes the nodes of one half
only, --three makes one group of the first three. In the arguments {pair} stands for the names of the nodes, with
commas, and {first} for the first of all. Prints what the program prints of each pair between two lines of its own.
rank.sh, which notes where ranks run, lies beside it. Exit codes: 0, 1 if a pair failed, 2 for what it cannot start
with.
"""

import argparse
import contextlib
import functools
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor


def rounds(nodes):
    """All pairs of the nodes, in rounds of disjoint ones (the circle method); an odd one out rests."""
    circle = list(nodes)
    if len(circle) % 2:
        circle.append(None)
    half = len(circle) // 2
    for _ in range(len(circle) - 1):
        facing = zip(circle[:half], reversed(circle[half:]))            # noqa: B905 (Python 3.9)
        yield [(one, other) for one, other in facing if one and other]
        circle.insert(1, circle.pop())


def job_nodes():
    """The nodes of this job, each once."""
    if os.environ.get('SLURM_JOB_NODELIST'):
        said = subprocess.run(['scontrol', 'show', 'hostnames'], capture_output=True, text=True, check=True)
        return said.stdout.split()
    if os.environ.get('PBS_NODEFILE'):
        with open(os.environ['PBS_NODEFILE']) as file:
            return list(dict.fromkeys(file.read().split()))
    return []


def command(launcher, pair, program, cpus):
    """One rank on each of the nodes, with so many CPUs where srun gives them out."""
    count = str(len(pair))
    if launcher == 'srun':
        return ['srun', '--overlap', f'--nodes={count}', f'--ntasks={count}', '--ntasks-per-node=1',
                f'--cpus-per-task={cpus}', f'--nodelist={",".join(pair)}', *program]
    if is_open_mpi():
        return ['mpirun', '-np', count, '--host', ','.join(f'{node}:1' for node in pair), *program]
    return ['mpirun', '-np', count, '-ppn', '1', '-hosts', ','.join(pair), *program]    # Hydra: MPICH, Intel MPI


@functools.cache
def is_open_mpi():
    said = subprocess.run(['mpirun', '--version'], capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
    return 'Open MPI' in said or 'OpenRTE' in said


def one(options, pair):
    """(exit code, what it printed) of a pair: 124 after the limit, 125 if the ranks shared a node."""
    start = time.perf_counter()
    names = ' '.join(pair)
    ranks = f'ranks-{"-".join(pair)}'
    os.makedirs(ranks, exist_ok=True)
    program = []
    for word in options.program:
        program.append(word.replace('{pair}', ','.join(pair)).replace('{first}', options.first))
    program = ['./rank.sh', '--into', ranks, *program]
    code, printed = run(command(options.launcher, pair, program, options.cpus), options.limit)
    if code == 0 and len({words[1] for words in noted(ranks)}) != len(pair):
        code = 125
        printed += f'the {len(pair)} ranks did not run on {len(pair)} nodes\n'
    seconds = time.perf_counter() - start
    if printed and not printed.endswith('\n'):
        printed += '\n'
    return code, f'parity-pair {names}\n{printed}parity-pair-end {names} exit {code} seconds {seconds:.3f}\n'


def run(arguments, limit):
    """The exit code and all output; what runs longer is ended, so that one bad link costs no other pair."""
    with subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors='replace') as process:
        try:
            printed, _ = process.communicate(timeout=limit)
            return process.returncode, printed
        except subprocess.TimeoutExpired:
            process.terminate()                     # the launcher ends its ranks
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()
        return 124, f'ended after {limit} s\n'


def groups(options, nodes):
    """The groups of nodes, in rounds of disjoint ones."""
    if options.three:
        return [[nodes[:3]]]
    if options.disjoint:
        half = len(nodes) // 2
        return [list(zip(nodes[:half], nodes[half:]))]          # noqa: B905
    return rounds(nodes)


def noted(ranks):
    """Read the notes of rank.sh: number, node and CPUs of each rank."""
    for name in os.listdir(ranks):
        with open(os.path.join(ranks, name)) as file:
            yield file.read().split()


def main(arguments):
    parser = argparse.ArgumentParser(prog='pairs.py', description=__doc__.split('\n')[0])
    parser.add_argument('--launcher', choices=('srun', 'mpirun'), required=True)
    parser.add_argument('--in-flight', type=int, required=True)
    parser.add_argument('--limit', type=int, default=120, help='seconds that a pair may take (120)')
    parser.add_argument('--cpus', type=int, default=1, help='of a rank (1)')
    parser.add_argument('--disjoint', action='store_true', help='each node in one pair')
    parser.add_argument('--half', choices=('first', 'second'), help='no nodes but those of this half')
    parser.add_argument('--three', action='store_true', help='no pairs, but the first three nodes')
    parser.add_argument('--nodes', type=lambda names: names.split(','), default=[])
    parser.add_argument('program', nargs='+')
    options = parser.parse_args(arguments)
    nodes = options.nodes or job_nodes()
    if options.half:
        cut = len(nodes) // 2
        nodes = nodes[:cut] if options.half == 'first' else nodes[cut:2 * cut]
    different = len(set(nodes))
    if different < 2 or different < len(nodes) or options.in_flight < 1:
        parser.error(f'needs two nodes or more, each once, and one pair in flight or more: {" ".join(nodes)}')
    options.first = nodes[0]
    print(f'parity-pairs 1 nodes {len(nodes)} in-flight {options.in_flight}', flush=True)
    failed = 0
    with ThreadPoolExecutor(options.in_flight) as pool:
        for pairs in groups(options, nodes):
            for code, printed in pool.map(functools.partial(one, options), pairs):
                failed += code != 0
                print(printed, end='', flush=True)
    print(f'parity-pairs-end failed {failed}')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
