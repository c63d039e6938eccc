"""The cases of a killed session, by its perflogs, and the processes that it left."""

from __future__ import annotations

from parity.measure.session import recovery


def test_every_finished_case_of_a_killed_run_is_recovered_whatever_its_result(results):
    def line(ended: int, result: str, phase: str, journal: str = 'ours') -> str:
        return (f'{ended}|{result}|local|default|distro|Toy|Toy|Toy|17|{phase}|hpl=95.5 [Gflop/s] ref=100.0,-0.05,None|'
                f'{{"journal": "{journal}"}}')
    log = results / 'perflogs' / 'local' / 'default' / 'Toy.log'
    log.parent.mkdir(parents=True)
    log.write_text('\n'.join(['job_completion_time_unix|result', line(20, 'fail', 'performance'), line(10, 'pass', 'None'),
                              line(15, 'pass', 'None', 'theirs'), line(30, 'fail', 'sanity'), line(40, 'pass', 'None')[:-9]]))
    found = recovery.cases_of('ours')
    assert [(case['job_completion_time_unix'], case['result']) for case in found] == [(10, 'pass'), (20, 'fail'), (30, 'fail')]
    assert [case['fail_phase'] for case in found] == [None, 'performance', 'sanity']
    assert found[0]['perfvalues'] == {'local:default:hpl': [95.5, 100.0, -0.05, None, 'Gflop/s', None]}


def test_a_recovered_case_names_its_nodes(results):
    log = results / 'perflogs' / 'onebox' / 'physical' / 'Toy.log'
    log.parent.mkdir(parents=True)
    log.write_text('20|pass|onebox|physical|distro|Toy|Toy|Toy|17|None||{"journal": "ours", "nodes": ["p1", "p2"]}\n')
    case, = recovery.cases_of('ours')
    assert case['job_nodelist'] == ['p1', 'p2']


def test_only_processes_of_this_pid_namespace_are_ended(monkeypatch, tmp_path):
    (tmp_path / 'self').symlink_to('1')
    monkeypatch.setattr(recovery, 'PROC', tmp_path)
    assert recovery.processes_of('x') == []
