"""IOR's output, printed for people and as JSON: real runs, and that no damaged output passes for a good one."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mutations
from mutations import mutated, outcome
from parity.outputs import Incomplete, Wrong, ior, ior_checks, ior_command

RECORDED = Path(__file__).parent / 'recorded' / 'ior'
ALL = {file.stem: file.read_text() for file in sorted(RECORDED.glob('*.txt'))}
TEXTS = {name: text for name, text in ALL.items() if 'fail' not in name}
ACCEPTED = {name: (ior.parse(text), ior.facts(text)) for name, text in TEXTS.items()}
TABLE, JSON = TEXTS['ior-posix-np4-shared-cq'], TEXTS['ior-posix-np2-fpp-json-i3']
FINISHED = {name: text.rindex('}') if 'json' in name else re.search('Finished .*', text).end() - 1
            for name, text in TEXTS.items()}


# ---- what real runs say

def test_figures_of_three_repetitions():
    assert ior.parse(TABLE) == {
        'write': 1045.00, 'write_max': 1817.01, 'write_min': 262.64, 'write_iops': 1045.00, 'write_seconds': 0.11318,
        'read': 8386.86, 'read_max': 10998.30, 'read_min': 5613.10, 'read_iops': 8386.86, 'read_seconds': 0.00824}


def test_figures_in_json():
    assert ior.parse(JSON) == {
        'write': 1241.8969, 'write_max': 1684.3749, 'write_min': 978.1207, 'write_iops': 1241.8969,
        'write_seconds': 0.0136, 'read': 20398.2785, 'read_max': 22039.0358, 'read_min': 18978.7511,
        'read_iops': 20398.2785, 'read_seconds': 0.0008}


def test_facts():
    facts = ior.facts(TABLE)
    assert facts == facts | {
        'api': 'POSIX', 'access': 'single-shared-file', 'type': 'independent', 'ordering': 'sequential', 'tasks': 4,
        'nodes': 1, 'clients_per_node': 4, 'transfer_bytes': 2 ** 20, 'block_bytes': 8 * 2 ** 20, 'segments': 2,
        'repetitions': 3, 'aggregate_bytes': 64 * 2 ** 20, 'fsync': 'yes', 'reorder': 'constant task offset',
        'task_offset': 2, 'direct': 'no', 'path': '/scratch/b', 'filesystem': '252.0 GiB',
        'filesystem_used_percent': 7.7, 'version': '4.0.1rc1+dev',
        'command': '/opt/bench/bin/ior -a POSIX -b 8m -t 1m -s 2 -i 3 -e -C -Q 2 -w -r -o /scratch/b'}


@pytest.mark.parametrize('name, expected', [
    ('ior-mpiio-np4-collective', {'api': 'MPIIO', 'type': 'collective', 'tasks': 4, 'segments': 4, 'fsync': 'no'}),
    ('ior-mpiio-np4-collective-json', {'api': 'MPIIO', 'type': 'collective', 'tasks': 4, 'segments': 4}),
    ('ior-posix-np2-verify', {'verified_write': 'yes', 'verified_read': 'yes', 'access': 'file-per-process'}),
    ('ior-posix-np2-odirect', {'direct': 'yes'}), ('ior-posix-np2-odirect-json', {'direct': 'yes'}),
    ('ior-posix-np2-tmpfs-odirect', {'direct': 'yes', 'path': '/dev/shm/i'}),
    ('ior-posix-np2-random-shared', {'ordering': 'random', 'transfer_bytes': 65536}),
    ('ior-posix-np2-defaults', {'block_bytes': 2 ** 20, 'transfer_bytes': 2 ** 18, 'reorder': 'no tasks offsets'}),
    ('ior-posix-np2-write', {'keep': 'yes'}), ('ior-posix-np2-overwrites', {'overwritten': 'yes'}),
    ('ior-posix-np2-400', {'version': '4.0.0', 'overwritten': 'no'})])
def test_facts_of_others(name, expected):
    assert ACCEPTED[name][1] == ACCEPTED[name][1] | expected


def test_what_was_not_run_is_no_metric():
    assert {name.partition('_')[0] for name in ACCEPTED['ior-posix-np2-write'][0]} == {'write'}
    assert {name.partition('_')[0] for name in ACCEPTED['ior-posix-np2-read'][0]} == {'read'}


def test_a_time_that_prints_as_zero_comes_from_data_and_bandwidth():
    """16 MiB in 4 decimals: made here by scaling the times of a real run away."""
    text = re.sub(r'("(?:totalTime|wrRdTime|openTime|closeTime|latency|MeanTime)": )\S+?(,?) *\n', r'\g<1>0.0000\2\n',
                  TEXTS['ior-posix-np2-odirect-json'])
    text = re.sub(r'("(?:bw\w+|OPs\w+|iops)": )(?!0\.0)(\S+?)(, *\n)', r'\g<1>400000.0000\3', text)
    assert ior.parse(text)['read_seconds'] == pytest.approx(16 / 400000)


@pytest.mark.parametrize('name', sorted(TEXTS))
def test_crlf_and_lines_of_the_job_do_not_matter(name):
    text = TEXTS[name].replace('\n', '\r\n')
    assert outcome(ior, f'module load ior\n{text}real 0m2.742s\n') == ACCEPTED[name]


def test_a_useless_option_is_no_direct_io():
    """Only the backend POSIX opens with O_DIRECT."""
    text = TEXTS['ior-mpiio-np2-400'].replace('-a MPIIO', '-a MPIIO --posix.odirect')
    assert ior.facts(text)['direct'] == 'no'


@pytest.mark.parametrize('option', ['--posix.odirect', '-O useO_DIRECT=1', '-O fsync=1,useO_DIRECT=1'])
def test_spellings_of_direct_io(option):
    text = TEXTS['ior-posix-np2-defaults'].replace('/ior -o', f'/ior {option} -o')
    assert ior.facts(text)['direct'] == 'yes'


# ---- the command line

@pytest.mark.parametrize('words, expected', [
    ('-wr -b 4m', {'w': '1', 'r': '1', 'b': '4m'}), ('-wrb 4m', {'w': '1', 'r': '1', 'b': '4m'}), ('-b=4m', {'b': '4m'}),
    ('-t1m -F', {'t': '1m', 'm': '1', 'F': '1'}), ('-w=0', {'w': '0'}), ('--posix.odirect -w', {'posix.odirect': '1', 'w': '1'}),
    ('-O fsync=1,summaryFormat=JSON', {'O': 'fsync=1,summaryFormat=JSON', 'fsync': '1', 'summaryformat': 'JSON'}),
    ('--posix.lustre.stripecount 4 -w', {'posix.lustre.stripecount': '1', 'w': '1'})])
def test_a_command_line_is_read_as_ior_reads_it(words, expected):
    assert ior_command.read(words.split(), ior.FLAGS, ior.VALUED) == expected


@pytest.mark.parametrize('words, message', [('-B', 'unknown option'), ('-w 4m', "'4m' where an option"),
                                            ('--posix.odirect 4', "'4' where an option"), ('-w -', "'-' where an option")])
def test_what_ior_would_refuse_is_wrong(words, message):
    with pytest.raises(Wrong, match=message):
        ior_command.read(words.split(), ior.FLAGS, ior.VALUED)


def test_blanks_in_paths():
    text = TABLE.replace('/scratch/b', '/my scratch/b').replace('/opt/bench', '/opt/my bench')
    assert ior.facts(text)['path'] == '/my scratch/b'


@pytest.mark.parametrize('size, text', [(1000, '1000 bytes'), (2 ** 20, '1 MiB'), (3 * 2 ** 19, '1.50 MiB'), (2 ** 30, '1 GiB'),
                                        (5 * 2 ** 28, '1.25 GiB'), (2 ** 41, '2 TiB')])
def test_sizes_are_printed_as_ior_prints_them(size, text):
    assert ior_checks.human_readable(size) == text


@pytest.mark.parametrize('name', [name for name in sorted(TEXTS) if 'json' in name])
def test_two_documents_in_one_output_are_wrong(name):
    text, document = TEXTS[name], TEXTS[name][TEXTS[name].index('{'):]
    line = ' '.join(document.split()) + '\n'
    for two in (text + text, text + document, text.rstrip() + document, text + f'[{document}]', text + line, line + text,
                text + document[:400], text + document[2:], document[-300:] + text, TABLE + document, document + TABLE):
        with pytest.raises(Wrong, match='one run an output|IOR prints it broken'):
            ior.parse(two)


# ---- incomplete

@pytest.mark.parametrize('text', [
    '', 'srun: error: node01: task 0: Killed\n', TABLE.split('Finished')[0], TABLE.split('Summary')[0],
    TABLE.split('Results:')[0], JSON.split('"Finished"')[0], JSON.rstrip().removesuffix('}'), JSON.split('"summary"')[0]])
def test_an_output_without_its_end_is_incomplete(text):
    with pytest.raises(Incomplete, match=r'^line \d+: .*Finished'):
        ior.parse(text)


@pytest.mark.parametrize('line', ['IOR-', 'Command line', 'Path', 'FS', 'Options:', 'api  ', 'access +:', 'type', 'segments', 'nodes',
                                  'tasks', 'clients', 'repetitions', 'xfersize', 'blocksize', 'aggregate', 'Results:', 'Summary',
                                  'Operation', r'read .*POSIX', r'write .*POSIX'])
def test_a_lost_line_is_incomplete(line):
    text, count = re.subn(rf'^{line}.*\n', '', TABLE, flags=re.M)
    assert count == 1
    with pytest.raises(Incomplete, match=r'^line \d+: '):
        ior.parse(text)


@pytest.mark.parametrize('row', ['write .* 0   ', 'write .* 2   ', 'read .* 1   ', 'read .* 2   '])
def test_a_missing_repetition_is_refused(row):
    text, count = re.subn(rf'^{row}\n', '', TABLE, flags=re.M)
    assert count == 1
    with pytest.raises(Incomplete, match='5 rows of results, 6 by 3 repetitions'):
        ior.parse(text)


# ---- wrong

@pytest.mark.parametrize('name, message', [
    ('corrupted', r'Incorrect data on read \(1 errors found\)'), ('corrupted-json', r'Incorrect data on read \(1 errors'),
    ('corrupted-128', r'Incorrect data on read \(128 errors'), ('disk-full', 'partial write'),
    ('mpiio-disk-full', 'Expected aggregate file size'), ('short-file', 'EOF prematurely'),
    ('long-file', 'Expected aggregate file size'), ('odirect-refused', r'open64\(.* Invalid argument'),
    ('odirect-unaligned', 'failed Invalid argument'), ('v-json', 'broken with -v'), ('stonewall', 'Expected aggregate'),
    ('R-only', 'run with -r -R'), ('bad-sizes', 'multiple of transfer size'), ('no-folder', 'error during statfs'),
    ('too-few-ranks', r'More tasks requested \(4\)')])
def test_a_run_that_went_wrong_is_wrong_in_the_words_of_ior(name, message):
    with pytest.raises(Wrong, match=message):
        ior.parse(ALL[f'fail-{name}'])


@pytest.mark.parametrize('said', [
    'WARNING: inconsistent file size by different tasks', 'WARNING: overflow in errors counted',
    'WARNING: Incorrect data on write (3 errors found).', 'WARNING: fsync(17) failed', 'ERROR: cannot write to file, (ior.c:1656)',
    'WARNING: fsync() not supported in selected backend. Using value of 0.', 'WARNING: Stat() of aggregate file size      = 5',
    '11/20/2026 19:30:03: Process 1: FAILED in TestIoSys, Cannot create file',
    'mca_fbtl_posix_pwritev: error in (p)write(v):No space left on device'])
@pytest.mark.parametrize('text', [TABLE, JSON])
def test_what_ior_says_went_wrong_is_never_lost(text, said):
    with pytest.raises(Wrong, match='IOR says'):
        ior.parse(text.replace('\n', f'\n{said}\n', 40))


WRONG = [
    (r'(write     )262\.64', r'\g<1>264.64', 'is not the work of 64 MiB'), ('10998 ', '11998 ', 'not the work'),
    ('262.68 ', '282.68 ', 'are not 64 transfers'), (r'(write .*POSIX      0\n)', r'\1\1', 'second time'),
    ('1817.01     262.64    1045.00', '1817.01     262.64    1055.00', '1055.00 in the summary, 1045 by the rows'),
    ('8386.86    2201.49   ', '8386.86    2301.49   ', 'bw_sd of read'),
    (r'1817\.01     262\.64', '1817.02     262.64', 'max of write in MiB and in OPs'),
    ('0.11318', '0.12318', 'seconds of write'), ('64.0 POSIX', '65.0 POSIX', '65.0 MiB moved'),
    (r' 8388608  ', ' 8388609  ', 'blocksize'), (r'  1048576      64', '  1048577      64', 'xfersize'),
    ('aggregate filesize  : 64 MiB', 'aggregate filesize  : 32 MiB', 'aggregate filesize: 32 MiB and 64 MiB'),
    ('tasks               : 4', 'tasks               : 2', 'tasks: 2 and 4'), ('segments            : 2', 'segments            : 4', 'segments'),
    ('clients per node    : 4', 'clients per node    : 2', 'clients per node'), ('repetitions         : 3', 'repetitions         : 2', 'repetitions'),
    ('-i 3', '-i 2', 'reps and -i'), ('-b 8m', '-b 4m', 'block and -b'), ('-Q 2', '-Q 3', 'offset and -Q'), (' -C', '', 'reorder and -C'),
    (' -w', ' -F -w', 'access and -F'), (' -r', '', 'accesses in the summary'), ('-o /scratch/b', '-o /scratch/c', 'test filename'),
    ('-a POSIX', '-a MPIIO', 'api'), (' -w', ' -D 5 -w', 'without -D'), (' -w', ' -T 5 -w', 'without -T'), (' -w', ' -f script', 'script'),
    ('single-shared-file', 'single-file', "'single-file'"), ('constant task offset', 'no tasks offsets', 'ordering inter file'),
    ('IOR-4.0.1', 'IOR-3.3.0', 'only 4.0'), ('262.64 ', 'nan ', 'not a finite'), ('262.64 ', '-262.64 ', 'negative'),
    ('262.64 ', '0.000000 ', 'above zero'), ('262.64 ', '262.6 ', '2 decimals'), ('0.243682', '0.243', '6 decimals'),
    (r'(?s)(.*)', r'\1\1', 'one run an output'), ('0.074504', '0.374504', 'close 0.374504 s is longer than the total'),
    ('0.029536', '0.039536', 'transfers of 0.039536 s'), (r'Path                : /scratch/b', 'Path                : /else/b', 'Path is /else/b'),
]


@pytest.mark.parametrize('pattern, replacement, message', WRONG)
def test_wrong(pattern, replacement, message):
    text, count = re.subn(pattern, replacement, TABLE, count=1)
    assert count and text != TABLE, f'{pattern} is not in the recorded output'
    with pytest.raises(Wrong, match=message):
        ior.parse(text)


@pytest.mark.parametrize('pattern, replacement, message', [
    ('1684.3749', '1784.3749', 'not the work'), ('"bwMeanMIB": 1241.8969', '"bwMeanMIB": 1251.8969', 'bw_mean of write'),
    ('"OPsMax": 1684.3749', '"OPsMax": 1685.3749', 'in MiB and in OPs'), ('"fsync": 1', '"fsync": 0', 'fsync and -e'),
    ('"numTasks": 2', '"numTasks": 4', 'tasks'), ('"nodes": 1, ', '"nodes": 1, "nodes": 1, ', 'key twice'), ('"nodes": 1', '"nodes": 2', 'nodes'),
    ('"bwMiB": 1684.3749', '"bwMiB": NaN', 'NaN'), ('"bwMiB": 1684.3749', '"bwMiB": null', 'nothing where a figure'),
    ('"bwMiB": 1684.3749', '"bwMiB": [1]', 'a list'), ('"bwMiB": 1684.3749', '"bwMiB": "inf"', 'not a finite'),
    ('"tests": \\[', '"tests": ' + '[' * 3000, 'cannot be read')])
def test_wrong_in_json(pattern, replacement, message):
    text, count = re.subn(pattern, replacement, JSON, count=1)
    assert count
    with pytest.raises(Wrong, match=message):
        ior.parse(text)


def test_json_that_lacks_a_part_is_incomplete():
    with pytest.raises(Incomplete, match=r"^line \d+: the JSON lacks 'bwMaxMIB'"):
        ior.parse(re.sub('"bwMaxMIB": .*\n', '', JSON))


# ---- mutations

# Printed once, so that nothing contradicts another figure: of the table also the number of nodes.
ALONE = ('command', 'filesystem', 'filesystem_used_percent', 'version', 'nodes', 'overwritten')


# The table has these in the command line only: cut out of it, an option leaves no trace.
IN_COMMAND = ('fsync', 'fsync_per_write', 'verified_write', 'verified_read', 'keep', 'direct')


def told(result, *but):
    return result and (result[0], {k: v for k, v in result[1].items() if k not in (*ALONE, *but)})


@pytest.mark.parametrize('kind', sorted(mutations.KINDS))
@mutated
@given(name=st.sampled_from(sorted(TEXTS)), data=st.data())
def test_a_mutated_output_is_refused_or_means_the_same(kind, name, data):
    result = outcome(ior, mutations.KINDS[kind](data.draw, TEXTS[name]))
    but = IN_COMMAND if kind in ('cut', 'several') else ()
    assert told(result, *but) in (None, told(ACCEPTED[name], *but))
    if result and 'json' in name:
        assert result[1]['nodes'] == ACCEPTED[name][1]['nodes']


@mutated
@given(name=st.sampled_from(sorted(TEXTS)), data=st.data())
def test_a_changed_digit_is_noticed_or_below_the_digits_printed(name, data):
    """Its last digit may change, and of the transfers/s what that is in transfers."""
    result = outcome(ior, mutations.changed_digit(data.draw, TEXTS[name]))
    if result:
        metrics, facts = ACCEPTED[name]
        for metric, value in metrics.items():
            least = 1e-4 if 'json' in name else 1e-5 if metric.endswith('seconds') else 0.01
            near = 1.01 * least * (6 if metric.endswith('iops') else 1)
            assert result[0][metric] == pytest.approx(value, abs=near, rel=0)
        assert {k: v for k, v in result[1].items() if k not in ALONE} == {k: v for k, v in facts.items() if k not in ALONE}


@mutated
@given(name=st.sampled_from(sorted(TEXTS)), data=st.data())
def test_a_truncated_output_is_incomplete(name, data):
    with pytest.raises(Incomplete, match=r'^line \d+: '):
        ior.parse(TEXTS[name][:data.draw(st.integers(0, FINISHED[name]))])


@pytest.mark.parametrize('text', [TABLE, JSON])
def test_a_last_line_without_end_counts(text):
    with pytest.raises(Wrong, match='Incorrect data'):
        ior.parse(f'{text}WARNING: Incorrect data on read (1 errors found).')


def test_a_file_system_that_is_no_size_is_wrong():
    with pytest.raises(Wrong, match='Used Capacity'):
        ior.parse(JSON.replace('"7.7%"', '"\ufffd7.7%"'))
