"""Our kernels in C, compiled and run here, whole and broken, and their checks."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from conftest import PATIENCE, TOP, needs_cc
from parity.measure.check.reader import Wrong
from replay import recorded, room

blocks = room('blocks')
ops = room('ops')

PROGRAMS = TOP / 'jobs' / 'programs'
CODES = {'ops': ops, 'blocks': blocks}
OPS, BLOCKS = ((recorded(name) / f'{output}.txt').read_text() for name, output in (('ops', 'threads-2'), ('blocks', 'random-threads-2')))
RUNS = {'ops': ['--seconds', '0.02', *ops.KINDS],
        'blocks': ['--seconds', '0.01', '--bytes', '1048576', '--order', 'random',
                   *(f'{what}:{block}' for what in blocks.TOUCHES for block in (1, 8, 64, 1000, 100000))]}


def run(folder, line, name, arguments=None, threads=2, **env):
    words = ' '.join(RUNS[name] if arguments is None else arguments)
    return subprocess.run(['sh', '-c', f'{line} {words}'], cwd=folder, capture_output=True, text=True,
                          env={**os.environ, 'OMP_NUM_THREADS': str(threads), **env}, timeout=PATIENCE)


def kernel(folder, name, change=('', ''), line='./compile.sh {0} && ./{0}', **env):
    """Compile a kernel as a job does, with one thing changed if asked, and run it."""
    folder.mkdir(exist_ok=True)
    for file in ('compile.sh', 'kernel.h', f'{name}.c'):
        shutil.copy(next(p for p in (*(TOP / 'checks').glob(f'*/*/programs/{file}'), PROGRAMS / file) if p.exists()), folder)
    source = folder / f'{name}.c'
    text = source.read_text()
    assert change[0] in text
    source.write_text(text.replace(*change) if change[0] else text)
    return run(folder, line.format(name), name, **env)


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
    """Runs an unchanged kernel that is compiled once."""
    folders = {name: tmp_path_factory.mktemp(name) for name in CODES}
    for name, folder in folders.items():
        assert kernel(folder, name, line='./compile.sh {0} >compiled && :').returncode == 0
    return lambda name, **how: run(folders[name], f'cat compiled; ./{name}', name, **how)


# ---- the programs

@needs_cc
@pytest.mark.parametrize('name', CODES)
@pytest.mark.parametrize('threads', [1, 3])
def test_a_kernel_computes_right_and_says_so(whole, name, threads):
    done = whole(name, threads=threads)
    assert done.returncode == 0, done.stderr
    assert CODES[name].read(done.stdout)[1]['threads'] == threads and all(CODES[name].read(done.stdout)[0].values())


BROKEN = [
    ('ops', ('x##i = x##i * a + b;', 'x##i = x##i * a + b + b;')), ('ops', ('for (int i = 0; i < CHUNK; i++) {', 'for (int i = 1; i < CHUNK; i++) {')),
    ('ops', ('x##i = (x##i + a) ^ b;', 'x##i = (x##i + a) ^ b; if (i == 7) x##i ^= 1;')),
    ('blocks', ('sum += first[i];', 'sum += first[i & ~UINT64_C(1)];')), ('blocks', ('first[i] = what == WRITE', 'first[i | 1] = what == WRITE')),
    ('blocks', ('(uint8_t)(*byte + 1)', '(uint8_t)(*byte | 1)')), ('blocks', ('done += look;', 'done += look + 1;')),
    ('blocks', ('UINT64_C(1442695040888963407)) & walk->mask;', 'UINT64_C(2)) & walk->mask;'))]
#: One of each kernel is compiled at a push.
PUSHED = (BROKEN[0], BROKEN[3])


@needs_cc
@pytest.mark.parametrize('name, change', [each if each in PUSHED else pytest.param(*each, marks=pytest.mark.full) for each in BROKEN])
def test_a_kernel_that_computes_wrong_is_found_out(tmp_path, name, change):
    done = kernel(tmp_path, name, change)
    assert done.returncode == 1
    with pytest.raises(Wrong, match='computed a wrong result'):
        CODES[name].read(done.stdout)


@needs_cc
def test_samples_are_told_once_a_second(whole):
    done = whole('ops', arguments=['--samples', '2', 'double'])
    found = ops.read(done.stdout)[0]
    assert len(ops.read(done.stdout)[1]['samples']) == 2 and found['lowest'] <= found['median']


@needs_cc
@pytest.mark.parametrize('name, arguments, why', [
    ('ops', [], 'nothing to do'), ('ops', ['float'], 'float'), ('ops', ['--seconds', '-1', 'double'], 'double'), ('ops', ['--seconds'], '--seconds'),
    ('blocks', [], 'nothing to do'), ('blocks', ['--bytes', '4096', 'read:12'], 'read:12'), ('blocks', ['--bytes', '4096', 'swap:8'], 'swap:8'),
    ('blocks', ['--bytes', '4096', 'read:8192'], 'read:8192'), ('blocks', ['read:8'], 'read:8'), ('blocks', ['--bytes', '4096', 'read'], 'read'),
    ('blocks', ['--bytes', '99999999999999999', 'read:8'], 'not enough memory')])
def test_what_it_cannot_start_with_is_told(whole, name, arguments, why):
    done = whole(name, arguments=arguments)
    assert done.returncode == 2 and f'{name}: {why}; usage: ' in done.stderr


@pytest.mark.parametrize('script, code, said', [
    ('echo "mycc: no licence" >&2; exit 1', 1, 'mycc: no licence'), pytest.param(
        'for word; do case $word in -march=*) echo unknown >&2; exit 1;; -mcpu=*) ;; *) set -- "$@" "$word";; esac; shift; done\n'
        f'exec {shutil.which("cc")} "$@"', 0, 'flags: -O3 -mcpu=native -fopenmp', marks=needs_cc)], ids=['fails', 'knows no -march'])
def test_a_compiler_that_fails_is_told_in_its_words_and_one_without_march_is_asked_by_mcpu(tmp_path, script, code, said):
    cc = tmp_path / 'mycc'
    cc.write_text(f'#!/bin/sh\n{script}\n')
    cc.chmod(0o755)
    done = kernel(tmp_path / 'job', 'ops', CC=str(cc))
    assert done.returncode == code and said in (done.stderr if code else done.stdout)
    assert bool(done.stdout) == (code == 0)


# ---- the memory of blocks

@pytest.mark.parametrize('threads, cache, memory, size', [
    (1, 32 << 20, 32 << 30, 128 << 20), (2, 32 << 20, 32 << 30, 64 << 20), (64, 256 << 20, 1 << 40, 64 << 20), (64, 8 << 30, 1 << 40, 512 << 20),
    (2, 300_000_000, 32 << 30, 1 << 30), (1, None, None, 64 << 20), (4, 1 << 30, 4 << 30, 256 << 20), (3, 1 << 30, 1 << 30, 89_477_120)])
def test_how_much_memory_is_walked_over(threads, cache, memory, size):
    walk = blocks.walk(threads, cache, memory)
    assert walk.bytes == size and walk.bytes % 4096 == 0
    assert not memory or threads * walk.bytes <= memory / 4
    assert threads * walk.bytes >= 4 * (cache or 0) or '% of' in walk.why
