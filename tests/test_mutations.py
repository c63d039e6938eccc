"""Every code, every kind of damage: an output is refused, or it means what it meant.

A code without an entry in RULES must give equal figures and equal facts. A rule names what its program prints
once, so that nothing contradicts it, and how far a figure may move below the digits printed.
"""

from __future__ import annotations

import functools
import inspect
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mutations
import rooms
from conftest import TOP
from mutations import mutated
from parity.base import codes
from parity.check.reader import Incomplete, room
from rooms import outcome

KINDS = {**mutations.KINDS, 'changed_digit': mutations.changed_digit}
#: Kinds that alter a digit or a figure and leave the form as it is.
FIGURE = ('scaled_number', 'changed_digit')


#: What `parity parse` does not offer: the figures of the programs that run another code more than once.
PROGRAMS = {
    'pairs': (lambda text: (room(codes.named('osu')).read_pairs(text, 8).figures, True), 'network/osu/outputs/pairs/latency-8B-4nodes.txt'),
    'tcp': (lambda text: (room(codes.named('iperf3')).read_ends(text, ['tcp:1', 'tcp:4']), True), 'network/iperf3/outputs/tcp/within-tcp.txt')}
#: Refused without a line: a JSON document that is cut, a block without its end, a program's runs.
NO_LINE = ('fio', 'iperf3', *PROGRAMS)


@functools.cache
def recorded(code: str) -> dict[str, str]:
    """The outputs of this code that are whole."""
    if code in PROGRAMS:
        return {code: (TOP / 'checks' / PROGRAMS[code][1]).read_text()}
    return {name: text for name, text in rooms.texts(codes.named(code)).items() if name in rooms.good(codes.named(code))}


@functools.cache
def accepted(code: str, name: str):
    """(read, (figures, facts)) of a recorded output; ``read`` knows which message sizes were asked for."""
    read = PROGRAMS[code][0] if code in PROGRAMS else rooms.reader(codes.named(code), name)
    text = recorded(code)[name]
    if 'min_size' in inspect.signature(read).parameters and (first := read(text)[1].get('first_size')):
        read = functools.partial(read, min_size=first)
    return read, read(text)


# ---- what may differ

def same(was, now, *alone, **near):
    """All is equal but the facts that stand alone, and the figures as pytest.approx is told."""
    without = [({name: value for name, value in facts.items() if name not in alone} if isinstance(facts, dict) else facts)
               for facts in (was[1], now[1])]
    assert without[1] == without[0]
    assert now[0] == (pytest.approx(was[0], **near) if near else was[0])


def stated(code: str) -> dict:
    """What the code's expected.yaml says of mutations."""
    return {} if code in PROGRAMS else rooms.of_code(codes.named(code)).get('mutations', {})


def by_statement(said, kind, was, now, _name):
    """What expected.yaml says: facts that stand alone, and the share by which a figure may move unseen."""
    if kind not in FIGURE or 'near' not in said:
        return same(was, now, *said.get('alone', ()))
    assert now[0] == pytest.approx(was[0], rel=said['near']) and now[1].keys() == was[1].keys()


def npb(kind, was, now, name):
    """The version is printed once; fewer active processes fail the check."""
    if kind != 'changed_digit':
        return same(was, now)
    for metric, bound in {'mops_total': 0.05, 'mops_per_process': 0.0125, 'seconds': 0.01}.items():
        assert now[0][metric] == pytest.approx(was[0][metric], abs=bound * 1.001, rel=0)
    same((None, was[1]), (None, now[1]), 'version', 'active_processes')


def hpl(kind, was, now, name):
    """Nothing tells which residual it was. The time has two decimals: 0.55 s is uncertain by 1 %.

    The version is printed once; variant and grid are what the check compares.
    """
    assert 0 <= now[0]['residual'] < 16 and now[1]['tests'] == was[1]['tests']
    moves = kind in ('scaled_number', 'moved_lines', 'several', 'changed_digit', 'nonsense_for_a_number')
    old, new = ({**figures, 'residual': 0} if moves else figures for figures in (was[0], now[0]))
    if kind == 'changed_digit':
        assert new.pop('gflops') == pytest.approx(old.pop('gflops'), rel=0.02)
        assert new.pop('seconds') == pytest.approx(old.pop('seconds'), abs=0.011)
    assert new == old


def stream(kind, was, now, name):
    """A time of 0.007677 s is uncertain by 0.007 %: so much a rate or the array size may be altered."""
    if kind == 'scaled_number':         # an average or longest time may move between its neighbours
        return same((was[0], None), (now[0], None))
    if kind != 'changed_digit':
        return same(was, now, 'version', 'repetitions')
    assert now[0] == pytest.approx(was[0], rel=2e-4) and now[1]['threads'] == was[1]['threads']
    old, new = ({name: value for name, value in facts.items() if name not in ('version', 'repetitions')} for facts in (was[1], now[1]))
    assert new == pytest.approx(old, rel=2e-4)


