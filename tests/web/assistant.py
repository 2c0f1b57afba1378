"""The assistant that ships, for tests of the surface it answers on."""

from __future__ import annotations

#: Its blocks, in order.
NODES = (
    "intake",
    "guardrail_pre",
    "retrieve_context",
    "generate_response",
    "review_response",
    "guardrail_post",
    "closing",
)
