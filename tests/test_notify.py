"""A notice when the state of a system changes, by one command, with secrets that nobody sees."""

from __future__ import annotations

import glob
import json
import os
import subprocess
import time

import pytest
import yaml

import nights
from commands import parity, process
from conftest import TOP, eventually
from parity.base.errors import UsageError
from parity.compare.model import Outcome
from parity.nightly import notify
from parity.nightly.notify import Notifier, send, state
from parity.system.schema import Notify
from parity.verdict import judge
from parity.verdict.attribution.changes import Attribution, Where
from parity.verdict.model import Coverage, Session, Verdict

WEEK = 7 * state.DAY
HPL, MG = 'Hpl.gflops@onebox:virtual (quick)', 'Npb%benchmark=mg.mops_total@onebox:virtual (quick)'


def verdict(*cells, exit_code=None, pairs=()):
    session = Session(uuid='3f2a91b4', system='onebox', start='2026-11-20T02:14:00', end='2026-11-20T03:26:00',
                      elapsed=1.0, run_time=1.0)
    return Verdict(session=session, coverage=Coverage(line='', codes=[], measured=0, total=0, cells=len(cells)),
                   counts={c.verdict: 1 for c in cells}, trust='', warnings=[], next='parity show x',
                   exit_code=judge.exit_code(cells, pairs) if exit_code is None else exit_code, cells=list(cells),
                   pairs=list(pairs))


def hpl(word='ok', **other):
    return nights.cell(word, 'Hpl', 'gflops', 'compute', **{'value': 1.0, **other})


def mg(word='ok', **other):
    return nights.cell(word, 'Npb %benchmark=mg', 'mops_total', 'compute', **{'value': 1.0, **other})


def after(*turns):
    """What is sent in each of some nights; a turn is (cells, was the notice sent?)."""
    known, said = state.State(), []
    for number, (cells, sent) in enumerate(turns):
        now = nights.start(number)
        known = known.after(state.night_of(verdict(*cells)), now)
        news = known.news(now, WEEK)
        said.append(news)
        known = known.heard(now if news else None) if sent or not news else known
    return said


def each(*turns):
    return after(*((cells, True) for cells in turns))


BAD, GOOD = [hpl('regressed'), mg()], [hpl(), mg()]


def test_a_notice_is_sent_on_a_change_only():
    assert each(GOOD, BAD, BAD, BAD, GOOD, GOOD, BAD) == ['', 'changed', '', '', 'well', '', 'changed']


def test_another_word_and_another_cell_are_changes_and_fewer_bad_cells_are_none():
    assert each(BAD, [hpl('wrong'), mg()], [hpl('wrong'), mg('failed')], [hpl(), mg('failed')]) \
        == ['changed', 'changed', 'changed', '']


def test_what_never_ran_is_told_too():
    assert each(GOOD, [hpl('missing'), mg()], GOOD) == ['', 'changed', 'well']


def test_what_is_still_bad_is_told_once_a_week():
    assert each(*[BAD] * 16) == ['changed', *[''] * 6, 'reminder', *[''] * 6, 'reminder', '']


def test_a_cell_that_was_not_measured_stays_bad():
    skipped = [hpl('skipped'), mg()]
    assert each(BAD, [mg()], skipped, BAD, GOOD) == ['changed', '', '', '', 'well']
    gone = each(BAD, *[[mg()]] * 40)                    # but not for ever: its check may be gone
    assert gone.count('reminder') == 4 and 'well' not in gone and not gone[-1]


def test_an_acknowledged_cell_is_no_news_until_that_is_over():
    known = [hpl('regressed', acknowledged='until ...'), mg()]
    assert each(known, known, GOOD) == ['', '', '']
    assert each(BAD, known, known, BAD, GOOD) == ['changed', '', '', 'changed', 'well']
    assert each(BAD, *[known] * 10, GOOD) == ['changed', *[''] * 10, 'well']


def test_what_is_plainly_worse_than_acknowledged_is_told_again():
    known = [hpl('regressed', acknowledged='until ...'), mg()]
    worse = [hpl('regressed', outgrown='worse than acknowledged: 60 now, 94 then', reason='worse than acknowledged: '
                 '60 now, 94 then'), mg()]
    assert each(BAD, worse, worse, known, worse) == ['changed', 'changed', '', '', 'changed']
    state_then = state.State().after(state.night_of(verdict(*worse)), nights.start(0))
    assert state.subject('onebox', state_then, 'changed') == 'parity: onebox: 1 regressed (worse than acknowledged)'
    assert f'now regressed (worse than acknowledged): {HPL}' in state.changes(state_then)
    assert '60 now, 94 then' in state.text('', state.changes(state_then), verdict(*worse))


