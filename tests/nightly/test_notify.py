"""What a night tells of incidents: a notice by one command, with secrets that nobody sees, and on_incident."""

from __future__ import annotations

import glob
import itertools
import json
import os
import signal
import subprocess
import time

import pytest
import yaml

import nights
from commands import parity, process
from conftest import TOP, eventually, run_python
from nights import verdict_of
from parity.base.errors import UsageError
from parity.judge.compare.pairs import PairState
from parity.judge.store.incidents import Incident, Where
from parity.judge.store.plan_file import NIGHT as NIGHT_EXTRAS
from parity.judge.store.plan_file import RERUN_OF
from parity.judge.verdict import incidents, judge
from parity.judge.verdict.model import Attribution
from parity.nightly import notify
from parity.nightly.notify import send
from sessions import case

WEEK = 7 * nights.DAY
HPL = 'Hpl.gflops@onebox:virtual'


def verdict(*cells):
    """Cells, and declared pairs among them."""
    pairs = [cell for cell in cells if isinstance(cell, PairState)]
    cells = [cell for cell in cells if cell not in pairs]
    return verdict_of(cells, pairs=pairs, next='parity show x', exit_code=judge.exit_code(cells, pairs))


def hpl(word='ok', **other):
    return nights.cell(word, 'Hpl', 'gflops', 'compute', **{'value': 1.0, **other})


def mg(word='ok', **other):
    return nights.cell(word, 'Npb %benchmark=mg', 'mops_total', 'compute', **{'value': 1.0, **other})


def on(nodes: str, word: str = 'ok', accused: str = '', **other):
    """HPL, run on ``nodes``."""
    where = Where(kind='node', name=accused) if accused else Where()
    return hpl(word, ran_on=nodes.split(), cause=Attribution(where=where), **other)


def slow(nodes: str, accused: str = '', **other):
    return on(nodes, 'regressed', accused, **other)


def pair(state):
    return PairState(baseline='onebox:physical', candidate='onebox:virtual', subsystem='compute', benchmark='Hpl', metric='gflops',
                   expected='at least 0.97', state=state)


def after(*turns, news: str = '') -> tuple[list[Incident], str]:
    """The incidents after nights with these cells, and what each night tells. A small letter among ``news``: that could not be sent."""
    known, told = [], ''
    for number, cells in enumerate(turns):
        night = incidents.of_verdict(verdict(*cells).model_copy(update={'incidents': []}), 'onebox', nights.start(number))
        known = [*(each for each in known if each.closed), *incidents.after([each for each in known if not each.closed], night, incidents.Calendar.stored())]
        known = [each.model_copy(update={'number': each.number or number + 1 + at}) for at, each in enumerate(known)]
        what = {notify.news_of(each, each.notified) for each in known} - {''}
        again = any(notify.reminded(each, nights.start(number), WEEK) for each in known)
        told += ('W' if what == {'over'} else 'C') if what else 'R' if again else '-'
        if told[-1] != '-' and not news[number:number + 1].islower():
            known = [each.model_copy(update={'notified': len(each.events), 'notified_at': nights.start(number)}) for each in known]
    return known, told


BAD, GOOD = [hpl('regressed'), mg()], [hpl(), mg()]
KNOWN = [hpl('regressed', acknowledged='until ...'), mg()]


