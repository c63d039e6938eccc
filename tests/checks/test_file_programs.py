"""files.py, its modes of clients and of populations: runs of several clients and ranks, and what can go wrong with them."""

import ast
import functools
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import PATIENCE, TOP, eventually
from parity.measure.check.reader import Incomplete, Wrong
from replay import room

READ = {name: room(name).read for name in ('filecopy', 'fileset')}
PROGRAMS = TOP / 'jobs/programs'
FILETOOLS = PROGRAMS / 'filetools.py'
COPIES, SETS = ('large-copy', 'small-copy', 'small-write'), ('read', 'read-write')      # the modes of the two

# files.py with the module `m` of a mode: code before they are loaded, and code that changes m before it runs. The disk
# keeps nothing for later, but in a run that looks at the page cache.
DRIVER = '''
import importlib, os, platform, sys, time
true_fsync, os.fsync = os.fsync, lambda handle: None
{before}
sys.path[:0] = [sys.argv.pop(1)]
import files
m = importlib.import_module(files.MODES.get(sys.argv[1], 'filecopy'))
true_write, true_good = m.write, getattr(m.Job, 'good')
{after}
sys.exit(files.main())
'''
ABSENT = 'sys.modules["mpi4py"] = None'
SYNCHRONISED = f'{ABSENT}\nos.fsync = true_fsync'
TWO_NODES = 'rank = int(os.environ["OMPI_COMM_WORLD_RANK"])\nplatform.node = lambda: f"node0{1 + rank // %d}"'
SLOW = {'fileset': 'def good(*arguments):\n    time.sleep(0.005)\n    return true_good(*arguments)\nm.Job.good = good',
        'filecopy': 'def write(*arguments):\n    time.sleep(0.002)\n    true_write(*arguments)\nm.write = write'}
POPULATE = 'true_populate = m.Job.populate\ndef populate(self):\n    true_populate(self)\n{}\nm.Job.populate = populate'
DAMAGE = "    if self.team.rank == 0:\n        with open(self.source(0, 3), 'r+b') as file:\n            {}"
FLIP = 'file.seek(777); byte = file.read(1)[0]; file.seek(777); file.write(bytes([byte ^ 1]))'


@functools.cache
def no_mpi():
    """Why runs of several ranks cannot be tried here; '' if they can."""
    if importlib.util.find_spec('mpi4py') is None:
        return 'mpi4py is absent'
    if not shutil.which('mpirun'):
        return 'mpirun is absent'
    probe = 'from mpi4py import MPI; print(MPI.COMM_WORLD.size)'
    done = subprocess.run([*mpirun(2), sys.executable, '-c', probe], capture_output=True, text=True, timeout=PATIENCE)
    return '' if ''.join(done.stdout.split()) == '22' else f'mpirun and mpi4py start no two ranks: {(done.stderr + done.stdout)[-300:]!r}'


@pytest.fixture
def mpi():
    if no_mpi():
        pytest.skip(no_mpi())


def mpirun(ranks):
    root = ['--allow-run-as-root'] if os.geteuid() == 0 else []
    at_once = ['--mca', 'odls_base_sigkill_timeout', '0']      # else mpirun waits a second after a code other than 0
    quiet = ['--mca', 'btl', '^tcp']    # Open MPI 5.0.7 complains of a network that ranks of one node do not need
    return ['mpirun', *root, *at_once, *quiet, '--oversubscribe', '-n', str(ranks)]


def start(options, before=ABSENT, after='', ranks=0):
    """Start files.py with these options."""
    code = [sys.executable, '-c', DRIVER.format(before=before, after=after), PROGRAMS, *map(str, options)]
    line = [*mpirun(ranks), *code] if ranks else code
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(going):
    """Wait for the end, with or without results, but never with a traceback."""
    out, err = going.communicate(timeout=PATIENCE)
    assert 'Traceback' not in err, err
    return subprocess.CompletedProcess(going.args, going.returncode, out, err)


def run(options, **code):
    return ended(start(options, **code))


