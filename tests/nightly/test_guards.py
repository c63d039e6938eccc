"""What is wrong is named, in one line and with the right exit code, before anything runs."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace

import pytest

from commands import module, parity
from conftest import OBEYS, TOP, activated, belong_to, copied, shell
from parity.judge.verdict.model import CodeCoverage, Coverage
from parity.measure.rfm import planning
from parity.nightly import guard, run
from parity.site import plan
from warm import nightly, reframe

#: One check: what the command line gets wrong is told of it as of all.
HPCC = str(TOP / 'checks' / 'compute' / 'hpcc' / 'hpcc.py')


@pytest.fixture
def here(site, monkeypatch, results, surveyed):
    """Runs ci/nightly in this process, on a checkout with one system; returns exit code, output and errors."""
    monkeypatch.setenv('RFM_CONFIG_FILES', str(TOP / 'reframe' / 'settings.py'))
    monkeypatch.setenv('PATH', activated(TOP, os.environ['PATH']))
    surveyed(TOP, results)
    monkeypatch.setattr('parity.measure.session.runner.rehearse', lambda arguments: None)
    for name in ('jobs', 'spack.yaml'):
        (site.parents[2] / name).symlink_to(TOP / name)

    def run(planned: plan.Plan | None, *arguments: str) -> tuple[int, str, str]:
        if planned:
            monkeypatch.setattr('parity.measure.rfm.planning.of_command', lambda asked: planned)
        done = module('parity.nightly', *arguments)
        return done.returncode, done.stdout, done.stderr
    return run


BAD_CHECKS = {
    'unloadable.py': ('import reframe\ndef broken(:\n', 'checks/unloadable.py: cannot be loaded'),
    'empty.py': ('x = 1\n', '/empty.py: yields no check'),
    'other/empty.py': ('x = 1\n', ' (and 1 more file)'),
    'compute/twice.py': ((TOP / 'checks' / 'compute' / 'hpcc' / 'hpcc.py').read_text(), "'Hpcc'"),
    'deep/bare.py': ('import reframe as rfm\nfrom parity.check import Workload\n@rfm.simple_test\n'
                        'class Bare(rfm.RunOnlyRegressionTest, Workload):\n'
                        "    valid_systems = ['*']\n    valid_prog_environs = ['*']\n",
                        'checks/deep/bare.py: Bare declares no metrics'),
    'deep/locked.py': ('import threading\nimport reframe as rfm\nfrom reframe.core.builtins import run_after\n@rfm.simple_test\n'
                       "class Locked(rfm.RunOnlyRegressionTest):\n    valid_systems = valid_prog_environs = ['*']\n    @run_after('init')\n"
                       "    def hold(self):\n        self.held = {'by': [threading.Lock()]}\n", "Locked.held['by'][0]\" is not copyable"),
    'nowhere.py': ('import reframe as rfm\nfrom parity.check import Workload\n@rfm.simple_test\n'
                   "class R(rfm.RunOnlyRegressionTest, Workload):\n    reference = {'$ref': 'nowhere.yaml'}\n", 'nowhere.yaml'),
}


def test_every_check_and_reference_that_is_wrong_is_named_before_anything_runs(checkout):
    for name, (text, _) in BAD_CHECKS.items():
        (checkout / 'checks' / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / 'checks' / name).write_text(text)
    (checkout / 'systems' / 'local' / 'references').mkdir(exist_ok=True)
    (checkout / 'systems' / 'local' / 'references' / 'default.yaml').write_text('Hpcc: [\n')
    done = nightly(checkout, '--dry-run')
    assert done.returncode == 2, done.stdout + done.stderr
    for said in (*(said for _, said in BAD_CHECKS.values()), 'default.yaml:2'):
        assert sum(said in line for line in done.stderr.splitlines()) == 1, f'{said} in {done.stderr}'
    assert 'Traceback' not in done.stderr


#: Folders below checks/ without a check: their files, what doctor says of each, and what mends it.
LEFTOVERS = {
    'compute/gone': (['__pycache__/gone.cpython-311.pyc'], 'it holds nothing but what Python compiled', 'rm -r checks/compute/gone'),
    'old/gone': (['deep/__pycache__/a.cpython-311.pyc'], 'it holds nothing but what Python compiled', 'rm -r checks/old/gone'),
    'memory/empty': ([], 'it holds nothing but what Python compiled', 'rm -r checks/memory/empty'),
    'network/my notes': (['notes.txt', 'outputs/a.txt'], 'it has notes.txt, outputs/a.txt, but no my notes.py',
                         "add my notes.py; or rm -r 'checks/network/my notes'"),
    'storage/helper': (['helper_output.py'], 'it has helper_output.py, but no helper.py that uses parity',
                       'name the check helper.py; or rm -r checks/storage/helper'),
    'storage/both': (['both.py', 'programs/other.py'], 'it has programs/other.py, but no both.py that uses parity',
                     'name the check both.py; or rm -r checks/storage/both')}
#: Folders that doctor does not name: scripts and sources of tests that know nothing of parity, and hidden folders.
NO_LEFTOVERS = {'compute/script': ['tool.py'], 'network/src': ['a.c'], 'lib/tests': ['data.txt'], 'compute/.idea': ['a.xml'], 'compute/__pycache__': ['a.pyc']}


def plant(checks, name: str, files: list[str]) -> None:
    """Make a folder; Python files that are no check's use parity, and do nothing."""
    (checks / name).mkdir(parents=True)
    for file in files:
        (checks / name / file).parent.mkdir(parents=True, exist_ok=True)
        uses = file.endswith('.py') and file not in ('tool.py', 'both.py')
        (checks / name / file).write_text('from parity.base import units\n' if uses else '')


