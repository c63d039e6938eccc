"""Recorded outputs through the network checks' own parse()."""

from __future__ import annotations

import pytest

from parity.check.reader import Incomplete, Wrong
from replay import Replay, check, recorded, room

imb = room('imb')
osu = room('osu')
pingpong = room('pingpong')

OSU = {'OsuLatency': ('latency', 'allreduce', 'alltoall', 'bcast'), 'OsuBandwidth': ('bw', 'bibw', 'mbw_mr'),
       'OsuBarrier': ('barrier',)}


def osu_case(name: str, benchmark: str) -> Replay:
    cls = check('osu', name)
    case = Replay(cls, {}, benchmark=benchmark, largest=cls.largest)
    case.judged = lambda curve: cls.judged(case, curve)
    return case


@pytest.mark.parametrize('name, benchmark', [(name, b) for name, benchmarks in OSU.items() for b in benchmarks])
def test_osu_gives_every_metric_it_declares_and_keeps_the_curve(name, benchmark):
    text = (recorded('osu') / f'{benchmark}-np2.txt').read_text()
    case = osu_case(name, benchmark)
    values = case.replay(text)
    assert all(value > 0 for value in values.values())
    assert case.facts['curve'] == osu.read(text, case.largest)[0]


def test_osu_another_benchmark_than_asked_is_wrong():
    with pytest.raises(Wrong, match='ran bw, asked for bibw'):
        osu_case('OsuBandwidth', 'bibw').replay((recorded('osu') / 'bw-np2.txt').read_text())


def test_osu_a_curve_that_ends_early_is_incomplete():
    lines = (recorded('osu') / 'latency-np2.txt').read_text().splitlines(keepends=True)
    with pytest.raises(Incomplete):
        osu_case('OsuLatency', 'latency').replay(''.join(lines[:-1]))


def test_imb_gives_every_metric_it_declares():
    text = (recorded('imb') / 'pingpong-16MiB-np2.txt').read_text()
    case = Replay(check('imb', 'Imb'), {}, benchmark='PingPong', num_tasks=2)
    values = case.replay(text)
    curve = imb.read(text, 1 << 24)[0]
    assert values['bandwidth_16MiB'] == curve[f'pingpong_bandwidth_{1 << 24}'] and case.facts['curve'] == curve
    for benchmark, tasks in (('Sendrecv', 2), ('PingPong', 4)):
        with pytest.raises(Wrong, match=f'ran PingPong of 2 processes, asked for {benchmark} of {tasks}'):
            Replay(check('imb', 'Imb'), {}, benchmark=benchmark, num_tasks=tasks).replay(text)


def test_pairs_name_the_slowest():
    cls = check('osu', 'PairsLatency')
    case = Replay(cls, {}, bytes=cls.bytes)
    values = case.replay((recorded('osu') / 'pairs' / 'latency-8B-4nodes.txt').read_text())
    assert case.facts['slowest'] == 'n1 n2' and case.facts['pairs']['n1 n2'] == values['worst']
    assert len(case.facts['pairs']) == 6


def test_pingpong_gives_every_metric_it_declares_and_keeps_the_curve():
    text = (recorded('pingpong') / 'np2-1MiB.txt').read_text()
    case = Replay(check('pingpong', 'Pingpong'), {})
    values = case.replay(text)
    curve = pingpong.read(text, 1 << 20)[0]
    assert values == {'latency_8B': curve['latency_8'], 'latency_8KiB': curve['latency_8192'], 'bandwidth_1MiB': curve['bandwidth_1048576']}
    assert case.facts['curve'] == curve
    with pytest.raises(Incomplete):
        case.replay(text[:-60])
