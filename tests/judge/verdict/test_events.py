"""What happens to a cell between two nights: other work, software, hardware, maintenance, and levels begun by hand."""

from __future__ import annotations

import os

import pytest

import sessions as made
from commands import parity
from parity.judge.report import answer
from parity.judge.verdict import judge
from parity.measure.scheduler import placement
from stored import case, day

VALUES = [100.0, 101.0, 99.5, 100.4, 98.9, 100.9, 99.8, 100.2, 101.1, 99.2]


def night(stored, hpl: float, facts=None, **other) -> str:
    return stored.add(case(hpl, executable_opts=['-n', '8'], **other), facts=facts) if 'executable_opts' not in other \
        else stored.add(case(hpl, **other), facts=facts)


def history(stored, count: int = 30, **other) -> None:
    def fill() -> None:
        for n in range(count):
            night(stored, VALUES[n % 10] + n % 3 / 10, **other)
    stored.once(f'{count} of {other}', fill)


def said(uuid: str = '') -> tuple:
    verdict = judge.newest(uuid)
    return verdict, verdict.cells[0], [line for line, _ in answer.lines(verdict)]


GIVEN = {'executable_opts': ['-n', '8'], 'executable': 'xhpl', 'env_vars': {'MODE': 'fast', 'PARITY_SESSION': 'abc'}, 'num_tasks': 2,
         'parity': {'code': 'aaa', 'inputs': {'hpl.dat': '1'}, 'image': 'one.sif', 'sizing': {'hpl': {'n': 100, 'why': 'memory'}}}}


@pytest.mark.parametrize('changed, why', [
    ({'executable_opts': ['-n', '16']}, 'arguments -n 8 -> -n 16'), ({'executable': 'other'}, 'program xhpl -> other'),
    ({'env_vars': {'MODE': 'slow', 'PARITY_SESSION': 'def'}}, 'variable MODE fast -> slow'),
    ({'env_vars': {}}, 'variable MODE fast -> none'), ({'num_tasks': 4}, 'ranks 2 -> 4'),
    ({'parity': {'code': 'bbb'}}, 'check aaa -> bbb'), ({'parity': {'inputs': {'hpl.dat': '2'}}}, 'input hpl.dat 1 -> 2'),
    ({'parity': {'image': 'two.sif'}}, 'container image one.sif -> two.sif'),
    ({'parity': {'sizing': {'hpl': {'n': 200, 'why': 'memory'}}}}, 'sizes hpl n=100 -> hpl n=200')])
def test_a_cell_learns_anew_from_other_work_and_the_first_lines_say_why(stored, changed, why):
    history(stored, **GIVEN)
    parity_facts = {**GIVEN['parity'], **changed.get('parity', {})}
    for _ in range(2):
        night(stored, 50.0, **{**GIVEN, **changed, 'parity': parity_facts})
        verdict, cell, lines = said()
        assert (cell.state, cell.verdict, verdict.exit_code) == ('learning', 'unreferenced', 0), cell
        assert [change.what for change in cell.anew] == [why] and len(verdict.cells) == 2 and verdict.cells[1].anew
    fact = why.partition(' -> ')[0].rpartition(' ')[0] if '=' not in why and '-n' not in why else why.split()[0]
    assert f'2 cells learn anew: {fact} changed on {day(30)}' in lines[:5], lines


def test_another_launchers_variable_of_the_same_placement_is_no_other_work(stored):
    history(stored, **GIVEN)
    more = {**GIVEN['env_vars'], **placement.variables(placement.RankLayout(1, 2))}
    night(stored, 50.0, **{**GIVEN, 'env_vars': more})
    night(stored, 50.0, **{**GIVEN, 'env_vars': more})
    _, cell, _ = said()
    assert (cell.state, cell.anew) == ('slow', [])


def test_a_fact_that_older_sessions_did_not_store_is_no_change(stored):
    history(stored, executable_opts=None)
    night(stored, 50.0, **GIVEN)
    night(stored, 50.0, **GIVEN)
    verdict, cell, lines = said()
    assert (cell.state, cell.verdict, cell.anew) == ('slow', 'regressed', []) and not any('anew' in line for line in lines)


def test_work_that_is_another_on_most_nights_is_judged_as_one(stored):
    for n in range(32):
        night(stored, VALUES[n % 10] if n < 30 else 50.0, executable_opts=['--seed', str(n)])
    _, cell, _ = said()
    assert (cell.state, cell.verdict) == ('slow', 'regressed')


