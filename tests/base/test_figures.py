"""Numbers as a person reads them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parity.base import figures

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize('function, given, said', [(function, *case) for function, cases in {
    figures.figure: [
        ((None, 'GB/s'), '—'), ((0, 'MB/s'), '0 MB/s'), ((0.0, ''), '0'), ((71234, 'MB/s'), '71.2 GB/s'), ((71200, 'MB/s'), '71.2 GB/s'),
        ((1411.3, 'Mop/s'), '1411 Mop/s'),          # four digits stay in the unit that was declared
        ((1.0437, 'GB/s'), '1.044 GB/s'),           # after a leading 1 a third digit would be too coarse
        ((6.6123, 'us'), '6.61 us'), ((6.6, 'us'), '6.6 us'), ((5e7, 'us'), '50 s'),
        ((86400, 's'), '86\u202f400 s'),            # seconds have no prefix above them
        ((4e-4, 's'), '400 us'), ((5e-12, 's'), '5 ps'), ((3.2e-5, 'GUP/s'), '32 kUP/s'), ((2.4e9, 'Hz'), '2.4 GHz'),
        ((123456, 'KB/s'), '123.5 MB/s'), ((512, 'KB/s'), '512 KB/s'),      # a unit that stays is written as it was declared
        ((32768, 'B'), '32 KiB'), ((67430000000, 'B'), '62.8 GiB'), ((12345, 'MiB/s'), '12.06 GiB/s'),
        ((12345678, 'files/s'), '12\u202f345\u202f678 files/s'), ((9999.7, 'files/s'), '10\u202f000 files/s'), ((41.234, '%'), '41.2 %'),
        ((1.5e15, ''), '1.50e15'), ((2.5e-9, ''), '2.50e-9'), ((-71234, 'MB/s'), '-71.2 GB/s'), ((NAN, 's'), 'nan s'), ((-INF, ''), '-inf')],
    figures.counted: [((1, 'figure'), '1 figure'), ((0, 'figure', 'are'), '0 figures are'), ((1, 'more case', 'were'), '1 more case was'),
                      ((2, 'history'), '2 histories'), ((2, 'day'), '2 days'), ((3, 'process'), '3 processes')],
    figures.alike: [                                # value, reference and limit share the prefix of the first that is known
        (('MB/s', 9800, 10200, 38400, None), (['9800', '10\u202f200', '38\u202f400', '—'], 'MB/s')),
        (('MB/s', 25012, 800, None), (['25.0', '0.800', '—'], 'GB/s')), (('MB/s', None, NAN, 25000), (['—', 'nan', '25.0'], 'GB/s')),
        (('MB/s', None, None), (['—', '—'], 'MB/s'))],
    figures.band: [((75.94, 79.51, 'GB/s'), '75.9 .. 79.5 GB/s'), ((None, 7.1, 'GB/s'), 'at most 7.1 GB/s'),
                   ((75.9, None, 'GB/s'), 'at least 75.9 GB/s'), ((None, None, 'GB/s'), '')],
    figures.percent: [((None,), '—'), ((0,), '0 %'), ((0.414,), '41 %'), ((0.0414,), '4.1 %'), ((0.00414,), '0.41 %'), ((0.00004,), '< 0.01 %'),
                      ((0.0999,), '10 %'), ((1.14,), '114 %'), ((250,), '25\u202f000 %'), ((NAN,), 'nan'), ((-0.05,), '-5.0 %')],
    figures.change: [((71.2, 77.7), '-8.4 %'), ((84, 80), '+5.0 %'), ((79.99, 80), '0.0 %'), ((1, None), ''), ((None, 1), ''), ((1, 0), ''),
                     ((NAN, 1), ''), ((-8, -10), '+20.0 %'), ((1000, 1), '+99\u202f900 %')],
    figures.duration: [((None,), '—'), ((-1,), '—'), ((INF,), '—'), ((0,), '0.0 s'), ((9.52,), '9.5 s'), ((59.7,), '60 s'), ((720,), '12 min'),
                       ((3599,), '1 h 00 min'), ((4321,), '1 h 12 min'), ((172000,), '47 h 47 min'), ((180000,), '2 d 2 h'), ((400000,), '4 d 15 h')],
}.items() for case in cases])
def test_a_number_reads(function, given, said):
    assert function(*given) == said


UNITS = {'MB/s': 1e6, 'GB/s': 1e9, 'B/s': 1, 'kB/s': 1e3, 'TB/s': 1e12, 'PB/s': 1e15, 'EB/s': 1e18}


@given(st.floats(min_value=1e-300, max_value=1e300), st.sampled_from([1, -1]), st.sampled_from(sorted(UNITS)))
def test_a_number_is_never_off_by_more_than_half_a_percent_whatever_its_prefix(value, sign, unit):
    text, shown = figures.figure(value, unit).split(' ')
    for said, right in ((figures.number(sign * value), sign * value), (text, value * (UNITS[unit] / UNITS[shown]))):
        assert float(said.replace(figures.GROUP, '')) == pytest.approx(right, rel=0.0051, abs=0)


@given(st.floats(), st.text(max_size=8))
def test_every_value_and_unit_gives_some_text(value, unit):
    assert figures.figure(value, unit)
