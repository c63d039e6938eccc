"""What ci/cluster says of its options and of what it needs: nothing here starts a cluster."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import TOP

LIB = TOP / 'ci' / 'lib' / 'cluster'


@pytest.fixture
def lib(monkeypatch):
    """The modules of ci/lib/cluster, which is a program and no package."""
    monkeypatch.syspath_prepend(str(LIB))
    import backend
    import model
    import slurm_conf
    yield backend, model, slurm_conf
    for name, module in list(sys.modules.items()):
        if str(getattr(module, '__file__', '') or '').startswith(str(LIB)):
            del sys.modules[name]


def asked(*words: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, '-B', LIB, *words], capture_output=True, text=True)


@pytest.mark.parametrize('words, said', [
    ((), 'VERB'), (('begin',), 'invalid choice'), (('up', '--nodes', '0'), 'valid are 1 to 16 nodes'),
    (('up', '--nodes', '2;id'), 'valid are 1 to 16'), (('up', '--cpus', '99'), 'valid are 1 to'),
    (('up', '--virtual-rate', 'fast'), 'valid are 1mbit to 100gbit'), (('up', '--physical-rate', '0kbit'), 'valid are'),
    (('up', '--shared', '/etc'), 'a folder of the system'), (('up', '--shared', '/tmp/a,b'), 'a comma')])
def test_a_bad_option_is_refused_before_anything_starts(words, said):
    done = asked(*words)
    assert done.returncode == 2 and said in done.stderr and 'Traceback' not in done.stderr


@pytest.mark.skipif(Path('/run/parity-cluster').exists(), reason='the cluster is up')
@pytest.mark.parametrize('words', [('exec', 'head', 'true'), ('kill', 'v1'), ('logs',)])
def test_what_needs_a_cluster_says_that_none_is_up(words):
    assert asked('status').returncode == 3
    done = asked(*words)
    assert done.returncode == 3 and 'not up' in done.stderr


def test_a_machine_without_guests_has_no_partition_virtual(lib, monkeypatch, capsys):
    backend, model, slurm_conf = lib
    monkeypatch.setattr(backend.shutil, 'which', lambda name: None)
    monkeypatch.setattr(backend, 'KVM', Path('/nowhere/kvm'))
    assert backend.choose(4).backend == 'none'
    assert 'no partition virtual' in capsys.readouterr().out
    made = model.Cluster(nodes=2, virtual_nodes=0, cpus=1, physical_rate=None, virtual_rate=None, shared='/srv/results',
                         backend='none', network='10.77.61', files='none')
    text = slurm_conf.slurm_conf(made)
    assert 'PartitionName=physical Nodes=p1,p2' in text and 'PartitionName=virtual' not in text


def test_the_plugin_that_starts_ranks_has_its_library_installed():
    """mpi_pmix.so opens libpmix.so, which libpmix2 does not have: the nodes are idle, and every srun dies."""
    packages, = re.findall(r'^    packages=\((.*?)\)$', (TOP / 'ci' / 'cluster').read_text(), re.M | re.S)
    assert 'libpmix-dev' in packages.split()


QUEUED = 'srun: job 4 queued and waiting for resources\nsrun: job 4 has been allocated resources\n'
NO_PMIX = 'srun: error:  mpi/pmix_v4: init: (null) [0]: mpi_pmix.c:195: pmi/pmix: can not load PMIx library\n' \
          'srun: error: cannot create mpi context for mpi/pmix\n'


@pytest.mark.parametrize('script, why', [
    ('printf "1\\n0\\n"', None), (f'echo "{QUEUED}" >&2; printf "0\\n1\\n"', None),
    (f'echo "{QUEUED}{NO_PMIX}" >&2; exit 1', 'can not load PMIx library'),
    ('exit 1', 'srun ended 1, its ranks printed []'), ('printf "0\\n0\\n"', "its ranks printed ['0', '0']")])
def test_a_partition_is_up_once_two_ranks_ran_there(lib, script, why):
    import trial
    srun = subprocess.Popen(['sh', '-c', script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = trial.why_not('physical', srun, 60)
    assert said == why if why is None else why in said


def test_a_trial_job_that_waits_is_cancelled_with_the_schedulers_reason(lib, tmp_path, monkeypatch):
    import trial
    for name, script in (('squeue', 'echo "PENDING (PartitionDown)"'), ('scancel', f'echo "$@" >{tmp_path}/cancelled')):
        (tmp_path / name).write_text(f'#!/bin/sh\n{script}\n')
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv('PATH', f'{tmp_path}:/usr/bin:/bin')
    srun = subprocess.Popen(['sleep', '600'], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert trial.why_not('physical', srun, 0.1) == 'not ended after 0 s: PENDING (PartitionDown)'
    assert '--name=parity-trial' in (tmp_path / 'cancelled').read_text() and srun.wait() == -9
