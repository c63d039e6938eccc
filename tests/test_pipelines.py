"""The nightly where people run it: each file is read by the tool that it is made for, and does what it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from conftest import PATIENCE, TOP

PIPELINES = TOP / 'ci' / 'pipelines'
CRONTAB = PIPELINES / 'parity.crontab'


def tool(name: str, why: str) -> str:
    found = shutil.which(name, path=f'{Path(sys.executable).parent}:{os.environ["PATH"]}:/usr/sbin')
    if not found:
        pytest.skip(f'{name} is not here: {why}')
    return found


def run(*words: object, **options) -> subprocess.CompletedProcess:
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=PATIENCE, **options)


def commands() -> list[str]:
    """What cron hands to sh: the line after five fields of time."""
    return [found[1] for line in CRONTAB.read_text().splitlines() if (found := re.fullmatch(r'(?:[\d*,/-]+ ){5}(.*)', line))]


@pytest.fixture
def at_night(tmp_path):
    """The crontab's first command with a checkout whose ci/nightly ends as it is told; returns what cron would mail."""
    def night(code: int) -> str:
        nightly = tmp_path / 'check out' / 'ci' / 'nightly'
        nightly.parent.mkdir(parents=True, exist_ok=True)
        nightly.write_text(f'#!/bin/sh\necho "asked: $*"\necho problem >&2\nexit {code}\n')
        nightly.chmod(0o755)
        env = {'PATH': '/usr/bin:/bin', 'CHECKOUT': str(tmp_path / 'check out'), 'SYSTEM': 'x', 'TMPDIR': str(tmp_path)}
        done = run('sh', '-c', commands()[0], env=env)
        assert sorted(p.name for p in tmp_path.iterdir()) == ['check out']
        return done.stdout + done.stderr
    return night


def test_cron_mails_only_a_night_that_did_not_end_well(at_night):
    assert at_night(0) == ''
    assert at_night(1) == 'exit code 1\nasked: --system x --time-limit 8\nproblem\n'
    assert at_night(4).startswith('exit code 4\n')


def test_the_crontab_holds_no_sign_that_cron_takes_for_a_line_break():
    assert len(commands()) == 2 and '%' not in ''.join(commands())


def test_crontab_accepts_it():
    done = run(tool('crontab', 'apt install cron'), '-n', CRONTAB)
    if 'nvalid option' in done.stderr:
        pytest.skip('this crontab has no -n (check only)')
    assert done.returncode == 0, done.stderr


def test_shellcheck_accepts_what_the_files_run(tmp_path):
    shellcheck = tool('shellcheck', 'apt install shellcheck')
    gitlab, github = (yaml.safe_load((PIPELINES / name).read_text()) for name in ('gitlab-ci.yml', 'github-actions.yml'))
    lines = commands() + [line for job in gitlab.values() for key in ('before_script', 'script', 'after_script') for line in job.get(key, ())]
    lines += [step['run'] for job in github['jobs'].values() for step in job['steps'] if 'run' in step]
    assert len(lines) >= 10
    script = tmp_path / 'lines'
    script.write_text('#!/bin/sh\n' + '\n'.join(lines) + '\n')
    done = run(shellcheck, '-e', 'SC2154', script)          # variables of the file itself
    assert done.returncode == 0, done.stdout


def units(tmp_path: Path, *changes: tuple[str, str]) -> list[Path]:
    """The units of one system, with this checkout in the place of ~/parity."""
    found = []
    for kind in ('service', 'timer'):
        text = (PIPELINES / f'parity-nightly@.{kind}').read_text().replace('%h/parity', str(TOP))
        for old, new in changes:
            text = text.replace(old, new)
        found.append(tmp_path / f'parity-nightly@onebox.{kind}')
        found[-1].write_text(text)
    return found


def test_systemd_accepts_the_units(tmp_path):
    analyze = tool('systemd-analyze', 'apt install systemd')
    done = run(analyze, 'verify', '--man=no', *units(tmp_path))
    assert (done.returncode, done.stderr) == (0, '')
    done = run(analyze, 'verify', '--man=no', *units(tmp_path, ('OnCalendar=*-*-*', 'OnCalendar=often'), ('ExecStart=', 'ExecStrat=')))
    assert 'ExecStr' in done.stderr
    assert 'lacks value setting' in done.stderr


@pytest.mark.parametrize('name, schema', [('gitlab-ci.yml', 'vendor.gitlab-ci'), ('github-actions.yml', 'vendor.github-workflows')])
def test_the_services_own_schema_accepts_it(name, schema):
    done = run(tool('check-jsonschema', 'pip install check-jsonschema'), '--builtin-schema', schema, PIPELINES / name)
    assert done.returncode == 0, done.stdout


def test_actionlint_accepts_it(tmp_path):
    actionlint = tool('actionlint', 'go install github.com/rhysd/actionlint/cmd/actionlint@latest')
    (tmp_path / 'actionlint.yaml').write_text('self-hosted-runner:\n  labels: [parity-login]\n')
    done = run(actionlint, '-config-file', tmp_path / 'actionlint.yaml', PIPELINES / 'github-actions.yml')
    assert done.returncode == 0, done.stdout


def test_what_the_files_start_is_there():
    text = ''.join(file.read_text() for file in PIPELINES.iterdir())
    started = set(re.findall(r'(?:^|[\s"/=-])(ci/[a-z]+)(?=["\s])', text))
    assert started == {'ci/nightly', 'ci/test', 'ci/venv'}
    assert all(os.access(TOP / name, os.X_OK) for name in started)
