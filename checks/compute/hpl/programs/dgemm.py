#!/usr/bin/env python3
"""Measure DGEMM in the shape of HPL's update, with the BLAS that a program loads.

    dgemm.py PROGRAM N NB SECONDS

The update is C -= A B', where C is N x N, A and B are N x NB, stored by columns. HPL spends most of its time so.
Every process prints one line: its calls, their seconds, Gflop/s. The BLAS is a library of the program, as the
dynamic linker finds it. Where the BLAS is inside the program, the line says so, and the exit code is 0.
"""

import ctypes
import os
import shutil
import subprocess
import sys
import time

#: Set once the BLAS is loaded: this program begins anew with it.
LOADED = 'PARITY_DGEMM'
#: Every byte of A, B and C before the first call, and the number that eight such bytes make.
BYTE, VALUE = 0x3f, 0.0004767922794117647
NO_BLAS = 'dgemm: the program loads no library with DGEMM'


def libraries(program):
    """Return the paths of a program's libraries that have DGEMM, and of MKL's, which need each other."""
    path = shutil.which(program)
    if path is None:
        raise SystemExit(f'dgemm: no program {program}')
    listed = subprocess.run(['ldd', path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                            text=True)
    having = []
    for line in listed.stdout.splitlines():
        for word in line.split():
            if word.startswith('/') and (os.path.basename(word).startswith('libmkl_') or has_dgemm(word)):
                having.append(word)
    return having


def has_dgemm(library):
    """Return whether a library has Fortran's name of DGEMM, or one that ends so: they may share their end."""
    try:
        with open(library, 'rb') as file:
            return b'dgemm_\0' in file.read()
    except OSError:
        return False


def begin_anew(blas):
    """Start this program again with the libraries in front: ctypes cannot load libraries that need each other."""
    before = os.environ.get('LD_PRELOAD')
    os.environ['LD_PRELOAD'] = ':'.join([*blas, before] if before else blas)
    os.environ[LOADED] = 'yes'
    os.execv(sys.executable, [sys.executable, '-IS', os.path.abspath(__file__), *sys.argv[1:]])


class Update:
    """The matrices of one update, and DGEMM on them."""

    def __init__(self, n, nb):
        self.n, self.nb, self.calls = n, nb, 0
        self.a, self.b, self.c = [matrix(count) for count in (n * nb, n * nb, n * n)]
        one, less = ctypes.c_double(1.0), ctypes.c_double(-1.0)
        # a library that reads the first 32 bits reads the same number
        order, inner = ctypes.c_int64(n), ctypes.c_int64(nb)
        size, depth = ctypes.byref(order), ctypes.byref(inner)
        self.arguments = (b'N', b'T', size, size, depth, ctypes.byref(less), self.a, size, self.b, size,
                          ctypes.byref(one), self.c, size, ctypes.c_size_t(1), ctypes.c_size_t(1))
        self.kept = one, less, order, inner
        self.dgemm = ctypes.CDLL(None).dgemm_

    def call(self):
        self.dgemm(*self.arguments)
        self.calls += 1

    def is_right(self):
        """Return whether the first and the last number of C are as so many calls make them."""
        right = VALUE - self.calls * self.nb * VALUE * VALUE
        return all(abs(number - right) <= 1e-9 * abs(right) for number in (self.c[0], self.c[self.n * self.n - 1]))


def matrix(count):
    """Return so many doubles, all VALUE."""
    numbers = (ctypes.c_double * count)()
    ctypes.memset(numbers, BYTE, ctypes.sizeof(numbers))
    return numbers


def measure(n, nb, seconds):
    """Print what calls for so many seconds reach, after one call that is not counted."""
    try:
        update = Update(n, nb)
    except AttributeError:
        print(NO_BLAS)
        return
    update.call()
    first, began = update.calls, time.monotonic()
    took = 0.0
    while took < seconds:
        update.call()
        took = time.monotonic() - began
    calls = update.calls - first
    if not update.is_right():
        raise SystemExit('dgemm: a wrong result')
    gflops = 2e-9 * n * n * nb * calls / took
    # one write: the lines of many processes come through one pipe
    sys.stdout.write(f'dgemm {n} {nb} calls {calls} seconds {took:.6f} gflops {gflops:.6f}\n')


def main(program, n, nb, seconds):
    if LOADED in os.environ:
        measure(int(n), int(nb), float(seconds))
        return
    blas = libraries(program)
    if not blas:
        print(NO_BLAS)
        return
    sys.stdout.flush()
    begin_anew(blas)


if __name__ == '__main__':
    main(*sys.argv[1:])
