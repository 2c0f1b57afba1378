"""``studio check-stream`` through everything that stands between: nothing, nginx as printed and as people set it, and
proxies that hold back in other ways. All are asked side by side: a check is mostly waiting.
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import gevent.pool
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support import commands, holding_proxy
from tests.support.holding_proxy import holding
from tests.support.proxy import nginx
from tests.support.servers import Studio, free_port, studio

SPACING = 150
#: What each way does, apart from the printed configuration: the replacements in it.
NGINX: dict[str, dict[str, str]] = {
    "as printed": {"proxy_read_timeout 60s;": "proxy_read_timeout 3s;"},
    # Over HTTP/1.1 its buffers pass on every chunk; over 1.0, which it speaks unless told otherwise, they fill up.
    "buffering": {
        "proxy_buffering off;": "proxy_buffering on; proxy_ignore_headers X-Accel-Buffering;",
        "proxy_http_version 1.1;": "",
    },
    "gzip": {"gzip_types application/json": "gzip_types text/event-stream application/json"},
    "short timeout": {"proxy_read_timeout 60s;": "proxy_read_timeout 1s;"},
    "http 1.0": {"proxy_http_version 1.1;": "proxy_http_version 1.0;"},
}
SILENCE = {"as printed": 5, "short timeout": 4, "without comments": 5}

Said = tuple[int, dict[str, t.Any]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    with studio(tmp_path_factory.mktemp("studio"), {"STUDIO_KEEPALIVE_S": "2"}) as made:
        yield made


def _ways(server: Studio, folder: Path, stack: ExitStack) -> dict[str, int]:
    """The port of each way."""
    ways = {"direct": server.port}
    for name, replaced in NGINX.items():
        ways[name] = stack.enter_context(nginx(folder / name.replace(" ", "-"), server.port, replaced))
    outer = {"proxy_buffering off;": "", "proxy_cache off;": "", "proxy_http_version 1.1;": ""}
    ways["two of them"] = stack.enter_context(nginx(folder / "outer", ways["as printed"], outer))
    others = {
        "by size": holding_proxy.by_size(500),
        "by time": holding_proxy.by_time(0.9),
        "whole": holding_proxy.whole,
        "without comments": holding_proxy.without_comments,
        "cut": holding_proxy.cut_after(1.5),
    }
    for name, body in others.items():
        ways[name] = stack.enter_context(holding(server.port, body))
    changed = {"Content-Encoding": "br", "Cache-Control": "public", "Age": "7"}
    ways["changed"] = stack.enter_context(holding(server.port, holding_proxy.whole, changed))
    return ways


def check(url: str, *options: str) -> Said:
    done = commands.run(
        ["check-stream", url, "--json", "--spacing", str(SPACING), *options], {"PATH": "/bin"}
    )
    assert not done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.fixture(scope="module")
def said(server: Studio, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Said]]:
    with ExitStack() as stack:
        ways = _ways(server, tmp_path_factory.mktemp("ways"), stack)
        # As many as the server answers at once.
        pool = gevent.pool.Pool(7)
        running = {
            name: pool.spawn(check, f"http://127.0.0.1:{port}/", "--silence", str(SILENCE.get(name, 0)))
            for name, port in sorted(ways.items(), key=lambda way: -SILENCE.get(way[0], 0))
        }
        yield {name: one.get() for name, one in running.items()}


def codes(one: Said) -> list[str]:
    """What was found, but for the word about a busy machine."""
    return [found["code"] for found in one[1]["findings"] if found["code"] != "unsteady"]


@pytest.mark.parametrize("way", ["direct", "as printed"])
def test_a_clear_way_passes(said: dict[str, Said], way: str) -> None:
    status, document = said[way]
    assert (status, document["verdict"], codes(said[way])) == (0, "passed", [])
    assert document["frames"]["small"]["count"] == 16
    assert document["frames"]["padded"]["count"] == 9
    assert document["server"]["forwarded"] is (way != "direct")


def test_keepalives_outlive_the_read_timeout(said: dict[str, Said]) -> None:
    assert said["as printed"][1]["silence"] == {"seconds": 5.0, "keepalives": 2}


@pytest.mark.parametrize("way", ["buffering", "two of them"])
def test_a_buffering_nginx_is_found_and_told_what_to_set(said: dict[str, Said], way: str) -> None:
    status, document = said[way]
    assert (status, document["verdict"]) == (1, "fault")
    found = document["findings"][0]
    assert found["code"] == "by_size"
    assert 2048 <= found["bytes"] <= 16384
    assert found["cures"][0].startswith("nginx: proxy_buffering off;")


def test_compression_is_found_and_undone(said: dict[str, Said]) -> None:
    status, document = said["gzip"]
    assert (status, codes(said["gzip"])) == (0, ["compressed"])
    assert document["findings"][-1]["encoding"] == "gzip"
    assert "gzip_types" in document["findings"][-1]["cures"][0]


def test_a_read_timeout_that_is_too_short_is_found(said: dict[str, Said]) -> None:
    status, document = said["short timeout"]
    assert (status, codes(said["short timeout"])) == (1, ["cut_when_silent"])
    (found,) = document["findings"]
    assert 0.5 < found["quietSeconds"] < 2
    assert "proxy_read_timeout 60s" in found["cures"][0]
    assert "STUDIO_KEEPALIVE_S" in found["cures"][-1]


def test_http_1_0_behind_the_proxy_is_noted(said: dict[str, Said]) -> None:
    assert codes(said["http 1.0"]) == ["http10_behind"]
    assert said["http 1.0"][0] == 0


def test_what_waits_for_bytes(said: dict[str, Said]) -> None:
    assert codes(said["by size"]) == ["by_size"]
    assert 250 <= said["by size"][1]["findings"][0]["bytes"] <= 1000


def test_what_waits_for_time(said: dict[str, Said]) -> None:
    assert codes(said["by time"]) == ["by_time"]
    assert 0.6 <= said["by time"][1]["findings"][0]["seconds"] <= 1.4


def test_what_waits_for_the_end(said: dict[str, Said]) -> None:
    assert said["whole"][0] == 1
    assert codes(said["whole"]) == ["at_once"]


def test_keepalives_that_are_taken_out(said: dict[str, Said]) -> None:
    assert codes(said["without comments"]) == ["no_keepalives"]


def test_a_limit_on_the_whole_answer(said: dict[str, Said]) -> None:
    assert codes(said["cut"]) == ["cut"]
    assert 1 < said["cut"][1]["findings"][0]["afterSeconds"] < 4


def test_what_cannot_be_read_is_measured_again_without_compression(said: dict[str, Said]) -> None:
    """The made-up encoding stays on the second answer, whose body is read as it is."""
    status, _ = said["changed"]
    assert status == 1
    found = codes(said["changed"])
    assert set(found) >= {"compressed_unread", "cached", "headers"}


# -- what is no stream of ours -----------------------------------------------------------------------


class Stranger(BaseHTTPRequestHandler):
    """Answers by path as things do that are no Studio."""

    def do_GET(self) -> None:
        status, headers, body = {
            "/moved": (301, {"Location": "https://studio.example.org/"}, b""),
            "/page": (200, {"Content-Type": "text/html"}, b"<h1>Welcome</h1>"),
            "/other": (200, {"Content-Type": "text/event-stream"}, b'data: {"hello": 1}\n\n'),
            "/down": (502, {}, b"<h1>Bad gateway</h1>"),
            "/old": (404, {}, b'{"error": {"code": "not_found", "message": "There is nothing here."}}'),
            "/full": (
                503,
                {},
                b'{"error": {"code": "at_capacity", "message": "8 checks run here already."}}',
            ),
        }[self.path.partition("/api/")[0]]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Nobody reads it."""


