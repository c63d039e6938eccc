"""The files of ci/pipelines: the tool that reads each file accepts it, and what it starts is there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest
import yaml

from conftest import PATIENCE, TOP

PIPELINES = TOP / 'ci' / 'pipelines'
#: The lines that cron hands to sh: each follows five fields of time.
CRON = re.findall(r'^(?:[\d*,/-]+ ){5}(.*)$', (PIPELINES / 'parity.crontab').read_text(), re.M)


def run(name: object, *words: object, install: str = '', **options) -> subprocess.CompletedProcess:
    """Run a tool; skip the test where it is absent."""
    found = shutil.which(name, path=f'{TOP}/.venv/bin:{os.environ["PATH"]}:/usr/sbin')
    if not found:
        pytest.skip(f'{name} is not here: {install}')
    return subprocess.run([found, *map(str, words)], capture_output=True, text=True, timeout=PATIENCE, **options)


@pytest.mark.parametrize('code, mail', [(0, ''), (1, 'exit code 1\nasked: --system x --time-limit 8\nproblem\n'),
                                        (4, 'exit code 4\nasked: --system x --time-limit 8\nproblem\n')])
def test_cron_mails_only_a_night_that_did_not_end_well(tmp_path, code, mail):
    nightly = tmp_path / 'check out' / 'ci' / 'nightly'
    nightly.parent.mkdir(parents=True)
    nightly.write_text(f'#!/bin/sh\necho "asked: $*"\necho problem >&2\nexit {code}\n')
    nightly.chmod(0o755)
    done = run('sh', '-c', CRON[0], env={'PATH': '/usr/bin:/bin', 'CHECKOUT': str(tmp_path / 'check out'), 'SYSTEM': 'x', 'TMPDIR': str(tmp_path)})
    assert done.stdout + done.stderr == mail
    assert [p.name for p in tmp_path.iterdir()] == ['check out']


def test_the_crontab_holds_no_percent_sign_which_cron_takes_for_a_line_break():
    assert len(CRON) == 2 and '%' not in ''.join(CRON)


def test_shellcheck_accepts_all_lines(tmp_path):
    gitlab, github = (yaml.safe_load((PIPELINES / name).read_text()) for name in ('gitlab-ci.yml', 'github-actions.yml'))
    lines = CRON + [line for job in gitlab.values() for key in ('before_script', 'script', 'after_script') for line in job.get(key, ())]
    lines += [step['run'] for job in github['jobs'].values() for step in job['steps'] if 'run' in step]
    assert len(lines) >= 10
    (tmp_path / 'lines').write_text('#!/bin/sh\n' + '\n'.join(lines) + '\n')
    done = run('shellcheck', '-e', 'SC2154', tmp_path / 'lines', install='apt install shellcheck')      # variables of the file itself
    assert done.returncode == 0, done.stdout


def test_systemd_accepts_the_units(tmp_path):
    files = [tmp_path / f'parity-nightly@onebox.{kind}' for kind in ('service', 'timer')]
    for file in files:
        file.write_text((PIPELINES / file.name.replace('onebox', '')).read_text().replace('%h/parity', str(TOP)))
    done = run('systemd-analyze', 'verify', '--man=no', *files, install='apt install systemd')
    assert (done.returncode, done.stderr) == (0, '')


@pytest.mark.parametrize('tool, install, words', [
    ('crontab', 'apt install cron', ['-n', 'parity.crontab']),
    ('check-jsonschema', 'pip install check-jsonschema', ['--builtin-schema', 'vendor.gitlab-ci', 'gitlab-ci.yml']),
    ('check-jsonschema', 'pip install check-jsonschema', ['--builtin-schema', 'vendor.github-workflows', 'github-actions.yml']),
    ('actionlint', 'go install github.com/rhysd/actionlint/cmd/actionlint@latest', ['-config-file', 'CONFIG', 'github-actions.yml'])])
def test_the_tool_that_reads_a_file_accepts_it(tmp_path, tool, install, words):
    (tmp_path / 'actionlint.yaml').write_text('self-hosted-runner:\n  labels: [parity-login]\n')
    done = run(tool, *(tmp_path / 'actionlint.yaml' if word == 'CONFIG' else word for word in words), install=install, cwd=PIPELINES)
    if tool == 'crontab' and 'nvalid option' in done.stderr:
        pytest.skip('this crontab has no -n (check only)')
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_scripts_that_the_files_start_are_there():
    text = ''.join(file.read_text() for file in PIPELINES.iterdir())
    started = set(re.findall(r'(?:^|[\s"/=-])(ci/[a-z]+)(?=["\s])', text))
    assert started == {'ci/nightly', 'ci/test', 'ci/venv'} and all(os.access(TOP / name, os.X_OK) for name in started)
