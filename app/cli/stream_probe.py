"""The client of ``studio check-stream``: one request, read as it comes, every frame with the time of its arrival.

Law of this room: it judges nothing that needs the whole stream (:mod:`app.cli.arrivals` does), and reads as a browser
would: it says that it takes compressed answers, and undoes what it can of them.
"""

from __future__ import annotations

import http.client
import ssl
import time
import typing as t
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, urlencode, urlsplit

from app import encoding
from app.cli.arrivals import Arrival, Observation
from app.errors import ApiError, Problem, StudioError

PATH = "/api/stream-check"
#: What browsers send. A compressor that only some of them switch on must not be missed.
ENCODINGS = "gzip, deflate, br, zstd"
_CONNECT_S = 10.0
#: Seconds on top of what the server needs, before a stream of which nothing comes is given up.
_PATIENCE_S = 30.0
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class Probe:
    """What came of one request.

    :ivar headers: of the answer, names in lower case.
    :ivar version: of HTTP, between here and whoever answered: 10 or 11.
    :ivar hello: the server's first frame; empty when the body could not be read.
    """

    status: int
    headers: Mapping[str, str]
    version: int
    hello: Mapping[str, t.Any]
    seen: Observation


def address(url: str) -> SplitResult:
    """The parts of an address as people type it; without a scheme it is http.

    :raises ApiError: it is none.
    """
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, usable = urlsplit(""), False
    if not usable:
        problem = Problem("URL", f"'{url}' is no http or https address, such as https://studio.example.org")
        raise ApiError(400, "validation_failed", problem.message, [problem])
    return parts._replace(path=parts.path.removesuffix(PATH).rstrip("/"), query="", fragment="")


def probe(
    parts: SplitResult, query: Mapping[str, int], headers: Mapping[str, str], encodings: str = ENCODINGS
) -> Probe:
    """Ask for a check and read it to its end.

    :raises StudioError: there was no answer, or it was none of a Studio; the message says what to do.
    """
    sent = {
        "Accept": "text/event-stream",
        "Accept-Encoding": encodings,
        "Cache-Control": "no-cache",
        **headers,
    }
    connection = _connect(parts)
    connection.sock.settimeout(query.get("silence_s", 0) + _PATIENCE_S)
    try:
        begun = time.monotonic()
        connection.request("GET", f"{parts.path}{PATH}?{urlencode(query)}", headers=sent)
        response = connection.getresponse()
        _check_answer(parts, response)
        return _Reader().read(response, begun)
    except ValueError:
        message = f"{_where(parts)}{PATH} answered with a stream that is none of ours. Is it the address of a Studio?"
        raise StudioError("no_studio", message) from None
    except (OSError, http.client.HTTPException) as error:
        raise _unreachable(parts, error) from None
    finally:
        connection.close()


def _connect(parts: SplitResult) -> http.client.HTTPConnection:
    host = t.cast(str, parts.hostname)
    secure = parts.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = kind(host, parts.port, timeout=_CONNECT_S)
    try:
        connection.connect()
    except OSError as error:
        raise _unreachable(parts, error) from None
    return connection


def _where(parts: SplitResult) -> str:
    """The address as it may be shown: without a password in it."""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _unreachable(parts: SplitResult, error: Exception) -> StudioError:
    where = _where(parts)
    if isinstance(error, ssl.SSLCertVerificationError):
        return StudioError(
            "tls",
            f"The certificate of {where} is not trusted: {error.verify_message}. Install one that covers this name, "
            f"with its chain; for one of your own authority set SSL_CERT_FILE to the authority's certificate.",
        )
    if isinstance(error, ssl.SSLError):
        message = (
            f"No TLS with {where}: {error.reason or error}. Does that port speak plain http? Try http://"
        )
        return StudioError("tls", message)
    said = str(error) or type(error).__name__
    return StudioError(
        "unreachable", f"No answer from {where}: {said}. Is the server running, and the port right?"
    )