def test_what_was_not_sent_is_sent_the_next_night():
    assert after((BAD, False), (BAD, False), (BAD, True), (BAD, True)) == ['changed', 'changed', 'changed', '']
    assert after((BAD, True), (GOOD, False), (GOOD, True), (GOOD, True)) == ['changed', 'well', 'well', '']
    assert after((BAD, False), (GOOD, True)) == ['changed', '']       # nobody heard of it, nothing is to be told


def test_cells_of_another_size_are_other_cells():
    assert each(BAD, [hpl(size='nightly'), mg()], BAD) == ['changed', '', '']


def test_a_declared_pair_that_is_broken_is_told():
    pair = Outcome(baseline='onebox:physical', candidate='onebox:virtual', subsystem='compute', benchmark='Hpl',
                   metric='gflops', expected='at least 0.97', state='regressed')
    ok, unknown = (pair.model_copy(update={'state': s}) for s in ('ok', 'insufficient'))
    known = state.State()
    for number, (own, news) in enumerate([(ok, ''), (pair, 'changed'), (unknown, ''), (pair, ''), (ok, 'well')]):
        known = known.after(state.night_of(verdict(hpl(), pairs=[own])), nights.start(number))
        assert known.news(nights.start(number), WEEK) == news
        assert list(known.bad) == ([] if own is ok else ['onebox:virtual / onebox:physical Hpl: gflops'])
        known = known.heard(nights.start(number) if news else None)


@pytest.fixture
def site(tmp_path, results, monkeypatch):
    """Writes a system whose notices are made by a shell script; returns its notifier."""
    folder = tmp_path / 'systems' / 'onebox'
    folder.mkdir(parents=True)
    monkeypatch.setenv('PARITY_ROOT', str(tmp_path))

    def made(script='cat >>got', **other):
        stated = yaml.safe_load((TOP / 'systems/local/system.yaml').read_text())
        stated |= {'name': 'onebox', 'notify': {'command': ['sh', '-c', script], **other}}
        (folder / 'system.yaml').write_text(yaml.safe_dump(stated))
        return notify.prepared('onebox')
    made.top = tmp_path
    return made


def test_the_command_gets_subject_and_verdict(site, capsys):
    own = site()
    own.judged(verdict(hpl('regressed', reason='<b>-8 %\x1b[0m'), mg('failed')))
    got = (site.top / 'got').read_text()
    assert got.startswith('Subject: parity: onebox: 1 regressed, 1 failed\n\n'
                          f'now regressed: {HPL}\nnow failed: {MG}\n\nonebox · 2026-11-20 02:14')
    assert r'<b>-8 %\x1b[0m' in got and got.endswith('next: parity show x\n')
    assert capsys.readouterr().out == 'notice sent: parity: onebox: 1 regressed, 1 failed\n'
    own.judged(verdict(hpl('regressed'), mg('failed')))
    assert (site.top / 'got').read_text() == got
    own.judged(verdict(hpl(), mg()))
    assert 'Subject: parity: onebox: all is well again\n\nover: ' in (site.top / 'got').read_text()


def test_a_reminder_names_what_is_still_bad_and_since_when(site):
    own = site(reminder='1s')
    for _ in range(2):
        own.judged(verdict(hpl('regressed'), mg('failed', acknowledged='until 2026-12-01')))
    got = (site.top / 'got').read_text().split('Subject: ')[2]
    assert got.startswith('parity: onebox: still 1 regressed\n\nstill regressed since ')
    assert f'acknowledged: {MG} (failed)' in got


def test_a_night_without_a_session_or_without_a_figure_is_told(site):
    own = site()
    own.judged(verdict(hpl('regressed')))
    own.failed()
    got = (site.top / 'got').read_text().split('Subject: ')
    assert got[2].startswith('parity: onebox: 1 regressed, 1 failed\n\nnow failed: ci/nightly\n')
    own.judged(verdict(hpl()))
    assert 'all is well again' in (site.top / 'got').read_text()
    own.judged(verdict(hpl('skipped', value=None)))
    assert 'now missing: ci/nightly' in (site.top / 'got').read_text()


