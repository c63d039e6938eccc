"""The answer of a verdict: the first lines that a person sees, in the terminal, the mail and the page."""

from __future__ import annotations

import os
import random

import pytest

import stored as storing
from commands import parity, process
from nights import cell, verdict_of
from parity.base import codes
from parity.base.colours import Console
from parity.base.console import lines, plain
from parity.judge.report import answer
from parity.judge.store.incidents import Event, Fault, Incident
from parity.judge.verdict import judge
from parity.judge.verdict.model import CodeCoverage, Coverage, Where, rows
from sessions import case, planned, ran, report, verdict_on

BAND = {'hpl': (100.0, -0.05, 0.05)}


def said(verdict) -> list[str]:
    return [text for text, _ in answer.lines(verdict)]


def headline(monkeypatch, **patterns: str) -> None:
    """Let one code name these figures of the toy check for a first screen."""
    monkeypatch.setattr(codes, 'every', lambda: (codes.Code(name='Toy', headlines=patterns),))


@pytest.fixture
def nights(stored):
    """Nights of three cases on a node each; from night ``slow`` on, two of them are slower on c3."""
    def make(count: int = 45, slow: int = 42):
        noise = random.Random(3).gauss
        for night in range(count):
            runs = []
            for name in ('Stream%threads=all', 'Npb%benchmark=mg', 'Hpl'):
                share = 0.915 if night >= slow and name != 'Hpl' else 1.0
                runs.append(case(100 * share * (1 + noise(0, 0.004)), name=name, latency=1.5, job_nodelist=['c3']))
            stored.add(*runs)
        return judge.newest()
    return make


def test_a_first_night_shows_figures_beside_what_the_machine_could_do(monkeypatch):
    headline(monkeypatch, **{r'Toy\.hpl': 'Linpack', 'Nothing': 'nothing'})
    limit = {'hpl': {'limit': {'value': 160.0, 'unit': 'Gflop/s', 'source': 'data sheet', 'certain': True}}}
    found = verdict_on(report([ran(parity={'metrics': limit})], [planned(), planned('Never', environ='', needs=['npb'])]))
    lines = said(found)
    assert lines[0] == 'This machine is measured: 2 figures, none wrong, none beyond a physical bound.'
    row, = (line for line in lines if 'Linpack' in line)
    assert row.split()[:2] == ['compute', 'Linpack'] and '100 Gflop/s' in row and '160 Gflop/s: data sheet' in row and '62 %' in row
    assert dict(answer.of(found).notes)['left out'] == '2 cells: 2 without a program (parity verdict --skipped)' and len(lines) <= 24


@pytest.mark.parametrize('lacking, measured, said_first', [
    (2, 0, "None of the 2 codes has its program here: 2 figures of parity's own checks, none wrong."),
    (1, 0, "The selected code, NPB, has no program here: 2 figures of parity's own checks, none wrong."),
    (1, 1, 'This machine is measured: 2 figures, none wrong; 1 of the 2 codes measured.'),
    (0, 1, 'This machine is measured: 2 figures, none wrong.')])
def test_the_first_sentence_says_which_codes_lack(lacking, measured, said_first):
    """As many codes as ``lacking`` have no program; of the others, ``measured`` were measured, the rest not selected."""
    one = CodeCoverage(code='HPL', measured=bool(measured), by='HPL', reason='' if measured else 'not selected')
    none = CodeCoverage(code='NPB', measured=False, reason='no Spack', lacking=True)
    found = [none] * lacking + [one] * (2 - lacking)
    verdict = verdict_of([cell('unreferenced', value=1.0), cell('unreferenced', metric='copy', value=1.0)], exit_code=0, coverage=Coverage(
        line='', codes=found, measured=measured, total=lacking + measured, cells=2))
    assert answer.of(verdict).sentence == said_first


@pytest.mark.parametrize('others', ['not selected', 'hpcc only cached'])
def test_a_code_whose_program_is_here_does_not_lack(others):
    """Nothing was measured of it; of a foreign session, no code was selected at all."""
    found = [CodeCoverage(code='HPL', measured=False, reason=others)]
    if others != 'not selected':
        found.append(CodeCoverage(code='NPB', measured=False, reason='no Spack', lacking=True))
    coverage = Coverage(line='', codes=found, measured=0, total=len(found), cells=1)
    verdict = verdict_of([cell('unreferenced', value=1.0)], exit_code=0, coverage=coverage)
    assert answer.of(verdict).sentence.startswith('This machine is measured: 1 figure, none wrong')


def test_many_open_incidents_are_ten_lines_and_a_count():
    event, where = Event(what='new', session='before', start=1e9), Where(kind='node', name='c3')
    known = [Incident(number=n, uuid=str(n), system='onebox', key=['missing'], title='gone', state='open', where=where, part='memory', faults={
        f'cell {n}': Fault(word='missing', since=1e9, measured=1e9, cell=f'cell {n}', unit='', nodes=['c3'])}, events=[event]) for n in range(1, 13)]
    verdict = verdict_on(report([ran()], [planned()])).model_copy(update={'incidents': known})
    notes = [text for label, text in answer.of(verdict).notes if label == 'open']
    assert len(notes) == 11 and notes[0].startswith('incident 1: gone') and notes[-1] == '2 more incidents: parity verdict --json'


