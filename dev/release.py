"""Build a release of this checkout into dist/, twice to the same bytes: see ci/release and docs/releasing.md.

The sdist is every file of the commit, with PKG-INFO: unpacked it is a checkout. The wheel is built from these
files. Times are the commit's, owners and modes are fixed, files are in order."""

from __future__ import annotations

import datetime
import gzip
import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from parity.base import errors
from parity.base.errors import InfrastructureError, UsageError
from parity.base.figures import counted

TOP = Path(__file__).resolve().parents[1]
USAGE = 'usage: ci/release VERSION, such as 1.2.3'
_VERSION = re.compile(r'\d+\.\d+\.\d+')


@dataclass(frozen=True)
class Commit:
    """The commit that is released; ``unix``: when it was made."""

    name: str
    unix: int


def main() -> None:
    """Check the checkout, build, and say what comes next."""
    arguments = sys.argv[1:]
    if len(arguments) != 1:
        raise UsageError(USAGE)
    version, = arguments
    commit = checked(version)
    files = build(version, commit)
    print(f'parity {version}, commit {commit.name[:10]}:')
    for file in files:
        print(f'  {file.relative_to(TOP)}')
    if not _line('tag', '--list', f'v{version}'):
        print(f"next: git tag -a v{version} -m 'parity {version}'")


def checked(version: str) -> Commit:
    """Return the commit to release. UsageError for a version that the files do not have, or changed files."""
    if not _VERSION.fullmatch(version):
        raise UsageError(f'{version!r}: must be a version such as 1.2.3; {USAGE}')
    changed = _git('status', '--porcelain').decode().splitlines()
    if changed:
        raise UsageError(f'{counted(len(changed), "file", "are")} not as in the commit, such as {changed[0][3:]}: '
                         'commit them, or take them away')
    for name, pattern in (('pyproject.toml', r'^version = "(.*)"$'),
                          ('reframe/parity/__init__.py', r"^__version__ = '(.*)'$")):
        stated = re.findall(pattern, (TOP / name).read_text(), re.M)
        if stated != [version]:
            raise UsageError(f'{name}: the version is {" ".join(stated) or "not there"}; must be {version}')
    check_changelog((TOP / 'CHANGELOG.md').read_text(), version)
    name = _line('rev-parse', 'HEAD')
    tagged = _line('tag', '--list', f'v{version}') and _line('rev-list', '-n', '1', f'v{version}')
    if tagged and tagged != name:
        raise UsageError(f'the tag v{version} is on commit {tagged[:10]}, and this is {name[:10]}: check out the '
                         'first, or take the next version')
    return Commit(name, int(_line('log', '-1', '--format=%ct')))


def check_changelog(text: str, version: str) -> None:
    """Raise UsageError unless the changelog has a dated section of this version first, with all changes."""
    sections = re.split(r'^## ', text, flags=re.M)[1:]
    headings = [section.partition('\n')[0] for section in sections]
    if headings and headings[0] == '[Unreleased]':
        if re.search(r'^- ', sections[0], re.M):
            raise UsageError('CHANGELOG.md: [Unreleased] still lists changes: move them below '
                             f'## [{version}] - DATE')
        sections, headings = sections[1:], headings[1:]
    wanted = f'## [{version}] - DATE, the newest first, with a day such as 2026-12-01'
    found = re.fullmatch(r'\[(.*)\] - (\S+)', headings[0]) if headings else None
    if not found or found[1] != version:
        newest = headings[0] if headings else 'absent'
        raise UsageError(f'CHANGELOG.md: the newest section is {newest}; must be {wanted}')
    try:
        datetime.date.fromisoformat(found[2])
    except ValueError:
        raise UsageError(f'CHANGELOG.md: {found[2]} is no day; must be {wanted}') from None
    if not re.search(r'^- ', sections[0], re.M):
        raise UsageError(f'CHANGELOG.md: the section of {version} lists no change; begin each with "- "')


def build(version: str, commit: Commit) -> list[Path]:
    """Build wheel, sdist and checksums into dist/, and return them."""
    base = f'parity-{version}'
    archive = _git('-c', 'tar.umask=0022', 'archive', '--format=tar', f'--prefix={base}/', commit.name)
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(folder, filter='tar')
        wheel = _wheel(Path(folder) / base, Path(folder) / 'wheel', commit)
        content = {wheel.name: wheel.read_bytes(),
                   f'{base}.tar.gz': sdist(archive, f'{base}/PKG-INFO', _metadata(wheel), commit)}
    sums = [f'{hashlib.sha256(data).hexdigest()}  {name}\n' for name, data in sorted(content.items())]
    content[f'{base}.sha256'] = ''.join(sums).encode()
    place = TOP / 'dist'
    place.mkdir(exist_ok=True)
    for name, data in content.items():
        (place / name).write_bytes(data)
    return [place / name for name in content]


def _wheel(source: Path, target: Path, commit: Commit) -> Path:
    """Build the wheel with the setuptools of this .venv."""
    done = subprocess.run(
        [sys.executable, '-m', 'pip', 'wheel', '-q', '--no-deps', '--no-build-isolation', '--no-index',
         '-w', str(target), str(source)],
        env={**os.environ, 'SOURCE_DATE_EPOCH': str(commit.unix), 'PYTHONHASHSEED': '0'}, umask=0o022,
        capture_output=True, text=True)
    if done.returncode:
        *_, why = done.stderr.strip().splitlines() or ['no message']
        raise InfrastructureError(f'the wheel was not built: {why}; ci/venv makes .venv anew')
    wheel, = target.glob('*.whl')
    return wheel


def _metadata(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as files:
        name, = (name for name in files.namelist() if name.endswith('.dist-info/METADATA'))
        return files.read(name)


def sdist(archive: bytes, name: str, metadata: bytes, commit: Commit) -> bytes:
    """Return a git archive with the metadata as one more file, packed."""
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode='wb', mtime=commit.unix, filename='') as compressed, \
            tarfile.open(fileobj=compressed, mode='w', format=tarfile.PAX_FORMAT) as target:
        with tarfile.open(fileobj=io.BytesIO(archive)) as source:
            for member in source:
                target.addfile(_plain(member, commit), source.extractfile(member) if member.isfile() else None)
        about = tarfile.TarInfo(name)
        about.size, about.mode = len(metadata), 0o644
        target.addfile(_plain(about, commit), io.BytesIO(metadata))
    return packed.getvalue()


def _plain(member: tarfile.TarInfo, commit: Commit) -> tarfile.TarInfo:
    """Take away what differs between two machines."""
    member.uid = member.gid = 0
    member.uname = member.gname = ''
    member.mtime = commit.unix
    member.pax_headers = {}
    return member


def _line(*arguments: str) -> str:
    """Return what git prints, as text."""
    return _git(*arguments).decode().strip()


def _git(*arguments: str) -> bytes:
    done = subprocess.run(['git', *arguments], cwd=TOP, capture_output=True)
    if done.returncode:
        raise UsageError(f'git: {done.stderr.decode().strip()}; a release is built from a commit of a checkout')
    return done.stdout


if __name__ == '__main__':
    errors.run(main)
