"""ACCESS: guessing what opens a chat, from many addresses and at two workers; and what is behind the other gates."""

from __future__ import annotations

import http.client
import json
import os
import signal
import typing as t
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import yaml
from werkzeug.security import generate_password_hash

from tests.field.chats import deployed
from tests.field.conftest import SCRIPTS
from tests.field.rig import Server, opened
from tests.support.mails import Post, post
from tests.support.servers import studio
from tests.support.visitors import Browser

PASSWORD = "correct horse battery staple"
#: What a hash costs is no subject here; a thousand dear ones would take minutes.
CHEAP = generate_password_hash(PASSWORD, "scrypt:256:8:1")
ALLOWED = ["ada@example.org"]


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Post]:
    with post(tmp_path_factory.mktemp("post")) as made:
        yield made


@pytest.fixture(scope="module")
def workers(letters: Post, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Two workers that send e-mails and know an OpenID provider."""
    folder = tmp_path_factory.mktemp("gates")
    scripts = folder / "scripts"
    scripts.mkdir()
    plain = {"turns": [{"steps": steps} for steps in SCRIPTS["plain"]]}
    (scripts / "plain.yaml").write_text(yaml.safe_dump(plain))
    environ = {
        "STUDIO_WORKERS": "2",
        "STUDIO_SCRIPTS_DIR": str(scripts),
        "STUDIO_SMTP_HOST": "127.0.0.1",
        "STUDIO_SMTP_PORT": str(letters.port),
        "STUDIO_SMTP_TLS": "none",
        "STUDIO_OIDC_ISSUER": "http://127.0.0.1:9",
        "STUDIO_OIDC_CLIENT_ID": "studio",
        "STUDIO_LOG_LEVEL": "debug",
        "STUDIO_ACCESS_LOG": "-",
    }
    with studio(folder / "data", environ) as made, opened(made) as server:
        assert made.key
        yield server


def protected(server: Server) -> str:
    """A chat behind :data:`PASSWORD`."""
    slug = deployed(server, server.agent("scripted/plain"), authType="password", password=PASSWORD)
    row = server.store.chats.by_slug(slug)
    assert row is not None
    server.store.chats.update(row.id, None, {"password": CHEAP})
    return slug


def send(
    server: Server, method: str, path: str, body: t.Any, address: str = "127.0.0.1"
) -> tuple[int, t.Any, http.client.HTTPMessage]:
    """One exchange on a connection of its own, from one of this machine's many addresses."""
    connection = http.client.HTTPConnection(
        "127.0.0.1", server.studio.port, timeout=20, source_address=(address, 0)
    )
    try:
        connection.request(
            method, f"/api/chat/{path}", json.dumps(body), {"Content-Type": "application/json"}
        )
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read()), answer.headers
    finally:
        connection.close()


def guess(server: Server, slug: str, address: str) -> int:
    return send(server, "POST", slug, {"input": "hi", "password": "wrong"}, address)[0]


def elsewhere(n: int) -> str:
    return f"127.1.{n // 250}.{n % 250 + 1}"


def test_access_07_guesses_from_a_thousand_addresses(workers: Server) -> None:
    """A hundred are looked at. Then nobody new gets in for a while, also not with the password; who is in goes on."""
    slug = protected(workers)
    inside = Browser(workers.studio.port, slug)
    with inside.say({"input": "hi", "password": PASSWORD}) as answer:
        assert (answer.status, "Hello there." in answer.body().decode()) == (200, True)
    found = Counter(guess(workers, slug, elsewhere(n)) for n in range(1000))
    assert found == {401: 100, 429: 900}
    status, body, headers = send(workers, "POST", slug, {"input": "hi", "password": PASSWORD}, "127.2.0.1")
    assert (status, body["error"]["code"]) == (429, "rate_limited")
    assert 0 < int(headers["Retry-After"]) <= 900
    assert "Set-Cookie" not in headers
    with inside.say({"input": "hi"}) as answer:
        assert (answer.status, "Hello there." in answer.body().decode()) == (200, True)
    other = f"{protected(workers)}/session"
    assert send(workers, "POST", other, {"password": PASSWORD}, "127.2.0.1")[0] == 200


