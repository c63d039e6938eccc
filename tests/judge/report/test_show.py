"""`parity show CELL`: the cell that was meant, and everything that is known of it."""

from __future__ import annotations

import functools
import json
import re
import shlex
import subprocess
from types import SimpleNamespace

import pytest
from reframe.frontend.filters import have_any_name

import sessions as made
import stored as storing
from commands import parity, process
from nights import start
from parity.judge.report import show
from parity.judge.verdict import judge
from stored import case

BAND = {'hpl': (100.0, -0.05, 0.05)}
shown = functools.partial(parity, 'show')
NAMES = ['Stream%threads=one.triad@onebox:virtual', 'Stream%threads=all.triad@onebox:virtual', 'Stream%threads=all.triad@onebox:physical',
         'Stream%threads=all.copy@onebox:virtual', 'Hpl.gflops@onebox:virtual', 'Hpcc.hpl@onebox:virtual', 'Hpcc.stream_star_triad@onebox:virtual',
         'Pairs.worst@onebox:virtual', 'Pairs.worst_over_median@onebox:virtual']


@pytest.mark.parametrize('wanted, names', [
    (NAMES[0], NAMES[:1]), ('STREAM %threads=one.TRIAD@onebox:virtual', NAMES[:1]),          # case and spaces do not count
    ('one', NAMES[:1]), ('stream.copy', NAMES[3:4]), ('gflops', NAMES[4:5]), ('stream.triad@onebox:physical', NAMES[2:3]),
    ('hpcc.hpl', NAMES[5:6]), ('star_triad', NAMES[6:7]), ('pairs.worst', NAMES[7:8]),      # a whole word before a piece of one
    ('stream.triad', NAMES[:3]), ('hpl', NAMES[4:6]), ('virt', NAMES[:2] + NAMES[3:]),
    ('triad.stream', []), ('nothing', []), ('@', []), ('', []), ('.*', []),
])
def test_a_part_names_the_cells_that_have_its_words(wanted, names):
    assert show.fitting(wanted, NAMES) == names


@pytest.mark.usefixtures('red_at_once')
def test_everything_of_a_slow_cell(stored, tmp_path):
    folder = tmp_path / 'stage of Toy'
    for night in range(9):
        stored.add(case(99.0 + night % 3, refs=BAND, parity={'node': {'node': 'node01', 'kernel': '6.1.187'}}))
    stored.add(case(84.0, refs=BAND, result='fail', fail_phase='performance', stagedir=str(folder),
                    parity={'node': {'node': 'node01', 'kernel': '6.1.192'}}))
    storing.output(folder, 9, out='first\n\nWR00 84.0 Gflop/s\n', err='a \x1b[31mred\x07 warning\n')
    said = shown('toy.hpl')
    assert said.returncode == 0, said.stderr
    for part in ('REGRESSED   84 Gflop/s   -16.0 % of the reference', f'10, {storing.day(0)} .. {storing.day(9)}', '95.0 .. 105.0 Gflop/s',
                 'node01 · job 17', str(folder), '  WR00 84.0 Gflop/s', r'  a \x1b[31mred\x07 warning',
                 f'kernel 6.1.187 -> 6.1.192 on node01 since {storing.day(9)}', 'where    partition default (slow on node01; no other node was measured)',
                 "rerun: ci/nightly --system local -n '^Toy$'"):
        assert part in said.stdout, f'{part}\n{said.stdout}'
    assert said.stdout.startswith('Toy.hpl@local:default\n') and re.search('nights   [▁-█]{9}▁   84.0 .. 101.0 Gflop/s', said.stdout)


def test_a_name_that_fits_several_cells_or_none_and_a_session_that_is_not_there(stored):
    assert shown('toy').returncode == 3
    stored.add(case(100.0))
    for words, said in ((['toy'], 'Toy.hpl@local:default\n  Toy.latency@local:default'), (['Toy.latecny'], 'the nearest: Toy.latency@local:default'),
                        (['toy', '--session', 'zz'], "no session starts with 'zz'")):
        done = shown(*words)
        assert done.returncode == 2 and said in done.stderr and 'Traceback' not in done.stderr


