"""Whether the process that a journal names still runs: yes, no, or not to be known from here."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys

import pytest

from parity.session import owner
from parity.session.owner import MACHINES_OWN, Owner

HERE = Owner(os.getpid(), 'boot:100', 'node1', 'machine', MACHINES_OWN)
BOOTED = 1_795_190_000.0
CONTAINER = 4026532178


@pytest.fixture
def here(monkeypatch):
    """This process is HERE, on a machine that was started at BOOTED; no other can be seen."""
    def kill(pid, _):
        raise PermissionError if pid == 1 else ProcessLookupError
    monkeypatch.setattr(owner, 'current', lambda: HERE)
    monkeypatch.setattr(owner, 'start_time', lambda pid: HERE.started if pid == HERE.pid else None)
    monkeypatch.setattr(owner, '_booted', lambda: BOOTED)
    monkeypatch.setattr(os, 'kill', kill)


@pytest.mark.parametrize('other, began, runs', [
    ({}, 1, True),
    ({'started': 'boot:99'}, 1, False),                                 # its number is another process's now
    ({'pid': 2 ** 40}, 1, False),
    ({'pid': 1}, 1, None),                                              # another user's process, which /proc hides (hidepid)
    ({'host': 'renamed'}, 1, True),                                     # boot, namespace, number and start are enough
    ({'pid_namespace': CONTAINER}, 1, None),                            # a container on this machine
    ({'started': 'before:1'}, -1, False),                               # this machine, before it was started again
    ({'started': 'before:1'}, 1, None),                                 # its clone: it began after this one was started
    ({'started': 'before:1', 'host': 'node2'}, -1, None),
    ({'started': 'before:1', 'machine_id': 'clone'}, -1, None),
    ({'started': 'before:1', 'pid_namespace': CONTAINER}, -1, None),    # a container of that name, on any host
    ({'started': ''}, 1, None),
    ({'host': '', 'machine_id': '', 'pid_namespace': 0}, 1, None),      # an older journal
])
def test_who_can_be_asked(here, other, began, runs):
    assert dataclasses.replace(HERE, **other).runs(BOOTED + began) is runs


def test_a_container_restarted_with_its_host_is_not_taken_for_a_machine(here, monkeypatch):
    inside = dataclasses.replace(HERE, pid_namespace=CONTAINER)
    monkeypatch.setattr(owner, 'current', lambda: inside)
    assert dataclasses.replace(inside, started='before:1').runs(BOOTED - 1) is None


def test_a_proc_of_another_namespace_names_no_process_of_ours(monkeypatch, tmp_path):
    (tmp_path / 'self').symlink_to('1')
    monkeypatch.setattr(owner, 'PROC', tmp_path)
    assert not owner.sees_processes() and owner.processes_of('x') == []


def test_a_real_process_lives_and_ends():
    code = 'from parity.session import owner; print(owner.current()); print(repr(owner.current())); input()'
    child = subprocess.Popen([sys.executable, '-c', code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline().startswith(f'process {child.pid} on ')
    told = eval(child.stdout.readline())    # noqa: S307
    assert told.runs(0) is True and told.pid_namespace
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert told.runs(0) is False, 'a zombie runs no more'
    child.wait()
    assert told.runs(0) is False
    child.stdout.close()
