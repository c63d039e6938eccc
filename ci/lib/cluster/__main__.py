"""The command line of ci/cluster, a real multi-node Slurm on one machine."""

import argparse
import sys

import model
import options
import process
import program
import report
import verbs


def parser() -> argparse.ArgumentParser:
    top, sub, up = program.parser(
        'ci/cluster', nodes='nodes a partition (default 4)', example='head, p1, v1',
        what='Make a real Slurm cluster of this one machine: controller, accounting, nodes p1.. (namespaces)\n'
             'in the partition physical and v1.. (guests with a kernel of their own) in virtual.',
        epilog='Plain sinfo, sbatch, srun, squeue, sacct and scancel work on this machine while it is up.\n'
               'Exit codes: 0 well, 2 usage, 3 not up, 4 broken or unavailable; exec ends with the command\'s.')
    up.add_argument('--cpus', type=options.cpus, metavar='N', help='CPUs a node (default 1; UML guests have one)')
    up.add_argument('--physical-rate', type=options.rate, metavar='RATE', help="link of p nodes, such as 1gbit")
    up.add_argument('--virtual-rate', type=options.rate, metavar='RATE', help='link of v nodes')
    up.add_argument('--second-network', type=options.rate, metavar='RATE', help='eth1 on a network of its own')
    up.add_argument('--slurm', type=options.slurm, metavar='PREFIX',
                    help="another Slurm than the distribution's")
    up.add_argument('--uml', type=options.uml, metavar='PATH',
                    help='the linux.uml for guests of User-mode Linux, instead of the installed one')
    up.add_argument('--no-install', action='store_true',
                    help='install no package, and take no newer User-mode Linux from Debian')
    up.add_argument('--site', action='store_true', default=None,
                    help='what sites set: enforced accounts, closed partitions, cloud nodes, false GPUs')
    logs = sub.add_parser('logs', help='list the logs, or print the end of one')
    logs.add_argument('name', nargs='?', metavar='NODE', help='a node or a daemon')
    kill = sub.add_parser('kill', help='kill -9 a node, or slurmctld, slurmdbd, mariadbd, to try a fault')
    kill.add_argument('name', metavar='NODE')
    start = sub.add_parser('start', help='start a killed one again')
    start.add_argument('name', metavar='NODE')
    return top


args = program.parsed(parser())
cluster = model.load()
process.prefer(str(getattr(args, 'slurm', None) or (cluster.slurm if cluster else '')))
sys.exit(program.run('ci/cluster', {
    'up': lambda: verbs.up(args),
    'down': verbs.down,
    'status': report.status,
    'logs': lambda: report.logs(args.name),
    'exec': lambda: verbs.execute(args.node, args.command),
    'kill': lambda: verbs.kill(args.name),
    'start': lambda: verbs.start(args.name),
}[args.verb]))