def results(options, **code):
    """Figures and facts of a run that must end well."""
    done = run(options, **code)
    assert done.returncode == 0, done.stderr
    return READ['fileset' if options[0] in SETS else 'filecopy'](done.stdout)


def children(pid):
    return [int(child) for child in Path(f'/proc/{pid}/task/{pid}/children').read_text().split()]


def alive(pid):
    try:
        return Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0] != 'Z'
    except OSError:
        return False


@pytest.fixture(scope='module')
def m():
    """fileset.py as a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(PROGRAMS)
        return importlib.import_module('fileset')


@pytest.fixture(scope='module')
def filetools(m):
    return m.filetools


@pytest.fixture
def places(tmp_path):
    """A source and a destination, with a space and more in their names."""
    pair = tmp_path / 'the source', tmp_path / 'the é\ndestination'
    for place in pair:
        place.mkdir()
    return pair


def options(places, mode='read', **more):
    """Options of a short run: `read` has no destination, `small-write` no source."""
    given = {'source': places[0], 'destination': places[-1], 'bytes': 100_000 if mode in SETS else 2_500_000,
             'files': 20, 'iterations': 2, **more}
    without = {'read': 'destination', 'small-write': 'source'}.get(mode)
    if without not in more:
        given.pop(without, None)
    flags = [f'--{name}' for name in ('durable', 'one-file', 'overwrite', 'process-a-file') if given.pop(name.replace('-', '_'), False)]
    return [mode, *(part for name, value in given.items() for part in (f'--{name}'.replace('_', '-'), value)), *flags]


def empty(places):
    return not any(list(place.iterdir()) for place in places)


# Both programs

MODULES = ('files', 'filetools', 'room', 'filecopy', 'fileset', 'filetransfer', 'tcp')


@pytest.mark.parametrize('name', MODULES)
def test_it_needs_python_3_9_and_its_standard_library_only_but_for_mpi4py(name):
    tree = ast.parse((PROGRAMS / f'{name}.py').read_text(), feature_version=(3, 9))
    names = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    names |= {node.module.split('.')[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names <= sys.stdlib_module_names | {*MODULES, 'mpi4py'}


@pytest.mark.parametrize('mode, more, line', [
    ('large-copy', {'bytes': 1 << 50}, r'filecopy: not enough space: needs \d+ bytes, \d+ free on /.*'),
    ('small-copy', {'files': 1 << 30}, r'filecopy: not enough space: needs \d+ bytes, \d+ free on /.*'),
    ('small-write', {'destination': '/proc'}, 'filecopy: cannot write in /proc: .*'),
    ('small-copy', {'source': '/proc'}, 'filecopy: cannot write in /proc: .*'),
    ('small-write', {'destination': FILETOOLS}, f'filecopy: not a directory: {FILETOOLS}'),
    ('large-copy', {'destination': '/no/such'}, 'filecopy: not a directory: /no/such'),
    ('read', {'bytes': '1e15'}, r'fileset: not enough space: needs \d+ bytes, \d+ free on /.*'),
    ('read', {'source': '/proc'}, r'fileset: (cannot write in|not enough space: needs \d+ bytes, 0 free on) /proc.*'),
    ('read', {'source': FILETOOLS}, f'fileset: not a directory: {FILETOOLS}'),
    ('read', {'source': '/no/such'}, 'fileset: not a directory: /no/such')])
def test_a_run_that_cannot_be_is_refused_in_one_line(places, mode, more, line):
    done = run(options(places, mode, **more))
    assert done.returncode == 2 and done.stdout == '' and empty(places)
    assert re.fullmatch(f'{line}\n', done.stderr)


@pytest.mark.parametrize('mode, more', [
    *(('small-copy', more) for more in ({'files': 0}, {'clients': -1}, {'hang_seconds': 'nan'}, {'source': ''}, {'iterations': 'x'})),
    *(('small-copy', more) for more in ({'pause': -1}, {'nodes': -1}, {'overwrite': True, 'iterations': 1})),
    ('large-copy', {'overwrite': True}), ('large-copy', {'process_a_file': True}),
    *(('read', more) for more in ({'files': 0}, {'bytes': -1}, {'bytes': 1.5}, {'bytes': '1e999'}, {'bytes': 'nan'}, {'chunk': 0},
                                  {'iterations': 'x'}, {'seed': -1}, {'destination': '/tmp'})),
    ('read-write', {'destination': ''}), ('tiny', {})])
def test_bad_options_are_usage_errors(places, mode, more):
    assert run(options(places, mode, **more)).returncode == 2


@pytest.mark.parametrize('mode, after, cached', [
    ('large-copy', '', 'no|yes'), ('large-copy', 'm.os.posix_fadvise = lambda *rest: None', 'yes'),
    ('read', '', 'no|yes'),                                 # yes: on a file system that is memory
    ('read', 'm.os.posix_fadvise = lambda *rest: None', 'yes'), ('read', 'm.resident = lambda path: (0, 0)', 'unknown'),
    ('read', 'm.resident, m.mount = lambda path: (0, 9), lambda place: ("gpfs", "fs1")', 'unknown gpfs does not say')])
def test_a_source_in_memory_is_said_to_be_cached(places, mode, after, cached):
    _, said = results(options(places, mode, bytes=1_500_000, files=3), before=SYNCHRONISED, after=after)
    word, _, why = cached.partition(' ')
    assert said['source cached'] in word.split('|') and why in said['source cached why']
    assert mode == 'read' or said['destination cached'] == 'yes'


# filecopy

@pytest.mark.parametrize('durable', [False, True], ids=['as-is', 'durable'])
@pytest.mark.parametrize('mode', COPIES)
def test_a_run_of_two_clients_is_read_back_and_leaves_nothing(places, mode, durable):
    metrics, said = results(options(places, mode, clients=2, durable=durable))
    assert metrics['hangs'] == metrics['failed_writes'] == 0
    assert metrics['seconds_min'] <= metrics['seconds'] <= metrics['seconds_max']
    assert ('file_rate' in metrics) == (mode != 'large-copy') and ('source cached' in said) == (mode != 'small-write')
    assert said == said | {'mode': mode, 'clients': '2', 'iterations': '2', 'variant': 'durable' if durable else 'as-is'}
    assert said['destination'].endswith(r'the \xe9\ndestination') and empty(places)
    assert said['destination durable'] == ('yes' if durable and said['destination filesystem'] != 'tmpfs' else 'no')


def test_durable_synchronises_every_file_and_folder_and_as_is_none_of_them(places, tmp_path):
    log = tmp_path / 'log'
    spy = f'''
def fsync(handle):
    with open({str(log)!r}, 'a') as log:
        log.write(ascii(os.path.basename(os.readlink(f'/proc/self/fd/{{handle}}'))) + ' ')
    true_fsync(handle)
os.fsync = fsync
'''
    before_the_clock, timed = ['iteration-1'], ['0000000', '0000001', 'client-0']
    for durable, expected in ((False, before_the_clock), (True, before_the_clock + timed)):
        log.write_text('')
        results(options(places, 'small-write', files=2, iterations=1, durable=durable), before=spy)
        assert re.findall("'(.*?)'", log.read_text()) == expected


def test_seconds_run_from_the_common_start_to_the_end_of_the_last_client(places):
    slow = "def write(path, *rest):\n    'client-1' in path and time.sleep(0.4)\n    true_write(path, *rest)"
    begun = time.monotonic()
    metrics, _ = results(options(places, 'small-write', files=1, clients=3, iterations=1), after=f'{slow}\nm.write = write')
    assert 0.4 <= metrics['seconds'] < time.monotonic() - begun
    assert metrics['file_rate'] == pytest.approx(3 / metrics['seconds'], rel=0.001)


@pytest.mark.parametrize('mode', COPIES)
@pytest.mark.parametrize('damage', ["file.write(b'damage')", 'file.truncate(1000)'], ids=['altered', 'short'])
def test_a_copy_that_is_not_what_was_written_is_wrong(places, mode, damage):
    bad = f'''
def write(path, *rest):
    true_write(path, *rest)
    if path.endswith('iteration-2/client-1/0000000'):
        with open(path, 'r+b') as file:
            {damage}
m.write = write
'''
    done = run(options(places, mode, clients=2), after=bad)
    assert done.returncode == 1
    with pytest.raises(Wrong, match='mismatches = 1'):
        READ['filecopy'](done.stdout)


def test_sigterm_stops_all_clients_and_they_clean_up(places):
    going = start(options(places, 'small-copy', clients=2, files=100, iterations=1000), after=SLOW['filecopy'])
    eventually(lambda: list(places[1].glob('*/iteration-*/client-1/*')))
    clients = children(going.pid)
    going.terminate()
    done = ended(going)
    assert done.returncode == 128 + signal.SIGTERM and done.stderr == 'filecopy: rank 0 stopped by SIGTERM\n'
    assert clients and not any(map(alive, clients)) and empty(places)
    with pytest.raises(Incomplete):
        READ['filecopy'](done.stdout)


@pytest.mark.full
def test_after_sigkill_no_client_stays_and_the_next_run_cleans_up(filetools, places, tmp_path):
    going = start(options(places, 'small-copy', clients=2, files=100, iterations=1000), after=SLOW['filecopy'])
    eventually(lambda: list(places[1].glob('*/iteration-*/client-1/*')))
    clients = children(going.pid)
    going.kill()
    ended(going)
    eventually(lambda: not any(map(alive, clients)))
    lives, link = (places[1] / f'parity-files-{name}' for name in ('lives', 'link'))
    lives.mkdir()
    (lives / 'owner').write_text(f'{filetools.room.machine()}\n{filetools.room.process(os.getpid())}\n')
    kept = tmp_path / 'elsewhere' / 'kept'
    kept.parent.mkdir()
    kept.touch()
    link.symlink_to(kept.parent)                                                # of no run of ours
    results(options(places, 'small-write', files=1))
    assert {*places[1].iterdir()} == {lives, link} and kept.exists()
    results(options(places, 'small-copy', files=1))
    assert not list(places[0].iterdir())


LIMIT = 'import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, ({0}, {0}))'


@pytest.mark.parametrize('fault, error, why', [
    ("'client-1' in path and time.sleep(7777)", '', 'no iteration wrote all: 2 hangs, 0 failed writes'),
    ("'client-1' in path and os._exit(3)", 'filecopy: a client died\n', 'the output ends without'),
    (LIMIT.format(1000), 'iteration 1: File too large\n', 'no iteration wrote all: 0 hangs, 80 failed writes')])
def test_clients_that_hang_or_die_or_cannot_write_leave_no_time(places, fault, error, why):
    after = fault if 'setrlimit' in fault else f'def write(path, *rest):\n    {fault}\n    true_write(path, *rest)\nm.write = write'
    done = run(options(places, 'small-write', clients=2, hang_seconds=0.5 if 'sleep' in fault else 300), after=after)
    assert done.returncode == 1 and done.stderr.startswith(error) and empty(places)
    with pytest.raises(Incomplete, match=why):
        READ['filecopy'](done.stdout)


@pytest.mark.parametrize('mode, process, pause', [
    ('small-copy', False, 0.5), ('small-copy', True, 0), ('small-write', False, 0), ('small-write', True, 0)])
def test_passes_that_overwrite_stand_apart_from_the_first(places, mode, process, pause):
    """The first pass is slow, the others write into its files; the pauses between them are not timed."""
    slow = """
