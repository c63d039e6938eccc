"""The field trial (python -m dev.trial): its list, its rows, and its score of made nights."""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import Namespace

import numpy as np
import pytest

from dev.trial import faults, noise, rows, score, sealed
from dev.trial.__main__ import _try
from dev.trial.rows import Row, Turn
from dev.trial.sealed import Entry, Noise
from dev.trial.site import shifted, start
from parity.base import paths
from parity.base.errors import UsageError

NODES = 'p1', 'p2', 'p3', 'p4'
NOISE = {'Hpl.gflops': Noise(50.0, 0.01, 0.05), 'Fio.rate_1MiB_1': Noise(900.0, 0.05, 0.2), 'Pairs.bandwidth_1MiB': Noise(1200.0, 0.03, 0.12)}


def entry(kind: str = 'CpuShare', node: str = 'p2', first: int = 20, last: int = 27, size: float = 0.2) -> Entry:
    return Entry(kind, node, size, 0.0, list(range(first, last + 1)))


def figures(nights: int, lost: dict[str, tuple[range, float]] | None = None, sd: float = 0.005) -> list[Row]:
    """Figures of HPL and of STREAM on four nodes; ``lost``: what a node loses of HPL, and in which nights."""
    rng, made = np.random.default_rng(1), []
    for night in range(nights):
        for node in NODES:
            for check, metric, usual in (('Hpl', 'gflops', 50.0), ('Stream%threads=one', 'triad', 10.0)):
                loss = next((share for at, share in [(lost or {}).get(node, (range(0), 0.0))] if night in at and check == 'Hpl'), 0.0)
                value = usual * (1 - loss) * np.exp(sd * rng.standard_normal())
                made.append(Row(f'{check}%nid={node}.{metric}', rows.day(night), 'run', 0, float(value), 'higher',
                                f'{check.partition("%")[0]}.{metric}', node, 'x', ''))
    return made


def said(nights: int, *turns: tuple[int, str, int, dict]) -> list[Turn]:
    """What was said: in each night its row, and ``turns``: night, event, number and other fields."""
    made = [Turn(rows.day(night), 'night') for night in range(nights)]
    return made + [Turn(rows.day(night), event, number, **{'title': f'incident {number}', **other}) for night, event, number, other in turns]


CELLS = 'Hpl%part=trial:physical%nid=p2.gflops@trial:physical'
GOOD = {'place': 'node', 'names': 'p2', 'part': 'memory-bound codes', 'loss': 0.2, 'cells': CELLS, 'changes': 'throttled no -> yes on p2'}


def test_a_fault_is_told_placed_named_and_over(tmp_path):
    one, = score.of_parity([entry()], said(40, (21, 'new', 1, GOOD), (29, 'over', 1, {})), figures(40, {'p2': (range(20, 28), 0.2)}), tmp_path).faults
    assert (one.after, one.place, one.part, one.change, one.size, one.one, one.over) == (2, True, True, True, True, True, True)


def test_a_wrong_place_a_second_incident_and_a_late_end_are_counted(tmp_path):
    wrong = {**GOOD, 'names': 'p3', 'part': 'storage', 'changes': '', 'loss': 0.6}
    turns = (25, 'new', 1, wrong), (26, 'new', 2, GOOD), (35, 'over', 1, {}), (29, 'over', 2, {})
    one, = score.of_parity([entry()], said(40, *turns), figures(40, {'p2': (range(20, 28), 0.2)}), tmp_path).faults
    assert (one.after, one.place, one.part, one.size, one.one, one.over) == (6, False, False, False, False, False)


