"""programs/fileset.py: runs of one rank and of several, on one node and two, and what can go wrong with them."""

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
from parity.check.reader import Incomplete, Wrong
from replay import room

read = room('fileset').read

PROGRAM = TOP / 'checks/storage/fileset/programs/fileset.py'
MODES = ('read', 'read-write')

# The program as a module `m`: code before it is loaded, and code that changes it before it runs.
DRIVER = '''
import importlib.util, os, platform, sys, time
{before}
sys.path[:0] = [os.path.dirname(sys.argv[1]), os.path.join(os.path.dirname(sys.argv[1]), '../../../../jobs/programs')]
spec = importlib.util.spec_from_file_location('fileset', sys.argv.pop(1))
m = importlib.util.module_from_spec(spec)
spec.loader.exec_module(m)
true_good, true_populate = m.Job.good, m.Job.populate
{after}
sys.exit(m.main())
'''
ABSENT = 'sys.modules["mpi4py"] = None'
TWO_NODES = 'rank = int(os.environ["OMPI_COMM_WORLD_RANK"])\nplatform.node = lambda: f"node0{1 + rank // %d}"'
SLOW = '''
def good(*arguments):
    time.sleep(0.005)
    return true_good(*arguments)
m.Job.good = good
'''
DAMAGE = '''
def populate(self):
    true_populate(self)
    if self.team.rank == 0:
        with open(self.source(0, 3), 'r+b') as file:
            {damage}
m.Job.populate = populate
'''
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
    return '' if done.stdout.split() == ['2', '2'] else 'mpirun and mpi4py do not start two ranks together'


def need_mpi():
    if no_mpi():
        pytest.skip(no_mpi())


def mpirun(ranks):
    root = ['--allow-run-as-root'] if os.geteuid() == 0 else []
    return ['mpirun', *root, '--oversubscribe', '-n', str(ranks)]


def command(*options, before=ABSENT, after='', ranks=0):
    code = [sys.executable, '-c', DRIVER.format(before=before, after=after), str(PROGRAM), *map(str, options)]
    return [*mpirun(ranks), *code] if ranks else code


def run(*options, **code):
    """The finished process; whatever happened, it printed no traceback."""
    done = subprocess.run(command(*options, **code), capture_output=True, text=True, timeout=PATIENCE)
    assert 'Traceback' not in done.stderr, done.stderr
    return done


def start(*options, **code):
    return subprocess.Popen(command(*options, **code), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def module():
    spec = importlib.util.spec_from_file_location('fileset_program', PROGRAM)
    loaded = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(TOP / 'jobs' / 'programs'))
    try:
        spec.loader.exec_module(loaded)
    finally:
        del sys.path[0]
    return loaded


M = module()


@pytest.fixture
def places(tmp_path):
    """A source and a destination, with a space and more in their names."""
    pair = tmp_path / 'the source', tmp_path / 'the é\ndestination'
    for place in pair:
        place.mkdir()
    return pair


def options(places, mode='read', **more):
    given = {'mode': mode, 'source': places[0], 'bytes': 100_000, 'files': 20, 'iterations': 2, **more}
    if mode == 'read-write':
        given.setdefault('destination', places[1])
    return [part for name, value in given.items() for part in (f'--{name}', value)]


def empty(places):
    return not any(list(place.iterdir()) for place in places)


# Order and partners

@settings(deadline=None)
@given(seed=st.integers(0, 2**53), iteration=st.integers(1, 9), rank=st.integers(0, 99), files=st.integers(1, 500))
def test_every_file_is_read_once_in_an_order_that_the_seed_fixes(seed, iteration, rank, files):
    indices = M.order(seed, iteration, rank, files)
    assert sorted(indices) == list(range(files))
    assert indices == M.order(seed, iteration, rank, files)
    if files > 50:
        others = M.order(seed + 1, iteration, rank, files), M.order(seed, iteration + 1, rank, files)
        assert indices not in (*others, M.order(seed, iteration, rank + 1, files), list(range(files)))


