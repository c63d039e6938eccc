"""`parity show CELL`: the cell that was meant, and everything that is known of it."""

from __future__ import annotations

import functools
import json
import re
import shlex
import subprocess

import pytest

import sessions as made
import stored as storing
from commands import parity, process
from conftest import TOP
from parity import plan
from parity.report import find, show
from parity.verdict import judge
from stored import case

BAND = {'hpl': (100.0, -0.05, 0.05)}


@pytest.fixture
def stored(results):
    return storing.Stored()


parity_show = functools.partial(parity, 'show')


NAMES = ['Stream%threads=one.triad@onebox:virtual', 'Stream%threads=all.triad@onebox:virtual',
         'Stream%threads=all.triad@onebox:physical', 'Stream%threads=all.copy@onebox:virtual',
         'Hpl.gflops@onebox:virtual', 'Hpcc.hpl@onebox:virtual', 'Hpcc.stream_star_triad@onebox:virtual',
         'Pairs.worst@onebox:virtual', 'Pairs.worst_over_median@onebox:virtual']


@pytest.mark.parametrize('wanted, names', [
    ('Stream%threads=one.triad@onebox:virtual', NAMES[:1]),
    ('STREAM %threads=one.TRIAD@onebox:virtual', NAMES[:1]),          # case and spaces do not count
    ('one', NAMES[:1]), ('stream.copy', NAMES[3:4]), ('gflops', NAMES[4:5]),
    ('stream.triad@onebox:physical', NAMES[2:3]), ('hpcc.hpl', NAMES[5:6]), ('star_triad', NAMES[6:7]),
    ('pairs.worst', NAMES[7:8]),                                      # a whole word before a piece of one
    ('stream.triad', NAMES[:3]), ('hpl', NAMES[4:6]), ('triad.stream', []), ('nothing', []), ('@', []), ('', []),
    ('.*', []), ('virt', NAMES[:2] + NAMES[3:]),
])
def test_a_part_names_the_cells_that_have_its_words(wanted, names):
    assert find.fitting(wanted, NAMES) == names


def test_everything_of_a_slow_cell(stored, tmp_path):
    folder = tmp_path / 'stage of Toy'
    for night in range(9):
        stored.add(case(99.0 + night % 3, refs=BAND, parity={'node': {'node': 'node01', 'kernel': '6.1.187'}}))
    stored.add(case(84.0, refs=BAND, result='fail', fail_phase='performance', stagedir=str(folder),
                    parity={'node': {'node': 'node01', 'kernel': '6.1.192'}}))
    storing.output(folder, 9, out='first\n\nWR00 84.0 Gflop/s\n', err='a \x1b[31mred\x07 warning\n')
    said = parity_show('toy.hpl')
    assert said.returncode == 0, said.stderr
    assert said.stdout.splitlines()[0] == 'Toy.hpl@local:default'
    for part in ('REGRESSED   84 Gflop/s   -16.0 % of the reference', f'10, {storing.day(0)} .. {storing.day(9)}',
                 '95.0 .. 105.0 Gflop/s', 'node01 · job 17', str(folder), '  WR00 84.0 Gflop/s',
                 r'  a \x1b[31mred\x07 warning', f'kernel 6.1.187 -> 6.1.192 on node01 since {storing.day(9)}',
                 'where    cannot be told (only node01 was measured)',
                 "rerun: ci/nightly --system local -n '^Toy$'"):
        assert part in said.stdout, f'{part}\n{said.stdout}'
    assert re.search('nights   [▁-█]{9}▁   84.0 .. 101.0 Gflop/s', said.stdout)


def test_the_same_as_json(stored):
    stored.add(case(100.0))
    stored.add(case(101.0, refs=BAND))
    told = json.loads(process('show', 'toy.hpl', '--json').stdout)
    assert told['name'] == 'Toy.hpl@local:default' and told['cell']['verdict'] == 'ok'
    assert [n['value'] for n in told['nights']] == [100.0, 101.0] and told['attribution']['changes'] == []


def test_a_name_that_fits_several_lists_them_and_one_that_fits_none_names_the_nearest(stored):
    stored.add(case(100.0))
    several = parity_show('toy')
    assert several.returncode == 2 and 'Toy.hpl@local:default\n  Toy.latency@local:default' in several.stderr
    none = parity_show('Toy.latecny')
    assert none.returncode == 2 and 'the nearest: Toy.latency@local:default' in none.stderr
    assert 'Traceback' not in several.stderr + none.stderr


def test_nothing_stored_and_an_unknown_session(stored):
    assert parity_show('toy').returncode == 3
    stored.add(case(100.0))
    unknown = parity_show('toy', '--session', 'zz')
    assert unknown.returncode == 2 and "no session starts with 'zz'" in unknown.stderr