def test_a_fault_everywhere_is_placed_by_an_incident_of_several_nodes_and_not_by_one_of_a_node(tmp_path):
    answer = entry('WrongAnswer', '', 20, 22, 0.0)
    cells = [f'Npb%benchmark=cg%part=trial:physical%nid={node}.mops_total@trial:physical' for node in NODES]
    for named, right in ((cells, True), (cells[:1], False)):
        turn = 20, 'new', 1, {'cells': ' '.join(named), 'place': '', 'names': ''}
        one, = score.of_parity([answer], said(30, turn), figures(30), tmp_path).faults
        assert (one.after, one.place) == (1, right), named


def test_a_fault_in_a_figure_that_scatters_is_as_large_as_shows():
    noisy = {name: Noise(100.0, 0.15, 0.79) for name in NOISE}
    sizes = [one.size for seed in range(8) for one in sealed.drawn(seed, noisy, {}) if one.kind in ('SlowLink', 'SlowDisk')]
    assert sizes and all(0.79 <= size <= 0.9 for size in sizes), sizes


def test_an_incident_of_nothing_is_a_false_alarm_and_a_fault_that_nobody_tells_a_miss(tmp_path):
    other = {**GOOD, 'cells': CELLS.replace('p2', 'p4'), 'names': 'p4'}
    of = score.of_parity([entry()], said(60, (10, 'new', 1, GOOD), (22, 'new', 2, other)), figures(60), tmp_path)
    assert [told.after for told in of.faults] == [0] and of.within(7) == 0
    assert len(of.false) == 2 and of.false_a_month == 1.0


def test_of_two_faults_at_once_each_has_its_incident(tmp_path):
    both = [entry('CpuShare', 'p2'), entry('SlowDisk', 'p3')]
    disk = {**GOOD, 'names': 'p3', 'part': 'storage', 'cells': 'Fio%access=sequential%nid=p3.rate_1MiB_1@trial:physical'}
    of = score.of_parity(both, said(40, (21, 'new', 1, GOOD), (22, 'new', 2, disk)), figures(40), tmp_path)
    assert [told.after for told in of.faults] == [2, 3] and all(told.one for told in of.faults) and not of.false


def test_plain_rules_tell_a_drop_and_a_figure_that_is_gone(tmp_path):
    lost = figures(40, {'p2': (range(20, 28), 0.2)})
    for of in score.of_rules([entry()], lost, tmp_path):
        assert 1 <= of.faults[0].after <= 3, of.rule
        assert not of.false, of.rule
    gone = [row for row in figures(40) if not (row.series.startswith('Hpl') and row.night == rows.day(25))]
    for of in score.of_rules([entry('ModuleGone', '', 25, 25, 0.0)], gone, tmp_path):
        assert of.faults[0].after == 1, of.rule


def test_references_that_nodes_share_are_false_on_a_slower_node(tmp_path):
    slower = [row if 'nid=p4' not in row.series else Row(**{**vars(row), 'value': 0.93 * row.value}) for row in figures(40)]
    false = {of.rule: bool(of.false) for of in score.of_rules([], slower, tmp_path)}
    assert false == {'fixed -5 %': False, "ReFrame's references at -5 %": True, 'median of three': False}


def test_the_tables_put_misses_first(tmp_path):
    faulty = [entry(), entry('SlowDisk', 'p3', 30, 36)]
    of = score.of_parity(faulty, said(60, (21, 'new', 1, GOOD)), figures(60), tmp_path)
    lines = list(score.lines([of], 3.2))
    assert lines[2].startswith('| parity | 0 of 2 | 1 of 2 | 1 of 2 |')
    table = [line for line in lines if line.startswith(('| CpuShare', '| SlowDisk'))]
    assert [line.split(' |')[2].strip() for line in table] == ['never', '2']


def test_the_noise_says_from_which_size_a_slowdown_shows():
    known = noise.measured(figures(30, sd=0.01))
    assert known.keys() == {'Hpl.gflops', 'Stream.triad'}
    one = known['Hpl.gflops']
    assert one.usual == pytest.approx(50, rel=0.01) and one.scatter == pytest.approx(0.01, rel=0.4) and 0.02 < one.least < 0.08
    assert len(noise.lines(known)) == 4


