"""What the node that runs a job says of itself: programs/node.sh."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import TOP
from parity.scheduler import scheduled

NODE = TOP / 'jobs' / 'programs' / 'node.sh'
pytestmark = pytest.mark.skipif('User Mode Linux' in Path('/proc/cpuinfo').read_text(), reason='a guest of User-mode Linux knows itself')


def facts(tmp_path: Path, **programs: str) -> dict[str, str]:
    """What it says on this machine where of the programs that know a hypervisor there are only these."""
    for name in ('sh', 'sed', 'head', 'tr', 'grep', 'uname'):
        (tmp_path / name).symlink_to(shutil.which(name))
    for name, text in programs.items():
        program = tmp_path / name.replace('_', '-')
        program.write_text(f'#!/bin/sh\n{text}\n')
        program.chmod(0o755)
    done = subprocess.run(['sh', NODE], env={'PATH': str(tmp_path)}, capture_output=True, text=True)
    return dict(re.findall(r'^(\w+): (.*)$', done.stdout, re.M))


@pytest.mark.parametrize('programs, said', [
    ({'systemd_detect_virt': 'echo kvm'}, 'kvm'), ({'systemd_detect_virt': 'echo none; exit 1'}, 'none'),
    ({'systemd_detect_virt': 'echo qemu', 'lscpu': 'echo "Hypervisor vendor: KVM"'}, 'qemu'),
    ({'lscpu': 'echo "Hypervisor vendor:                     KVM"'}, 'kvm'),
    ({'lscpu': 'echo "Hypervisor vendor: VMware"'}, 'vmware')])
def test_a_node_names_its_hypervisor(tmp_path, programs, said):
    assert facts(tmp_path, **programs)['virtualisation'] == said


def test_the_nodes_of_the_job_are_those_that_slurm_told_it(tmp_path, monkeypatch):
    monkeypatch.setenv('SLURM_JOB_NODELIST', 'p[1-2]')
    node = tmp_path / 'node.txt'
    node.write_text(subprocess.run(['sh', NODE], capture_output=True, text=True).stdout)
    assert scheduled.hostlist(str(tmp_path)) == 'p[1-2]'
    assert scheduled.node(str(tmp_path))['node'] == platform.node()