@pytest.mark.parametrize('script, said', [
    ('echo refused by example.org >&2; exit 75', 'sh: exit code 75: refused by example.org'),
    ('kill -9 $$', 'sh: killed by signal 9'), ('exit 1', 'sh: exit code 1;'),
])
def test_a_command_that_fails_is_said_and_tried_again(site, capsys, script, said):
    site(script).judged(verdict(hpl('regressed')))
    err = capsys.readouterr().err
    assert said in err and 'the next night tries again' in err
    site().judged(verdict(hpl('regressed')))
    assert f'now regressed: {HPL}' in (site.top / 'got').read_text()


def test_a_command_that_hangs_is_killed_with_its_children(tmp_path, site):
    why = send(['sh', '-c', 'sleep 7777 & wait'], 'x' * 10 ** 6, {'HANGS': str(tmp_path)}, timeout=0.5)
    assert why == 'sh: not done after 0.5 s: killed'
    eventually(lambda: not subprocess.run(['grep', '-slzx', f'HANGS={tmp_path}', *glob.glob('/proc/[0-9]*/environ')],
                                          stdout=subprocess.PIPE).stdout)


def test_a_command_that_is_not_there_or_reads_nothing(site):
    assert send(['/no/such/command'], 'text', {}) == '/no/such/command: No such file or directory'
    assert send(['true'], 'x' * 10 ** 6, {}) == ''


def test_words_of_the_command_are_no_shell(site, tmp_path):
    assert send(['touch', f'{tmp_path}/$(echo x);y'], '', {}) == ''
    assert (tmp_path / '$(echo x);y').exists()


def secret_file(tmp_path, text='TOKEN=hunter2\n', mode=0o600):
    file = tmp_path / 'secrets'
    file.write_text(text)
    file.chmod(mode)
    return str(file)


def test_secrets_reach_the_command_and_nothing_else(site, tmp_path, capsys, monkeypatch):
    own = site('test ${#TOKEN} -eq 11 || exit 9; echo "header: $TOKEN"; exit 5',
               secrets=secret_file(tmp_path, '# ours\n\nTOKEN=hunter2 = x\n'))
    own.judged(verdict(hpl('regressed')))
    said = capsys.readouterr()
    assert 'exit code 5: header: ***' in said.err and 'hunter2' not in said.out + said.err + repr(own)
    assert all('hunter2' not in f.read_text() for f in (tmp_path / 'own results').rglob('*') if f.is_file())
    monkeypatch.setenv('TOKEN', 'hunter3')
    own = site('test "$TOKEN" = hunter3', secrets=['TOKEN'])
    assert 'TOKEN' not in os.environ            # what is started from here on does not inherit it
    assert own.test() == ''


@pytest.mark.parametrize('mode', [0o644, 0o640, 0o400, 0o700, 0o606])
def test_a_file_of_secrets_with_another_mode_is_refused(site, tmp_path, mode):
    with pytest.raises(UsageError, match=f'mode is {mode:o}: secrets must be a file of mode 600'):
        site(secrets=secret_file(tmp_path, mode=mode))


@pytest.mark.parametrize('text', ['TOKEN', 'A=1\nhunter2', '2x=1', ' A=1', 'A B=1', 'A=\0'])
def test_a_line_that_is_no_secret_is_told_by_its_number_alone(tmp_path, text):
    with pytest.raises(UsageError, match=r'secrets:\d: must be KEY=VALUE') as err:
        notify._secrets(Notify(command=['x'], secrets=secret_file(tmp_path, text)), 'system.yaml')
    assert 'hunter2' not in str(err.value)


def test_secrets_that_are_not_there(site, tmp_path):
    with pytest.raises(UsageError, match='no-such: No such file'):
        site(secrets=str(tmp_path / 'no-such'))
    with pytest.raises(UsageError, match='notify.secrets: not set in the environment: NO_SUCH_VARIABLE'):
        site(secrets=['NO_SUCH_VARIABLE'])


@pytest.mark.parametrize('stated, said', [
    ({'command': []}, 'notify.command'), ({'command': 'mail me'}, 'notify.command'),
    ({'command': ['x'], 'secret': []}, "did you mean 'secrets'?"), ({'command': ['x'], 'reminder': '7'}, 'notify.reminder'),
    ({'command': ['x'], 'secrets': 'relative/path'}, 'notify.secrets'), ({'command': ['x'], 'secrets': ['A=B']}, 'secrets'),
])
def test_a_bad_notify_is_an_error_with_its_line(site, stated, said):
    site()
    file = site.top / 'systems/onebox/system.yaml'
    data = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump({**data, 'notify': stated}))
    with pytest.raises(UsageError) as err:
        notify.prepared('onebox')
    assert said in str(err.value) and f'{file}:' in str(err.value)


