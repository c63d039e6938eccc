"""The command line of ci/pbs, a real OpenPBS on one machine. Processes, links and options are ci/cluster's."""

import argparse
import sys

import program
import verbs
from record import HEAD


def parser() -> argparse.ArgumentParser:
    top, _, _ = program.parser(
        'ci/pbs', nodes='execution hosts (default 2)', example=f'{HEAD}, pbs1',
        what=f'Make a real OpenPBS of this one machine, if it is installed: {HEAD} (server, scheduler,\n'
             'communication) and execution hosts pbs1.. in namespaces of their own.',
        epilog=f'PBS answers on its own nodes only: ci/pbs exec {HEAD} ci/nightly --system onebox-pbs\n'
               'Exit codes: 0 well, 2 usage, 3 not up or no OpenPBS here, 4 broken; exec: the command\'s.')
    top.add_argument('--pbs', help=argparse.SUPPRESS)
    return top


args = program.parsed(parser())
sys.exit(program.run('ci/pbs', {
    'up': lambda: verbs.up(args),
    'down': verbs.down,
    'status': verbs.status,
    'exec': lambda: verbs.execute(args.node, args.command),
}[args.verb]))
