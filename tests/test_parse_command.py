"""`parity parse CODE FILE [--json] [--max-size BYTES]`: metrics and 0, or one line with the reason and 1."""

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from commands import parity
from conftest import TOP, run_python
from parity.base.errors import UsageError
from parity.cli import files
from parity.outputs import registry

RECORDED = Path(__file__).parent / 'recorded'
EVERY = [(file.parent.name, file) for file in sorted(RECORDED.glob('*/*.txt')) if file.parent.name in registry.CODES]
GOOD = [(code, file) for code, file in EVERY if 'fail' not in file.name]


def ran(capsys, code, file, as_json=False, **options):
    """(exit code, what was printed)."""
    status = files.parse(code, str(file), as_json, **options)
    printed = capsys.readouterr()
    assert printed.err == ''
    return status, json.loads(printed.out) if as_json else printed.out


@pytest.mark.parametrize('code, file', GOOD, ids=lambda value: getattr(value, 'stem', value))
def test_every_recorded_output_is_complete_and_verified(capsys, code, file):
    status, answer = ran(capsys, code, file, as_json=True)
    assert status == 0 and (answer['code'], answer['complete'], answer['verified']) == (code, True, True)
    assert answer['metrics'] and answer['facts'] and 'reason' not in answer
    status, text = ran(capsys, code, file)
    assert status == 0
    rows = [line.split(maxsplit=2) for line in text.splitlines()]
    assert {row[0]: float(row[1]) for row in rows} == answer['metrics']
    assert all(len(row) == 3 for row in rows if row[0] not in ('residual', 'hpl_residual', 'hangs', 'failed_writes', 'imbalance', 'retransmits', 'lowest_over_median'))


def test_codes_are_those_recorded():
    assert {code for code, _ in GOOD} == set(registry.CODES)


@pytest.mark.parametrize('code, name, line', [
    ('npb', 'npb-bt.A.4', 'mops_total 7375.57 Mop/s'), ('npb', 'npb-bt.A.4', 'seconds 22.82 s'),
    ('hpl', 'hpl-N4000-np4', 'gflops 78.214 Gflop/s'), ('hpl', 'hpl-N4000-np4', 'residual 0.00268609114'),
    ('stream', 'stream_c-omp2', 'triad 42826.3 MB/s'), ('hpcc', 'np2', 'randomaccess_mpi 0.0298361 GUP/s'),
    ('hpcc', 'np2', 'stream_star_triad 26.6415 GB/s'), ('hpcc', 'np2', 'hpl_time 0.0426986 s'),
    ('hpcc', 'np2', 'beff_pingpong_latency_max 0.343611 us'), ('hpcc', 'np2', 'beff_pingpong_bandwidth_max 11.3561 GB/s'),
    ('osu', 'mbw_mr-np4', 'mbw_mr_1048576 9724.9 MB/s'), ('osu', 'mbw_mr-np4', 'message_rate_1 6554338.28 1/s'),
    ('osu', 'barrier-np4', 'barrier 2.86 us'), ('osu', 'bw-np2', 'bw_1 11.15 MB/s'), ('osu', 'bcast-np4', 'bcast_1 0.71 us'),
    ('imb', 'sendrecv-npmin4-np4', 'sendrecv_time_0 6.18 us'), ('imb', 'sendrecv-npmin4-np4', 'sendrecv_bandwidth_1 0.67 MB/s')])
def test_metrics_have_their_units(capsys, code, name, line):
    assert line in ran(capsys, code, RECORDED / code / f'{name}.txt')[1].splitlines()


@pytest.mark.parametrize('code, name, line', [
    ('npb', 'npb-bt.S.2-strict-fail', 'wrong: line 2: Expecting a square number of processes (such as 1)'),
    ('hpcc', 'np2_failed', 'wrong: line 416: ||Ax-b||_oo'), ('npb', '../hpl/hpl-N4000-np4', 'incomplete: line 64: '),
    ('hpl', '../npb/npb-bt.A.4', 'incomplete: line 68: the output ends without "End of Tests."')])
