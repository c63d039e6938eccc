"""A study that is run: its sessions, where they stop and go on, and all that they leave alone."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
from collections import Counter
from types import SimpleNamespace

import pytest
import yaml
from test_studies import HEAD, MEASURED, ROW, onebox, trial

import warm
from commands import parity
from conftest import TOP, eventually
from jobs import start
from parity.base import files, paths
from parity.measure.scheduler import command, slurm
from parity.measure.session import runner
from parity.study import campaign
from parity.study.published.model import Case, Study
from sessions import case, planned
from stored import Stored

__all__ = ['onebox']

PROBE = '''
import reframe as rfm
from reframe.core.builtins import parameter, run_after, variable
from parity.measure.check.workload import Metric, Workload

@rfm.simple_test
class Probe(rfm.RunOnlyRegressionTest, Workload):
    executable = 'echo'
    speed = parameter(['low', 'high'])
    code = variable(int, value=1)
    level = variable(int, value=1)
    metrics = (Metric('rate', 'MB/s', 'higher'),)

    @run_after('setup')
    def say(self):
        self.executable_opts = [str({'low': 1, 'high': 2}[self.speed] * self.code * self.level)]

    def parse(self, text):
        return {'rate': float(text)}
'''
PROBED = '''
title: t
source: s
what: w
contrast: speed
axes:
  speed: {what: w, here: h, kind: value, values: [low, high]}
  code: {what: w, here: h, kind: value, values: [3, 5]}
experiments:
  swept: {what: w, where: p, subsystem: compute, axes: {speed: all, code: all}, metrics: {rate: [rate]}, check: Probe, parameters: {speed: '{speed}'}, set: {code: '{code}'}, quick: {repeats: 2}}
  plain: {what: w, where: p, subsystem: compute, axes: {speed: all}, metrics: {rate: [rate]}, check: Probe, parameters: {speed: '{speed}'}, set: {level: 1}, quick: {repeats: 1}}
'''
RUN = 'study run trial --system local --quick'


def stored(checkout) -> list[dict]:
    """The extras of the study's sessions, oldest first, with the figures of each."""
    file = checkout / 'results' / 'studies' / 'trial' / 'results.db'
    try:
        with sqlite3.connect(f'{file.as_uri()}?mode=ro', uri=True) as conn:
            reports = [json.loads(blob) for blob, in conn.execute('SELECT json_blob FROM sessions ORDER BY rowid')]
    except sqlite3.OperationalError:    # ReFrame has not made it yet
        return []
    return [{**report['session_info'], 'rates': sorted(next(iter(c['perfvalues'].values()))[0] for c in report['runs'][0]['testcases'] if c['perfvalues'])}
            for report in reports]


def rates(sessions: list[dict]) -> Counter:
    """How often each figure was measured on each side in each repeat."""
    return Counter((s['side'], s['repeat'], rate) for s in sessions for rate in s['rates'])


def test_a_study_is_run_in_turns_killed_goes_on_and_is_measured_anew_where_it_was_edited(bare):
    (bare / 'checks' / 'probe.py').write_text(PROBE)
    folder = trial(bare / 'systems' / 'local' / 'system.yaml', PROBED, HEAD.replace('side', 'speed') + ROW.replace('one', 'plain').replace('a,X', 'low,').replace(',s,', ',MB/s,'))
    first = start(f'. ci/activate && parity {RUN}', bare)
    eventually(lambda: first.poll() is not None or len(stored(bare)) >= 2)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    before = len(stored(bare))

    done = warm.parity(bare, RUN)
    assert done.returncode == 0 and 'runs were measured before' in done.stdout and 'runs measured in' in done.stdout, done.stdout + done.stderr
    sessions = stored(bare)
    assert before < len(sessions) and len({s['run'] for s in sessions}) == 1
    assert rates(sessions) == Counter({(side, repeat, factor * value): 1 for side, factor in (('low', 1.0), ('high', 2.0))
                                       for repeat, values in (('1', (3, 5, 1)), ('2', (3, 5))) for value in values})
    turns = [(s['side'], s['repeat']) for s in sessions]
    assert list(dict.fromkeys(turns)) == [('low', '1'), ('high', '1'), ('high', '2'), ('low', '2')]

    again = warm.parity(bare, RUN)
    assert again.returncode == 0 and 'all was measured before' in again.stdout and len(stored(bare)) == len(sessions)
    (folder / 'study.yaml').write_text(PROBED.replace('level: 1', 'level: 11'))
    said = warm.parity(bare, f'{RUN} --dry-run')      # a default stands in no case's name: the digest tells
    assert '2 runs of 2 cases in 2 sessions, 8 runs were measured before' in said.stdout and len(stored(bare)) == len(sessions)
    edited, compared, verdict = (warm.parity(bare, words) for words in (RUN, 'study compare trial last --json', 'verdict'))
    assert rates(stored(bare)[len(sessions):]).keys() == {('low', '1', 11.0), ('high', '1', 22.0)}, edited.stderr
    assert verdict.returncode == 3 and 'no session is stored' in verdict.stderr, 'a study is no night'
    answer = json.loads(compared.stdout)
    assert not answer['here']['labels']
    rows = answer['here']['rows']
    assert {(r['benchmark'], r['baseline'], r['n']) for r in rows} == {('swept %code=3', 3.0, 2), ('swept %code=5', 5.0, 2), ('plain', 11.0, 1)}


