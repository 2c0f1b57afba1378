"""Outbound HTTP of tools, against servers on loopback that send exactly what a test says."""

import ipaddress
import socket

import gevent
import pytest

from app.engine.scope import Cancelled, RunScope
from app.net.client import fetch
from plugins.spec.tools import ToolFailed
from tests.net.server import Script, Waits, says, silent
from tests.support.servers import wait_until

LOOPBACK = [ipaddress.ip_network("127.0.0.0/8")]


def get(url, method="GET", **kwargs):
    kwargs.setdefault("allow", LOOPBACK)
    kwargs.setdefault("waits", Waits())
    kwargs.setdefault("timeout_s", 20)
    return fetch(method, url, **kwargs)


def test_an_answer_is_status_headers_and_text():
    with Script(says("hé", "418 I'm a teapot", Content_Type="text/plain", X_Two="a")) as server:
        answer = get(server.url("/a b".replace(" ", "%20")), query={"q": "ü&", "n": [1, True], "no": None})
    assert (answer.status, answer.text) == (418, "hé")
    assert answer.headers["x-two"] == "a"
    request = server.requests[0]
    assert request.startswith(b"GET /a%20b?q=%C3%BC%26&n=1&n=true HTTP/1.1\r\n")
    assert f"Host: 127.0.0.1:{server.port}".encode() in request
    assert b"Accept-Encoding: identity" in request


@pytest.mark.parametrize(
    ("body", "sent", "kind"),
    [
        ({"a": [1, "ü"]}, '{"a":[1,"ü"]}'.encode(), b"application/json"),
        ("text", b"text", b"text/plain; charset=utf-8"),
        (b"\x00\x01", b"\x00\x01", b"text/plain; charset=utf-8"),
        (0, b"0", b"application/json"),
    ],
)
def test_a_body_is_sent_as_it_is_or_as_json(body, sent, kind):
    with Script(says("ok")) as server:
        get(server.url(), "POST", body=body)
    head, _, data = server.requests[0].partition(b"\r\n\r\n")
    assert data == sent
    assert b"Content-Type: " + kind in head


def test_headers_of_the_connection_are_not_the_tools_to_set():
    with Script(says("ok")) as server:
        get(server.url(), headers={"Host": "evil", "content-length": "5", "X-A": "1", "User-Agent": "mine"})
    head = server.requests[0]
    assert b"evil" not in head
    assert b"X-A: 1" in head
    assert head.count(b"User-Agent") == 1


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("ftp://example.com/", "http://"),
        ("file:///etc/passwd", "http://"),
        ("http:///x", "host"),
        ("http://user:secret@example.com/", "Authorization"),
        ("http://exa mple.com/", "encode"),
        ("http://example.com/\r\nX: 1", "encode"),
        ("http://[::1", "malformed"),
        ("http://example.com:99999/", "malformed"),
        ("http://[fe80::1%25eth0]/", "host"),
        ("http://a..b/", "malformed"),
        ("", "http://"),
    ],
)
def test_a_wrong_address_is_refused_with_a_cure(url, hint):
    with pytest.raises(ToolFailed, match=hint) as caught:
        get(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0",
    ],
)
def test_every_spelling_of_this_machine_is_refused(host):
    with Script(says("secret")) as server, pytest.raises(ToolFailed):
        get(server.url(host=host), allow=[])
    assert not server.requests


@pytest.mark.parametrize("header", [{"X-A": "a\r\nX-B: b"}, {"X A": "1"}, {"": "1"}, {"X-A": "\u20ac"}])
def test_headers_cannot_smuggle(header):
    with Script(says("ok")) as server, pytest.raises(ToolFailed, match="header"):
        get(server.url(), headers=header)
    assert not server.requests


def test_the_address_that_was_judged_is_the_one_connected_to(monkeypatch):
    """A name that answers differently the second time gains nothing: it is asked once, and Host keeps it."""
    answers = ["127.0.0.1", "127.0.0.2"]
    asked = []
    lookup = socket.getaddrinfo

    def rebinding(host, port, *args, **kwargs):
        if host != "rebind.test":
            return lookup(host, port, *args, **kwargs)
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (answers[len(asked) - 1], port))]

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    with Script(says("ok")) as server:
        answer = get(server.url(host="rebind.test"), allow=[ipaddress.ip_network("127.0.0.1/32")])
    assert answer.text == "ok"
    assert len(asked) == 1
    assert f"Host: rebind.test:{server.port}".encode() in server.requests[0]


def test_a_name_with_a_private_address_is_refused(monkeypatch):
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.5", 80))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: found)
    with pytest.raises(ToolFailed, match="STUDIO_HTTP_ALLOW"):
        get("http://inside.test/", allow=[])


def test_a_redirect_is_judged_anew():
    with Script(says("secret")) as inner:
        go = says(
            "", "302 Found", Location=inner.url("/x", host="localhost").replace("localhost", "127.0.0.2")
        )
        with Script(go) as server, pytest.raises(ToolFailed, match="STUDIO_HTTP_ALLOW"):
            get(server.url(), allow=[ipaddress.ip_network("127.0.0.1/32")])
    assert not inner.requests


