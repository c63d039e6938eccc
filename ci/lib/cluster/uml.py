"""A guest of User-mode Linux: a kernel that runs as processes of this machine, on this machine's files."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import boot
import newer
from boot import Signs
from errors import Ended, say
from model import GUEST_MIB, STATE, Node

#: Unused parts of its kernel, above all RAID speed trials, which would take 1 s of its start.
UNUSED = 'initcall_blacklist=raid6_select_algo,init_btrfs_fs,init_zswap'
#: Linux 7.2 answers a system call of a guest's program in half the time by seccomp; `auto` falls back to ptrace.
FAST = 'seccomp=auto'
#: Every process of a trial ends with the first.
CONFINED = ['unshare', '--pid', '--fork', '--kill-child', '--']
#: The kernel ended the first program: none can run.
KILLED = 'Attempted to kill init! exitcode=0x0000000b'
#: The first program ends by itself once it ran. Linux 7.2 may not end after that.
SIGNS = Signs(ran='Attempted to kill init! exitcode=0x00000000', given_up=KILLED, telling=('userspace - ', KILLED))
SECONDS = 20
OTHERS = '--uml PATH takes a linux.uml that is there'


@dataclass(frozen=True)
class Linux:
    """A linux.uml: FOLDER/usr/bin/linux.uml, as Debian's package has it."""

    program: Path

    @property
    def root(self) -> Path:
        return self.program.parents[2]

    @property
    def modules(self) -> Path:
        return self.root / 'usr/lib/uml/modules'

    @property
    def has_own_library(self) -> bool:
        """Return whether a C library other than this machine's was unpacked beside it."""
        return self.root != Path('/') and any(self.root.glob('usr/lib*/ld-linux*'))

    def words(self, mib: int, init: str, folder: str, name: str) -> list[str]:
        """Return the words that start it on this machine's root."""
        start = [str(self.program)]
        if self.has_own_library:
            start = ['unshare', '--mount', '--', 'sh', str(Path(__file__).parent / 'uml-root'), str(self.root)]
            folder = f'/host{folder}'
        return ['env', 'TMPDIR=/dev/shm', *start, f'mem={mib}M', 'root=/dev/root', 'rootfstype=hostfs',
                'rootflags=/', 'ro', f'init={init}', 'quiet', 'panic=-1', FAST, 'con=null', 'ssl=null',
                f'uml_dir={folder}/', f'umid={name}']


@dataclass(frozen=True)
class Choice:
    linux: Linux | None     # None: no guest of User-mode Linux runs a program here
    why: str                # what was tried before, and why it failed


def choose(given: Path | None, install: bool) -> Choice:
    """Choose the given linux.uml, else the installed one, else Debian's newest."""
    if given:
        failed = why_none_boots(Linux(given))
        if failed:
            raise Ended(4, f'--uml: {failed}')
        return Choice(Linux(given), '')
    installed = _installed()
    failed = why_none_boots(installed) if installed else 'no linux.uml here (Debian: user-mode-linux)'
    if not failed:
        return Choice(installed, '')
    if not install:
        return Choice(None, f'{failed}; --no-install takes no newer one; {OTHERS}')
    say(f'{failed}: taking a newer user-mode-linux from Debian')
    try:
        taken = Linux(newer.take())
    except Ended as wrong:
        return Choice(None, f'{failed}; no newer user-mode-linux from Debian: {wrong}; {OTHERS}')
    failed_too = why_none_boots(taken)
    if failed_too:
        return Choice(None, f'{failed}; {failed_too}; {OTHERS}')
    say(f"{taken.program} of Debian's unstable runs programs; nothing of the system was replaced")
    return Choice(taken, failed)


def why_none_boots(linux: Linux) -> str | None:
    """Boot a guest until /bin/true; return None, or the reason why no program runs in it.

    Linux 6.1 as User-mode Linux cannot set the registers of a processor with AMX (PTRACE_SETREGSET: EFAULT).
    """
    with tempfile.TemporaryDirectory(prefix='parity-guest-') as place:
        words = [*CONFINED, *linux.words(64, '/bin/true', place, 'trial'), 'con0=null,fd:1']
        reason = boot.why_not(words, Path(place) / 'output', SIGNS, SECONDS)
    return f'{linux.program} runs no program: {reason}' if reason else None


def guest(node: Node, linux: Linux) -> list[str]:
    """Return the words that start a node; its console is on stdin."""
    place = STATE / 'uml' / node.name
    shutil.rmtree(place, ignore_errors=True)  # a former guest's; it would refuse to start
    place.mkdir(parents=True)
    nets = [f'vec{i}:transport=tap,ifname={link.port},depth=128,gro=1,mac={link.mac}'
            for i, link in enumerate(node.links)]
    return [*linux.words(GUEST_MIB, f'{STATE}/bin/guest-init', str(place), node.name), UNUSED, *nets,
            'con0=fd:0,fd:1', f'node={node.name}']


def _installed() -> Linux | None:
    program = shutil.which('linux.uml')
    if not program:
        return None
    linux = Linux(Path(program).resolve())
    return linux if linux.modules.is_dir() else None
