"""One load of the checks gives every case that runs, and those that no environment can run."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import yaml
from reframe.core import pipeline

from conftest import shell
from jobs import sessions_of
from parity import plan
from parity.plan.identity import case_name
from parity.rfm import patches

CHECKS = '''
import reframe as rfm
import reframe.utility.udeps as udeps
from reframe.core.builtins import parameter, run_after, variable


class Toy(rfm.RunOnlyRegressionTest):
    valid_systems = ['*']
    valid_prog_environs = ['*']
    length = variable(int, value=1)


@rfm.simple_test
class Here(Toy):
    way = parameter(['a', 'b'])


@rfm.simple_test
class Nowhere(Toy):
    valid_prog_environs = ['+nowhere']
    way = parameter(['a', 'b'])


@rfm.simple_test
class After(Toy):
    """Its dependency cannot run."""

    @run_after('init')
    def wait(self):
        self.depends_on(Nowhere.variant_name(0), udeps.fully)


@rfm.simple_test
class Elsewhere(Toy):
    valid_systems = ['+nowhere']
'''


@pytest.fixture
def planned(results, tmp_path):
    file = tmp_path / 'toys.py'
    file.write_text(CHECKS)

    def of(*options: str) -> dict[str, set[str]]:
        """The environments of each planned case."""
        found: dict[str, set[str]] = {}
        for case in plan.of_command(['-c', str(file), '-r', '--system', 'local', *options]).cases:
            assert case.environ not in found.setdefault(case.case, set())
            found[case.case].add(case.environ)
        return found
    return of


@pytest.mark.parametrize('options, names', [
    ('', {'Here %way=a', 'Here %way=b', 'Nowhere %way=a', 'Nowhere %way=b', 'After'}), ('-n Nowhere%way=b', {'Nowhere %way=b'}),
    ('-x Nowhere -x After', {'Here %way=a', 'Here %way=b'}),
    ('-n Nowhere%way=a -P length=1,2', {'Nowhere %way=a %length=1', 'Nowhere %way=a %length=2'}),
    ('-n Nowhere%way=a -n Here%way=a --repeat=3', {'Nowhere %way=a', 'Here %way=a'})])
def test_a_case_that_no_environment_can_run_is_planned_without_one_as_it_was_selected(planned, options, names):
    found = planned(*options.split())
    assert found.keys() == names
    assert all('' not in environs if name.startswith('Here') else environs == {''} for name, environs in found.items())


def test_a_nightly_loads_the_checks_for_its_guards_and_for_the_run_and_no_case_carries_the_plan(checkout, tmp_path):
    loads = tmp_path / 'loads'
    check = checkout / 'checks' / 'storage' / 'filecopy' / 'filecopy.py'
    check.write_text(f"{check.read_text()}\nprint('loaded', file=open({str(loads)!r}, 'a'))\n")
    done = shell("ci/nightly --repeat=1 -n 'FileCopy.*small-write.*clients=one.*as-is'", checkout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert loads.read_text().splitlines() == ['loaded'] * 2
    session, = sessions_of(checkout)
    case, = session['runs'][0]['testcases']
    assert 'parity_session' not in case and 'parity_session' not in session
    kept = json.loads((checkout / 'results' / 'sessions' / f'{case["parity"]["journal"]}.json').read_text())
    assert [planned['case'] for planned in kept['plan']['cases']] == [case_name(case['display_name'])]
    assert kept['facts']['machine'] and kept['announcement']


def test_accepted_values_are_read_once_and_again_when_they_change(tmp_path, monkeypatch):
    reads = []
    monkeypatch.setattr(pipeline, 'yaml', SimpleNamespace(safe_load=lambda file: reads.append(file.name) or yaml.safe_load(file)))
    patches.read_references_once()
    file = tmp_path / 'cpu.yaml'
    for text, said, count in (('Hpl: 1\n', {'Hpl': 1}, 1), ('Hpl: 1\n', {'Hpl': 1}, 1), ('Hpl: 22\n', {'Hpl': 22}, 2)):
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
        with file.open() as stream:
            assert pipeline.yaml.safe_load(stream) == said and len(reads) == count
