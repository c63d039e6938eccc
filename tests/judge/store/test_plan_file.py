"""What a session's stored command line means to whoever uses it again."""

from __future__ import annotations

import pytest

from parity.base import paths
from parity.judge.store import plan_file


@pytest.mark.parametrize('given, wanted', [
    ('-c checks/ -r', '-c TOP/checks -r'), ('--checkpath checks/memory -c /opt/ours.py', '--checkpath TOP/checks/memory -c /opt/ours.py'),
    ('--checkpath=checks -S a=b/c', '--checkpath=TOP/checks -S a=b/c'), ("-n 'a b' -r", 'a b')])
def test_a_relative_place_of_checks_is_below_the_top_of_the_checkout(given, wanted):
    found = ' '.join(plan_file.words_again(f'reframe {given}'))
    assert found == wanted.replace('TOP', str(paths.root())) or wanted in found and 'TOP' not in wanted