@pytest.fixture(scope='module')
def examined(tmp_path_factory, surveyed):
    """A night rehearsed and doctor's findings on checks/, where folders are no codes and ops has another name."""
    copy = copied(tmp_path_factory.mktemp('leftovers'))
    for name, files in ({name: files for name, (files, *_) in LEFTOVERS.items()} | NO_LEFTOVERS).items():
        plant(copy / 'checks', name, files)
    (copy / 'checks' / 'compute' / 'ops').rename(copy / 'checks' / 'compute' / 'kernels')
    with pytest.MonkeyPatch.context() as patch:
        belong_to(copy, patch)
        surveyed(copy, copy / 'results')
        night = nightly(copy, '--dry-run -n Ops%threads=one')
        active = {'PARITY_ROOT': str(copy), 'RFM_CONFIG_FILES': str(copy / 'reframe' / 'settings.py'), 'PATH': activated(copy, os.environ['PATH'])}
        refused = parity('parse', 'stream', 'nosuch.txt', **active)
        findings = json.loads(parity('doctor', '--json', **active).stdout)['findings']
    return SimpleNamespace(night=night, refused=refused, of_checks=[each for each in findings if each['area'] == 'checks'])


def test_a_folder_without_a_check_stops_nothing_and_doctor_names_it(examined):
    printed = examined.night.stdout + examined.night.stderr
    assert examined.night.returncode == 0 and 'gone' not in examined.night.stderr + examined.refused.stderr and 'all is well' in printed, printed
    said = {(each['what'], each['fix']) for each in examined.of_checks if 'kernels' not in each['what']}
    assert said == {(f'checks/{name} is no code and is left out: {why}', fix) for name, (_, why, fix) in LEFTOVERS.items()}
    assert {each['exit_code'] for each in examined.of_checks} == {0}


def test_a_check_whose_file_has_another_name_runs_and_doctor_names_it(examined):
    assert '1 case, 5 cells planned' in examined.night.stdout and 'all is well' in examined.night.stdout
    named, = (each for each in examined.of_checks if 'kernels' in each['what'])
    assert 'checks/compute/kernels is no code and is left out: it has ops.py' in named['what']
    assert named['fix'] == 'name the check kernels.py; or rm -r checks/compute/kernels'


@pytest.mark.parametrize('arguments, names', [
    ('-n NoSuchCheck', ['the selection is empty: -n NoSuchCheck', '(checks: Hpcc)']),
    ('-S siez=nightly -S NoSuch.size=quick', ["-S siez=nightly: no check has a variable 'siez'", "no check 'NoSuch' with a variable 'size'"]),
    ('--system nosuch', ["unknown system 'nosuch'; valid: local"]),
    ('--nonsense', ['nonsense']), ('--time-limit 0', ['--time-limit 0']), ('--repeats 0', ['--repeats 0'])])
def test_an_option_that_is_wrong_or_selects_nothing_is_named(here, monkeypatch, arguments, names):
    made = planning.of_command
    monkeypatch.setattr('parity.measure.rfm.planning.of_command', lambda asked: made(['-c', HPCC, *asked[2:]]))
    code, _, said = here(None, '--dry-run', *arguments.split())
    told = [line for line in said.splitlines() if 'nothing can run: ' not in line]      # on a machine without hpcc
    assert code == 2 and all(name in said for name in names) and len(told) <= len(names), said


