"""A session that ReFrame gave up: its cases failed, with ReFrame's words from its log."""

from __future__ import annotations

import os

import pytest

import sessions as made

LOG = """[2026-11-21T17:03:38.80] error: reframe: \x1b[31mERROR: run session stopped: spawned process error: command 'sacct -P -j 98' failed with exit code 1:
--- stdout ---

--- stdout ---
--- stderr ---
sacct: error: Problem talking to the database: Connection refused
--- stderr ---\x1b[0m
[2026-11-21T17:03:38.82] info: reframe: Log file(s) saved in 'x'
"""


@pytest.mark.parametrize('age, said', [
    (0, "ReFrame stopped before it ended: spawned process error: command 'sacct -P -j 98' failed with exit code 1:; "
        'sacct: error: Problem talking to the database: Connection refused'),
    (86400, 'ReFrame stopped before it ended')])
def test_the_cases_of_a_run_that_was_given_up_failed_for_its_reason(tmp_path, age, said):
    log = tmp_path / 'reframe.log'
    log.write_text(LOG)
    end = log.stat().st_mtime
    os.utime(log, (end + age, end + age))       # that of a later run
    cases = [made.ran(), {**made.ran('Other'), 'result': '<unknown>', 'perfvalues': {}, 'parity': {}}]
    report = made.report(cases, [made.planned(), made.planned('Other')], log_files=[str(log)], time_end_unix=end)
    verdict = made.verdict_on(report)
    assert {(c.case, c.verdict, c.reason) for c in verdict.cells} == {('Toy', 'unreferenced', ''), ('Other', 'failed', said)}
    assert verdict.exit_code == 4