@pytest.mark.parametrize('every', [1, 5])
def test_work_that_changes_before_it_is_learned_can_never_be_judged_and_the_first_lines_say_why(stored, every):
    history(stored)
    for n in range(3 * every):
        night(stored, 50.0, executable_opts=['--date', str(n // every)])
        if n % every not in (0, every - 1):     # the first and the last night with the same arguments are judged
            continue
        verdict, cell, lines = said()
        never = n // every >= 2
        assert any('learn anew: arguments changed' in line for line in lines[:6]) is not never
        assert ('2 cells can never be judged: arguments changed 3 times, never after 11 nights alike; the last time --date 1 -> --date 2'
                in ' '.join(lines[:6])) is never, lines
    for _ in range(12):
        night(stored, 50.0, executable_opts=['--date', 'always'])
    verdict, cell, lines = said()
    assert cell.state == 'normal' and not any('never' in line for line in lines[:5])
    night(stored, 50.0, executable_opts=['--date', 'other'])
    assert said()[1].restarts == 1, 'it had learned'


def test_another_unit_is_other_work(stored):
    history(stored)
    plan = [{**made.planned(), 'metrics': [{**made.METRICS[0], 'unit': 'Tflop/s'}, made.METRICS[1]]}]
    noted = {'metrics': {'hpl': {'unit': 'Tflop/s', 'better': 'higher'}, 'latency': {'unit': 'us', 'better': 'lower'}}}
    stored.add(case(0.1, executable_opts=['-n', '8'], parity=noted), plan=plan)
    verdict, cell, lines = said()
    assert (cell.state, cell.verdict, verdict.exit_code) == ('learning', 'unreferenced', 0)
    assert '1 cell learns anew: unit changed' in lines[:5]


@pytest.mark.parametrize('fact, value, kind, what, drop', [
    ('memory_bytes', 2**33, 'the hardware changed', 'memory 16.0 GiB -> 8.0 GiB on node01', 20),
    ('model_name', 'B', 'the hardware changed', 'processor A -> B on node01', 20), ('kernel', '6.2', 'maintenance was', 'kernel 6.1 -> 6.2 on node01', 20),
    ('mitigations', 'on', 'maintenance was', 'mitigations off -> on on node01', 5)])
def test_a_slowdown_that_comes_with_a_change_of_its_node_is_told_and_names_it_alone(stored, fact, value, kind, what, drop):
    machine = {'hostname': 'node01', 'kernel': '6.1', 'model_name': 'A', 'memory_bytes': 2**34, 'mitigations': 'off'}

    def fill() -> None:
        for n in range(30):
            night(stored, VALUES[n % 10], facts={'machine': {**machine, 'governor': 'a' if n < 20 else 'b'}})       # maintenance
    stored.once('of one machine', fill)
    changed = {**machine, fact: value}
    for n in range(30, 34):
        night(stored, VALUES[n % 10] - drop, facts={'machine': {**changed, 'governor': 'b'}})
    assert f'{kind} on {day(30)}' in said()[1].reason
    for n in range(34, 36):
        night(stored, VALUES[n % 10] - drop, facts={'machine': {**changed, 'governor': 'c'}})       # maintenance since
    _, cell, lines = said()
    assert (cell.state, cell.verdict) == ('slow', 'regressed')
    assert [change.what for change in cell.cause.changes] == [what] and cell.cause.changes[0].when[:10] == day(30)


HPL = 'Toy.hpl@local:default'
#: A night of 2021: a level does not begin in the future.
PAST = -2000


def test_a_level_is_begun_by_hand_listed_and_what_it_measures_is_normal(stored, site):
    stored.count = PAST
    for n in range(40):
        night(stored, VALUES[n % 10] - 20 * (n >= 20))
    assert said()[1].state == 'slow'
    assert parity('level', '--list').stdout == 'no level was begun by hand\n'
    file = site.with_name('levels.yaml')
    file.write_text('# ours\nlevels:\n- {cell: Toy.latency@local:default, why: moved, by: bea, since: 2020-01-01}   # old\n')
    done = parity('level', 'hpl', '--since', day(PAST + 20), '--why', 'half the memory, as ordered', '--by', 'ana')
    assert done.returncode == 0 and done.stdout == \
        f'parity: {HPL}, a level since {day(PAST + 20)} by ana: half the memory, as ordered; {file}\n', done.stderr
    assert file.read_text().startswith('# ours\n') and '# old' in file.read_text()
    verdict, cell, _ = said()
    assert (cell.state, verdict.exit_code) == ('normal', 0) and cell.usual == pytest.approx(80, rel=0.02)
    assert f'{HPL}   normal   since {day(PAST + 20)} by ana: half the memory, as ordered' in parity('level', '--list', '--system', 'local').stdout
    night(stored, 60.0)
    night(stored, 60.0)
    assert said()[1].state == 'slow'


@pytest.mark.parametrize('words, message', [
    (['Toyy.hlp', '--since', day(PAST + 5), '--why', 'moved'], f"no cell 'Toyy.hlp' in the newest sessions; the nearest: {HPL}"),
    (['hpl', '--since', '2999-01-01', '--why', 'moved'], '--since 2999-01-01: that day has not come; today is '),
    (['hpl', '--since', day(PAST), '--why', 'moved'], f'--since {day(PAST)}: the nights of {HPL} begin on {day(PAST)}; a level begins on a later day'),
    (['hpl', '--since', day(PAST + 5), '--why', 'red \x1b[31m'], 'has the character U+001B'), (['hpl', '--since', day(PAST + 5), '--why', 'one\ntwo'], 'has the character U+000D'),
    (['hpl', '--since', day(PAST + 5), '--why', 'moved', '--by', 'a\x1b'], 'has the character U+001B'),
    (['hpl', '--since', 'soon', '--why', 'moved'], "--since 'soon': must be a day such as "),
    (['hpl', '--since', day(PAST + 5)], "--why '': must say in three letters or more what happened"), ([], 'name the cell: parity level CELL')])
def test_a_level_that_cannot_be_one_is_refused(stored, site, words, message):
    stored.count = PAST
    history(stored, 2)
    done = parity('level', *words)
    assert done.returncode == 2 and message in done.stderr and not site.with_name('levels.yaml').exists()


def test_a_cell_whose_nights_were_all_disturbed_has_no_level_and_says_so(stored, site):
    for _ in range(2):
        night(stored, 100.0, parity={'disturbed': 'stress 0.9'})
    done = parity('level', 'hpl', '--since', day(PAST + 5), '--why', 'moved')
    assert done.returncode == 2 and f'{HPL} has no undisturbed night yet: a level begins between two nights; run: ci/nightly' in done.stderr


def test_levels_that_are_a_fifo_are_named_and_not_waited_for(stored, site):
    history(stored, 2)
    os.mkfifo(site.with_name('levels.yaml'))
    done = parity('level', '--list')
    assert done.returncode == 2 and 'levels.yaml: a FIFO; must be a regular file' in done.stderr


@pytest.mark.parametrize('text, message', [
    (f'levels:\n- {{cell: {HPL}, why: moved, by: bea}}', ':2: levels.0.since: '),
    (f'levels:\n- {{cell: {HPL}, why: moved, by: bea, since: 2026-11-20}}\n' * 2, ":3: key 'levels' is given twice"),
    ('levels:\n' + f'- {{cell: {HPL}, why: moved, by: bea, since: 2026-11-20}}\n' * 2, f':3: {HPL} has a level since that day twice')])
def test_a_bad_file_of_levels_is_an_error_with_its_line(stored, site, text, message):
    history(stored, 12)
    site.with_name('levels.yaml').write_text(text)
    done = parity('verdict')
    assert done.returncode == 2 and f'levels.yaml{message}' in done.stderr, done.stderr


def test_an_accepted_value_is_of_the_work_that_it_was_accepted_for(stored):
    bounds = {'refs': {'hpl': (100.0, -0.05, 0.05)}}
    for n in range(20):
        stored.add(case(VALUES[n % 10] if n % 4 else 60.0, executable_opts=['-n', '8'], **bounds))
    stored.add(case(50.0, executable_opts=['-n', '16'], **bounds))
    verdict, cell, lines = said()
    assert (cell.verdict, cell.state, cell.reference, cell.low) == ('unreferenced', 'learning', None, None)
    assert cell.reason == f'the accepted value is of the work before {day(20)}: arguments changed'
    assert verdict.exit_code == 0 and '2 cells learn anew: arguments changed' in lines[:5], lines
    for _ in range(12):                  # also once it has learned
        stored.add(case(50.0, executable_opts=['-n', '16'], **bounds))
    verdict, cell, lines = said()
    assert (cell.verdict, cell.state, cell.reference) == ('ok', 'normal', None)
    assert '1 accepted value of former work: parity refs propose' in lines[:5], lines
    stored.add(case(50.0, executable_opts=['-n', '16'], refs={'hpl': (60.0, -0.05, 0.05)}))
    verdict, cell, lines = said()        # another value is accepted: it judges
    assert (cell.reference, verdict.exit_code) == (60.0, 1)