CASES = dict(check='C', parameters={}, swept=[], variables={})


def cases(study: Study, **axes) -> list[Case]:
    return [Case(**{**CASES, **each}, experiment='one', point={'side': side, 'code': str(i)}) for side in 'ab' for i, each in enumerate(axes['of'])]


@pytest.mark.parametrize('of, groups', [
    ([{}, {'parameters': {'x': '1'}}], 1),                                                                          # selected by -n
    ([{'variables': {'n': '1'}}, {'variables': {'n': '2'}}], 2), ([{'variables': {'n': '1'}}, {'variables': {'n': '2'}, 'check': 'D'}], 1),
    ([{'variables': {'n': v}, 'swept': ['n']} for v in '123'], 1),                                                  # -P C.n=1,2,3
    ([{'variables': {'n': v, 'm': v}, 'swept': ['n', 'm']} for v in '12'], 2),                                      # no product
    ([{'variables': {'n': v, 'm': w}, 'swept': ['n', 'm']} for v in '12' for w in '34'], 1),
    ([{'environ': v, 'check': v} for v in 'pq'], 2),                                                                # -p takes one environment
    ([{'variables': {'n': v}, 'swept': ['n'], 'parameters': {'x': v}} for v in '12'], 2)])                          # -P takes each selected case
def test_a_session_runs_the_cases_that_one_command_line_can_say(of, groups):
    study = Study.model_validate(yaml.safe_load(MEASURED))
    wanted = cases(study, of=of)
    found = campaign.steps(study, wanted, quick=True)
    assert [s.side for s in found] == ['a', 'b'] * groups + ['b', 'a'] * groups + ['a', 'b'] * groups
    assert sorted(id(c) for s in found for c in s.cases) == sorted(3 * [id(c) for c in wanted])
    left = [campaign.key('a', 1, c) for c in wanted]
    assert len(campaign.steps(study, wanted, True, left)) == 5 * groups


def test_arguments_select_exactly_the_cases():
    stated = {'one': '1a2b'}
    of = [Case(experiment='one', check='C', parameters={'x': v}, swept=['n'], variables={'n': w, 'size': 'quick'}, partition='p', point={}) for v in 'ab' for w in '12']
    words = campaign.arguments(campaign.Step('left', 2, of), {'C': 'checks/c.py'}, 's', {'study': 't'}, stated)
    assert words == ['-c', 'checks/c.py', '-r', '--system', 's:p', '-n', '^C(?=.*%x=a(%|$))(%|$)|^C(?=.*%x=b(%|$))(%|$)', '-S', 'C.size=quick',
                     '-P', 'C.n=1,2', '--session-extras', 'study=t,side=left,repeat=2,of.one=1a2b']
    in_one = campaign.Step('left', 2, [case.model_copy(update={'environ': 'gcc-13'}) for case in of])
    assert campaign.arguments(in_one, {'C': 'checks/c.py'}, 's', {}, stated)[5:7] == ['-p', r'^gcc\-13$']


