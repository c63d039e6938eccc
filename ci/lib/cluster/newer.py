"""A newer User-mode Linux from Debian's unstable, in a folder of the cluster's own; the system stays as it is."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from errors import Ended
from model import STATE

FOLDER = STATE / 'linux'
#: The kernel, its C library, and the library with which the C library ends a thread.
PACKAGES = ('user-mode-linux', 'libc6', 'libgcc-s1')
KEYS = Path('/usr/share/keyrings/debian-archive-keyring.gpg')
#: Releases of Debian. A mirror of one has unstable, too.
RELEASES = ('oldstable', 'stable', 'testing', 'unstable', 'sid', 'bookworm', 'trixie', 'forky')
#: A mirror that does not answer must not hold up the cluster.
SECONDS = 300


def take() -> Path:
    """Fetch and unpack the packages, unless they are there; return the path of linux.uml."""
    program = FOLDER / 'usr/bin/linux.uml'
    if program.exists():
        return program
    missing = [name for name in ('apt-get', 'dpkg') if not shutil.which(name)]
    if missing:
        raise Ended(4, f'no {" and no ".join(missing)} here')
    if not KEYS.exists():
        raise Ended(4, f'no {KEYS} here (Debian: debian-archive-keyring)')
    mirror = _mirror()
    work = STATE / 'linux.new'
    shutil.rmtree(work, ignore_errors=True)
    try:
        _fetch(mirror, work)
        for package in work.glob('*.deb'):
            _run(['dpkg', '--extract', str(package), str(work / 'root')], work)
        (work / 'root').rename(FOLDER)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return program


def _fetch(mirror: str, work: Path) -> None:
    """Download the packages into the folder. apt checks Debian's signature, and keeps its files there, too."""
    for folder in ('lists/partial', 'cache/archives/partial', 'root'):
        (work / folder).mkdir(parents=True)
    (work / 'status').touch()       # no package of this machine counts
    (work / 'sources.list').write_text(f'deb [signed-by={KEYS}] {mirror} unstable main\n')
    settings = {
        'Dir::Etc::SourceList': work / 'sources.list', 'Dir::Etc::SourceParts': '/dev/null',
        'Dir::Etc::Preferences': '/dev/null', 'Dir::Etc::PreferencesParts': '/dev/null',
        'APT::Default-Release': '',
        'Dir::State::Lists': work / 'lists', 'Dir::State::Status': work / 'status',
        'Dir::Cache': work / 'cache', 'Dir::Cache::pkgcache': '', 'Dir::Cache::srcpkgcache': '',
        'Acquire::GzipIndexes': 'true', 'Acquire::Languages': 'none',
        'Acquire::Retries': '0', 'Acquire::http::Timeout': '20', 'Acquire::https::Timeout': '20',
        'APT::Update::Error-Mode': 'any', 'APT::Sandbox::User': 'root'}
    apt = ['apt-get', '-q']
    for name, value in settings.items():
        apt += ['-o', f'{name}={value}']
    _run([*apt, 'update'], work)
    _run([*apt, 'download', *PACKAGES], work)


def _mirror() -> str:
    """Return the mirror of the first of this machine's apt sources that has a release of Debian."""
    listed = _run(['apt-get', 'indextargets', '--format', '$(RELEASE) $(COMPONENT) $(REPO_URI)',
                   'Created-By: Packages'], Path('/'))
    for line in listed.splitlines():
        release, component, address = line.split(' ', 2)
        if release not in RELEASES or component != 'main':
            continue
        if address.startswith('mirror+file:'):
            mirrors = Path(address.removeprefix('mirror+file:')).read_text()
            address = re.search(r'^https?://\S+', mirrors, re.MULTILINE)[0]
        return address
    raise Ended(4, "none of this machine's apt sources has a release of Debian")


def _run(words: list[str], folder: Path) -> str:
    """Run a program of apt or dpkg; return its output, or end with its first error."""
    try:
        done = subprocess.run(words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise Ended(4, f'{words[0]} did not end within {SECONDS} s') from None
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith(('E: ', 'dpkg'))]
        reason = ' '.join(errors[0].split()) if errors else f'exit code {done.returncode}'
        # an address may hold a name and a password
        raise Ended(4, f'{words[0]}: {re.sub("//[^/ ]*@", "//", reason)}')
    return done.stdout