@pytest.mark.parametrize('codes, check, said', [
    ('[osu]', ('Osu', 'network/osu', ['osu-gpu']), 'runs no check of osu: Osu needs osu-gpu; add what cuda has to codes'),
    ('[npb, osu-gpu]', ('Made', 'gpu/made', ['cuda', 'osu-gpu']), 'runs no check of osu-gpu: Made needs cuda; no code has the feature cuda: correct `needs` of the check'),
    ('[osu-gpu]', ('GpuOsu', 'gpu/osu', ['osu-gpu']), ''), ('[osu, osu-gpu]', ('Osu', 'network/osu', ['osu', 'osu-gpu']), '')])
def test_a_code_of_an_environment_that_can_run_none_of_its_checks_is_a_warning_with_its_line(site, codes, check, said):
    site.write_text(site.read_text().replace('environments: []', f'environments:\n  - name: cuda\n    codes: {codes}'))
    line, = [n for n, text in enumerate(site.read_text().splitlines(), 1) if text == f'    codes: {codes}']
    name, folder, needs = check
    made = plan.LoadedCheck(check=name, file=f'checks/{folder}/{folder.rpartition("/")[2]}.py', needs=needs, metrics=[])
    warned = [*guard.warnings(plan.Plan(system='local', cases=[], checks=[made], problems=[]))]
    assert warned == [f'{site}:{line}: environments.0.codes: cuda {said}'] * bool(said)


@pytest.mark.parametrize('name, more', [('acks', ', until: 2099-01-01'), ('levels', '')])
@pytest.mark.parametrize('cell, said', [('Gone.hpl', "unknown check 'Gone'; valid: Toy"), ('Toy.hpl', '')])
def test_an_entry_of_a_check_that_is_gone_is_a_warning_and_the_night_runs(site, name, more, cell, said):
    file = site.with_name(f'{name}.yaml')
    file.write_text(f'{name}:\n  - {{cell: {cell}@local:default, why: a known fan, by: ana, since: 2026-01-01{more}}}\n')
    made = plan.LoadedCheck(check='Toy', file='checks/toy.py', needs=[], metrics=[{'name': 'hpl', 'unit': 's', 'better': 'lower'}])
    planned = plan.Plan(system='local', cases=[], checks=[made], problems=[])
    assert guard.problems(planned) == []
    warned = [line for line in guard.warnings(planned) if name in line]
    assert warned == [f'{file}:2: {cell}@local:default: {said}'] * bool(said)


@pytest.mark.parametrize('name, said', [('Gromacs', 'no environment of example-slurm offers gromacs'), ('Gromax', 'the selection is empty: -n Gromax fits no case; did you mean \'Gromacs\'? (checks: Gromacs)')])
def test_a_dry_run_that_sets_nothing_up_ends_with_the_reason(checkout, name, said):
    done = reframe(checkout, f'--system example-slurm -c checks/compute/gromacs/gromacs.py -n {name} --dry-run')
    assert done.returncode == 0 and done.stderr.splitlines()[-1] == f'parity: nothing can run: {said}', done.stdout + done.stderr


#: Options of ReFrame that run one check.
OF_FILECOPY = f'-c {TOP}/checks/storage/filecopy -r'


@pytest.mark.parametrize('words, said', [
    (f'{OF_FILECOPY} -n FileCpoy', "-n FileCpoy fits no case; did you mean 'FileCopy'? (checks: FileCopy)"),
    (f'{OF_FILECOPY} -n FileCopy%mode=small-wrote%clients=one', "did you mean 'FileCopy%mode=small-write%clients=one%sync="),
    (f'{OF_FILECOPY} -t nowhere', '-r -t nowhere fits no case (checks: FileCopy)'),
    ('-c checks/ -r', '/checks: no such file or folder; valid after -c')])
def test_a_run_without_a_case_is_refused_and_stores_no_session(results_here, tmp_path, words, said):
    done = reframe(TOP, words, tmp_path)
    assert done.returncode == 2 and said in done.stderr and 'PASSED' not in done.stdout, done.stdout + done.stderr
    assert not (results_here / 'results.db').exists() and not [*results_here.glob('sessions/*'), *results_here.glob('running/*')]


