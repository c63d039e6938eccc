"""The reader under all parsers: lines exactly once, finite numbers, figures that agree, one JSON document."""

from decimal import Decimal

import pytest

from parity.measure.check.reader import Incomplete, Lines, Wrong, agree, document, number, ordered

OUT = Lines('job\r\nThreads  =   4\nRate =  12.50 MB/s\nBegin\n a 1\nEnd\nRate = 2\n')


def test_a_line_is_needed_exactly_once():
    assert OUT.one(r'Threads = (\d+)')[1] == '4'
    with pytest.raises(Incomplete, match=r'^line 8: the output ends without "Size = ..."$'):
        OUT.one(r'Size = (\S+)')
    with pytest.raises(Wrong, match=r'^2 lines "Rate = ...", in lines 3 and 7$'):
        OUT.one(r'Rate = .*')
    assert OUT.maybe('Size = .*') is None


@pytest.mark.parametrize('pattern', ['Rate|rate', 'x?[Rr]ate', 'R*(r|R)?ate', 'R{0,1}r?ate', '(?:R|r)ate', '[Rr]ate'])
def test_a_pattern_may_begin_with_one_of_several_letters(pattern):
    lines = Lines('rate\nRate\nrates\n')
    assert [number for number, _ in lines.matches(pattern)] == [1, 2]


def test_a_carriage_return_ends_no_line():
    out = Lines('10 %\r20 %\rRate = 5\r\n')
    assert out.maybe(r'Rate = (\S+)') is None and out.one(r'(?:.* )?Rate = (\S+)')[1] == '5'


def test_a_part_keeps_its_line_numbers():
    part = OUT.part('Begin', 'End')
    assert (part.lines, part.first, part.end) == (['a 1'], 5, 5)
    with pytest.raises(Incomplete, match='^line 5: '):
        part.one('b')
    with pytest.raises(Incomplete, match='line 4: "Begin" stands before "End"'):
        OUT.part('End', 'Begin')


def test_the_programs_own_refusal_is_told_with_its_line():
    with pytest.raises(Incomplete, match='^line 5: a 1$'):
        OUT.refuse('a [0-9]', Incomplete)
    OUT.refuse('UNSUCCESSFUL')


@pytest.mark.parametrize('token', ['nan', 'inf', '1e999', '', '-', '1_000', '٣', '9' * 400, '0x1', '1,5'])
def test_what_is_no_finite_number(token):
    with pytest.raises(Wrong, match='the rate is .* not a finite number'):
        number(token, 'the rate')


def test_numbers():
    assert number('1.50', 'x', places=2) == Decimal('1.50') and number('0', 'x', zero=True) == 0
    for token, zero, places, message in (('0', False, None, 'above zero'), ('-1', True, None, 'not be negative'),
                                         ('1.5', False, 2, '2 decimals'), ('-1', False, None, 'above zero')):
        with pytest.raises(Wrong, match=message):
            number(token, 'x', zero, places)
    with pytest.raises(Wrong, match='Threads = ... is 0'):
        Lines('Threads = 0').count(r'Threads = (\S+)')
    with pytest.raises(Wrong, match="'4.0', not a count"):
        Lines('Threads = 4.0').count(r'Threads = (\S+)')
    assert Lines('Failed = 0').count(r'Failed = (\S+)', zero=True) == 0


def test_a_rate_a_time_and_the_work_agree_within_their_last_digits():
    for rate, seconds in (('100.0', '0.10'), ('95.3', '0.10'), ('105.2', '0.10'), ('99999', '0.00')):
        agree(Decimal(rate), Decimal(seconds), 10, 'copy')
    for rate, seconds in (('95.1', '0.10'), ('105.4', '0.10'), ('1999.0', '0.00')):
        with pytest.raises(Wrong, match=f'copy: {rate} in {seconds} s is not the work of 10'):
            agree(Decimal(rate), Decimal(seconds), 10, 'copy')


def test_a_minimum_a_mean_and_a_maximum_rise():
    ordered('times', Decimal(1), Decimal(1), Decimal(2))
    with pytest.raises(Wrong, match='times: 1, 3, 2 are not'):
        ordered('times', Decimal(1), Decimal(3), Decimal(2))


def test_one_json_document_among_lines_of_the_job():
    assert document('module load\n{\n "a": -1.5e3, "b": [12345678901234567890]\n}\nreal 1s\n') == {
        'a': -1500.0, 'b': [12345678901234567890]}
    assert document('{\n"a": 1, "a": 1}') == {'a': 1}          # iperf3 before 3.16 tells of its sockets again


@pytest.mark.parametrize('text, error, message', [
    ('', Incomplete, 'where its JSON begins'), ('{\n"a": 1', Incomplete, '^line 2: the JSON is not whole'),
    ('{\n"a": 1}\n{\n"a": 1}', Wrong, 'several JSON'), ('{\n"a": 1, "a": 2}', Wrong, 'twice'), ('{\n"a": NaN}', Wrong, "'NaN', not a finite"),
    ('{\n"a": 1e999}', Wrong, 'not a finite'), ('{\n"a": ' + '9' * 5000 + '}', Wrong, 'not a finite'),
    ('{\n"a":' + '[' * 100_000, Wrong, 'nested too deeply')])
def test_a_json_document_that_is_refused(text, error, message):
    with pytest.raises(error, match=message):
        document(text)