@pytest.mark.parametrize('turns, news', [
    ([GOOD, BAD, BAD, BAD, GOOD, GOOD, BAD], '-C--W-C'),
    ([BAD, [hpl('wrong'), mg()], [hpl('wrong'), mg('failed')], [hpl(), mg('failed')]], 'CCCW'),
    ([GOOD, [hpl('missing'), mg()], GOOD], '-CW'),
    ([BAD] * 16, 'C------R------R-'),       # once a week
    ([BAD, [mg()], [hpl('skipped'), mg()], [hpl('disturbed'), mg()], BAD, GOOD], 'C----W'),      # not measured: stays bad
    ([BAD, [hpl(size='nightly'), mg()], BAD], 'C--'),       # a cell of another size is another cell
    ([BAD, KNOWN, KNOWN, BAD, GOOD], 'C--CW'), ([KNOWN, GOOD], '--'), ([BAD, KNOWN, KNOWN, GOOD], 'C--W'),
    # a cell ends wherever it ran; a node that is accused is measured again
    ([[slow('v2')], [on('v1')], [on('v3')]], 'CW-'), ([[slow('v2', 'v2')], [on('v1')], [on('v3')], [on('v2')]], 'C--W'),
    ([[slow('v2')], [slow('v3')], [on('v3')], [on('v2')]], 'C-W-'), ([[slow('v1 v2', 'v2')], [on('v2 v3')]], 'CW'),
    ([[slow('v1 v2', 'v2')], [on('v1 v3')]], 'C-'),
    # nodes that are not known
    ([[hpl('regressed')], [on('v1')]], 'CW'), ([[slow('v2')], [hpl()]], 'CW'), ([[hpl('missing')], [on('v1')]], 'CW'),
    # not sent: the next night sends it
    ([BAD, BAD, BAD, BAD], 'ccC-'), ([BAD, GOOD, GOOD, GOOD], 'CwW-'), ([BAD, GOOD], 'c-'),
    # not measured for a month: forgotten, and not called well
    ([BAD, *[[mg()]] * 40], 'C' + 4 * '------R' + 12 * '-'), ([[slow('v2', 'v2')], *[[on('v1')]] * 32], 'C' + 4 * '------R' + 4 * '-'),
    ([[hpl(), pair(state)] for state in ('ok', 'regressed', 'insufficient', 'regressed', 'ok')], '-C--W'),
])
def test_a_notice_is_sent_on_a_change_only(turns, news):
    assert after(*turns, news=news)[1] == news.upper()


def test_what_was_not_measured_again_is_said_so_in_the_reminder():
    (known,), news = after(*[[slow('v2', 'v2')]] * 2, *[[on('v1')]] * 6)
    assert news[-1] == 'R' and notify.subject('onebox', [], [known]) == 'parity: onebox: still 1 open incident: 1'
    said, = notify.lines([], [known], None)
    assert said == 'still open: incident 1: v2: compute slower: since 2026-11-18, in order elsewhere, not measured again on v2 since 2026-11-19'


def test_an_incident_that_a_clock_ahead_told_is_reminded_of_by_the_right_clock():
    (known,), _ = after(BAD)
    ahead = known.model_copy(update={'notified_at': nights.start(400)})
    assert notify.reminded(ahead, nights.start(1), WEEK) and not notify.reminded(known, nights.start(1), WEEK)


@pytest.fixture
def notifier(site, stored):
    """Returns the system's notifier, whose notices a shell script makes."""
    count = itertools.count()

    def tell(own, judged):
        night = judged and judged.session.model_copy(update={'uuid': f'night-{next(count)}'})
        found = own.recorded(judged and judged.model_copy(update={'session': night}))
        own.judged(found)
        return found

    def made(script='cat >>got', on_incident='', **other):
        stated = yaml.safe_load((TOP / 'systems/local/system.yaml').read_text())
        more = {'on_incident': {'command': ['sh', '-c', on_incident]}} if on_incident else {}
        site.write_text(yaml.safe_dump({**stated, **more, 'notify': {'command': ['sh', '-c', script], **other}}))
        return notify.prepared('local')
    made.tell = tell
    made.got = lambda name='got': (site.parents[2] / name).read_text()
    return made