def test_cells_with_one_cause_are_one_entry_with_figures_nights_and_the_next_command(nights):
    found = nights()
    lines, (entry,) = said(found), answer.of(found).entries
    assert entry.word == 'regressed' and {row[0] for row in entry.figures} == {'Npb%benchmark=mg: hpl', 'Stream%threads=all: hpl'}
    assert all(row[2].startswith('-8.') and len(row[3]) == 14 for row in entry.figures)
    assert lines[0].startswith(f'{entry.title}. All else is as it was.') and lines[0].endswith('(exit code 1)')
    assert entry.next.startswith("parity show 'Npb") is ("'" in entry.next)
    assert len(lines) <= 24 and max(map(len, lines)) <= answer.WIDTH


def test_a_quiet_night_is_one_sentence_and_the_counts(nights):
    found = nights(slow=99)
    assert said(found)[0] == '6 of 6 figures are judged: all are as they were.' and not answer.of(found).entries


def test_one_low_night_is_a_line_that_promises_nothing_of_the_next_one(nights):
    found = answer.of(nights(slow=44))
    assert [text for label, text in found.notes if label == 'once'] == [
        'Stream%threads=all.hpl@local:default: tonight 8.7 % low: a slowdown if it lasts',
        'Npb%benchmark=mg.hpl@local:default: tonight 8.5 % low: a slowdown if it lasts']
    assert found.sentence == '6 of 6 figures are judged: 2 slower tonight, the others are as they were.'


@pytest.mark.parametrize('raw, sentence', [
    ({'result': 'fail', 'fail_phase': 'run', 'perfvalues': {}, 'fail_reason': 'x', 'parity': {'status': 'failed', 'reason': 'disk full'}},
     'local:default: Toy: failed.'),
    ({'result': 'fail', 'fail_phase': 'run', 'perfvalues': {}, 'fail_reason': 'x', 'job_nodelist': [], 'parity': {'status': 'failed', 'reason': 'disk full'}},
     'local:default: Toy: did not run.'),
    ({'result': 'skip', 'perfvalues': {}, 'parity': {'status': 'skipped', 'reason': 'nodes: needs 2'}}, 'Nothing was measured: nodes: needs 2.'),
    ({'hpl': float('nan')}, 'local:default: Toy: a wrong answer.'), ({'hpl': 80.0, 'refs': BAND}, 'local:default: compute 20 % slower.')])
def test_the_first_sentence_says_what_is_wrong_or_why_nothing_was_measured(raw, sentence):
    assert said(verdict_on(report([ran(**raw)], [planned()])))[0].startswith(sentence)


def test_causes_beyond_the_first_ones_are_counted():
    runs = [ran(f'Toy{n}', hpl=80.0, refs=BAND, partition=f'p{n}') for n in range(9)]
    runs = [{**run, 'perfvalues': {key.replace('default', run['partition']): v for key, v in run['perfvalues'].items()}} for run in runs]
    lines = said(verdict_on(report(runs, [planned(f'Toy{n}', partition=f'p{n}') for n in range(9)])))
    assert '8 more below' in lines[0] and 'and 3 more causes: parity verdict --all' in lines


def test_nothing_that_a_job_printed_commands_the_terminal():
    bad = ran(result='fail', fail_phase='sanity', parity={'status': 'wrong', 'reason': 'bad \x1b[31m\nresult'})
    assert not [line for line in said(verdict_on(report([bad], [planned()]))) if '\x1b' in line or '\n' in line]


def test_a_pipe_gets_the_lines_of_a_terminal_without_colours(capsys, monkeypatch):
    shown = [('a\tb \x1b[31m  ', 'bold red'), ('', 'dim'), ('[bold]µ▄ :smile:\r\n' + 'word ' * 99, '')]
    monkeypatch.delenv('LC_ALL', raising=False)
    lines(shown)
    printed = capsys.readouterr().out
    assert printed.startswith('a       b \\x1b[31m  \n\n[bold]µ▄ :smile:\nword ') and '\x1b' not in printed
    monkeypatch.setattr(Console, 'color_system', 'standard')
    lines(shown)
    assert capsys.readouterr().out == printed


def test_json_has_the_answer_and_ascii_is_enough(stored):
    stored.add(storing.case(), facts={'machine': {'hostname': 'node01', 'core_sets': [[0], [1]], 'model_name': 'Zen·5', 'kind': 'virtual', 'backend': 'kvm'}})
    assert '"sentence": "This machine is measured: 2 figures' in parity('verdict', '--json').stdout
    for given in ({'PYTHONIOENCODING': 'ascii'}, {'LC_ALL': 'C'}):
        done = process('verdict', env={**os.environ, **given})
        assert done.returncode == 0 and 'local | 2 cores, Zen|5, kvm guest' in done.stdout and done.stdout.isascii()
    assert plain('▁▄█ é 日') == '_.# e? ?'


def test_a_night_without_a_program_names_every_code_that_lacks():
    cells = [cell('skipped', check, 'x', 'compute', value=None, reason=f'no environment offers {code}')
             for check, code in (('A', 'npb'), ('A2', 'npb'), ('B', 'hpl'), ('C', 'hpcc (no mpirun)'))]
    assert answer._nothing_measured(rows(cells)) == 'Nothing was measured: no environment offers npb, hpl, hpcc (no mpirun).'
