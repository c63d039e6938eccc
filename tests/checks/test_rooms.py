"""Every code's folder: what it states, what its recorded outputs give, and what is refused."""

from __future__ import annotations

import io
import json
import math
import re
import shutil
import tokenize

import pytest
import yaml
from reframe.core.pipeline import RegressionTest

import rooms
from commands import parity
from conftest import TOP
from parity.base import codes
from parity.base.errors import UsageError
from parity.measure.check.reader import Refused, room
from parity.measure.check.workload import Workload
from replay import Replay, check
from rooms import EVERY, WORDS, outcome

OUTPUTS = [(code, name) for code in EVERY for name in rooms.of_code(code)['outputs']]
GOOD = [(code, name) for code in EVERY for name in rooms.good(code)]
EDITS = [(code, at) for code in EVERY for at in range(len(rooms.of_code(code).get('edits', [])))]
#: Codes whose names are words of English, which the library uses as such.
ENGLISH = {'stream', 'blocks', 'ops'}


def named(value):
    return value.room if isinstance(value, codes.Code) else str(value)


@pytest.mark.parametrize('code', codes.every(), ids=named)
def test_a_folder_states_what_its_tests_need(code):
    if why := rooms.problem(code):
        pytest.fail(why, pytrace=False)


# ---- outputs

@pytest.mark.parametrize('code, name', OUTPUTS, ids=named)
def test_a_recorded_output_has_its_figures_or_is_refused_with_the_reason(code, name):
    said, text = rooms.of_code(code)['outputs'][name], rooms.texts(code)[name]
    if 'figures' not in said:
        word, why = rooms.refusal(said)
        with pytest.raises(WORDS[word]) as refused:
            rooms.reader(code, name)(text)
        assert str(refused.value) == why
        return
    figures, facts = rooms.reader(code, name)(text)
    assert figures == rooms.figures(code, name)
    assert all(isinstance(value, float) or value == int(value) for value in figures.values())
    assert {key: facts.get(key) for key in said.get('facts', {})} == said.get('facts', {})


def test_each_row_of_the_page_has_its_output_and_the_parser_says_its_words():
    page = (TOP / 'docs' / 'codes.md').read_text().partition('## Versions and modes')[2]
    rows = [re.split(r'(?<!\\) \| ', line[2:-2]) for line in page.splitlines() if line.startswith('| ')][1:]
    assert rows
    for room_name, form, words, _ in rows:
        code = codes.named(room_name)
        names = [name for name, said in rooms.of_code(code)['outputs'].items() if said.get('form') == form.replace(r'\|', '|')]
        assert len(names) == 1, (room_name, form)
        text, read = rooms.texts(code)[names[0]], rooms.reader(code, names[0])
        try:
            assert read(text)[0] and words == 'read'
        except Refused as err:
            assert f'{err.word}: {err}' == words.replace(r'\|', '|')


def test_a_figure_may_differ_from_the_stated_one_in_its_last_digits_only():
    code, name = GOOD[0]
    stated = rooms.of_code(code)['outputs'][name]['figures']
    assert {metric: math.nextafter(value, math.inf) for metric, value in stated.items()} == rooms.figures(code, name)
    assert {metric: value * (1 + 1e-11) for metric, value in stated.items()} != rooms.figures(code, name)


@pytest.mark.parametrize('code, name', GOOD, ids=named)
def test_other_line_ends_and_lines_of_the_job_do_not_matter(code, name):
    text, read = rooms.texts(code)[name], rooms.reader(code, name)
    assert outcome(read, f'module load it\n{text}[node01:4711] 1 more process has sent help message\nreal 0m2.742s\n') == read(text)
    assert outcome(read, text.replace('\n', '\r\n')) == read(text)


@pytest.mark.parametrize('code, name', GOOD, ids=named)
def test_an_output_of_two_runs_is_refused(code, name):
    assert outcome(rooms.reader(code, name), 2 * rooms.texts(code)[name]) is None


#: Codes whose output has a title, and a line with which it ends.
ENDED = [(code, name) for code, name in GOOD if hasattr(room(code), 'PROGRAM') and 'ends' in rooms.of_code(code)['mutations']]


def form(line: str) -> str:
    """Return a line without its numbers and its place on the page."""
    return re.sub(r'[\d.]+', '0', ' '.join(line.split()))