def test_a_state_that_cannot_be_kept_or_read_is_no_reason_to_fail(site, capsys, tmp_path):
    own = site()
    state.path('onebox').parent.mkdir(parents=True)
    state.path('onebox').write_text('{"bad": 3}')
    own.judged(verdict(hpl('regressed')))
    assert json.loads(state.path('onebox').read_text())['told'] == {HPL: 'regressed'}
    state.path('onebox').unlink()
    state.path('onebox').mkdir()
    own.judged(verdict(hpl('regressed')))
    assert 'Is a directory' in capsys.readouterr().err


def test_without_a_command_nothing_is_sent_or_stored(results):
    Notifier('local', None).judged(verdict(hpl('regressed')))
    assert not (results / 'state').exists()


def test_a_command_can_be_tried_and_the_state_shown(site):
    own = site()
    assert parity('notify', '--system', 'onebox').stdout == 'onebox: nothing was told yet\n'
    assert parity('notify', '--test', '--system', 'onebox').stdout == 'notice sent by sh\n'
    assert (site.top / 'got').read_text().startswith('Subject: parity: onebox: a test\n\n')
    own.judged(verdict(hpl('regressed')))
    assert f'  regressed since {time.strftime("%Y-%m-%d")}: {HPL}\n' in parity('notify', '--system', 'onebox').stdout
    site('exit 3')
    failed = parity('notify', '--test', '--system', 'onebox')
    assert failed.returncode == 4 and failed.stderr == 'parity: notice not sent: sh: exit code 3\n'
    none = process('notify', '--system', 'nowhere')
    assert none.returncode == 2 and 'unknown system' in none.stderr


def test_a_notice_lists_what_improved():
    told = state.text('', [], verdict(hpl('regressed'), mg('improved', reason='+8 % of the reference')))
    assert 'IMPROVED  compute' in told and 'Npb %benchmark=mg: mops_total' in told and '+8 % of the reference' in told


def slow(on: str, word: str = 'regressed', accused: str = ''):
    where = Where(kind='node', name=accused) if accused else Where()
    return hpl(word, ran_on=on.split(), cause=Attribution(where=where))


def test_all_is_well_only_once_the_same_node_was_measured_again():
    assert each([slow('v2')], [slow('v1', 'ok')], [slow('v3', 'ok')], [slow('v2', 'ok')]) == ['changed', '', '', 'well']
    assert each([slow('v1 v2')], [slow('v1 v3', 'ok')], [slow('v2 v3', 'ok')]) == ['changed', '', 'well']
    assert each([slow('v2')], [slow('v3')], [slow('v3', 'ok')], [slow('v2', 'ok')]) == ['changed', '', '', 'well']


def test_only_the_node_that_is_accused_must_be_measured_again():
    assert each([slow('v1 v2', accused='v2')], [slow('v2 v3', 'ok')]) == ['changed', 'well']
    assert each([slow('v1 v2', accused='v2')], [slow('v1 v3', 'ok')]) == ['changed', '']


def test_a_cell_whose_nodes_are_not_known_is_well_when_it_is_in_order():
    assert each([hpl('regressed')], [slow('v1', 'ok')]) == ['changed', 'well']
    assert each([slow('v2')], [hpl()]) == ['changed', 'well']
    assert each([hpl('missing')], [slow('v1', 'ok')]) == ['changed', 'well']


def test_what_was_not_measured_again_is_said_so_in_the_reminder():
    known = state.State().after(state.night_of(verdict(slow('v2'))), nights.start(0)).heard(nights.start(0))
    for number in range(1, 8):
        known = known.after(state.night_of(verdict(slow('v1', 'ok'))), nights.start(number))
    assert known.news(nights.start(7), WEEK) == 'reminder'
    assert state.subject('onebox', known, 'reminder') == 'parity: onebox: still 1 not measured again'
    said, = state.changes(known)
    assert said.startswith('not measured again on v2 (regressed since 2026-11-18; in order on other nodes): Hpl.gflops')


def test_a_node_that_is_forgotten_is_not_called_well():
    assert each([slow('v2')], *[[slow('v1', 'ok')]] * 32)[-3:] == ['', '', '']


def test_a_fault_that_is_acknowledged_meanwhile_is_not_bad_elsewhere():
    known = state.State().after(state.night_of(verdict(slow('v2'))), 1.0)
    known = known.after(state.night_of(verdict(slow('v1').model_copy(update={'acknowledged': 'until then'}))), 2.0)
    assert not known.bad and list(known.acknowledged) == [HPL]
