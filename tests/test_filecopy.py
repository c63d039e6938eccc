"""programs/filecopy.py and the parser of its output."""

import ast
import os
import re
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import PATIENCE, TOP, eventually
from mutations import mutated
from parity.check.reader import Incomplete, Wrong
from replay import recorded, room

read = room('filecopy').read
START = sys.modules['filecopy_output'].START

HERE = Path(__file__).parent
PROGRAM = HERE.parent / 'checks/storage/filecopy/programs/filecopy.py'
RECORDED = {path.stem: path.read_text() for path in sorted(recorded('filecopy').glob('*.txt'))}
MODES = ('large-copy', 'small-copy', 'small-write')

# The program as a module `m`: code before it is loaded, and code that changes it before it runs.
DRIVER = '''
import importlib.util, os, sys, time
{before}
sys.path[:0] = [os.path.dirname(sys.argv[1]), os.path.join(os.path.dirname(sys.argv[1]), '../../../../jobs/programs')]
spec = importlib.util.spec_from_file_location('filecopy', sys.argv.pop(1))
m = importlib.util.module_from_spec(spec)
spec.loader.exec_module(m)
true_write = m.write
{after}
sys.exit(m.main())
'''
SLOW = '''
def write(*arguments):
    time.sleep(0.002)
    true_write(*arguments)
m.write = write
'''


def command(*options, before='', after=''):
    return [sys.executable, '-c', DRIVER.format(before=before, after=after), str(PROGRAM), *map(str, options)]


def run(*options, before='', after='', **more):
    """The finished process; whatever happened, it printed no traceback."""
    done = subprocess.run(command(*options, before=before, after=after), capture_output=True, text=True,
                          timeout=PATIENCE, **more)
    assert 'Traceback' not in done.stderr
    return done


def start(*options, **code):
    pipes = {'stdout': subprocess.PIPE, 'stderr': subprocess.PIPE, 'text': True}
    return subprocess.Popen(command(*options, **code), **pipes)


def children(pid):
    found = []
    for entry in Path('/proc').iterdir():
        if entry.name.isdigit():
            try:
                if int((entry / 'stat').read_text().rpartition(')')[2].split()[1]) == pid:
                    found.append(int(entry.name))
            except OSError:
                pass
    return found


def alive(pid):
    try:
        return Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0] != 'Z'
    except OSError:
        return False


END = 'filecopy: end of results'


def resealed(text):
    """The text with the checksum that fits it, as if the program had printed it so."""
    lines = text.split('\n')
    at = lines.index(END) - 1
    block = '\n'.join(lines[lines.index(START):at]).encode('utf-8', 'surrogatepass')
    lines[at] = f'crc32 = {zlib.crc32(block):08x}'
    return '\n'.join(lines)


@pytest.fixture
def places(tmp_path):
    """A source and a destination, with a space and more in their names."""
    pair = tmp_path / 'the source', tmp_path / 'the é\ndestination'
    for place in pair:
        place.mkdir()
    return pair


def options(places, mode, **more):
    given = {'mode': mode, 'source': places[0], 'destination': places[1], 'bytes': 2_500_000, 'files': 20,
             'iterations': 2, **more}
    flags = ['--durable'] if given.pop('durable', False) else []
    return [part for name, value in given.items() for part in (f'--{name}'.replace('_', '-'), value)] + flags


# Runs

@pytest.mark.parametrize('durable', [False, True], ids=['as-is', 'durable'])
@pytest.mark.parametrize('mode', MODES)
def test_a_run_of_two_clients_is_read_back_and_leaves_nothing(places, mode, durable):
    done = run(*options(places, mode, clients=2, durable=durable))
    assert done.returncode == 0, done.stderr
    metrics, said = read(done.stdout)
    assert metrics['hangs'] == metrics['failed_writes'] == 0
    assert metrics['seconds_min'] <= metrics['seconds'] <= metrics['seconds_max']
    assert ('file_rate' in metrics) == (mode != 'large-copy')
    assert said['mode'] == mode and said['clients'] == '2' and said['iterations'] == '2'
    assert said['variant'] == ('durable' if durable else 'as-is')
    assert said['destination'].endswith(r'the \xe9\ndestination')
    assert ('source cached' in said) == (mode != 'small-write')
    assert not any(list(place.iterdir()) for place in places)


