"""Commands of other distributions: the entry points `parity.commands`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from commands import parity
from conftest import TOP
from parity.cli import entry_points

HELLO = '''
import typer

def hello(name: str = typer.Argument('all')) -> int:
    """Greet somebody."""
    print(f'hello {name}')
    return 3

app = typer.Typer()

@app.command()
def one():
    """Say one."""
    print('one')

@app.command()
def two():
    """Say two."""
    print('two')

def lacking():
    """Need what is not there."""
    import no_such_package

LIMIT = 5
'''
ENTRIES = {'hello': 'greetings:hello', 'count': 'greetings:app', 'lacking': 'greetings:lacking', 'verdict': 'greetings:hello',
           'gone': 'greetings:no_such_function', 'absent': 'no_such_module:run', 'number': 'greetings:LIMIT', 'ending': 'ending:run'}
BROKEN = {'gone': 'no_such_function', 'absent': 'no_such_module', 'number': 'neither a function nor a typer.Typer', 'ending': 'SystemExit'}


@pytest.fixture(scope='module')
def beside(tmp_path_factory) -> Path:
    """A folder with an installed distribution, as pip leaves one."""
    folder = tmp_path_factory.mktemp('beside')
    about = folder / 'parity_hello-1.5.dist-info'
    about.mkdir()
    (about / 'METADATA').write_text('Metadata-Version: 2.1\nName: parity-hello\nVersion: 1.5\n')
    (about / 'entry_points.txt').write_text('[parity.commands]\n' + ''.join(f'{name} = {value}\n' for name, value in ENTRIES.items()))
    (folder / 'greetings.py').write_text(HELLO)
    (folder / 'ending.py').write_text('raise SystemExit(1)\n')
    return folder


@pytest.fixture
def ran(beside, results):
    def run(*words: str) -> subprocess.CompletedProcess:
        code = f'import sys; sys.path.append({str(beside)!r}); from parity.cli import main; sys.argv[0] = "parity"; main()'
        return subprocess.run([sys.executable, '-c', code, *words], capture_output=True, text=True, cwd=TOP)
    return run


def test_a_distribution_adds_a_command_and_a_group_of_them(ran):
    done = ran('hello', 'you')
    assert (done.returncode, done.stdout) == (3, 'hello you\n'), done.stderr
    done = ran('count', 'two')
    assert (done.returncode, done.stdout) == (0, 'two\n'), done.stderr


def test_help_lists_it_and_says_what_is_wrong_with_the_others(ran):
    done = ran('--help')
    assert done.returncode == 0, done.stderr
    listed = ' '.join(done.stdout.partition('Of other distributions')[2].split())
    assert 'hello Greet somebody.' in listed
    assert 'verdict not added by parity-hello 1.5: parity has this command' in listed
    for name, why in BROKEN.items():
        assert f'the command {name} of parity-hello 1.5 cannot run' in listed and why in listed
    assert 'Judge a session' in done.stdout, 'ours keeps its sentence'


@pytest.mark.parametrize('name, why', BROKEN.items())
def test_a_broken_one_names_its_distribution_and_ends_with_4(ran, name, why):
    done = ran(name)
    assert done.returncode == 4 and 'Traceback' not in done.stderr
    assert done.stderr.startswith(f'parity: the command {name} of parity-hello 1.5 cannot run: ') and why in done.stderr


def test_a_broken_one_stops_no_command_of_ours(ran):
    assert ran('verdict').returncode == 3
    assert ran('sessions').returncode == 3
    unknown = ran('helo')
    assert unknown.returncode == 2 and 'the nearest: hello' in unknown.stderr


def test_a_package_that_one_lacks_is_not_said_to_be_in_an_extra_of_parity(ran):
    done = ran('lacking')
    assert done.returncode == 4 and 'parity-hello 1.5 cannot run' in done.stderr and 'no_such_package' in done.stderr
    assert 'measure' not in done.stderr and 'ci/venv' not in done.stderr


def test_our_commands_look_for_no_other(monkeypatch, results):
    def refuse():
        raise AssertionError('entry points were read')
    monkeypatch.setattr(entry_points, 'installed', refuse)
    assert parity('verdict').returncode == 3
    assert parity('verdict', '--help').returncode == 0
