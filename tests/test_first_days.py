"""The first days: ten nights, accepted values, a judged night; every command on little or nothing."""

from __future__ import annotations

import pytest
import yaml

import sessions as made
from commands import parity
from conftest import TOP
from parity.base import paths
from parity.records.outset import parameters

NONE = (0, None, None)      # no reference, as ReFrame stores it
BY_TURNS = {'parity_rerun_of': 'nodes'}


@pytest.fixture
def suite(site, stored, planned, monkeypatch):
    """Nights with a case of each check that a night of `local` plans, in a checkout without references."""
    (paths.root() / 'checks').symlink_to(TOP / 'checks')
    monkeypatch.setattr('parity.plan.of_command', lambda arguments: planned('local'))
    variants = {check.check: {name: values[0] for name, values in check.variants.items()} for check in planned('local').checks}
    one_of_each = {case.check: case for case in planned('local').cases}.values()
    plan = [case.model_copy(update={'environ': case.environ or 'distro'}).model_dump() for case in one_of_each]

    def night(node: str = '', fallen: str = '', **info):
        file = paths.root() / 'systems' / 'local' / 'references' / 'default.yaml'
        references = yaml.safe_load(file.read_text()) if file.exists() else {}
        stored.add(*(ran(case, variants[case['check']], references, stored.count, node, fallen) for case in plan), plan=plan, **info)
    return night


def ran(case: dict, variant: dict, references: dict, night: int, node: str, fallen: str) -> dict:
    """A case that ran: its figures scatter by 0.5 % from night to night, those of the case ``fallen`` are 20 % less."""
    there = references.get(case['check'], {})
    index = {'size': case['size'], '$environ': case['environ'], **variant, **parameters(case['case'])}
    for name in there.pop('$index', ()):        # as ReFrame finds a reference
        there = there.get(index[name], {})
    metrics = {m['name']: m for m in case['metrics'] if not m['left_out']}
    left_out = {m['name']: m['left_out'] for m in case['metrics'] if m['left_out']}
    value = (100 + night % 3 / 4) * (0.8 if case['case'] == fallen else 1)
    figures = {f'local:default:{name}': [value, *there.get(name, NONE)[:3], m['unit'], None] for name, m in metrics.items()}
    name = case['case'] + (f' %.part=default %.nid={node}' if node else '')
    noted = {'size': case['size'], 'subsystem': case['subsystem'], 'metrics': metrics, 'left_out': left_out, 'variant': variant}
    return made.ran(name, environ=case['environ'], perfvalues=figures, job_nodelist=[node or 'node01'], parity=noted)


@pytest.mark.parametrize('turns', (False, True))
def test_ten_nights_of_the_suite_give_references_that_judge_the_next_one(suite, turns):
    for _ in range(10):
        suite()
        if turns:
            suite('n1', **BY_TURNS)
    done = parity('refs', 'propose', '--system', 'local')
    *_, count, following = done.stdout.splitlines()
    cells = int(count.split()[0])
    assert done.returncode == 0 and count.startswith(f'{cells} of {cells} cells proposed') and 'NOT PROPOSED' not in done.stdout
    assert following == "next: parity refs accept --all --system local --why '...'"
    done = parity('refs', 'accept', '--all', '--system', 'local', '--why', 'first values', '--by', 'ana')
    assert done.returncode == 0, done.stdout + done.stderr
    done = parity('refs', 'lint', '--system', 'local')
    assert done.returncode == 0 and f'local: {cells} references, no error' in done.stdout, done.stdout
    suite()
    done = parity('verdict')
    assert done.returncode == 0 and f'{cells} of {cells} figures are judged: all are as they were.' in done.stdout, done.stdout + done.stderr
    suite(fallen='Blocks %threads=all %order=random')
    done = parity('verdict')
    assert done.returncode == 1 and 'memory 20 % slower' in done.stdout, done.stdout + done.stderr
