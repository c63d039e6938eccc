"""Characters that no script, name or option may hold: control characters, and separators but for the space."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from parity.base.errors import UsageError

#: Cc: control characters. Zl, Zp, Zs: separators. Cf: characters that are not seen, such as those that turn the
#: direction of writing. A line break and a tab may stand in a text of several lines.
_REFUSED = ('Cc', 'Cf', 'Zl', 'Zp', 'Zs')
_ALLOWED = ' \t\n'
_UNUSUAL = re.compile(r'[^\x20-\x7e\t\n]')


def strange(text: str) -> str:
    """The first character of ``text`` that is refused, by code point and name; '' where there is none."""
    found = next((c for c in _UNUSUAL.findall(text)
                  if unicodedata.category(c) in _REFUSED and c not in _ALLOWED), '')
    return f'U+{ord(found):04X} {unicodedata.name(found, "control character")}' if found else ''


def refuse(where: str, text: str) -> None:
    """Raise UsageError that names ``where`` and the code point for a text with a refused character."""
    if found := strange(text):
        raise UsageError(f'{where}: has the character {found}; valid are characters that can be seen, and spaces')


def refuse_in_words(arguments: Sequence[str]) -> None:
    """The same of a command line, whose words hold no line break either."""
    for word in arguments:
        shown = ''.join(c if c.isprintable() else '\ufffd' for c in word)
        refuse(f'command line: {shown[:80]}', word.replace('\n', '\r').replace('\t', '\r'))
