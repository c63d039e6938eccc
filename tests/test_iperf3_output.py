"""iperf3's JSON: figures of real runs of five versions, and that no damaged or failed output passes for a good one."""

import json
import re
from pathlib import Path

import pytest

from mutations import outcome
from parity.outputs import Incomplete, Wrong, iperf3

RECORDED = Path(__file__).parent / 'recorded' / 'iperf3'
ALL = {file.stem: file.read_text() for file in sorted(RECORDED.glob('*.txt'))}
TEXTS = {name: text for name, text in ALL.items() if 'fail' not in name}
ACCEPTED = {name: iperf3.read(text) for name, text in TEXTS.items()}
TCP, UDP = TEXTS['3.12-tcp-4'], TEXTS['3.17-udp-4']


# ---- what real runs say

@pytest.mark.parametrize('name', sorted(TEXTS))
def test_every_recorded_run_is_the_one_its_name_says(name):
    metrics, facts = ACCEPTED[name]
    version, *_, protocol, streams = name.split('-')
    assert facts['version'].startswith(version) and (facts['protocol'], facts['streams']) == (protocol, int(streams))
    assert facts['threading'] == ('single-threaded' if version in ('3.9', '3.12') else 'multi-threaded')
    assert facts['local'] == facts['remote'] == '127.0.0.1'
    told = {'tcp': ['rate', 'sent_rate', 'retransmits', 'window', 'rtt_min', 'rtt_mean', 'rtt_max'],
            'udp': ['rate', 'sent_rate', 'loss', 'jitter']}
    assert list(metrics) == told[protocol] and ('congestion' in facts) == (protocol == 'tcp')


@pytest.mark.parametrize('version, threading', [('3.9', 0), ('3.15', 0), ('3.15.2', 0), ('3.16', 1), ('3.16.1', 1), ('3.21', 1), ('3.100', 1)])
def test_a_thread_a_stream_came_with_3_16(version, threading):
    assert iperf3.threading(version) == iperf3.THREADING[threading]


def test_figures_are_those_of_the_document():
    end = json.loads(TCP)['end']
    metrics = ACCEPTED['3.12-tcp-4'][0]
    assert metrics['rate'] == pytest.approx(end['sum_received']['bytes'] / end['sum_received']['seconds'] / 1e6)
    assert metrics['retransmits'] == 19 and metrics['window'] == max(s['sender']['max_snd_cwnd'] for s in end['streams'])
    assert metrics['rtt_mean'] == sum(s['sender']['mean_rtt'] for s in end['streams']) / 4


@pytest.mark.parametrize('name', ['3.9-udp-8', '3.12-udp-4', '3.17-udp-4', '3.16-udp-1'])
def test_loss_is_of_all_packets_that_were_sent(name):
    """iperf3's own percentage leaves out the last packets, after which nothing came to show that they were lost."""
    metrics, end = ACCEPTED[name][0], json.loads(TEXTS[name])['end']
    assert metrics['loss'] >= end['sum']['lost_percent'] - 1e-9
    assert metrics['rate'] == pytest.approx(metrics['sent_rate'] * (1 - metrics['loss'] / 100), rel=0.03)
    if 'sum_received' in end:
        assert metrics['rate'] == pytest.approx(end['sum_received']['bits_per_second'] / 8e6)


@pytest.mark.parametrize('name', sorted(TEXTS))
def test_crlf_and_lines_of_the_job_do_not_matter(name):
    text = TEXTS[name].replace('\n', '\r\n')
    assert outcome(iperf3.read, f'module load iperf3\n{{not ours}}\n{text}\nreal 2.74\n') == ACCEPTED[name]


# ---- incomplete and wrong

@pytest.mark.parametrize('name, message', [
    ('3.12-refused-fail', 'iperf3: unable to connect to server: Connection refused'),
    ('3.12-interrupted-fail', 'iperf3: interrupt - the client has terminated')])
def test_an_error_is_told_in_the_words_of_iperf3(name, message):
    with pytest.raises(Incomplete, match=message):
        iperf3.read(ALL[name])


@pytest.mark.parametrize('name, option', [('3.12-omit-fail', 'omit'), ('3.12-reverse-fail', 'reverse')])
def test_what_is_no_plain_transfer_is_not_read(name, option):
    with pytest.raises(Wrong, match=f"start.test_start.{option} is '1': Input should be 0"):
        iperf3.read(ALL[name])


