"""Drives a Chromium without a window, by its own protocol over two pipes.

Law of this room: nothing but the standard library. Every wait has an end, and the browser ends with the test. A
test that needs it says so loudly where there is none; on CI that is a failure.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
import typing as t
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.servers import end

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    "--headless",
    "--no-sandbox",  # CI is root in a container; the only page it sees is ours
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--remote-debugging-pipe",
)
SECONDS = 60.0
# A page gives the focus away when it is first painted, which may be after it is complete (HTML, "flush autofocus
# candidates"); until then its body has it.
_FOCUSED = "document.activeElement !== null && document.activeElement !== document.body"


def find_chromium() -> str:
    """The browser's program; skips loudly where there is none, fails on CI."""
    for name in _NAMES:
        if path := shutil.which(name):
            return path
    reason = "no Chromium here (Debian: apt install chromium)"
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


# What the browser says of a command whose document another one has taken the place of.
_GONE = (
    "navigated or closed",
    "default execution context",
    "context was destroyed",
    "context with specified id",
)


class PageError(AssertionError):
    """The page threw, broke its policy, or did not do in time what was waited for."""


class PageGone(PageError):
    """What was asked of a document was not answered: the browser was on its way to another one."""


class Page:
    """One tab.

    :ivar errors: what went wrong on it: exceptions of scripts, errors on its console (broken policies, too).
    """

    def __init__(self, write: int, read: int) -> None:
        self._write = write
        self._read = read
        self._rest = b""
        self._count = 0
        self._session: str | None = None
        self._loaded: set[str] = set()
        self.errors: list[str] = []

    def attach(self) -> None:
        """Open the tab."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: t.Any) -> dict[str, t.Any]:
        """One command and its result."""
        self._count += 1
        number = self._count
        message: dict[str, t.Any] = {"id": number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + SECONDS
        while True:
            answer = self._message(until)
            if answer.get("id") == number:
                if "error" in answer:
                    said = f"{method}: {answer['error']}"
                    raise (PageGone if any(each in said for each in _GONE) else PageError)(said)
                return t.cast("dict[str, t.Any]", answer["result"])
            self._note(answer)

    def _message(self, until: float) -> dict[str, t.Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, until - time.monotonic()))
            data = os.read(self._read, 1 << 20) if ready else b""
            if not data:
                raise PageError("the browser does not answer")
            self._rest += data
        first, _, self._rest = self._rest.partition(b"\0")
        return t.cast("dict[str, t.Any]", json.loads(first))

    def _note(self, event: dict[str, t.Any]) -> None:
        params = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(params["exceptionDetails"])[:500])
        elif event.get("method") == "Page.frameNavigated":
            self._loaded.add(params["frame"]["loaderId"])
        elif event.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(f"{params['entry'].get('url')}: {params['entry']['text']}")

    def see(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """Be a screen of this size and taste."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, url: str) -> None:
        """Go to ``url`` and wait until it is loaded, scripts included, and what asks for the focus has it.

        The answer to the command comes before the document that was there has gone; where it has the same address,
        nothing but the browser's own word tells the two apart.
        """
        loader = self.call("Page.navigate", url=url).get("loaderId")

        def came() -> bool:
            self.listen()
            return loader is None or loader in self._loaded

        self._until(came, lambda: f"{url} never came")
        self.wait(
            f"document.readyState === 'complete' && location.href === {json.dumps(url)} "
            f"&& (!document.querySelector('[autofocus]') || {_FOCUSED})"
        )

    def js(self, expression: str) -> t.Any:
        """The value of an expression on the page."""
        result = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True, userGesture=True
        )
        if "exceptionDetails" in result:
            raise PageError(json.dumps(result["exceptionDetails"])[:500])
        return result["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until an expression is true, of whichever document is there by then."""

        def look() -> t.Any:
            try:
                return self.js(condition)
            except PageGone:
                return None

        self._until(look, lambda: f"never: {condition}; the page is at {self.js('location.href')}")

    def wait_for_error(self, part: str) -> None:
        """Wait until the console has an error with this in it."""

        def said() -> bool:
            self.listen()
            return any(part in error for error in self.errors)

        self._until(said, lambda: f"no error says {part!r}; there are {self.errors}")

    def listen(self) -> None:
        """Take in what the browser has said meanwhile."""
        self.call("Target.getTargets")

    def _until(self, look: Callable[[], t.Any], missing: Callable[[], str]) -> t.Any:
        """What is seen, once it is something; ``missing`` says what never was."""
        until = time.monotonic() + SECONDS
        while not (found := look()):
            if time.monotonic() > until:
                raise PageError(missing())
            time.sleep(0.02)
        return found

    def frame(self, part: str) -> Callable[[str], None]:
        """A frame of another site whose address ends like that: what is returned waits for a condition in it."""

        def frames() -> list[t.Any]:
            targets = self.call("Target.getTargets")["targetInfos"]
            return [each for each in targets if each["type"] == "iframe" and each["url"].endswith(part)]

        found = self._until(frames, lambda: f"no frame shows {part}")
        session = self.call("Target.attachToTarget", targetId=found[0]["targetId"], flatten=True)["sessionId"]

        def wait(condition: str) -> None:
            outer, self._session = self._session, session
            try:
                self.wait(condition)
            finally:
                self._session = outer

        return wait

    def type(self, text: str) -> None:
        """Type into what has the focus, as soon as something has."""
        self.wait(_FOCUSED)
        self.call("Input.insertText", text=text)

    def key(self, name: str) -> None:
        """Press and let go of a key, e.g. ``Enter``."""
        text = {"Enter": "\r"}.get(name, "")
        code = {"Enter": 13, "Tab": 9}.get(name, 0)
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=name,
                code=name,
                windowsVirtualKeyCode=code,
                **({"text": text} if kind == "keyDown" and text else {}),
            )

    def screenshot(self, path: Path) -> None:
        """What is to be seen, as PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def browser(folder: Path) -> Iterator[Page]:
    """A browser of one's own with one tab; its profile is under ``folder``."""
    program = find_chromium()
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    # The browser reads commands on descriptor 3 and writes on 4; the shell puts the pipes there.
    line = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
    with (folder / "chromium.log").open("wb") as log:
        process = subprocess.Popen(
            ["bash", "-c", line, program, *_FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        page = Page(ours_out, ours_in)
        page.attach()
        yield page
    finally:
        end(process)
        os.close(ours_out)
        os.close(ours_in)
