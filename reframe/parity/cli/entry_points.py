"""Commands of other distributions: the entry points `parity.commands`.

    [project.entry-points."parity.commands"]
    hello = "package.module:function"       # or a typer.Typer: a command with commands of its own

They are looked up only for a command that is not one of ours, and for `--help`: to start stays quick."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parity.base.errors import InfrastructureError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = 'parity.commands'


def installed() -> dict[str, EntryPoint]:
    """Return the commands that are installed beside parity, by name; of several of one name, the first."""
    from importlib.metadata import entry_points
    commands: dict[str, EntryPoint] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, distribution(entry))):
        commands.setdefault(entry.name, entry)
    return commands


def load(entry: EntryPoint) -> Any:
    """Return the command of an entry point, as Click knows one. InfrastructureError for one that is broken."""
    import typer
    try:
        target = entry.load()
        if isinstance(target, typer.Typer):
            command = typer.main.get_command(target)
        elif callable(target):
            app = typer.Typer()
            app.command(entry.name)(target)
            command = typer.main.get_command(app)
        else:
            raise TypeError(f'{entry.value} is neither a function nor a typer.Typer')
    except (Exception, SystemExit) as err:      # whatever a module of somebody else does when it is imported
        raise _broken(entry, err) from None
    command.name = entry.name
    _name_who_lacks_a_package(command, entry)
    return command


def _name_who_lacks_a_package(command: Any, entry: EntryPoint) -> None:
    """Have the command name its distribution where a Python package is absent: parity's extras do not bring it."""
    invoke = command.invoke

    def invoked(ctx: Any) -> Any:
        try:
            return invoke(ctx)
        except ModuleNotFoundError as err:
            raise _broken(entry, err) from None
    command.invoke = invoked


def _broken(entry: EntryPoint, err: BaseException) -> InfrastructureError:
    why = ' '.join(f'{type(err).__name__}: {err}'.split())
    return InfrastructureError(f'the command {entry.name} of {distribution(entry)} cannot run: {why}; '
                               'install what it lacks, or uninstall that distribution')


def distribution(entry: EntryPoint) -> str:
    """Return the name and the version of the distribution that brings an entry point."""
    return f'{entry.dist.name} {entry.dist.version}' if entry.dist else 'an unnamed distribution'
