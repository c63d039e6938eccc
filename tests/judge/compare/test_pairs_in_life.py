"""Declared pairs night after night: the first nights, a slow node, an acknowledgement, columns and dependent nights."""

from __future__ import annotations

import datetime
import math

import pytest

import sessions
import stored as storage
from commands import parity
from conftest import TOP
from nights import cell
from parity.judge.compare import join, pairs
from parity.judge.compare.model import Measured, Side, Value
from parity.judge.compare.named import NamedNode, leave_out
from parity.judge.compare.terminal import Paper, rendered
from parity.judge.report import answer
from parity.judge.store import incidents as table
from parity.judge.store.incidents import Event, Fault, Incident, Where
from parity.judge.verdict import acks, incidents, judge
from parity.judge.verdict.model import Attribution

PHYSICAL, VIRTUAL = 'onebox:physical', 'onebox:virtual'
UNTIL = ['--until', str(datetime.date.today() + datetime.timedelta(days=10))]
WHY = ['--why', 'a hypervisor without huge pages']
#: Nights of one partition: they differ a little, and not in a row.
NOISE = [0.0, 0.3, -0.2, 0.1, -0.3, 0.2, -0.1, 0.25, -0.25, 0.05, -0.15, 0.15]


@pytest.fixture
def onebox(tmp_path, results, monkeypatch):
    """An empty checkout with the system onebox and one declared pair."""
    folder = tmp_path / 'systems' / 'onebox'
    folder.mkdir(parents=True)
    (folder / 'system.yaml').write_text((TOP / 'systems' / 'onebox' / 'system.yaml').read_text())
    (folder / 'pairs.yaml').write_text('pairs:\n- baseline: physical\n  candidate: virtual\n  expect: [{metric: Toy.hpl, at_least: 0.97}]\n')
    monkeypatch.setenv('PARITY_ROOT', str(tmp_path))
    return folder


def night(*figures: tuple[str, float, str]) -> str:
    """A session with a case on each partition: (partition, figure, node); returns its uuid."""
    stored = storage.Stored()
    stored.count, = stored.database.execute('SELECT count(*) FROM sessions').fetchone()
    cases, plan = [], []
    for partition, value, node in figures:
        case = storage.case(value, job_nodelist=[node])
        values = {name.replace('local:default', f'onebox:{partition}'): of for name, of in case['perfvalues'].items()}
        cases.append({**case, 'system': 'onebox', 'partition': partition, 'perfvalues': values})
        plan.append(sessions.planned(system='onebox', partition=partition))
    return stored.add(*cases, plan=plan, system='onebox')


def lived(count: int, virtual: float, slow: tuple[int, ...] = (), nodes: tuple[str, ...] = ('v1', 'v2', 'v3')) -> str:
    """So many nights of both partitions; on the nights ``slow`` the virtual one ran on v3, 30 % slower than else."""
    for i in range(count):
        figure = virtual + NOISE[i % len(NOISE)]
        node = 'v3' if i in slow else [each for each in nodes if each != 'v3' or len(nodes) == 1][i % max(1, len(nodes) - 1)]
        uuid = night(('physical', 100 - NOISE[-1 - i % len(NOISE)], f'p{i % 2}'), ('virtual', figure * (0.7 if i in slow else 1), node))
    return uuid


def opened(kind: str, name: str, begin: float, end: float = 0.0) -> int:
    """Store an incident of a node or a partition, which is over at ``end``; returns its number."""
    fault = Fault(verdict='regressed', since=begin, measured=begin, cell='Toy.hpl@onebox:virtual')
    events = [Event(what='new', session='', start=begin)] + ([Event(what='over', session='', start=end)] if end else [])
    one = Incident(number=0, uuid=f'{kind}{name}{begin}', system='onebox', state='over' if end else 'open', key=['regressed', kind, name, 'memory'],
                   title='slow', where=Where(kind=kind, name=name), begin=begin, faults={'x': fault}, events=events)
    return [each.number for each in table.record('onebox', '', begin, lambda _: [one])][-1]


def pair_of(uuid: str) -> pairs.PairState:
    found, = judge.newest(uuid).pairs
    return found


