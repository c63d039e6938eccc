"""`parity study`: published studies, re-run on one's own partitions."""

from __future__ import annotations

import json
import os
from pathlib import Path

import typer

from parity.base.errors import UsageError
from parity.base.figures import counted
from parity.cli.common import JSON
from parity.cli.group import Group

app = typer.Typer(cls=Group, no_args_is_help=True)
NAME = typer.Argument(metavar='NAME', help='A folder of studies/.')
SYSTEM = typer.Option('', '--system', help='Print what this system can run, and how long it takes.')
STUDY = typer.Argument('', metavar='[NAME]', help='A folder of studies/; all if not given.')
PARTITION = typer.Option([], '--partition', help='Baseline, then candidate; by default by features.')
AS = typer.Option([], '--as', metavar='AXIS.VALUE=NAME', help='The network or file system that stands for VALUE.')


def _outside(folder: str) -> str:
    """Have all of this command, and what it starts, find the studies of a folder, too."""
    if folder:
        from parity.study.published import FOLDER
        os.environ[FOLDER] = os.path.abspath(folder)
    return folder


STUDIES = typer.Option('', '--studies', metavar='DIR', callback=_outside, is_eager=True,
                       help='A folder of studies outside the checkout; also PARITY_STUDIES.')
BETTER = typer.Option([], '--better', metavar='METRIC=higher|lower', help='Which values are better.')
SESSION = typer.Argument('', metavar='[SESSION|last]', help='Its session: a uuid or its beginning, or last.')


@app.callback()
def of_studies():
    """Re-run published studies, and compare their figures with your own."""


@app.command('list')
def list_studies(system: str = SYSTEM, studies: str = STUDIES):
    """List the studies. With --system: how much of each can run there, and how long it takes."""
    from parity.base import console
    from parity.study import conditions, published, wording
    wrong: list[UsageError] = []
    wanted = []
    for name in published.names():
        try:
            wanted.append(conditions.wanted(published.read(name), name, system))
        except UsageError as err:
            wrong.append(err)
    for of, modes in zip(wanted, conditions.planned(*wanted) if wanted else (), strict=True):
        if isinstance(modes, UsageError):
            wrong.append(modes)
        else:
            console.lines(wording.listed(of.name, of.study, modes))
    if wrong:
        raise UsageError('\n'.join(map(str, wrong)))


@app.command('show')
def show_study(name: str = NAME, system: str = SYSTEM, studies: str = STUDIES):
    """Print what a study asked, and what runs here.

    It lists experiments in print and here, findings, confounders, and what is left out."""
    from parity.base import console
    from parity.study import conditions, published, wording
    from parity.study.published import figures
    read = published.read(name)
    cells, _ = figures.published(read, name)
    modes = conditions.of_one(conditions.wanted(read, name, system))
    console.lines(wording.shown(name, read, cells, modes.get('full')))


@app.command('new')
def new_study(name: str = NAME, table: str = typer.Option('', '--from', metavar='CSV', help='A table of figures.'),
              better: list[str] = BETTER, studies: str = STUDIES):
    """Write the folder of a new study: an example, or the figures of a table.

    \b
    parity study new boards --from boards.csv --better time=lower --studies ~/studies
    parity study compare boards --studies ~/studies

    Exit code: 0 written; 2 a name that is taken, a table that cannot be read."""
    from parity.study.published import draft, figures, read
    if studies:
        Path(studies).mkdir(parents=True, exist_ok=True)
    print(*draft.written(name, Path(table) if table else None, better), sep='\n')
    cells, _ = figures.published(read(name), name)
    unstated = dict.fromkeys(cell.metric for cell in cells if not cell.better)
    if unstated:
        print(f'which is better of {", ".join(unstated)}, higher or lower? '
              'Fill the column better of published.csv, or give --better METRIC=higher')
    print(counted(sum(len(cell.values) for cell in cells), 'figure'))
    print(f'next: parity study compare {name}' + (f' --studies {studies}' if studies else ''))


@app.command('check')
def check_quotes(name: str = NAME, studies: str = STUDIES,
                 document: str = typer.Option(..., '--document', help='The document, as plain text.')):
    """Find each quote of a study in its document. Line breaks, hyphens and spaces do not count.

    Exit code: 0 all are found; 2 one is not: its file and line are printed."""
    from parity.base import files
    from parity.study import published
    from parity.study.published import quotes
    read = published.read(name)
    lost = quotes.absent(read, files.read(Path(document)).decode('utf-8', 'replace'))
    published.refuse(name, [(keys, f'{document} has no "{quote}"') for keys, quote in lost])
    print(f'{name}: {counted(len([*quotes.of_study(read)]), "quote", "are")} in {document}')


@app.command('run')
def run_study(name: str = NAME, system: str = typer.Option(..., '--system', help='The system to measure.'),
              quick: bool = typer.Option(False, '--quick', help='Take small problems and few repeats.'),
              partition: list[str] = PARTITION, given: list[str] = AS,
              dry_run: bool = typer.Option(False, '--dry-run', help='Print what would be measured.'),
              submit: bool = typer.Option(False, '--submit', help='Submit a job that measures it.'),
              again: bool = typer.Option(False, '--again', help='Measure again what was measured.'),
              studies: str = STUDIES):
    """Measure what a system can run of a study: its sides take turns. Interrupted, the same command goes on.

    \b
    parity study run jungels2012 --system onebox --quick
    parity study run jungels2012 --system NAME --partition phys --partition virt --as filesystem.NFS=scratch

    Exit code: 0 measured, 1 a wrong result, 2 usage, 3 nothing testable or no figure, 4 infrastructure.
    The same command measures again the cases that failed."""
    from parity.study import run
    return run.measure(run.StudyCommand(name, system, quick, partition, given), dry_run, again, submit)


@app.command('compare')
def compare_study(name: str = NAME, session: str = SESSION, as_json: bool = JSON, studies: str = STUDIES):
    """Compare a study's sides, in print and as measured here.

    Judge its findings on both. Without a session: in print only.

    \b
    parity study compare jungels2012
    parity study compare jungels2012 last --json

    Exit code: 0 whatever the findings say, 2 usage, 3 no session."""
    from parity.base import console
    from parity.study import compared, wording
    found = compared.of_study(name, session)
    if as_json:
        print(json.dumps(found.as_json(), indent=1))
        return
    console.lines(wording.comparison(found))


@app.command('report')
def report_study(name: str = STUDY, studies: str = STUDIES):
    """Write the page, CSV and JSON of a study with its newest measurement; without NAME, of all studies."""
    from parity.base import paths
    from parity.judge.store import database
    from parity.study import compared, page, published
    found = []
    for each in [name] if name else published.names():
        with paths.of_study(each):
            measured = database.uuids()
        found.append(compared.of_study(each, 'last' if measured else ''))
        print(*page.write(found[-1]), sep='\n')
    if not name:
        print(page.write_index(found))


@app.command('bundle')
def bundle_study(name: str = NAME, session: str = typer.Argument('last', metavar='[SESSION]', help='Its session.'),
                 studies: str = STUDIES):
    """Write results/report/studies/NAME.zip: what was measured, and what it was measured with.

    It has each run's value, session, nodes and time, the environment of each session, study.yaml, published.csv,
    the page, and checksums (SHA256SUMS).

    Exit code: 0 written, 2 usage, 3 no session."""
    from parity.study import bundle, compared
    print(bundle.write(compared.of_study(name, session)))
