"""The kind of a reason decides; its sentence is for people. Backwards, no reason changes anything."""

from __future__ import annotations

import csv
import io
import json
import shutil
from dataclasses import replace
from string import ascii_lowercase
from typing import Any

import pytest

import sessions as made
from conftest import TOP
from nights import start
from parity.base import paths, reasons
from parity.base.errors import NothingMeasured
from parity.base.reasons import Kind
from parity.judge.compare import join, resolve
from parity.judge.compare.model import Side
from parity.judge.nodes.listing import ListedNode
from parity.judge.report import answer, export, previous, summary
from parity.judge.store import database, history, record
from parity.judge.verdict import cells, incidents, judge
from parity.measure.nodes import turns
from parity.site import systems
from parity.site.nodes import NodeState
from parity.study import campaign, compared
from parity.study import run as campaigns
from stored import Stored

#: What main at 79e2061 wrote.
DATA = TOP / 'tests' / 'data' / 'nights-79e2061'
#: A job that has ended, by its reason: what the scheduler said, what the site's window did, what was left out.
ENDS = {
    'Node': ('failed', 'a node failed (job 7 on p4: NODE_FAIL)'), 'Beside': ('failed', 'exit code 9'),
    'Long': ('failed', 'time limit reached, 60 s (job 8 on p3: TIMEOUT)'), 'Large': ('failed', 'memory exceeded (job 9 on p3)'),
    'Crashed': ('failed', 'exit code 139; MPI_Finalize; although the output is complete'),
    'Taken': ('failed', 'cancelled (job 10 on p2: CANCELLED)'), 'Late': ('failed', 'cancelled while it waited in the queue'),
    'Placed': ('failed', 'placement: rank 0 may run on CPUs 0-1: not bound to one core'),
    'Wrong': ('wrong', 'the residual is 130'), 'Wide': ('skipped', 'nodes: needs 8, onebox:physical has 4'),
    'Full': ('skipped', 'io_budget: night: 2 GB'), 'Small': ('skipped', 'size=quick runs files of 4 KB'),
    'Twice': ('skipped', '1 core: the same as threads=one'), 'Solo': ('skipped', 'one rank: nobody to send to'),
    'Other': ('skipped', 'memory: a node needs 2 GB and has 1 GB'),
    'Alone': ('failed', '4 ranks started alone'), 'Unread': ('failed', 'two runs in one file, lines 1 and 60')}
#: Kinds that no sentence of an older version tells.
KINDS = {'Alone': {'kind': 'launch'}, 'Unread': {'kind': 'unread'}}
NODE = {'Node': 'p4', 'Taken': 'p2'}
BLOCKS = 'size=quick runs blocks of 1MB'


def backwards(text: str) -> str:
    return text[::-1]


def shifted(text: str) -> str:
    return text.translate(str.maketrans(ascii_lowercase, ascii_lowercase[1:] + 'a'))


@pytest.fixture
def reworded(monkeypatch):
    """Turn every reason round behind the reader of sessions, and change its letters behind the verdict of each case."""
    def of_report(report, read=record.of_report):
        session = read(report)
        for case in session.plan.get('cases', ()):
            case['metrics'] = [{**metric, 'left_out': backwards(why), 'kind': reasons.kind('skipped', why)} if (why := metric.get('left_out'))
                               else metric for metric in case['metrics']]
        return replace(session, runs=tuple(replace(
            run, reason=backwards(run.reason), disturbed=backwards(run.disturbed),
            figures={name: replace(figure, why=backwards(figure.why), left_out=backwards(figure.left_out))
                     for name, figure in run.figures.items()}) for run in session.runs))

    def of_case(*about, judged=cells.of_case):
        return [cell.model_copy(update={'reason': shifted(cell.reason)}) for cell in judged(*about)]

    def reword():
        monkeypatch.setattr(record, 'of_report', of_report)
        monkeypatch.setattr(cells, 'of_case', of_case)
        monkeypatch.setattr(history, 'not_offered', lambda needs, inner=history.not_offered: backwards(inner(needs)))
    return reword


def case(name: str, night: int, **other: Any) -> dict[str, Any]:
    return made.case(100.0 + night, f'{name} %n=1', **{'system': 'onebox', 'partition': 'physical', 'job_nodelist': [NODE.get(name, 'p3')], **other})


def ended(name: str, night: int, **other: Any) -> dict[str, Any]:
    status, why = ENDS[name]
    return case(name, night, result='skip' if status == 'skipped' else 'fail', fail_phase='sanity', perfvalues={},
                parity={'status': status, 'reason': why, **KINDS.get(name, {}), **other})


def planned(name: str, environ: str = 'distro', why: str = '') -> dict[str, Any]:
    metrics = [*made.METRICS, {'name': 'large', 'unit': 's', 'better': 'lower', 'left_out': why}][:3 if why else 2]
    return {**made.planned(f'{name} %n=1', environ), 'system': 'onebox', 'partition': 'physical', 'metrics': metrics}


