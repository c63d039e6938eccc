"""YAML that would expand to more than any memory holds is refused before it is expanded, whoever reads it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from reframe.core import pipeline

from conftest import TOP
from parity.base import paths, yamlfile
from parity.base.errors import UsageError
from parity.judge.compare import pairs
from parity.judge.refs import accepted, propose
from parity.judge.verdict import acks
from parity.measure.jobs import request
from parity.measure.rfm import patches
from parity.measure.software import environment
from parity.site import systems
from parity.site.plan import Plan
from parity.study import published

#: Nine times nine times ... a list of two: 9^29 values.
LAUGHS = 'a0: &a0 [x, x]\n' + ''.join(f'a{i}: &a{i} [{", ".join([f"*a{i - 1}"] * 9)}]\n' for i in range(1, 30))


@pytest.mark.parametrize('text, said', [
    (LAUGHS, ':7: the aliases up to *a5 repeat more than 1000000 characters: write the values out'),
    (f'a: &a [{", ".join(["x"] * 20_000)}]\nb: [{", ".join(["*a"] * 20_000)}]\n', ':2: the aliases up to *a repeat'),
    ('name: x\na: &a [1, *a]\n', ':2: *a stands inside &a: it must come after what it repeats'),
    ('a: ' + '[' * 1_000_000, ':1: nested too deeply: must have at most 63 levels'),
    ('# ' + 'x' * yamlfile.LARGEST, ': 16000002 characters: must have at most 16000000'),
])
def test_a_file_that_expands_to_too_much_is_refused_with_its_line(text, said):
    with pytest.raises(UsageError) as err:
        yamlfile.parse(Path('system.yaml'), text)
    assert f'system.yaml{said}' in str(err.value)


def test_anchors_that_people_write_are_read_and_libyaml_is_not_needed(monkeypatch):
    text = 'x: &x {a: [1, 2], b: &b three}\nboth: [*x, *x, *b]\nlast: *x\nm: &m {c: 5}\nmerged: {<<: *m}\n'
    data, _ = yamlfile.parse(Path('f'), text)
    assert data['both'] == [{'a': [1, 2], 'b': 'three'}] * 2 + ['three'] and data['last'] == data['x']
    assert data['merged'] == {'c': 5}
    monkeypatch.setattr(yamlfile, '_Quick', yamlfile._Plain)
    assert yamlfile.parse(Path('f'), text)[0] == data
    with pytest.raises(UsageError, match=':7: the aliases'):
        yamlfile.parse(Path('f'), LAUGHS)


@pytest.fixture
def site(tmp_path, results, monkeypatch):
    """A checkout with one system; returns its folder."""
    home = tmp_path / 'systems' / 'local'
    (home / 'references').mkdir(parents=True)
    (home / 'spack').mkdir()
    (home / 'system.yaml').write_text((TOP / 'systems/local/system.yaml').read_text())
    monkeypatch.setenv('PARITY_ROOT', str(tmp_path))
    return home


#: Every file in YAML that parity reads, and what reads it.
READERS = {
    'systems/local/system.yaml': lambda: systems.read('local'), 'systems/local/acks.yaml': lambda: acks.read('local'),
    'systems/local/pairs.yaml': lambda: pairs.read(systems.read('local')),
    'systems/local/jobs.yaml': lambda: request.settings_of('nightly', 'local'), 'jobs/jobs.yaml': lambda: request.settings_of('nightly', 'local'),
    'systems/local/references/default.yaml': lambda: accepted.of_system('local'),
    'systems/local/spack/gpu.yaml': lambda: environment.gpu_specs('local'), 'systems/local/spack/packages.yaml': lambda: environment.nvcc('local'),
    'spack.yaml': lambda: environment._manifest(), 'studies/x/study.yaml': lambda: published.read('x'),
    'own results/references/local/default.yaml': lambda: propose.read('local'),
}


@pytest.mark.parametrize('name', READERS)
def test_whoever_reads_a_file_refuses_it(site, name):
    beside = {'jobs/jobs.yaml': (TOP / 'jobs' / 'jobs.yaml').read_text(),
              'systems/local/spack/gpu.yaml': 'specs: [osu-micro-benchmarks@7 +cuda cuda_arch=90 ^cuda@:12]\n'}
    for path, text in {**beside, name: LAUGHS}.items():
        (paths.root() / path).parent.mkdir(parents=True, exist_ok=True)
        (paths.root() / path).write_text(text)
    with pytest.raises(UsageError, match=re.escape(f'{paths.root() / name}:7: the aliases up to *a5 repeat')):
        READERS[name]()


def test_references_are_refused_before_and_while_reframe_reads_them(site, monkeypatch):
    file = site / 'references' / 'default.yaml'
    file.write_text(LAUGHS)
    plan = Plan(system='local', cases=[], checks=[], problems=[])
    problem, = accepted.problems(systems.read('local'), plan)
    assert f'{file}:7: the aliases up to *a5 repeat' in problem
    with pytest.raises(UsageError, match=':7: the aliases'):
        systems.guard_references('local')
    monkeypatch.setattr(pipeline, 'yaml', yaml)
    patches.read_references_once()
    with file.open() as stream, pytest.raises(UsageError, match=':7: the aliases'):
        pipeline.yaml.safe_load(stream)


def test_all_yaml_is_read_by_yamlfile():
    own = [file for file in (TOP / 'reframe').rglob('*.py') if file.name != 'yamlfile.py']
    assert [str(file) for file in own if re.search(r'yaml\.(safe_|unsafe_|full_)?load(_all)?\(', file.read_text())] == []
