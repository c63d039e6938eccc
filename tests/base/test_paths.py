"""The checkout in use: an editable install in another environment may have nothing to do with the site."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

from conftest import TOP

LOG = '''job_completion_time_unix|result|system|partition|environ|name|bw_value|bw_unit
1790000000|pass|daint|gpu|gnu|copy|100|GB/s
'''


@pytest.fixture
def editable(tmp_path):
    """`run(FOLDER, ARGUMENTS)`: the command of an empty environment that has its library from this checkout."""
    venv.create(tmp_path / 'venv')
    places = os.pathsep.join([str(TOP / 'reframe'), sysconfig.get_path('purelib')])
    (tmp_path / 'perflog.log').write_text(LOG)
    variables = {'HOME': str(tmp_path / 'home'), 'PATH': '/usr/bin:/bin', 'PYTHONPATH': places}

    def run(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess:
        return subprocess.run([tmp_path / 'venv/bin/python', '-m', 'parity.cli', *arguments], cwd=folder,
                              env=variables | more, capture_output=True, text=True)
    return run


def test_an_editable_install_imports_as_the_wheel_does(editable, tmp_path):
    empty = tmp_path / 'empty'
    empty.mkdir()
    done = editable(empty, 'import', str(tmp_path / 'perflog.log'))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / 'home/.config/parity/systems/daint/system.yaml').exists()
    assert (tmp_path / 'home/.local/share/parity/results.db').exists()
    assert not (TOP / 'systems/daint').exists()
    assert 'daint' in editable(empty, 'sessions').stdout


def test_a_checkout_is_in_use_where_you_are_in_it_or_it_is_named(editable, tmp_path):
    log = str(tmp_path / 'perflog.log')
    inside = editable(TOP / 'docs', 'import', '--dry-run', log, PARITY_RESULTS=str(tmp_path))
    named = editable(tmp_path, 'import', '--dry-run', log, PARITY_RESULTS=str(tmp_path), PARITY_ROOT=str(TOP))
    for done in (inside, named):
        assert done.returncode == 3 and 'which no systems/*/system.yaml has' in done.stderr, done.stdout + done.stderr
