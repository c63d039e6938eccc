"""A reference that a check has itself, and figures that no machine reaches."""

from __future__ import annotations

import pytest

import sessions as made
from parity.judge.report import answer
from parity.judge.verdict import judge
from stored import case, day

#: A night of 2021: a clock in the future is a warning.
PAST = -2000


def own(value: float, reference: float | None, unit: str = 'Gflop/s', better: str = 'higher', **other):
    """A case whose check declares a reference of its own for hpl."""
    metric = {'unit': unit, 'better': better, **({'source': "the check's own"} if reference else {})}
    noted = {'metrics': {'hpl': metric, 'latency': {'unit': 'us', 'better': 'lower'}}}
    return case(value, refs={'hpl': (reference, -0.05, 0.05)} if reference else {}, parity=noted, **other)


def store(stored, value: float, reference: float | None = None, **other) -> None:
    """Store a night that nobody asks about: judging takes most of the time of a test."""
    plan = [{**made.planned(), 'metrics': [{'name': 'hpl', 'unit': other.get('unit', 'Gflop/s'), 'better': other.get('better', 'higher')}, made.METRICS[1]]}]
    stored.add(own(value, reference, **other), plan=plan)


def night(stored, value: float, reference: float | None = None, **other):
    store(stored, value, reference, **other)
    verdict = judge.newest()
    return verdict, next(cell for cell in verdict.cells if cell.metric == 'hpl')


@pytest.mark.parametrize('before', [2, 12, 20])
def test_a_line_says_that_the_own_reference_of_a_check_changed_from_what_and_since_when(stored, site, before):
    stored.count = PAST
    for _ in range(before - 1):
        store(stored, 100.0, 100.0)
    verdict, _ = night(stored, 100.0, 100.0)
    assert not verdict.warnings
    said = f"Toy.hpl@local:default: the check's own reference changed from 100 to 1 Gflop/s on {day(PAST + before)}"
    for _ in range(3):
        verdict, cell = night(stored, 50.0, 1.0)
        assert verdict.warnings == [said]
        assert any('own reference changed from 100 to 1' in text for text, _ in answer.lines(verdict))
    for _ in range(29):
        store(stored, 50.0, 1.0)
    verdict, cell = night(stored, 50.0, 1.0)
    assert not verdict.warnings


@pytest.mark.parametrize('reference', [None, 100.0])
@pytest.mark.parametrize('nights', [5, 12, 30])
def test_a_figure_a_thousand_times_as_fast_is_impossible_for_as_long_as_it_lasts(stored, site, reference, nights):
    for _ in range(nights):
        store(stored, 100.0, reference)
    for number in range(14 if nights > 10 or reference else 2):
        if number not in (0, 1, 5, 6, 13):      # judging begins on night 11
            store(stored, 1e17, reference)
            continue
        verdict, cell = night(stored, 1e17, reference)
        assert (cell.verdict, verdict.exit_code) == ('impossible', 1), cell.reason
        assert '1e+15 times as fast as' in cell.reason and 'look at what the program printed' in cell.reason
    for _ in range(2):
        store(stored, 100.0, reference)
    verdict, cell = night(stored, 100.0, reference)
    assert cell.verdict != 'impossible'
    if nights > 10:             # before, the rule takes it for the first level
        assert verdict.exit_code == 0, cell.reason


@pytest.mark.parametrize('usual, value, unit, better, word', [
    (100.0, 1e-2, 's', 'lower', 'impossible'), (100.0, 1e-2, 'retries', 'lower', 'improved'), (100.0, 500.0, 'MB/s', 'higher', 'improved'),
    (100.0, 99_000.0, 'MB/s', 'higher', 'improved'), (100.0, 101_000.0, 'MB/s', 'higher', 'impossible')])
def test_what_may_be_an_improvement_is_none_that_is_impossible(stored, site, usual, value, unit, better, word):
    for _ in range(2):
        store(stored, usual, usual, unit=unit, better=better)
    _, cell = night(stored, value, usual, unit=unit, better=better)
    assert cell.verdict == word, cell.reason


@pytest.mark.parametrize('nights', [1, 12, 20])
def test_the_most_that_a_time_may_take_is_not_what_it_usually_takes(stored, site, nights):
    """cscs-reframe-tests allows a build of 50 ms one minute."""
    def built(*seconds: float):
        """Store nights, and return the cell of the last one."""
        metrics = {'hpl': made.METRICS[0], 'latency': {'unit': 's', 'better': 'lower'}}
        for value in seconds:
            stored.add(case(latency=value, refs={'latency': (60.0, None, 0.1)}, parity={'metrics': metrics}))
        return next(cell for cell in judge.newest().cells if cell.metric == 'latency')
    cell = built(*[0.05] * nights)
    assert cell.verdict in ('ok', 'blind'), cell.reason
    cell = built(1e-6)
    assert (cell.verdict == 'impossible') == (nights > 10), cell.reason


@pytest.mark.parametrize('nights', [5, 15])
def test_a_value_that_a_person_accepts_ends_what_no_machine_reaches(stored, site, nights):
    for _ in range(nights):
        stored.add(case(100.0, refs={'hpl': (100.0, -0.05, 0.05)}))
    for accepted, word in ((100.0, 'impossible'), (2e5, 'ok')):
        for _ in range(3):
            stored.add(case(2e5, refs={'hpl': (accepted, -0.05, 0.05)}))
            verdict = judge.newest()
            cell = next(cell for cell in verdict.cells if cell.metric == 'hpl')
            assert (cell.verdict, verdict.exit_code) == (word, int(word == 'impossible')), cell.reason


@pytest.mark.parametrize('nights', [5, 15])
def test_a_level_that_a_person_began_ends_what_no_machine_reaches(stored, site, nights):
    for _ in range(nights):
        stored.add(case(100.0))
    stored.add(case(2e5))
    assert judge.newest().exit_code == 1
    begun = f'levels: [{{cell: Toy.hpl@local:default, why: another unit, by: bea, since: {day(nights)}}}]\n'
    site.with_name('levels.yaml').write_text(begun)
    for _ in range(3):
        verdict = judge.newest()
        cell = next(cell for cell in verdict.cells if cell.metric == 'hpl')
        assert (cell.verdict != 'impossible', verdict.exit_code) == (True, 0), cell.reason
        stored.add(case(2e5))


@pytest.mark.parametrize('limit, word', [(None, 'unreferenced'), (50.0, 'unreferenced'), (1e-4, 'impossible')])
def test_an_accepted_value_of_other_work_makes_no_time_impossible(stored, site, limit, word):
    """A hundredth of the size took a thousandth of the time."""
    refs = {'refs': {'latency': (2000.0, -0.1, 0.1)}}
    bound = {'value': limit, 'unit': 'us', 'source': 'stated', 'certain': True} if limit else None
    metrics = {'hpl': made.METRICS[0], 'latency': {'unit': 'us', 'better': 'lower', 'limit': bound}}
    for _ in range(12):
        stored.add(case(latency=2000.0, executable_opts=['-n', '1000'], **refs))
    for _ in range(3):
        stored.add(case(latency=1.0, executable_opts=['-n', '10'], parity={'metrics': metrics}, **refs))
        verdict = judge.newest()
        cell = next(cell for cell in verdict.cells if cell.metric == 'latency')
        assert (cell.verdict, verdict.exit_code) == (word, int(word == 'impossible')), cell.reason