@pytest.mark.parametrize('text', ['', 'iperf3: error - unable to connect\n', '{}', '{\n', '{\n"start": 1', '{\n}\n'])
def test_no_document_is_incomplete(text):
    with pytest.raises(Incomplete):
        iperf3.read(text)


@pytest.mark.parametrize('name', ['start', 'end', 'sum_sent', 'sum_received', 'test_start', 'version', 'connected', 'sender_tcp_congestion'])
def test_a_lost_value_is_named(name):
    with pytest.raises(Incomplete, match=rf'{name}\b.* is absent'):
        iperf3.read(re.sub(f'"{name}":\t(?=[{{"[])', '"x":\t', TCP, count=1))


CHANGES = [
    (TCP, r'(?s)(.*)', r'\1\1', 'several JSON documents'), (TCP, 'iperf 3.12', 'iperf 2.0.9', "start.version is 'iperf 2.0.9'"),
    (TCP, 'iperf 3.12', 'iperf 3.5', 'valid is 3.9 and later'), (TCP, '"protocol":\t"TCP"', '"protocol":\t"SCTP"', "protocol is 'SCTP': .*'TCP' or 'UDP'"),
    (TCP, '"num_streams":\t4', '"num_streams":\t2', 'asked for 2 streams; 4 connected, 4 ended'),
    (TCP, '"num_streams":\t4', '"num_streams":\t"4"', "num_streams is '4'"), (TCP, '"num_streams":\t4', '"num_streams":\ttrue', "num_streams is 'True'"),
    (TCP, '"num_streams":\t4', '"num_streams":\t-4', "num_streams is '-4'"), (TCP, '"blksize":\t131072', '"blksize":\tNaN', 'not a finite'),
    (TCP, '"rtt":\t205', '"rtt":\t1e999', 'not a finite'), (TCP, '"rtt":\t205', '"rtt":\t' + '9' * 400, 'not a finite'),
    (TCP, '"rtt":\t205', '"rtt":\t205, "rtt": 206', "'rtt' stands twice"), (TCP, '"min_rtt":\t205', '"min_rtt":\t4205', 'minimum 4205, mean 451'),
    (TCP, '"bytes":\t2132017152', '"bytes":\t2132017153', 'bytes sent: 2132017153 and 2132017152'),
    (TCP, '"bytes":\t2128740352', '"bytes":\t2128740353', 'bytes received: 2128740353 and 2128740352'),
    (TCP, '"retransmits":\t19,\n\t\t\t"sender"', '"retransmits":\t18,\n\t\t\t"sender"', 'retransmits: 18 and 19'),
    (TCP, '8488519669', '8588519669', 'bits_per_second is 8.58852e.09, 8.48852e.09 by'),
    (UDP, '"lost_packets":\t72046', '"lost_packets":\t72047', 'lost_packets: 72047 and 72046'),
    (UDP, '"jitter_ms":\t0.6969', '"jitter_ms":\t0.7969', 'jitter_ms is 0.79'), (UDP, '"packets":\t96468', '"packets":\t96469', 'packets: 96469 and 96468'),
    (UDP, '"packets":\t96465', '"packets":\t96464', 'bytes received'), (UDP, '"blksize":\t32768', '"blksize":\t1460', '96468 packets of 1460 bytes'),
    (TEXTS['3.9-udp-8'], '"seconds":\t2.035682', '"seconds":\t2.135682', 'end.sum.seconds is 2.13568, 2.03568 by'),
    (TEXTS['3.9-udp-8'], '"bits_per_second":\t17240148552', '"bits_per_second":\t17340148552', 'bits_per_second is 1.734'),
]


@pytest.mark.parametrize('text, pattern, replacement, message', CHANGES, ids=range(len(CHANGES)))
def test_what_contradicts_itself_is_wrong(text, pattern, replacement, message):
    changed, count = re.subn(pattern, replacement, text, count=1)
    assert count and changed != text, f'{pattern} is not in the recorded output'
    with pytest.raises(Wrong, match=message):
        iperf3.read(changed)


def test_a_transfer_that_ended_early_is_incomplete():
    with pytest.raises(Incomplete, match='ended after 2.00333 s of 10 s'):
        iperf3.read(TCP.replace('"duration":\t2', '"duration":\t10'))
