"""Text that a job printed, made fit to be read: visible, short, and never an address."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import quote_from_bytes

#: Control characters, halves of surrogate pairs, and the marks that turn the reading direction:
#: a page must not carry the first two, and the third can make a line read as another.
_UNSEEN = re.compile('[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f'
                     '\ud800-\udfff\ufeff\ufff9-\uffff]')


def visible(text: str) -> str:
    """``text`` with every character that cannot be seen written as its number: ``\\x1b``."""
    return _UNSEEN.sub(_numbered, text.replace('\r\n', '\n'))


def _numbered(match: re.Match) -> str:
    code = ord(match[0])
    return f'\\x{code:02x}' if code < 0x100 else f'\\u{code:04x}'


def brief(text: str, length: int) -> str:
    """``text`` on one line, cut to ``length`` characters with a mark where it was cut."""
    line = ' '.join(text[:4 * length].split())
    return line if len(line) <= length and len(text) <= 4 * length else line[:length - 1].rstrip() + '…'


def link(outputdir: str, directory: Path, root: Path) -> str:
    """The address of ``outputdir`` relative to a page in ``directory``, quoted; '' unless it is below ``root``."""
    if not outputdir:
        return ''
    try:
        target, top = os.path.realpath(outputdir), os.path.realpath(root)
        relative = os.fsencode(os.path.relpath(target, os.path.realpath(directory)))
    except ValueError:                   # NUL, or characters that no file name can have
        return ''
    below = os.path.commonpath([target, top]) == top
    return quote_from_bytes(relative, safe='/') + '/' if below else ''
