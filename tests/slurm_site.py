"""A Slurm site of any size, in the words of tests/recorded/slurm: what its commands print, for tests."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

RECORDED = Path(__file__).parent / 'recorded' / 'slurm'
#: In front of everything that a stand-in for a command prints: it knows these questions only.
_STUB = '#!/bin/bash\ncase "$*" in\n{}\n*) echo "unknown question: $*" >&2; exit 1;;\nesac\n'


def recorded(name: str, line: int, **keys) -> str:
    """Return a recorded line with the values of some of its keys replaced."""
    text = (RECORDED / f'{name}.txt').read_text().splitlines()[line]
    for key, value in keys.items():
        text = re.sub(rf'\b{key}=\S*', f'{key}={value}', text)
    return text


@dataclass(frozen=True)
class Nodes:
    """``count`` like nodes named by ``prefix``; ``other`` replaces keys of the recorded line."""

    prefix: str
    count: int
    partitions: str
    cores: int = 64             # of each of two sockets
    mib: int = 515_000
    features: str = 'milan'
    gres: str = '(null)'
    state: str = 'IDLE'
    other: tuple[tuple[str, str], ...] = ()

    def lines(self) -> list[str]:
        cpus = 4 * self.cores
        line = recorded('node', 1, **{
            'CoresPerSocket': self.cores, 'CPUTot': cpus, 'CPUEfctv': cpus, 'Sockets': 2, 'ThreadsPerCore': 2, 'AvailableFeatures': self.features,
            'ActiveFeatures': self.features, 'Gres': self.gres, 'RealMemory': self.mib, 'State': self.state, 'Partitions': self.partitions, **dict(self.other)})
        return [line.replace('p2', f'{self.prefix}{number:04}') for number in range(1, self.count + 1)]


#: 1,000 nodes as sites have them: one large partition seen through several queues, memories and GPUs of several
#: kinds, a group's own nodes, some drained.
THOUSAND = (
    Nodes('c', 838, 'batch,long,all'), Nodes('d', 10, 'batch,debug,all'),
    Nodes('e', 12, 'batch,long,all', state='DOWN*+DRAIN', other=(('Owner', 'N/A Reason=State=IDLE [root@2026-11-20]'),)),
    Nodes('m', 40, 'batch,long,all', mib=1_031_000, features='milan,himem'), Nodes('g', 60, 'gpu,all', cores=32, gres='gpu:a100:4(S:0-1)'),
    Nodes('h', 20, 'gpu,all', cores=32, features='genoa', gres='gpu:h100:4(S:0-1),lscratch:3500'), Nodes('x', 20, 'astro'),
)
PARTITIONS = tuple(recorded('partition', 1, PartitionName=name, **keys) for name, keys in {
    'batch': {'Default': 'YES', 'MaxTime': '1-00:00:00', 'DefMemPerNode': '4000'}, 'long': {'MaxTime': '14-00:00:00', 'MaxNodes': '64'},
    'debug': {'MaxTime': '00:30:00'}, 'all': {'MaxTime': '04:00:00', 'OverSubscribe': 'EXCLUSIVE'},
    'gpu': {'MaxTime': '2-00:00:00', 'MaxNodes': '16'}, 'astro': {'AllowAccounts': 'astro,cosmo'}, 'empty': {}}.items())


def answers() -> dict[str, dict[str, str]]:
    """Return the answers of each command, by its arguments."""
    config = re.sub(r'(MpiDefault +)= .*', r'\1= none', (RECORDED / 'config.txt').read_text()).replace('= onebox', '= thousand')
    return {
        'scontrol': {'-a --oneliner show node': '\n'.join(line for kind in THOUSAND for line in kind.lines()) + '\n', 'show config': config,
                     '-a --oneliner show partition': '\n'.join(PARTITIONS) + '\n', '--oneliner show licenses': ''},
        'sbatch': {'--test-only *': ''}, 'sacctmgr': {'-nP show user *': 'bench|bench\nbench|shared\n'}, 'srun': {'--mpi=list': (RECORDED / 'mpi-list.txt').read_text()}}


def install(folder: Path, told: dict[str, dict[str, str]]) -> Path:
    """Stand-ins for the commands in ``folder``; what is asked otherwise fails."""
    folder.mkdir(exist_ok=True)
    for command, questions in told.items():
        cases = []
        for number, (question, text) in enumerate(questions.items()):
            (folder / f'{command}.{number}').write_text(text)
            cases.append(f'"{question.removesuffix(" *")}"{"*" if question.endswith(" *") else ""}) '
                         f"/bin/cat '{folder}/{command}.{number}';;")
        (folder / command).write_text(_STUB.format('\n'.join(cases)))
        (folder / command).chmod(0o755)
    return folder


#: What sbatch of Slurm 22.05 says of limits: those that time mends, and the others.
_VIOLATES = 'sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user\'s size and/or time limits)'
REFUSED = {
    'full': [*(f'sbatch: error: {limit}\n{_VIOLATES}' for limit in ('QOSMaxSubmitJobPerUserLimit', 'QOSGrpSubmitJobsLimit',
                                                                  'AssocMaxSubmitJobLimit', 'AssocGrpSubmitJobsLimit')),
             # MaxJobCount: Slurm 22.05 where jobs that have ended fill it, and 26.05; after two minutes sbatch gives up
             *(f'sbatch: error: Slurm {full}, sleeping and retrying\nsbatch: error: Batch job submission failed: Resource temporarily unavailable'
               for full in ('temporarily unable to accept job', 'job queue full'))],
    'for ever': ['sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified',
                 'sbatch: error: Unable to open file rfm_job.sh'],
}
