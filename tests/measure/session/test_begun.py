"""Which commands of ReFrame are a run, and what of a system reaches which partition."""

from __future__ import annotations

import pytest

from parity.measure.session import assemble, current
from parity.site import systems
from parity.site.systems import SpackEnvironment, StatedEnvironment


@pytest.mark.parametrize('line, runs', [
    ('-c checks -r', True), ('--run -n Stream', True), ('--ru', True), ('-vr', True), ('-qRr', True), ('-rn Stream', True),
    ('-c checks -r --dry-run', False), ('-l', False), ('-R -c checks', False), ('--restore-session=x', False), ('-n r', False)])
def test_a_command_of_reframe_runs_if_its_options_say_so(monkeypatch, line, runs):
    monkeypatch.delenv(current.PLANNING, raising=False)
    assert current.runs(line.split()) is runs
    monkeypatch.setenv(current.PLANNING, '1')
    assert not current.runs(line.split())


def test_an_environment_for_other_partitions_is_not_offered():
    system = systems.read('example-slurm').model_copy(update={
        'spack': [SpackEnvironment(name='zen3', partitions=['cpu']), SpackEnvironment(name='any')],
        'environments': [StatedEnvironment(name='cuda', modules=['cuda'], target_systems=['example-slurm:gpu'])]})
    assert assemble._of_other_partitions(system, 'cpu') == {'cuda'}
    assert assemble._of_other_partitions(system, 'gpu') == {'zen3', 'zen3-gpu'}


@pytest.mark.parametrize('at_once, polled_less', [(1, False), (8, True)])
def test_a_system_with_many_jobs_at_once_is_polled_less_often(at_once, polled_less):
    system = systems.read('example-slurm')
    parts = [part.model_copy(update={'max_jobs': at_once}) for part in system.partitions]
    general = assemble._general([system.model_copy(update={'partitions': parts})])
    assert any('poll_rate_max' in options for options in general) is polled_less
