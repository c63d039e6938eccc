"""What is wrong is named, in one line and with the right exit code, before anything runs."""

from __future__ import annotations

import os
import subprocess

import pytest

from conftest import shell
from jobs import ALL_HERE, CELLS, QUICK


@pytest.mark.parametrize('write, arguments, names', [
    (('checks/x.py', 'import nope\n'), '', 'checks/x.py: cannot be loaded'),
    (('checks/x.py', 'x = 1\n'), '', 'checks/x.py: yields no check'),
    (('checks/x.py', 'import reframe\ndef broken(:\n'), '', 'checks/x.py: cannot be loaded'),
    (('checks/deep/er/x.py', 'x = 1\n'), '', 'checks/deep/er/x.py: yields no check'),
    (('checks/compute/twice.py', 'COPY checks/compute/hpcc.py'), '', "'Hpcc'"),
    (('checks/x.py', 'import reframe as rfm\n@rfm.simple_test\nclass Bare(rfm.RunOnlyRegressionTest):\n'
      "    valid_systems = ['*']\n    valid_prog_environs = ['*']\n"), '', 'Bare declares no metrics'),
    (('checks/x.py', 'import reframe as rfm\nfrom parity.check.workload import Workload\n@rfm.simple_test\n'
      "class R(rfm.RunOnlyRegressionTest, Workload):\n    reference = {'$ref': 'nowhere.yaml'}\n"), '', 'nowhere.yaml'),
    (None, '-n NoSuchCheck', 'the selection is empty: -n NoSuchCheck'),
    (None, '--system nosuch', "unknown system 'nosuch'; valid: example-pbs, example-slurm, onebox, onebox-pbs, local"),
    (None, '--nonsense', 'nonsense'),
    (None, '--time-limit 0', '--time-limit 0'),
    (('systems/local/references/default.yaml', 'Hpcc:\n  $index: [size]\n  quick:\n    hlp: [1, -0.1, 0.1, Gflop/s]\n'),
     '', "default.yaml:4: unknown metric 'hlp'; did you mean 'hpl'?"),
    (('systems/local/references/default.yaml', 'Hpcc:\n  $index: [size]\n  quik:\n    hpl: [1, -0.1, 0.1, Gflop/s]\n'),
     '', "default.yaml:3: unknown size 'quik'; did you mean 'quick'?"),
    (('systems/local/references/default.yaml', 'Hpcc:\n  $index: [size, moed]\n  quick: {}\n'), '', "default.yaml:2: unknown parameter 'moed'"),
    (('systems/local/references/default.yaml', 'Hpcc:\n  $index: [size]\n'), '', 'Hpcc has no reference'),
    (('systems/local/references/default.yaml', 'Tcp:\n  $index: [size, where]\n  quick: {}\n'),
     '', 'default.yaml:2: Tcp needs an $index with size and threading'),
    (('systems/local/references/default.yaml', ''), '', 'holds none'),
    (('systems/local/references/default.yaml', 'Hpcc:\n  $index: [size]\n  quick:\n    hpl: [.nan, -0.1, 0.1, Gflop/s]\n'),
     '', 'default.yaml:4: hpl: nan is no finite number'),
    (('systems/local/references/default.yaml', 'Hpcc:\n  $index: [size]\n  quick:\n    1: [1, -0.1, 0.1, Gflop/s]\n'),
     '', "unknown metric '1'"),
    (('systems/local/references/default.yaml', '? [a, b]\n: 1\n'), '', 'a key must be plain text'),
    (None, '-S siez=nightly', "-S siez=nightly: no check has a variable 'siez'"),
    (None, '-S NoSuch.size=quick', "no check 'NoSuch' with a variable 'size'"),
    (('systems/local/references/default.yaml', 'Hpcx:\n  $index: [size]\n'), '', "unknown check 'Hpcx'"),
    (('systems/local/references/defualt.yaml', '{}\n'), '', "unknown partition 'defualt.yaml'"),
    (('systems/local/references/default.yaml', 'Hpcc: [\n'), '', 'default.yaml:2'),
    (('systems/local/system.yaml', 'name: local\npartitons: []\n'), '', "system.yaml:2: partitons: no such key"),
])
def test_what_is_wrong_is_named_before_anything_runs(checkout, write, arguments, names):
    if write:
        file, text = checkout / write[0], write[1]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text((checkout / text.split()[1]).read_text() if text.startswith('COPY') else text)
    done = shell(f'ci/nightly --dry-run {arguments}', checkout)
    assert done.returncode == 2, done.stdout + done.stderr
    assert names in done.stderr and 'Traceback' not in done.stderr


def test_the_dry_run_of_the_whole_suite_is_well(checkout):
    done = shell('ci/nightly --dry-run', checkout)
    assert done.returncode == (0 if ALL_HERE else 3), done.stderr
    assert f'112 cases, {CELLS} cells planned' in done.stdout
    assert not (checkout / 'results' / 'results.db').exists()


@pytest.mark.skipif(os.geteuid() != 0, reason='needs root to mount a small file system')
def test_a_full_disk_is_one_line_and_exit_code_4(checkout):
    results = checkout / 'results'
    results.mkdir()
    if subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', results], capture_output=True).returncode:
        pytest.skip('mount is not permitted here')
    try:
        done = shell('ci/nightly', checkout)
    finally:
        subprocess.run(['umount', results], check=True)
    assert done.returncode == 4 and 'No space left' in done.stderr and 'Traceback' not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_results_that_cannot_be_written_are_one_line_and_exit_code_4(checkout):
    (checkout / 'results').write_text('a file stands here')
    done = shell('ci/nightly', checkout)
    assert done.returncode == 4 and 'results' in done.stderr and 'Traceback' not in done.stderr


def test_scratch_that_cannot_be_written_fails_its_cases_with_the_reason(checkout):
    system = checkout / 'systems' / 'local' / 'system.yaml'
    system.write_text(system.read_text().replace('$PARITY_RESULTS/scratch', '/proc/nowhere'))
    done = shell(f'ci/nightly {QUICK}', checkout)
    assert done.returncode == 4, done.stdout[-1500:]
    assert 'FAILED  storage' in done.stdout and '/proc/nowhere' in done.stdout


def test_a_deprecated_variable_is_still_told_with_its_file(checkout):
    """ReFrame's warnings that are heard keep their place; those that it silences cost nothing."""
    (checkout / 'checks' / 'old.py').write_text('''
import reframe as rfm
@rfm.simple_test
class Old(rfm.RunOnlyRegressionTest):
    valid_systems = valid_prog_environs = ['*']
    variables = {'A': '1'}
''')
    done = shell('. ci/activate && reframe -c checks/ -l', checkout, RFM_COLORIZE='n')
    assert "old.py:4: WARNING: the use of 'variables' is deprecated" in done.stdout + done.stderr
