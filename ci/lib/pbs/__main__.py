"""ci/pbs: a real OpenPBS on one machine. The verbs; processes, links and options are those of ci/cluster."""

import argparse
import sys
from pathlib import Path

import options
import verbs
from record import HEAD
from told import Told


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog='ci/pbs', formatter_class=argparse.RawDescriptionHelpFormatter,
        description=f'A real OpenPBS on this one machine, where it is installed: {HEAD} (server, scheduler,\n'
                    'communication) and execution hosts pbs1.. in namespaces of their own.',
        epilog=f'PBS is reached from its own nodes only: ci/pbs exec {HEAD} ci/nightly --system onebox-pbs\n'
               'Exit codes: 0 well, 2 usage, 3 not up or no OpenPBS here, 4 broken; of exec, the command\'s.')
    top.add_argument('--results', type=Path, help=argparse.SUPPRESS)
    top.add_argument('--pbs', help=argparse.SUPPRESS)
    sub = top.add_subparsers(dest='verb', required=True, metavar='VERB')
    up = sub.add_parser('up', help='start it, or repair what is not running')
    up.add_argument('--nodes', type=options.count, metavar='N', help='execution hosts (default 2)')
    up.add_argument('--shared', type=options.folder, metavar='DIR',
                    help='the one folder that every node may write (default: the results folder)')
    sub.add_parser('down', help='end it; nothing stays behind')
    sub.add_parser('status', help='what runs: exit 0 all well, 3 not up, 4 something is broken')
    run = sub.add_parser('exec', help=f'run a command on a node ({HEAD}, pbs1) as root, outside PBS')
    run.add_argument('node')
    run.add_argument('command', nargs=argparse.REMAINDER)
    return top


def main() -> int:
    args = parser().parse_args()
    verbs_of = {'up': lambda: verbs.up(args), 'down': verbs.down, 'status': verbs.status,
                'exec': lambda: verbs.execute(args.node, args.command)}
    try:
        return verbs_of[args.verb]()
    except Told as wrong:
        print(f'parity: {wrong}', file=sys.stderr)
        return wrong.code
    except KeyboardInterrupt:
        print('parity: interrupted; ci/pbs up goes on, ci/pbs down clears', file=sys.stderr)
        return 4


sys.exit(main())