@given(st.lists(st.sampled_from('abcdef'), min_size=1, max_size=40))
def test_every_rank_is_read_once_and_by_another_node_where_there_are_two(hosts):
    most = max(map(hosts.count, hosts))
    if len(set(hosts)) > 1 and 2 * most > len(hosts):
        with pytest.raises(M.Trouble, match=f'one node has {most} of {len(hosts)} ranks'):
            M.partners(hosts)
        return
    nodes, reads = M.partners(hosts)
    assert nodes == len(set(hosts)) and sorted(reads) == list(range(len(hosts)))
    if nodes == 1:
        assert reads == list(range(len(hosts)))
    else:
        assert all(hosts[other] != host for host, other in zip(hosts, reads, strict=True))


@given(nodes=st.integers(2, 64), each=st.integers(1, 4), by_node=st.booleans())
def test_with_as_many_ranks_on_every_node_it_is_the_next_node(nodes, each, by_node):
    hosts = [rank // each if by_node else rank % nodes for rank in range(nodes * each)]
    assert [hosts[other] for other in M.partners(hosts)[1]] == [(host + 1) % nodes for host in hosts]


# Runs

@pytest.mark.parametrize('size', [1, 1000, 32768, 100_001])
@pytest.mark.parametrize('mode', MODES)
def test_one_rank_without_mpi4py(places, mode, size):
    done = run(*options(places, mode, bytes=size, iterations=3))
    assert done.returncode == 0, done.stderr
    metrics, said = read(done.stdout)
    assert metrics['rate'] == pytest.approx(20 * size * 8e-6 / metrics['seconds'], abs=1e-6)
    assert metrics['ns_per_byte'] == pytest.approx(metrics['seconds'] * 1e9 / (20 * size), abs=1e-6)
    assert metrics['file_rate'] == pytest.approx(20 / metrics['seconds'], abs=1e-6)
    assert said == said | {'ranks': 1, 'nodes': 1, 'bytes': size, 'files': 20, 'chunk': 32768, 'mode': mode, 'seed': 1,
                           'iterations': 3, 'read_from': 'own', 'launch': 'one rank, mpi4py is absent', 'mpi4py': 'none'}
    assert said.get('destination', r'the \xe9\ndestination').endswith(r'the \xe9\ndestination')
    assert done.stderr == '' and empty(places)


@pytest.mark.parametrize('nodes, ranks', [(1, 2), (2, 2), (2, 4)])
@pytest.mark.parametrize('mode', MODES)
def test_several_ranks(places, tmp_path, mode, nodes, ranks):
    need_mpi()
    log = tmp_path / 'log'
    spy = f'''
def good(self, path, writer, *rest):
    with open({str(log)!r}, 'a') as log:
        log.write(f'{{self.team.rank}} {{writer}}\\n')
    return true_good(self, path, writer, *rest)
m.Job.good = good
'''
    before = '' if nodes == 1 else TWO_NODES % (ranks // nodes)
    done = run(*options(places, mode, iterations=1), ranks=ranks, before=before, after=spy)
    assert done.returncode == 0, done.stderr
    said = read(done.stdout)[1]
    assert said == said | {'ranks': ranks, 'nodes': nodes, 'launch': 'mpi',
                           'read_from': 'other node' if nodes == 2 else 'own'}
    step = ranks // nodes if nodes == 2 else 0
    assert set(log.read_text().splitlines()) == {f'{rank} {(rank + step) % ranks}' for rank in range(ranks)}
    assert read(done.stdout)[0]['rate'] > 0 and empty(places)


def test_with_mpi4py_and_no_launcher_there_is_one_rank(places):
    need_mpi()
    done = run(*options(places), before='')
    assert read(done.stdout)[1]['launch'] == 'one rank, no launcher' and read(done.stdout)[1]['mpi4py'] != 'none'


def test_files_are_what_the_seed_says_whatever_the_chunk_and_no_two_alike(places):
    show = '''
def populate(self):
    true_populate(self)
    for index in range(self.options.files):
        print(open(self.source(0, index), 'rb').read().hex(), file=sys.stderr)
m.Job.populate = populate
'''
    written = [run(*options(places, files=5, bytes=3000, chunk=chunk, seed=seed), after=show).stderr.split()
               for seed, chunk in ((1, 1000), (1, 4096), (2, 4096))]
    assert written[0] == written[1] and not set(written[0]) & set(written[2])
    assert len(set(written[0])) == 5 and {len(each) for each in written[0]} == {6000}


def test_seconds_run_from_the_first_start_to_the_end_of_the_last_rank(places):
    need_mpi()
    late = 'def good(self, *rest):\n    time.sleep(0.5 * self.team.rank)\n    return true_good(self, *rest)\nm.Job.good = good'
    begun = time.monotonic()
    metrics = read(run(*options(places, files=1, iterations=1), ranks=2, before='', after=late).stdout)[0]
    assert 0.5 <= metrics['seconds'] < time.monotonic() - begun


def test_a_file_is_synchronised_and_read_in_chunks(places):
    spy = '''
true_readv, true_fsync = os.readv, os.fsync
def readv(handle, buffers):
    count = true_readv(handle, buffers)
    print('readv', len(buffers[0]), count, file=sys.stderr)
    return count
def fsync(handle):
    print('fsync', ascii(os.readlink(f'/proc/self/fd/{handle}').split('/')[-1]), file=sys.stderr)
    true_fsync(handle)
os.readv, os.fsync = readv, fsync
'''
    done = run(*options(places, 'read-write', files=1, iterations=1), before=f'{ABSENT}\n{spy}')
    once = ['readv 32768 32768'] * 3 + ['readv 32768 1696', 'readv 32768 0']
    population = ["fsync '0000000'", "fsync 'files'", "fsync 'rank-00000'"]
    said = done.stderr.splitlines()
    assert said[:3] == population and said[3].startswith("fsync 'parity-fileset-")
    assert said[4:] == [*once, "fsync '0000000'", *once]                 # the copy is read back after the clock stopped


def test_a_source_in_memory_is_said_to_be_cached(places):
    said = read(run(*options(places, bytes=1_000_000, files=3), after='m.os.posix_fadvise = lambda *rest: None').stdout)[1]
    assert said['source cached'] == 'yes'
    said = read(run(*options(places, bytes=1_000_000, files=3)).stdout)[1]
    assert said['source cached'] in ('no', 'yes')           # yes: on a file system that is memory
    said = read(run(*options(places, bytes=1_000_000, files=3), after='m.resident = lambda path: (0, 0)').stdout)[1]
    assert said['source cached'] == 'unknown'
    said = read(run(*options(places, bytes=1_000_000, files=3),
                     after='m.resident, m.mount = lambda path: (0, 9), lambda place: ("gpfs", "fs1")').stdout)[1]
    assert said['source cached'] == 'unknown' and said['source cached why'] == 'gpfs does not say'


# Verification

@pytest.mark.parametrize('mode', MODES)
@pytest.mark.parametrize('damage', [FLIP, 'file.truncate(99_999)', 'file.seek(0, 2); file.write(b"x")'],
                         ids=['flipped bit', 'short', 'long'])
def test_a_file_that_is_not_what_was_written_is_wrong(places, mode, damage):
    done = run(*options(places, mode), after=DAMAGE.format(damage=damage))
    assert done.returncode == 1 and empty(places)
    wrong = 2 if mode == 'read' else 4                      # of two iterations; the copy is bad, too
    assert done.stderr == f'fileset: {wrong} files read were not what was written\n'
    with pytest.raises(Wrong, match=f'wrong files: {wrong // 2}, not 0'):
        read(done.stdout)


def test_a_bad_copy_is_wrong(places):
    bad = f'''
true_check = m.Job.check
def check(self, number, writer):
    with open(self.copied(number, 7), 'r+b') as file:
        {FLIP}
    return true_check(self, number, writer)
m.Job.check = check
'''
    done = run(*options(places, 'read-write', iterations=1), after=bad)
    assert done.returncode == 1 and 'mismatches = 1\n' in done.stdout and empty(places)


def test_a_file_wrong_for_one_rank_ends_all_with_1(places):
    need_mpi()
    done = run(*options(places), ranks=2, before=TWO_NODES % 1, after=DAMAGE.format(damage=FLIP))
    assert done.returncode == 1 and 'fileset: 2 files read were not what was written\n' in done.stderr
    assert empty(places)


@settings(deadline=None, max_examples=50)
@given(data=st.data(), size=st.integers(1, 5000), chunk=st.integers(1, 1500), index=st.integers(0, 10**6))
def test_any_flipped_byte_of_any_file_is_noticed(tmp_path_factory, data, size, chunk, index):
    options = M.argparse.Namespace(mode='read', bytes=size, chunk=chunk, seed=3, source='', destination='')
    job = M.Job(options, M.argparse.Namespace(rank=0, size=1))
    pool, start = bytes(M.random.Random('3/5').randbytes(M.POOL)), index * M.STEP % M.POOL
    content = bytearray((pool + pool)[start:start + size])
    path = tmp_path_factory.getbasetemp() / 'file'
    path.write_bytes(content)
    assert job.good(path, 5, index) and (size < 8 or not job.good(path, 5, index + 1))
    content[data.draw(st.integers(0, size - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    assert not job.good(path, 5, index)


# Trouble

def sources(places, count=20):
    """Something to wait for: the files of a run that is under way."""
    return lambda: len(list(places[0].glob('*/rank-*/files/*'))) >= count and list(places[0].iterdir())


@pytest.mark.parametrize('number', [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.full)])
def test_a_signal_stops_it_and_it_cleans_up(places, number):
    going = start(*options(places, 'read-write', iterations=1000), after=SLOW)
    eventually(lambda: list(places[1].glob('*/rank-*/copies-*/*')))
    going.send_signal(number)
    out, err = going.communicate(timeout=PATIENCE)
    assert going.returncode == 128 + number and err == f'fileset: rank 0 stopped by {number.name}\n'
    assert empty(places)
    with pytest.raises(Incomplete, match='the output ends without'):
        read(out)


def pids_of_ranks(mpi):
    """{rank: process} of the ranks that this mpirun started."""
    found = {}
    for entry in Path('/proc').iterdir():
        try:
            parent = (entry / 'stat').read_text().rpartition(')')[2].split()[1] if entry.name.isdigit() else ''
            if parent == str(mpi.pid):
                environment = (entry / 'environ').read_text().split('\0')
                rank, = (each.partition('=')[2] for each in environment if each.startswith('OMPI_COMM_WORLD_RANK='))
                found[int(rank)] = int(entry.name)
        except (OSError, ValueError):
            pass
    return found


@pytest.mark.full
@pytest.mark.parametrize('whom', ['mpirun', 'every rank', 'one rank', 'a rank that waits'])
def test_a_signal_to_some_or_all_ranks_ends_all_and_all_clean_up(places, whom):
    need_mpi()
    slow = SLOW.replace('0.005', '0.005 if arguments[0].team.rank else 0' if whom == 'a rank that waits' else '0.005')
    going = start(*options(places, iterations=1000), ranks=2, before='', after=slow)
    eventually(sources(places, 40))
    ranks = pids_of_ranks(going)
    assert sorted(ranks) == [0, 1]
    for pid in {'mpirun': [going.pid], 'every rank': list(ranks.values())}.get(whom, [ranks[0]]):
        os.kill(pid, signal.SIGTERM)
    going.communicate(timeout=PATIENCE)
    assert going.returncode != 0
    eventually(lambda: empty(places))


@pytest.mark.parametrize('error', ['OSError(5, "Input/output error")', 'ValueError("a fault")'])
def test_a_rank_that_fails_ends_all(places, error):
    need_mpi()
    fail = f'def good(self, *rest):\n    if self.team.rank:\n        raise {error}\n    return true_good(self, *rest)\nm.Job.good = good'
    done = subprocess.run(command(*options(places), ranks=2, before='', after=fail), capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode != 0 and empty(places)
    if 'OSError' in error:
        assert re.search(r'^fileset: rank 1 on \S+: \[Errno 5\] Input/output error$', done.stderr, re.M)
        assert done.returncode == 1 and 'Traceback' not in done.stderr


def killed(places, files=20):
    """The folder that a killed run leaves."""
    going = start(*options(places, files=files, iterations=1000), after=SLOW)
    left, = eventually(sources(places, files))
    going.kill()
    going.communicate(timeout=PATIENCE)
    assert list(left.iterdir())
    return left


@pytest.mark.full
def test_after_sigkill_the_next_run_cleans_up(places, tmp_path):
    left = killed(places)
    foreign = tmp_path / 'foreign'
    foreign.mkdir()
    (foreign / 'kept').touch()
    link = places[0] / 'parity-fileset-link'                # of no run of ours
    link.symlink_to(foreign)
    assert run(*options(places)).returncode == 0
    assert not left.exists() and list(places[0].iterdir()) == [link] and (foreign / 'kept').exists()


def test_a_run_that_lives_is_left_alone(places):
    going = start(*options(places, iterations=3), after=SLOW)
    live, = eventually(sources(places))
    going.send_signal(signal.SIGSTOP)       # it is there, however long the other takes
    assert run(*options(places, files=2)).returncode == 0 and live.exists()
    going.send_signal(signal.SIGCONT)
    out, err = going.communicate(timeout=PATIENCE)
    assert going.returncode == 0, err
    assert read(out)[0] and empty(places)


@pytest.mark.parametrize('owner, days, removed', [
    ('elsewhere {boot} {space}\n{process}', 6, False), ('elsewhere {boot} {space}\n{process}', 8, True),
    ('{host} an-earlier-boot {space}\n{process}', 6, False), ('{host} {boot} pid:[1]\n{process}', 6, False),
    ('', 6, False), ('', 8, True), ('{host} {boot} {space}\n', 6, False), ('{host} {boot} {space}\n1 0', 0, True),
    ('{host} {boot} {space}\n{process}', 8, False), (None, 6, False), (None, 8, True), ('\xff', 6, False)])
def test_what_another_host_left_is_removed_after_7_days_only(places, owner, days, removed):
    """The owner file decides; `process` is this one, which lives, and 1 0 a process that began at another time."""
    left = places[0] / 'parity-fileset-left'
    (left / 'rank-00000').mkdir(parents=True)
    if owner is not None:
        host, boot, space = M.machine().split(' ')
        text = owner.format(host=host, boot=boot, space=space, process=M.process(os.getpid()))
        (left / 'owner').write_text(text, encoding='latin-1')
    later = f'true_time = time.time\nm.time.time = lambda: true_time() + {days} * 86400'
    assert run(*options(places), after=later).returncode == 0
    assert left.exists() != removed


def mounted(tmp_path, size):
    mount = ['mount', '-t', 'tmpfs', '-o', f'size={size}', 'tmpfs', tmp_path]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip('needs the right to mount a tmpfs')


@pytest.mark.full
def test_too_little_space_is_refused_before_anything_is_written(tmp_path):
    mounted(tmp_path, '2m')
    try:
        mtime = tmp_path.stat().st_mtime_ns
        done = run(*options([tmp_path], bytes=100_000, files=20))       # 20 x 25 blocks, and 5 %
        assert done.returncode == 2 and done.stdout == ''
        assert re.fullmatch(r'fileset: not enough space: needs 2150400 bytes, \d+ free on /.*\n', done.stderr)
        assert tmp_path.stat().st_mtime_ns == mtime
        assert run(*options([tmp_path, tmp_path], 'read-write', files=11)).returncode == 2      # needs it twice
        assert run(*options([tmp_path], files=11)).returncode == 0
        left = killed([tmp_path], 11)
        assert run(*options([tmp_path], files=11)).returncode == 0 and not left.exists()        # makes room first
    finally:
        subprocess.run(['umount', tmp_path], check=True)


@pytest.mark.parametrize('why', ['EDQUOT', 'ENOSPC'])
def test_what_a_quota_does_not_let_in_is_refused(places, why):
    refuse = f'''
class C:
    mincore = m.libc.mincore
    def fallocate(self, *rest):
        m.ctypes.set_errno(m.errno.{why})
        return -1
m.libc = C()
'''
    done = run(*options(places), after=refuse)
    assert done.returncode == 2 and empty(places) and done.stdout == ''
    assert re.fullmatch('fileset: not enough space: .* bytes on .*: (Disk quota exceeded|No space left on device)\n', done.stderr)
    assert run(*options(places), after=refuse.replace(why, 'EOPNOTSUPP')).returncode == 0       # nobody can say


def test_a_disk_that_fills_up_in_spite_of_all_is_one_line(places):
    limit = f'{ABSENT}\nimport resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))'
    done = run(*options(places), before=limit)
    assert done.returncode == 1 and re.fullmatch(r'fileset: rank 0 on \S+: \[Errno 27\] File too large\n', done.stderr)
    assert empty(places)


def test_a_folder_that_the_nodes_do_not_share_is_refused(places, tmp_path):
    need_mpi()
    (tmp_path / 'local').mkdir()
    own = f'{TWO_NODES % 1}\nif rank: sys.argv[sys.argv.index("--source") + 1] = {str(tmp_path / "local")!r}'
    done = run(*options(places), ranks=2, before=own)
    assert done.returncode == 2 and 'node02 does not see in ' in done.stderr
    assert 'it must be shared by the nodes\n' in done.stderr and empty([*places, tmp_path / 'local'])


def test_ranks_that_mpi_does_not_join_are_refused(places):
    done = run(*options(places), before=f'{ABSENT}\nos.environ["OMPI_COMM_WORLD_SIZE"] = "4"')
    assert done.returncode == 2 and done.stdout == '' and empty(places)
    assert done.stderr == 'fileset: the launcher started 4 tasks, but each is a run of its own: mpi4py is absent\n'


def test_uneven_nodes_are_refused(places):
    need_mpi()
    done = run(*options(places), ranks=3, before=TWO_NODES % 2)
    assert done.returncode == 2 and done.stderr.count('fileset: one node has 2 of 3 ranks') == 1 and empty(places)


@pytest.mark.parametrize('more, line', [
    ({'source': PROGRAM}, f'not a directory: {PROGRAM}'), ({'source': '/no/such'}, 'not a directory: /no/such'),
    ({'source': '/proc'}, r'(cannot write in|not enough space: needs \d+ bytes, 0 free on) /proc.*'),
    ({'bytes': '1e15'}, r'not enough space: needs \d+ bytes, \d+ free on /.*'),
])
def test_what_cannot_be_done_is_refused_in_one_line(places, more, line):
    done = run(*options(places, **more))
    assert done.returncode == 2 and done.stdout == '' and empty(places)
    assert re.fullmatch(f'fileset: {line}\n', done.stderr)


@pytest.mark.parametrize('more', [{'files': 0}, {'bytes': -1}, {'bytes': 1.5}, {'bytes': '1e999'}, {'bytes': 'nan'}, {'chunk': 0},
                                  {'iterations': 'x'}, {'seed': -1}, {'mode': 'tiny'}, {'destination': '/tmp'}])
def test_bad_options_are_usage_errors(places, more):
    assert run(*options(places, **more)).returncode == 2


def test_read_write_needs_a_destination(places):
    assert run(*options(places, 'read-write', destination='')).returncode == 2


def test_it_needs_python_3_9_and_its_standard_library_only_but_for_mpi4py():
    tree = ast.parse(PROGRAM.read_text() + (TOP / 'jobs/programs/filetools.py').read_text(), feature_version=(3, 9))
    names = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    names |= {node.module.split('.')[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names <= sys.stdlib_module_names | {'mpi4py', 'filetools'}