@pytest.mark.parametrize('mode', MODES)
def test_every_client_writes_its_own_files_of_the_size_asked(places, mode):
    done = run(*options(places, mode, clients=2), after='m.remove = lambda tree, tick: None')
    assert done.returncode == 0 and 'could not remove' in done.stderr
    each, size = (1, 2_500_000) if mode == 'large-copy' else (20, 1024)
    written = [path.read_bytes() for path in places[1].rglob('*') if path.is_file()]
    assert [len(data) for data in written] == [size] * (2 * 2 * each)            # iterations, clients
    assert len(set(written)) == 2 * each                                        # no two of an iteration alike
    assert len(zlib.compress(b''.join(set(written)))) >= 2 * each * size
    sources = [path.read_bytes() for path in places[0].rglob('*') if path.is_file()]
    assert set(sources) == (set() if mode == 'small-write' else set(written))


def test_durable_synchronises_every_file_and_folder_and_as_is_none_of_them(places, tmp_path):
    log = tmp_path / 'log'
    spy = f'''
true_fsync = os.fsync
def fsync(handle):
    with open({str(log)!r}, 'a') as log:
        log.write(ascii(os.path.basename(os.readlink(f'/proc/self/fd/{{handle}}'))) + ' ')
    true_fsync(handle)
os.fsync = fsync
'''
    before_the_clock, timed = ['iteration-1'], ['0000000', '0000001', 'client-0']
    for durable, expected in ((False, before_the_clock), (True, before_the_clock + timed)):
        log.write_text('')
        assert run(*options(places, 'small-write', files=2, iterations=1, durable=durable),
                   before=spy).returncode == 0
        assert re.findall("'(.*?)'", log.read_text()) == expected


def test_seconds_run_from_the_common_start_to_the_end_of_the_last_client(places):
    slow = "def write(path, *rest):\n    'client-1' in path and time.sleep(0.4)\n    true_write(path, *rest)"
    begun = time.monotonic()
    done = run(*options(places, 'small-write', files=1, clients=3, iterations=1), after=f'{slow}\nm.write = write')
    metrics = read(done.stdout)[0]
    assert 0.4 <= metrics['seconds'] < time.monotonic() - begun
    assert metrics['file_rate'] == pytest.approx(3 / metrics['seconds'], rel=0.001)


@pytest.mark.parametrize('mode', MODES)
@pytest.mark.parametrize('damage', ["file.write(b'damage')", 'file.truncate(1000)'], ids=['altered', 'short'])
def test_a_file_that_is_not_what_was_written_is_wrong(places, mode, damage):
    bad = f'''
def write(path, *rest):
    true_write(path, *rest)
    if path.endswith('iteration-2/client-1/0000000'):
        with open(path, 'r+b') as file:
            {damage}
m.write = write
'''
    done = run(*options(places, mode, clients=2), after=bad)
    assert done.returncode == 1
    with pytest.raises(Wrong, match='mismatches = 1'):
        read(done.stdout)


def test_a_source_in_memory_is_said_to_be_cached(places):
    held = 'm.os.posix_fadvise = lambda *rest: None'
    assert read(run(*options(places, 'large-copy')).stdout)[1]['source cached'] in ('no', 'yes')
    assert read(run(*options(places, 'large-copy'), after=held).stdout)[1]['source cached'] == 'yes'
    assert read(run(*options(places, 'large-copy')).stdout)[1]['destination cached'] == 'yes'


