"""The edges of small functions that many rooms use: times, sizes, units, names, texts, tables and locks."""

from __future__ import annotations

import re

import pytest

from parity.base import csvfile, errors, figures, files, reasons, text, times, units
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
