"""The title of a program's output, and what launchers and wrappers put around it."""

import time

import pytest

from parity.base import units
from parity.measure.check.program import Program
from parity.measure.check.reader import Alone, Incomplete, Lines, Unread, Wrong

PROGRAM = Program('Bench', title=r'Bench (?P<version>\S+): a test', tried=('3.2', '4.1'), alone='ranks : 1')
OWN = ['Bench 4.0: a test', 'ranks : 4', '', '   8      1.25', 'done']
TEXT = '\n'.join(OWN) + '\n'
FRAME = '-' * 74


def labelled(label: str, lines=OWN) -> str:
    return ''.join(f'{label}{line}\n' for line in lines)


@pytest.mark.parametrize('label', [
    '', '0: ', ' 0: ', '12: ', '[1,0]<stdout>:', '[prterun-node01-4711@1,0]<stdout>: ', '[0] ', 'Nov 28 22:16:16 ', '2026-11-28T22:16:16.123456Z ',
    '[2026-11-28 22:16:16] ', '22:16:16 ', '1795886240.123456 ', 'Sat Nov 28 22:16:16 2026<stdout>:', 'Sat Nov 28 22:16:16 2026[1,0]<stdout>:', 'Nov 28 22:16:16 0: '])
def test_what_launchers_and_wrappers_put_before_each_line_goes(label):
    out = PROGRAM.output('module load bench\n' + labelled(label) + 'srun: done\n', fold=False)
    assert out.lines[:5] == OWN and (out.first, out.version, out.numbers) == (2, '4.0', (4, 0))


def test_the_time_of_each_line_is_another():
    text = ''.join(f'22:16:{at:02d} {line}\n' for at, line in enumerate(OWN))
    assert PROGRAM.output(text).one('done')


def test_lines_of_several_ranks_keep_their_order():
    lines = [f'{rank}: {line}\n' for rank, line in zip((0, 3, 0, 12, 0), OWN, strict=True)]
    assert PROGRAM.output(''.join(lines), fold=False).lines[:5] == OWN


def test_a_line_without_the_label_is_not_the_programs_and_many_are_refused_by_name():
    text = labelled('0: ').replace('0: ranks', 'srun: error: ranks')
    assert PROGRAM.output(text).maybe('ranks : 4') is None
    with pytest.raises(Unread, match=r"^the title begins with '0: ', 3 lines below it do not$"):
        PROGRAM.output('0: ' + TEXT)


def test_colours_and_carriage_returns_do_not_matter():
    assert PROGRAM.output(TEXT.replace('\n', '\r\n'), fold=False).lines[:5] == OWN
    assert PROGRAM.output(f'\x1b[1m{TEXT}\x1b[0m').one('done')


@pytest.mark.parametrize('framed', ['WARNING: There was an error initializing an OpenFabrics device.\n\n  Local host:   node01',
                                    "WARNING: There are more than one active ports on host 'node01', but the\ndefault subnet"])
def test_what_open_mpi_warns_of_is_no_complaint_of_the_program(framed):
    warning = f'{FRAME}\n{framed}\n{FRAME}\n'
    for text in (warning + TEXT, TEXT.replace('done', f'{warning}done'), TEXT + warning, labelled('0: ', (warning + TEXT).splitlines())):
        out = PROGRAM.output(text)
        out.refuse('^WARNING: ')
        assert out.one('done')


def test_the_programs_own_complaint_below_its_title_counts_and_that_of_others_above_does_not():
    PROGRAM.output('WARNING: disk\n' + TEXT).refuse('^WARNING: ')
    with pytest.raises(Wrong, match='line 3: WARNING: data differ'):
        PROGRAM.output('a job\n' + TEXT.replace('ranks', 'WARNING: data differ\nranks')).refuse('^WARNING: ')


@pytest.mark.parametrize('text, words', [
    ('', 'no title of Bench: the output is empty'), ('srun: error: node01: task 0: Killed\n', "no title of Bench in 1 line; begins with 'srun: error: node01: task 0: Killed'"),
    ('a\nrun Bench 4.0: a test\n', "no title of Bench in 2 lines; begins with 'a'"), ('Bench 4.0: a test of another kind\n', 'no title of Bench in 1 line; .*')])
