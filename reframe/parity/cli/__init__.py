"""The `parity` command. Each command imports what it needs when it runs: starting is quick."""

from __future__ import annotations

import gc
import os
import sys

import typer
import typer.core

from parity.base import errors
from parity.cli import cause, compare, export, files, jobs, nodes, plan, refs, scaling, sessions, software, study
from parity.cli import replay as replays
from parity.cli import summary as summaries
from parity.cli.group import Group

#: The commands as `parity --help` groups them.
GROUPS = {'Every morning': ('verdict', 'show', 'cause', 'ack', 'unack', 'level', 'nodes', 'node', 'report',
                             'incidents', 'sessions', 'notify', 'summary', 'export'),
          'References': ('refs', 'detect', 'replay'),
          'Comparing': ('compare', 'scaling', 'study', 'parse'),
          'Software': ('facts', 'software'),
          'Site': ('doctor', 'probe', 'jobs', 'plan', 'prune', 'merge', 'import')}


class Commands(Group):
    """The commands; each returns its exit code, or nothing for 0."""

    def format_options(self, ctx, formatter):
        """List the commands by group, their sentences whole, then the options."""
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, self.get_command(ctx, name).get_short_help_str(200)) for name in names])
        typer.core.TyperCommand.format_options(self, ctx, formatter)

    def invoke(self, ctx):
        try:
            code = super().invoke(ctx)
        except BrokenPipeError:     # typer would end with 1, which says that something regressed
            errors.unread()
        if code:
            raise typer.Exit(code)


app = typer.Typer(cls=Commands, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False,
                  context_settings={'help_option_names': ['-h', '--help']})

SITE = typer.Option('', '--site', metavar='DIR',
                    help='The folder that holds systems/ and results/; by default PARITY_SITE, else the checkout, '
                         'else ~/.config/parity.')
ALL = typer.Option(False, '--all', help='List all cells, too.')
SKIPPED = typer.Option(False, '--skipped', help='List the skipped cells, too.')
JSON = typer.Option(False, '--json', help='Print it as JSON.')
MAX_AGE = typer.Option(None, '--max-age', metavar='TIME',
                       help="End with 3 where the system's newest session ended longer ago, such as 26h, 90m, 2d.")
OF_SYSTEM = typer.Option('', '--system', help='Judge the newest session of this system.')
SESSION = typer.Option('', help="A session's uuid or its beginning; the newest if not given.")

CELL = typer.Argument(metavar='CELL|INCIDENT',
                      help='CASE.METRIC@SYSTEM:PARTITION, or any part that fits no other cell; or an '
                           'incident, by its number.')
OF_SESSION = typer.Option('', '--session',
                          help="A session's uuid or its beginning; by default the newest that planned the cell.")

ACKED = typer.Argument('', metavar='CELL|INCIDENT', help='The cell or the incident, as for parity show.')
UNACKED = typer.Argument(..., metavar='CELL|INCIDENT', help='The cell or the incident, as for parity show.')
UNTIL = typer.Option('', metavar='DATE', help='The last day on which it holds, such as 2026-12-01.')
WHY = typer.Option('', metavar='TEXT', help='What is broken, and what is done about it.')
BY = typer.Option('', metavar='NAME', help='Who says so; by default the login name.')
ACK_SYSTEM = typer.Option('', '--system', help='The system of the cell; --list: of this system only.')
LIST = typer.Option(False, '--list', help='List what is acknowledged, and how those cells stand.')

LEVEL_OF = typer.Argument('', metavar='CELL', help='The cell, as for parity show.')
SINCE = typer.Option('', metavar='DATE', help='The first day of the level, such as 2026-11-20.')
WHY_NEW = typer.Option('', '--why', metavar='TEXT', help='What changed that day.')
LIST_LEVELS = typer.Option(False, '--list', help='List the levels begun by hand, and how those cells stand.')

OF_INCIDENTS = typer.Option('', '--system', help='The system of the incidents; all if not given.')
REPORT_SYSTEM = typer.Option('', '--system', help='Take the newest session of this system.')
NOTIFY_SYSTEM = typer.Option('local', '--system', help='The system of the incidents.')
TEST = typer.Option(False, '--test', help='Send a test notice by the command of `notify` in system.yaml.')


def _version(asked: bool) -> None:
    if asked:
        from parity.base import paths
        typer.echo(f'parity {paths.version()}')
        raise typer.Exit


def _demand_one(session: str, system: str) -> None:
    if session and system:
        raise errors.UsageError('--session and --system: give only one')


@app.callback()
def top(site: str = SITE,
        version: bool = typer.Option(False, '--version', callback=_version, is_eager=True,
                                     help='Print the version, and the commit of what measures and judges.')):
    """Find what got slower and what never ran, and compare one partition with another.

    \b
    parity verdict                              what the last night says
    parity show 'Stream%threads=all.triad'      all about one figure
    parity compare onebox:physical onebox:virtual
    parity refs propose --system onebox         values to accept, after 10 nights
    """
    if site:
        os.environ['PARITY_SITE'] = os.path.abspath(site)


@app.command()
def verdict(everything: bool = ALL, skipped: bool = SKIPPED, as_json: bool = JSON, session: str = SESSION,
            system: str = OF_SYSTEM, max_age: str = MAX_AGE):
    """Judge a session: the answer first, one word for every planned cell.

    \b
    parity verdict --skipped                    also why cells were left out
    parity verdict --system onebox --max-age 26h

    Exit code: 0 all is well, 1 regressed, impossible or wrong, 2 usage, 3 missing or too old, 4 infrastructure."""
    from parity.base import console, times
    from parity.cli import table
    from parity.judge.report import answer, documents
    from parity.judge.verdict import judge
    _demand_one(session, system)
    try:
        oldest = times.seconds(max_age) if max_age is not None else 0
    except ValueError as err:
        raise errors.UsageError(f'--max-age: {err}') from None
    judged = judge.newest(session, system)
    judged = judge.not_older(judged, oldest, max_age) if oldest else judged
    if as_json:
        print(documents.as_json(answer.answered(judged)))
        return judged.exit_code
    cells = table.table(judged) if everything else table.table(judged, ['skipped']) if skipped else []
    console.lines([*answer.lines(judged), *cells])
    return judged.exit_code


