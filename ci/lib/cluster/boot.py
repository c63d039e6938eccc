"""A trial guest: start it, watch what it prints, and tell why it runs no program."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Signs:
    """Words that a guest prints."""

    ran: str                    # its first program ran
    given_up: str               # it never will; the guest may go on for ever
    telling: tuple[str, ...]    # the first line with one of these words is the reason


def why_not(words: list[str], output: Path, signs: Signs, seconds: float) -> str | None:
    """Start a guest that prints to `output`; return None once it ran a program, else the reason. Then end it."""
    with output.open('wb') as out:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        return _watched(process, output, signs, seconds)
    finally:
        process.kill()
        process.wait()


def _watched(process: subprocess.Popen, output: Path, signs: Signs, seconds: float) -> str | None:
    deadline = time.monotonic() + seconds
    while True:
        ended = process.poll() is not None  # asked first: the text read afterwards is complete
        text = output.read_text(errors='replace')
        if signs.ran in text:
            return None
        if ended or signs.given_up in text:
            return _reason(text, signs)
        if time.monotonic() > deadline:
            return f'its guest ran no program within {seconds} s'
        time.sleep(0.05)


def _reason(text: str, signs: Signs) -> str:
    lines = [' '.join(line.split()) for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if line.isprintable()]
    for line in lines:
        if any(word in line for word in signs.telling):
            return line
    return lines[-1] if lines else 'it ended and said nothing'