def test_a_cell_is_that_of_the_newest_session_that_planned_it_or_of_its_last_figure(stored):
    stored.add(case(7.0, 'Rare'))
    stored.add(case(100.0), case(7.0, 'Other'))
    stored.add(case(101.0))
    stored.add(case(55.0), parity_rerun_of='00000002-0')     # it only confirms another session
    verdict, _, cell = show.find('other.hpl')
    assert (verdict.session.uuid, cell.value) == ('00000001-0', 7.0) and show.find('toy.hpl')[2].value == 101.0
    for _ in range(show.SESSIONS):
        stored.add(case(101.0))
    assert show.find('rare.hpl')[0].session.uuid == '00000000-0'
    assert 'Rare.hpl@local:default' in show.cells_like('rare') and 'Toy.hpl@local:default' in show.cells_like('toy')
    assert 'Rare.hpl@local:default' not in show.cells_like('toy') and not show.fitting('nothing', show.cells_like('nothing'))


def test_reruns_stand_beside_their_night_in_json_too(stored):
    stored.add(case(100.0), case(102.0))
    stored.add(case(97.0, job_nodelist=['node02']), parity_rerun_of='00000000-0')
    assert 'runs     100.0 102.0 Gflop/s; again: 97.0 on node02' in shown('toy.hpl').stdout
    told = json.loads(process('show', 'toy.hpl', '--json').stdout)
    night, = told['nights']
    assert (night['value'], night['runs'], night['reruns']) == (101.0, [100.0, 102.0], [[97.0, 'node02']])
    assert told['name'] == 'Toy.hpl@local:default' and told['cell']['verdict'] == 'unreferenced' and told['attribution']['changes'] == []


@pytest.mark.parametrize('confirms, said', [(False, 'of another run'), (True, 'the output is of the run that confirms this one (')])
def test_an_output_of_a_later_session_is_shown_only_where_that_confirms_it(stored, tmp_path, confirms, said):
    folder = storing.output(tmp_path / 'out', 1, out='of the later session')
    night = stored.add(case(100.0, outputdir=folder))
    stored.add(case(50.0, outputdir=folder), **({'parity_rerun_of': night} if confirms else {}))
    told = shown('toy.hpl', '--session', night).stdout
    assert said in told and ('  of the later session' in told) == confirms and ('50' in told.split('output')[0]) == confirms
    assert '  of the later session' in shown('toy.hpl').stdout


def test_the_output_of_a_rerun_within_the_minute_is_not_shown_as_the_nights(stored, tmp_path):
    folder = storing.output(tmp_path / 'out', 0, out='of the rerun')
    night = stored.add(case(100.0, outputdir=folder), time_end_unix=start(0) + 10)
    stored.add(case(50.0, outputdir=folder), parity_rerun_of=night, time_start_unix=start(0) + 15, time_end_unix=start(0) + 55)
    assert 'the output is of the run that confirms this one (' in shown('toy.hpl').stdout


def test_environments_are_told_apart_where_a_case_has_several_and_a_cell_without_one_has_no_line_that_reruns_it(stored):
    stored.add(case(100.0), case(90.0, environ='spack'), plan=[made.planned(), made.planned(environ='spack'), made.planned('Later', environ='', needs=['osu'])])
    said = shown('toy.hpl+spack').stdout
    assert said.startswith('Toy.hpl@local:default+spack\n') and "-p '^spack$'" in said
    assert shown('toy.hpl').returncode == 2
    said = shown('later.hpl').stdout
    assert 'SKIPPED   no environment offers osu' in said and 'rerun:' not in said and 'no figure is stored' in said