@pytest.mark.parametrize('old, new', ((0, 1), (0, 30), (30, 1), (9, 9)))
def test_a_notice_is_one_screen_and_shows_what_is_new_first(notifier, old, new):
    own, cells = notifier(), [nights.cell('failed', f'Toy{n}', reason=f'no answer from server {n}', partition=f'p{n}') for n in range(old + new)]
    for night in filter(None, (cells[:old], cells)):
        before = notifier.got() if night is cells and old else ''
        notifier.tell(own, verdict(*night, mg()))
    got = notifier.got().removeprefix(before)
    assert len(got.splitlines()) <= 40 and got.startswith(f'Subject: parity: local: incident {old + 1} new')
    shown = [line.split()[-1] for line in got.splitlines() if line.startswith('  parity show')]
    assert shown[0] == str(old + 1)


def test_the_command_gets_subject_and_verdict_once_a_change(notifier, capsys):
    own = notifier()
    notifier.tell(own, verdict(hpl('regressed', reason='<b>-8 %\x1b[0m'), mg('failed')))
    got = notifier.got()
    assert got.startswith('Subject: parity: local: incident 1 new, incident 2 new\n\nincident 1, new: onebox:virtual: compute slower\n')
    assert got.count('Hpl: gflops') == 1 and r'<b>-8 %\x1b[0m' in got and got.endswith('trust   no rate is stated\n')
    assert capsys.readouterr().out == 'notice sent: parity: local: incident 1 new, incident 2 new\n'
    notifier.tell(own, verdict(hpl('regressed'), mg('failed')))
    assert notifier.got() == got
    notifier.tell(notifier(reminder='1s'), verdict(hpl('regressed'), mg('failed', acknowledged='until 2026-12-01')))
    reminder = notifier.got()[len(got):]
    assert reminder.startswith('Subject: parity: local: still 1 open incident: 1\n\nstill open: incident 1: ')
    assert '\n1 known incident: 2\n' in reminder
    notifier.tell(own, verdict(hpl(), mg()))
    assert 'Subject: parity: local: all is well again: incident 1 over, incident 2 over\n' in notifier.got()


def test_a_night_without_a_session_or_without_a_figure_is_told(notifier):
    own = notifier()
    notifier.tell(own, verdict(hpl('regressed')))
    assert notifier.tell(own, None) is None
    assert notifier.got().split('Subject: ')[2].startswith('parity: local: incident 2 new\n\nincident 2, new: ci/nightly stored no session\n')
    notifier.tell(own, verdict(hpl()))
    notifier.tell(own, verdict(hpl('skipped', value=None)))
    assert 'all is well again' in notifier.got() and 'new: nothing was measured' in notifier.got()


@pytest.mark.parametrize('script, said', [
    ('echo refused by example.org >&2; exit 75', 'sh: exit code 75: refused by example.org'),
    ('kill -9 $$', 'sh: killed by signal 9'), ('exit 1', 'sh: exit code 1;'),
])
def test_a_command_that_fails_is_said_and_tried_again(notifier, capsys, script, said):
    notifier.tell(notifier(script), verdict(hpl('regressed')))
    err = capsys.readouterr().err
    assert said in err and 'the next night tries again' in err
    notifier.tell(notifier(), verdict(hpl('regressed')))
    assert 'incident 1, new: ' in notifier.got()


def test_a_command_that_hangs_is_not_there_reads_nothing_or_no_shell_reads(tmp_path, notifier):
    why, hung = send(['sh', '-c', 'sleep 7777 & wait'], 'x' * 10 ** 6, {'HANGS': str(tmp_path)}, timeout=0.5)
    assert hung and why == 'sh: not done after 0.5 s: killed'
    eventually(lambda: not subprocess.run(['grep', '-slzx', f'HANGS={tmp_path}', *glob.glob('/proc/[0-9]*/environ')], stdout=subprocess.PIPE).stdout)
    assert send(['/no/such/command'], 'text', {}) == ('/no/such/command: No such file or directory', False)
    assert send(['sh', '-c', 'echo its child was killed; exit 1'], '', {}) == ('sh: exit code 1: its child was killed', False)
    assert send(['true'], 'x' * 10 ** 6, {}) == ('', False)
    assert send(['touch', f'{tmp_path}/$(echo x);y'], '', {}) == ('', False) and (tmp_path / '$(echo x);y').exists()