def lived() -> list[dict[str, Any]]:
    """Return what was decided in four nights: two in order, one in which everything happens, and one after it."""
    kept, decided = Stored(), []
    others = [planned('None', environ=''), {**planned('Absent', environ=''), 'needs': ['lulesh']}, planned('Gone', why=BLOCKS), planned('Stopped'), planned('Cached'), planned('Disturbed'),
              planned('Latency', why=BLOCKS)]
    for night in range(4):
        bad = night == 2
        runs = [case('Taken', night, job_nodelist=[node]) for node in ('p1', 'p3')]
        runs += [ended(name, night, **({'until': start(night)} if name == 'Late' else {})) if bad else case(name, night) for name in ENDS]
        runs += [case('Gone', night, parity={'left_out': {'large': BLOCKS}})] * (not bad)
        runs += [case('Stopped', night, **({'result': 'abort', 'perfvalues': {}} if bad else {})),
                 case('Cached', night, parity={'labels': {'hpl': {'word': 'cached', 'reason': 'fits in L3'}}}),
                 case('Disturbed', night, parity={'disturbed': 'others used 2 CPUs'} if bad else {}),
                 case('Latency', night, parity={'left_out': {'latency': 'one rank', 'large': BLOCKS}})]
        uuid = kept.add(*runs, system='onebox', plan=[*map(planned, ENDS), *others], uuid=f'{night:08x}-0')
        decided.append({**of_night(uuid, 'onebox'), 'turns': without_turn(uuid)})
    decided += [{'compared': rows(f'{2:08x}-0'), 'lost': outcomes(f'{2:08x}-0'),
                 'covered': list(summary._coverage([each for each in database.sessions('onebox') if each.uuid == f'{2:08x}-0'], ''))}]
    return decided


def of_night(uuid: str, system: str) -> dict[str, Any]:
    """Return what a night's verdict decides, without a sentence of a case."""
    verdict = judge.newest(uuid)
    known = incidents.record(verdict, system)
    verdict = incidents.joined(verdict, known)
    return {
        'exit': verdict.exit_code, 'counts': verdict.counts, 'coverage': verdict.coverage.line, 'next': verdict.next,
        'cells': [cell.model_dump(exclude={'reason', 'limit_source', 'outputdir', 'cause'}) for cell in verdict.cells],
        'causes': [(one.title, [row.name for row in one.rows]) for one in incidents.causes(
            row for row in answer.rows(verdict.cells) if row.word in incidents.BAD)],
        'incidents': [(each.key, each.title, each.state, sorted(each.faults), [event.what for event in each.events]) for each in known],
        'notes': [note for note in answer.of(verdict).notes if note[0] in ('left out', 'known', 'blind', 'disturbed', 'pairs')],
        'nights': {key: past.letters for key, past in previous.of_session(verdict).nights.cells.items()}}


def without_turn(night: str) -> list[str]:
    nodes = [ListedNode(name, NodeState(name, 'idle', True, ('physical',))) for name in ('p1', 'p2', 'p3')]
    costed = turns.Night(night, 0.0, {turns.Case('physical', 'distro', 'Taken %n=1'): 1.0})
    return [each.name for each in turns._without_turn(systems.read('onebox'), nodes, costed)]


def rows(uuid: str) -> list[Any]:
    """Compare a night with another place that has nothing, and with itself."""
    side = resolve.of_rows('here', 'session', history.rows([uuid]).lazy())
    found = [join.compare(side, side), join.compare(side, Side('there', 'session', [])), join.alone(side)]
    return [(each.notes, [row.model_dump(exclude={'reason', 'label'}) | {'label': row.label.partition(':')[0]} for row in each.rows])
            for each in found]


def outcomes(uuid: str) -> int | str:
    rows = history.rows([uuid]).select('status', 'reason').unique(maintain_order=True).collect().iter_rows()
    try:
        return campaigns._code('x', {(str(n),): campaign.Status(*row) for n, row in enumerate(rows)})
    except NothingMeasured as err:
        return str(err)


def exported() -> list[dict[str, str]]:
    return [{name: value for name, value in row.items() if name != 'reason'} for row in csv.DictReader(io.StringIO(export.table()))]


def test_no_word_of_a_reason_decides_anything(tmp_path, monkeypatch, reworded):
    found = []
    for name, change in (('as it is', lambda: None), ('backwards', reworded)):
        monkeypatch.setenv('PARITY_RESULTS', str(tmp_path / name))
        change()
        found.append([*lived(), exported()])
    for before, after in zip(*found, strict=True):
        assert before == after
    bad = found[0][2]
    kinds = {cell['kind'] for cell in bad['cells']}
    of_perflogs = {Kind.RAN, Kind.NO_FIGURE}
    assert kinds == {*Kind} - {Kind.WAIVED, Kind.FLAGGED, *of_perflogs}, 'the night has every kind of a session'
    assert dict(bad['notes'])['left out'].count(' of several ranks') == 1 and 'for other reasons' in dict(bad['notes'])['left out']
    assert {night[2] for night in found[0][3]['nights'].values()} >= {*'FWM-'}
    assert [night['turns'] for night in found[0][:4]] == [[], [], ['p2'], []] and found[0][4]['lost'] == 1
    assert ['failed', 'physical', 'limit'] in [key for key, *_ in bad['incidents']]