def test_too_few_nights_have_no_noise():
    with pytest.raises(UsageError, match='5 nights'):
        noise.measured(figures(5))


@pytest.mark.parametrize('seed', range(20))
def test_the_list_has_twelve_faults_with_room_between_them(seed):
    entries = sealed.drawn(seed, NOISE, {'Latency': 'no netem', 'Loss': 'no netem'})
    assert len(entries) == sealed.COUNT == len({one.kind for one in entries})
    assert min(one.first for one in entries) == sealed.QUIET
    begins = sorted({(one.first, one.end) for one in entries})
    assert len(begins) == sealed.COUNT - 1, 'two begin at once'
    assert all(later - end >= sealed.ROOM[0] for (_, end), (later, _) in zip(begins, begins[1:], strict=False))
    assert sum(one.spells > 1 for one in entries) == 1
    assert all(one.size >= 0.1 for one in entries if one.kind in faults.SIZED)
    assert all(bool(one.node) == (one.kind in faults.OF_A_NODE) for one in entries)
    assert sealed.drawn(seed, NOISE, {'Latency': 'no netem', 'Loss': 'no netem'}) == entries


def test_a_list_takes_about_two_hundred_nights():
    assert sealed.nights([]) == sealed.QUIET
    for seed in range(1, 11):
        entries = sealed.drawn(seed, NOISE, {'Latency': 'no netem', 'Loss': 'no netem'})
        coming, = (one for one in entries if one.spells > 1)
        assert sealed.nights(entries) <= 215 and sealed.nights(entries) >= coming.end + score.OVER_SPELLS
        assert all(sealed.nights(entries) >= one.end + score.OVER for one in entries)


def test_the_loss_of_a_fault_is_measured_by_nights_without_another(tmp_path):
    earlier = entry('SlowerNode', 'p2', 8, 14, 0.3)
    lost = {'p2': (range(8, 15), 0.3)}
    both = [row for row in figures(40, lost) if rows.number(row.night) < 20] + [
        row for row in figures(40, {'p2': (range(20, 28), 0.2)}) if rows.number(row.night) >= 20]
    told = said(40, (21, 'new', 1, {**GOOD, 'loss': 0.2}), (29, 'over', 1, {}))
    _, later = score.of_parity([earlier, entry()], told, both, tmp_path).faults
    assert later.size is True


def test_a_size_is_above_the_noise_of_its_figure():
    for seed in range(40):
        for one in sealed.drawn(seed, NOISE, {}):
            assert one.kind != 'SlowDisk' or (one.size >= 0.2 and one.base == 900.0)


