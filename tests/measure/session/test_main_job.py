"""The README's own line, run for real on this machine; what it stores, and what is made of it."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

import sessions as made
from conftest import activated, belong_to, copied, shell
from jobs import HPCC, QUICK, one_at_a_time, sessions_of, verdict_of
from parity.judge.store import writing
from parity.nightly import guard
from warm import nightly, reframe

LINE = '. ci/activate && reframe -c checks/ -r'
CASE = 'FileCopy%mode=small-write%clients=one%sync=durable'


@pytest.fixture(scope='module')
def measured(tmp_path_factory):
    """A checkout in which the README's line ran one case of each check, of those that run here.

    CASE has references, proposed of impossible nights and accepted.
    """
    copy = copied(tmp_path_factory.mktemp('measured'))
    with pytest.MonkeyPatch.context() as patch:
        belong_to(copy, patch)
        patch.setenv('PARITY_RESULTS', str(copy / 'results'))      # to this process, too
        site = copy / 'systems' / 'local' / 'system.yaml'          # HPCC's size follows the memory, and takes 3 s of two cores then
        site.write_text(site.read_text().replace('    extras:\n', f'    extras:\n      memory_bytes: {96 << 20}\n', 1))
        store_impossible_nights()
        propose_and_accept(copy)
        rehearsed = reframe(copy, '-c checks/ --dry-run --exec-policy=serial', RFM_COLORIZE='n').stdout
        cases = one_of_each(rehearsed)
        done = shell(f"{LINE} -n '^({'|'.join(cases)})$'", copy, RFM_COLORIZE='n')
        code, verdict = verdict_of(copy)
        yield SimpleNamespace(checkout=copy, cases=cases, printed=done.stdout, session=sessions_of(copy)[-1], verdict=verdict, code=code)


def store_impossible_nights() -> None:
    """Twelve in which the disk wrote CASE at 1000000 MB/s, stored by ReFrame's own means."""
    name, metrics = CASE.replace('%', ' %'), {'rate': {'unit': 'MB/s', 'better': 'higher'}, 'hangs': {'unit': 'count', 'better': 'lower'}}
    for night in range(12):
        began = 1.79e9 + night * 86400
        case = made.ran(name, display_name=name, unique_name='FileCopy_8', job_completion_time_unix=began, parity={'size': 'quick', 'metrics': metrics}, perfvalues={
            'local:default:rate': [1e6 + night, 0, None, None, 'MB/s', 'pass'], 'local:default:hangs': [0.0, 0, None, None, 'count', 'pass']})
        session = {'id': str(night), 'plan': {'system': 'local', 'cases': [], 'checks': [], 'problems': []}}
        writing.store(writing.as_report(session, [case], began, began + 9))


def propose_and_accept(copy: Path) -> None:
    shutil.rmtree(copy / 'systems' / 'local' / 'references', ignore_errors=True)    # of this machine
    done = shell('. ci/activate && parity refs propose --system local', copy)
    assert done.returncode == 0 and f'{CASE}.rate@local:default' in done.stdout, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "next: parity refs accept --all --system local --why '...'"
    done = shell('. ci/activate && parity refs accept --all --system local --why "the disk of a dream" --by ana '
                 '&& parity refs lint --system local', copy)
    assert done.returncode == 0 and 'local: 2 references, no error, 0 warnings' in done.stdout, done.stdout + done.stderr


def one_of_each(printed: str) -> list[str]:
    """The first case of each check that a dry-run did not skip; of FileCopy it is CASE."""
    able = [name.replace(' ', '') for name in re.findall(r'^\[ +OK +\] \( *\d+/\d+\) (.*) /\w+ @', printed, re.M)]
    assert CASE in able, printed
    return list({name.partition('%')[0]: name for name in [*reversed(able), CASE]}.values())


def cells_are_whole(session: dict, verdict: dict, cases: int) -> None:
    """Each of the cases ran by itself, has figures, and each figure is a cell."""
    ran = [case for case in session['runs'][0]['testcases'] if case['result'] != 'skip']
    assert len(ran) == cases and all(r['perfvalues'] for r in ran)
    one_at_a_time(ran)
    assert all(r['parity']['watched']['left'] == [] for r in ran)
    assert verdict['coverage']['cells'] == len(verdict['cells'])
    assert {'check', 'case', 'system', 'partition', 'environ', 'metric', 'unit', 'value', 'reference',
            'limit', 'efficiency', 'verdict', 'reason'} <= set(verdict['cells'][0])
    if HPCC:
        hpl = next(c for c in verdict['cells'] if c['metric'] == 'hpl')
        assert hpl['value'] > 0 and hpl['limit'] > 0 and 0 < hpl['efficiency'] and 'hpcc stands in for HPL' in verdict['coverage']['line']
    assert verdict['session']['facts']['machine']['cpu_list'] and verdict['session']['facts']['before']


@pytest.mark.alone
def test_the_readme_line_runs_one_case_of_each_check_by_itself(measured):
    count = len(measured.cases)
    assert f'Ran {count}/{count} test case(s) from {count} check(s)' in measured.printed, measured.printed[-2000:]
    cells_are_whole(measured.session, measured.verdict, count)
    assert {cell['case'].replace(' ', '') for cell in measured.verdict['cells']} == set(measured.cases)


