"""A page in a real browser: Chromium without a window, driven by the DevTools protocol over a pipe.

https://chromedevtools.github.io/devtools-protocol/. The pipe (--remote-debugging-pipe) needs neither a driver nor
a port. Messages are JSON and end with a NUL; Chromium's ends are its files 3 and 4.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

NAMES = ('chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable')
#: More seconds than any page of ours takes, even on a busy machine.
SECONDS = 60.0


def browser_program() -> str | None:
    """Return the program, or None if PATH has none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page, as a context manager. ``events`` are the browser's messages, oldest first."""

    def __init__(self, program: str, *options: str):
        self._home = tempfile.TemporaryDirectory(prefix='parity-browser-', ignore_cleanup_errors=True)
        ours, theirs = os.pipe(), os.pipe()     # to the browser, from the browser
        self._out, self._in, self._rest = ours[1], theirs[0], b''
        root = ['--no-sandbox'] if os.geteuid() == 0 else []      # as root, Chromium runs only without its sandbox
        command = [program, '--headless', '--remote-debugging-pipe', '--disable-gpu', '--disable-dev-shm-usage',
                   '--no-first-run', '--hide-scrollbars', f'--user-data-dir={self._home.name}', *root, *options]
        # the shell gives the pipe the numbers that Chromium expects
        line = f'exec "$@" 3<&{ours[0]} 4>&{theirs[1]}'
        self._process = subprocess.Popen(['bash', '-c', line, 'bash', *command], pass_fds=(ours[0], theirs[1]),
                                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(ours[0])
        os.close(theirs[1])
        self._number, self._session, self.events = 0, '', []

    def __enter__(self) -> Browser:
        target = self('Target.createTarget', url='about:blank')['targetId']
        self._session = self('Target.attachToTarget', targetId=target, flatten=True)['sessionId']
        for domain in ('Page', 'Network', 'Runtime', 'Log'):
            self(f'{domain}.enable')
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._out)
        os.close(self._in)
        self._home.cleanup()

    def __call__(self, method: str, **parameters: Any) -> Any:
        """Call a method of the protocol and return its answer; raise RuntimeError with the browser's words."""
        self._number += 1
        session = {'sessionId': self._session} if self._session else {}
        os.write(self._out, json.dumps({'id': self._number, 'method': method, 'params': parameters,
                                        **session}).encode() + b'\0')
        answer = self._until(lambda said: said.get('id') == self._number, method)
        if 'error' in answer:
            raise RuntimeError(f'{method}: {answer["error"]["message"]}')
        return answer['result']

    def open(self, page: Path) -> float:
        """Open a file, wait until it is loaded and drawn, and return the seconds."""
        start = time.perf_counter()
        self('Page.navigate', url=page.resolve().as_uri())
        self.wait('Page.loadEventFired')
        self.value('new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))')
        return time.perf_counter() - start

    def wait(self, event: str) -> None:
        """Wait for the next such event."""
        self._until(lambda said: said.get('method') == event, event)

    def value(self, expression: str) -> Any:
        """Return the value of a JavaScript expression; wait for a promise."""
        told = self('Runtime.evaluate', expression=expression, returnByValue=True, awaitPromise=True)
        if 'exceptionDetails' in told:
            raise RuntimeError(f'{expression}: {told["exceptionDetails"]["exception"].get("description")}')
        return told['result'].get('value')

    def click(self, selector: str) -> None:
        """Press the mouse in the middle of the first matching element, as a person would."""
        x, y = self.value(f'(e => {{ e.scrollIntoView({{block: "center"}}); const r = e.getBoundingClientRect(); '
                          f'return [r.x + r.width / 2, r.y + r.height / 2] }})'
                          f'(document.querySelector({json.dumps(selector)}))')
        for kind in ('mousePressed', 'mouseReleased'):
            self('Input.dispatchMouseEvent', type=kind, x=x, y=y, button='left', clickCount=1)

    def press(self, key: str) -> None:
        """Press a key: a character, or a name such as Enter, Escape, Tab, ArrowDown."""
        codes = {'Enter': 13, 'Escape': 27, 'Tab': 9, 'ArrowUp': 38, 'ArrowDown': 40}
        text = {'text': key if len(key) == 1 else '\r'} if len(key) == 1 or key == 'Enter' else {}
        self('Input.dispatchKeyEvent', type='keyDown', key=key, windowsVirtualKeyCode=codes.get(key, 0), **text)
        self('Input.dispatchKeyEvent', type='keyUp', key=key, windowsVirtualKeyCode=codes.get(key, 0))

    def look(self, width: int, height: int = 900, dark: bool = False, media: str = 'screen') -> None:
        """Set the size of the screen (or paper) in pixels, light or dark."""
        self('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1,
             mobile=width < 600)
        scheme = {'name': 'prefers-color-scheme', 'value': 'dark' if dark else 'light'}
        self('Emulation.setEmulatedMedia', media=media, features=[scheme])

    def picture(self, file: Path, whole: bool = False) -> None:
        """Write the visible part, or the ``whole`` page, as PNG."""
        file.write_bytes(base64.b64decode(self('Page.captureScreenshot', captureBeyondViewport=whole)['data']))

    def _until(self, wanted: Callable[[dict], bool], what: str) -> dict:
        deadline = time.monotonic() + SECONDS
        while True:
            while b'\0' in self._rest:
                raw, _, self._rest = self._rest.partition(b'\0')
                said = json.loads(raw)
                self.events += [said] if 'method' in said else []
                if wanted(said):
                    return said
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._in], [], [], left)[0]:
                raise RuntimeError(f'the browser did not answer within {SECONDS:g} s: {what}')
            if not (more := os.read(self._in, 1 << 16)):
                raise RuntimeError(f'the browser has ended: {what}')
            self._rest += more