def hpcc(kind, was, now, name):
    """Worst here: 0.000242 ms, whose last digit is 0.4 %, half of it unseen. The residual stands alone."""
    assert 0 <= now[0]['hpl_residual'] < 16
    if kind in FIGURE:
        was, now = ((figures | {'hpl_residual': 1}, facts) for figures, facts in (was, now))
    same(was, now, **({'rel': 0.003} if kind in FIGURE else {}))


def imb(kind, was, now, name):
    """A time of 0.36 us is uncertain by 1.4 %, and so is the bandwidth that it makes; that of 0 B makes none.
    The reader allows 1e-5 beyond rounding, before and after."""
    alone = ('version', 'processes')                # the check compares the processes
    if kind not in FIGURE:
        return same(was, now, *alone)
    same((None, was[1]), (None, now[1]), *alone)
    assert list(now[0]) == list(was[0])
    for figure in (figure for figure in was[0] if now[0][figure] != was[0][figure] and not figure.endswith('time_0')):
        time = was[0][re.sub('_bandwidth_', '_time_', figure)]
        rate = was[0][re.sub('_time_', '_bandwidth_', figure)]
        assert now[0][figure] == pytest.approx(was[0][figure], rel=2e-5 + 0.0102 / time + 0.0101 / max(rate, 0.005), abs=0.0101)


def osu(kind, was, now, name):
    """One latency or bandwidth of a table without other columns may be altered: nothing else tells of it."""
    if kind not in FIGURE:
        return same(was, now, *OSU_ALONE)
    altered = [metric for metric in was[0] if now[0][metric] != was[0][metric]]
    assert list(now[0]) == list(was[0]) and len(altered) <= 1
    same((None, was[1]), (None, now[1]), *OSU_ALONE)
    if was[1]['benchmark'] == 'mbw_mr' and altered:     # as far as the digits of both figures let it
        size = int(altered[0].rpartition('_')[2])
        assert abs(now[0][f'mbw_mr_{size}'] - now[0][f'message_rate_{size}'] * size / 1e6) <= 0.0051 + size * 0.0051e-6


OSU_ALONE = ('version', 'pairs', 'window')


def mpip(kind, was, now, name):
    """A share of 0.01 % may be 0.02 %; a call's time is held by the rank's, rounded to 1 ms; the command is printed once."""
    if kind not in FIGURE:
        return same(was, now, 'command')
    ranks = len(was[1]['ranks'])
    app = sum(rank['app_seconds'] for rank in was[1]['ranks'])
    for metric, value in was[0].items():                # 1 ms of a short run is a large share of it
        if metric != 'imbalance':
            assert now[0][metric] == pytest.approx(value, abs=0.011 + 0.2 / app if metric == 'mpi_share' else 0.0012 * (ranks + 1))
    assert all(type(now[1][alone]) is type(was[1][alone]) for alone in ('version', 'command', 'nodes'))
    assert now[1]['tasks'] == was[1]['tasks'] and len(now[1]['ranks']) == ranks
    before, after = ({call['call']: call for call in result[1]['calls']} for result in (was, now))
    assert before.keys() == after.keys()
    rounded = 1e-3 + 0.6e-6 * sum(call['count'] for call in before.values())
    for call, old in before.items():
        assert all(after[call][what] == old[what] for what in ('count', 'bytes', 'io_bytes', 'rma_bytes'))
        for what in ('seconds', 'max_seconds', 'mean_seconds'):
            assert after[call][what] == pytest.approx(old[what], abs=rounded)


def mdtest(kind, was, now, name):
    """Most options stand in the command line alone.

    Three rates by four figures: where two rates are close, they may move apart before the deviation does.
    """
    alone = ['command', 'version', 'write_bytes', 'read_bytes', 'stride']
    if kind in ('cut', 'several'):      # a part of the command line may be cut out
        alone += ['unique', 'verified_read', 'api']
    if kind != 'changed_digit':
        return same(was, now, *alone)
    for metric, value in was[0].items():
        phase = re.sub('_(max|min)$', '', metric)
        spread = was[0].get(f'{phase}_max', value) - was[0].get(f'{phase}_min', value)
        near = 0.0061 + (math.sqrt(0.02 * spread) if was[1]['iterations'] > 2 else 0)
        assert now[0][metric] == pytest.approx(value, abs=near, rel=0)
    same((None, was[1]), (None, now[1]), *alone)