@pytest.mark.alone
@pytest.mark.full
def test_the_readme_line_runs_every_case_by_itself(checkout, planned, rehearsed):
    ended = re.findall(r'^\[ +(OK|SKIP) +\] ', (rehearsed('local') / 'printed').read_text(), re.M)
    done = shell(LINE, checkout)
    assert f'Ran {ended.count("OK")}/{len(ended)} test case(s)' in done.stdout, done.stdout[-2000:]
    session, = sessions_of(checkout)
    code, verdict = verdict_of(checkout)
    assert code == 0
    cells_are_whole(session, verdict, ended.count('OK'))
    assert len(verdict['cells']) == sum(len(case.metrics) for case in planned('local').cases)


@pytest.mark.alone
def test_a_run_applies_what_was_proposed_and_accepted(measured, monkeypatch):
    words = {c['metric']: (c['verdict'], c['reference'], c['low']) for c in measured.verdict['cells'] if c['check'] == 'FileCopy'}
    assert words['rate'] == ('regressed', 1e6, pytest.approx(0.97e6)) and words['hangs'] == ('ok', 0.0, None) and words['seconds'][0] == 'unreferenced'
    assert measured.code == 1 and {c['verdict'] for c in measured.verdict['cells']} <= {'regressed', 'ok', 'unreferenced', 'skipped'}
    said = shell('. ci/activate && parity verdict', measured.checkout).stdout
    assert 'storage 100 % slower' in said and 'of the reference' in said
    # an expired reference and other software are told before a run
    references = measured.checkout / 'systems' / 'local' / 'references' / 'default.yaml'
    monkeypatch.setenv('PARITY_ROOT', str(measured.checkout))
    references.write_text(references.read_text().replace('expires: 20', 'expires: 19'))
    said = '\n'.join(guard.warnings(SimpleNamespace(system='local', checks=[])))
    assert 'default.yaml:8: FileCopy/quick' in said, said
    assert ', and 1 more reference: expired on 19' in said and 'its software changed' in said


#: Bounds that this machine keeps; the other cases have none.
REFERENCES = ('FileCopy: {$index: [size, mode, sync], quick: {large-copy: {durable: {'
              'hangs: [0, null, 0, count], rate: [5.0, -0.05, null, MB/s]}}}}\n')


def test_nightly_finds_the_references_judges_reports_and_states_its_seconds_and_no_damage_stops_it(checkout):
    (checkout / 'results' / 'running').mkdir(parents=True)
    (checkout / 'results' / 'running' / 'x.json').write_text('{')
    (checkout / 'results' / 'results.db').touch()
    (checkout / 'systems' / 'local' / 'references').mkdir(exist_ok=True)
    (checkout / 'systems' / 'local' / 'references' / 'default.yaml').write_text(REFERENCES)
    done = shell(f'ci/nightly {QUICK}', checkout)
    assert done.returncode == 0 and 'judged' in done.stdout and 'benchmarks ran' in done.stdout, done.stdout[-2000:] + done.stderr
    assert 'is no journal of a session' in done.stderr
    beat = json.loads((checkout / 'results' / 'heartbeat' / 'local.json').read_text())
    assert beat['exit_code'] == 0 and beat['end'] >= beat['start'] and f'session {beat["session"][:8]}' in done.stdout
    report = checkout / 'results' / 'report'
    verdict = json.loads((report / 'verdict.json').read_text())
    assert (report / 'index.html').is_file() and 'missing' not in verdict['counts']
    words = {(c['case'].partition('%mode=')[2], c['metric']): c['verdict'] for c in verdict['cells']}
    durable, as_is = 'large-copy %clients=one %sync=durable', 'large-copy %clients=one %sync=as-is'
    assert words[durable, 'rate'] == words[durable, 'hangs'] == 'ok' and words[as_is, 'rate'] == 'skipped'
    assert words[durable, 'seconds'] == words[as_is, 'hangs'] == 'unreferenced'


@pytest.mark.parametrize('requires, code, said', [
    ('[]', 0, 'no mpirun: hpcc; no Spack: HPL STREAM; parity\'s own: filecopy); parity doctor --system local says what they need; without GitHub: parity software mirror DIR'),
    ('[hpcc]', 3, 'Hpcc: never ran (incident 1, new) no environment offers hpcc (no mpirun), which the system requires')])
def test_without_an_mpi_a_code_is_skipped_unless_the_system_requires_it(checkout, tmp_path, requires, code, said):
    site = checkout / 'systems' / 'local' / 'system.yaml'
    site.write_text(site.read_text().replace('requires: []', f'requires: {requires}'))
    tools = tmp_path / 'bin'
    tools.mkdir()
    for name in ('bash', 'sh', 'env', 'dirname', 'python3', 'cat', 'hostname', 'uname', 'nproc', 'mkdir', 'ls'):
        if found := shutil.which(name):
            (tools / name).symlink_to(found)
    done = nightly(checkout, f"--repeats=1 -n 'Hpcc|{CASE}'", PATH=activated(checkout, str(tools)))
    assert done.returncode == code, done.stdout[-1500:] + done.stderr
    printed = ' '.join(done.stdout.split())
    assert said in printed and 'parity doctor --system local' in printed, done.stdout[-2500:]
    if code == 0:
        brings = 'ci/quickstart (installs what lacks as root)' if os.geteuid() == 0 else 'as root: apt-get install hpcc openmpi-bin'
        assert f'next {brings}' in printed and 'None of the 3 selected codes has its program here: ' in printed, done.stdout[-2500:]