@contextmanager
def only(worker: int, among: list[int]) -> Iterator[None]:
    """While open, this worker alone answers."""
    others = [pid for pid in among if pid != worker]
    for pid in others:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in others:
            os.kill(pid, signal.SIGCONT)


def test_access_07_tries_are_counted_by_both_workers_together(workers: Server, letters: Post) -> None:
    """Half of them at each: then neither takes one more."""
    slug = protected(workers)
    mailed = deployed(workers, workers.agent("scripted/plain"), authType="email", allowedEmails=ALLOWED)
    kinds: dict[str, tuple[str, str, t.Callable[[int], t.Any], int, int]] = {
        "passwords": ("POST", slug, lambda n: {"input": "hi", "password": f"wrong {n}"}, 10, 401),
        "codes asked for": ("POST", f"{mailed}/otp", lambda n: {"email": f"n{n}@example.org"}, 10, 202),
        "codes": ("PUT", f"{mailed}/otp", lambda n: {"email": ALLOWED[0], "otp": f"{n:06}"}, 20, 401),
    }
    pids = workers.studio.workers()
    assert len(pids) == 2
    for place, (what, (method, path, body, most, status)) in enumerate(kinds.items()):
        address = f"127.3.0.{place + 1}"
        for half, pid in enumerate(pids):
            with only(pid, pids):
                found = [
                    send(workers, method, path, body(half * most + n), address)[0] for n in range(most // 2)
                ]
                assert found == [status] * (most // 2), what
        for pid in pids:
            with only(pid, pids):
                refused, told, headers = send(workers, method, path, body(999), address)
                assert (refused, told["code"]) == (429, "RATE_LIMITED"), what
                assert int(headers["Retry-After"]) > 0
    assert letters.mails() == []


def test_access_07_the_tries_of_a_code_are_counted_by_both_workers_together(
    workers: Server, letters: Post
) -> None:
    """Three wrong ones at one and two at the other: the right one is worth nothing then, at either."""
    slug = deployed(workers, workers.agent("scripted/plain"), authType="email", allowedEmails=ALLOWED)
    pids = workers.studio.workers()
    assert send(workers, "POST", f"{slug}/otp", {"email": ALLOWED[0]}, "127.4.0.1")[0] == 202
    code = letters.wait(ALLOWED[0]).code
    wrong = f"{(int(code) + 1) % 1_000_000:06}"
    for pid, tries in zip(pids, (3, 2), strict=True):
        with only(pid, pids):
            for _ in range(tries):
                given = {"email": ALLOWED[0], "otp": wrong}
                assert send(workers, "PUT", f"{slug}/otp", given, "127.4.0.1")[0] == 401
    for pid in pids:
        with only(pid, pids):
            given = {"email": ALLOWED[0], "otp": code}
            assert send(workers, "PUT", f"{slug}/otp", given, "127.4.0.1")[0] == 401
    log = workers.studio.log.read_text()
    assert "/otp" in log
    assert code not in log.replace(wrong, "")
    assert ALLOWED[0] not in log


@pytest.mark.parametrize("auth_type", ["email", "sso"])
def test_access_03_a_chat_behind_the_other_gates(workers: Server, auth_type: str) -> None:
    """401 on every route before any run is made, whatever is sent; other methods tell nothing."""
    workflow = workers.agent("scripted/plain")
    slug = deployed(workers, workflow, authType=auth_type, allowedEmails=ALLOWED)
    visitor = Browser(workers.studio.port, slug)
    for method, path, body in (
        ("GET", "", None),
        ("POST", "", {"input": "hi"}),
        ("POST", "", {"input": "hi", "password": PASSWORD, "email": ALLOWED[0]}),
        ("POST", "", {"input": "hi", "files": [{"name": "a.txt", "data": "aGk="}]}),
        ("GET", "/runs/run_x", None),
        ("GET", "/runs/run_x/events", None),
        ("POST", "/runs/run_x/cancel", {}),
        ("POST", "/runs/run_x/resume", {"decision": "approve"}),
        ("GET", "/conversations/c", None),
        ("POST", "/session", {"password": PASSWORD}),
    ):
        status, told = visitor.call(method, path, body)
        assert (status, told["error"]["code"]) == (401, f"auth_required_{auth_type}")
    assert not visitor.cookies
    assert workers.call("GET", f"/api/runs?workflowId={workflow}")[1] == {"items": []}
