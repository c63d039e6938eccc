"""The common command line of ci/cluster and ci/pbs: verbs, their options, and how a command ends."""

import argparse
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import options
from errors import Ended


def parser(name: str, what: str, epilog: str, nodes: str, example: str) -> tuple:
    """Return the parser, its verbs (to add more), and the verb `up` (to add options)."""
    top = argparse.ArgumentParser(prog=name, formatter_class=argparse.RawDescriptionHelpFormatter,
                                  description=what, epilog=epilog)
    top.add_argument('--results', type=Path, help=argparse.SUPPRESS)
    top.add_argument('--only-parse', action='store_true', help=argparse.SUPPRESS)
    sub = top.add_subparsers(dest='verb', required=True, metavar='VERB')
    top.set_defaults(parsers=sub.choices)
    up = sub.add_parser('up', help='start it, or restart the parts that do not run')
    up.add_argument('--nodes', type=options.count, metavar='N', help=nodes)
    up.add_argument('--shared', type=options.folder, metavar='DIR',
                    help='the one folder that every node may write (default: the results folder)')
    sub.add_parser('down', help='end it and remove everything')
    sub.add_parser('status', help='print what runs: exit 0 all well, 3 not up, 4 something is broken')
    run = sub.add_parser('exec', help=f'run a command on a node ({example}) as root, outside the batch system')
    run.add_argument('node')
    run.add_argument('command', nargs=argparse.REMAINDER)
    return top, sub, up


def parsed(top: argparse.ArgumentParser) -> argparse.Namespace:
    """Return the words; end the program if they are wrong, ask for help, or are only to parse (exit code 64)."""
    args, unknown = top.parse_known_args()
    if unknown:
        args.parsers[args.verb].error(f'unrecognized arguments: {" ".join(unknown)}')   # with what is valid there
    if args.only_parse:
        sys.exit(64)
    return args


def run(name: str, verb: Callable[[], int]) -> int:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader such as head(1) may stop early
    try:
        return verb()
    except Ended as wrong:
        print(f'parity: {wrong}', file=sys.stderr)
        return wrong.code
    except KeyboardInterrupt:
        print(f'parity: interrupted; {name} up goes on, {name} down removes everything', file=sys.stderr)
        return 4