def test_a_pair_does_not_alarm_in_its_first_two_nights(onebox):
    second = pair_of(lived(2, 80.0))
    assert second.high < 0.97 and second.state == 'insufficient' and '2 and 2 sessions): 3 sessions a side are needed' in second.why
    assert parity('compare', PHYSICAL, VIRTUAL).returncode == 0
    third = pair_of(night(('physical', 100.0, 'p1'), ('virtual', 80.0, 'v1')))
    assert third.state == 'regressed' and parity('compare', PHYSICAL, VIRTUAL).returncode == 1


def test_the_interval_of_a_pair_is_never_less_sure_than_95_percent(onebox):
    found = judge.newest(lived(3, 80.0))
    assert found.budget.rate == pytest.approx(1 / 30) and '(95 %, 3 and 3 sessions)' in found.pairs[0].why


def test_nights_on_a_node_that_an_incident_names_are_left_out_of_a_pair(onebox):
    last = lived(12, 95.2, slow=(9, 11))
    hidden = pair_of(last)
    number = opened('node', 'v3', storage.start(9))
    found = pair_of(last)
    whole = pairs.with_interval(hidden.ratio, hidden.low, hidden.high)
    assert hidden.state == 'insufficient' and found.state == 'regressed' and found.ratio == pytest.approx(0.952, abs=2e-3)
    assert found.why.endswith(f'12 and 10 sessions); 2 nights on v3 (incident {number}) left out: with them {whole}')
    compared = parity('compare', PHYSICAL, VIRTUAL)
    left_out = f'2 nights on v3 (incident {number}) left out'
    assert compared.returncode == 1 and f'Toy: hpl: {left_out}: with them 0.8' in compared.stdout and f'Toy: latency: {left_out}\n' in compared.stdout


@pytest.mark.parametrize('kind, name, nodes, begin, end, left_out', [
    ('node', 'v3', ('v1', 'v2', 'v3'), 9, 0, 2), ('node', 'v3', ('v1', 'v2', 'v3'), 9, 11, 1), ('node', 'v3', ('v1', 'v2', 'v3'), 11, 0, 1),
    ('node', 'v3', ('v3',), 9, 0, 0),           # the partition has no other node: it is slow as a whole
    ('partition', 'virtual', ('v1', 'v2', 'v3'), 9, 0, 0), ('everything', 'physical, virtual', ('v1', 'v2', 'v3'), 9, 0, 0)])
def test_a_loss_of_the_whole_partition_stays_in_and_a_node_counts_again_when_its_incident_is_over(onebox, kind, name, nodes, begin, end, left_out):
    last = lived(12, 95.2, slow=(9, 11), nodes=nodes)
    opened(kind, name, storage.start(begin), end and storage.start(end))
    found = pair_of(last)
    assert f'12 and {12 - left_out} sessions' in found.why and ('left out' in found.why) == bool(left_out)


def test_a_node_that_tonight_names_is_left_out_before_its_incident_is_opened():
    named = incidents.slow_nodes([slow_cell('regressed', 'v3, v4.site'), slow_cell('ok', 'v1')], 5.0)
    assert [(node.name, node.begin) for node in named] == [('v3', 5.0), ('v4', 5.0)]


def slow_cell(word: str, node: str):
    return cell(word, 'Toy', 'hpl', 'compute', cause=Attribution(where=Where(kind='node', name=node)))


def test_the_devices_of_a_node_that_an_incident_names_are_left_out_together():
    cells = []
    for device in range(2):
        values = [Value(10.0, 1.0, f's{i}', nodes=('g2',) if i > 2 else ('g1',)) for i in range(5)]
        cells.append(Measured('gpu', 'Toy', 'Toy', f'hpl_gpu{device}', 'Gflop/s', 'higher', values=values))
        leave_out(cells[-1], [NamedNode('g2', 4, 3.0)], {f's{i}': float(i) for i in range(5)})
    both = join._sum(cells, 'hpl_gpu')
    assert [v.value for v in both.values] == [20.0] * 3 and [v.value for v in both.every] == [20.0] * 5 and both.left_out


# ---- acknowledged

def recorded(uuid: str):
    verdict = judge.newest(uuid)
    return incidents.joined(verdict, incidents.record(verdict, 'onebox'))


