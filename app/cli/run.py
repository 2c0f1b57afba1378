"""``studio run FILE_OR_ID``: one run, shown as it happens.

Law of this room: a file runs in this process; an id runs on the server at STUDIO_URL when that is
set, else in this process on the store under STUDIO_DATA_DIR. All three show the same frames.
"""

from __future__ import annotations

import logging
import signal
import sys
import typing as t
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from app import encoding
from app.cli import deciding, render
from app.errors import ApiError, StudioError

if t.TYPE_CHECKING:
    from app.cli.sources import Queue, Source
    from app.engine.catalog import Runnable
    from app.engine.services import Services

_INTERRUPT = object()
COMPLETED, FAILED, LEFT, INTERRUPTED = 0, 1, 3, 130


@click.command()
@click.argument("file_or_id")
@click.option("--input", "input_", help='A JSON object; any other text becomes {"message": text}.')
@click.option("--thinking", is_flag=True, help="Show the model's thinking.")
@click.option("--tools", is_flag=True, help="Show tool calls.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document when the run has ended.")
def run(file_or_id: str, input_: str | None, thinking: bool, tools: bool, as_json: bool) -> int:
    """Run a workflow: a file, or the id of an imported one.

    An id runs on the server at STUDIO_URL, with the key STUDIO_API_KEY; where STUDIO_URL is not set, and
    for a file, it runs in this process on the data under STUDIO_DATA_DIR.

    In a terminal the answer appears live, with thinking dimmed and tools as chips, and what the run asks people is
    asked there; through a pipe only the standing answer is printed, and a run that waits for a decision is left to
    `studio decisions`. Ends with 0 completed, 1 failed, 2 bad input, 3 left waiting for a decision, 130 interrupted.
    """
    run_input = parse_input(input_)
    if not is_file(file_or_id):
        from app.cli.remote import Server
        from app.cli.sources import Remote

        server = Server.named()
        if server is not None:
            return follow(Remote(server, file_or_id, run_input, thinking=thinking, tools=tools), as_json)
    return _run_here(file_or_id, run_input, thinking, tools, as_json)


def parse_input(text: str | None) -> t.Any:
    """A JSON object as it is, other text as ``{"message": text}``, nothing as ``{}``."""
    if text is None:
        return {}
    try:
        value = encoding.loads(text)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"message": text}


def is_file(file_or_id: str) -> bool:
    """Whether the argument means a file: standard input, something that exists, or a path by its looks."""
    return file_or_id == "-" or "/" in file_or_id or "." in file_or_id or Path(file_or_id).is_file()


def _run_here(file_or_id: str, run_input: t.Any, thinking: bool, tools: bool, as_json: bool) -> int:
    from app.cli.sources import Local

    with _services() as services:
        found = _find(file_or_id, services)
        source = Local(services, found, run_input, thinking=thinking, tools=tools)
        try:
            return follow(source, as_json)
        finally:
            source.wait()


@contextmanager
def _services() -> Iterator[Services]:
    from app import create_services
    from app.cli.context import open_store, settings
    from app.redaction import log_lines

    with open_store():
        pass  # makes a folder that was never used ready
    services = create_services(settings())
    services.runs.open(carry_on=False)
    try:
        with log_lines.masked(logging.getLogger().handlers, services.store.secrets.opened):
            yield services
    finally:
        services.runs.close()
        services.threads.close()
        services.mcp.close()
        services.observing.close(3.0)
        services.store.close()


def _find(file_or_id: str, services: Services) -> Runnable:
    from app.cli.context import read_document, warn
    from app.engine.catalog import Catalog
    from app.web.catalog import check_ready

    if is_file(file_or_id):
        found = Catalog(services).of("file", read_document(file_or_id))
        warn(found.workflow.warnings)
    else:
        found = Catalog(services).find(file_or_id)
    check_ready(found, services, public=False)
    return found


def go_on_here(run_id: str) -> int:
    """Go on in this process with a run that was answered, and show it.

    :returns: the command's exit status.
    """
    from app.cli.sources import Stored

    with _services() as services:
        source = Stored(services, run_id)
        try:
            return follow(source, as_json=False)
        finally:
            source.wait()


def follow(source: Source, as_json: bool) -> int:
    """Show a run to its end, asking whoever sits at the terminal what it asks people.

    :returns: the command's exit status.
    """
    from gevent.queue import SimpleQueue

    queue: Queue = SimpleQueue()
    with _interrupts(queue):
        if not source.start(queue):
            return _left()
        view = _view(source.run_id, as_json)
        status = _Follower(source, view).run(queue)
    while status == LEFT:
        asked = source.asked()
        if as_json or not (asked and sys.stdin.isatty() and sys.stdout.isatty()):
            _say_how(source, asked)
            return LEFT
        queue = SimpleQueue()
        answer = deciding.ask(asked[0])
        with _interrupts(queue):
            if not _resumed(source, answer, queue):
                return _left()
            status = _Follower(source, view).run(queue)
    return status


def _resumed(source: Source, answer: dict[str, t.Any], queue: Queue) -> bool:
    """Answer; what cannot be taken is said, and asked again."""
    try:
        return source.resume(answer, queue)
    except ApiError as refused:
        if refused.status != 400:
            raise
        click.echo(refused.message, err=True)
        return _resumed(source, deciding.ask(source.asked()[0]), queue)


def _say_how(source: Source, asked: t.Sequence[deciding.Decision]) -> None:
    for decision in asked:
        click.echo(deciding.how_to_answer(decision, remote=source.remote), err=True)


def _left() -> int:
    click.echo("Another process goes on with the run.", err=True)
    return LEFT


def _view(run_id: str, as_json: bool) -> render.View:
    if as_json:
        return render.Json(run_id)
    return render.Terminal() if sys.stdout.isatty() else render.Plain()


class _Follower:
    """Reads a queue of stream bytes to its end."""

    def __init__(self, source: Source, view: render.View) -> None:
        self._source = source
        self._view = view
        self._status: int | None = None
        self._interrupted = False

    def run(self, queue: Queue) -> int:
        from providers.sse import SseReader

        reader = SseReader()
        try:
            while (item := queue.get()) is not None:
                if item is _INTERRUPT:
                    if self._interrupted:  # asked twice: the person at the keyboard does not want to wait
                        return INTERRUPTED
                    self._interrupted = True
                    self._source.stop()
                    continue
                for _, data in reader.feed(item):
                    self._take(encoding.loads(data))
        finally:
            self._view.close()
        if self._interrupted:
            return INTERRUPTED
        if self._status is None:
            raise StudioError(
                "stream_cut", "The stream was cut before the run ended. Its end is in the run's record."
            )
        return self._status

    def _take(self, frame: t.Any) -> None:
        if not isinstance(frame, dict):
            return  # the sentinel
        if frame.get("event") == "final":
            ended = COMPLETED if frame["data"]["success"] else FAILED
            self._status = LEFT if frame["data"]["status"] == "paused" else ended
        elif frame.get("event") == "detached":
            self._status = LEFT
        elif frame.get("event") == "error":
            self._status = FAILED
        self._view.show(frame)


@contextmanager
def _interrupts(queue: Queue) -> Iterator[None]:
    """Ctrl-C becomes an item of the queue, so that it never lands inside a run's greenlet."""
    import gevent

    previous = signal.getsignal(signal.SIGINT)
    watcher = gevent.get_hub().loop.signal(signal.SIGINT)
    watcher.start(queue.put, _INTERRUPT)
    try:
        yield
    finally:
        watcher.stop()
        watcher.close()
        signal.signal(signal.SIGINT, previous)  # the watcher took the place of Python's own handler