def lines_of_new_forms(code: codes.Code, name: str) -> set[int]:
    """Return the places of the first and the last line of each form that no output of the code has before this one.

    A parser takes the same path without another line of the form."""
    outputs = rooms.good(code)
    seen = set()
    for before in outputs[:outputs.index(name)]:
        seen |= {form(line) for line in rooms.texts(code)[before].split('\n')}
    first, last = {}, {}
    for at, line in enumerate(rooms.texts(code)[name].split('\n')):
        if form(line) not in seen:
            first.setdefault(form(line), at)
            last[form(line)] = at
    return {*first.values(), *last.values()}


@pytest.mark.parametrize('code, name', ENDED, ids=named)
def test_ends_without_is_said_only_of_an_output_that_ends(code, name):
    text, read = rooms.texts(code)[name], rooms.reader(code, name)
    last = max(re.finditer(rooms.of_code(code)['mutations']['ends'], text), key=lambda match: match.end()).end()
    end = text.count('\n', 0, last)
    lines = text.split('\n')
    for at in lines_of_new_forms(code, name):
        if at == end or lines[at] == '-' * 74:      # half a frame of Open MPI's hides what follows
            continue
        try:
            read('\n'.join(lines[:at] + lines[at + 1:]))
        except Refused as err:
            assert 'ends without' not in str(err), lines[at]


@pytest.mark.parametrize('code', EVERY, ids=named)
@pytest.mark.parametrize('text', ['', 'srun: error: node01: task 0: Killed\n'])
def test_no_output_to_speak_of_is_incomplete(code, text):
    with pytest.raises(WORDS['incomplete'], match=rooms.WHERE):
        rooms.reader(code, rooms.good(code)[0])(text)


@pytest.mark.parametrize('code, at', EDITS, ids=named)
def test_an_edited_output_is_refused_with_the_reason_or_means_the_same(code, at):
    edit = rooms.of_code(code)['edits'][at]
    for name in rooms.good(code) if edit.get('of') == '*' else [edit.get('of', rooms.good(code)[0])]:
        text = edit.get('text') or rooms.texts(code)[name]
        if 'was' in edit:
            assert edit['was'] in text
            text = text.replace(edit['was'], edit['now'], 1)
        for pattern, new in edit.get('replace', []):
            text = re.sub(pattern, new, text, flags=re.M)
        if word := next((word for word in WORDS if word in edit), ''):
            with pytest.raises(WORDS[word]) as refused:
                room(code).read(text, **edit.get('asked', {}))
            assert str(refused.value) == edit[word]
        else:
            figures, facts = rooms.reader(code, name)(text)
            was, told = rooms.reader(code, name)(rooms.texts(code)[name])
            assert figures == was | edit.get('figures', {}) and facts == told | edit.get('facts', {})


# ---- cases of the checks

CASES = [(code, at, name) for code in EVERY for at, case in enumerate(rooms.of_code(code).get('cases', [])) for name in case.get('of') or rooms.good(code)]


@pytest.mark.parametrize('code, at, name', CASES, ids=named)
def test_a_check_gives_every_metric_it_declares_and_refuses_another_run_than_asked_for(code, at, name):
    case, text = rooms.of_code(code)['cases'][at], (code.file.parent / 'outputs' / name).read_bytes().decode('utf-8', 'replace')
    facts = room(code).read(text)[1] if name in rooms.texts(code) else {}
    for was, now in case.get('replace', ()):
        assert was in text
        text = text.replace(was, now)

    def ran(**others):
        return Replay(check(code.room, case['check']), facts, case.get('extras', ()), case.get('asked', {}) | others, case.get('calls', ()))

    for other in case.get('others', ()):
        with pytest.raises(WORDS['wrong'], match='asked for|no -C'):
            ran(**other).replay(text)
    made = ran()
    if 'wrong' in case:
        with pytest.raises(WORDS['wrong'], match=re.escape(case['wrong'])):
            made.replay(text)
        return
    values = made.replay(text)
    assert all(value >= 0 for value in values.values() if value is not None)
    assert 'labels' not in case or made.parity['labels'].keys() & values.keys() == set(case['labels'])
    assert made.parity['facts'].items() >= case.get('notes', {}).items()


