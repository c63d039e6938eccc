"""The window of a night: when it opens, and what its end leaves for the next night."""

from __future__ import annotations

import datetime
import os

import pytest

import sessions
from parity.base.errors import UsageError
from parity.measure.scheduler import scheduled
from parity.nightly import guard
from parity.site import systems
from parity.site.systems import Nightly


def test_a_night_outside_its_window_waits_or_is_refused(monkeypatch):
    system = systems.read('onebox').model_copy(update={'nightly': Nightly(node_hours=1, window='22:00-05:00')})
    noon = datetime.datetime(2026, 11, 22, 12).timestamp()
    waited = []
    monkeypatch.setattr(guard.time, 'time', lambda: noon)
    monkeypatch.setattr(guard.time, 'sleep', waited.append)
    monkeypatch.setenv(scheduled.UNTIL, '')
    with pytest.raises(UsageError, match='window 22:00-05:00 opens in 10 h 00 min, after the time limit of 8 h 00 min'):
        guard.wait_for_window(system, 8 * 3600)
    guard.wait_for_window(system, 11 * 3600)
    assert waited == [10 * 3600] and float(os.environ[scheduled.UNTIL]) == noon + 17 * 3600


@pytest.mark.parametrize('until, word', ((None, 'failed'), (1795190099.0, 'skipped'), (1795190200.0, 'failed')))
def test_a_job_that_the_end_of_the_window_took_back_is_left_for_the_next_night(until, word):
    reason = 'cancelled while it waited in the queue, at most 30 s (job 7: CANCELLED, Reason Priority)'
    noted = {'journal': 'abc', 'status': 'failed', 'reason': reason, **({'until': until} if until else {})}
    lost = sessions.case(result='fail', fail_phase='sanity', perfvalues={}, parity=noted)
    told, = sessions.verdict_on(sessions.report([lost], [{**sessions.planned(), 'metrics': sessions.METRICS[:1]}])).cells
    assert told.verdict == word and reason in told.reason
    ran = sessions.case(99.0, parity={'metrics': {}})
    both = sessions.verdict_on(sessions.report([ran, lost], [sessions.planned()])).cells[0]
    assert (both.value == 99.0) is (word == 'skipped'), 'the runs before the end of the window count'
