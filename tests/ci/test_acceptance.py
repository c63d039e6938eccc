"""docs/accepting-a-new-machine.md: its contract is valid, and each of its commands runs."""

from __future__ import annotations

import re
import shutil

import pytest
import yaml

import warm
from conftest import TOP

PAGE = (TOP / 'docs' / 'accepting-a-new-machine.md').read_text()
#: A check that any machine can run at once.
PROBE = '''
import reframe as rfm
from reframe.core.builtins import parameter
from parity.measure.check.workload import Metric, Workload

@rfm.simple_test
class Probe(rfm.RunOnlyRegressionTest, Workload):
    executable = 'echo'
    executable_opts = ['5']
    threads = parameter(['all'])
    metrics = (Metric('double', 'Gflop/s', 'higher'),)

    def parse(self, text):
        return {'double': float(text)}
'''
#: What that check shows.
PROMISE = {'id': 'double', 'promise': 'A node computes', 'partition': 'default', 'check': 'Probe', 'parameters': {'threads': 'all'},
           'size': 'quick', 'metric': 'double', 'at_least': 0.001, 'unit': 'Gflop/s', 'runs': 2}


def commands() -> list[str]:
    return re.findall(r'^    ((?:parity|ci/|python).*)', PAGE, re.M)


def stated() -> dict:
    return yaml.safe_load(re.search(r'```yaml\n(.*?)```', PAGE, re.S)[1])


def test_the_page_has_the_whole_way():
    assert [line.split()[:3] for line in commands()] == [
        ['parity', 'doctor', '--system'], ['ci/nightly', '--system', 'NAME'], ['parity', 'contract', 'run'], ['parity', 'contract', 'status'],
        ['parity', 'contract', 'report'], ['parity', 'jobs', 'render'], ['parity', 'refs', 'propose']]


def test_its_contract_is_valid_on_a_slurm_site(checkout, results):
    file = checkout / 'systems' / 'example-slurm' / 'contract.yaml'
    file.write_text(yaml.safe_dump(stated()))
    done = warm.parity(checkout, 'contract status --system example-slurm')
    assert done.returncode == 3 and 'example-slurm, Offer 4711 of 2 March 2026: 3 clauses: 3 open' in done.stdout, done.stdout + done.stderr
    assert 'at least 330 GB/s of each node' in done.stdout and 'at most 1.5 us of all together' in done.stdout


def test_every_command_of_the_page_runs(checkout):
    (checkout / 'checks' / 'compute' / 'probe.py').write_text(PROBE)
    (checkout / 'systems' / 'local' / 'contract.yaml').write_text(yaml.safe_dump({'clauses': [PROMISE]}))
    shutil.copytree(TOP / 'docs', checkout / 'docs')
    codes = {}
    for line in commands():
        name = 'example-slurm' if 'jobs render' in line else 'local'
        line = line.replace('NAME', name).replace('contract run', 'contract run --yes')
        if line.startswith('ci/nightly'):
            line += " -n 'Probe%threads=all'"
        done = warm.line(checkout, line)
        assert 'Traceback' not in done.stderr and done.stdout + done.stderr, line
        codes[' '.join(line.split()[:3])] = done.returncode, done.stdout + done.stderr
    for command in ('parity contract run', 'parity contract status', 'parity contract report', 'parity jobs render', 'ci/nightly --system local'):
        assert codes[command][0] == 0, codes[command]
    assert re.search(r'met +double +[\d.]+ \[.*\] Gflop/s +at least 1 Mflop/s of each node +1 node, 5 runs', codes['parity contract status'][1])
    assert 'ok contract 1 clause, valid' in re.sub(' +', ' ', codes['parity doctor --system'][1]), codes['parity doctor --system'][1]
    assert codes['parity refs propose'][0] == 3, 'no night is stored'
    page = (checkout / 'acceptance.html').read_text()
    assert 'A node computes' in page and 'for the vendor' in page


@pytest.mark.parametrize('word, code', [('met', 0), ('not met', 1), ('open', 3), ('missing', 3)])
def test_the_page_says_the_exit_code_of_each_word(word, code):
    row = re.search(rf'^\| {word} \|.*\| (\d) \|$', PAGE, re.M)
    assert row and int(row[1]) == code
