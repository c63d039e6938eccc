"""ci/cluster: a real multi-node Slurm on one machine. The verbs; each file beside it is one part."""

import argparse
import signal
import sys
from pathlib import Path

import options
import report
import verbs
from told import Told


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog='ci/cluster', formatter_class=argparse.RawDescriptionHelpFormatter,
        description='A real Slurm cluster on this one machine: controller, accounting, nodes p1.. (namespaces)\n'
                    'in the partition physical and v1.. (guests with a kernel of their own) in virtual.',
        epilog='Plain sinfo, sbatch, srun, squeue, sacct and scancel work on this machine while it is up.\n'
               'Exit codes: 0 well, 2 usage, 3 not up, 4 broken or not to be had; of exec, the command\'s.')
    top.add_argument('--results', type=Path, help=argparse.SUPPRESS)
    sub = top.add_subparsers(dest='verb', required=True, metavar='VERB')
    up = sub.add_parser('up', help='start it, or repair what is not running')
    up.add_argument('--nodes', type=options.count, metavar='N', help='nodes a partition (default 4)')
    up.add_argument('--cpus', type=options.cpus, metavar='N', help='CPUs a node (default 1; UML guests have one)')
    up.add_argument('--physical-rate', type=options.rate, metavar='RATE', help="link of p nodes, such as 1gbit")
    up.add_argument('--virtual-rate', type=options.rate, metavar='RATE', help='link of v nodes')
    up.add_argument('--shared', type=options.folder, metavar='DIR',
                    help='the one folder that every node may write (default: the results folder)')
    sub.add_parser('down', help='end it; nothing stays behind')
    sub.add_parser('status', help='what runs: exit 0 all well, 3 not up, 4 something is broken')
    run = sub.add_parser('exec', help='run a command on a node (head, p1, v1) as root, outside Slurm')
    run.add_argument('node')
    run.add_argument('command', nargs=argparse.REMAINDER)
    logs = sub.add_parser('logs', help='where the logs are, or the end of one')
    logs.add_argument('name', nargs='?', metavar='NODE', help='a node or a daemon')
    kill = sub.add_parser('kill', help='kill -9 a node, or slurmctld, slurmdbd, mariadbd: for tests of faults')
    kill.add_argument('name', metavar='NODE')
    start = sub.add_parser('start', help='start again what was killed')
    start.add_argument('name', metavar='NODE')
    return top


def main() -> int:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader such as head(1) may have seen enough
    args = parser().parse_args()
    verbs_of = {
        'up': lambda: verbs.up(args),
        'down': verbs.down,
        'status': report.status,
        'logs': lambda: report.logs(args.name),
        'exec': lambda: verbs.execute(args.node, args.command),
        'kill': lambda: verbs.kill(args.name),
        'start': lambda: verbs.start(args.name),
    }
    try:
        return verbs_of[args.verb]()
    except Told as wrong:
        print(f'parity: {wrong}', file=sys.stderr)
        return wrong.code
    except KeyboardInterrupt:
        print('parity: interrupted; ci/cluster up goes on, ci/cluster down clears', file=sys.stderr)
        return 4


sys.exit(main())
