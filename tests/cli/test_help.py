"""Nothing that is asked for help, or is given an option that is none, does work; the version is a session's fact."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from commands import module
from conftest import TOP, shell
from parity import __version__, cli
from parity.base import paths
from parity.measure.session import current

SCRIPTS = sorted(f'ci/{file.name}' for file in (TOP / 'ci').iterdir() if file.is_file() and os.access(file, os.X_OK))

#: What a night that refuses to start leaves: the word that it did.
REFUSED = {'heartbeat'}


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """A machine on which nothing is installed, as its tools say; what they were asked to do."""
    asked = tmp_path / 'asked'
    tools = tmp_path / 'tools'
    tools.mkdir()
    for name in ('apt-get', 'dpkg-query', 'debootstrap', 'sudo'):
        (tools / name).write_text(f'#!/bin/sh\necho {name} "$@" >>{asked}\nexit 1\n')
        (tools / name).chmod(0o755)
    monkeypatch.setenv('PATH', f'{tools}:{os.environ["PATH"]}')
    return lambda: asked.read_text() if asked.exists() else ''


def test_a_script_that_is_asked_for_help_does_nothing_else(checkout, watched):
    (checkout / '.venv').unlink()
    shutil.rmtree(checkout / 'results')
    for script in SCRIPTS:
        verb = ['up --help'] if script in ('ci/cluster', 'ci/pbs') else ['--no-install --help', '-n X -h']
        for option in ('-h', '--help', *verb):
            done = shell(f'{script} {option}', checkout)
            assert done.returncode == 0 and script in done.stdout and not done.stderr, f'{script} {option}'
            assert not watched() and not (checkout / '.venv').exists() and not (checkout / 'results').exists(), f'{script} {option}'


@pytest.mark.parametrize('command', ['verdict', 'software', 'software build', 'refs propose'])
def test_the_help_of_a_command_loads_no_models(command):
    """They are half of its time."""
    code = 'import sys; from parity.cli import app; app(standalone_mode=False); print("pydantic" in sys.modules)'
    done = subprocess.run([sys.executable, '-c', code, *command.split(), '--help'], capture_output=True, text=True)
    assert done.stdout.startswith('Usage: ') and done.stdout.endswith('\nFalse\n'), done.stdout + done.stderr


def test_options_of_the_top_are_read_before_a_command(tmp_path):
    for words in (['--site', str(tmp_path)], [f'--site={tmp_path}']):
        done = subprocess.run([sys.executable, '-m', 'parity.cli', *words, 'sessions'], capture_output=True, text=True)
        assert done.returncode and str(tmp_path) in done.stderr, done.stderr
    assert module('parity.cli', '--version').stdout.startswith(f'parity {__version__}')


@pytest.mark.parametrize('line, said', [
    *((f'ci/{line} --nonsense', '--nonsense') for line in (
        'nightly', 'bench', 'operating-curve', 'venv', 'cluster up', 'cluster down', 'pbs up', 'fresh', 'fresh --full', 'fresh trixie')),
    ('ci/fresh sid', 'sid: no such option or release; valid: --full, --help, bookworm, trixie'),
    ('ci/quickstart -n Tcp --nonsense', 'unrecognized arguments: --nonsense; valid are --yes, --no-install, --with apps, --dry-run')])
def test_an_option_that_is_none_is_refused_before_anything_is_done(results, watched, line, said):
    done = shell(line, TOP)
    assert done.returncode == 2 and said in done.stderr and 'Traceback' not in done.stderr
    assert 'valid' in done.stderr or 'usage:' in done.stderr
    assert not watched() and {file.name for file in results.iterdir()} <= REFUSED


@pytest.mark.parametrize('line, said', [
    ('--dry-run --nonsense', '--nonsense'), ('--mode', 'argument --mode: expected one argument'), ('-l', 'argument -l/--list: not allowed'),
    ('--repeats 0', '--repeats 0'), ('--repeat', 'argument --repeat: expected one argument')])
def test_an_option_of_a_night_that_lacks_its_value_or_is_not_allowed_is_refused(results, line, said):
    done = module('parity.nightly', *line.split())
    assert done.returncode == 2 and said in done.stderr and {file.name for file in results.iterdir()} <= REFUSED


def commands(command, path=()):
    yield path
    for name, each in getattr(command, 'commands', {}).items():
        yield from commands(each, (*path, name))


@pytest.mark.parametrize('path', list(commands(get_command(cli.app))), ids=' '.join)
def test_every_command_answers_both_words_for_help(path):
    short, long = (CliRunner().invoke(cli.app, [*path, option], prog_name='parity') for option in ('-h', '--help'))
    assert short.exit_code == long.exit_code == 0
    assert short.output == long.output and short.output.startswith(' '.join(['Usage: parity', *path]))


@pytest.mark.parametrize('line, said', [
    ('incident', "no command 'incident'; the nearest: incidents, node; parity --help lists all"),
    ('sesions', "no command 'sesions'; the nearest: sessions; parity --help lists all"),
    ('refs akcept', "no command 'akcept'; the nearest: accept; parity refs --help lists all"),
    ('study lst', "no command 'lst'; the nearest: list; parity study --help lists all"),
    ('jobs xyz', "no command 'xyz'; parity jobs --help lists all")])
def test_an_unknown_command_names_the_nearest(line, said):
    done = CliRunner().invoke(cli.app, line.split(), prog_name='parity')
    assert done.exit_code == 2 and said in ' '.join(done.output.split()), done.output


def test_the_command_says_its_version():
    said = CliRunner().invoke(cli.app, ['--version'])
    assert said.exit_code == 0 and said.output == f'parity {paths.version()}\n'


@pytest.mark.parametrize('command', ['jobs list', 'jobs render nightly --system example-slurm', 'facts', 'verdict'])
def test_a_reader_that_has_gone_is_no_regression(command, results):
    """As after `parity verdict | head -1`, whose exit code 1 would say that something regressed."""
    read, written = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, '-m', 'parity.cli', *command.split()], stdout=written, stderr=subprocess.PIPE, text=True)
    os.close(written)
    assert done.returncode == (3 if command == 'verdict' else 141), done.stderr
    assert 'Traceback' not in done.stderr and 'BrokenPipe' not in done.stderr


# ---- the version: a change of it may have made a figure another

@pytest.fixture
def measuring(tmp_path, monkeypatch):
    for folder in ('systems', 'checks', 'docs'):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / 'file').write_text('first\n')
    monkeypatch.setenv('PARITY_ROOT', str(tmp_path))
    return tmp_path


def test_a_commit_and_a_change_of_what_measures_are_told_and_docs_are_not(measuring):
    for words in (['init', '-q'], ['add', '.'], ['-c', 'user.name=a', '-c', 'user.email=a@b', 'commit', '-qm', 'x']):
        subprocess.run(['git', '-C', str(measuring), *words], check=True)
    versions = [paths.version()]
    for folder, text in (('docs', 'second\n'), ('checks', 'second\n'), ('checks', 'third\n')):
        (measuring / folder / 'file').write_text(text)
        versions.append(paths.version())
    first, docs, second, third = versions
    assert first.startswith(f'{__version__} ') and '+' not in first and docs == first
    assert second.startswith(f'{first} + ') and third.startswith(f'{first} + ') and third != second
    partition = SimpleNamespace(extras={}, environs=[])
    assert current._facts(partition)['parity'] == third             # a session keeps it
