"""The picture of the README shows what its text says."""

from __future__ import annotations

import re

from conftest import TOP
from dev import picture
from parity.judge.report import answer


def test_the_picture_shows_the_morning_that_the_readme_describes(results, monkeypatch):
    monkeypatch.setenv('PARITY_ROOT', str(TOP))
    picture.store()
    lost, = re.findall(r'node c3 lost (\S+) % of its memory bandwidth', (TOP / 'README.md').read_text())
    sentence = answer.of(picture.judged()).sentence
    assert sentence.startswith(f'c3: memory {lost} % slower'), sentence