@app.command('show')
def show_cell(cell: str = CELL, as_json: bool = JSON, session: str = OF_SESSION):
    """Print all that is known of one cell: value, band, nights, nodes, output, cause, how to rerun it. Or of one
    incident, by its number: its place, cells and life.

    \b
    parity show 17
    parity show 'Stream%threads=all.triad@onebox:virtual'
    parity show triad --session 5d5ec1ad
    """
    from parity.base import console
    from parity.judge.report import show
    if cell.isdecimal():
        from parity.judge.report import incidents
        from parity.judge.store.incidents import read
        one = read(cell)
        print(one.model_dump_json(indent=1)) if as_json else console.lines(incidents.lines(one))
        return
    found = show.of_cell(cell, session)
    print(found.model_dump_json(indent=1)) if as_json else console.lines(show.lines(found))


@app.command('ack')
def acknowledge(cell: str = ACKED, until: str = UNTIL, why: str = WHY, by: str = BY, system: str = ACK_SYSTEM,
                listed: bool = LIST):
    """Acknowledge a known fault until a day: it stays in the verdict, but does not set the exit code.

    \b
    parity ack 17 --until 2026-12-01 --why 'DIMM ordered'
    parity ack triad@onebox:virtual --until 2026-12-01 --why 'DIMM ordered'
    parity ack --list
    """
    from parity.cli import ack as command
    command.listing(system) if listed else command.add(cell, until, why, by, system)


@app.command('unack')
def take_back(cell: str = UNACKED):
    """Take back the acknowledgement of a cell, or of an incident with all its cells.

    \b
    parity unack 17
    parity unack triad@onebox:virtual
    """
    from parity.cli import ack as command
    command.take_back(cell)


@app.command('level')
def begin_level(cell: str = LEVEL_OF, since: str = SINCE, why: str = WHY_NEW, by: str = BY,
                system: str = ACK_SYSTEM, listed: bool = LIST_LEVELS):
    """Begin a level of a cell by hand: from that day on it is judged by what it measures then.

    \b
    parity level triad@onebox:virtual --since 2026-11-20 --why 'new memory policy, as ordered'
    parity level --list
    """
    from parity.cli import level as command
    command.listing(system) if listed else command.add(cell, since, why, by, system)


@app.command()
def incidents(system: str = OF_INCIDENTS):
    """List the incidents that are not over, and when a notice had each.

    \b
    parity incidents --system onebox
    parity show 17                              all about one
    """
    from parity.cli import ack
    ack.print_open(system)


@app.command()
def notify(system: str = NOTIFY_SYSTEM, test: bool = TEST):
    """Send a test notice with --test. Without it: what `parity incidents` lists, by its former name."""
    from parity.cli import ack
    ack.sent(system) if test else ack.print_open(system)


@app.command()
def report(session: str = SESSION, system: str = REPORT_SYSTEM):
    """Write results/report/index.html, verdict.json and junit.xml, and print where they are.

    \b
    parity report --system onebox
    """
    from parity.judge import report as page
    from parity.judge.verdict import judge
    _demand_one(session, system)
    for file in page.of_session(judge.newest(session, system)):
        typer.echo(file)


app.command('cause')(cause.run)
app.command('compare')(compare.run)
app.command('scaling')(scaling.run)
app.command('parse')(files.parse)
app.command('detect')(files.detect)
app.command('export')(export.run)
app.command('replay')(replays.run)
app.command('plan')(plan.run)
app.command('summary')(summaries.run)


@app.command()
def facts(brief: bool = typer.Option(False, '--brief', help='Print only the line about the software.')):
    """Print what this machine is, its limits with their source, and the software found on it."""
    from parity.cli import host
    host.facts(brief)


@app.command('doctor')
def examine(system: str = typer.Option('', '--system', help="The system; by default this host's."),
            as_json: bool = JSON):
    """List what the nightly needs: what is there, what is missing, and how to fix it.

    \b
    parity doctor --system onebox

    Exit code: 0 the nightly could run, 2 configuration, 3 something is missing, 4 infrastructure."""
    from parity.cli import host
    return host.doctor(system, as_json)


@app.command('probe')
def probe_site(name: str = typer.Argument(metavar='NAME', help='The new system: systems/NAME/system.yaml.')):
    """Write systems/NAME/system.yaml from what Slurm or PBS prints on this login node; it overwrites nothing."""
    from parity.cli import host
    host.probe(name)


app.add_typer(nodes.app)
app.add_typer(sessions.app)
app.add_typer(software.app, name='software')
app.add_typer(jobs.app, name='jobs')
app.add_typer(study.app, name='study')
app.add_typer(refs.app, name='refs')


def main() -> None:
    """Run the command; a person's mistake is one clear line, never a traceback."""
    gc.set_threshold(100_000)   # to look for garbage among the cells of a large system took a tenth of its verdict
    errors.run(_run)


def _run() -> None:
    out = sys.stdout
    try:
        app()
    except SystemExit:
        if sys.stdout is not out:   # Click replaces it where nobody reads on, and ends with 1: regressed
            errors.unread()
        raise
    finally:
        sys.stdout.flush()      # what nobody reads is known now, not when Python ends
