"""`parity sessions` lists what is stored, and `parity incidents` and `parity report` take a system."""

from __future__ import annotations

import time

import pytest

from commands import parity
from parity.judge.store.plan_file import RERUN_OF
from parity.judge.verdict import incidents, judge
from stored import case


@pytest.fixture
def week(stored, site):
    """A night, its rerun, a run by hand that was interrupted, each an hour after the other."""
    now = time.time() - 36000
    night = stored.add(case(100.0), case(99.0), parity_night='yes', time_start_unix=now, time_end_unix=now + 60)
    again = stored.add(case(100.1), time_start_unix=now + 3600, time_end_unix=now + 3660, **{RERUN_OF: night})
    cut = stored.add(case(100.2), interrupted=True, time_start_unix=now + 7200, time_end_unix=now + 7260)
    return [uuid[:8] for uuid in (night, again, cut)]


def test_sessions_are_listed_with_what_they_were_for(week):
    done = parity('sessions')
    lines = [line.split() for line in done.stdout.splitlines()]
    assert done.returncode == 0 and [line[0] for line in lines] == week, done.stdout
    night, again, cut = done.stdout.splitlines()
    assert '2 cases' in night and f'confirms {week[0]}' in again and 'by hand, interrupted' in cut
    assert [line.split()[0] for line in parity('sessions', '--last', '1').stdout.splitlines()] == week[2:]
    assert parity('sessions', '--system', 'local').stdout == done.stdout
    other = parity('sessions', '--system', 'nosuch')
    assert other.returncode == 2 and "unknown system 'nosuch'" in other.stderr


def test_no_session_is_exit_code_3(stored, site):
    done = parity('sessions', '--system', 'local')
    assert done.returncode == 3 and 'no session of local is stored; run: ci/nightly' in done.stderr


def test_incidents_of_every_system_are_listed(stored, site):
    assert parity('incidents').stdout == 'no incident is stored\n'
    incidents.record(None, 'local')
    listed, of_one, former = (parity(*line.split()).stdout for line in ('incidents', 'incidents --system local', 'notify'))
    assert 'incident 1' in of_one and 'ci/nightly stored no session' in of_one
    assert listed == f'local: {of_one}' and former == of_one


def test_the_report_takes_a_system(week):
    done = parity('report', '--system', 'local')
    assert done.returncode == 0 and 'index.html' in done.stdout, done.stderr
    assert judge.newest(system='local').session.uuid[:8] == week[2]
    both = parity('report', '--system', 'local', '--session', week[0])
    assert both.returncode == 2 and '--session and --system: give only one' in both.stderr
