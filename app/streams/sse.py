"""SSE framing, pure bytes.

Law of this room: framing knows no event. One frame is at most an ``id:`` and an ``event:`` line and one
``data:`` line of JSON, ended by LF LF. User and model text only ever stands inside the JSON, so no value
can open a line of its own (WHATWG HTML, "9.2.6 Interpreting an event stream").
"""

from __future__ import annotations

#: A comment: keeps proxies and clients from taking silence for death.
KEEPALIVE = b": keepalive\n\n"

#: How soon a client that is told to attach again should do so, in milliseconds; and the line for an ``EventSource``.
RETRY_MS = 1000
RETRY = b"retry: %d\n" % RETRY_MS

#: Headers of every stream (contract 1.1), besides ``X-Run-Id`` and a surface's own.
HEADERS: dict[str, str] = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
}


def frame(data: bytes, id: bytes | None = None, event: str | None = None) -> bytes:
    """One frame.

    :param data: JSON in one line, as :func:`app.encoding.dumps` makes it.
    :param id: ``<runId>:<seq>``, made by us; None for no ``id:`` line.
    :param event: a name from a fixed table of ours; None for no ``event:`` line.
    """
    head = b"" if id is None else b"id: %b\n" % id
    if event is not None:
        head += b"event: %b\n" % event.encode("ascii")
    return b"%bdata: %b\n\n" % (head, data)
