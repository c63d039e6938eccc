"""fio's JSON: figures of real runs, and that no damaged, interrupted or failed output passes for a good one."""

import json
import re
from pathlib import Path

import pytest

from mutations import outcome
from parity.outputs import Incomplete, Wrong, fio

RECORDED = Path(__file__).parent / 'recorded' / 'fio'
ALL = {file.stem: file.read_text() for file in sorted(RECORDED.glob('*.txt'))}
TEXTS = {name: text for name, text in ALL.items() if 'fail' not in name}
ACCEPTED = {name: fio.read(text) for name, text in TEXTS.items()}
MIXED, READ = TEXTS['3.37-randrw'], TEXTS['3.33-randread-quick']
FIGURES = ['rate', 'iops', 'mean', 'p50', 'p95', 'p99', 'p999']


@pytest.mark.parametrize('name, groups', [
    ('3.33-randread-quick', {'4KiB_1': ['read'], '1MiB_1': ['read']}), ('3.33-defaults', {'plain': ['write'], 'ranged': ['read']}),
    ('3.33-rw-quick', {'4KiB_1': ['read', 'write'], '1MiB_1': ['read', 'write']}), ('3.33-two-groups', {'r4k1': ['read'], 'rw1m4': ['read', 'write']}),
    ('3.37-randrw', {'4KiB_1': ['read', 'write'], '10MiB_8': ['read', 'write']})])
def test_every_recorded_run_is_the_one_its_name_says(name, groups):
    metrics, facts = ACCEPTED[name]
    assert facts['version'] == name[:4] and list(facts['groups']) == list(groups)
    assert list(metrics) == [f'{group}_{way}_{figure}' for group, ways in groups.items() for way in ways for figure in FIGURES]
    assert all(value > 0 for value in metrics.values())


def test_figures_are_those_of_the_document():
    told = json.loads(READ)['jobs'][1]['read']
    metrics = ACCEPTED['3.33-randread-quick'][0]
    assert metrics['1MiB_1_read_rate'] == pytest.approx(told['bw_bytes'] / (1 << 20), rel=1e-5)
    assert metrics['1MiB_1_read_p99'] == told['clat_ns']['percentile']['99.000000'] / 1000
    assert ACCEPTED['3.33-randread-quick'][1]['groups']['1MiB_1'] == {
        'rw': 'randread', 'bs': '1048576', 'numjobs': '1', 'size': '167772160', 'direct': '1', 'ioengine': 'psync', 'time_based': '1', 'runtime': '1'}


def test_an_option_of_a_group_wins_over_that_of_all():
    assert {name: group['bs'] for name, group in ACCEPTED['3.33-two-groups'][1]['groups'].items()} == {'r4k1': '4k', 'rw1m4': '1m'}


@pytest.mark.parametrize('name', sorted(TEXTS))
def test_crlf_and_lines_of_the_job_do_not_matter(name):
    text = TEXTS[name].replace('\n', '\r\n')
    assert outcome(fio.read, f'module load fio\nfio: verification is off\n{text}\nreal 2.74\n') == ACCEPTED[name]


# ---- refused

@pytest.mark.parametrize('name, error, message', [
    ('disk-full-fail', Wrong, r"jobs\[.\].error is '28': No space left on device"), ('interrupted-fail', Incomplete, 'terminating on signal 2'),
    ('no-percentiles-fail', Incomplete, r'jobs\[0\].read.clat_ns.percentile is absent')])
def test_what_failed_is_told_in_fios_words(name, error, message):
    with pytest.raises(error, match=message):
        fio.read(ALL[name])


@pytest.mark.parametrize('pattern, replacement, error, message', [
    ('"error" : 0', '"error" : 5', Wrong, r"jobs\[0\].error is '5': Input/output error"), ('"short_ios" : 0', '"short_ios" : 1', Wrong, "short_ios is '1': Input should be 0"),
    ('"drop_ios" : 0', '"drop_ios" : 3', Wrong, "drop_ios is '3'"), ('fio-3.37', 'fio-2.21', Wrong, "fio version is 'fio-2.21'"),
    ('"rw" : "randrw"', '"rw" : "trim"', Wrong, 'read and write was done, asked for rw=trim'), ('"rw" : "randrw"', '"rw" : "read"', Wrong, 'asked for rw=read'),
    ('"bs" : "4096"', '"bs" : "8k"', Wrong, 'operations of bs=8k are not'), ('"runtime" : "1"', '"runtime" : "2"', Incomplete, 'ms, asked for 2000 ms'),
    ('"jobname" : "10MiB_8"', '"jobname" : "4KiB_1"', Wrong, 'two groups are called'), ('"50.000000" :', '"50.0" :', Incomplete, '50.000000 is absent'),
    ('"50.000000" : ', '"50.000000" : 9', Wrong, 'latencies do not rise: minimum'), ('"N" : [1-9]', '"N" : 7', Wrong, 'latencies of 7'),
    ('"bw_bytes" : ', '"bw_bytes" : 1', Wrong, 'bw_bytes is'), ('"iops" : ', '"iops" : 1', Wrong, 'iops is'),
    (r'(?s)"jobs" : \[.*\]', '"jobs" : []', Incomplete, 'no job is there'), (r'(?s)(.*)', r'\1\1', Wrong, 'several JSON')])
def test_what_is_wrong_or_missing(pattern, replacement, error, message):
    text, count = re.subn(pattern, replacement, MIXED, count=1)
    assert count and text != MIXED
    with pytest.raises(error, match=message):
        fio.read(text)


def test_a_group_that_did_nothing_is_incomplete():
    text = re.sub(r'"total_ios" : \d+', '"total_ios" : 0', READ)
    with pytest.raises(Incomplete, match='nothing was done, asked for rw=randread'):
        fio.read(text)