def test_an_output_without_a_title_says_how_it_begins(text, words):
    with pytest.raises(Incomplete, match=f'^{words}$'):
        PROGRAM.output(text)


def test_several_runs_are_named_by_the_lines_of_their_titles_and_read_apart():
    text = TEXT + 'real 0m1s\n' + TEXT + TEXT
    with pytest.raises(Unread, match='^three runs in one file, lines 1, 7 and 12$'):
        PROGRAM.output(text)
    assert [(run.line, PROGRAM.output(run.text).version) for run in PROGRAM.runs(text)] == [(1, '4.0'), (7, '4.0'), (12, '4.0')]
    with pytest.raises(Unread, match='^9 runs in one file, lines 1, 6, 11, 16 and ...$'):
        PROGRAM.output(9 * TEXT)


def test_a_title_that_stands_twice_without_a_line_between_is_of_one_run():
    assert PROGRAM.output('a job\nBench 4.0: a test\n\n' + TEXT).first == 2


def test_ranks_that_started_alone_are_counted():
    alone = TEXT.replace('ranks : 4', 'ranks : 1')
    interleaved = ''.join(f'{line}\n' * 4 for line in alone.splitlines())
    for text in (4 * alone, interleaved, ''.join(labelled(f'{rank}: ', alone.splitlines()) for rank in range(4))):
        with pytest.raises(Alone, match="^4 ranks started alone: the launcher's MPI is not the program's; try srun --mpi=pmix$"):
            PROGRAM.output(text)
    with pytest.raises(Alone, match='^2 ranks'):
        PROGRAM.output('ranks : 1\nranks : 1\n')
    assert PROGRAM.output(alone).one('done')


@pytest.mark.parametrize('version, note', [('3.2', ''), ('3.9.1', ''), ('4.1.7', ''), ('4.0.1rc1+dev', ''), ('4.2', 'version 4.2: not tried'), ('3.1', 'version 3.1: not tried'),
                                           ('10.0', 'version 10.0: not tried'), ('none', 'version none: not tried')])
def test_a_version_that_was_not_tried_has_a_note_or_is_refused(version, note):
    assert PROGRAM.untried(version) == ({'note': note} if note else {})
    if note:
        with pytest.raises(Unread, match=f'^Bench {version}: a latency is read of 3.2 to 4.1, because nothing in the output confirms it$'):
            PROGRAM.demand_tried(version, 'a latency')


def test_a_line_that_lacks_after_the_end_is_no_end():
    out = Lines('a\ndone\n')
    with pytest.raises(Incomplete, match='ends without "b"'):
        out.one('b')
    out.ends_with('done')
    with pytest.raises(Unread, match='^no line "b" in lines 1 to 3$'):
        out.one('b')


def test_noise_before_the_title_costs_little():
    noise = 'a line of noise, as a shell prints it: 0.123 1: [2]\n' * 2_000_000
    begun = time.process_time()
    out = PROGRAM.output(noise + TEXT)
    assert (out.first, len(out.lines)) == (2_000_001, 6) and time.process_time() - begun < 10


@pytest.mark.parametrize('text, count', [
    ('8', 8), ('4k', 4096), ('4K', 4096), ('4kb', 4096), ('2m', 2 << 20), ('1M', 1 << 20), ('1MiB', 1 << 20), ('1 GiB', 1 << 30), ('512mb', 512 << 20), ('1.5k', 1536), ('3t', 3 << 40),
    ('527672492kb', 527672492 << 10), ('1x', None), ('', None), ('k', None), ('-1k', None), ('1.3', None), ('٣k', None), ('1k1', None)])
def test_a_size_with_its_unit(text, count):
    assert units.size(text) == count


def test_a_size_where_k_or_kib_is_a_thousand():
    assert (units.size('64KB', kilo=1000), units.size('64KiB', kilo=1000)) == (64000, 65536)
    assert (units.size('1M', kibi=1000), units.size('1MiB', kibi=1000)) == (1 << 20, 10 ** 6)
