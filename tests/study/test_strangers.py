"""A study.yaml from elsewhere: it runs no command, reads no other file, and takes no endless work."""

from __future__ import annotations

import os
import re

import pytest
import yaml

from commands import parity
from parity.study import campaign, conditions
from parity.study.published import formula, problems
from parity.study.published.model import Case, Study

HEAD = """title: t
source: s
what: w
contrast: side
axes:
  side: {what: w, here: h, kind: print, values: [here]}
  n: {what: w, here: h, kind: value, values: {one: 1, both: '1,2'}}
experiments:
"""
CSV = 'experiment,metric,unit,better,n,run,value,flag,where\none,rate,MB/s,higher,one,1,4,,p\none,rate,MB/s,higher,both,1,5,,p\n'
STREAM = 'subsystem: memory, axes: {}, metrics: {rate: [triad]}, check: Stream, parameters: {threads: one}'
#: What a line of `set` may not say, and why.
REFUSED = {
    "prerun_cmds: '[touch /tmp/owned]'": "unknown variable 'prerun_cmds'; valid: size, thread_count, time_limit, times: a study sets what Stream declares itself",
    'executable: /bin/sh': "unknown variable 'executable'", 'env_vars: PATH=x': "unknown variable 'env_vars'",
    'sourcesdir: /': "unknown variable 'sourcesdir'", "keep_files: '[../x]'": "unknown variable 'keep_files'",
    "valid_systems: '*'": "unknown variable 'valid_systems'", "valid_prog_environs: '*'": "unknown variable 'valid_prog_environs'",
    'modules: x': "unknown variable 'modules'", 'container_platform: Docker': "unknown variable 'container_platform'",
    'executable_opts: x': "unknown variable 'executable_opts'", 'parity: x': "unknown variable 'parity'", 'siz: quick': "did you mean 'size'",
    "times: 'true'": "'true': must be written as 'yes'", "size: 'quick '": 'must be of the form quick|nightly|acceptance'}


@pytest.fixture
def stranger(tmp_path):
    """Write the study `trial` outside the checkout; return a function that runs `parity study WORD trial`."""
    folder = tmp_path / 'studies' / 'trial'
    folder.mkdir(parents=True)

    def run(word, text='', rows=CSV):
        if text:
            (folder / 'study.yaml').write_text(text)
        if rows:
            (folder / 'published.csv').write_text(rows)
        return parity('study', word, 'trial', '--studies', str(folder.parent))
    run.folder = folder
    return run


def test_a_study_sets_only_what_a_check_declares_itself_and_values_that_are_found_again(stranger):
    lines = [f'  e{i}: {{what: w, where: p, {STREAM}, set: {{{stated}}}}}' for i, stated in enumerate(REFUSED)]
    done = stranger('show', HEAD + '\n'.join(lines) + '\n', CSV.splitlines()[0] + '\n' + 'e0,rate,MB/s,higher,,1,4,,p\n')
    assert done.returncode == 2
    for i, (stated, said) in enumerate(REFUSED.items()):
        name = stated.partition(':')[0]
        line, = (line for line in done.stderr.splitlines() if f'study.yaml:{9 + i}: ' in line)
        assert f'experiments.e{i}.set.{name}: ' in line and said in line
    sound = lines[0].replace("prerun_cmds: '[touch /tmp/owned]'", "times: 'yes', size: quick, time_limit: 10m")
    assert stranger('show', HEAD + sound + '\n', '').returncode == 0


def test_a_value_with_a_blank_is_refused_where_its_case_would_not_be_found_again(stranger):
    text = HEAD + '''\
  one: {what: w, where: p, subsystem: storage, axes: {n: all}, metrics: {rate: [client_seconds]}, check: FileCopy, set: {source: two words},
    parameters: {mode: large-copy, clients: one, sync: as-is}}
'''
    done = stranger('show', text)
    assert done.returncode == 2 and "study.yaml:9: experiments.one.set.source: 'two words': must have no blank, % or |" in done.stderr


def test_a_value_of_an_axis_that_would_be_divided_into_several_is_refused():
    study = Study.model_validate(yaml.safe_load(HEAD + "  e: {what: w, where: p, subsystem: compute, axes: {n: all}, metrics: {rate: [rate]}, check: C, set: {nodes: '{n}'}}"))
    assert list(conditions._divided(study, list(study.cases()))) == [(('experiments', 'e', 'set', 'nodes'), "'1,2': must have no comma where it holds an axis")]
    study.axes['side'].values['a,mode=full'] = ''
    assert list(problems.of_study(study)) == [(('axes', 'side', 'values', 'a,mode=full'), "'a,mode=full': must have no comma and no =")]


def test_a_parameter_with_blanks_selects_its_case_whose_name_reframe_reads_without():
    case = Case(experiment='e', check='C', parameters={'code': 'two words'}, variables={}, swept=[], point={}, partition='p')
    arguments = campaign.arguments(campaign.Step('a', 1, [case]), {'C': 'c.py'}, 's', {}, {'e': 'x'})
    assert re.search(arguments[arguments.index('-n') + 1], 'C %code=two words'.replace(' ', ''))


