"""A clause on PBS: `parity contract run` asks for each node by PBS's words. The answers are a real OpenPBS's, recorded (recorded/pbs)."""

from __future__ import annotations

import re

import pytest
import yaml

import pbs_server
import warm
from conftest import needs_cc
from pbs_server import COMMANDS, printed

#: Of both nodes that the recorded OpenPBS has; pbs1 is down.
CLAUSE = {'id': 'double', 'promise': 'Each node computes', 'partition': 'physical', 'check': 'Ops', 'parameters': {'threads': 'one'}, 'size': 'quick',
          'metric': 'double', 'at_least': 0.001, 'unit': 'Gflop/s', 'runs': 5}


@pytest.fixture
def server(tmp_path, monkeypatch):
    return pbs_server.at(tmp_path, monkeypatch)


@needs_cc
def test_a_clause_is_submitted_for_each_node_that_pbs_has(checkout, server):
    (checkout / 'systems' / 'onebox-pbs' / 'contract.yaml').write_text(yaml.safe_dump({'clauses': [CLAUSE]}))
    server('pbsnodes', {'-a': printed('nodes-down')})
    server('qstat', {'-Q -f': {'stdout': 'Queue: workq\n', 'stderr': '', 'exit_code': 0}})
    server('qsub', {'rfm_job.sh': COMMANDS['qsub-too-large']})
    done = warm.parity(checkout, 'contract run --system onebox-pbs --yes')
    assert 'Traceback' not in done.stderr and done.returncode == 4, done.stdout + done.stderr
    assert 'physical: pbs1 (down,job-exclusive): no jobs now; left out' in done.stdout, done.stdout
    assert 'double: pbs2: failed: ' in done.stdout and 'qsub: Job violates queue and/or server resource limits' in done.stdout, done.stdout
    script, = [file.read_text() for file in (checkout / 'results' / 'stage').rglob('rfm_job.sh')]
    assert re.search(r'^#PBS -l select=1:mpiprocs=1:ncpus=1:ompthreads=1:host=pbs2$', script, re.M) and '#PBS -q workq' in script, script
