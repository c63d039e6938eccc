"""The `parity` command. Each command is a file, which imports what it needs when it runs: starting is quick."""

from __future__ import annotations

import gc
import os
import sys
from typing import Any

import typer
import typer.core

from parity.base import errors
from parity.cli import (
    ack,
    cause,
    compare,
    contract,
    detect,
    doctor,
    entry_points,
    export,
    facts,
    import_,
    incidents,
    jobs,
    level,
    merge,
    node,
    nodes,
    notify,
    parse,
    probe,
    prune,
    refs,
    replay,
    report,
    scaling,
    sessions,
    show,
    software,
    study,
    summary,
    unack,
    verdict,
)
from parity.cli.group import Group

#: The commands as `parity --help` groups them: a function, or an app with commands of its own.
GROUPS = {
    'Every morning': {
        'verdict': verdict.run, 'show': show.run, 'cause': cause.run, 'ack': ack.run, 'unack': unack.run,
        'level': level.run, 'nodes': nodes.run, 'node': node.run, 'report': report.run, 'incidents': incidents.run,
        'sessions': sessions.run, 'notify': notify.run, 'summary': summary.run, 'export': export.run},
    'References': {'refs': refs.app, 'detect': detect.run, 'replay': replay.run},
    'Comparing': {'compare': compare.run, 'contract': contract.app, 'scaling': scaling.run, 'study': study.app,
                  'parse': parse.run},
    'Software': {'facts': facts.run, 'software': software.app},
    'Site': {'doctor': doctor.run, 'probe': probe.run, 'jobs': jobs.app, 'prune': prune.run,
             'merge': merge.run, 'import': import_.run},
}
_OF_OTHERS = 'Of other distributions'


def _sentence(command: Any) -> str:
    return command.get_short_help_str(200)


class Commands(Group):
    """The commands; each returns its exit code, or nothing for 0. Other distributions may add some."""

    def get_command(self, ctx, name):
        own = super().get_command(ctx, name)
        if own is not None:
            return own
        entry = entry_points.installed().get(name)
        return entry_points.load(entry) if entry else None

    def list_commands(self, ctx):
        return [*super().list_commands(ctx), *entry_points.installed()]

    def format_options(self, ctx, formatter):
        """List the commands by group, their sentences whole, then the options."""
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, _sentence(self.commands[name])) for name in commands])
        others = self._of_others()
        if others:
            with formatter.section(_OF_OTHERS):
                formatter.write_dl(others)
        typer.core.TyperCommand.format_options(self, ctx, formatter)

    def _of_others(self) -> list[tuple[str, str]]:
        """Return the name and the sentence of each command of another distribution, or why it cannot run."""
        listed = []
        for name, entry in entry_points.installed().items():
            if name in self.commands:
                listed.append((name, f'not added by {entry_points.distribution(entry)}: parity has this command'))
                continue
            try:
                listed.append((name, _sentence(entry_points.load(entry))))
            except errors.InfrastructureError as err:
                listed.append((name, str(err)))
        return listed

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


def _version(asked: bool) -> None:
    if asked:
        from parity.base import paths
        typer.echo(f'parity {paths.version()}')
        raise typer.Exit


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


for _commands in GROUPS.values():
    for _name, _command in _commands.items():
        if isinstance(_command, typer.Typer):
            app.add_typer(_command, name=_name)
        else:
            app.command(_name)(_command)


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
