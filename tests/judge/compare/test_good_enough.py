"""docs/is-virtual-good-enough.md by the letter: its file is written, its commands run, its output is what they print."""

from __future__ import annotations

import re
import shlex

import pytest

from commands import parity
from conftest import TOP
from parity.judge.verdict import incidents, judge
from sides import nights, site

PAGE = (TOP / 'docs' / 'is-virtual-good-enough.md').read_text()
COMMANDS = re.findall(r'^    (?:\$ )?((?:parity|ci|reframe)\S* .*)$', PAGE, re.M)
#: Exit codes of those that do not end with 0: an expectation of the page is broken.
CODES = {'compare': 1, 'verdict': 1}


@pytest.fixture
def followed(tmp_path, results, monkeypatch):
    """A checkout with the page's pairs, and five nights of its partitions."""
    declared, = re.findall(r'^```yaml\n(.*?)^```', PAGE, re.M | re.S)
    site(tmp_path, declared)
    monkeypatch.setenv('PARITY_ROOT', str(tmp_path))
    nights(5)
    incidents.record(judge.newest(), 'onebox')
    return tmp_path


def test_every_command_of_the_page_runs(followed):
    assert len(COMMANDS) >= 8
    for line in COMMANDS:
        name, command, *words = shlex.split(line)
        words = [str(followed / word) if word.startswith('virtual.') else word for word in words]
        done = parity(command, *words)
        assert name == 'parity' and done.returncode == CODES.get(command, 0), f'{line}: {done.stdout}{done.stderr}'
    assert {'virtual.html', 'virtual.csv'} <= {file.name for file in followed.iterdir()}


def test_the_output_on_the_page_is_what_compare_prints(followed):
    block = re.search(r'^    \$ (parity compare .*)\n((?:    .*\n|\n(?=    ))+)', PAGE, re.M)
    shown = [line.removeprefix('    ').rstrip() for line in block[2].rstrip().splitlines()]
    printed = [line.rstrip() for line in parity(*shlex.split(block[1])[1:]).stdout.rstrip().splitlines()]
    assert shown == printed, '\n'.join(printed)