def test_a_cell_that_the_newest_session_did_not_plan_is_that_of_the_one_before(stored):
    stored.add(case(100.0), case(7.0, 'Other'))
    stored.add(case(101.0))
    stored.add(case(55.0), parity_rerun_of='00000001-0')     # what only confirms another session is none
    verdict, _, cell = find.cell('other.hpl')
    assert (verdict.session.uuid, cell.value) == ('00000000-0', 7.0)
    assert find.cell('toy.hpl')[2].value == 101.0


def test_a_cell_of_long_ago_is_found_by_its_figure(stored):
    stored.add(case(100.0), case(7.0, 'Rare'))
    for _ in range(find.SESSIONS + 1):
        stored.add(case(101.0))
    assert find.cell('rare.hpl')[0].session.uuid == '00000000-0'


def test_reruns_stand_beside_their_night(stored):
    stored.add(case(100.0), case(102.0))
    stored.add(case(97.0, job_nodelist=['node02']), parity_rerun_of='00000000-0')
    assert 'runs     100.0 102.0 Gflop/s; again: 97.0 on node02' in parity_show('toy.hpl').stdout


def test_an_older_session_shows_no_later_nights_nor_their_output(stored, tmp_path):
    folder = storing.output(tmp_path / 'out', 1, out='of the later session')
    old = stored.add(case(100.0, outputdir=folder))
    stored.add(case(50.0, outputdir=folder))
    said = parity_show('toy.hpl', '--session', old).stdout
    assert 'of another run' in said and 'later session' not in said and '50' not in said.split('output')[0]
    assert 'of the later session' in parity_show('toy.hpl').stdout


def test_the_output_that_a_confirming_rerun_left_is_shown_as_such(stored, tmp_path):
    folder = storing.output(tmp_path / 'out', 1, out='of the rerun')
    night = stored.add(case(84.0, outputdir=folder))
    stored.add(case(83.0, outputdir=folder), parity_rerun_of=night)
    said = parity_show('toy.hpl').stdout
    assert '  of the rerun' in said and 'the output is of the run that confirms this one (' in said


def test_environments_are_told_apart_where_a_case_has_several(stored):
    stored.add(case(100.0), case(90.0, environ='spack'))
    said = parity_show('toy.hpl+spack').stdout
    assert said.startswith('Toy.hpl@local:default+spack\n') and "-p '^spack$'" in said
    assert parity_show('toy.hpl').returncode == 2


def test_a_cell_that_nothing_can_run_has_no_line_that_reruns_it(stored):
    stored.add(case(100.0), plan=[made.planned(), made.planned('Later', environ='', needs=['osu'])])
    said = parity_show('later.hpl')
    assert said.returncode == 0 and 'SKIPPED   no environment offers osu' in said.stdout
    assert 'rerun:' not in said.stdout and 'no figure is stored' in said.stdout


@pytest.mark.parametrize('text, shown', [
    ('x' * 500, 'x' * 159 + '…'), ('\x9b2J\x1b]0;title\x07', r'\x9b2J\x1b]0;title\x07'), ('a\rb\x0bc', r'a\x0db\x0bc'),
    ('half \udcff', r'half \ufffd'), ('a\tb', 'a       b'), ('right \u202e left', r'right \u202e left'),
])
def test_output_commands_no_terminal(tmp_path, text, shown):
    storing.output(tmp_path, 0, out=f'first\n{text}\n\n  \n')
    assert show.tail(tmp_path / 'rfm_job.out', 2) == ['first', shown]


def test_of_a_huge_output_only_the_end_is_read(tmp_path):
    file = tmp_path / 'rfm_job.out'
    with open(file, 'wb') as made_file:
        made_file.truncate(1 << 40)
        made_file.seek(0, 2)
        made_file.write(b'\nthe end\n')
    assert show.tail(file, 1) == ['the end']


@pytest.mark.parametrize('value, band, drawn', [
    (71.2, (75.9, 79.5, 77.7), '^●  +├─+┼─+┤$'), (80.0, (75.9, 79.5, None), '^├─+┤ +●$'),
    (77.0, (75.9, None, 77.7), '^├─+●─+┼$'), (5.0, (None, 4.0, 0.0), '^┼─+┤ +●$'), (4.0, (None, 4.0, 4.0), '^$'),
])
def test_a_value_beside_its_band(value, band, drawn):
    assert re.search(drawn, show.bar(value, *band))


def test_a_sparkline_draws_noise_level_and_a_drop_low():
    assert len(set(show.sparkline([100.0, 100.5, 99.5, 100.2]))) <= 3
    assert show.sparkline([100, 100, 80]) == '██▁' and show.sparkline([0.0, 0.0]) == '▄▄'
    assert show.sparkline([100.0, 100.0], 50.0, 150.0) == '▅▅'


