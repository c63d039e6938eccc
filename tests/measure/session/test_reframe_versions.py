"""Each release of ReFrame that parity claims to know: a night runs on it and is judged, or its database is imported.

`ci/test --full` installs the earlier ones into .venv, from requirements-reframe-*.lock."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from conftest import TOP, shell

pytestmark = pytest.mark.full

#: One case that takes a second, and an accepted rate that no disk has.
CASE = '-c checks/storage/filecopy -n FileCopy%mode=small-write%clients=one%sync=durable -r --repeat=2'
REFERENCE = """\
FileCopy:
  $index: [size, mode, clients, sync]
  quick:
    small-write:
      one:
        durable:
          rate: [1000000.0, -0.05, null, MB/s]
"""
FOREIGN = """\
import reframe as rfm
import reframe.utility.sanity as sn


@rfm.simple_test
class Echo(rfm.RunOnlyRegressionTest):
    valid_systems = ['*']
    valid_prog_environs = ['*']
    executable = 'echo rate 100'
    reference = {'*': {'rate': (200, -0.1, None, 'GB/s')}}

    @sanity_function
    def says(self):
        return sn.assert_found('rate', self.stdout)

    @performance_function('GB/s')
    def rate(self):
        return sn.extractsingle(r'rate (\\d+)', self.stdout, 1, float)
"""


def earlier(version: str) -> Path:
    """The folder with a release of ReFrame. It takes the place of the one in .venv where PYTHONPATH begins with it."""
    folder = TOP / '.venv' / f'reframe-{version}'
    if not (folder / 'reframe').is_dir():
        pytest.skip(f'ci/test --full installs requirements-reframe-{version}.lock')
    return folder


@pytest.mark.parametrize('version', ['4.9', '4.10'])
def test_a_night_runs_and_is_judged(checkout, version):
    path = f'{checkout}/reframe'
    if version != '4.10':       # that is the one of requirements.lock
        path = f'{earlier(version)}:{path}'
    references = checkout / 'systems' / 'local' / 'references' / 'default.yaml'
    references.parent.mkdir(exist_ok=True)
    references.write_text(REFERENCE)
    (checkout / 'checks' / 'foreign.py').write_text(FOREIGN)
    done = shell(f'. ci/activate && reframe {CASE} -c checks/foreign.py -n Echo', checkout, PYTHONPATH=path, RFM_COLORIZE='n')
    assert re.search(rf'version: +{re.escape(version)}\.', done.stdout), done.stdout + done.stderr
    assert done.stdout.count('[       OK ]') + done.stdout.count('[     FAIL ]') == 4, done.stdout + done.stderr
    judged = shell('. ci/activate && parity verdict --json', checkout, PYTHONPATH=path)
    words = {(cell['check'], cell['metric']): cell['verdict'] for cell in json.loads(judged.stdout)['cells']}
    assert judged.returncode == 1 and words['FileCopy', 'rate'] == words['Echo', 'rate'] == 'regressed', words


@pytest.mark.parametrize('version', ['4.8', '4.9'])
def test_a_database_of_its_own_is_imported_and_judged(checkout, tmp_path, version):
    (tmp_path / 'echo.py').write_text(FOREIGN)
    (tmp_path / 'home').mkdir()
    alone = {'PYTHONPATH': str(earlier(version)), 'RFM_ENABLE_RESULTS_STORAGE': '1', 'RFM_SQLITE_DB_FILE': f'{tmp_path}/results.db',
             'HOME': str(tmp_path / 'home'), 'RFM_PREFIX': str(tmp_path)}
    for rate in 200, 200, 200:
        (tmp_path / 'echo.py').write_text(FOREIGN.replace('rate 100', f'rate {rate}'))
        done = shell(f'{TOP}/.venv/bin/reframe -c echo.py -r', tmp_path, **alone)
        assert 'PASSED' in done.stdout, done.stdout + done.stderr
    done = shell(f'. "{checkout}/ci/activate" && parity --site "{tmp_path}" import results.db', tmp_path, HOME=str(tmp_path / 'home'))
    assert done.returncode == 0 and 'in all 3 cases with 3 figures' in done.stdout, done.stdout + done.stderr
    assert '1 of 1 figure is judged' in done.stdout
