"""The first nights of a system, judged without polars: as with all that a history says."""

from __future__ import annotations

import pytest

from parity.judge.store.plan_file import RERUN_OF
from parity.judge.verdict import judge, learning
from stored import case

GIVEN = {'executable_opts': ['-n', '8']}
BAND = {'refs': {'hpl': (100.0, -0.05, 0.05)}}


def judged(monkeypatch, uuid: str) -> tuple[dict, dict, bool]:
    """The verdict as it is, that of the whole history, and whether the first was made without one."""
    found = []
    quick = learning.of_first_nights
    with monkeypatch.context() as patch:
        patch.setattr(learning, 'of_first_nights', lambda *given: found.append(quick(*given)) or found[0])
        as_it_is = judge.newest(uuid).model_dump(exclude={'session'})
    with monkeypatch.context() as patch:
        patch.setattr(learning, 'of_first_nights', lambda *_: None)
        whole = judge.newest(uuid).model_dump(exclude={'session'})
    return as_it_is, whole, bool(found) and found[0] is not None


@pytest.mark.parametrize('nights, quick', [
    ([{}, {}], True), ([{}] * 10, True), ([{}] * 11, False), ([BAND, BAND], True), ([{}, {**BAND, 'hpl': 60.0}], False),
    ([{}, {'hpl': 'absent'}, {}], True), ([{}, {'parity': {'labels': {'hpl': {'word': 'cached', 'reason': 'x'}}}}], True),
    ([GIVEN, GIVEN, GIVEN], True), ([GIVEN, {'executable_opts': ['-n', '9']}, GIVEN], False),
    ([BAND | GIVEN, BAND | {'executable_opts': ['-n', '9']}], False), ([{}, {'result': 'fail', 'fail_phase': 'run', 'fail_reason': 'x'}], True),
    ([{}, {'parity': {'disturbed': 'others used 2 CPUs'}}], False), ([{'parity': {'disturbed': 'others used 2 CPUs'}}, {}], True),
    ([{}, {'job_submit_time': 1.7e9, 'job_completion_time_unix': 1.7e9 + 11}], False)])
def test_first_nights_are_judged_as_by_all_that_a_history_says(stored, site, monkeypatch, nights, quick):
    for night in nights:
        uuid = stored.add(case(**night), case(50.0, 'Other', **GIVEN))
    as_it_is, whole, was_quick = judged(monkeypatch, uuid)
    assert as_it_is == whole and was_quick is quick
    assert quick is False or {cell['state'] for cell in as_it_is['cells']} - {'learning'} <= {''}


def test_a_rerun_and_an_older_session_are_judged_as_by_all_that_a_history_says(stored, site, monkeypatch):
    first, second = (stored.add(case(hpl, **BAND)) for hpl in (100.0, 94.0))
    for uuid in (first, second):
        as_it_is, whole, quick = judged(monkeypatch, uuid)
        assert as_it_is == whole and quick is (uuid == first), 'nights before a figure beyond its bound say more'
    stored.add(case(99.0, **BAND), **{RERUN_OF: second})
    as_it_is, whole, quick = judged(monkeypatch, second)
    assert as_it_is == whole and not quick and as_it_is['cells'][0]['verdict'] != 'regressed'
