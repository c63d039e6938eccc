"""Nights of the field trial (python -m dev.trial run): what a lost machine leaves, and how often a night is judged."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dev.trial import restored, rows
from dev.trial import site as trial
from dev.trial.restored import Selected
from dev.trial.rows import Row, Turn
from dev.trial.site import PAIRS, SINGLE, Site, on_system
from parity.judge.store import incidents
from parity.site.plan import Plan, PlannedCase, PlannedMetric

NODES = 'p1', 'p2', 'p3', 'p4'


@pytest.fixture
def lost(tmp_path, monkeypatch) -> Site:
    """The site of a trial that has its programs, and no results."""
    for name in ('PARITY_ROOT', 'PARITY_RESULTS', 'RFM_CONFIG_FILES'):
        monkeypatch.setenv(name, '')
    (tmp_path / 'programs' / 'good' / 'bin').mkdir(parents=True)
    return Site(tmp_path)


def case(check: str, parameters: str, subsystem: str, metric: PlannedMetric) -> PlannedCase:
    return PlannedCase(check=check, case=f'{check} {parameters}', unique_name=f'{check}{parameters}', subsystem=subsystem, size='quick', file='',
                       needs=[], system='trial', partition='physical', environ='bench', metrics=[metric])


def both() -> list[Selected]:
    """The two sessions of a night: messages of two pairs, and HPL on four nodes."""
    latency = PlannedMetric(name='latency_8B', unit='us', better='lower')
    gflops = PlannedMetric(name='gflops', unit='Gflop/s', better='higher')
    pairs = [case('Pairs', f'%where=between %pair={pair}', 'network', latency) for pair in ('p1-p2', 'p3-p4')]
    nodes = [case('Hpl', f'%part=trial:physical %nid={node}', 'compute', gflops) for node in NODES]
    return [Selected(on_system(selected), Plan(system='trial', cases=cases, checks=[], problems=[]))
            for selected, cases in ((PAIRS, pairs), (SINGLE, nodes))]


def figures(count: int, slow: range, gone: range = range(0)) -> list[Row]:
    """Nights of these cases: HPL is 30 % slower on p2 in the nights ``slow``, and has no figure there in ``gone``."""
    rng, lines = np.random.default_rng(3), []
    for night in range(count):
        for pair in ('p1-p2', 'p3-p4'):
            lines.append(row(f'Pairs%where=between%pair={pair}.latency_8B', night, 12.0 * np.exp(0.01 * rng.standard_normal()), 'lower', 'us', pair))
        for node in NODES:
            speed = 0.7 if node == 'p2' and night in slow else 1.0
            value = 36.0 * speed * np.exp(0.005 * rng.standard_normal())
            if not (node == 'p2' and night in gone):
                lines.append(row(f'Hpl%nid={node}.gflops', night, value, 'higher', 'Gflop/s', node))
    return lines


def row(series: str, night: int, value: float, direction: str, unit: str, node: str) -> Row:
    return Row(series, rows.day(night), 'run', 0, value, direction, series.partition('%')[0], node.replace('-', ' '), unit, '')


def test_nights_of_a_lost_machine_are_judged_anew_by_their_rows(lost):
    turns = [Turn(rows.day(13), 'new', 7, 'HPL on p2'), Turn(rows.day(3), 'new', 2, 'of no figure that is kept')]
    restored.nights(both(), figures(15, range(12, 15)), turns, 15)
    incident, = lost.incidents()
    assert incident.number == 7 and incident.state == 'open'
    assert incident.cells == ['Hpl%part=trial:physical%nid=p2.gflops@trial:physical'] and 'slower' in incident.title
    assert trial.start(12) < incident.opened.start < trial.start(15)
    assert restored.differences([incident], turns) == ['incident 2 (of no figure that is kept) is in incidents.csv alone']


def test_a_restored_night_plans_the_figures_that_its_rows_have():
    seconds = PlannedMetric(name='seconds', unit='s', better='lower')
    gflops = PlannedMetric(name='gflops', unit='Gflop/s', better='higher')
    case_of_both = case('Hpl', '%nid=p1', 'compute', gflops).model_copy(update={'metrics': [gflops, seconds]})
    plan = restored.kept(Plan(system='trial', cases=[case_of_both], checks=[], problems=[]))
    assert [metric.name for metric in plan.cases[0].metrics] == ['gflops']


def test_a_case_without_a_figure_has_failed_there_and_numbers_go_on(lost):
    restored.nights(both(), figures(4, range(0), gone=range(1, 3)), [Turn(rows.day(1), 'new', 12)], 4)
    incident, = lost.incidents()
    assert incident.number == 12 and set(incident.cells) == {'Hpl%part=trial:physical%nid=p2.gflops@trial:physical'}
    assert incidents.numbers('trial') == {12}


def test_a_rerun_confirms_the_session_of_its_night(lost):
    again = [Row(**{**vars(line), 'kind': 'rerun', 'run': at}) for line in figures(1, range(0))[:1] for at in range(3)]
    pairs, singles = restored.night(both(), figures(1, range(0)) + again, trial.start(0))
    sessions = [trial.database.read(uuid) for uuid in trial.database.uuids()]
    confirming, = (session for session in sessions if session.rerun_of)
    assert confirming.rerun_of == pairs and len(confirming.runs) == 3 and singles in {session.uuid for session in sessions}


def test_results_are_lost_where_nights_were_lived_and_none_is_kept(lost):
    stored = lost.folder / 'results' / 'results.db'
    stored.write_text('a night that was killed')
    assert lost.begin(3) and not stored.exists()
    assert not lost.begin(0)
    stored.write_text('three nights')
    lost.save()
    stored.write_text('a night that was killed')
    assert not lost.begin(3) and stored.read_text() == 'three nights'


@pytest.mark.parametrize(('reruns', 'judged'), [(0, 2), (1, 3)])
def test_a_night_is_judged_again_only_after_a_rerun(lost, monkeypatch, reruns, judged):
    asked = []

    def newest(session: str) -> SimpleNamespace:
        asked.append(session)
        return SimpleNamespace(session=SimpleNamespace(uuid=session), cells=[])
    measured = iter(['pairs', *['again'] * reruns, 'single'])
    places = iter([[['rerun']] * reruns, []])
    monkeypatch.setattr(lost, '_measured', lambda arguments: next(measured))
    monkeypatch.setattr(trial.judge, 'newest', newest)
    monkeypatch.setattr(trial, 'runs', lambda *words: next(places))
    monkeypatch.setattr(trial.notify, 'prepared', lambda system: SimpleNamespace(recorded=lambda verdict: verdict, judged=lambda verdict: None))
    monkeypatch.setattr(trial.database, 'read', lambda session: session)
    night = lost.live(0)
    assert len(asked) == judged and night.sessions == ['pairs', *['again'] * reruns, 'single']
    assert Path(lost.folder, 'root', 'systems', 'trial', 'system.yaml').exists()
