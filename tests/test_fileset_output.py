"""The output of programs/fileset.py: real runs, and that no damaged output passes for a good one."""

import re
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mutations
from mutations import mutated, outcome
from parity.outputs import Incomplete, Wrong, fileset, registry

RECORDED = Path(__file__).parent / 'recorded' / 'fileset'
TEXTS = {file.stem: file.read_text() for file in sorted(RECORDED.glob('*.txt'))}
TWO, FOUR = TEXTS['read-2nodes'], TEXTS['read-write-2nodes-4ranks']
ACCEPTED = {name: fileset.read(text) for name, text in TEXTS.items()}
HEADER = {'host', 'source', 'source device', 'destination', 'destination device'}


def resealed(text):
    """The text with the checksum that fits it, as if the program had printed it so."""
    lines = text.split('\n')
    start = lines.index(fileset.START)
    seals = [at for at, line in enumerate(lines) if re.fullmatch('crc32 = [0-9a-f]{8}', line) and at > start]
    for at in seals:
        lines[at] = f'crc32 = {zlib.crc32(chr(10).join(lines[start:at]).encode("utf-8", "surrogatepass")):08x}'
    return '\n'.join(lines)


def test_figures():
    assert fileset.read(TWO)[0] == {'rate': 4652.91602, 'ns_per_byte': 3.438704, 'file_rate': 5816.145025,
                                  'seconds': 0.017193519}
    assert [registry.unit('fileset', name) for name in fileset.read(TWO)[0]] == ['Mb/s', 'ns/byte', 'files/s', 's']
    assert registry.reader('fileset') is fileset.read


@pytest.mark.parametrize('name, ranks, nodes, size, files, mode, cached, read_from', [
    ('read-1rank', 1, 1, 1e6, 20, 'read', 'no', 'own'),
    ('read-write-1rank-1byte', 1, 1, 1, 20, 'read-write', 'unknown', 'own'),
    ('read-2nodes', 2, 2, 1e5, 50, 'read', 'unknown', 'other node'),
    ('read-2ranks-memory', 2, 1, 3e6, 4, 'read', 'yes', 'own'),
    ('read-write-2nodes-4ranks', 4, 2, 1e4, 25, 'read-write', 'unknown', 'other node')])
def test_facts(name, ranks, nodes, size, files, mode, cached, read_from):
    metrics, facts = ACCEPTED[name]
    assert facts == facts | {'ranks': ranks, 'nodes': nodes, 'bytes': size, 'files': files, 'mode': mode, 'chunk': 32768,
                             'source cached': cached, 'read_from': read_from, 'python': '3.11.7', 'host': 'node01'}
    assert facts['seconds_min'] <= metrics['seconds'] <= facts['seconds_max']
    assert ('destination' in facts) == (mode == 'read-write')
    assert (facts['mpi4py'], facts['mpi']) == (('none', 'none') if ranks == 1 else ('4.1.2', 'Open MPI v4.1.4'))
    assert all(type(value) is float for value in metrics.values())


@pytest.mark.parametrize('name', sorted(TEXTS))
def test_crlf_and_lines_of_the_job_do_not_matter(name):
    text = TEXTS[name].replace('\n', '\r\n')
    assert outcome(fileset.read, f'module load python\n{text}real 0m2.742s\n') == ACCEPTED[name]


def test_lines_of_the_job_among_the_results_are_refused():
    with pytest.raises(Incomplete, match='^line 31: the checksum does not fit'):
        fileset.read(TWO.replace('\nseconds =', '\nslurmstepd: error\nseconds ='))


# What a fitting checksum does not excuse: the program itself would have printed it

LINES = [line for line in FOUR.split('\n') if line.startswith(tuple(f'{name}: ' for name in (*fileset._COUNTS, *fileset._WORDS, 'seed', 'read from')))]
LINES += [line for line in FOUR.split('\n') if ' = ' in line or line.startswith('iteration ') or 'cached' in line]


