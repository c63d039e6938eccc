"""Characters that look like nothing, or end a line, reach no script: refused where they come in."""

from __future__ import annotations

import pytest

from conftest import TOP, shell
from parity.base import yamlfile
from parity.base.errors import UsageError
from parity.jobs import write
from parity.jobs.request import JobsFile, Request
from parity.system.systems import System

STRANGE = {'\u2028': 'U+2028 LINE SEPARATOR', '\u2029': 'U+2029 PARAGRAPH SEPARATOR', '\x85': 'U+0085 ', '\xa0': 'U+00A0 NO-BREAK SPACE',
           '\u200b': 'U+200B ZERO WIDTH SPACE', '\u202e': 'U+202E RIGHT-TO-LEFT OVERRIDE', '\x7f': 'U+007F '}
GOOD = ('name: s\nhostnames: [x]\nrequires: offered\npartitions:\n  - name: p\n    scheduler: slurm\n    launcher: srun\n'
        '    access: ["--qos=@HERE@low"]\n    extras: {cores: 1, memory_bytes: 1}\n    prepare_cmds:\n      - |\n        echo a\n'
        '        echo\t@THERE@é\n')


def system(tmp_path, here='', there=''):
    file = tmp_path / 'system.yaml'
    file.write_text(GOOD.replace('@HERE@', here).replace('@THERE@', there), encoding='utf-8', newline='')
    return file


@pytest.mark.parametrize('character, said', STRANGE.items(), ids=[f'U+{ord(c):04X}' for c in STRANGE])
def test_a_file_with_one_is_refused_with_line_key_and_code_point(tmp_path, character, said):
    escape = f'\\u{ord(character):04X}'
    for here in (character, escape):
        file = system(tmp_path, here)
        with pytest.raises(UsageError) as caught:
            yamlfile.read(file, System)
        key = '' if here == '\x7f' else ' partitions.0.access.0:'              # which is no YAML at all
        assert str(caught.value).startswith(f'{file}:8:{key} has the character {said}')
    with pytest.raises(UsageError, match=rf'yaml:1\d:.* has the character U\+{ord(character):04X}'):
        yamlfile.read(system(tmp_path, there=character), System)


def test_several_lines_other_alphabets_and_line_ends_of_windows_are_valid(tmp_path):
    file = system(tmp_path)
    part, = yamlfile.read(file, System).partitions
    assert part.prepare_cmds == ['echo a\necho\té\n']
    file.write_bytes(file.read_bytes().replace(b'\n', b'\r\n'))
    assert yamlfile.read(file, System).partitions[0] == part


def test_a_key_is_looked_at_too_and_so_is_every_file(tmp_path):
    file = tmp_path / 'jobs.yaml'
    for text, line in (('all:\n  "acc\\u2028ount": x\n', 2), ('all: {options: ["--a\u2029b"]}\n', 1), ('all:\n  account: "a\\x07b"\n', 2)):
        file.write_text(text, encoding='utf-8')
        with pytest.raises(UsageError, match=rf'jobs.yaml:{line}: all.*has the character U\+'):
            yamlfile.read(file, JobsFile)


@pytest.mark.parametrize('character', ['\u2028', '\u2029', '\x85', '\x1b', '\u200b'])
def test_no_script_is_rendered_with_one(character):
    asked = Request(name='parity-nightly', scheduler='slurm', options=[f'--comment=a{character}b'])
    with pytest.raises(UsageError, match=rf'U\+{ord(character):04X}|is one line'):
        write.rendered('nightly', 'local', asked, target='local', hours='1.00')


@pytest.mark.parametrize('option', ["-S 'destination=a\u2028b'", "-S $'FileCopy.source=a\\nb'", "-J 'qos=a\u0085b'", "-P 'nodes=1,\u20292'"])
def test_reframe_does_not_begin_with_one_on_its_command_line(results, option):
    done = shell(f'. ci/activate; reframe -c checks/storage/filecopy/filecopy.py -l -n FileCopy {option}', TOP, PARITY_RESULTS=str(results), LC_ALL='C.UTF-8')
    assert done.returncode == 2 and 'parity: command line: ' in done.stderr and 'has the character U+' in done.stderr
    assert 'Traceback' not in done.stderr
