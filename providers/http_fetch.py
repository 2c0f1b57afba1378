"""One small request and its whole answer: a token, a list of models.

Law of this room: bounded in bytes and in time, interruptible like a model call, and never on the token path. The
answer is handed over whatever its status; what it means is for whoever asked.
"""

from __future__ import annotations

from collections.abc import Mapping

from providers import errors
from providers.http_exchange import exchange, framing, open_connection, read_until, serialise
from providers.spec import HttpRequest, ProviderError, Waits

#: Longest answer, in bytes: model lists of gateways have thousands of entries.
MAX_BODY = 8 * 1024 * 1024
#: Seconds from the request to the end of its answer.
ANSWER_S = 30.0


def fetch_json(
    method: str, url: str, headers: Mapping[str, str], body: bytes, connect_s: float, waits: Waits
) -> tuple[int, dict[str, str], bytes]:
    """Ask once and read all of the answer, on a connection of its own.

    :param method: ``GET`` or ``POST``.
    :param url: http or https address, query included.
    :param headers: added to Host, User-Agent and Accept (JSON); a value here wins.
    :param body: as it goes out; ``b""`` for none.
    :param connect_s: seconds that connecting may take; the answer may take :data:`ANSWER_S` more.
    :returns: status, headers (names in lower case), body. A redirect is not followed.
    :raises ProviderError: ``provider_unavailable`` when nobody answers or not in time, ``provider_bad_stream`` when
        the answer is no HTTP, breaks off or is longer than :data:`MAX_BODY`.
    """
    sent = {"Accept": "application/json", "Connection": "close", **headers}
    address, payload = serialise(HttpRequest(method, url, sent, body))
    upstream = open_connection(address, connect_s, waits)
    try:
        with waits.idle_limit(ANSWER_S):
            head, first = exchange(upstream, payload, waits)
            framed = framing(head)
            data = framed.feed(first) if first else b""
            data = read_until(upstream, framed, data, waits, enough=lambda got: len(got) > MAX_BODY)
    except ProviderError as error:
        if error.code != "provider_idle":
            raise
        raise errors.failure("provider_unavailable", detail=f"no answer within {ANSWER_S:g} s") from error
    finally:
        upstream.close()
    if len(data) > MAX_BODY:
        raise errors.failure("provider_bad_stream", detail=f"an answer of more than {MAX_BODY} bytes")
    if not (framed.complete or framed.ends_cleanly()):
        raise errors.failure("provider_bad_stream", detail="the answer broke off")
    return head.status, head.headers, data
