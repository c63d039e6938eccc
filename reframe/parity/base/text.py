"""Text of jobs, made fit to be read; characters that no script, name or option may hold; lists of CPUs; names of
nodes."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from urllib.parse import quote_from_bytes

from parity.base.errors import UsageError

#: Control characters, halves of surrogate pairs, and the marks that turn the reading direction:
#: a page must not carry the first two, and the third can make a line read as another.
_UNSEEN = re.compile('[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f'
                     '\ud800-\udfff\ufeff\ufff9-\uffff]')


def visible(text: str) -> str:
    """Return ``text`` with every character that cannot be seen written as its number: ``\\x1b``."""
    def numbered(match: re.Match) -> str:
        code = ord(match[0])
        return f'\\x{code:02x}' if code < 0x100 else f'\\u{code:04x}'
    return _UNSEEN.sub(numbered, text.replace('\r\n', '\n'))


def in_csv(value: object) -> object:
    """Return a value as a CSV file holds it: a text is visible, and a spreadsheet takes none for a formula."""
    if not isinstance(value, str):
        return value
    shown = visible(value)
    return f"'{shown}" if shown.startswith(('=', '+', '-', '@')) else shown


def printable(text: str) -> str:
    """Return ``text`` without characters that end the line or command the terminal."""
    return ''.join(c if c.isprintable() else '\ufffd' for c in text)


def node_name(name: str) -> str:
    """Return a node's short name: nodes and schedulers use the short name or the full one. An address stays."""
    return name if name.replace('.', '').isdigit() else name.partition('.')[0] or name


def brief(text: str, length: int) -> str:
    """Return ``text`` on one line, cut to ``length`` characters with a mark where it was cut."""
    enough = 4 * length
    line = ' '.join(text[:enough].split())
    if len(line) <= length and len(text) <= enough:
        return line
    return line[:length - 1].rstrip() + '…'


def columns(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Return the rows as lines of text, two spaces in, columns below one another; those in ``right`` end alike."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        fields = []
        for index, (text, width) in enumerate(zip(row, widths, strict=True)):
            fields.append(text.rjust(width) if index in right else text.ljust(width))
        lines.append('  ' + '   '.join(fields).rstrip())
    return lines


def link(outputdir: str, directory: Path, root: Path) -> str:
    """Return the address of ``outputdir`` from a page in ``directory``, quoted; '' unless it is below ``root``."""
    if not outputdir:
        return ''
    try:
        target = os.path.realpath(outputdir)
        top = os.path.realpath(root)
        relative = os.path.relpath(target, os.path.realpath(directory))
        address = quote_from_bytes(os.fsencode(relative), safe='/')
    except ValueError:                   # NUL, or characters that no file name can have
        return ''
    below = os.path.commonpath([target, top]) == top
    return f'{address}/' if below else ''


#: Cc: control characters. Zl, Zp, Zs: separators. Cf: characters that are not seen, such as those that turn the
#: direction of writing. A line break and a tab may stand in a text of several lines.
_REFUSED = ('Cc', 'Cf', 'Zl', 'Zp', 'Zs')
_ALLOWED = ' \t\n'
_UNUSUAL = re.compile(r'[^\x20-\x7e\t\n]')


def strange(text: str) -> str:
    """Return the first character of ``text`` that is refused, by code point and name; '' where there is none."""
    for character in _UNUSUAL.findall(text):
        if unicodedata.category(character) in _REFUSED and character not in _ALLOWED:
            return f'U+{ord(character):04X} {unicodedata.name(character, "control character")}'
    return ''


def refuse(where: str, text: str) -> None:
    """Raise UsageError that names ``where`` and the code point for a text with a refused character."""
    character = strange(text)
    if character:
        raise UsageError(f'{where}: has the character {character}; '
                         'valid are characters that can be seen, and spaces')


def refuse_in_words(arguments: Sequence[str]) -> None:
    """Refuse such characters in a command line, whose words hold no line break either."""
    for word in arguments:
        refuse(f'command line: {printable(word)[:80]}', word.replace('\n', '\r').replace('\t', '\r'))


#: Far above Linux's largest NR_CPUS (8192): a list beyond is no list of CPUs.
_MOST = 1 << 16


def cpus(listed: str) -> frozenset[int]:
    """Read ``0-3,8`` as {0, 1, 2, 3, 8}; empty where the text is no such list."""
    from ClusterShell.RangeSet import RangeSet, RangeSetException
    try:
        if all(int(number) < _MOST for number in re.findall(r'\d+', listed)):
            return frozenset(map(int, RangeSet(listed.strip(','))))
    except RangeSetException:
        pass
    return frozenset()


def cpu_list(numbers: Iterable[int]) -> str:
    """Write {0, 1, 2, 3, 8} as ``0-3,8``."""
    from ClusterShell.RangeSet import RangeSet
    return str(RangeSet(numbers))
