"""The first days: ten nights, accepted values, a judged night; every command on little or nothing."""

from __future__ import annotations

import re
import time

import pytest
import yaml

import sessions as made
from commands import parity
from conftest import TOP
from parity.base import paths
from parity.cli import GROUPS
from parity.judge.store.plan_file import parameters
from parity.nightly import run
from stored import Stored, case

NONE = (0, None, None)      # no reference, as ReFrame stores it
BY_TURNS = {'parity_rerun_of': 'nodes'}


@pytest.fixture
def suite(site, stored, planned, monkeypatch):
    """Nights with a case of each check that a night of `local` plans, in a checkout without references."""
    (paths.root() / 'checks').symlink_to(TOP / 'checks')
    monkeypatch.setattr('parity.measure.rfm.planning.of_command', lambda arguments: planned('local'))
    variants = {check.check: {name: values[0] for name, values in check.variants.items()} for check in planned('local').checks}
    one_of_each = {case.check: case for case in planned('local').cases}.values()
    plan = [case.model_copy(update={'environ': case.environ or 'distro'}).model_dump() for case in one_of_each]

    def night(node: str = '', fallen: str = '', **info):
        file = paths.root() / 'systems' / 'local' / 'references' / 'default.yaml'
        references = yaml.safe_load(file.read_text()) if file.exists() else {}
        stored.add(*(ran(case, variants[case['check']], references, stored.count, node, fallen) for case in plan), plan=plan, **info)
    return night


def ran(planned: dict, variant: dict, references: dict, night: int, node: str, fallen: str) -> dict:
    """A case that ran: its figures scatter by 0.5 % from night to night, those of the case ``fallen`` are 20 % less."""
    there = references.get(planned['check'], {})
    index = {'size': planned['size'], '$environ': planned['environ'], **variant, **parameters(planned['case'])}
    for name in there.pop('$index', ()):        # as ReFrame finds a reference
        there = there.get(index[name], {})
    metrics = {m['name']: m for m in planned['metrics'] if not m['left_out']}
    left_out = {m['name']: m['left_out'] for m in planned['metrics'] if m['left_out']}
    value = (100 + night % 3 / 4) * (0.8 if planned['case'] == fallen else 1)
    figures = {f'local:default:{name}': [value, *there.get(name, NONE)[:3], m['unit'], None] for name, m in metrics.items()}
    name = planned['case'] + (f' %.part=default %.nid={node}' if node else '')
    noted = {'size': planned['size'], 'subsystem': planned['subsystem'], 'metrics': metrics, 'left_out': left_out, 'variant': variant}
    return made.ran(name, environ=planned['environ'], perfvalues=figures, job_nodelist=[node or 'node01'], parity=noted)


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
    assert done.returncode == 0 and 'figures are judged: 9 slower tonight' in done.stdout, done.stdout + done.stderr
    suite(fallen='Blocks %threads=all %order=random')
    done = parity('verdict')
    assert done.returncode == 1 and 'memory 20 % slower' in done.stdout, done.stdout + done.stderr


COMMANDS = {        # the exit codes without a database, with an empty one, with a disturbed session, with one of one check
    'verdict': (3, 3, 0, 0), 'verdict --all --skipped': (3, 3, 0, 0), 'verdict --json': (3, 3, 0, 0), 'show Toy.hpl@local': (3, 3, 0, 0),
    'show 1': (2, 2, 2, 2), 'cause 1': (2, 2, 2, 2), 'ack Toy.hpl@local --until 2999-01-01 --why known': (3, 3, 0, 0), 'ack --list': (0, 0, 0, 0), 'level --list': (0, 0, 0, 0),
    'unack Toy.hpl@local': (2, 2, 2, 2), 'nodes': (3, 3, 0, 0), 'nodes --system local': (0, 0, 0, 0), 'node node01': (3, 3, 2, 0),
    'node node01 --gate': (3, 3, 2, 4), 'report': (3, 3, 0, 0), 'report --system local': (3, 3, 0, 0),
    'incidents': (0, 0, 0, 0), 'incidents --system local': (0, 0, 0, 0), 'sessions': (3, 3, 0, 0), 'sessions --system local': (3, 3, 0, 0), 'notify': (0, 0, 0, 0), 'summary': (3, 3, 0, 0),
    'summary --system local --markdown': (0, 0, 0, 0), 'export --csv -': (3, 3, 0, 0), 'export --openmetrics -': (3, 3, 0, 0),
    'refs propose --system local': (3, 3, 3, 3), 'refs accept --all --system local --why first': (3, 3, 3, 3), 'refs show': (0, 0, 0, 0),
    'refs lint --system local': (0, 0, 0, 0), 'compare local:default 00000000': (3, 3, 3, 3), 'contract status --system local': (2, 2, 2, 2), 'scaling Toy': (3, 3, 3, 3),
    'study compare jungels2012 last': (3, 3, 3, 3), 'detect -': (2, 2, 2, 2), 'replay --system local': (3, 3, 3, 3), 'software status': (3, 3, 3, 3), 'jobs list': (0, 0, 0, 0),
    'prune --keep-days 1': (0, 0, 0, 0), 'merge': (2, 2, 2, 2), 'import no-such.db': (2, 2, 2, 2)}
