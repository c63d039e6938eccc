"""Checks of option values, before anything starts."""

import os
import re
from argparse import ArgumentTypeError
from pathlib import Path

UNITS = {'kbit': 10**3, 'mbit': 10**6, 'gbit': 10**9}


def count(text: str) -> int:
    return _whole(text, 'nodes', 16)


def cpus(text: str) -> int:
    return _whole(text, 'CPUs', len(os.sched_getaffinity(0)))


def _whole(text: str, what: str, most: int) -> int:
    if not re.fullmatch(r'[0-9]{1,3}', text) or not 1 <= int(text) <= most:
        raise ArgumentTypeError(f'{text!r}: valid are 1 to {most} {what}')
    return int(text)


def rate(text: str) -> str:
    """Check a bandwidth, as tc writes it."""
    found = re.fullmatch(r'([0-9]{1,4})(kbit|mbit|gbit)', text)
    if not found or not 10**6 <= bits(text) <= 100 * 10**9:
        raise ArgumentTypeError(f'{text!r}: valid are 1mbit to 100gbit, whole numbers of kbit, mbit or gbit')
    return text


def bits(text: str) -> int:
    """Return the bits a second of a rate."""
    return int(text[:-4]) * UNITS[text[-4:]]


def slurm(text: str) -> Path:
    """Check the prefix of a Slurm: it has its daemons in sbin."""
    path = Path(text).resolve()
    if not os.access(path / 'sbin/slurmctld', os.X_OK):
        raise ArgumentTypeError(f'{text!r}: no program sbin/slurmctld in it; valid is a prefix of Slurm')
    return path


def uml(text: str) -> Path:
    """Check the path of a linux.uml, in the folders that Debian's package has."""
    path = Path(text).resolve()
    if not path.match('*/usr/bin/linux.uml') or not os.access(path, os.X_OK):
        raise ArgumentTypeError(f'{text!r}: valid is FOLDER/usr/bin/linux.uml, where FOLDER has the unpacked '
                                'packages user-mode-linux, libc6 and libgcc-s1 of Debian')
    return path


def folder(text: str) -> Path:
    """Check a folder that nodes mount at the same path: mount's options end at a comma."""
    path = Path(text).resolve()
    if ',' in str(path) or not str(path).isprintable():
        raise ArgumentTypeError(f'{text!r}: a comma or a control character in the path; choose another folder')
    if path.exists() and not path.is_dir():
        raise ArgumentTypeError(f'{text!r} is not a folder')
    system = ('/', '/proc', '/sys', '/dev', '/run', '/tmp', '/etc', '/usr', '/var', '/dev/shm', '/var/tmp')
    if str(path) in system or str(path).startswith(('/proc/', '/sys/', '/dev/', '/run/parity-')):
        raise ArgumentTypeError(f'{text!r}: a folder of the system; choose one of your own')
    return path