@pytest.mark.parametrize('unwritable', ['', 'results.db'])
def test_a_run_whose_results_could_not_be_kept_is_refused(results_here, tmp_path, unwritable):
    for name in ('results.db', '.session-local.lock'):
        (results_here / name).touch()
    (results_here / unwritable).chmod(0o555)
    done = shell(f"{OBEYS} bash -c '. {TOP}/ci/activate && exec reframe {OF_FILECOPY}'", tmp_path)
    (results_here / unwritable).chmod(0o755)
    assert (done.returncode, done.stderr) == (4, f'parity: {results_here / unwritable}: Permission denied: results cannot be kept here; PARITY_RESULTS names another folder\n')


@pytest.mark.parametrize('name, locked, code, said', [
    ('rich', '99.0', 2, 'parity: warning: packages of other versions than requirements.lock: rich '),
    ('nowhere-to-be-had', '1.0', 4, 'parity: packages that are not installed: nowhere-to-be-had; run ci/venv: it makes .venv anew')])
def test_a_night_with_other_packages_than_its_lock_s_is_warned_of_or_refused(here, site, name, locked, code, said):
    (site.parents[2] / 'requirements.lock').write_text(f'{name}=={locked} \\\n')
    done = here(plan.Plan(system='local', cases=[], checks=[], problems=[plan.Problem(file='x', what='stops')]), '--dry-run')
    assert done[0] == code and said in done[2], done


def test_a_selection_of_which_nothing_can_run_ends_with_3_and_stores_nothing(checkout):
    """It opens no incident, and every feature that lacks is named."""
    (checkout / 'more').mkdir()
    for name in 'one', 'two':
        (checkout / 'more' / f'{name}.py').write_text(
            f"import reframe as rfm\n@rfm.simple_test\nclass No{name}(rfm.RunOnlyRegressionTest):\n"
            f"    valid_systems, valid_prog_environs = ['*'], ['+no{name}']\n")
    site = checkout / 'systems' / 'local' / 'system.yaml'
    site.write_text(site.read_text() + f'checks: [{checkout}/more]\n')
    for run_words, words, code in ((reframe, '-c more -r', 3), (nightly, "-n 'Noone|Notwo'", 3), (nightly, "-n 'Noone|Notwo' --dry-run", 3),
                                   (reframe, '-c more --dry-run', 0)):
        done = run_words(checkout, words)
        said = done.stderr.partition('parity: nothing can run: no environment of local offers ')[2]
        assert done.returncode == code and '+noone' in said and '+notwo' in said, (words, done.stdout, done.stderr)
    kept = checkout / 'results'
    assert not (kept / 'results.db').exists() and not [*kept.glob('sessions/*'), *kept.glob('running/*')]
    assert 'no incident is stored' in parity('incidents', PARITY_ROOT=str(checkout)).stdout


def test_reframe_s_own_run_prints_no_exit_code_of_parity_s(results_here, tmp_path):
    (tmp_path / 'toy.py').write_text("import reframe as rfm\nfrom reframe.core.builtins import run_after\n@rfm.simple_test\n"
                                     "class Skips(rfm.RunOnlyRegressionTest):\n    valid_systems = valid_prog_environs = ['*']\n"
                                     "    @run_after('setup')\n    def leave(self):\n        self.skip('not today')\n")
    done, later = (shell(f'umask 002; . {TOP}/ci/activate && {line}', tmp_path) for line in ('reframe -c toy.py -r', 'parity verdict'))
    assert (done.returncode, later.returncode) == (0, 3) and 'Nothing was measured' in done.stdout, done.stdout + done.stderr
    assert '\x1b' not in done.stdout + done.stderr, 'no colours in a pipe'
    assert (results_here / 'results.db').stat().st_mode & 0o777 == 0o664, 'the umask decides'
    assert 'exit code' not in ' '.join(done.stdout.split()) and '(exit code 3)' in ' '.join(later.stdout.split())


@pytest.mark.parametrize('file, text, names', [
    ('references/default.yaml', 'Hpcc:\n  $index: [size]\n  quick:\n    hlp: [1, -0.1, 0.1, Gflop/s]\n', "default.yaml:4: unknown metric 'hlp'; did you mean 'hpl'?"),
    ('references/default.yaml', 'Tcp:\n  $index: [size, where]\n  quick: {}\n', 'default.yaml:2: Tcp needs an $index with size and threading'),
    ('references/default.yaml', '', 'holds none'), ('references/default.yaml', 'Hpcc: [\n', 'default.yaml:2'),
    ('references/default.yaml', '? [a, b]\n: 1\n', 'a key must be plain text'), ('references/defualt.yaml', '{}\n', "unknown partition 'defualt.yaml'"),
    ('system.yaml', 'name: local\npartitons: []\n', 'system.yaml:2: partitons: no such key')])