def test_a_pair_is_acknowledged_with_the_command_that_show_ends_with(onebox):
    verdict = recorded(lived(6, 90.0))
    number = verdict.pairs[0].incident
    shown = parity('show', str(number)).stdout
    assert verdict.exit_code == 1 and number and shown.splitlines()[-1] == f'parity ack {number} --until DATE --why TEXT'
    for said in ('expected at least 0.97', f'ratio    {verdict.pairs[0].why}', f'nodes    {PHYSICAL}: p0, p1', f'nodes    {VIRTUAL}: v1, v2'):
        assert said in shown, shown
    done = parity('ack', str(number), *UNTIL, *WHY)
    assert done.returncode == 0 and f'incident {number}, pair {VIRTUAL} / {PHYSICAL} Toy: hpl, acknowledged' in done.stdout, done.stderr
    known = recorded(lived(1, 90.0))
    assert known.exit_code == 0 and known.pairs[0].state == 'regressed' and known.pairs[0].acknowledged and known.incidents[0].state == 'known'
    told = answer.of(known)
    assert not told.entries and ('known', f'1 known incident: {number}') in told.notes and ('pairs', '1 regressed, acknowledged') in told.notes
    assert f'not as expected   {acks.read("onebox")[0]}' in parity('ack', '--list').stdout
    assert parity('show', str(number)).stdout.splitlines()[-1] == f'parity unack {number}'
    assert parity('unack', str(number)).returncode == 0
    assert recorded(lived(1, 90.0)).exit_code == 1 and table.read(str(number)).state == 'open'


def test_an_acknowledgement_of_a_pair_ends_with_its_day_and_with_its_incident(onebox):
    number = recorded(lived(6, 90.0)).pairs[0].incident
    assert parity('ack', str(number), *UNTIL, *WHY).returncode == 0
    entry, = acks.read('onebox')
    acks.write('onebox', [entry.model_copy(update={'until': datetime.date(2020, 1, 1)})])
    expired = recorded(lived(1, 90.0))
    assert expired.exit_code == 1 and 'expired on 2020-01-01' in ' '.join(expired.warnings)
    acks.write('onebox', [entry])
    recorded(lived(19, 100.0))
    over = recorded(lived(1, 100.0))
    assert over.pairs[0].state == 'ok' and table.read(str(number)).closed and 'ended with it' in ' '.join(over.warnings)


def test_show_offers_an_acknowledgement_only_of_what_can_be_acknowledged(onebox):
    one, = incidents.record(None, 'onebox')
    assert 'parity ack' not in parity('show', str(one.number)).stdout
    done = parity('ack', str(one.number), *UNTIL, *WHY)
    assert done.returncode == 2 and 'cannot be acknowledged: nothing ran, or no night was stored' in done.stderr


# ---- compare

def side(name: str, values: list[float], nights: str, **other) -> Side:
    runs = [Value(value, None, f'{nights}{i}', {}) for i, value in enumerate(values)]
    return Side(name, 'session', [Measured('compute', 'Toy', 'Toy', 'hpl', 'Gflop/s', 'higher', values=runs, **other)])


@pytest.mark.parametrize('nights', ['same', 'other'])
def test_the_ratio_is_the_quotient_of_the_columns_beside_it(nights):
    found, = join.compare(side('A', [100.0, 100, 100, 50], 'same'), side('B', [90.0, 95, 90, 90], nights)).rows
    assert found.ratio == pytest.approx(found.candidate / found.baseline) and found.baseline == pytest.approx(100 / 2 ** 0.25)


def test_neighbouring_nights_that_are_alike_widen_an_interval_and_compare_says_so():
    drift = [100 + 3 * math.sin(i / 2) for i in range(12)]
    mixed = sorted(drift, key=lambda value: value * 1000 % 7)
    (one,), (other,) = (join.compare(side('A', values, 'a'), side('B', [100.0 + v for v in NOISE], 'b')).rows for values in (drift, mixed))
    assert one.ratio == pytest.approx(other.ratio) and one.high / one.low > (other.high / other.low) ** 1.5
    assert not other.notes and one.notes[0].startswith('neighbours in time correlate by 0.')
    text = '\n'.join(map(str, rendered(join.compare(side('A', drift, 'a'), side('B', [100.0 + v for v in NOISE], 'b')), Paper(120)).renderables))
    assert one.notes[0] in text and 'times as wide' in one.notes[0]
    both = join.compare(side('A', drift, 'a'), side('B', [v * 1.01 + n for v, n in zip(drift, NOISE, strict=True)], 'a')).rows[0]
    assert both.paired and not both.notes, 'what both sides share in a night cancels out'
