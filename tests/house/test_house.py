"""Rules of the house that a change could break without noticing."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from setuptools.config.pyprojecttoml import load_file

from commands import process
from conftest import TOP, run_python


def test_reframe_at_the_top_is_no_package():
    assert not (TOP / 'reframe' / '__init__.py').exists()
    done = run_python('import reframe; print(reframe.__file__)', TOP)
    assert 'site-packages' in done.stdout, 'import reframe from the top must find ReFrame'


LOCKS = {file.name: file.read_text() for file in (TOP / 'requirements.lock', TOP / 'requirements-test.lock')}


def pins(lock: str, name: str = r'[a-z0-9.-]+') -> list[tuple[str, str]]:
    return re.findall(rf'^({name})==(\S+)', lock, re.M)


def test_the_locks_have_hashes_and_name_no_index():
    for lock in LOCKS.values():
        assert '://' not in lock and '--index-url' not in lock and '--find-links' not in lock
        assert pins(lock) and lock.count('--hash=sha256:') >= len(pins(lock))
    (_, version), = pins(LOCKS['requirements.lock'], 'reframe-hpc')
    assert Version('4.10') <= Version(version) < Version('5')


def test_every_release_of_reframe_that_parity_runs_on_has_a_lock():
    """ci/test --full walks on each."""
    bound, = (needed for needed in requirements() if needed.name == 'ReFrame-HPC')
    first = min(Version(part.version) for part in bound.specifier)
    locks = [pins(file.read_text(), 'reframe-hpc') for file in TOP.glob('requirements-reframe-*.lock')]
    versions = sorted(Version(version) for (_, version), in locks)
    assert first in versions and all(version < Version('4.10') for version in versions)


def test_who_only_measures_installs_no_tool_of_the_tests():
    measuring, testing = ({name for name, _ in pins(lock)} for lock in LOCKS.values())
    tools = {canonicalize_name(Requirement(text).name) for extra in ('test', 'docs')
             for text in load_file(TOP / 'pyproject.toml')['project']['optional-dependencies'][extra]}
    assert tools <= testing and not measuring & testing


def requirements() -> list[Requirement]:
    project = load_file(TOP / 'pyproject.toml')
    extras = project['project']['optional-dependencies'].values()
    return [Requirement(text) for several in (project['build-system']['requires'], project['project']['dependencies'], *extras)
            for text in several]


def locked(name: str) -> list[Version]:
    return [Version(version) for lock in LOCKS.values() for _, version in pins(lock, canonicalize_name(name))]


@pytest.mark.parametrize('needed', requirements(), ids=lambda r: r.name)
def test_a_dependency_is_bounded_by_the_next_release_that_may_break_what_is_locked(needed):
    tested = locked(needed.name)
    assert tested and all(version in needed.specifier for version in tested)
    bound, = [Version(s.version) for s in needed.specifier if s.operator == '<']
    newest = max(tested)
    following = {(newest.major + 1,), (newest.major, newest.minor + 1)}
    assert bound.release in following and (newest.major or len(bound.release) == 2)


@pytest.mark.parametrize('file', sorted(f for f in (TOP / 'checks').glob('*/*/*.py') if f.stem == f.parent.name), ids=lambda f: f.stem)
def test_a_check_names_no_system(file):
    assert not re.search(r"['\"](local|onebox)[:'\"]", file.read_text())


def test_a_broken_database_is_one_line_and_exit_code_4(results):
    (results / 'results.db').write_text('this is no database')
    done = process('verdict')
    assert done.returncode == 4 and 'not a database' in done.stderr and 'Traceback' not in done.stderr


# ---- wings: pyproject.toml has the contracts, import-linter checks what is a package

WINGS = [{wing.strip() for wing in line.split('|')}
         for line in load_file(TOP / 'pyproject.toml')['tool']['importlinter']['contracts'][0]['layers']]
#: They are no packages: import-linter does not see them. Each may use this wing and those below it.
ABOVE = {'checks': 'parity.check', 'reframe/settings.py': 'parity.measure'}


def test_import_linter_knows_every_wing():
    wings = {f'parity.{f.stem}' for f in (TOP / 'reframe' / 'parity').iterdir() if f.name[0] != '_'} | {'dev'}
    assert set().union(*WINGS) == wings


def test_no_wing_imports_from_its_own_line_or_one_above():
    done = subprocess.run([TOP / '.venv' / 'bin' / 'lint-imports', '--no-cache'], capture_output=True, text=True, cwd=TOP)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize('place, highest', ABOVE.items())
def test_checks_and_settings_import_only_from_below(place, highest):
    top = next(n for n, line in enumerate(WINGS) if highest in line)
    below = set().union(*WINGS[top:])
    files = [TOP / place] if place.endswith('.py') else sorted((TOP / place).rglob('*.py'))
    for file in files:
        used = {'.'.join(name.split('.')[:2]) for name in imported(file) if name.split('.')[0] in ('parity', 'dev')}
        assert used <= below | {'parity'}, f'{file} imports {sorted(used - below)}'


def imported(file: Path) -> set[str]:
    """What a file imports, names below packages too: `from parity.base import paths` is parity.base.paths."""
    nodes = list(ast.walk(ast.parse(file.read_text())))
    return {a.name for n in nodes if isinstance(n, ast.Import) for a in n.names} | {
        f'{n.module}.{a.name}' for n in nodes if isinstance(n, ast.ImportFrom) for a in n.names}


#: What the standard library has since Python 3.11 or later.
NEWER = {'typing': {'Self', 'Never', 'LiteralString', 'Required', 'NotRequired', 'Unpack', 'assert_never', 'assert_type', 'override'},
         'datetime': {'UTC'}, 'enum': {'StrEnum'}, 'itertools': {'batched'}, 'hashlib': {'file_digest'}, 'contextlib': {'chdir'}, 'math': {'cbrt', 'exp2'}}
CODE = [file for folder in ('reframe', 'checks', 'ci', 'jobs', 'dev') for file in sorted((TOP / folder).rglob('*.py'))]


def newer(tree: ast.AST) -> set[str]:
    """Return the names in a file that Python 3.10 does not have."""
    used = {(node.value.id, node.attr) for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)}
    used |= {(node.module, name.name) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for name in node.names}
    return {f'{module}.{name}' for module, name in used if name in NEWER.get(module, ())}


def test_the_code_needs_nothing_newer_than_python_3_10():
    assert newer(ast.parse('from typing import Self\nimport datetime\ndatetime.UTC')) == {'typing.Self', 'datetime.UTC'}
    too_new = {file.relative_to(TOP).as_posix(): names for file in CODE if (names := newer(ast.parse(file.read_text())))}
    assert not too_new


# ---- names of modules and files in texts

#: Begin so and are no modules.
_NO_MODULES = {'parity.commands', 'parity.git', 'parity.crontab'}
_DOTTED = re.compile(r'(?<![\w./@-])parity(?:\.[a-z_]\w*)+(?:\.[A-Z]\w*)?')
TEXTS = sorted(file for folder in ('reframe', 'dev', 'docs', 'jobs', 'checks') for file in (TOP / folder).rglob('*')
               if file.suffix in ('.py', '.md', '.sh') and 'outputs' not in file.parts) + [TOP / 'CONTRIBUTING.md', TOP / 'README.md']


def is_there(name: str) -> bool:
    """Whether a dotted name below parity is a package, a module or a name in one."""
    place = TOP / 'reframe'
    words = name.split('.')
    while words and (place / words[0]).is_dir():
        place = place / words.pop(0)
    if words and (place / f'{words[0]}.py').is_file():
        file = place / f'{words.pop(0)}.py'
    else:
        file = place / '__init__.py'
    return not words or re.search(rf'\b{words[0]}\b', file.read_text()) is not None


def test_a_module_that_a_text_names_is_there():
    lost = {f'{file.relative_to(TOP)}: {name}' for file in TEXTS for name in _DOTTED.findall(file.read_text())
            if name not in _NO_MODULES and not is_there(name)}
    assert not lost


def test_contributing_says_where_things_are():
    rows = re.findall(r'^\| (?:where|a |the )[^|]*\|(.*)\|$', (TOP / 'CONTRIBUTING.md').read_text(), re.M)
    assert len(rows) > 10
    for row in rows:
        for name, inside in re.findall(r'\b((?:base|site|judge|measure|cli)/[\w./]+)(?: \(`(\w+)`\))?', row):
            file = TOP / 'reframe/parity' / name
            assert file.exists() or 'COMMAND' in name, name
            assert not inside or re.search(rf'\b{inside}\b', file.read_text()), f'{name} has no {inside}'
        for kind, name in re.findall(r'`(\w+)` of (\S+\.py)', row):
            assert f'class {kind}' in (TOP / 'reframe/parity' / name).read_text()
