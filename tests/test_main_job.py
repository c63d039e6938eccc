"""The README's own line, run for real on this machine; what it stores, and what is made of it."""

from __future__ import annotations

import json
import shutil

import pytest

from conftest import shell
from jobs import ALL_HERE, CELLS, HPCC, LISTED, QUICK, RUN, one_at_a_time, sessions_of, verdict_of

LINE = '. ci/activate && reframe -c checks/ -r'


@pytest.mark.alone
def test_the_readme_line_runs_every_case_by_itself(checkout):
    done = shell(LINE, checkout)
    assert f'Ran {RUN}/{LISTED} test case(s)' in done.stdout, done.stdout[-2000:]
    session, = sessions_of(checkout)
    ran = [case for case in session['runs'][0]['testcases'] if case['result'] != 'skip']
    assert len(ran) == RUN and all(r['perfvalues'] for r in ran)
    one_at_a_time(ran)

    code, verdict = verdict_of(checkout)
    assert code == (0 if ALL_HERE else 3)
    assert verdict['coverage']['cells'] == len(verdict['cells']) == CELLS
    cell = verdict['cells'][0]
    assert {'check', 'case', 'system', 'partition', 'environ', 'metric', 'unit', 'value', 'reference',
            'limit', 'efficiency', 'verdict', 'reason'} <= set(cell)
    if HPCC:
        hpl = next(c for c in verdict['cells'] if c['metric'] == 'hpl')
        assert hpl['value'] > 0 and hpl['limit'] > 0 and 0 < hpl['efficiency']
        assert 'hpcc stands in for HPL' in verdict['coverage']['line']
    assert verdict['session']['facts']['machine']['cpu_list']
    assert 'load_1min' in json.dumps(verdict['session']['facts']['before']) or verdict['session']['facts']['before']


def test_nightly_judges_reports_and_states_its_overhead(checkout):
    done = shell(f'ci/nightly {QUICK}', checkout)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert 'judged' in done.stdout and 'overhead' in done.stdout
    report = checkout / 'results' / 'report'
    assert (report / 'index.html').is_file() and (report / 'verdict.json').is_file()
    assert 'missing' not in json.loads((report / 'verdict.json').read_text())['counts']


def test_without_an_mpi_hpcc_is_missing_not_skipped(checkout, tmp_path):
    tools = tmp_path / 'bin'
    tools.mkdir()
    for name in ('bash', 'sh', 'env', 'dirname', 'python3', 'cat', 'hostname', 'uname', 'nproc', 'mkdir', 'ls'):
        if found := shutil.which(name):
            (tools / name).symlink_to(found)
    done = shell(f'ci/nightly {QUICK[:-1]}|Hpcc\'', checkout, PATH=str(tools))
    assert done.returncode == 3, done.stdout[-1500:] + done.stderr
    assert 'MISSING  compute' in done.stdout and 'no environment offers hpcc' in done.stdout
    rehearsed = shell('ci/nightly --dry-run', checkout, PATH=str(tools))
    assert rehearsed.returncode == 3 and '394 cells would be missing' in rehearsed.stderr


REFERENCES = """\
# accepted by a test, by hand
FileCopy:
  $index: [size, mode, sync]
  quick:
    large-copy:
      durable:
        hangs: [0, null, 0, count]
        rate: [1.0e+12, -0.05, null, MB/s]
"""


def test_accepted_references_are_found_and_judged(checkout):
    folder = checkout / 'systems' / 'local' / 'references'
    folder.mkdir()
    (folder / 'default.yaml').write_text(REFERENCES)
    done = shell("ci/nightly -n 'FileCopy.*large-copy.*clients=one'", checkout)
    assert done.returncode == 1, done.stdout[-2500:] + done.stderr
    words = {(c['case'].split('sync=')[1], c['metric']): c['verdict'] for c in verdict_of(checkout)[1]['cells']}
    assert words['durable', 'rate'] == 'regressed' and words['durable', 'hangs'] == 'ok'
    assert words['durable', 'seconds'] == words['as-is', 'hangs'] == 'unreferenced'
    assert words['as-is', 'rate'] == 'skipped'
    assert 'REGRESSED  storage' in done.stdout and 'of the reference' in done.stdout
