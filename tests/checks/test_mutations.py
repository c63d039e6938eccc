"""Every code, every kind of damage: an output is refused, or it means what it meant, but for what its expected.yaml states."""

from __future__ import annotations

import contextlib
import difflib
import functools
import inspect
import itertools
import re
import time

import pytest

import mutations
import rooms
from conftest import TOP
from parity.base import codes
from parity.measure.check.reader import Incomplete, room
from rooms import outcome

KINDS = {**mutations.KINDS, **{kind.__name__: kind for kind in (mutations.changed_digit, mutations.digit_doubled)}}
#: Kinds that alter a digit or a figure and leave the form as it is.
FIGURE = ('scaled_number', 'changed_digit', 'digit_doubled')
#: Kinds that may put one of several like figures in the place of another.
MOVES = ('moved_lines', 'several', 'nonsense_for_a_number', 'swap_numbers_of_like_rows', 'mixed_with_other')


def ends(text):
    """The figures of tcp.py by run, and its round trips."""
    found = room(codes.named('iperf3')).read_ends(text, ['tcp:1', 'tcp:4'])
    return {f'{run} {name}': value for by_run in (found.metrics, found.trips) for run, own in by_run.items() for name, value in own.items()}, found.facts


#: Programs that run another code more than once: the reader, a recorded output, what may differ (as in expected.yaml).
PROGRAMS = {
    'pairs': (lambda text: (room(codes.named('osu')).read_pairs(text, 8).figures, None), 'network/osu/outputs/pairs/latency-8B-4nodes.txt',
              {'free': ['.*'], 'unconfirmed': {'swap_numbers_of_like_rows': '.*'}}),
    'tcp': (ends, 'network/iperf3/outputs/tcp/within-tcp.txt', {})}
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


@functools.cache
def stated(code: str, *names: str) -> dict:
    """What the code's expected.yaml says of mutations, and of facts that stand alone in these outputs."""
    if code in PROGRAMS:
        return PROGRAMS[code][2]
    said = rooms.of_code(codes.named(code))
    alone = [*said['mutations'].get('alone', ()), *(fact for name in names for fact in said['outputs'][name].get('alone', ()))]
    return {**said['mutations'], 'alone': alone}


def like(said: dict, kind: str, name: str) -> tuple:
    """What `unconfirmed` calls a figure or fact by: its pattern and the groups of that; () if outputs confirm it."""
    patterns = said.get('unconfirmed', {}).get(kind, [])
    matches = ((pattern, re.fullmatch(pattern, str(name))) for pattern in ([patterns] if isinstance(patterns, str) else patterns))
    return next(((pattern, match.groups()) for pattern, match in matches if match), ())


def same(said: dict, kind: str, was, now, *others) -> None:
    """All is equal, but for facts and figures that stand alone, figures within the digits printed, and what no program
    can confirm after this kind of damage: such a figure is one of those called alike, of ``was`` or ``others``."""
    alone = {'note', *said.get('alone', ())}        # a note tells of a version, which stands alone
    if isinstance(was[1], dict):
        assert {name: value for name, value in now[1].items() if name not in alone and not like(said, kind, name)} == \
            {name: value for name, value in was[1].items() if name not in alone and not like(said, kind, name)}
    assert now[0].keys() == was[0].keys() or said.get('shorter') and (kind not in FIGURE or len(now[0]) == len(was[0]))
    moved = [name for name, value in now[0].items() if name in was[0] and value != was[0][name]]
    moved = [name for name in moved if not (words := like(said, kind, name)) or now[0][name] not in [
        value for run in (was, *others) for other, value in run[0].items() if like(said, kind, other) == words]]
    free = [name for name in moved if any(re.fullmatch(pattern, str(name)) for pattern in said.get('free', ()))]
    assert len(free) <= 1 and (kind in FIGURE + MOVES or not moved), f'{kind} moved {moved}'
    for name in moved:
        near = next((share for pattern, share in said.get('near', {}).items() if re.fullmatch(pattern, str(name))), 0)
        share, last_digit = near if isinstance(near, list) else (near, None)
        close = pytest.approx(was[0][name], rel=share, abs=last_digit)
        assert name in free or now[0][name] == close, f'{kind} moved {name}; mutations: near or free'


EVERY = sorted({*(code.room for code in rooms.EVERY), *PROGRAMS})


def same_as_one(said: dict, kind: str, runs: list, now) -> None:
    """It means what one of the runs means."""
    first, second = runs
    try:
        same(said, kind, first, now, second)
    except AssertionError:
        same(said, kind, second, now, first)


@contextlib.contextmanager
def damaged(was: str, now: str):
    """A failed assertion of what is within has the lines that differ."""
    try:
        yield
    except AssertionError as err:
        lines = difflib.unified_diff(was.splitlines(), now.splitlines(), 'recorded', 'mutated', lineterm='', n=0)
        raise AssertionError('\n'.join([str(err), *itertools.islice(lines, 20)])) from err


# ---- the tests

@pytest.mark.parametrize('kind', sorted(KINDS))
@pytest.mark.parametrize('code', EVERY)
def test_a_mutated_output_is_refused_or_means_the_same(code, kind):
    for rng in mutations.seeds(code, kind):
        name, text = rng.choice(sorted(recorded(code).items()))
        read, was = accepted(code, name)
        mutated = KINDS[kind](rng, text)
        if now := outcome(read, mutated):
            with damaged(text, mutated):
                same(stated(code, name), kind, was, now)


@pytest.mark.parametrize('kind', sorted(mutations.TWO))
@pytest.mark.parametrize('code', [code for code in EVERY if len(recorded(code)) > 1])
def test_two_runs_in_one_output_are_refused_or_mean_one_of_them(code, kind):
    for rng in mutations.seeds(code, kind):
        (name, text), (second, other) = rng.choices(sorted(recorded(code).items()), k=2)
        (read, was), (_, others) = accepted(code, name), accepted(code, second)
        mutated = mutations.TWO[kind](rng, text, other)
        if now := outcome(read, mutated):
            with damaged(text, mutated):
                same_as_one(stated(code, name, second), kind, [was, others], now)


@pytest.mark.parametrize('code', EVERY)
def test_a_truncated_output_is_incomplete(code):
    for rng in mutations.seeds(code):
        name, text = rng.choice(sorted(recorded(code).items()))
        text = text.rstrip()
        if ends := stated(code).get('ends'):
            last = max(re.finditer(ends, text), key=lambda found: found.end())
            text = text[:last.end()]
        at = rng.choice([rng.randrange(len(text)), max(0, len(text) - rng.randint(1, 40))])
        with pytest.raises(Incomplete, match=None if code in NO_LINE else rooms.WHERE):
            accepted(code, name)[0](text[:at])
            pytest.fail(f'{name} is whole after {at} of {len(text)} characters')


@pytest.mark.parametrize('code', EVERY)
def test_a_line_of_a_megabyte_costs_any_parser_at_most_a_second(code):
    name = min(recorded(code), key=lambda each: len(recorded(code)[each]))
    text, (read, _) = recorded(code)[name], accepted(code, name)
    for unit in ('0', ' ', 'a', '1 ', '1.'):
        begun = time.process_time()
        outcome(read, f'{text}{unit * (1000000 // len(unit))}\n')
        assert time.process_time() - begun < 1, repr(unit)