@pytest.mark.parametrize('text, expected', [
    ('x' * 500, 'x' * 159 + '…'), ('\x9b2J\x1b]0;title\x07', r'\x9b2J\x1b]0;title\x07'), ('a\rb\x0bc', r'a\x0db\x0bc'),
    ('half \udcff', r'half \ufffd'), ('a\tb', 'a       b'), ('right \u202e left', r'right \u202e left'),
])
def test_output_commands_no_terminal(tmp_path, text, expected):
    with open(tmp_path / 'out', 'wb') as file:
        file.truncate(1 << 40)                                          # only the end is read
        file.seek(0, 2)
        file.write(f'\nfirst\n{text}\n\n  \n'.encode(errors='surrogateescape'))
    assert show.tail(tmp_path / 'out', 2) == ['first', expected]


def test_a_sparkline_draws_noise_level_and_a_drop_low():
    assert len(set(show.sparkline([100.0, 100.5, 99.5, 100.2]))) <= 3
    assert show.sparkline([100, 100, 80]) == '██▁' and show.sparkline([0.0, 0.0]) == '▄▄' and show.sparkline([100.0, 100.0], 50.0, 150.0) == '▅▅'


def test_the_line_selects_that_very_case_and_no_other():
    names = ['Hpl', 'HplLarge', 'MyHpl', 'Fileset %mode=read %bytes=1', 'Fileset %mode=read %bytes=10', 'Odd %library=a.b+c', 'Odd %library=axb+c',
             'Odd %where=$HOME (x|y)', "Odd %quote='; rm -rf ~", 'Odd %a=b@1']
    lines = [show.rerun_line(name, 'local', '', '', 'quick', 'reframe -r') for name in names]
    selected = [have_any_name(shlex.split(line)[-1:]) for line in lines]       # ReFrame's own rule
    cases = [SimpleNamespace(check=SimpleNamespace(display_name=name, hashcode='x', variant_num=0)) for name in names]
    assert [[case.check.display_name for case in cases if fits(case)] for fits in selected] == [[name] for name in names]
    script = ''.join(f'printf "%s\\n" {line}\n' for line in lines)
    assert subprocess.run(['bash', '-c', script], capture_output=True, text=True).stdout.splitlines() == shlex.split(' '.join(lines))


@pytest.mark.parametrize('cmdline, nodes, rest', [
    ('reframe -c checks -r -S size=nightly --system local -n X', [], '-S size=nightly'),
    ('reframe -r --setvar=size=nightly -J qos=low', [], '-S size=nightly -J qos=low'),
    ('reframe --mode nightly -r --repeat 3', [], '--mode nightly'), ('reframe -r -Ssize=nightly', [], '-S size=nightly'),
    ('reframe -r', [], '-S size=nightly'),                                # said by other means
    ('reframe -r --mode m -J nodelist=n9', [], '--mode m -J nodelist=n9'),
    ('reframe -r --mode m -J nodelist=n9 -J exclude=n1 -J w=n9 -J qos=low -J wckey=x', ['n1', 'n2'],      # not the nodes that the session chose
     '--mode m -J qos=low -J wckey=x -J nodelist=n1,n2'),
])
def test_the_line_keeps_what_made_the_case_what_it_is(cmdline, nodes, rest):
    assert show.rerun_line('Hpl', 'onebox', 'virtual', 'spack', 'nightly', cmdline, nodes) \
        == f"ci/nightly --system onebox:virtual -p '^spack$' -n '^Hpl$' {rest}"


@pytest.mark.parametrize('system, partition, named', [('example-slurm', 'cpu', True), ('example-pbs', 'cpu', True), ('local', 'default', False)])
def test_nodes_are_named_where_a_scheduler_takes_them(stored, system, partition, named):
    where = {'system': system, 'partition': partition}
    stored.add(case(100.0, **where), plan=[{**made.planned(), **where}], system=system)
    assert ('-J nodelist=node01' in shown('toy.hpl').stdout) == named


@pytest.mark.usefixtures('red_at_once')
def test_the_verdict_on_an_older_session_names_it_in_the_next_command(stored):
    old = stored.add(case(50.0, refs=BAND))
    stored.add(case(100.0, refs=BAND))
    following = judge.newest(old).next
    assert following == f'parity show Toy.hpl@local:default --session {old[:8]}'
    assert 'REGRESSED' in shown(*shlex.split(following)[2:]).stdout