def test_a_bad_output_is_one_line_and_one(capsys, code, name, line):
    file = RECORDED / code / f'{name}.txt'
    status, text = ran(capsys, code, file)
    assert status == 1 and text.startswith(f'{file}: {line}') and text.count('\n') == 1
    status, answer = ran(capsys, code, file, as_json=True)
    assert status == 1 and not answer['complete'] and not answer['verified'] and 'metrics' not in answer
    assert f'{answer["outcome"]}: {answer["reason"]}' == text.partition(': ')[2].strip()


@pytest.mark.parametrize('code, name, last', [('osu', 'latency-np2', 1 << 20), ('imb', 'pingpong-16MiB-np2', 1 << 24)])
def test_the_last_message_size_must_be_the_one_asked_for(capsys, code, name, last):
    file = RECORDED / code / f'{name}.txt'
    assert ran(capsys, code, file, max_size=last) == ran(capsys, code, file)
    status, text = ran(capsys, code, file, max_size=2 * last)
    assert status == 1 and 'incomplete: line ' in text and f'ends at {last} B, not at {2 * last} B' in text
    status, text = ran(capsys, code, file, max_size=last // 2)
    assert status == 1 and f'wrong: the table goes on to {last} B, beyond {last // 2} B' in text


@pytest.mark.parametrize('code, max_size, message', [
    ('npb', 1024, 'no option for npb: .* it is for osu, imb'), ('stream', 0, 'no option for stream'), ('osu', 0, 'powers of two'),
    ('osu', -1, 'powers of two'), ('imb', 1000, '--max-size 1000: message sizes are powers of two, such as 1048576')])
def test_a_last_message_size_that_means_nothing(code, max_size, message):
    with pytest.raises(UsageError, match=message) as caught:
        files.parse(code, '-', False, max_size)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize('arguments, code, said', [
    (['osu', 'latency-np2', '--max-size', '1048576'], 0, 'latency_1048576 '),
    (['osu', 'latency-np2', '--max-size', '4194304'], 1, 'incomplete'),
    (['npb', 'npb-bt.A.4', '--max-size', '8'], 2, 'it is for osu, imb'),
    (['osu', 'latency-np2', '--max-size', '1M'], 2, 'integer')])
def test_the_option_of_the_command(arguments, code, said):
    name, stem, *options = arguments
    done = parity('parse', name, str(RECORDED / name / f'{stem}.txt'), *options)
    assert done.returncode == code and said in done.stdout + done.stderr and 'Traceback' not in done.stderr


def test_standard_input(capsys, monkeypatch):
    raw = (RECORDED / 'npb/npb-bt.A.4.txt').read_bytes()
    monkeypatch.setattr('sys.stdin', SimpleNamespace(buffer=io.BytesIO(raw)))
    assert ran(capsys, 'npb', '-')[1].startswith('mops_total 7375.57 Mop/s\n')


def test_bytes_that_are_no_text_do_not_matter_where_no_figure_is(capsys, tmp_path):
    file = tmp_path / 'out'
    file.write_bytes(b'\xff\xfe node\xc3\n' + (RECORDED / 'npb/npb-bt.A.4.txt').read_bytes())
    assert ran(capsys, 'npb', file)[0] == 0


def test_a_reason_never_commands_the_terminal(capsys, tmp_path):
    file = tmp_path / 'out'
    file.write_text('>>> \x1b[2J\x1b]0;evil\x07\u2028 illegal <<<\n')
    status, text = ran(capsys, 'hpl', file)
    assert status == 1 and '\x1b' not in text and '\x07' not in text and len(text.splitlines()) == 1


def test_an_unknown_code_names_the_valid_ones():
    with pytest.raises(UsageError, match="'linpack' is no code .* valid are: npb, hpl, stream, hpcc, filecopy") as caught:
        files.parse('linpack', '-', False)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize('file, message', [('/no/such/file', 'No such file'), ('/', 'Is a directory'), ('a\0b', 'null')])
def test_an_unreadable_file_is_a_mistake_of_usage(file, message):
    with pytest.raises(UsageError, match=message):
        files.parse('npb', file, False)


def test_a_parser_is_imported_when_it_is_asked_for():
    code = ('import sys\nfrom parity.outputs import registry\nbefore = set(sys.modules)\nregistry.reader("stream")\n'
            'print("parity.outputs.stream" in before, "parity.outputs.stream" in sys.modules, "parity.outputs.npb" in sys.modules)')
    assert run_python(code, TOP).stdout.split() == ['False', 'True', 'False']