def names_selected(line: str, names: list[str]) -> list[str]:
    """The cases that the line's -n selects, by ReFrame's own rule."""
    from reframe.frontend.filters import have_any_name
    words = shlex.split(line)
    fits = have_any_name([words[words.index('-n') + 1]])

    class Check:
        def __init__(self, name):
            self.check, self.display_name, self.hashcode, self.variant_num = self, name, 'x', 0
    return [n for n in names if fits(Check(n))]


def test_the_line_selects_that_very_case_and_no_other():
    names = ['Hpl', 'HplLarge', 'MyHpl', 'Fileset %mode=read %bytes=1', 'Fileset %mode=read %bytes=10',
             'Odd %library=a.b+c', 'Odd %library=axb+c', 'Odd %where=$HOME (x|y)', "Odd %quote='; rm -rf ~", 'Odd %a=b@1']
    for name in names:
        line = show.rerun_line(name, 'local', '', '', 'quick', 'reframe -r')
        assert names_selected(line, names) == [name], line
        if "'" not in name:
            assert subprocess.run(['bash', '-c', f'printf "%s\\n" {line}'], capture_output=True, text=True
                                  ).stdout.splitlines() == shlex.split(line)


@pytest.mark.parametrize('cmdline, kept', [
    ('reframe -c checks -r -S size=nightly --system local -n X', '-S size=nightly'),
    ('reframe -r --setvar=size=nightly -J qos=low', '--setvar size=nightly -J qos=low'),
    ('reframe --mode nightly -r --repeat 3', '--mode nightly'),
    ('reframe -r -Ssize=nightly', '-S size=nightly'),
    ('reframe -r', '-S size=nightly'),                                # said by other means
])
def test_the_line_keeps_what_made_the_case_what_it_is(cmdline, kept):
    assert show.rerun_line('Hpl', 'onebox', 'virtual', 'spack', 'nightly', cmdline) \
        == f"ci/nightly --system onebox:virtual -p '^spack$' -n '^Hpl$' {kept}"


def test_the_line_names_the_nodes_instead_of_those_that_the_session_chose():
    cmdline = 'reframe -r -J nodelist=n9 -J exclude=n1 -J w=n9 -J qos=low -J wckey=x'
    assert show.rerun_line('Hpl', 'onebox', '', '', 'quick', cmdline, ['n1', 'n2']) \
        == "ci/nightly --system onebox -n '^Hpl$' -J qos=low -J wckey=x -J nodelist=n1,n2"
    assert '-J nodelist=n9' in show.rerun_line('Hpl', 'onebox', '', '', 'quick', cmdline)


@pytest.mark.parametrize('system, partition, named', [
    ('example-slurm', 'cpu', True), ('example-pbs', 'cpu', True), ('local', 'default', False)])
def test_nodes_are_named_where_a_scheduler_takes_them(stored, system, partition, named):
    where = {'system': system, 'partition': partition}
    report = made.report([case(100.0, **where)], [{**made.planned(), **where}], uuid='one')
    report['parity_session']['plan']['system'] = system
    stored.database.execute('INSERT INTO sessions VALUES (?, ?, ?)', ('one', 1.0, json.dumps(report)))
    stored.database.commit()
    assert ('-J nodelist=node01' in parity_show('toy.hpl').stdout) == named


def test_what_minus_p_swept_is_one_value_of_it(results, monkeypatch):
    monkeypatch.setenv('RFM_CONFIG_FILES', str(TOP / 'reframe' / 'settings.py'))
    line = show.rerun_line('FileCopy %mode=small-write %clients=one %sync=durable %size=nightly', 'local', '', '', 'nightly',
                      'reframe -r -P size=quick,nightly')
    assert line == ("ci/nightly --system local -n '^FileCopy%mode=small-write%clients=one%sync=durable$' "
                    '-P size=nightly')
    planned = plan.of_command(['-c', str(TOP / 'checks/storage/filecopy/filecopy.py'), '-r', *shlex.split(line)[1:]])
    assert [c.case for c in planned.cases] == ['FileCopy %mode=small-write %clients=one %sync=durable %size=nightly']


def test_the_verdict_on_an_older_session_names_it_in_the_next_command(stored):
    old = stored.add(case(50.0, refs=BAND))
    stored.add(case(100.0, refs=BAND))
    following = judge.newest(old).next
    assert following == f'parity show Toy.hpl@local:default --session {old[:8]}'
    assert 'REGRESSED' in parity_show(*shlex.split(following)[2:]).stdout
