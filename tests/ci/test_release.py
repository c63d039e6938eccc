"""A release: it is refused where its parts do not agree, and builds twice to the same bytes."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from conftest import TOP

VERSION = '9.8.7'
LOG = f'# Changelog\n\n## [Unreleased]\n\n## [{VERSION}] - 2026-12-01\n\n### Added\n\n- All.\n\n## [0.1.0] - 2026-11-21\n\n- First.\n'
WHEN = {'GIT_AUTHOR_DATE': '2026-12-01T10:00:00Z', 'GIT_COMMITTER_DATE': '2026-12-01T10:00:00Z'}


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(['git', '-C', str(folder), '-c', 'user.name=a', '-c', 'user.email=a@b', '-c', 'init.defaultBranch=main', *arguments],
                          capture_output=True, text=True, env={**os.environ, **WHEN})
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope='module')
def repository(tmp_path_factory) -> Path:
    """A repository whose commit can be released: the library and the scripts."""
    folder = tmp_path_factory.mktemp('release') / 'repository'
    folder.mkdir()
    for name in ('reframe', 'dev', 'ci'):
        shutil.copytree(TOP / name, folder / name, ignore=shutil.ignore_patterns('__pycache__', '*.egg-info'))
    for name in ('README.md', 'LICENSE', '.gitignore', 'pyproject.toml'):
        shutil.copy(TOP / name, folder)
    change(folder / 'pyproject.toml', r'version = "0.2.0"', f'version = "{VERSION}"')
    change(folder / 'reframe/parity/__init__.py', "__version__ = '0.2.0'", f"__version__ = '{VERSION}'")
    (folder / 'CHANGELOG.md').write_text(LOG)
    git(folder, 'init', '-q')
    git(folder, 'add', '.')
    git(folder, 'commit', '-qm', 'release')
    return folder


@pytest.fixture
def cloned(repository, tmp_path):
    """`cloned(NAME, UMASK)`: a clone with this .venv."""
    def clone(name: str = 'clone', umask: int = 0o022) -> Path:
        subprocess.run(['git', 'clone', '-q', str(repository), str(tmp_path / name)], check=True, umask=umask)
        (tmp_path / name / '.venv').symlink_to(TOP / '.venv')
        return tmp_path / name
    return clone


def change(file: Path, before: str, after: str) -> None:
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


def release(folder: Path, *arguments: str, umask: int = 0o022) -> subprocess.CompletedProcess:
    return subprocess.run(['ci/release', *(arguments or [VERSION])], cwd=folder, capture_output=True, text=True, umask=umask)


def test_two_clones_build_the_same_bytes_and_the_sdist_is_a_checkout(cloned):
    one, other = cloned('one'), cloned('another place', 0o077)
    printed = release(one)
    assert printed.returncode == 0, printed.stderr
    assert f"next: git tag -a v{VERSION} -m 'parity {VERSION}'" in printed.stdout
    assert release(other, umask=0o077).returncode == 0
    built = {file.name: file.read_bytes() for file in (one / 'dist').iterdir()}
    assert sorted(built) == [f'parity-{VERSION}-py3-none-any.whl', f'parity-{VERSION}.sha256', f'parity-{VERSION}.tar.gz']
    assert built == {file.name: file.read_bytes() for file in (other / 'dist').iterdir()}
    assert subprocess.run(['sha256sum', '-c', f'parity-{VERSION}.sha256'], cwd=one / 'dist', capture_output=True).returncode == 0

    with tarfile.open(fileobj=io.BytesIO(built[f'parity-{VERSION}.tar.gz'])) as files:
        members = {member.name.partition('/')[2]: member for member in files}
        about = files.extractfile(members['PKG-INFO']).read().decode()
    assert f'Name: parity\nVersion: {VERSION}\n' in about
    assert {*git(one, 'ls-files').splitlines()} < members.keys(), 'every file of the commit is in the sdist'
    assert members['ci/release'].mode & 0o111 and {member.uid for member in members.values()} == {0}

    with zipfile.ZipFile(io.BytesIO(built[f'parity-{VERSION}-py3-none-any.whl'])) as files:
        names = files.namelist()
    assert 'parity/judge/report/page.css' in names and not [name for name in names if name.startswith(('dev/', 'tests/'))]
    assert git(one, 'status', '--porcelain') == '', 'a build leaves nothing that git sees'


@pytest.mark.parametrize('file, before, after, why', [
    ('pyproject.toml', f'"{VERSION}"', '"9.8.6"', f'pyproject.toml: the version is 9.8.6; must be {VERSION}'),
    ('reframe/parity/__init__.py', f"'{VERSION}'", "'9.8.6'", f'__init__.py: the version is 9.8.6; must be {VERSION}'),
    ('CHANGELOG.md', f'[{VERSION}]', '[9.8.6]', 'the newest section is [9.8.6] - 2026-12-01; must be'),
    ('CHANGELOG.md', '2026-12-01', '2026-13-01', '2026-13-01 is no day'),
    ('CHANGELOG.md', ' - 2026-12-01', '', f'the newest section is [{VERSION}]; must be'),
    ('CHANGELOG.md', '- All.\n', '', 'lists no change'),
    ('CHANGELOG.md', '[Unreleased]\n', '[Unreleased]\n\n- More.\n', '[Unreleased] still lists changes')])
def test_a_version_that_the_files_do_not_have_is_refused(cloned, file, before, after, why):
    clone = cloned()
    change(clone / file, before, after)
    git(clone, 'commit', '-qam', 'change')
    done = release(clone)
    assert done.returncode == 2 and why in done.stderr, done.stderr
    assert not (clone / 'dist').exists()


def test_changed_files_a_tag_elsewhere_and_wrong_words_are_refused(cloned):
    clone = cloned()
    (clone / 'new').write_text('')
    done = release(clone)
    assert done.returncode == 2 and '1 file is not as in the commit, such as new' in done.stderr
    git(clone, 'tag', f'v{VERSION}')
    git(clone, 'add', 'new')
    git(clone, 'commit', '-qm', 'later')
    done = release(clone)
    assert done.returncode == 2 and f'the tag v{VERSION} is on commit' in done.stderr
    for words in ([''], ['9.8'], ['v9.8.7'], [VERSION, 'x']):
        done = release(clone, *words)
        assert done.returncode == 2 and 'usage: ci/release VERSION' in done.stderr, words
    shutil.rmtree(clone / '.git')
    done = release(clone)
    assert done.returncode == 2 and 'a release is built from a commit of a checkout' in done.stderr