def put(self, path, *rest):
    with open(self.options.destination + '/log', 'a') as log:
        print(os.path.basename(os.path.dirname(os.path.dirname(path))), os.path.exists(path), file=log)
    os.path.exists(path) or time.sleep(0.1)
    true_put(self, path, *rest)
true_put, m.Job.put = m.Job.put, put"""
    begun = time.monotonic()
    metrics, said = results(options(places, mode, files=3, iterations=3, overwrite=True, process_a_file=process, pause=pause), after=slow)
    log = places[1] / 'log'
    assert log.read_text().splitlines() == ['iteration-1 False'] * 3 + ['iteration-1 True'] * 6
    assert metrics['first_seconds'] > 0.3 > metrics['seconds_max'] and time.monotonic() - begun > 2 * pause
    assert (said['overwrite'], said.get('process a file')) == ('yes', 'yes' if process else None)
    assert said.get('pause') == (str(pause) if pause else None)
    log.unlink()
    assert empty(places)


@pytest.mark.parametrize('mode', COPIES)
def test_clients_on_nodes_begin_together_and_each_tells_its_seconds(mpi, places, mode):
    slow = "def put(self, *rest):\n    self.team.rank and time.sleep(0.4)\n    true_put(self, *rest)\ntrue_put, m.Job.put = m.Job.put, put"
    metrics, said = results(options(places, mode, files=1, nodes=2), ranks=2, before=TWO_NODES % 1, after=slow)
    rows = [[float(word) for word in row.split()] for row in said['client seconds']]
    assert said['nodes'] == '2' and len(rows) == 2 and empty(places)
    assert all(one < 0.4 <= other for one, other in rows)
    assert metrics['client_seconds'] == pytest.approx(sum(map(sum, rows)) / 4) and metrics['seconds'] >= 0.4


def test_clients_of_all_nodes_copy_one_file(mpi, places, tmp_path):
    """The first client of the first node makes it; a node that does not see it ends the run on all."""
    paths = tmp_path / 'paths'
    log = f'''
def read(path, *rest):
    with open({str(paths)!r}, 'a') as log:
        'source' in path and log.write(ascii(path) + ' ')
    return true_read(path, *rest)
true_read, m.read = m.read, read'''
    done = run(options(places, 'large-copy', nodes=2, clients=2, one_file=True), ranks=2, before=TWO_NODES % 1, after=log)
    _, said = READ['filecopy'](done.stdout)
    read = re.findall("'.*?'", paths.read_text())
    assert done.returncode == 0 and said['one file'] == 'yes' and empty(places)
    assert len(read) == 2 * 2 * 2 and len({*read}) == 1 and '/source-0/' in read[0]
    blind = "true_exists = os.path.exists\nos.path.exists = lambda path: not (rank and 'source-0' in str(path)) and true_exists(path)"
    done = run(options(places, 'large-copy', nodes=2, one_file=True), ranks=2, before=f'{TWO_NODES % 1}\n{blind}')
    assert done.returncode == 2 and 'is not one folder for all nodes' in done.stderr and empty(places)


@pytest.mark.parametrize('before, fault, code, error, why', [
    (TWO_NODES % 1, 'time.sleep(7777)', 1, '', 'no iteration wrote all: 2 hangs, 0 failed writes'),
    (TWO_NODES % 1, 'os._exit(3)', 1, 'filecopy: a client died\n', 'the output ends without'),
    (TWO_NODES % 1, 'raise OSError(28, "No space left on device")', 1, 'iteration 1: No space left on device\n', '0 hangs, 40 failed writes'),
    (TWO_NODES % 2, 'pass', 2, 'filecopy: 2 ranks on 1 nodes, asked for one on each of 2\n', 'no title of filecopy')])
def test_a_node_in_trouble_ends_the_run_on_all_nodes(mpi, places, before, fault, code, error, why):
    after = f'def put(self, *rest):\n    if self.team.rank:\n        {fault}\n    true_put(self, *rest)\ntrue_put, m.Job.put = m.Job.put, put'
    hang = 0.5 if 'sleep' in fault else 300
    done = run(options(places, 'small-write', nodes=2, hang_seconds=hang), ranks=2, before=before, after=after)
    assert done.returncode == code and error in done.stderr and empty(places)
    with pytest.raises(Incomplete, match=why):
        READ['filecopy'](done.stdout)


# fileset: order and partners

@settings(deadline=None)
@given(seed=st.integers(0, 2**53), iteration=st.integers(1, 9), rank=st.integers(0, 99), files=st.integers(1, 500))
def test_every_file_is_read_once_in_an_order_that_the_seed_fixes(m, seed, iteration, rank, files):
    indices = m.order(seed, iteration, rank, files)
    assert sorted(indices) == list(range(files)) and indices == m.order(seed, iteration, rank, files)
    if files > 50:
        others = m.order(seed + 1, iteration, rank, files), m.order(seed, iteration + 1, rank, files)
        assert indices not in (*others, m.order(seed, iteration, rank + 1, files), list(range(files)))


@given(st.lists(st.sampled_from('abcdef'), min_size=1, max_size=40))
def test_every_rank_is_read_once_and_by_another_node_where_there_are_two(m, hosts):
    most = max(map(hosts.count, hosts))
    if len(set(hosts)) > 1 and 2 * most > len(hosts):
        with pytest.raises(m.Trouble, match=f'one node has {most} of {len(hosts)} ranks'):
            m.partners(hosts)
        return
    nodes, reads = m.partners(hosts)
    assert nodes == len(set(hosts)) and sorted(reads) == list(range(len(hosts)))
    if nodes == 1:
        assert reads == list(range(len(hosts)))
    else:
        assert all(hosts[other] != host for host, other in zip(hosts, reads, strict=True))


# fileset: runs

@pytest.mark.parametrize('size', [1, 1000, 32768, 100_001])
@pytest.mark.parametrize('mode', SETS)
def test_one_rank_without_mpi4py(places, mode, size):
    done = run(options(places, mode, bytes=size, iterations=3))
    assert done.returncode == 0 and done.stderr == '' and empty(places)
    metrics, said = READ['fileset'](done.stdout)
    assert metrics['rate'] == pytest.approx(20 * size * 8e-6 / metrics['seconds'], abs=1e-6)
    assert metrics['ns_per_byte'] == pytest.approx(metrics['seconds'] * 1e9 / (20 * size), abs=1e-6)
    assert metrics['file_rate'] == pytest.approx(20 / metrics['seconds'], abs=1e-6)
    assert said == said | {'ranks': 1, 'nodes': 1, 'bytes': size, 'files': 20, 'chunk': 32768, 'mode': mode, 'seed': 1,
                           'iterations': 3, 'read_from': 'own', 'launch': 'one rank, mpi4py is absent', 'mpi4py': 'none'}
    assert said.get('destination', r'the \xe9\ndestination').endswith(r'the \xe9\ndestination')


@pytest.mark.parametrize('nodes, ranks', [(1, 2), (2, 2), (2, 4)])
@pytest.mark.parametrize('mode', SETS)
def test_several_ranks(mpi, places, tmp_path, mode, nodes, ranks):
    log = tmp_path / 'log'
    spy = f'''
def good(self, path, writer, *rest):
    with open({str(log)!r}, 'a') as log:
        log.write(f'{{self.team.rank}} {{writer}}\\n')
    return true_good(self, path, writer, *rest)
m.Job.good = good
'''
    before = '' if nodes == 1 else TWO_NODES % (ranks // nodes)
    metrics, said = results(options(places, mode, iterations=1), ranks=ranks, before=before, after=spy)
    assert said == said | {'ranks': ranks, 'nodes': nodes, 'launch': 'mpi', 'read_from': 'other node' if nodes == 2 else 'own'}
    step = ranks // nodes if nodes == 2 else 0
    assert set(log.read_text().splitlines()) == {f'{rank} {(rank + step) % ranks}' for rank in range(ranks)}
    assert metrics['rate'] > 0 and empty(places)


def test_no_file_is_read_twice_and_no_two_populations_are_alike(places, tmp_path):
    log = tmp_path / 'log'
    spy = f"""