def test_reframe_has_no_method_in_the_place_of_one_of_ours():
    """A check's first base is ReFrame's: a method of its name there would be called instead of the mixin's."""
    checks = {cls for code in EVERY for cls in vars(room(code)).values() if isinstance(cls, type) and issubclass(cls, Workload)}
    ours = {(base, name) for cls in checks for base in cls.__mro__ if base.__module__.startswith('parity.') for name in vars(base)}
    reframes = {name for base in RegressionTest.__mro__ for name in vars(base)}
    assert not {(base.__name__, name) for base, name in ours if name in reframes and not name.startswith(('__', '_rfm'))}


# ---- parity parse

@pytest.mark.parametrize('code, name', OUTPUTS, ids=named)
def test_parity_parse_prints_the_figures_or_the_reason(code, name):
    said, file = rooms.of_code(code)['outputs'][name], code.file.parent / 'outputs' / name
    asked = said.get('asked', {})
    options = [word for name, size in asked.items() for word in (f'--{name.replace("_", "-")}', str(size))]
    done = parity('parse', code.room, str(file), '--json', *options)
    answer = json.loads(done.stdout)
    if 'figures' not in said:
        word, why = rooms.refusal(said)
        assert (done.returncode, answer['outcome'], answer['complete']) == (1, word, False)
        assert answer['reason'] == ' '.join(why.split())
        return
    assert (done.returncode, answer['code'], answer['complete'], answer['verified']) == (0, code.room, True, True)
    assert answer['metrics'] == rooms.figures(code, name) and answer['facts']
    if name == rooms.good(code)[0]:
        rows = [line.split(maxsplit=2) for line in parity('parse', code.room, str(file), *options).stdout.splitlines()]
        assert {row[0]: float(row[1]) for row in rows} == answer['metrics']


@pytest.mark.parametrize('arguments, said', [
    (['nosuch', '-'], "'nosuch' is no code that parity reads; valid are: ectrans, gromacs, hpcc, "),
    (['stream', '/nosuch'], '/nosuch'), (['stream', '-', '--max-size', '8'], '--max-size is no option for stream'),
    (['osu', '-', '--max-size', '12'], '--max-size 12: message sizes are powers of two')])
def test_parity_parse_refuses(arguments, said):
    done = parity('parse', *arguments)
    assert done.returncode == 2 and said in done.stderr


def test_parity_parse_reads_standard_input_and_escapes_what_it_quotes():
    done = parity('parse', 'stream', '-', stdin='STREAM version $Revision: 5.10 $\nFailed Validation \x1b]31m\udcff\n')
    assert done.returncode == 1 and done.stdout == '-: wrong: line 2: Failed Validation \ufffd]31m\ufffd\n'


# ---- code.yaml

def test_spack_yaml_has_the_lines_of_the_codes():
    specs = yaml.safe_load((TOP / 'spack.yaml').read_text())['spack']['specs']
    assert sorted(specs) == sorted({code.spack for code in EVERY if code.spack and not code.optional})
    assert all(f'  # - {code.spack}' in (TOP / 'spack.yaml').read_text() for code in EVERY if code.optional)


@pytest.mark.parametrize('code', EVERY, ids=named)
def test_a_code_is_whole(code):
    assert bool(code.spack) == bool(code.binaries), 'what Spack builds is proven by its binaries'
    assert all((code.file.parent / name).is_file() for name in code.files)
    assert not code.package or code.version or code.expect, 'a program of the distribution tells its version, or proves itself by a result'
    assert not code.other_names or code.executable, 'they are names of the executable'
    assert not code.stand_in or codes.named(code.stand_in)
    assert set(code.requires) <= set(codes.TOOLS)
    others = {f.name for f in code.file.parent.glob('*.py')} - {code.file.name, 'build.py'}        # build.py is run by its path
    assert all(name.startswith(f'{code.room}_'.replace('-', '_')) for name in others), 'modules of all folders share one name space'