@pytest.mark.parametrize('name', ['study.yaml', 'published.csv'])
def test_a_file_of_a_study_that_is_no_file_of_its_own_is_named_and_not_read(stranger, tmp_path, name):
    file, secret = stranger.folder / name, tmp_path / 'secret'
    secret.write_text('root:x:0:0\n')
    assert stranger('compare', HEAD + '  one: {what: w, where: p, subsystem: memory, axes: {n: all}, metrics: {rate: [x]}}\n').returncode == 0
    file.rename(stranger.folder / 'own')
    for make, said in ((lambda: file.symlink_to(secret), 'a link that leaves the folder of the study; copy the file into it'), (lambda: os.mkfifo(file), 'a FIFO; must be a regular file'),
                       (lambda: file.symlink_to('gone'), 'a link to gone, which is not there; name a file')):
        make()
        done = stranger('compare', rows='')
        assert done.returncode == 2 and f'{file}: {said}' in done.stderr and 'root:x' not in done.stderr, done
        file.unlink()
    file.symlink_to('own')
    assert stranger('compare', rows='').returncode == 0, 'a link within the folder is followed'


WITH = HEAD + '''\
  one: {what: w, where: p, subsystem: memory, axes: {n: all}, metrics: {rate: [x]}}
functions: {%s}
numbers:
  - {name: x, let: {a: one.rate %%n=one, all: one.rate}, formula: '%s'}
'''
DOUBLED = ', '.join([f'"f{i}(x)": {f"f{i - 1}(x) + f{i - 1}(x)" if i else "x"}' for i in range(60)])
NESTED = ', '.join([f'"f{i}(x)": {f"f{i - 1}(x)" if i else "x"}' for i in range(60)])


@pytest.mark.parametrize('functions, text, line, said', [
    ('', 'group_size(1e12, 1, all, all)', 12, 'group 1 of 1e+12: must be one of 1 to 20 groups'), ('', 'group_size(2, 3, all, all)', 12, 'group 3 of 2: must be'),
    ('', 'group_size(1, 1, a, a)', 12, 'groups are of lists of at most 2000 points'), ('', '(0-a)**0.5', 12, 'is no real number'),
    ('', 'lu_receives(1e30, 1e30, 67280421310721**2)', 12, 'each must be at most 1000000000'), ('', 'lu_receives(all, 1, 1)', 12, 'numbers.0.formula'),
    ('', 'a / (a - a)', 12, 'numbers.0.formula'), ('', 'sum(all / (all - all))', 12, 'numbers.0.formula'), ('', 'a * 1e308 * 1e308', 12, 'is not finite'),
    ('', 'a + ' * 300 + 'a', 12, 'characters; must have at most 1000'), ('', '-' * 300 + 'a', 12, 'nests deeper, with the functions that it calls: must be at most 50 deep'),
    (DOUBLED, 'f59(a)', 12, 'nests deeper, with the functions that it calls: must be at most 50'), (DOUBLED, 'f20(a)', 12, 'takes more steps, with the functions that it calls: must be at most 2000'), (NESTED, 'f59(a)', 12, 'nests deeper'),
    ('', 'a + 9**9**9**9', 12, 'has no value: Numerical result out of range'), ('', 'a + 1 / (2 - 2)', 12, 'numbers.0.formula'),
    ('', 'deviation(a)', 12, 'a standard deviation is of 2 values or more'),
    ('"f(x)": x +', 'f(a)', 10, 'is no formula')])
def test_a_formula_without_a_value_or_an_end_is_refused_with_file_and_line(stranger, functions, text, line, said):
    done = stranger('compare', WITH % (functions, text))
    assert done.returncode == 2 and f'study.yaml:{line}: ' in done.stderr and said in done.stderr, done


def test_points_without_number_are_refused_with_file_and_line(stranger):
    many = '  a{}: {{what: w, here: h, kind: value, values: [' + ', '.join(map(str, range(50))) + ']}}\n'
    axes = HEAD.replace('experiments:\n', ''.join(many.format(i) for i in range(8)) + 'experiments:\n')
    names = [f'a{i}' for i in range(8)]
    done = stranger('show', axes + f'  one: {{what: w, where: p, subsystem: memory, axes: {dict.fromkeys(names, "all")}, metrics: {{rate: [x]}}, check: Stream}}\n')
    assert done.returncode == 2 and f'study.yaml:17: experiments.one.axes: {50 ** 8} points with those above: must have at most 10000' in done.stderr
    over = {name: list(map(str, range(50))) for name in names}
    done = stranger('compare', WITH % ('', 'a') + f'  - {{name: y, over: {over}, let: {{a: one.rate %n=one}}, formula: a}}\n')
    assert done.returncode == 2 and f'study.yaml:13: numbers.1.over: {50 ** 8 + 1} points' in done.stderr


def test_a_formula_that_is_none_is_no_function():
    with pytest.raises(ValueError, match='is no formula'):
        formula.functions({'f(x)': 'x +'})
