"""Commands with commands of their own: an unknown one names the nearest."""

from __future__ import annotations

from difflib import get_close_matches

import typer.core

#: Nearest commands that are named, and how alike each is at least: of 1 all letters are the same.
_NAMED, _ALIKE = 3, 0.5


class Group(typer.core.TyperGroup):
    """Refuses an unknown command with the nearest ones that are valid.

    It reads its own options only where one comes first. For the value of each, even of --help, typer loads
    pydantic: a half of the time that the help of a command takes."""

    _reads_options = True

    def parse_args(self, ctx, args):
        self._reads_options = not args or args[0].startswith('-')
        try:
            return super().parse_args(ctx, args)
        finally:
            self._reads_options = True

    def get_params(self, ctx):
        return super().get_params(ctx) if self._reads_options else []

    def resolve_command(self, ctx, args):
        name = args[0]
        if self.get_command(ctx, name) is None:
            valid = self.list_commands(ctx)
            near = get_close_matches(name.lower(), valid, _NAMED, _ALIKE)
            guess = f'; the nearest: {", ".join(near)}' if near else ''
            ctx.fail(f'no command {name!r}{guess}; {ctx.command_path} --help lists all')
        return super().resolve_command(ctx, args)
