"""The days on which a waiver and a retirement count, and the system that a command measures."""

from __future__ import annotations

import datetime

import pytest

from parity.site import identity, systems
from parity.site.systems import System

DAY = datetime.date(2026, 11, 29)
STATED = {
    'name': 'site', 'hostnames': ['login'], 'requires': [],
    'waivers': [{'code': 'hpl', 'reason': 'no BLAS yet', 'until': DAY}],
    'retired': [{'nodes': ['c1'], 'since': DAY, 'reason': 'sold'}],
    'partitions': [{'name': 'cpu', 'scheduler': 'local', 'launcher': 'local'}],
}


def _noon(day: datetime.date) -> float:
    return datetime.datetime.combine(day, datetime.time(12)).timestamp()


def test_a_waiver_holds_on_its_last_day_and_a_node_is_retired_from_its_first():
    system = System.model_validate(STATED)
    before, after = DAY - datetime.timedelta(1), DAY + datetime.timedelta(1)
    assert systems.waived(system, DAY) == ({'hpl': f'waived until {DAY}: no BLAS yet'}, [])
    assert systems.waived(system, after) == ({}, [f'the waiver of hpl expired on {DAY} (no BLAS yet)'])
    assert [list(systems.gone(system, _noon(day))) for day in (before, DAY, after)] == [[], ['c1'], ['c1']]


@pytest.mark.parametrize('argv, variable, name', [
    (['--system', 'a:cpu'], 'b', 'a'), (['--system=a'], 'b', 'a'), (['-r'], 'b:gpu', 'b'), (['-r'], '', None)])
def test_the_command_line_names_the_system_before_the_variable_does(monkeypatch, argv, variable, name):
    monkeypatch.setenv('RFM_SYSTEM', variable)
    assert systems.stated(argv) == name


def test_the_system_that_fits_every_host_is_tried_last(tmp_path, monkeypatch):
    monkeypatch.setenv('PARITY_SITE', str(tmp_path))
    for name in ('zeus', 'local', 'atlas'):
        (tmp_path / 'systems' / name).mkdir(parents=True)
        (tmp_path / 'systems' / name / 'system.yaml').touch()
    assert systems.names() == ['atlas', 'zeus', 'local']


def test_a_distributed_case_names_its_node_and_is_one_case_with_the_others():
    assert identity.undistributed('Stream %threads=all %part=cpu %nid=c1') == ('Stream %threads=all', 'c1')
    assert identity.undistributed('Stream %threads=all') == ('Stream %threads=all', '')


@pytest.mark.parametrize('value, word', [
    (True, 'yes'), (False, 'no'), ({'b', 'a'}, 'a,b'), ({'A': 1}, 'A:1'), ((1, 2), '1,2'), ('a b|c%', 'a%20b%7Cc%25')])
def test_a_value_is_one_word_of_a_name(value, word):
    assert identity.word(value) == word