def test_the_library_names_no_code():
    names = {name for code in EVERY for name in (code.name, code.room, code.feature, *code.binaries, code.spack_package) if name}
    names -= ENGLISH | set(codes.TOOLS)
    suspect = re.compile(rf'(?<!\w)({"|".join(map(re.escape, names))})(?!\w)')
    found = []
    for file in sorted((TOP / 'reframe').rglob('*.py')):
        text = file.read_text()
        if not suspect.search(text):        # a look at each token takes .01 s
            continue
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            words = set(re.findall(r'[A-Za-z][\w.-]*\w', token.string))
            if hit := words & names:
                found.append(f'{file.relative_to(TOP)}:{token.start[0]}: {", ".join(sorted(hit))}')
    assert not found, '\n'.join(['a code whose name is an English word belongs in ENGLISH above:', *found])


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A checkout whose checks/ may be changed."""
    for name in ('checks', 'systems'):
        shutil.copytree(TOP / name, tmp_path / name, ignore=shutil.ignore_patterns('outputs', '__pycache__'))
    monkeypatch.setenv('PARITY_ROOT', str(tmp_path))
    return tmp_path


@pytest.mark.parametrize('was, now, line, said', [
    ('binaries: [xhpl]', 'binaries: xhpl', 3, "binaries: 'xhpl' must be a list"), ('binaries: [xhpl]', 'binarys: [xhpl]', 3, "binarys: no such key; did you mean 'binaries'?"),
    ('name: HPL', 'feature: hpl', 1, 'name: '), ('blas: true', 'blas: perhaps', 6, "blas: 'perhaps' must be true or false"), ('name: HPL', 'name: [', 3, "expected ','")])
def test_a_bad_code_is_named_with_file_and_line(site, was, now, line, said):
    file = site / 'checks/compute/hpl/code.yaml'
    text = file.read_text()
    assert was in text
    file.write_text(text.replace(was, now, 1))
    done = parity('parse', 'stream', '-')
    assert done.returncode == 2 and f'hpl/code.yaml:{line}: {said}' in done.stderr, done.stderr


def test_a_check_without_a_code_yaml_is_named(site):
    (site / 'checks/compute/hpl/code.yaml').unlink()
    assert 'checks/compute/hpl/code.yaml: No such file' in parity('parse', 'stream', '-').stderr


def test_two_folders_of_one_name_are_named(site):
    shutil.copytree(site / 'checks/compute/hpl', site / 'checks/storage/hpl')
    assert "'HPL' is the code of" in parity('parse', 'stream', '-').stderr


@pytest.mark.parametrize('text, said', [(None, 'expected.yaml: No such file'), ('outputs: {a.txt: {wrong: bad}}\n', 'no output with figures'), ('outputs: {a.txt: {figures: {}}}\n', 'no `mutations:`'),
                                        ('outputs: {a.txt: {figures: {}}}\nmutations: {}\n', 'no `cases:`')])
def test_a_folder_that_states_too_little_is_named_in_one_line(tmp_path, text, said):
    (tmp_path / 'outputs').mkdir()
    (tmp_path / 'outputs' / 'a.txt').write_text('')
    if text is not None:
        (tmp_path / 'expected.yaml').write_text(text)
    why = rooms.problem(codes.Code(name='A', file=tmp_path / 'a.py'))
    assert said in why and '\n' not in why


def test_a_recorded_output_keeps_its_carriage_returns(tmp_path):
    (tmp_path / 'outputs').mkdir()
    (tmp_path / 'outputs' / 'a.txt').write_bytes(b'10 %\rRate = 5\r\n\xff')
    assert rooms.texts(codes.Code(name='A', file=tmp_path / 'a.py')) == {'a.txt': '10 %\rRate = 5\r\n\ufffd'}


def test_an_expected_output_that_is_not_there_and_one_that_is_not_expected_are_named(tmp_path):
    (tmp_path / 'outputs').mkdir()
    (tmp_path / 'outputs' / 'a.txt').write_text('')
    file = tmp_path / 'expected.yaml'
    for text, said in (('outputs:\n  b.txt: {figures: {}}\n', r"expected.yaml:2: no output 'b.txt'; valid: a.txt"),
                       ('outputs: {}\n', r'expected.yaml:1: outputs/a.txt is not named'),
                       ('outputs:\n  a.txt: {figures: {}}\nedits:\n- {of: c.txt}\n', r"expected.yaml:4: no output 'c.txt'")):
        file.write_text(text)
        rooms.expected.cache_clear()
        with pytest.raises(UsageError, match=said):
            rooms.expected(file)