@pytest.fixture(scope="module")
def stranger() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Stranger) as made:
        serving = gevent.spawn(made.serve_forever, 0.02)
        yield f"http://127.0.0.1:{made.server_port}"
        made.shutdown()
        serving.join(5)


@pytest.mark.parametrize(
    ("path", "code", "says"),
    [
        ("/moved", "redirected", "https://studio.example.org/"),
        ("/page", "no_studio", "text/html"),
        ("/other", "no_studio", "none of ours"),
        ("/down", "gateway", " answered 502 itself"),
        ("/old", "not_found", "Update it"),
        ("/full", "at_capacity", "8 checks run here already"),
    ],
)
def test_what_cannot_be_checked_says_why(stranger: str, path: str, code: str, says: str) -> None:
    status, document = check(stranger + path)
    assert (status, document["verdict"], document["error"]["code"]) == (2, "unchecked", code)
    assert says in document["error"]["message"]


def test_nobody_there_and_no_tls_there(stranger: str) -> None:
    status, document = check(f"http://user:secret@127.0.0.1:{free_port()}")
    assert (status, document["error"]["code"]) == (2, "unreachable")
    assert "secret" not in document["error"]["message"]
    status, document = check(stranger.replace("http:", "https:"))
    assert (status, document["error"]["code"]) == (2, "tls")
    assert "http://" in document["error"]["message"]


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    """A key and a certificate for localhost that nobody vouches for."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), False)
        .sign(key, hashes.SHA256())
    )
    text = serialization.Encoding.PEM
    written = key.private_bytes(text, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (tmp_path / "own.pem").write_bytes(written + made.public_bytes(text))
    return tmp_path / "own.pem"


def test_a_certificate_that_is_not_trusted_is_told_apart(server: Studio, pem: Path) -> None:
    with holding(server.port, holding_proxy.through, pem=pem) as port:
        url = f"https://localhost:{port}"
        status, document = check(url, "--spacing", "20")
        assert (status, document["error"]["code"]) == (2, "tls")
        assert "is not trusted" in document["error"]["message"]
        trusting = {"PATH": "/bin", "SSL_CERT_FILE": str(pem)}
        done = commands.run(["check-stream", url, "--json", "--spacing", "20"], trusting)
        assert json.loads(done.stdout)["frames"]["padded"]["count"] == 9
        # The certificate is for another name than this.
        done = commands.run(["check-stream", f"https://127.0.0.1:{port}"], trusting)
        assert (done.returncode, "127.0.0.1" in done.stderr) == (2, True)


@pytest.mark.parametrize("url", ["ftp://there", "http://", "http://there:port"])
def test_what_is_no_address_is_bad_input(url: str) -> None:
    done = commands.run(["check-stream", url], {"PATH": "/bin"})
    assert (done.returncode, done.stdout) == (2, "")
    assert "no http or https address" in done.stderr


def test_people_read_what_was_seen_and_what_to_set(server: Studio) -> None:
    with holding(server.port, holding_proxy.whole, {"Server": "nginx/1.22.1"}) as port:
        done = commands.run(["check-stream", f"127.0.0.1:{port}", "--spacing", "20"], {"PATH": "/bin"})
    assert done.returncode == 1
    assert "answered by nginx/1.22.1" in done.stdout
    assert "FAULT: The whole answer came at once" in done.stdout
    assert "\n  - nginx: proxy_buffering off;" in done.stdout
    assert done.stdout.endswith("Streams do not arrive as they are sent.\n")
