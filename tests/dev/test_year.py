"""The measurement of a year, on a few cells and nights: the year itself takes an hour."""

from __future__ import annotations

import re

from dev.bench import year


def test_a_year_in_small_loses_nothing_and_prune_leaves_what_is_slower(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(year, 'SECONDS', 1000.0)        # time limits belong to the measurement itself
    monkeypatch.setattr(year, 'METRICS', 2)
    assert year.run(tmp_path, nodes=3, count=40)
    said = capsys.readouterr().out
    assert '43 of 43 sessions, database ok' in said, said
    assert re.search(r'removed, older than 30 days: 1\d sessions.* 2 slower cells, 1 incident   ok', said), said


def test_a_lost_incident_is_noticed(tmp_path, capsys, monkeypatch):
    answers = iter((year.Slower(frozenset({'a'}), (1,)), year.Slower(frozenset({'a'}), ())))
    monkeypatch.setattr(year, '_slower', lambda _: next(answers))
    monkeypatch.setattr(year.Year, 'asked', lambda *_: '')
    monkeypatch.setattr(year.Year, 'took', lambda *_: year.Took(1.0, 1.0, 1.0, 0, 'parity: removed'))
    (tmp_path / 'results.db').touch()
    assert not year.pruned(year.Year(tmp_path, 1, 60)) and 'CHANGED to: 1 slower cell, 0 incidents' in capsys.readouterr().out
