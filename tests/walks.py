"""Do what a page of docs/ says: write the files that it shows, and change the lines."""

from __future__ import annotations

import re
from pathlib import Path


def blocks(page: Path):
    """(path, language, text) of each fenced block: the path is the last one that was named before it."""
    text, path = page.read_text(), ''
    for match in re.finditer(r'`([\w/.-]+\.(?:py|yaml))`|^```(\w+)\n(.*?)^```', text, re.M | re.S):
        path = match[1] or path
        if match[2]:
            yield path, match[2], match[3]


def follow(page: Path, checkout: Path) -> None:
    """Write the files of the page, and change the lines that it shows."""
    for path, language, text in blocks(page):
        file = checkout / path
        if language == 'diff':
            kept = ''.join(f'{line[1:]}\n' for line in text.splitlines() if line[0] != '+')
            wanted = ''.join(f'{line[1:]}\n' for line in text.splitlines() if line[0] != '-')
            assert file.read_text().count(kept) == 1, f'{path} has no such lines: {kept}'
            file.write_text(file.read_text().replace(kept, wanted))
        else:
            assert not file.exists()
            file.write_text(text)