def test_a_sealed_list_is_written_once_and_its_digest_is_that_of_the_file(tmp_path):
    entries = sealed.drawn(1, NOISE, {})
    digest = sealed.write(tmp_path / 'sealed.json', 1, entries)
    done = subprocess.run(['sha256sum', tmp_path / 'sealed.json'], capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == digest and sealed.read(tmp_path / 'sealed.json') == (1, entries)
    with pytest.raises(UsageError, match='is there already'):
        sealed.write(tmp_path / 'sealed.json', 1, entries)


def test_what_a_killed_night_left_is_cut(tmp_path):
    for night in range(3):
        rows.append(tmp_path / rows.NIGHTS, [row for row in figures(3) if row.night == rows.day(night)])
        rows.append(tmp_path / rows.TURNS, said(3, (night, 'new', night, GOOD))[3:] + [Turn(rows.day(night), 'night', exit_code=1)][:night < 2])
    with (tmp_path / rows.NIGHTS).open('a') as out:
        out.write('Hpl%nid=p1.gflops,2026-01-0')
    assert rows.cut(tmp_path) == 2
    assert {row.night for row in rows.nights(tmp_path)} == {rows.day(0), rows.day(1)} and len(rows.turns(tmp_path)) == 4
    assert rows.cut(tmp_path / 'none') == 0


def test_the_times_of_a_session_move_together():
    stored = {'session_info': {'time_start_unix': 1000.0, 'time_start': '19700101T001640+0000', 'version': '4'},
              'runs': [{'testcases': [{'job_submit_time': 1001.5, 'perfvalues': {'a:b:rate': [1000.0]}, 'parity': {'job': {'submitted_unix': 1001.5}}}]}]}
    moved = shifted(stored, start(0) - 1000)
    assert moved['session_info']['time_start_unix'] == start(0) and moved['session_info']['time_start'].startswith('2026')
    case = moved['runs'][0]['testcases'][0]
    assert case['job_submit_time'] == case['parity']['job']['submitted_unix'] == start(0) + 1.5
    assert case['perfvalues'] == {'a:b:rate': [1000.0]}, 'a figure is no time'


def test_programs_of_a_fault_come_and_go(tmp_path):
    for build in ('good', 'o1'):
        (tmp_path / 'programs' / build / 'bin').mkdir(parents=True)
        (tmp_path / 'programs' / build / 'bin' / 'stream_c.exe').write_text(build)
    (tmp_path / 'prefix' / 'bin').mkdir(parents=True)
    fault, program = faults.of('O1', tmp_path), tmp_path / 'prefix' / 'bin' / 'stream_c.exe'
    fault.take_out()
    assert program.read_text() == 'good'
    fault.put_in()
    assert program.read_text() == 'o1'
    gone = faults.of('ModuleGone', tmp_path)
    for _ in range(2):
        gone.put_in()
    assert not program.exists()
    for _ in range(2):
        gone.take_out()
    fault.take_out()
    assert program.read_text() == 'good'


def test_a_fault_that_is_tried_leaves_the_machine_its_huge_pages(tmp_path, monkeypatch):
    setting = tmp_path / 'enabled'
    setting.write_text('always [madvise] never\n')
    monkeypatch.setattr(faults, '_HUGE_PAGES', setting)
    _try(Namespace(kind='HugePages', folder=tmp_path, node='', size=0.0, base=0.0, seconds=0.0))
    assert setting.read_text() == 'madvise'


def command(*words: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, '-m', 'dev.trial', *words], capture_output=True, text=True, cwd=paths.root())


def test_the_command_scores_and_replay_reads_the_same_nights(tmp_path):
    lost = {'p2': (range(60, 68), 0.2)}
    rows.append(tmp_path / rows.NIGHTS, figures(90, lost))
    rows.append(tmp_path / rows.TURNS, said(90, (61, 'new', 1, GOOD), (69, 'over', 1, {})))
    sealed.write(tmp_path / 'sealed.json', 3, [entry('CpuShare', 'p2', 60, 67)])
    scored = command('score', '--folder', str(tmp_path))
    assert scored.returncode == 0, scored.stderr
    assert '| parity | 0 of 1 | 1 of 1 | 1 of 1 | 0.00 |' in scored.stdout and "ReFrame's references at -5 %" in scored.stdout
    replayed = subprocess.run([sys.executable, '-m', 'parity.cli', 'replay', str(tmp_path / rows.NIGHTS), '--json'], capture_output=True, text=True)
    incidents = json.loads(replayed.stdout)[0]['incidents']
    assert [each['series'][0]['name'] for each in incidents] == ['Hpl%nid=p2.gflops']


def test_a_seed_that_is_not_the_lists_and_nights_that_are_not_there_end_with_2(tmp_path):
    sealed.write(tmp_path / 'sealed.json', 3, [entry()])
    done = command('run', '--seed', '4', '--folder', str(tmp_path))
    assert done.returncode == 2 and 'has the seed 3' in done.stderr
    done = command('score', '--folder', str(tmp_path))
    assert done.returncode == 2 and 'no nights' in done.stderr and 'Traceback' not in done.stderr
