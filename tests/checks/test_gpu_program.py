"""jobs/programs/gpu.c, compiled and run here where OpenCL has a device. For CUDA its kernels are compiled, and a double takes the driver's place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import PATIENCE, TOP, needs_cc

pytestmark = needs_cc
PROGRAMS = TOP / 'jobs' / 'programs'
KINDS = ('double', 'single', 'half', 'double_matrix', 'half_matrix', 'bf16_matrix', 'tf32_matrix', 'int8_matrix')


def build(folder, change=('', '')):
    """Compile the program as a job does, with one thing changed if asked."""
    texts = {file: (PROGRAMS / file).read_text() for file in ('compile.sh', 'kernel.h', 'gpu.h', 'gpu.c')}
    assert any(change[0] in text for text in texts.values())
    for file, text in texts.items():
        (folder / file).write_text(text.replace(*change) if change[0] else text)
    (folder / 'compile.sh').chmod(0o755)
    done = subprocess.run(['./compile.sh', 'gpu'], cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return folder / 'gpu'


def run(program, *words, **env):
    """Run it; skip where there is no device."""
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, timeout=PATIENCE,
                          env={**os.environ, **env})
    for reason in ("neither CUDA's driver nor OpenCL", 'CL_PLATFORM_NOT_FOUND', 'no CUDA-capable'):
        if done.returncode == 2 and reason in done.stderr:
            pytest.skip(done.stderr.strip())
    return done


@pytest.fixture(scope='module')
def gpu(tmp_path_factory):
    return build(tmp_path_factory.mktemp('gpu'))


@pytest.mark.parametrize('words, rows', [
    (['stream', 100_003, 3], ['copy', 'mul', 'add', 'triad', 'dot']), (['stream', 1, 1], ['copy', 'mul', 'add', 'triad', 'dot']),
    (['ops', 0.1, *KINDS], KINDS), (['load', 1, 'half_matrix', 'single'], ['sample', 'single']), (['gemm', 0.1, 'single', 'tf32_matrix'], ['single', 'tf32_matrix']),
    (['transfer', 1 << 20, 2], ['to_device', 'from_device', 'to_device_all', 'from_device_all']), (['collective', 1 << 20, 2], ['allreduce', 'allgather'])], ids=lambda words: str(words[0]))
def test_each_mode_computes_right_on_one_device_and_on_two(gpu, words, rows):
    for devices in (1, 2):
        done = run(gpu, '--opencl', *words, POCL_DEVICES=' '.join(['pthread'] * devices))
        head, *lines, end = done.stdout.splitlines()
        assert done.returncode == 0 and end.startswith('gpu end '), done.stderr
        count = int(head.split()[-1])
        results = lines[count:]
        assert {line.split()[0] for line in results} == set(rows) and len(results) == count * len(rows)
        assert all(line.endswith(' wrong 0') or ' none ' in line for line in results)


BROKEN = [('add', 'STREAM(add, c, a + b)', 'STREAM(add, c, a + b * (i == 77 ? 1.000001 : 1))', 'stream'), ('copy', 'x = PAIR(a, i); y', 'x = PAIR(a, i ^ 1); y', 'stream'),
          ('triad', 'fma(0.4, c, b)', '(i & 1023 ? fma(0.4, c, b) : b)', 'stream'), ('the last', 'i *= 2; ', '', 'stream'), ('dot', 'least > 0', 'least > 1', 'stream'),
          ('a sweep', 'sweep < SWEEPS', 'sweep < SWEEPS - 1', 'ops'), ('a pair', 'pair < PAIRS', 'pair < PAIRS - 8', 'ops'),
          ('a chain', 'x[j] = FMA(x[j], a, c)', 'x[j] = FMA(x[j], a, j == 3 ? b : c)', 'ops'),
          ('a copy', 'own[me].memory[0], 0, bytes, to)', 'own[me].memory[0], 0, bytes - 8, to)', 'transfer')]
WORDS = {'stream': ['stream', 100_001, 3], 'ops': ['ops', 0.05, 'single'], 'transfer': ['transfer', 1 << 20, 1]}


@pytest.mark.parametrize('change, mode', [
    pytest.param((was, now), mode, marks=[] if name == 'add' else pytest.mark.full, id=name) for name, was, now, mode in BROKEN])
def test_a_device_that_computes_or_moves_wrong_is_found_out(tmp_path, change, mode):
    done = run(build(tmp_path, change), '--opencl', *WORDS[mode])
    assert done.returncode == 1 and ' wrong 1\n' in done.stdout


@pytest.mark.parametrize('words, why', [
    ([], 'nothing to do'), (['stream'], 'stream'), (['stream', 'x', 1], 'stream'), (['stream', 100, 0], '0'), (['ops', 1, 'triple'], 'triple'),
    (['transfer', 1.5, 1], '1'), (['load', -1, 'double'], 'load'), (['gemm', 1], 'gemm'), (['compile'], 'compile')])
def test_what_it_cannot_start_with_is_told(gpu, words, why):
    done = run(gpu, *words)
    assert done.returncode == 2 and f'gpu: {why}; usage: ' in done.stderr and not done.stdout


def test_memory_that_a_device_does_not_have_is_told_with_the_call_and_the_size(gpu):
    done = run(gpu, '--opencl', 'stream', 10**13, 1)
    assert done.returncode == 2
    assert done.stderr.endswith('clCreateBuffer: CL_INVALID_BUFFER_SIZE (-61); 80000000000000 bytes were asked for\n')


def test_a_compiler_for_cuda_that_is_not_there_is_told(gpu):
    done = run(gpu, 'compile', 'sm_80', PARITY_NVRTC='/nowhere/libnvrtc.so')
    assert done.returncode in (0, 2)            # 0: the loader finds one
    assert done.returncode == 0 or done.stderr.endswith('PARITY_NVRTC names /nowhere/libnvrtc.so\n')


@pytest.mark.full
def test_every_kernel_compiles_for_the_architectures_of_cuda(gpu):
    wheel = next(Path(sys.prefix).glob('lib*/python*/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.*'), None)
    done = run(gpu, 'compile', 'sm_70', 'sm_80', 'sm_90', 'sm_100', **({'PARITY_NVRTC': str(wheel)} if wheel else {}))
    if done.returncode == 2 and 'no NVRTC' in done.stderr:
        pytest.skip(f'{done.stderr.strip()} (.venv/bin/pip install --require-hashes -r requirements-gpu.lock)')
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith('compile ')]
    lacking = ['double_matrix', *(kind for kind in KINDS if kind.endswith('_matrix'))]      # sm_70; another on sm_90
    assert len(rows) == 4 * (2 + len(KINDS))
    assert [row[1] for row in rows if row[4] == 'none'] == [*lacking, 'double_matrix']
    assert all(int(row[-1]) > 4000 for row in rows if row[4] == 'bytes')


# ---- CUDA, by a double of its driver: no kernel runs

@pytest.fixture(scope='module')
def doubled(tmp_path_factory):
    """Runs the program beside the double, with small matrices."""
    folder = tmp_path_factory.mktemp('double')
    for name in ('libcuda.so.1', 'libcublas.so', 'libnccl.so.2'):
        subprocess.run(['cc', '-shared', '-fPIC', '-o', folder / name, TOP / 'tests' / 'data' / 'cuda_double.c'], check=True, timeout=PATIENCE)
    program = build(folder, ('#define EDGE 8192', '#define EDGE 64'))
    return lambda *words, **env: run(program, *words, LD_LIBRARY_PATH=str(folder), **env)


def test_devices_of_cuda_are_told_with_what_their_driver_says(doubled):
    done = doubled('transfer', 1 << 16, 1)
    assert done.returncode == 0, done.stderr
    head, *devices = done.stdout.splitlines()[:4]
    assert head == 'gpu 1 api cuda driver 12.4 devices 3'
    assert devices[1] == ('device 1 uuid GPU-a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1 bus 0000:2b:00.0 arch sm_90 units 132 clock_mhz 1980 '
                          'memory_clock_mhz 2619 memory_bus_bits 5120 llc_bytes 52428800 name Double')
    assert devices[0].split()[3].startswith('MIG-a0a0')


def test_every_pair_of_devices_copies_and_a_lost_word_is_found(doubled):
    pairs = [line.split() for line in doubled('transfer', 1 << 16, 2).stdout.splitlines() if line.startswith('pair')]
    assert [(row[2], row[4], row[6]) for row in pairs] == [
        ('0', '1', 'yes'), ('0', '2', 'yes'), ('1', '0', 'yes'), ('1', '2', 'no'), ('2', '0', 'yes'), ('2', '1', 'no')]
    done = doubled('transfer', 1 << 16, 2, DOUBLE_FAULT='pass')
    assert done.returncode == 1 and len([line for line in done.stdout.splitlines() if line.endswith('wrong 1')]) == 6


def test_products_of_cublas_are_compared_and_told_once_a_second(doubled):
    by_cublas = [kind for kind in KINDS if kind not in ('double', 'half')]
    done = doubled('gemm', 0.01, *by_cublas)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()[4:-1]]
    assert {row[0] for row in rows} == set(by_cublas) and {row[3] for row in rows} == {'program'} and len(rows) == 3 * len(by_cublas)
    assert {row[4] for row in rows} == {'cublas-120905'} and {row[-3] for row in rows if row[0] == 'int8_matrix'} == {'Gop/s'}
    assert doubled('burn', 1, 'half', 'half_matrix').stdout.count('sample 1 of half_matrix device ') == 3


def test_collectives_of_nccl_are_compared_on_every_device(doubled):
    rows = [line.split() for line in doubled('collective', 1000, 2).stdout.splitlines()[4:-1]]
    assert [row[:3] for row in rows] == [[way, 'device', str(at)] for way in ('allreduce', 'allgather') for at in range(3)]
    assert {tuple(row[3:9]) for row in rows} == {('nccl', '22809', 'bytes', '996', 'times', '2')} and {row[-1] for row in rows} == {'0'}
    for fault, way in (('reduce', 'allreduce'), ('gather', 'allgather')):
        done = doubled('collective', 1000, 2, DOUBLE_FAULT=fault)
        assert done.returncode == 1 and {line.split()[0] for line in done.stdout.splitlines() if line.endswith('wrong 1')} == {way}
    assert doubled('collective', 1000, 2, DOUBLE_FAULT='start').stderr == 'gpu: ncclCommInitAll: unhandled system error\n'


def test_a_library_that_cannot_be_loaded_is_told(gpu, tmp_path):
    (tmp_path / 'libcuda.so.1').touch()
    done = run(gpu, 'stream', 100, 1, LD_LIBRARY_PATH=str(tmp_path))
    assert done.returncode == 2 and done.stderr == f'gpu: {tmp_path}/libcuda.so.1: file too short\n'


@pytest.mark.parametrize('words, fault, code, said', [
    (['gemm', 0.01, 'double_matrix'], 'multiply', 1, ''), (['gemm', 0.01, 'single'], 'multiply', 1, ''), (['gemm', 0.01, 'half_matrix'], 'multiply', 1, ''),
    (['transfer', 1 << 16, 1], 'full', 2, 'cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2); 131072 bytes were asked for\n')], ids=str)
def test_a_wrong_product_and_a_device_without_memory_are_found(doubled, words, fault, code, said):
    done = doubled(*words, DOUBLE_FAULT=fault)
    assert done.returncode == code and done.stderr.endswith(said) and (code == 2 or ' wrong 1\n' in done.stdout)