def test_a_redirect_to_another_origin_takes_no_credentials_along():
    with Script(says("done")) as target:
        with Script(says("", "307 Temporary Redirect", Location=target.url("/y"))) as server:
            headers = {"Authorization": "Bearer s", "X-Api-Key": "s", "Cookie": "s", "Accept": "text/x"}
            answer = get(server.url(), "POST", headers=headers, body={"a": 1})
    assert answer.text == "done"
    head, _, body = target.requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /y ")
    assert body == b'{"a":1}'
    assert not any(word in head for word in (b"Bearer", b"X-Api-Key", b"Cookie"))
    assert b"Accept: text/x" in head


def test_headers_that_are_private_stay_with_their_origin():
    headers = {"User-Agent": "secret-agent", "Accept": "text/x", "X-Key": "s"}
    with Script(says("done")) as target:

        def answer(request, sock):
            place = "/twice" if request.startswith(b"GET /once") else target.url("/y")
            says("", "302 Found", Location=place)(request, sock)

        with Script(answer) as server:
            get(server.url("/once"), headers=headers, private={"user-agent"})
    assert b"secret-agent" in server.requests[1]
    assert b"X-Key: s" in server.requests[1]
    assert b"secret-agent" not in target.requests[0]
    assert b"User-Agent: studio" in target.requests[0]
    assert b"Accept: text/x" in target.requests[0]


def test_what_a_failure_repeats_of_the_server_is_masked():
    def mask(text):
        return text.replace("sesame", "***")

    for answer in (
        says("", "302 Found", Location="http://sesame.invalid/"),
        says("x", Content_Encoding="sesame-" + "x" * 40),
    ):
        with Script(answer) as server, pytest.raises(ToolFailed, match=r"\*\*\*") as caught:
            get(server.url(), mask=mask)
        assert "sesame" not in str(caught.value)


def test_redirects_change_methods_as_browsers_do_and_end():
    def answer(request, sock):
        if request.startswith(b"GET /done"):
            says("got it")(request, sock)
        else:
            says("", "303 See Other", Location="/done")(request, sock)

    with Script(answer) as server:
        assert get(server.url("/first"), "POST", body="x").text == "got it"
    assert server.requests[1].startswith(b"GET /done")
    assert b"Content-Type" not in server.requests[1]

    with (
        Script(says("", "302 Found", Location="/again")) as server,
        pytest.raises(ToolFailed, match="redirects"),
    ):
        get(server.url())
    assert len(server.requests) == 6


def test_a_long_answer_is_refused_declared_or_not():
    def endless(request, sock):
        sock.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            sock.sendall(b"x" * 65536)

    for answer in (says("x" * 2000), endless):
        with Script(answer) as server:
            with pytest.raises(ToolFailed, match="longer than 1000 bytes"):
                get(server.url(), max_bytes=1000)
            assert server.closed.wait(30)


def test_a_compressed_answer_is_refused():
    with Script(says("x", Content_Encoding="gzip")) as server, pytest.raises(ToolFailed, match="compressed"):
        get(server.url())


@pytest.mark.parametrize(
    "drip",
    [
        b"HTTP/1.1 200 OK\r\nX-A: ",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_a_server_that_drips_is_left_at_the_deadline(drip):
    """Each byte comes in time, the whole does not: the limit is on the whole."""

    def answer(request, sock):
        sock.sendall(drip)
        while True:
            gevent.sleep(0.02)
            sock.sendall(b"1\r\nx\r\n" if b"chunked" in drip else b"x")

    with Script(answer) as server:
        with pytest.raises(ToolFailed, match=r"within 0\.3 s"):
            get(server.url(), timeout_s=0.3)
        assert server.closed.wait(30)


@pytest.mark.parametrize(
    "data",
    [b"", b"HTTP/1.1", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
     b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"],
)  # fmt: skip
def test_a_broken_answer_is_a_failure_of_the_tool(data):
    with (
        Script(lambda request, sock: sock.sendall(data)) as server,
        pytest.raises(ToolFailed, match=r"127\.0\.0\.1"),
    ):
        get(server.url())


def test_a_dead_port_is_named():
    with Script(says("")) as server:
        url = server.url()
    with pytest.raises(ToolFailed, match="refuses connections"):
        get(url)


def test_cancelling_closes_the_connection():
    with Script(silent) as server:
        scope = RunScope()
        caught = []

        def run():
            try:
                get(server.url(), waits=scope)
            except Cancelled as cancelled:
                caught.append(cancelled.cause)

        greenlet = gevent.spawn(run)
        wait_until(lambda: server.requests, "the server is asked")
        scope.cancel("stop_requested")
        greenlet.join(30)
        assert server.closed.wait(30)
    assert caught == ["stop_requested"]


def test_an_unknown_charset_is_read_as_utf_8():
    with Script(says("é", Content_Type="text/plain; charset=klingon")) as server:
        assert get(server.url()).text == "é"
