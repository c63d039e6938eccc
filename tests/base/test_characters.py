"""Characters that look like nothing, or end a line, reach no script: refused where they come in."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import TOP
from parity.base import yamlfile
from parity.base.errors import UsageError
from parity.measure.jobs import write
from parity.measure.jobs.request import Request
from warm import reframe

STRANGE = {'\u2028': 'U+2028 LINE SEPARATOR', '\u2029': 'U+2029 PARAGRAPH SEPARATOR', '\x85': 'U+0085 ', '\xa0': 'U+00A0 NO-BREAK SPACE',
           '\u200b': 'U+200B ZERO WIDTH SPACE', '\u202e': 'U+202E RIGHT-TO-LEFT OVERRIDE', '\x7f': 'U+007F '}


@pytest.mark.parametrize('character, said', STRANGE.items(), ids=[f'U+{ord(c):04X}' for c in STRANGE])
def test_a_file_with_one_is_refused_with_line_key_and_code_point(character, said):
    escape = f'\\u{ord(character):04X}'
    for text, place in ((f'a:\n  b: ["x", "y{character}z"]\n', '2: a.b.1:'), (f'a:\n  b: ["x", "y{escape}z"]\n', '2: a.b.1:'),
                        (f'a:\n  "key{escape}": x\n', '2: a.key'), (f'a:\n  b: |\n    c\n    d{character}e\n', '')):
        with pytest.raises(UsageError) as caught:
            yamlfile.parse(Path('f.yaml'), text)
        if character != '\x7f' or escape in text:               # no YAML at all: the line is told without the key
            assert str(caught.value).startswith(f'f.yaml:{place}')
        assert f' has the character {said}' in str(caught.value)


def test_several_lines_other_alphabets_and_line_ends_of_windows_are_valid():
    for end in ('\n', '\r\n'):
        assert yamlfile.parse(Path('f.yaml'), 'a: |\n  echo a\n  echo\té\n'.replace('\n', end))[0] == {'a': 'echo a\necho\té\n'}


@pytest.mark.parametrize('character', ['\u2028', '\u2029', '\x85', '\x1b', '\u200b'])
def test_no_script_is_rendered_with_one(character):
    asked = Request(name='parity-nightly', scheduler='slurm', options=[f'--comment=a{character}b'])
    with pytest.raises(UsageError, match=rf'U\+{ord(character):04X}|must be one line'):
        write.rendered('nightly', 'local', asked, target='local', hours='1.00')


@pytest.mark.parametrize('option', ["-S 'destination=a\u2028b'", "-S 'FileCopy.source=a\nb'"])
def test_reframe_does_not_begin_with_one_on_its_command_line(results, option):
    done = reframe(TOP, f'-c checks/storage/filecopy/filecopy.py -l -n FileCopy {option}', PARITY_RESULTS=str(results), LC_ALL='C.UTF-8')
    assert done.returncode == 2 and 'parity: command line: ' in done.stderr and 'has the character U+' in done.stderr
    assert 'Traceback' not in done.stderr
