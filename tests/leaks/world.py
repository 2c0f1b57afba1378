"""The application in which cases are played, and everything in it that keeps or sends a word.

Law of this room: what is looked at here is what operators would look at: rows, log lines as the server writes them,
spans, metrics. What of it may be there is for :mod:`tests.leaks.table` to say.
"""

from __future__ import annotations

import base64
import io
import json
import logging
import os
import re
import sqlite3
import typing as t
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, quote

import gevent
import pytest
from gevent.pywsgi import WSGIServer
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from app.engine.observe.content import Content
from app.engine.observe.observer import Observing
from app.engine.observe.tracing import Tracing
from app.redaction import log_lines
from app.redaction.secrets import known_secrets
from app.web import passwords
from app.web.mailer import Mailer
from tests.leaks import tools
from tests.leaks.author import COLLECTION
from tests.leaks.marks import made
from tests.web.conftest import QUICK_HASH, Studio, opened

#: Stored secrets, each with signs that other spellings change.
SECRETS = (
    made("s", 0, 1),
    made("s", 0, 2, 'q"uo\\te'),
    made("s", 0, 3, "+/= %é"),
    made("s", 0, 4, "<&>'"),
)
#: The key of the vendor, in the environment.
VENDOR_KEY = made("s", 0, 9)
#: Tables with workflows as they were written.
DOCUMENTS = ("workflows", "workflow_versions")
#: Tables with what visitors get in with, or bring along, by what may be in them.
ENTERING = {"chats": "chats", "files": "files"}
#: Tables in which a run keeps what it goes on with.
KEPT = ("journal", "run_logs", "durable_runs")


@dataclass
class World:
    """See the module.

    :ivar host: address of the server that requests and the vendor's models reach. :ivar serial: a number of the case
        that is played, for the values that it names. :ivar count: how many were played.
    """

    studio: Studio
    host: str
    secrets: tuple[str, ...]
    log: io.StringIO = field(default_factory=io.StringIO)
    spans: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    serial: int = 0
    count: int = 0
    letters: dict[str, str] = field(default_factory=dict)
    _seen: dict[str, t.Any] = field(default_factory=dict)

    @property
    def services(self) -> t.Any:
        """Those of the application."""
        return self.studio.app.extensions["studio"]

    def folder(self) -> Path:
        """Where the scripts of its models are."""
        return t.cast(Path, self.services.settings.scripts_dir)

    def begin(self, case: object, content: bool) -> None:
        """Forget what was seen. ``content``: spans hold what was said."""
        self.count += 1
        self.serial = 1 + zlib.crc32(repr(case).encode()) % 99_999  # a case has the same values each time
        self.log.seek(0)
        self.log.truncate()
        self.spans.clear()
        used = self.services.store.secrets.opened
        environment = known_secrets(os.environ)
        written = Content(lambda: (*environment, *used())) if content else None
        tracing = Tracing(SimpleSpanProcessor(self.spans), written, "1.0")
        observing = self.services.observing
        self.services.observing = Observing(tracing, observing.metrics)
        self.rows()

    def idle(self) -> None:
        """Wait until no run is under way."""
        with gevent.Timeout(120, AssertionError("a run does not end")):
            while self.services.runs._runs:
                gevent.sleep(0.002)
        self.services.store._writer.submit(lambda link: None).wait()

    def rows(self, again: bool = False) -> dict[str, str]:
        """The rows that are new since the last look, by table. ``again``: the next look sees them too."""
        found: dict[str, str] = {}
        path = self.services.settings.data_dir / "studio.db"
        connection = sqlite3.connect(path)
        try:
            for name, sql in connection.execute("select name, sql from sqlite_master where type = 'table'"):
                if "VIRTUAL" not in sql and not name.startswith("sqlite_"):
                    found[name] = self._rows(connection, name, "WITHOUT ROWID" in sql.upper(), again)
        finally:
            connection.close()
        return found

    def _rows(self, connection: sqlite3.Connection, name: str, whole: bool, again: bool) -> str:
        column = "rowid"
        if whole:  # what it is found by are ids, in the order of their making
            table = connection.execute(f'pragma table_info("{name}")')
            column = next(name for _, name, _, _, _, key in table if key == 1)
        after = self._seen.get(name, "" if whole else 0)
        rows = connection.execute(f'select {column}, * from "{name}" where {column} > ?', (after,)).fetchall()
        if not again:
            self._seen[name] = max([after, *(row[0] for row in rows)])
        return "\n".join(_cell(cell) for row in rows for cell in row)

    def letter(self, to: str) -> str:
        """The last e-mail to an address, which may still be on its way."""
        with gevent.Timeout(120, AssertionError("no e-mail comes")):
            while to not in self.letters:
                gevent.sleep(0.002)
        return self.letters.pop(to)

    @staticmethod
    def code_in(letter: str) -> str:
        """The code in an e-mail."""
        found = re.search(r"\b\d{6}\b", letter)
        assert found, letter
        return found[0]

    def files(self) -> bytes:
        """Every byte that is kept on disk."""
        folder = self.services.settings.data_dir
        return b"\n".join(
            path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name != "secrets.key"
        )


