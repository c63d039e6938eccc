"""Messages to the user, and an end with a reason instead of a traceback."""


class Ended(Exception):
    """Ends the command with one line and an exit code: 2 usage, 3 not up, 4 unavailable."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


def say(what: str) -> None:
    print(f'parity: {what}', flush=True)