def _check_answer(parts: SplitResult, response: http.client.HTTPResponse) -> None:
    """:raises StudioError: it is not the answer of a Studio that checks streams."""
    where = _where(parts)
    status = response.status
    if status in _REDIRECTS:
        there = response.headers.get("Location", "")
        message = f"{where} redirects to {there}. Clients that stream do not follow: check, and give out, that address."
        raise StudioError("redirected", message)
    if status == 200:
        if response.headers.get_content_type() == "text/event-stream":
            return
        kind = response.headers.get("Content-Type", "no Content-Type")
        message = f"{where}{PATH} answered with {kind} and no stream. Is it the address of a Studio?"
        raise StudioError("no_studio", message)
    raise _refusal(where, response)


def _refusal(where: str, response: http.client.HTTPResponse) -> StudioError:
    try:
        error = encoding.loads(response.read())["error"]
        message = f"{where} refused: {error['message']}"
        if response.status == 404:
            message = f"{where} is a Studio that cannot check streams, or only looks like one. Update it."
        return StudioError(str(error["code"]), message)
    except (ValueError, KeyError, TypeError, http.client.HTTPException):
        pass
    by = response.headers.get("Server", "something on the way")
    if response.status in (502, 503, 504):
        message = (
            f"{where}: {by} answered {response.status} itself. Studio is not running, or not where it looks."
        )
        return StudioError("gateway", message)
    message = (
        f"{where} answered {response.status} ({by}) and no error of ours. Is it the address of a Studio?"
    )
    if response.status == 400 and "HTTPS" in response.reason:
        message += " That port may speak https."
    return StudioError("no_studio", message)


class _Reader:
    """Bytes in, frames with their times out."""

    def __init__(self) -> None:
        self.frames: list[Arrival] = []
        self.keepalives: list[float] = []
        self.hello: dict[str, t.Any] = {}
        self._rest = b""

    def read(self, response: http.client.HTTPResponse, begun: float) -> Probe:
        """Read to the end of the body, or to the cut.

        :raises ValueError: it is none of our streams.
        """
        unpack = _unpacker(response.headers.get("Content-Encoding", ""))
        try:
            while piece := response.read1(65536):
                self._feed(unpack(piece), time.monotonic() - begun)
        except (OSError, http.client.HTTPException, zlib.error):
            pass  # cut: the last frame did not come
        hello = self.hello
        seen = Observation(
            tuple(self.frames),
            tuple(self.keepalives),
            ended=time.monotonic() - begun,
            complete=bool(self.frames) and self.frames[-1].kind == "done",
            keepalive_s=hello.get("keepaliveMs", 15000) / 1000,
            silence_s=hello.get("silenceMs", 0) / 1000,
            spacing_s=hello.get("spacingMs", 200) / 1000,
        )
        named = {name.lower(): value for name, value in response.headers.items()}
        return Probe(response.status, named, response.version, hello, seen)

    def _feed(self, data: bytes, now: float) -> None:
        *whole, self._rest = (self._rest + data).split(b"\n\n")
        for frame in whole:
            if frame.startswith(b":"):
                self.keepalives.append(now)
                continue
            value = encoding.loads(frame.removeprefix(b"data: "))
            if not isinstance(value, dict) or not (self.frames or value.get("event") == "check"):
                raise ValueError
            if not self.frames:
                self.hello = value
            self.frames.append(Arrival(str(value["event"]), len(frame) + 2, value.get("atMs", 0) / 1000, now))


def _unpacker(name: str) -> t.Callable[[bytes], bytes]:
    """Undoes the compression ``name``, piece by piece; what cannot be undone gives no frames."""
    name = name.strip().lower()
    if name in ("", "identity"):
        return lambda data: data
    if name in ("gzip", "x-gzip", "deflate"):
        return zlib.decompressobj(zlib.MAX_WBITS | 32).decompress
    return lambda data: b""