def _cell(cell: t.Any) -> str:
    return cell.decode("latin-1") if isinstance(cell, bytes) else str(cell)


# -- what is outside -------------------------------------------------------------------------------------


def _outside(environ: Mapping[str, t.Any], start_response: Callable[..., t.Any]) -> list[bytes]:
    """Says back what it was sent in every form, or fails with it; as a vendor it always fails."""
    body = environ["wsgi.input"].read().decode()
    sent = environ.get("HTTP_AUTHORIZATION", "")
    if environ["PATH_INFO"].endswith("/chat/completions"):
        model = json.loads(body)["model"]
        mark = model.replace("ZqMarkm", "ZqMarkv").replace("mkraMqZ", "vkraMqZ")
        failure = {"error": {"message": f"No model {mark} for {sent}, nor for {sent[7:12]}", "code": mark}}
        start_response("401 Unauthorized", [("Content-Type", "application/json"), ("X-Vendor", sent)])
        return [json.dumps(failure).encode()]
    status = parse_qs(environ["QUERY_STRING"]).get("status", ["200"])[0]
    told = {
        "back": json.loads(body) if body else None,
        "plain": sent,
        "quoted": quote(sent),
        "base64": base64.b64encode(sent.encode("latin-1")).decode(),
        "hex": sent.encode("latin-1").hex(),
        "upper": sent.upper(),
        "twice": json.dumps({"again": sent}),
    }
    headers = [("Content-Type", "application/json"), ("X-Sent", sent or "none")]
    start_response(f"{status} So", headers)
    return [json.dumps(told).encode()]


@contextmanager
def outside() -> Iterator[str]:
    """The address of a server that says back what it was sent; as a vendor it fails with it."""
    server = WSGIServer(("127.0.0.1", 0), _outside, log=None)
    server.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.stop(timeout=5)


def leading_to(host: str) -> dict[str, str]:
    """The environment in which vendor and requests are there."""
    return {
        "STUDIO_OPENAI_COMPATIBLE_API_BASE": f"{host}/v1",
        "STUDIO_OPENAI_COMPATIBLE_API_KEY": VENDOR_KEY,
        "STUDIO_HTTP_ALLOW": "127.0.0.0/8",
    }


@contextmanager
def worlds(folder: Path) -> Iterator[dict[bool, World]]:
    """Two worlds: one with stored secrets, one in which nothing is ever masked unless a policy says so."""
    patch = pytest.MonkeyPatch()
    much = {"STUDIO_MAX_STREAMS": "2000", "STUDIO_MAX_STREAMS_PER_ADDRESS": "0", "STUDIO_METRICS": "on"}
    much |= {f"STUDIO_RATE_LIMIT_{who}": "1000000/minute" for who in ("CHAT", "VISITOR", "ADDRESS")}
    with ExitStack() as stack:
        stack.callback(patch.undo)
        host = stack.enter_context(outside())
        for name, value in leading_to(host).items():
            patch.setenv(name, value)
        much["STUDIO_HTTP_ALLOW"] = "127.0.0.0/8"
        made: dict[bool, World] = {}
        letters: dict[str, str] = {}
        patch.setattr(
            Mailer, "_send", lambda self, to, subject, text: letters.update({to: f"{subject}\n{text}"})
        )
        patch.setattr(passwords, "_METHOD", QUICK_HASH)
        for secret in (False, True):
            path = folder / ("secret" if secret else "open")
            path.mkdir()
            if secret:
                much["STUDIO_MCP_SERVERS"] = str(tools.servers(path))
            studio = stack.enter_context(opened(path, much))
            made[secret] = World(studio, host, SECRETS if secret else ())
            tools.add(made[secret].services.plugins)
            made[secret].letters = letters
            _shelve(studio)
            for place, value in enumerate(made[secret].secrets):
                studio.store.secrets.set(f"S{place}", value)
            stack.enter_context(_logged(made[secret]))
        yield made


def _shelve(studio: Studio) -> None:
    """Documents that are searched: what stands in them is a result, where it stands is not."""
    text = f"So it is said: {made('r', 0, 5)}. " * 3
    body = {"collection": COLLECTION, "source": "shelf.txt", "text": text, "title": "Shelf"}
    headers = {"X-API-Key": studio.keys["admin"]}
    answer = studio.client.post("/api/documents", json=body, headers=headers)
    assert answer.status_code == 201, answer.get_data()


@contextmanager
def _logged(world: World) -> Iterator[None]:
    """Take down every line as the server would write it."""
    handler = logging.StreamHandler(world.log)
    log_lines.install([handler], world.services.store.secrets.opened)
    logger = logging.getLogger("studio")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel("INFO")
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
