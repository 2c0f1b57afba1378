"""The same search over a real server with two workers: its answers, its log file, the spans it sends, what it keeps."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator, Mapping

import pytest
import yaml

from app import config
from app.store import Store
from tests.leaks.judge import leaks
from tests.leaks.looks import JSON
from tests.leaks.marks import everywhere, spoken
from tests.leaks.personal import personal
from tests.leaks.told import Played, Told
from tests.leaks.visits import NEGOTIATE
from tests.leaks.world import SECRETS, leading_to, outside
from tests.support import sse
from tests.support.otlp import Receiver, receiver
from tests.support.servers import Studio, wait_until

SERIAL = 77
_SAID = "So %%w1%% to %%Pcard:1%% and %%S0%% or %%Pemail:2%% so."
SCRIPT = {
    "turns": [
        {
            "steps": [
                {"thinking": "So %%t1%% of %%Piban:3%% and %%S1%%.", "chunk": 3},
                {"text": "So %%g1%% %%Pphone:4%%.", "chunk": 2},
                {"tool_call": {"name": "told", "arguments": {"q": "So %%a1%% %%Pcpf:5%%"}, "id": "call_1"}},
                {"tool_call": {"name": "asked", "arguments": {"q": "So %%a2%% %%S0%%"}, "id": "call_2"}},
            ]
        },
        {"steps": [{"text": _SAID, "chunk": 2}]},
    ]
}
TOOLS: list[dict[str, t.Any]] = [
    {
        "name": "told",
        "description": "%%d1%%",
        "parameters": {"type": "object"},
        "result": "So %%r1%% %%Pip:6%%",
    },
    {
        "name": "asked",
        "description": "%%d2%%",
        "parameters": {"type": "object"},
        "http": {
            "method": "POST",
            "url": "%%HOST%%/echo?status=500",
            "headers": {"Authorization": "Bearer {{ secrets.S0 }}"},
            "body": {"back": "So %%r2%%"},
        },
    },
]
DOCUMENT = {
    "name": "%%n1%%",
    "blocks": [
        {"id": "start", "type": "start"},
        {
            "id": "lost",
            "type": "agent",
            "name": "%%n2%%",
            "config": {"model": "openai-compatible/%%m1%%", "prompt": "%%p1%%", "retries": 0},
        },
        {"id": "caught", "type": "set", "config": {"values": {"text": "So %%w2%%."}}},
        {
            "id": "agent_1",
            "type": "agent",
            "name": "%%n3%%",
            "config": {"model": "scripted/%%m2%%", "system": "%%p2%% %%Pus-ssn:7%%", "tools": TOOLS},
        },
    ],
    "edges": [
        {"source": "start", "target": "lost"},
        {"source": "lost", "target": "caught", "source_handle": "error"},
        {"source": "caught", "target": "agent_1"},
    ],
    "settings": {"public": True, "redact": {"mode": "live"}},
}
HIDDEN = {"card": 1, "email": 2, "iban": 3, "phone": 4, "cpf": 5, "ip": 6, "us-ssn": 7, "cnpj": 8}


class Marked(Studio):
    """A server with the workflow ``marked`` and the chat ``marked``.

    :ivar keys: by scope.
    """

    keys: dict[str, str]


@pytest.fixture(scope="module")
def collector() -> Iterator[Receiver]:
    with receiver() as made:
        yield made


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, collector: Receiver) -> Iterator[Marked]:
    data = tmp_path_factory.mktemp("marked")
    with outside() as host:
        environ = {
            **leading_to(host),
            "STUDIO_WORKERS": "2",
            "STUDIO_TRACES": "otlp",
            "STUDIO_TRACE_CONTENT": "on",
            "STUDIO_METRICS": "on",
            "STUDIO_ACCESS_LOG": "-",
            "STUDIO_LOG_LEVEL": "debug",
            "STUDIO_SCRIPTS_DIR": str(data / "scripts"),
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.address,
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }
        made = Marked(data, environ)
        made.keys = _prepared(made, host)
        try:
            yield made.start()
        finally:
            made.stop()


def _prepared(made: Studio, host: str) -> dict[str, str]:
    def filled(value: t.Any) -> t.Any:
        return json.loads(json.dumps(everywhere(value, SERIAL, SECRETS)).replace("%%HOST%%", host))

    folder = made.data / "scripts"
    folder.mkdir()
    (folder / f"{filled('%%m2%%')}.yaml").write_text(yaml.safe_dump(filled(SCRIPT)))
    store = Store(config.load(made.env()))
    store.migrate()
    store.open()
    try:
        for place, value in enumerate(SECRETS):
            store.secrets.set(f"S{place}", value)
        store.workflows.save(filled(DOCUMENT), "marked", "marked")
        store.workflows.deploy("marked")
        store.chats.create({"workflow_id": "marked", "slug": "marked", "title": "So"})
        return {scope: store.keys.create(scope, frozenset({scope}))[1] for scope in ("admin", "read", "run")}
    finally:
        store.close()


class _Asker:
    """Asks, and keeps what it is told."""

    def __init__(self, server: Marked) -> None:
        self.server = server
        hidden = (personal(kind, SERIAL, number) for kind, number in HIDDEN.items())
        self.played = Played(hidden=tuple(hidden))

    def ask(
        self,
        reader: str,
        where: str,
        method: str,
        path: str,
        body: t.Any = None,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> str:
        """One request; the id of its run."""
        sent = {"Content-Type": "application/json", **(headers or {})}
        if key is not None:
            sent["X-API-Key"] = self.server.keys.get(key, key)
        raw = None if body is None else json.dumps(body).encode()
        _, head, answer = sse.request(self.server.port, method, path, raw, sent)
        self.tell(reader, where, answer)
        self.tell("nobody", "open", str(head).encode())
        return head.get("X-Run-Id") or ""

    def tell(self, reader: str, where: str, answer: bytes) -> None:
        self.played.told.append(Told(reader, where, answer.decode(errors="replace")))


def test_nothing_leaks_from_a_server(server: Marked, collector: Receiver) -> None:
    asker = _Asker(server)
    ask, asked = asker.ask, everywhere("So %%i1%% of %%Pcnpj:8%% and %%S2%%", SERIAL, SECRETS)
    base, chat = "/api/workflows/marked", "/api/chat/marked"
    runs = [
        ask("visitor", "live", "POST", chat, {"input": asked}, headers=NEGOTIATE),
        ask("visitor", "text", "POST", chat, {"input": asked}),
        ask("visitor", "json", "POST", chat, {"input": asked}, headers=JSON),
        ask("nobody", "text", "POST", f"{base}/execute", {"input": asked, "stream": True}),
        ask("nobody", "runs", "POST", f"{base}/runs", {"message": asked}),
        ask("own", "json", "POST", f"{base}/execute", {"input": asked}, "run"),
        ask("own", "runs", "POST", f"{base}/runs", {"message": asked}, "run"),
    ]
    assert all(runs)
    for run in runs:
        ask("read", "record", "GET", f"/api/runs/{run}", key="read")
        ask("read", "runs", "GET", f"/api/runs/{run}/events?protocol=runs", key="read")
        ask("other visitor", "any", "GET", f"{chat}/runs/{run}")
    ask("admin", "builder", "GET", f"/api/runs/{runs[-1]}/events?protocol=builder", key="admin")
    ask("operator", "metrics", "GET", "/metrics", key="read")
    for path in ("/decide/{}", "/setup/{}", "/api/chat/sso/callback?code={}&state={}"):
        ask("nobody", "open", "GET", path.format(*[everywhere("%%s9%%", SERIAL, ())] * 2))
    ask("nobody", "open", "GET", "/api/runs", key=everywhere("%%s8%%", SERIAL, ()))
    wait_until(
        lambda: len([s for s in collector.spans() if s.name.startswith("invoke_agent")]) >= 14, "spans"
    )
    server.stop()
    spans = b"\n".join(collector.bodies)
    log, kept = server.log.read_bytes(), b"".join(map(_bytes_of, server.data.glob("studio.db*")))
    asker.tell("operator", "spans with content", spans)
    asker.tell("operator", "log", log)
    assert not leaks(asker.played)
    for secret in (*SECRETS, *asker.played.hidden[7:]):
        assert secret.encode() not in kept
    # It looked at the right things.
    assert "[card] and *** or [email]" in spoken(asker.played.told[0].text)
    assert b"ZqMarkp" in spans
    assert b"/decide/-" in log
    assert b"ZqMarkw" in kept


def _bytes_of(path: t.Any) -> bytes:
    return t.cast(bytes, path.read_bytes())