@pytest.mark.parametrize('words, code, said', [
    (['tral', '--system', 'onebox'], 2, "unknown study 'tral'; did you mean 'trial'"), (['trial', '--system', 'onbox'], 2, "unknown system 'onbox'; did you mean 'onebox'"),
    (['trial', '--system', 'onebox', '--partition', 'physcal', '--partition', 'virtual'], 2, "unknown partition 'physcal'; did you mean 'physical'"),
    (['trial', '--system', 'onebox', '--partition', 'virtual', '--partition', 'virtual'], 2, 'given twice'), (['trial', '--system', 'onebox', '--partition', 'virtual'], 2, 'must be two'),
    (['trial', '--system', 'onebox', '--as', 'fs'], 2, "--as 'fs': must be AXIS.VALUE=NAME; axes: fs"), (['trial', '--system', 'onebox', '--as', 'f.N=scratch'], 2, "unknown axis 'f'"),
    (['trial', '--system', 'onebox', '--as', 'fs.M=scratch'], 2, "unknown value of fs 'M'; valid: N, O"), (['trial', '--system', 'onebox', '--as', 'fs.N=scrtch'], 2, "unknown filesystem of onebox 'scrtch'; did you mean 'scratch'"),
    (['trial', '--system', 'onebox', '--as', 'code.X=scratch'], 2, "unknown axis 'code'"),
    (['trial', '--system', 'onebox', '--as', 'code.X=virtual'], 2, 'a job takes nodes of one partition; name one that has the nodes of both, by --partition'),
    (['trial', '--system', 'onebox', '--partition', 'virtual', '--partition', 'physical', '--quick'], 4, 'no session')])
def test_what_cannot_be_run_is_refused_with_what_is_valid(onebox, site, monkeypatch, words, code, said):
    onebox()
    text = MEASURED.replace('  code:', '  fs: {what: w, here: h, kind: filesystem, values: {N: "", O: ""}}\n  code:')
    trial_folder = site.parents[2] / 'studies' / 'trial'
    (trial_folder / 'study.yaml').write_text(text)
    (trial_folder / 'published.csv').write_text(HEAD.replace('side,', 'side,fs,') + ROW.replace('a,X', 'a,,X'))
    monkeypatch.setattr(runner, 'reframe', lambda *_, **__: '')
    done = parity('study', 'run', *words)
    assert done.returncode == code and said in done.stderr, done.stdout + done.stderr


def test_nothing_testable_no_space_and_a_second_run_are_told(onebox, site, results, monkeypatch):
    line = 'study', 'run', 'trial', '--system', 'onebox', '--quick'
    onebox(answers=lambda _: {'reason': 'nodes: needs 2, onebox:physical has 1'})
    none = parity(*line)
    assert none.returncode == 3 and 'nodes: needs 2, onebox:physical has 1' in none.stdout and 'can measure nothing of trial (quick)' in none.stderr
    onebox()
    said = parity(*line, '--dry-run')
    assert said.returncode == 0 and '3 runs of 1 case in 3 sessions; about 57 s (a guess for 1 of 1 case)' in said.stdout
    assert 'not testable here: 1 of one: no environment of virtual offers hpcc' in said.stdout and not (results / 'studies').exists()
    with files.Lock(results / '.nightly.lock', 'ci/nightly').held(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, '_ours', set())
        refused = parity(*line)
    assert refused.returncode == 4 and 'held by ci/nightly' in refused.stderr
    monkeypatch.setattr(shutil, 'disk_usage', lambda _: SimpleNamespace(free=1 << 20))
    full = parity(*line)
    assert full.returncode == 4 and 'no space for the results of 3 sessions' in full.stderr and not (results / 'studies' / 'trial').exists()
    (results / 'studies' / 'trial').mkdir(parents=True)
    (results / 'studies' / 'trial' / 'run.json').write_text('[]')
    assert parity(*line).returncode == 2


FAILED = {'result': 'fail', 'fail_phase': 'run', 'fail_reason': 'node down'}
WRONG = {'result': 'fail', 'fail_phase': 'sanity', 'fail_reason': 'bad residual'}


@pytest.fixture
def ended(onebox, results, monkeypatch):
    """Makes the run of the trial in which cases end so in turn, the last for the rest: {} has a figure."""
    onebox()
    with paths.of_study('trial'):
        store = Stored()
        store.database.execute('CREATE TABLE metadata(schema_version)')     # else it is no whole database

    def run(*ends, options=()):
        turns = list(ends)

        def session(arguments, step):
            assert os.path.isabs(arguments[arguments.index('-c') + 1]), 'it runs in whatever folder'
            with paths.of_study('trial'):
                extras, end = dict(each.split('=', 1) for each in arguments[-1].split(',')), turns.pop(0) if turns[1:] else turns[0]
                ran = case(None if end else 1.0, case='Toy %code=X %nodes=2', system='onebox', partition='physical', **end)
                store.add(ran, plan=[planned('Toy %code=X %nodes=2', system='onebox', partition='physical')], system='onebox', **extras)
            return ''
        monkeypatch.setattr(runner, 'reframe', session)
        return parity('study', 'run', 'trial', '--system', 'onebox', '--quick', *options), store.count
    return run


