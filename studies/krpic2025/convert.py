"""Make published.csv of the raw outputs: python studies/krpic2025/convert.py PATH

PATH is a clone of github.com/oblak9/sbcc-hpl-benchmarking. Each output is one run of HPL. Those that failed the
residual, or have no result, are left out and counted."""

import csv
import re
import sys
from collections import Counter
from pathlib import Path

BOARDS = ('raspi1B', 'cubie', 'odroidU3', 'raspi3B', 'raspi4B', 'raspi5B')
#: Nodes, BLAS, and whether OMP_NUM_THREADS was set in a second round.
FOLDER = re.compile(r'([14])-(A[TL]{2}AS|OpenBLAS)-params(-OMP)?')
FILE = re.compile(r'HPL_N(\d+)-NB(\d+)-(\d+)\.out')
RESULT = re.compile(r'^W\S+ +(\d+) +(\d+) +(\d+) +(\d+) +\S+ +(\S+)\s*$', re.MULTILINE)
RESIDUAL = re.compile(r'\.\.\.\s+(PASSED|FAILED)')
SIZES = ('small', 'middle', 'large')
COLUMNS = ('experiment', 'metric', 'unit', 'better', 'blas', 'board', 'nodes', 'size', 'nb', 'run', 'value',
           'flag', 'where')


def outputs(board):
    """Return the outputs of a board's runs of parameters, by nodes, BLAS, and folder of a build."""
    found = {}
    for folder in sorted(board.iterdir()):
        if match := FOLDER.fullmatch(folder.name):
            key = match[1], 'OpenBLAS' if match[2] == 'OpenBLAS' else 'ATLAS'
            for build in sorted(path for path in folder.iterdir() if path.is_dir()):
                found.setdefault(key, {})[bool(match[3]), build] = sorted(build.glob('HPL_*.out'))
    return found


def of_one(file, left_out):
    """Return the rate of an output as it is printed; None where it has none that counts."""
    text = file.read_text(errors='replace')
    results, residuals = RESULT.findall(text), RESIDUAL.findall(text)
    if len(results) != 1 or len(residuals) != 1:
        left_out['have no result'] += 1
    elif residuals[0] == 'FAILED':
        left_out["failed HPL's residual"] += 1
    else:
        return f'{float(results[0][4]):.10g}'


def rows(root, left_out):
    """Yield the rows of published.csv: of the build with the most outputs, of equal ones of the second round."""
    for board in BOARDS:
        for (nodes, blas), builds in outputs(root / board).items():
            chosen = max(builds, key=lambda build: (len(builds[build]), build[0]))
            read = {build: [(file, of_one(file, left_out)) for file in files] for build, files in builds.items()}
            left_out['are of other builds or threads'] += sum(
                rate is not None for build, of in read.items() if build != chosen for _, rate in of)
            named = [(FILE.fullmatch(file.name), file, rate) for file, rate in read[chosen] if rate is not None]
            counts = Counter(int(match[1]) for match, _, _ in named)
            sizes = dict(zip(sorted(n for n, _ in counts.most_common(3)), SIZES, strict=False))
            for match, file, rate in named:
                if (n := int(match[1])) not in sizes:
                    left_out['are of another size'] += 1
                    continue
                yield ('hpl', 'gflops', 'Gflop/s', 'higher', blas, board, nodes, sizes[n], match[2],
                       int(match[3]) + 1, rate, '', str(file.relative_to(root)))


def main():
    root = Path(sys.argv[1] if len(sys.argv) == 2 else '.') / 'raw-results'
    if lost := [board for board in BOARDS if not (root / board).is_dir()]:
        print(f'{root / lost[0]}: no such folder; usage: python {sys.argv[0]} PATH, '
              'a clone of github.com/oblak9/sbcc-hpl-benchmarking', file=sys.stderr)
        sys.exit(2)
    left_out = Counter()
    found, file = list(rows(root, left_out)), Path(__file__).with_name('published.csv')
    with file.open('w', newline='') as stream:
        csv.writer(stream, lineterminator='\n').writerows([COLUMNS, *found])
    print(f'{len(found)} of {len(found) + sum(left_out.values())} outputs in {file}')
    print(*(f'  {count} {why}' for why, count in left_out.items()), sep='\n')


if __name__ == '__main__':
    main()
