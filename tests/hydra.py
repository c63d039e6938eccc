"""A launcher like Hydra, MPICH's: it starts ranks and binds them as HYDRA_BINDING says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = r'''
import os
import subprocess
import sys

if sys.argv[1] == '--version':
    print('HYDRA build details:\n    Version:                                 5.0.2')
    sys.exit()
cores = {}
for line in subprocess.run(['lscpu', '-p=CPU,CORE,SOCKET'], capture_output=True, text=True).stdout.splitlines():
    if line[0] != '#' and int(line.split(',')[0]) in os.sched_getaffinity(0):
        cpu, core = line.split(',')[:2]
        cores.setdefault(core, set()).add(int(cpu))
ranks = []
for rank in range(int(sys.argv[2])):
    mine = [*cores.values()][rank % len(cores)] if os.environ.get('HYDRA_BINDING') == 'core' else os.sched_getaffinity(0)
    ranks.append(subprocess.Popen(sys.argv[3:], env={**os.environ, 'PMI_RANK': str(rank)},
                                  preexec_fn=lambda: os.sched_setaffinity(0, mine)))
sys.exit(max(rank.wait() for rank in ranks))
'''


def put(folder: Path, loose: bool = False) -> Path:
    """Write it into ``folder`` as mpirun; a ``loose`` one does not see which binding is asked for."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / 'hydra.py').write_text(SCRIPT)
    mpirun = folder / 'mpirun'
    mpirun.write_text(f'#!/bin/sh\n{"unset HYDRA_BINDING" if loose else ":"}\nexec {sys.executable} {folder}/hydra.py "$@"\n')
    mpirun.chmod(0o755)
    return mpirun


def has_two_cores() -> bool:
    """Return whether ranks can be bound to different cores here."""
    said = subprocess.run(['lscpu', '-p=CPU,CORE'], capture_output=True, text=True).stdout.splitlines()
    pairs = [line.split(',') for line in said if line[0] != '#']
    return len({core for cpu, core in pairs if int(cpu) in os.sched_getaffinity(0)}) > 1