def ior(kind, was, now, name):
    """A last digit may change, and of the transfers/s what that is in transfers."""
    alone = ['command', 'version']
    if kind in ('cut', 'several'):      # these stand in the command line alone
        alone += ['fsync', 'direct']
    if kind != 'changed_digit':
        return same(was, now, *alone)
    for metric, value in was[0].items():
        least = 1e-5 if metric.endswith('seconds') else 0.01
        assert now[0][metric] == pytest.approx(value, abs=1.01 * least * (6 if metric.endswith('iops') else 1), rel=0)
    same((None, was[1]), (None, now[1]), *alone)


def fileset(kind, was, now, name):
    """Host and folders stand above the checksum, since they differ by site."""
    same(was, now, 'host', 'source', 'source device', 'destination', 'destination device')


def kernel(kind, was, now, name):
    """How it was compiled stands above the checksum."""
    same(was, now, 'compiler', 'flags')


def pingpong(kind, was, now, name):
    """A table that begins later is what -m makes."""
    first = now[1]['first_size']
    old = {figure: value for figure, value in was[0].items() if int(figure.rpartition('_')[2]) >= first}
    assert list(now[0]) == list(old) and now[1]['last_size'] == was[1]['last_size']
    if kind not in FIGURE:
        assert now[0] == old
        return
    assert first == was[1]['first_size']
    for figure, value in old.items():
        rate = old[figure.replace('latency', 'bandwidth')]
        assert now[0][figure] == pytest.approx(value, rel=0.0101 / rate + 1.1e-5)


def iperf3(kind, was, now, name):
    """The kernel's times and windows stand alone."""
    assert list(now[0]) == list(was[0])
    for metric, value in was[0].items():
        if metric.startswith('rtt') or metric == 'window':
            assert now[0]['rtt_min'] <= now[0]['rtt_mean'] <= now[0]['rtt_max']
        else:
            assert now[0][metric] == pytest.approx(value, rel=3e-6, abs=1e-6)
    if kind != 'changed_digit':
        same((None, was[1]), (None, now[1]), 'version', 'threading', 'seconds', 'local', 'remote', 'cpu_local', 'cpu_remote',
             'congestion', 'block')


def fio(kind, was, now, name):
    """A latency stands alone, but for those below and above it; so do version, names and options that nothing repeats.

    A group that is cut out whole, or the last ones, leave a whole document: the check knows which it asked for.
    """
    old, new = list(was[0].values()), list(now[0].values())
    groups = [old[at:at + FIO_GROUP] for at in range(0, len(old), FIO_GROUP)]
    assert len(new) % FIO_GROUP == 0 and (len(new) == len(old) or kind in ('cut', 'dropped_lines', 'moved_lines', 'several'))
    for at in range(0, len(new), FIO_GROUP):
        rate, iops, _, *percentiles = new[at:at + FIO_GROUP]
        assert any((rate, iops) == pytest.approx(group[:2], rel=2e-5) for group in groups)
        assert percentiles == sorted(percentiles)


FIO_GROUP = len(['rate', 'iops', 'mean', 'p50', 'p95', 'p99', 'p999'])


def paired(kind, was, now, name):
    """A latency stands alone: one altered within its digits cannot be noticed."""
    if kind not in FIGURE:
        same(was, now)


RULES = {'npb': npb, 'hpl': hpl, 'stream': stream, 'hpcc': hpcc, 'imb': imb, 'osu': osu, 'mpip': mpip, 'mdtest': mdtest, 'ior': ior,
         'fileset': fileset, 'filecopy': fileset, 'ops': kernel, 'blocks': kernel, 'pingpong': pingpong, 'iperf3': iperf3, 'fio': fio,
         'pairs': paired}
EVERY = sorted({*(code.room for code in rooms.EVERY), *PROGRAMS})


# ---- the tests

def test_every_rule_is_of_a_code():
    assert {*RULES} <= set(EVERY)


@pytest.mark.parametrize('kind', sorted(KINDS))
@pytest.mark.parametrize('code', EVERY)
@mutated
@given(data=st.data())
def test_a_mutated_output_is_refused_or_means_the_same(code, kind, data):
    name = data.draw(st.sampled_from(sorted(recorded(code))))
    read, was = accepted(code, name)
    now = outcome(read, KINDS[kind](data.draw, recorded(code)[name]))
    if now:
        RULES.get(code, functools.partial(by_statement, stated(code)))(kind, was, now, name)


@pytest.mark.parametrize('code', EVERY)
@mutated
@given(data=st.data())
def test_a_truncated_output_is_incomplete(code, data):
    name = data.draw(st.sampled_from(sorted(recorded(code))))
    read, _ = accepted(code, name)
    text = recorded(code)[name].rstrip()
    if ends := stated(code).get('ends'):
        last = max(re.finditer(ends, text), key=lambda found: found.end())
        text = text[:last.end()]
    with pytest.raises(Incomplete, match=None if code in NO_LINE else r'^line \d+: '):
        read(text[:data.draw(st.integers(0, len(text) - 1))])