def secret_file(tmp_path, text):
    file = tmp_path / 'secrets'
    file.write_text(text)
    file.chmod(0o600)
    return str(file)


def test_secrets_reach_the_command_and_nothing_else(notifier, tmp_path, capsys, monkeypatch):
    own = notifier('test ${#TOKEN} -eq 11 || exit 9; echo "header: $TOKEN"; exit 5', secrets=secret_file(tmp_path, '# ours\n\nTOKEN=hunter2 = x\n'))
    notifier.tell(own, verdict(hpl('regressed')))
    said = capsys.readouterr()
    assert 'exit code 5: header: ***' in said.err and 'hunter2' not in said.out + said.err + repr(own)
    assert all(b'hunter2' not in f.read_bytes() for f in (tmp_path / 'own results').rglob('*') if f.is_file())
    monkeypatch.setenv('TOKEN', 'hunter3')
    own = notifier('test "$TOKEN" = hunter3', secrets=['TOKEN'])
    assert 'TOKEN' not in os.environ and own.test() == '', 'what is started from here on does not inherit it'


@pytest.mark.parametrize('stated, said', [
    ({'secrets': '/no-such'}, 'no-such: No such file'), ({'secrets': ['NO_SUCH']}, 'notify.secrets: not set in the environment: NO_SUCH'),
    ({'command': []}, r'system.yaml:\d.*notify.command'), ({'command': 'mail me'}, r'system.yaml:\d.*notify.command'),
    ({'secret': []}, r"system.yaml:\d.*did you mean 'secrets'\?"), ({'reminder': '7'}, r'system.yaml:\d.*notify.reminder'),
    ({'secrets': 'relative/path'}, r'system.yaml:\d.*notify.secrets'), ({'secrets': ['A=B']}, r'system.yaml:\d.*secrets'),
])
def test_a_bad_notify_is_an_error_with_its_place(notifier, stated, said):
    with pytest.raises(UsageError, match=f'(?s){said}'):
        notifier(**stated)


def test_incidents_that_cannot_be_kept_are_no_reason_to_fail(notifier, stored, capsys):
    own = notifier()
    stored.database.execute('CREATE TABLE parity_incidents (wrong TEXT)')
    found = notifier.tell(own, verdict(hpl('regressed')))
    assert 'incidents are not recorded; see whether you may write there, the disk is full' in found.warnings[0] and found.exit_code == 1


@pytest.mark.parametrize('script, said', [('exit 3', 'exit code 3'), ('sleep 99', 'not done after 0.5 s: killed')])
def test_on_incident_gets_each_incident_and_a_failure_is_a_warning(notifier, monkeypatch, script, said):
    monkeypatch.setattr(notify, 'INCIDENT_SECONDS', 0.5)
    found = notifier.tell(notifier(on_incident=f'cat >>calls; {script}'), verdict(hpl('regressed'), mg('failed')))
    assert f'on_incident: sh: {said}; the next night calls it again for incident 1' in found.warnings[0]
    assert said in notifier.got() and len(notifier.got('calls').splitlines()) == (1 if 'sleep' in script else 2)
    own = notifier(on_incident='cat >>told')
    assert not notifier.tell(own, verdict(hpl('regressed'), mg('failed'))).warnings and notifier.tell(own, verdict(hpl(), mg()))
    told = [json.loads(line) for line in notifier.got('told').splitlines()]
    assert [(each['news'], each['title']) for each in told] == [
        ('new', 'onebox:virtual: compute slower'), ('new', 'onebox:virtual: Npb: did not run'),
        ('over', 'onebox:virtual: compute slower'), ('over', 'onebox:virtual: Npb: did not run')]
    assert told[0]['cells'] == ['Hpl.gflops@onebox:virtual']


