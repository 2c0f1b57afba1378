"""The Responses wire: OpenAI, Azure, xAI and others who speak the protocol.

Law of this room: what it asks is in ``openai_responses_request``, with the switches a family may set; what comes is
read by ``openai_responses_events``. Here is the one thing between the two: a vendor may refuse an organisation the
summary of its reasoning. Then it is asked once more without, before anything was shown, and that is remembered.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace

from providers.http import HttpWire, stream_http
from providers.openai_responses_events import ResponsesDecoder
from providers.openai_responses_request import WIRE_NAME, asks_summary, build_request
from providers.spec import Connection, ModelEvent, ModelRequest, Waits
from providers.summary_refusal import Refusals, SummaryRefused, http_error


@dataclass(frozen=True, slots=True)
class ResponsesWire(HttpWire):
    """A wire over HTTP that does without a summary where it is refused.

    :ivar refusals: who was refused of late.
    """

    refusals: Refusals = field(default_factory=Refusals)

    def stream(
        self, request: ModelRequest, connection: Connection, waits: Waits
    ) -> Iterator[list[ModelEvent]]:
        """See ``providers.spec.Wire``."""
        if not asks_summary(request):
            return stream_http(self, request, connection, waits)
        if (connection, request.model) in self.refusals:
            return stream_http(self, _without_summary(request), connection, waits)
        return self._asking(request, connection, waits)

    def _asking(
        self, request: ModelRequest, connection: Connection, waits: Waits
    ) -> Iterator[list[ModelEvent]]:
        with closing(t.cast(t.Any, stream_http(self, request, connection, waits))) as answer:
            try:
                first = next(answer)
            except SummaryRefused:
                self.refusals.add(connection, request.model)
            else:
                yield first
                yield from answer
                return
        yield from stream_http(self, _without_summary(request), connection, waits)


def _without_summary(request: ModelRequest) -> ModelRequest:
    return replace(request, dialect={**request.dialect, "thinking": "effort"})


#: The wire; its switches are listed in ``openai_responses_request``.
WIRE = ResponsesWire(WIRE_NAME, build_request, ResponsesDecoder, http_error)