def test_it_needs_python_3_9_and_its_standard_library_only():
    tree = ast.parse(PROGRAM.read_text() + (TOP / 'jobs/programs/filetools.py').read_text(), feature_version=(3, 9))
    names = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    names |= {node.module.split('.')[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names <= sys.stdlib_module_names | {'filetools'}


# Trouble

def test_sigterm_stops_it_and_it_cleans_up(places):
    going = start(*options(places, 'small-copy', clients=2, files=500, iterations=1000), after=SLOW)
    eventually(lambda: list(places[1].glob('*/iteration-*/client-1/*')))
    clients = children(going.pid)
    going.terminate()
    out, err = going.communicate(timeout=PATIENCE)
    assert going.returncode == 128 + signal.SIGTERM and err == 'filecopy: stopped by SIGTERM\n'
    assert clients and not any(map(alive, clients))
    assert not any(list(place.iterdir()) for place in places)
    with pytest.raises(Incomplete):
        read(out)


@pytest.mark.full
def test_after_sigkill_no_client_stays_and_the_next_run_cleans_up(places, tmp_path):
    going = start(*options(places, 'small-copy', clients=2, files=500, iterations=1000), after=SLOW)
    left = eventually(lambda: list(places[1].glob('*/iteration-*/client-1/*')))
    clients = children(going.pid)
    going.kill()
    going.communicate(timeout=PATIENCE)
    eventually(lambda: not any(map(alive, clients)))
    name = re.sub(r'\d+$', '', left[0].parents[2].name)
    (places[1] / f'{name}{os.getpid()}').mkdir()                                # of a run that lives
    kept = tmp_path / 'elsewhere' / 'kept'
    kept.parent.mkdir()
    kept.touch()
    (places[1] / f'{name}4194305').symlink_to(kept.parent)                      # of no run of ours
    assert run(*options(places, 'small-write', files=1)).returncode == 0
    assert {path.name for path in places[1].iterdir()} == {f'{name}{os.getpid()}', f'{name}4194305'}
    assert kept.exists()
    assert run(*options(places, 'small-copy', files=1)).returncode == 0
    assert not list(places[0].iterdir())


@pytest.mark.full
def test_a_client_that_stops_is_a_hang_and_the_run_goes_on(places):
    stop = "def write(path, *rest):\n    'iteration-1/client-0' in path and os.kill(os.getpid(), 19)\n    true_write(path, *rest)"
    done = run(*options(places, 'small-write', clients=2, iterations=3, hang_seconds=4), after=f'{stop}\nm.write = write')
    assert done.returncode == 0, done.stderr
    assert 'iteration 1 client-max-seconds - aggregate-rate - MB/s hung 1 failed 0\n' in done.stdout
    assert read(done.stdout)[0]['hangs'] == 1 and read(done.stdout)[0]['failed_writes'] == 0
    assert not list(places[1].iterdir())


def test_when_every_iteration_hangs_there_is_no_time(places):
    hang = "def write(path, *rest):\n    'client-1' in path and time.sleep(7777)\n    true_write(path, *rest)"
    done = run(*options(places, 'small-write', clients=2, hang_seconds=0.5), after=f'{hang}\nm.write = write')
    assert done.returncode == 1 and not list(places[1].iterdir())
    with pytest.raises(Incomplete, match='no iteration wrote all: 2 hangs, 0 failed writes'):
        read(done.stdout)


def test_a_client_that_dies_ends_the_run_without_results(places):
    die = "def write(path, *rest):\n    'client-1' in path and os._exit(3)\n    true_write(path, *rest)"
    done = run(*options(places, 'small-write', clients=2), after=f'{die}\nm.write = write')
    assert done.returncode == 1 and done.stderr == 'filecopy: a client died\n'
    assert not list(places[1].iterdir())
    with pytest.raises(Incomplete):
        read(done.stdout)


def test_writes_that_fail_are_counted_and_are_not_timed(places):
    limit = 'import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))'
    done = run(*options(places, 'small-write', clients=2), before=limit)
    assert done.returncode == 1 and 'iteration 1: File too large\n' in done.stderr
    assert 'failed_writes = 80\n' in done.stdout and not list(places[1].iterdir())
    with pytest.raises(Incomplete, match='no iteration wrote all: 0 hangs, 80 failed writes'):
        read(done.stdout)


@pytest.mark.full
def test_a_disk_that_fills_up_and_empties_again(tmp_path):
    mount = ['mount', '-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', tmp_path]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip('needs the right to mount a tmpfs')
    try:
        full = tmp_path.with_name(f'{tmp_path.name}-full')      # there while the disk is full
        wait = f"""
def write(path, *rest):
    while ('iteration-2/' in path) > os.path.exists({str(full)!r}) or 'iteration-3/' in path and os.path.exists({str(full)!r}):
        time.sleep(0.01)
    true_write(path, *rest)
m.write = write
"""
        going = start('--mode', 'small-write', '--destination', tmp_path, '--files', 40, '--iterations', 4, after=wait)
        next(line for line in going.stdout if line.startswith('iteration 1 '))
        filler = tmp_path / 'filler'
        subprocess.run(['dd', 'if=/dev/zero', f'of={filler}', 'bs=64k'], capture_output=True)
        full.touch()
        lines = [next(line for line in going.stdout if re.search(r'failed [1-9]', line))]
        filler.unlink()
        full.unlink()
        out, err = going.communicate(timeout=PATIENCE)
        assert going.returncode == 0 and re.search(r'iteration \d+: No space left on device\n', err)
        assert re.search(r'failed_writes = [1-9]', out) and lines and not list(tmp_path.iterdir())
    finally:
        subprocess.run(['umount', tmp_path], check=True)


@pytest.mark.parametrize('mode, more, line', [
    ('large-copy', {'bytes': 1 << 50}, r'not enough space: needs \d+ bytes, \d+ free on /.*'),
    ('small-copy', {'files': 1 << 30}, r'not enough space: needs \d+ bytes, \d+ free on /.*'),
    ('small-write', {'destination': '/proc'}, 'cannot write in /proc: .*'),
    ('small-copy', {'source': '/proc'}, 'cannot write in /proc: .*'),
    ('small-write', {'destination': PROGRAM}, f'not a directory: {PROGRAM}'),
    ('large-copy', {'destination': '/no/such'}, 'not a directory: /no/such'),
])
def test_what_cannot_be_done_is_refused_in_one_line(places, mode, more, line):
    done = run(*options(places, mode, **more))
    assert done.returncode == 2 and done.stdout == ''
    assert re.fullmatch(f'filecopy: {line}\n', done.stderr)
    assert not any(list(place.iterdir()) for place in places)


@pytest.mark.parametrize('more', [{'files': 0}, {'clients': -1}, {'hang_seconds': 'nan'}, {'source': ''},
                                  {'iterations': 'x'}, {'mode': 'tiny'}])
def test_bad_options_are_usage_errors(places, more):
    assert run(*options(places, **{'mode': 'small-copy', **more})).returncode == 2


# The parser

@pytest.mark.parametrize('name', RECORDED)
def test_recorded_outputs(name):
    metrics, said = read(RECORDED[name])
    mode, _, variant = name.partition('-as-is') if name.endswith('as-is') else name.rpartition('-')
    assert said['mode'] == mode and said['host'] == 'node01' and said['iterations'] == '4'
    assert said['clients'] == ('2' if variant == 'durable' else '1')
    assert said['destination cached'] == ('no' if variant == 'durable' else 'yes')
    size = int(said['files']) * int(said['file bytes']) * int(said['clients'])
    assert metrics['rate'] == pytest.approx(size / metrics['seconds'] / 1e6, rel=0.1)
    assert all(type(value) is float for value in metrics.values())
    assert read(RECORDED[name].replace('\n', '\r\n'))[0] == metrics
    assert read(f'prologue\n{RECORDED[name]}epilogue')[0] == metrics


@pytest.mark.parametrize('old, new, error', [
    (r'(?m)^rate = .*', 'rate = 1.5', Wrong),
    (r'(?m)^rate = .*', 'rate = nan', Wrong),
    (r'(?m)^rate = .*\n', '', Incomplete),
    (r'(?m)^seconds = .*', 'seconds = 0', Wrong),
    (r'(?m)^seconds = .*', 'seconds = -1.0', Wrong),
    (r'(?m)^seconds_max = .*', 'seconds_max = inf', Wrong),
    (r'(?m)^file_rate = .*', 'file_rate = many', Wrong),
    (r'(?m)^files: 50', 'files: 60', Wrong),
    (r'(?m)^files: 50', 'files: 0', Wrong),
    (r'(?m)^iteration 2 .*\n', '', Incomplete),
    (r'(?m)^iteration 2 .*', 'iteration 2 client-max-seconds', Incomplete),
    (r'(?m)^(iteration 2 .*) hung 0', r'\1 hung 1', Wrong),
    (r'(iteration 2 client-max-seconds )\S+', r'\g<1>nan', Wrong),
    (r'(iteration 2 client-max-seconds )\S+', r'\g<1>1.0', Wrong),
    (r'(iteration 2 client-max-seconds )\S+', r'\g<1>0.0', Wrong),
    (r'hangs = 0', 'hangs = 1', Wrong),
    (r'mismatches = 0', 'mismatches = 2', Wrong),
    (r'records = 4', 'records = 3', Wrong),
    (r'clients: 2', 'clients: two', Wrong),
    (r'clients: 2', 'clients: 2\nclients: 2', Wrong),
])
def test_results_that_contradict_themselves_even_with_a_fitting_checksum(old, new, error):
    text = re.sub(old, new, RECORDED['small-copy-durable'], count=1)
    assert text != RECORDED['small-copy-durable']
    with pytest.raises(error):
        read(resealed(text))
    with pytest.raises(Incomplete, match='checksum'):
        read(text)


def test_two_runs_in_one_output_are_not_one():
    with pytest.raises(Wrong, match='2 lines "filecopy: start of results'):
        read(RECORDED['small-copy-durable'] + RECORDED['small-copy-as-is'])


def altered(draw, text):
    """One of what happens to outputs: cut, lost, doubled or swapped lines, changed, lost or foreign text."""
    lines = text.split('\n')
    i, j = sorted(draw(st.tuples(*[st.integers(0, len(lines) - 1)] * 2)))
    at, to = sorted(draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    word = draw(st.text(max_size=12) | st.sampled_from(['0', '9', '-', '\n', '\r\n', 'nan', '1e999', *lines]))
    return draw(st.sampled_from([
        text[:at], text[at:], text[:at] + text[to:], text[:at] + word + text[at:],
        text[:at] + word + text[to:], '\n'.join(lines[:i] + lines[i + 1:]),
        '\n'.join(lines[:i] + lines[j:]), '\n'.join(lines[:j] + lines[i:]),
        '\n'.join(lines[:i] + [lines[j]] + lines[i + 1:j] + [lines[i]] + lines[j + 1:]),
        '\n'.join(lines[:i] + [word] + lines[i:]), text + text]))


@mutated
@given(st.data())
def test_an_altered_output_is_refused_or_means_the_same(data):
    name = data.draw(st.sampled_from(list(RECORDED)))
    text = RECORDED[name]
    for _ in range(data.draw(st.integers(1, 3))):
        text = altered(data.draw, text)
    try:
        metrics, _ = read(text)
    except (Incomplete, Wrong):
        return
    assert metrics == read(RECORDED[name])[0]


@mutated
@given(st.data())
def test_no_text_makes_the_parser_fall_over_even_with_a_fitting_checksum(data):
    text = altered(data.draw, RECORDED[data.draw(st.sampled_from(list(RECORDED)))])
    lines = text.split('\n')
    if START in lines and END in lines and lines.index(START) < lines.index(END) - 1:
        text = resealed(text)
    for any_text in (text, data.draw(st.text())):
        try:
            read(any_text)
        except (Incomplete, Wrong):
            pass
