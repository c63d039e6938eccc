"""The edges of small functions that many rooms use: times, sizes, units, names, texts, tables and locks."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from parity.base import codes, csvfile, errors, figures, files, reasons, submission, text, times, units, yamlfile
from parity.base.errors import UsageError


@pytest.mark.parametrize('time, seconds', [('90s', 90), ('30m', 1800), ('1d12h', 129_600), ('1m1s', 61)])
def test_a_time_in_a_file_is_read_in_seconds(time, seconds):
    assert times.seconds(time) == seconds


@pytest.mark.parametrize('time', ['', '0h', '0d0h0m0s', '12', 'h', '1h1d', '1.5h'])
def test_what_is_no_time_or_none_at_all_is_refused(time):
    with pytest.raises(ValueError, match='must be a time, such as 30m, 8h or 1d12h'):
        times.seconds(time)


@pytest.mark.parametrize('seconds, written', [
    (99.4, '99 s'), (99.5, '2 min'), (172_769, '47 h 59 min'), (172_800, '2 d 0 h')])
def test_a_duration_changes_its_unit_at_the_edge(seconds, written):
    assert figures.duration(seconds) == written


@pytest.mark.parametrize('size, kilo, kibi, count', [
    ('4k', 1024, 1024, 4096), ('4k', 1000, 1024, 4000), ('4ki', 1000, 1024, 4096), ('4kib', 1024, 1000, 4000),
    ('1.5 G', 1024, 1024, 3 << 29), ('0.3k', 1024, 1024, None), ('k', 1024, 1024, None)])
def test_a_size_has_whole_bytes_by_what_its_prefix_stands_for(size, kilo, kibi, count):
    assert units.size(size, kilo, kibi) == count


@pytest.mark.parametrize('unit, name, factor', [
    ('KiB', 'bytes', 1024), ('MiB/s', 'bytes_per_second', 1 << 20), ('Gb/s', 'bytes_per_second', 1e9 / 8), ('us', 'seconds', 1e-6), ('%', 'ratio', 0.01),
    ('mb', 'mb', 1), ('odd thing', 'odd_thing', 1), ('Gflops/s', 'flop_per_second', 1e9), ('1/s', 'per_second', 1)])
def test_a_unit_has_a_base_unit_and_a_factor(unit, name, factor):
    assert units.base_unit(unit) == (name, pytest.approx(factor, rel=1e-12))


@pytest.mark.parametrize('unit, stem', [
    ('GB/s', 'B/s'), ('us', 's'), ('files', 'files'), ('files/s', 'files/s'), ('%', '%'), ('1', '1'), ('odd', ''), ('GB/odd', ''), ('odd/s', '')])
def test_a_unit_without_its_prefixes(unit, stem):
    assert units.stem(unit) == stem


def test_figures_are_brought_to_another_unit_of_their_kind():
    assert units.factor('GB/s', 'MB/s') == 1000 and units.factor('Gb/s', 'GB/s') == 1 / 8
    assert units.factor('s', 'GB') is None


@pytest.mark.parametrize('parameter, number', [
    ('64KiB', (65536.0, 'B')), ('64KB', (64000.0, 'B')), ('4', (4.0, '')), ('1.5', (1.5, '')), ('4k', None), ('xB', None), ('', None)])
def test_a_parameter_is_a_number_with_its_unit_or_none(parameter, number):
    assert figures.amount(parameter) == number


@pytest.mark.parametrize('value, written', [(0.1, '0.1 GB/s'), (0.0999, '99.9 MB/s'), (9999, '9999 GB/s'), (10000, '10 TB/s'), (1, '1 GB/s')])
def test_a_figure_leaves_its_unit_at_five_digits_or_below_a_tenth(value, written):
    assert figures.figure(value, 'GB/s') == written


def test_a_rate_a_second_or_a_byte_names_it_in_the_singular():
    assert units.base_unit('B/s') == ('bytes_per_second', 1.0)
    assert units.base_unit('flop/B') == ('flop_per_byte', 1.0)


@pytest.mark.parametrize('name, short', [
    ('c1.site.org', 'c1'), ('c1', 'c1'), ('10.0.0.1', '10.0.0.1'), ('.hidden', '.hidden')])
def test_a_node_has_its_short_name_and_an_address_stays(name, short):
    assert text.node_name(name) == short


@pytest.mark.parametrize('whole, length, short', [
    ('one  two', 7, 'one two'), ('one two', 6, 'one t…'), ('ab' + ' ' * 40, 10, 'ab…'), ('a ' * 20, 10, 'a a a a a…')])
def test_a_text_is_cut_with_a_mark_wherever_something_is_left_out(whole, length, short):
    assert text.brief(whole, length) == short


def test_a_reason_is_cut_only_beyond_its_length():
    longest = 'x' * 50
    assert reasons.cut(longest, 50) == longest
    shortened = reasons.cut(f'{longest}y', 50)
    assert len(shortened) == 50 and shortened.endswith('x ... (cut: 51 characters)')


def test_the_first_exit_code_is_that_of_what_must_be_mended_first():
    assert errors.first([0, 3, 1, 4, 2]) == 2 and errors.first([0, 3, 4, 1]) == 1
    assert errors.first([3, 4]) == 4 and errors.first([0, 3]) == 3
    assert errors.first([]) == 0


@pytest.mark.parametrize('table, why', [
    ('a,a\n1,2\n', ':1: column a is named twice'), ('a,c\n1,2\n', ":1: unknown column 'c'"),
    ('b\n1\n', ':1: no column a'), ('a\n', ':1: no rows below the header'), ('a,b\n1\n', ':2: 1 fields')])
def test_a_table_with_wrong_columns_is_refused_with_its_line(table, why):
    with pytest.raises(UsageError, match=re.escape(f'table.csv{why}')):
        list(csvfile.CsvTable(table.encode(), 'table.csv', ['a'], ['b']).rows())


def test_a_blank_line_of_a_table_is_skipped_or_refused_as_its_reader_wants():
    blank = csvfile.CsvTable(b'a,b\n1,2\n\n3, 4\n', 'table.csv', ['a'], ['b'])
    assert list(blank.rows()) == [(2, {'a': '1', 'b': '2'}), (4, {'a': '3', 'b': '4'})]
    with pytest.raises(UsageError, match=re.escape('table.csv:3: 0 fields; must have 2 columns')):
        list(replace(blank, blank=False).rows())


@pytest.mark.parametrize('table, line', [('a: [1\nb: 2\n', 2), ('a: 1\nb: 2\n c: 3\n', 3), ('a: "b\n', 2)])
def test_a_file_that_is_no_yaml_is_refused_with_its_line(table, line):
    with pytest.raises(UsageError, match=f'^f.yaml:{line}: '):
        yamlfile.parse(Path('f.yaml'), table)


def job(tasks: int | None = None, per_node: int | None = None, *options: str, scheduler: str = 'pbs', nodes: int | None = None) -> SimpleNamespace:
    """Return what ReFrame knows of a case after its set-up, as far as a request needs it."""
    partition = SimpleNamespace(extras={'nodes': nodes} if nodes else {}, fullname='onebox:default', scheduler=SimpleNamespace(registered_name=scheduler))
    of_options = SimpleNamespace(sched_access=[], options=list(options), cli_options=[])
    return SimpleNamespace(current_partition=partition, num_tasks=tasks, num_tasks_per_node=per_node, job=of_options)


@pytest.mark.parametrize('case, why', [
    (job(), ''), (job(4, 2, nodes=2), ''), (job(4, 4, '-l place=pack'), ''), (job(4, 2, '-l place=scatter'), ''),
    (job(5, 2, nodes=2), 'needs 3 nodes, onebox:default has 2'), (job(8, None, nodes=7), 'needs 8 nodes, onebox:default has 7'),
    (job(5, 2), '5 tasks do not divide by 2 per node: PBS would drop the last 1'), (job(5, 2, scheduler='slurm'), ''),
    (job(4, 2, '-l place=pack:excl'), "'-l place=pack:excl': a job of 2 nodes never starts on one host, and PBS does not say so"),
    (job(1, 1, '-j oe'), "'-j oe' joins the files of a PBS job, and ReFrame waits for both for ever"),
    (job(1, 1, '-l select=1'), "'-l select=1': PBS ignores a second select, and parity writes the first; write what a chunk needs without -l select, "
                               'such as mem=64gb')])
def test_a_request_that_a_scheduler_would_misread_or_never_start_is_refused(case, why):
    assert submission.of_case(case) == why


def test_a_folder_below_checks_is_left_over_where_it_holds_no_test(tmp_path, monkeypatch):
    """A test that knows nothing of parity may have scripts of its own, and sources in a folder src."""
    monkeypatch.setenv('PARITY_ROOT', str(tmp_path))
    (tmp_path / 'systems').mkdir()
    for name, content in {'memory/foreign/test.py': 'import reframe', 'memory/renamed/other.py': 'from parity.base import text', 'memory/notes/read.me': '',
                       'memory/src/stream.c': '', 'apps/data/in.txt': '', 'memory/code/code.py': 'import parity'}.items():
        file = tmp_path / 'checks' / name
        file.parent.mkdir(parents=True)
        file.write_text(content)
    (tmp_path / 'checks/memory/empty/__pycache__').mkdir(parents=True)
    (tmp_path / 'checks/memory/empty/__pycache__/gone.pyc').touch()
    left = {left.folder.name: (left.holds, left.using) for left in codes.leftovers()}
    assert left == {'empty': ((), ()), 'notes': (('read.me',), ()), 'renamed': (('other.py',), ('other.py',))}


def test_a_lock_of_this_process_is_not_held_elsewhere(tmp_path):
    lock = files.Lock(tmp_path / 'lock', 'a test')
    with lock.held():
        assert not lock.held_elsewhere()
        with lock.held():       # it has the lock already
            assert not files.Lock(tmp_path / 'lock', 'the same').held_elsewhere()
    assert not lock.held_elsewhere()


def test_a_link_out_of_the_results_is_not_followed(results, tmp_path):
    elsewhere = tmp_path / 'elsewhere'
    elsewhere.mkdir()
    (results / 'folder').symlink_to(elsewhere)
    with pytest.raises(OSError, match='lies behind a link: none below results/ is followed'):
        files.write(results / 'folder' / 'file', 'x')
    (results / 'file').symlink_to(elsewhere / 'file')
    files.write(results / 'file', 'x')
    assert not (results / 'file').is_symlink() and not list(elsewhere.iterdir())