def test_a_file_of_the_system_that_is_wrong_is_named(here, planned, site, file, text, names):
    wrong = site.parent / file
    wrong.parent.mkdir(exist_ok=True)
    wrong.write_text(text)
    code, _, said = here(planned('local'), '--dry-run')
    assert code == 2 and names in said, said


def test_the_dry_run_of_the_whole_suite_is_well(here, planned, results):
    whole = planned('local')
    code, said, errors = here(whole, '--dry-run')
    assert code == 0, errors
    assert f'{len(whole.cases)} cases, {sum(len(case.metrics) for case in whole.cases)} cells planned' in said
    assert not (results / 'results.db').exists()


def test_a_required_code_that_no_environment_offers_is_exit_code_3(here, planned, site):
    site.write_text(site.read_text().replace('requires: []', 'requires: [hpcc]'))
    whole = planned('local')
    cases = [case.model_copy(update={'environ': ''}) for case in whole.cases if 'hpcc' in case.needs]
    others = [case for case in whole.cases if case.environ and 'hpcc' not in case.needs]
    code, printed, said = here(whole.model_copy(update={'cases': [*cases, *others]}), '--dry-run')
    assert cases and code == 3 and 'required, and no environment offers them: ' in said and 'hpcc' in said
    assert 'would run, and some cases would have no figure: 1 lacking (exit code 3: something is missing)' in printed


@pytest.mark.parametrize('line, said', [('ulimit -f 8000; ci/nightly', 'results: File too large'), ('rm -r results; touch results; ci/nightly', '/results')])
def test_results_that_cannot_be_kept_are_one_line_and_exit_code_4(checkout, line, said):
    done = shell(line, checkout)
    assert done.returncode == 4 and said in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_scratch_that_cannot_be_written_fails_its_cases_with_the_reason(checkout):
    system = checkout / 'systems' / 'local' / 'system.yaml'
    system.write_text(system.read_text().replace('$PARITY_RESULTS/scratch', '/proc/nowhere'))
    ran = reframe(checkout, '-c checks/storage/filecopy/filecopy.py -n FileCopy%mode=small-write%clients=one%sync=durable -r')
    done = parity('verdict', PARITY_ROOT=str(checkout))
    assert done.returncode == 4, ran.stdout[-1500:]
    assert 'FileCopy: failed' in done.stdout and '/proc/nowhere' in done.stdout


def test_a_required_code_that_was_not_measured_is_told():
    """By a code that stands in for it is measured, too."""
    def covered(*found):
        return Coverage(line='', codes=[*found], measured=sum(code.measured for code in found), total=len(found), cells=1)
    hpl = CodeCoverage(code='HPL', measured=True, by='hpcc')
    stream = CodeCoverage(code='STREAM', measured=False, reason='no Spack', lacking=True)
    assert guard.unmet(['hpl'], covered(hpl, stream)) == guard.unmet([guard.ANY], covered(hpl, stream)) == guard.unmet([], covered(stream)) == ''
    assert guard.unmet(['hpl', 'stream'], covered(hpl, stream)) == 'required, and not measured: STREAM'
    assert guard.unmet([guard.ANY], covered(stream)) == 'none of the 1 codes was measured'
    not_selected = CodeCoverage(code='STREAM', measured=False, reason='not selected')
    assert guard.unmet([guard.ANY], covered(not_selected)) == '', 'nobody asked for it'


def test_each_code_of_several_require_options_is_required():
    """As ci/quickstart asks for any code, and a person for more."""
    own, rest = guard.read(['--require=any', '--require', 'hpl', '-n', 'Hpcc', '--require=stream,fio', '--repeats=1'])
    assert own.require == ['any', 'hpl', 'stream', 'fio'] and rest == ['-n', 'Hpcc']


@pytest.mark.parametrize('code, ends', [(0, 3), (1, 1), (4, 4)])
def test_the_sentence_on_a_required_code_names_the_exit_code_of_the_night(capsys, code, ends):
    stream = CodeCoverage(code='STREAM', measured=False, reason='no Spack', lacking=True)
    coverage = Coverage(line='', codes=[stream], measured=0, total=1, cells=1)
    assert run._demanded(code, ['stream'], coverage) == ends
    assert capsys.readouterr().err == f'parity: required, and not measured: STREAM (exit code {ends})\n'
    assert run._demanded(code, [], coverage) == code and not capsys.readouterr().err