def test_no_word_of_a_recorded_reason_decides_anything(tmp_path, monkeypatch, reworded):
    found = []
    for name, change in (('as it is', lambda: None), ('backwards', reworded)):
        shutil.unpack_archive(DATA / 'results.tar.gz', tmp_path / name)
        (tmp_path / name / 'systems').symlink_to(DATA / 'systems')
        monkeypatch.setenv('PARITY_ROOT', str(tmp_path / name))
        monkeypatch.setenv('PARITY_RESULTS', str(tmp_path / name / 'results'))
        change()
        found.append([*(of_night(night, 'lab') for night in json.loads((DATA / 'expected.json').read_text())['nights']), exported()])
    for before, after in zip(*found, strict=True):
        assert before == after


STUDY = made.STUDY_HEAD + '''\
  one: {what: w, where: p, subsystem: compute, axes: {threads: all}, metrics: {rate: [hpl], time: [latency], odd: [hpl]}, check: Toy, set: {threads: '{threads}'}}
findings:
  - {id: f, says: s, where: p, ratio: one.rate 2 / 1, above: 1}
'''
PUBLISHED = '''experiment,metric,unit,better,threads,run,value,flag,use,where
one,rate,MB/s,higher,1,1,10,,,p
one,rate,MB/s,higher,2,1,20,,,p
one,time,s,lower,1,1,3,,derived,p
one,odd,MB/s,higher,1,1,7,N_35,,p
'''


@pytest.fixture
def one_side(site):
    folder = site.parents[2] / 'studies' / 'trial'
    folder.mkdir(parents=True)
    (folder / 'study.yaml').write_text(STUDY)
    (folder / 'published.csv').write_text(PUBLISHED)
    with paths.of_study('trial'):
        kept = Stored()
    for run, side, lacking in (('x', 'node', '2'), ('x', 'other', '12'), ('alone', 'node', '2')):
        for threads in '12':
            left_out = {'latency': 'absent', 'parity': {'left_out': {'latency': 'no direct I/O'}}} if threads in lacking else {}
            kept.add(made.case(5.0, case=f'Toy %threads={threads}', **left_out), study='trial', mode='full', run=run, side=side, repeat='1',
                     uuid=f'{run}{side}{threads}-0')


def test_no_word_of_a_reason_decides_what_a_study_shows(one_side, reworded):
    def shown() -> list[Any]:
        of = [compared.of_study('trial', session) for session in ('', 'xnode', 'alone')]
        pairs = [([row.model_dump(exclude={'reason'}) for row in pair.rows], pair.like) for each in of for pair in compared.pairs(each)]
        lost = [sum(row.baseline is None for row in each.measured.rows) for each in of if each.measured]
        judged = [(finding.id, finding.published, finding.here) for each in of for finding in each.analysis.findings]
        return [pairs, judged, lost, [(row.name, row.published, row.here) for each in of for row in compared.rows(each)]]

    before = shown()
    with paths.of_study('trial'):
        shutil.rmtree(paths.results() / 'cache')
    reworded()
    assert shown() == before and any('flagged' in figure for _, published, _ in before[3] for figure in published)


@pytest.mark.parametrize('name', ENDS)
def test_a_kind_that_a_session_states_wins_over_its_sentence(name):
    """A session of before states none: its reason tells."""
    status, why = ENDS[name]
    kind, = {run.kind for run in record.of_report(made.report([ended(name, 0)], [planned(name)])).runs}
    assert kind.value == KINDS[name]['kind'] if name in KINDS else kind is reasons.kind(status, why)
    stated, = record.of_report(made.report([ended(name, 0, kind='same')], [planned(name)])).runs
    assert stated.kind is Kind.SAME and stated.reason == why
    later, = record.of_report(made.report([ended(name, 0, kind='of a later version')], [planned(name)])).runs
    assert later.kind is Kind.NONE


def test_rows_have_status_kind_and_reason_apart(results):
    Stored().add(ended('Node', 0), plan=[planned('Node'), planned('None', environ='')])
    found = history.rows(database.uuids()).select('case', 'status', 'kind', 'reason').unique(maintain_order=True).collect()
    assert found.rows() == [('Node %n=1', 'failed', 'node', ENDS['Node'][1]), ('None %n=1', 'skipped', 'no_program', 'no environment offers hpcc')]
