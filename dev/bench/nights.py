"""Many nights of a large system, with made-up figures, which ReFrame itself stores in its database."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

DAY, FIRST = 86400.0, 1780000000.0
#: A system of the checkout; two of its partitions are a declared pair.
SYSTEM = 'example-slurm'
_SOFTWARE = {'provider': 'spack', 'identity': 'made up'}


def stored(partitions: dict[str, int], metrics: int, nights: int, slow: float = 0.02, first: int = 0,
           zero: float = FIRST) -> None:
    """Store nights below PARITY_RESULTS: each partition has its number of cases, one run each, with all metrics.

    ``first``: the number of the first of these nights. ``zero``: when night 0 began (Unix time). From the last but
    one on, the share ``slow`` of the cases is 10 % slower; of later nights, in all."""
    from parity.judge.store import writing
    rng = random.Random(1 + first)
    slow_from = first if first else nights - 2
    names = [(p, f'Stream %node=n{i:04}') for p, count in partitions.items() for i in range(count)]
    noted = {f'metric_{m:02}': {'unit': 'GB/s', 'better': 'higher', 'limit': None, 'ceiling': None}
             for m in range(metrics)}
    listed = [{'name': name, 'unit': m['unit'], 'better': m['better']} for name, m in noted.items()]
    session = {'id': 'bench', 'announcement': 'made up', 'facts': {'machine': {'hostname': 'head'}},
               'plan': {'system': SYSTEM, 'providers': ['spack'], 'checks': [], 'problems': [],
                        'cases': [_planned(*place, listed) for place in names]}}
    for night in range(first, first + nights):
        began = zero + night * DAY
        factors = [0.9 if night >= slow_from and i < slow * len(names) else 1.0 for i in range(len(names))]
        cases = [_ran(*place, noted, factor, rng, began) for place, factor in zip(names, factors, strict=True)]
        cases[0]['parity_session'] = session
        writing.store(writing.as_report({}, cases, began, began + 3600, cmdline='reframe -c checks/ -r'))


def _planned(partition: str, case: str, metrics: list[dict]) -> dict[str, Any]:
    return {'check': 'Stream', 'case': case, 'unique_name': case, 'subsystem': 'memory', 'size': 'nightly',
            'file': 'checks/memory/stream/stream.py', 'needs': ['stream'], 'system': SYSTEM,
            'partition': partition, 'environ': 'spack', 'metrics': metrics}


def _ran(partition: str, case: str, noted: dict, factor: float, rng: random.Random, began: float) -> dict:
    """Return a passed case, as large as ReFrame's own record: 5 kB and its figures."""
    node = case.rpartition('=')[2]
    figures = {f'{SYSTEM}:{partition}:{name}': [factor * rng.gauss(75, 0.75), 0, None, None, 'GB/s', 'pass']
               for name in noted}
    folder = Path('/results/output', SYSTEM, partition, 'spack', f'Stream_{node}')
    record = {'journal': 'bench', 'subsystem': 'memory', 'size': 'nightly', 'needs': ['stream'], 'metrics': noted,
              'software': _SOFTWARE, 'labels': {}, 'left_out': {}, 'sizing': {}, 'changed': {},
              'check': '6ddac180b872',
              'node': {'node': node, 'kernel': '6.1.187', 'processor': 'made up', 'virtualisation': 'none'},
              'facts': {f'fact {n}': 'of what was printed' * 4 for n in range(20)}}
    return {'name': case, 'display_name': case, 'unique_name': f'{case} {partition}', 'system': SYSTEM,
            'partition': partition, 'environ': 'spack', 'result': 'pass', 'fail_phase': None, 'fail_reason': None,
            'fixture': False, 'perfvalues': figures, 'job_nodelist': [node], 'jobid': '17', 'time_run': 2.0,
            'job_submit_time': began, 'job_completion_time_unix': began + 60, 'outputdir': str(folder),
            'stagedir': str(folder), 'num_tasks': 1, 'num_cpus_per_task': 8, 'parity': record,
            'parity_session': {},
            'executable_opts': [], 'env_vars': {'OMP_NUM_THREADS': '8'},
            'variables': {f'variable {n}': 'that ReFrame notes ' * 2 for n in range(40)}}