def good(self, path, *rest):
    with open({str(log)!r}, 'a') as log, open(path, 'rb') as file:
        log.write(f'{{path.rpartition("/rank-")[2]}} {{file.read(8).hex()}}\\n')
    return true_good(self, path, *rest)
m.Job.good = good
"""
    results(options(places, iterations=3), after=spy)
    paths, contents = zip(*map(str.split, log.read_text().splitlines()), strict=True)
    assert len(paths) == len(set(paths)) == len(set(contents)) == 60


def test_a_time_limit_ends_an_iteration_after_the_file_that_is_being_read(places):
    slow = 'def good(*given):\n    len(given) == 5 and time.sleep(0.02)\n    return true_good(*given)\nm.Job.good = good'   # to copy
    metrics, said = results(options(places, 'read-write', files=80, iterations=2, seconds=1), after=slow)
    assert said['time limit'] == 1 and 2 <= said['files_read'] < 160 and 1 <= said['seconds_min'] <= said['seconds_max'] < 2
    assert metrics['ns_per_byte'] == pytest.approx(8000 / metrics['rate'], rel=.1) and empty(places)
    assert results(options(places, seconds=60))[1]['files_read'] == 40


@pytest.mark.parametrize('mode', SETS)
def test_nodes_that_do_not_see_one_another_read_their_own_files_if_they_are_asked_to(mpi, places, tmp_path, mode):
    (tmp_path / 'local').mkdir()
    own = f'{TWO_NODES % 1}\nif rank: sys.argv[sys.argv.index("--source") + 1] = {str(tmp_path / "local")!r}'
    _, said = results([*options(places, mode), '--own-files'], ranks=2, before=own)
    assert said == said | {'nodes': 2, 'ranks': 2, 'read_from': 'own'} and empty([*places, tmp_path / 'local'])
    _, said = results([*options(places, mode), '--own-files'], ranks=2, before=TWO_NODES % 1)
    assert said['read_from'] == 'other node' and empty(places)


# fileset: verification

@pytest.mark.parametrize('mode, damage, wrong, ranks', [        # in two iterations; where it is copied, the copy is bad, too
    *((mode, damage, wrong, 0) for mode, wrong in (('read', 2), ('read-write', 4))
      for damage in (FLIP, 'file.truncate(99_999)', 'file.seek(0, 2); file.write(b"x")')), ('read', FLIP, 2, 2)])
def test_a_file_that_is_not_what_was_written_is_wrong(request, places, mode, damage, wrong, ranks):
    before = request.getfixturevalue('mpi') or TWO_NODES % 1 if ranks else ABSENT
    done = run(options(places, mode), before=before, ranks=ranks, after=POPULATE.format(DAMAGE.format(damage)))
    assert done.returncode == 1 and empty(places)
    assert done.stderr.startswith(f'fileset: {wrong} files read were not what was written\n')
    with pytest.raises(Wrong, match=f'wrong files: {wrong // 2}, not 0'):
        READ['fileset'](done.stdout)


# fileset: trouble

def sources(places, count=20):
    """Something to wait for: the files of a run that is under way."""
    return lambda: len(list(places[0].glob('*/rank-*/files-*/*'))) >= count and list(places[0].iterdir())


@pytest.mark.parametrize('number', [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.full)])
def test_a_signal_stops_it_and_it_cleans_up(places, number):
    going = start(options(places, 'read-write', iterations=1000), after=SLOW['fileset'])
    eventually(lambda: list(places[1].glob('*/rank-*/copies-*/*')))
    going.send_signal(number)
    done = ended(going)
    assert done.returncode == 128 + number and done.stderr == f'fileset: rank 0 stopped by {number.name}\n'
    assert empty(places)
    with pytest.raises(Incomplete, match='the output ends without'):
        READ['fileset'](done.stdout)


@pytest.mark.parametrize('error', ['OSError(5, "Input/output error")', 'ValueError("a fault")'])
def test_a_rank_that_fails_ends_all(mpi, places, error):
    fail = f'def good(self, *rest):\n    if self.team.rank:\n        raise {error}\n    return true_good(self, *rest)\nm.Job.good = good'
    going = start(options(places), ranks=2, before='', after=fail)
    _, said = going.communicate(timeout=PATIENCE)
    assert going.returncode != 0 and empty(places)
    if 'OSError' in error:
        assert re.search(r'^fileset: rank 1 on \S+: \[Errno 5\] Input/output error$', said, re.M)
        assert going.returncode == 1 and 'Traceback' not in said


def killed(places, files=20):
    """The folder that a killed run leaves."""
    going = start(options(places, files=files, iterations=1000), after=SLOW['fileset'])
    left, = eventually(sources(places, files))
    going.kill()
    ended(going)
    assert list(left.iterdir())
    return left


@pytest.mark.parametrize('owner, days, removed', [
    ('elsewhere {boot} {space}\n{process}', 6, False), ('elsewhere {boot} {space}\n{process}', 8, True),
    ('{host} an-earlier-boot {space}\n{process}', 6, False), ('{host} {boot} pid:[1]\n{process}', 6, False),
    ('', 6, False), ('', 8, True), ('{host} {boot} {space}\n', 6, False), ('{host} {boot} {space}\n1 0', 0, True),
    ('{host} {boot} {space}\n{process}', 8, False), (None, 6, False), (None, 8, True), ('\xff', 6, False)])
@pytest.mark.parametrize('mode, name', [('read', 'parity-files-left'), ('small-write', 'parity-filecopy-left')])
def test_what_another_host_left_is_removed_after_7_days_only(filetools, places, mode, name, owner, days, removed):
    """The owner file decides; `process` is this one, which lives, and 1 0 a process that began at another time."""
    left = places[0] / name
    (left / 'rank-00000').mkdir(parents=True)
    if owner is not None:
        host, boot, space = filetools.room.machine().split(' ')
        text = owner.format(host=host, boot=boot, space=space, process=filetools.room.process(os.getpid()))
        (left / 'owner').write_text(text, encoding='latin-1')
    results(options(places[:1], mode), after=f'true_time = time.time\nm.time.time = lambda: true_time() + {days} * 86400')
    assert left.exists() != removed


@pytest.mark.full
def test_too_little_space_is_refused_before_anything_is_written(mounted):
    mtime = mounted.stat().st_mtime_ns
    done = run(options([mounted], bytes=100_000, files=20))         # 20 x 25 blocks, and 5 %
    assert done.returncode == 2 and done.stdout == ''
    assert re.fullmatch(r'fileset: not enough space: needs 2150400 bytes, \d+ free on /.*\n', done.stderr)
    assert mounted.stat().st_mtime_ns == mtime
    assert run(options([mounted], 'read-write', files=11)).returncode == 2                  # needs it twice
    results(options([mounted], files=11))
    left = killed([mounted], 11)
    assert results(options([mounted], files=11)) and not left.exists()                      # makes room first


def test_a_folder_that_the_nodes_do_not_share_is_refused(mpi, places, tmp_path):
    (tmp_path / 'local').mkdir()
    own = f'{TWO_NODES % 1}\nif rank: sys.argv[sys.argv.index("--source") + 1] = {str(tmp_path / "local")!r}'
    done = run(options(places), ranks=2, before=own)
    assert done.returncode == 2 and 'node02 does not see in ' in done.stderr
    assert 'it must be shared by the nodes\n' in done.stderr and empty([*places, tmp_path / 'local'])


@pytest.mark.parametrize('ranks, before, code, said', [
    (0, f'{ABSENT}\n{LIMIT.format(50_000)}', 1, r'fileset: rank 0 on \S+: \[Errno 27\] File too large\n'),
    (0, f'{ABSENT}\nos.environ["OMPI_COMM_WORLD_SIZE"] = "4"', 2,
     'fileset: the launcher started 4 tasks, but each is a run of its own: mpi4py is absent\n'),
    (3, TWO_NODES % 2, 2, '(?s)fileset: one node has 2 of 3 ranks((?!one node has).)*')], ids=['full disk', 'apart', 'uneven'])
def test_a_full_disk_ranks_apart_and_uneven_nodes_are_told_once(request, places, ranks, before, code, said):
    if ranks:
        request.getfixturevalue('mpi')
    done = run(options(places), ranks=ranks, before=before)
    assert done.returncode == code and re.fullmatch(said, done.stderr) and empty(places)
    assert code == 1 or done.stdout == ''
