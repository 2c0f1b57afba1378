"""ACCESS: limits hold whatever a caller writes into his headers, and whichever worker answers him."""

from __future__ import annotations

import http.client
import json
import typing as t
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from tests.field.chats import deployed
from tests.field.conftest import SCRIPTS
from tests.field.rig import Server, opened
from tests.support.redis import Redis, redis
from tests.support.servers import studio

ROUNDS = 50
PUBLIC = {"public": True}


class Caller:
    """Somebody who asks again and again, on one connection or on one for each request."""

    def __init__(self, server: Server) -> None:
        self._port = server.studio.port
        self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=20)

    def post(
        self, path: str, body: t.Any, headers: Mapping[str, str], *, again: bool = True
    ) -> tuple[int, Mapping[str, str], bytes]:
        if not again:
            self._connection.close()
            self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=20)
        sent = {"Content-Type": "application/json", **headers}
        self._connection.request("POST", path, json.dumps(body), sent)
        answer = self._connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()

    def close(self) -> None:
        self._connection.close()


def rotated(n: int) -> dict[str, str]:
    """Headers that say each time that the request comes from elsewhere."""
    address = f"198.51.100.{n}"
    return {"X-Forwarded-For": address, "X-Real-IP": address, "Forwarded": f"for={address}"}


@pytest.fixture(scope="module", params=["database", "redis"])
def counted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Server, Redis | None]]:
    """Two workers; they count in the database, or in Redis behind a proxy that is trusted."""
    folder = tmp_path_factory.mktemp("limits")
    scripts = folder / "scripts"
    scripts.mkdir()
    plain = {"turns": [{"steps": steps} for steps in SCRIPTS["plain"]]}
    (scripts / "plain.yaml").write_text(yaml.safe_dump(plain))
    environ = {
        "STUDIO_WORKERS": "2",
        "STUDIO_SCRIPTS_DIR": str(scripts),
        "STUDIO_RATE_LIMIT_ADDRESS": "5/minute",
        "STUDIO_RATE_LIMIT_VISITOR": "1000/minute",
    }
    if request.param == "database":
        with studio(folder / "data", environ) as made, opened(made) as server:
            yield server, None
        return
    with redis(folder) as counting:
        # On a busy machine it may need the second after which would be counted in the database, from zero.
        patient = f"{counting.url}?socket_timeout=30&socket_connect_timeout=30"
        environ |= {"STUDIO_REDIS_URL": patient, "STUDIO_TRUSTED_PROXIES": "1"}
        with studio(folder / "data", environ) as made, opened(made) as server:
            yield server, counting


@pytest.fixture
def workers(counted: tuple[Server, Redis | None]) -> Server:
    """See :func:`counted`."""
    return counted[0]


@pytest.fixture(autouse=True)
def _nothing_counted(request: pytest.FixtureRequest) -> None:
    """Each test begins with no counts."""
    if "workers" in request.fixturenames:
        server, counting = request.getfixturevalue("counted")
        server.store._writer.submit(lambda link: link.raw.execute("DELETE FROM counters")).wait()
        if counting is not None:
            counting.forget()


def trusted(server: Server) -> bool:
    return "STUDIO_TRUSTED_PROXIES" in server.studio.environ


@pytest.mark.parametrize("surface", ["execute", "runs", "chat"])
def test_access_05_rotated_addresses(workers: Server, surface: str) -> None:
    """Fifty requests, the first half from one socket: five runs. Behind a trusted proxy it is the proxy's word that
    counts, and the deployment's own limit holds for all of them together.
    """
    workflow = workers.agent("scripted/plain", settings=PUBLIC)
    paths: dict[str, tuple[str, t.Any]] = {
        "execute": (f"/api/workflows/{workflow}/execute", {"stream": True}),
        "runs": (f"/api/workflows/{workflow}/runs", {"message": "hi"}),
        "chat": ("", {"input": "hi"}),
    }
    path, body = paths[surface]
    if surface == "chat":
        path = f"/api/chat/{deployed(workers, workflow, rateLimit={'perMinute': 5})}"
    caller = Caller(workers)
    answers = []
    for n in range(ROUNDS):
        # What is left of the proxy's entry is the client's own invention.
        forged = {"X-Forwarded-For": f"198.51.100.{n}, 192.0.2.7"} if trusted(workers) else {}
        answers.append(caller.post(path, body, {**rotated(n), **forged}, again=n < ROUNDS // 2))
    caller.close()
    found = Counter(status for status, _, _ in answers)
    assert found == {200: 5, 429: ROUNDS - 5}
    for status, headers, text in answers:
        if status == 429:
            assert headers["Content-Type"] == "application/json"
            assert json.loads(text)["error"]["code"] == "rate_limited"
            assert 0 < int(headers["Retry-After"]) <= 60
            assert "X-Run-Id" not in headers
    _, listed = workers.call("GET", f"/api/runs?workflowId={workflow}&limit=100")
    assert len(listed["items"]) == 5, "what was refused has left nothing behind"


def test_access_05_behind_a_trusted_proxy_everybody_has_a_limit_of_his_own(workers: Server) -> None:
    """And with none, nobody has: each is the one address there is."""
    workflow = workers.agent("scripted/plain", settings=PUBLIC)
    slug = deployed(workers, workflow, rateLimit={"perMinute": 8})
    caller = Caller(workers)
    public = [
        caller.post(f"/api/workflows/{workflow}/execute", {}, {"X-Forwarded-For": f"203.0.113.{n}"})[0]
        for n in range(20)
    ]
    chat = [
        caller.post(f"/api/chat/{slug}", {"input": "hi"}, {"X-Forwarded-For": f"203.0.113.{n}"})[0]
        for n in range(20)
    ]
    caller.close()
    if trusted(workers):
        assert Counter(public) == {200: 20}
        assert Counter(chat) == {200: 8, 429: 12}, "the chat as a whole has its own limit"
    else:
        assert Counter(public)[429] >= 15
        assert Counter(chat) == {200: 5, 429: 15}


def test_memory_with_several_workers_is_refused_at_the_start(tmp_path: Path) -> None:
    environ = {"STUDIO_WORKERS": "2", "STUDIO_RATE_LIMIT_STORAGE": "memory"}
    with studio(tmp_path / "data", environ, start=False) as made:
        refused = made.run_cli("serve")
    assert refused.returncode != 0
    assert "STUDIO_RATE_LIMIT_STORAGE='memory'" in refused.stderr
    assert "give auto, database or redis" in refused.stderr
