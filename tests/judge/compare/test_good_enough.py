"""docs/is-virtual-good-enough.md by the letter: its file is written, its commands run, its output is what they print."""

from __future__ import annotations

import re
import shlex

import pytest

from commands import parity
from conftest import TOP
from parity.base.colours import Console
from parity.judge.compare import join, pairs, resolve, sentence
from parity.judge.compare.terminal import Paper, rendered
from parity.judge.verdict import incidents, judge
from sides import PHYSICAL, VIRTUAL, nights, site

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


def test_the_output_on_the_page_is_what_a_terminal_of_100_characters_shows(followed):
    block, = re.findall(r'^    \$ parity compare onebox:physical onebox:virtual\n((?:    .*\n|\n(?=    ))+)', PAGE, re.M)
    shown = [line.removeprefix('    ').rstrip() for line in block.splitlines()]
    printed = [line.rstrip() for line in terminal(100)]
    assert shown == printed[:len(shown)] and any(line.startswith('bars:') for line in shown), '\n'.join(printed)


def terminal(width: int) -> list[str]:
    one, other = resolve.sides(PHYSICAL, VIRTUAL)
    console = Console(highlight=False, emoji=False, width=width)
    with console.capture() as printed:
        compared = join.compare(one, other, declared=pairs.between(one.name, other.name))
        console.print(rendered(sentence.answered(compared), Paper(width)))
    return printed.get().splitlines()