def test_a_failed_case_is_measured_again_and_the_exit_code_says_so(ended):
    failed, _ = ended(FAILED)
    assert failed.returncode == 4 and 'one: 3 runs without a figure: failed: node down' in failed.stdout, failed.stdout + failed.stderr
    measured, count = ended({})
    assert measured.returncode == 0 and count == 6
    again, count = ended({})
    assert 'all was measured before' in again.stdout and again.returncode == 0 and count == 6
    anew, count = ended({}, options=['--again'])
    assert anew.returncode == 0 and count == 9


def test_a_wrong_case_ends_the_run_with_1_whatever_else_failed_and_every_time(ended):
    wrong, _ = ended({}, WRONG, FAILED)
    assert wrong.returncode == 1 and 'parity: 1 run was wrong' in wrong.stderr and 'parity: 1 run failed' in wrong.stderr, wrong.stdout + wrong.stderr
    for count in (4, 4):    # the failed one is measured again, then none is left
        again, stored = ended({})
        assert again.returncode == 1 and 'parity: 1 run was wrong' in again.stderr and stored == count, again.stdout + again.stderr
    assert 'all was measured before' in again.stdout and 'one: 1 run without a figure: wrong: bad residual' in again.stdout
    assert ended({}, options=['--dry-run'])[0].returncode == 0
    assert ended(WRONG, options=['--again'])[0].returncode == 1
    assert ended({}, options=['--again'])[0].returncode == 0


def test_a_run_of_skipped_cases_has_no_figure_however_often(ended):
    for _ in range(2):
        skipped, count = ended({'result': 'skip', 'fail_phase': None, 'fail_reason': 'one rank'})
        assert skipped.returncode == 3 and 'trial has no figure' in skipped.stderr and count == 3, skipped.stdout + skipped.stderr


def test_a_study_is_sent_as_a_job_that_runs_it(onebox, site, results, monkeypatch):
    onebox()
    line = 'study', 'run', 'trial', '--system', 'onebox', '--quick', '--submit', '--partition', 'physical', '--partition', 'virtual'
    shutil.copytree(TOP / 'jobs', site.parents[2] / 'jobs')
    monkeypatch.setattr(slurm, 'submit', lambda file: '17')
    monkeypatch.setattr(slurm, 'states', lambda job: [command.JobState(job, 'running', 'RUNNING')])
    sent = parity(*line)
    assert sent.returncode == 0 and sent.stdout.splitlines()[-1] == '17' and '3 runs of 1 case' in sent.stdout, sent.stderr
    text = next((results / 'jobs').glob('*.sh')).read_text()
    assert 'exec .venv/bin/parity study run trial --system onebox --quick --partition physical --partition virtual\n' in text and 'steps=(' not in text
    assert subprocess.run(['bash', '-n'], input=text, text=True).returncode == 0
    known = (results / 'studies' / 'trial' / 'run.json').read_text()
    second = parity(*line, '--again')
    assert second.returncode == 2 and 'campaign 17 measures onebox' in second.stderr and (results / 'studies' / 'trial' / 'run.json').read_text() == known


def test_sessions_of_a_study_change_no_verdict_no_history_and_no_report(site, stored_nights, results):
    def everything() -> list[str]:
        texts = [re.sub(r'"age": .*', '', parity(*words).stdout) for words in (('verdict', '--all'), ('verdict', '--json'), ('show',), ('refs', 'propose', '--system', 'local'), ('report',))]
        pages = sorted((results / 'report').rglob('*.html'))
        return texts + [f'{page.name} {page.stat().st_size}' for page in pages]
    before = everything()
    trial(site, MEASURED)
    with paths.of_study('trial'):
        Stored().add(case(1.0), uuid='study-0', study='trial', mode='full', run='1', side='a', repeat='1', time_start_unix=1.9e9)
    assert everything() == before and len(before) > 5
    assert parity('verdict', '--session', 'study').returncode == 2


@pytest.fixture
def stored_nights(stored):
    for night in range(12):
        stored.add(case(100.0 + night / 10))
    return stored