ONE = re.compile(r'\b1 (?:more |planned |other |new )?(?:figures|cells|metrics|cases|nodes|sessions|nights|codes|runs|incidents|days|histories|bounds)\b')
OF_MACHINE = {'parse', 'facts', 'doctor', 'probe'}      # their answer has nothing to do with what is stored


@pytest.mark.parametrize('at, store', list(enumerate(('none', 'empty', 'disturbed', 'one check'))))
def test_every_command_answers_on_little_and_on_nothing(site, results, planned, monkeypatch, at, store):
    assert {name for names in GROUPS.values() for name in names} - OF_MACHINE == {line.split()[0] for line in COMMANDS}
    monkeypatch.setattr('parity.measure.rfm.planning.of_command', lambda arguments: planned('local'))
    for name in ('checks', 'studies', 'spack.yaml'):
        (paths.root() / name).symlink_to(TOP / name)
    if store != 'none':
        stored = Stored()
    if store in ('disturbed', 'one check'):
        stored.add(case(parity={'disturbed': 'others had 1.3 of 2 CPUs' * (store == 'disturbed')}))
    codes = {}
    for line in COMMANDS:
        done = parity(*line.split())
        assert 'Traceback' not in done.stdout + done.stderr and not ONE.search(done.stdout + done.stderr), line
        codes[line] = done.returncode
        parity('unack', 'Toy.hpl@local') if line.startswith('ack Toy') else None
    assert codes == {line: wanted[at] for line, wanted in COMMANDS.items()}


def test_what_was_disturbed_is_said_to_be_disturbed(stored):
    now, disturbed = time.time() - 600, {'disturbed': 'others had 1.3 of 2 CPUs'}
    uuids = [stored.add(case(latency=latency, parity=disturbed), time_start_unix=now + at, time_end_unix=now + at + 60)
             for at, latency in enumerate((1.5, 'absent'))]
    said = ' '.join(parity('summary').stdout.split())
    assert '2 of 2 planned cells were measured, 2 only while others used the CPUs' in said and 'never' not in said and '1 of 1 measured' in said
    done = parity('compare', *uuids)
    assert done.returncode == 3 and '2 metrics without a figure that nobody disturbed; of disturbed ones session 00000000 has 2, session 00000001 has ' in done.stdout


def test_a_run_of_one_check_shows_its_figures_and_names_the_last_whole_session(site, stored):
    (paths.root() / 'checks').symlink_to(TOP / 'checks')
    whole = stored.add(*(case(case=f'Toy %n={n}') for n in range(4)))
    stored.add(case(hpl=97.31, latency=1.625), plan=[made.planned(file='checks/memory/blocks/blocks.py')])
    said = parity('verdict').stdout
    assert 'Toy: hpl' in said and '97.3 Gflop/s' in said and 'Toy: latency' in said and '1.625 us' in said
    assert f'parity verdict --session {whole[:8]} (the last one with more cases; this one is 00000001)' in said
    assert "parity's own: blocks" in said
    assert 'last one with more cases' not in parity('verdict', '--session', whole).stdout


def test_the_overhead_is_stated_of_a_run_that_is_long_enough():
    assert run._overhead(3.2, 0.0, 14.0) == 'benchmarks ran 3.2 s of 14.0 s'
    assert run._overhead(100.0, 5.0, 110.0) == 'benchmarks ran 100.0 s, waited 5.0 s in queues, of 110.0 s: overhead 5.0 %'
