"""A receiver of spans on loopback, as a collector is one: OTLP over HTTP, in protobuf."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from gevent.event import Event
from gevent.pywsgi import WSGIServer
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Span:
    """A span as it was sent; ids in hexadecimal."""

    name: str
    trace: str
    id: str
    parent: str
    attributes: Mapping[str, t.Any]
    resource: Mapping[str, t.Any]


@dataclass
class Receiver:
    """What was sent.

    :ivar bodies: as they came. :ivar headers: of the last request. :ivar hold: while it is set, nobody is answered.
    """

    port: int = 0
    bodies: list[bytes] = field(default_factory=list)
    headers: Mapping[str, str] = field(default_factory=dict)
    hold: Event = field(default_factory=Event)
    _let_go: Event = field(default_factory=Event)

    @property
    def address(self) -> str:
        """For ``OTEL_EXPORTER_OTLP_ENDPOINT``."""
        return f"http://127.0.0.1:{self.port}"

    def spans(self) -> list[Span]:
        """All spans, in order of arrival."""
        found = []
        for body in self.bodies:
            for group in ExportTraceServiceRequest.FromString(body).resource_spans:
                resource = _plain(group.resource.attributes)
                for scope in group.scope_spans:
                    found += [
                        Span(
                            span.name,
                            span.trace_id.hex(),
                            span.span_id.hex(),
                            span.parent_span_id.hex(),
                            _plain(span.attributes),
                            resource,
                        )
                        for span in scope.spans
                    ]
        return found

    def answer(self, environ: Mapping[str, t.Any], start_response: Callable[..., t.Any]) -> list[bytes]:
        """A WSGI application."""
        body = environ["wsgi.input"].read()
        if self.hold.is_set():
            self._let_go.wait()
        self.headers = {
            name: value for name, value in environ.items() if name.startswith(("HTTP_", "CONTENT_"))
        }
        self.bodies.append(body)
        assert environ["PATH_INFO"] == "/v1/traces"
        start_response("200 OK", [("Content-Type", "application/x-protobuf"), ("Content-Length", "0")])
        return [b""]


def _plain(attributes: t.Any) -> dict[str, t.Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in attributes}


@contextmanager
def receiver() -> Iterator[Receiver]:
    """A receiver on a free port."""
    made = Receiver()
    server = WSGIServer(("127.0.0.1", 0), made.answer, log=None)
    server.start()
    made.port = server.server_port
    try:
        yield made
    finally:
        made._let_go.set()
        server.stop(timeout=5)