@pytest.mark.parametrize('line', LINES)
def test_a_lost_line_is_incomplete(line):
    text = FOUR.replace(f'\n{line}\n', '\n')
    assert text != FOUR
    with pytest.raises(Incomplete, match=r'^line \d+: '):
        fileset.read(text)
    if 'crc32' not in line:
        with pytest.raises(Incomplete, match=r'^line \d+: '):
            fileset.read(resealed(text))


WRONG = [
    (r'(?s)(.*)', r'\1\1', '2 lines "fileset: start'), (r'\nbytes: 10000', r'\nbytes: 20000', 'iteration 1: bytes: 1000000, not 2000000'),
    (r'\nbytes: 10000', r'\nbytes: 1e4', "bytes: ... is '1e4', not a count"), ('files: 25', 'files: 24', 'iteration 1: bytes: 1000000, not 960000'),
    ('files: 25', 'files: 0', 'files: ... is 0'), ('ranks: 4', 'ranks: 5', 'iteration 1: bytes: 1000000, not 1250000'), ('nodes: 2', 'nodes: 0', 'nodes: ... is 0'),
    ('chunk: 32768', 'chunk: -1', "'-1', not a count"), ('seed: 7', 'seed: x', 'seed'), ('iteration 2', 'iteration 3', 'iteration 2: number: 3, not 2'),
    ('iterations: 3', 'iterations: 2', 'iterations: 2, not 3'), ('wrong 0', 'wrong 3', 'iteration 1: wrong files: 3, not 0'), (r'(iteration 2 .* seconds) \S+', r'\1 0.000000000', 'above zero'),
    (r'(iteration 2 .* seconds) \S+', r'\1 nan', 'finite'), (r'(iteration 2 .* seconds) \S+', r'\1 0.0090', '9 decimals'),
    (r'(iteration 3 .* seconds) \S+', r'\1 0.009300000', 'rate is 860.304137, but 860.2'), (r'\nseconds = \S+', r'\nseconds = 0.009012539', 'seconds is 0.009012539, but 0.009299'),
    (r'\nrate = \S+', r'\nrate = 887.652192', 'rate is 887.652192, but 860.304137'), (r'\nrate = \S+', r'\nrate = inf', 'finite'),
    ('ns_per_byte = 3', 'ns_per_byte = 4', 'ns_per_byte is 47'), ('file_rate = 1', 'file_rate = 2', 'file_rate is 20753'),
    ('mismatches = 0', 'mismatches = 1', 'mismatches: 1, not 0'), ('records = 3', 'records = 4', 'records: 4, not 3'), ('(host: .*)', r'\1\n\1', '2 lines "host: ..."'),
]


@pytest.mark.parametrize('pattern, replacement, message', WRONG)
def test_wrong(pattern, replacement, message):
    text = re.sub(pattern, replacement, FOUR, count=1)
    assert text != FOUR
    with pytest.raises(Wrong, match=re.escape(message)):
        fileset.read(resealed(text))


@pytest.mark.parametrize('pattern, replacement, message', [
    ('iterations: 3', 'iterations: 4', 'line 31: 3 iterations of 4'), ('source cached: unknown', 'source cached: perhaps', 'source cached: yes, no or unknown'),
    (r'iteration 2 bytes', 'iteration 2 bites', '2 iterations of 3'), ('mode: .*', 'mode: ', 'mode: ...')])
def test_unreadable(pattern, replacement, message):
    with pytest.raises(Incomplete, match=message):
        fileset.read(resealed(re.sub(pattern, replacement, FOUR, count=1)))


# ---- mutations


@pytest.mark.parametrize('kind', sorted(mutations.KINDS))
@mutated
@given(name=st.sampled_from(sorted(TEXTS)), data=st.data())
def test_a_fitting_checksum_excuses_no_figure(kind, name, data):
    """No metric may change; moved lines of iterations, or the words of a fact, have nothing but the checksum."""
    text = mutations.KINDS[kind](data.draw, TEXTS[name])
    result = outcome(fileset.read, resealed(text) if fileset.START in text.split('\n') else text)
    assert result is None or result[0] == pytest.approx(ACCEPTED[name][0], rel=1e-4, abs=1e-6)