def test_a_command_can_be_tried_and_the_state_shown(notifier):
    own = notifier()
    assert parity('notify', '--system', 'local').stdout == 'local: no incident is open\n'
    assert parity('notify', '--test', '--system', 'local').stdout == 'notice sent by sh\n'
    assert notifier.got().startswith('Subject: parity: local: a test\n\n')
    notifier.tell(own, verdict(hpl('regressed')))
    assert f'incident 1, since {time.strftime("%Y-%m-%d")}: onebox:virtual: compute slower (told ' in parity('notify', '--system', 'local').stdout
    notifier('exit 3')
    failed = parity('notify', '--test', '--system', 'local')
    assert failed.returncode == 4 and failed.stderr == 'parity: notice not sent: sh: exit code 3: correct `notify` of system.yaml, or its command\n'
    assert process('notify', '--system', 'nowhere').returncode == 2


NIGHT = ' '.join(['reframe', '-r', *NIGHT_EXTRAS])
BOUNDS = {'hpl': (100.0, -0.05, 0.05)}


def test_a_night_that_was_killed_before_it_was_recorded_is_recorded_and_told_by_the_next_one(notifier, stored, capsys):
    stored.add(case(84.0, refs=BOUNDS), cmdline=NIGHT)      # before parity recorded nights
    own = notifier(on_incident='cat >>calls')
    own.catch_up()
    slow, reruns, good = (stored.add(case(hpl, refs=BOUNDS), cmdline=line) for hpl, line in ((84.0, NIGHT), (84.0, f'{NIGHT} --session-extras {RERUN_OF}=x'), (100.0, NIGHT)))
    capsys.readouterr()
    own.catch_up()
    assert [line.split()[5] for line in capsys.readouterr().out.splitlines() if 'killed' in line] == [slow[:8], good[:8]]
    said = [json.loads(line) for line in notifier.got('calls').splitlines()]
    assert [(each['news'], each['event_id']) for each in said] == [(news, f'{slow}:Toy.hpl@local:default+distro (quick)#{at}') for at, news in ((1, 'new'), (2, 'over'))]
    subjects = [line for line in notifier.got().splitlines() if line.startswith('Subject')]
    assert subjects == ['Subject: parity: local: incident 1 new', 'Subject: parity: local: all is well again: incident 1 over'] and '84.0 Gflop/s' in notifier.got()
    own.catch_up()
    assert len(notifier.got('calls').splitlines()) == 2, 'once'


KILLED = 'from parity.nightly import notify; from parity.judge.verdict import judge; notify.prepared("local").recorded(judge.newest())'


def test_a_kill_between_two_calls_tells_nothing_twice_and_nothing_never(notifier, stored, site):
    ends = [('wrong', 'the sum is 7'), ('failed', 'exit code 1'), ('failed', 'time limit reached, 60 s (job 1: TIMEOUT)'),
            ('failed', 'placement: rank 0 may run on CPUs 0-1: not bound to one core')]
    others = [case(name=f'Other{at}', result='fail', fail_phase='run', perfvalues={}, parity={'status': status, 'reason': reason})
              for at, (status, reason) in enumerate(ends)]
    stored.add(*others, cmdline=NIGHT)
    notifier('exit 1', on_incident='cat >>calls; test $(wc -l <calls) -ne 3 || kill -9 $PPID')
    assert run_python(KILLED, site.parents[2]).returncode == -signal.SIGKILL and len(notifier.got('calls').splitlines()) == 3
    stored.add(*(case(name=f'Other{at}') for at in range(4)), cmdline=NIGHT)
    own = notifier(on_incident='cat >>calls')
    own.catch_up()
    said = [(each['event_id'].rpartition('#')[0], each['event_id'], each['news']) for each in map(json.loads, notifier.got('calls').splitlines())]
    assert [news for *_, news in said].count('over') == 4 == len({name for name, *_ in said})
    assert len(said) == 9 and len(set(said)) == 8 and said[2] == said[3], 'the call that was killed comes again, with its id'
    assert 'new' in notifier.got() and 'all is well again' in notifier.got()
