"""HPL's update: the DGEMM that runs behind HPL, on the same ranks, and what HPL could do by it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from parity.judge.store.case_record import MetricRecord
from parity.measure.check.sizing import Dense
from replay import Replay, check, room

hpl = room('hpl')
PROGRAM = Path(hpl.__file__).parent / 'programs' / 'dgemm.py'
LINE = 'dgemm 384 192 calls 40 seconds 2.012345 gflops 51.500000\n'
#: A BLAS of its own, as slow as they get. Its last argument decides whether the answer is right.
BLAS = """
void dgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k, const double *alpha,
            const double *a, const int *lda, const double *b, const int *ldb, const double *beta, double *c,
            const int *ldc) {
    for (int j = 0; j < *n; j++)
        for (int i = 0; i < *m; i++) {
            double sum = 0;
            for (int l = 0; l < *k; l++)
                sum += a[i + l * *lda] * b[j + l * *ldb];
            c[i + j * *ldc] = *beta * c[i + j * *ldc] + *alpha * sum * RIGHT;
        }
}
"""


@pytest.mark.parametrize('n, nb, p, q, order', [
    (8064, 192, 1, 2, 4032), (20000, 192, 1, 2, 4096), (960, 192, 1, 2, 480), (192, 192, 8, 16, 192), (99072, 192, 8, 16, 4096)])
def test_a_rank_updates_its_part_of_the_matrix_or_as_much_as_tells_the_rate(n, nb, p, q, order):
    assert hpl.update_order(Dense(n, nb, p, q, '')) == order


@pytest.mark.parametrize('text, gflops', [
    (2 * LINE, 103.0), (LINE, 0.0), ('', 0.0), (3 * LINE, 0.0), (LINE + 'dgemm: the program loads no library with DGEMM\n', 0.0),
    (LINE + LINE[:-9] + '\n', 0.0), (f'srun: something\n{2 * LINE}', 103.0)])
def test_the_update_counts_where_every_rank_printed_its_rate(text, gflops):
    assert hpl.update_gflops(text, 2) == gflops


@pytest.mark.parametrize('text, stated, limit', [
    (2 * LINE, None, (103.0, "DGEMM of HPL's shape of the same run, measured", False)),
    (LINE, None, None), (None, None, None), (2 * LINE, {'value': 150.0}, {'value': 150.0})])
def test_hpl_could_do_what_the_update_does_unless_its_peak_is_known(tmp_path, text, stated, limit):
    case = Replay(check('hpl', 'Hpl'), {}, asked={'stagedir': tmp_path, 'num_tasks': 2})
    case.parity.metrics['gflops'] = MetricRecord('Gflop/s', 'higher', limit=stated)
    if text is not None:
        (tmp_path / 'update.txt').write_text(text)
    case.stand_beside_update()
    made = case.parity.metrics['gflops'].limit
    assert (made if not made or stated else (made['value'], made['source'], made['certain'])) == limit


@pytest.fixture
def program(tmp_path):
    """Makes a program that loads a BLAS, and one that loads none."""
    if not shutil.which('cc'):
        pytest.skip('no C compiler')

    def make(right: float | None) -> Path:
        main = tmp_path / 'main.c'
        main.write_text('extern void dgemm_(void); int main(void) { void (*volatile used)(void) = dgemm_; return used == 0; }\n' if right else 'int main(void) { return 0; }\n')
        file, links = tmp_path / 'xhpl', []
        if right:
            (tmp_path / 'blas.c').write_text(BLAS.replace('RIGHT', f'{right:f}'))
            library = tmp_path / 'libours.so'
            subprocess.run(['cc', '-shared', '-fPIC', '-O1', '-o', library, tmp_path / 'blas.c'], check=True)
            links = [library, f'-Wl,-rpath,{tmp_path}']
        subprocess.run(['cc', '-o', file, main, *links], check=True)
        return file
    return make


def run(*words):
    return subprocess.run([sys.executable, '-IS', PROGRAM, *map(str, words)], capture_output=True, text=True)


def test_dgemm_runs_with_the_blas_that_the_program_loads(program):
    done = run(program(1.0), 64, 16, 0.01)
    assert done.returncode == 0 and done.stdout.startswith('dgemm 64 16 calls ') and hpl.update_gflops(done.stdout, 1) > 0, done


def test_a_wrong_product_is_no_rate(program):
    done = run(program(0.999), 64, 16, 0.01)
    assert (done.returncode, done.stdout, done.stderr) == (1, '', 'dgemm: a wrong result\n')


def test_a_program_without_a_blas_of_its_own_says_so(program):
    done = run(program(None), 64, 16, 0.01)
    assert (done.returncode, done.stdout) == (0, 'dgemm: the program loads no library with DGEMM\n')
    assert run('/nowhere/xhpl', 64, 16, 0.01).stderr == 'dgemm: no program /nowhere/xhpl\n'
