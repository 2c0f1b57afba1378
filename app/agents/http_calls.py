"""One HTTP request described in a document: made for an agent's tool, or for an ``http`` block.

Law of this room: every text of it is a template; where it may go is the guard's to say (``app.net``).
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence

from app import encoding, net
from app.agents import templates
from app.workflows.tool_entries import HttpCall
from providers.spec import Waits

MAX_BYTES = net.MAX_BYTES


def make_call(
    call: HttpCall,
    variables: Mapping[str, t.Any],
    *,
    timeout_s: float,
    waits: Waits,
    allow: Sequence[t.Any],
    max_bytes: int = MAX_BYTES,
) -> net.FetchResponse:
    """Make the request with its templates rendered over ``variables``.

    :param allow: networks that may be reached although they are private (``STUDIO_HTTP_ALLOW``).
    :raises RunError: ``template_failed``. :raises ToolFailed: there is no answer; see :func:`app.net.fetch`.
    """
    return net.fetch(
        call.method,
        templates.render(call.url, variables),
        headers=templates.render_value(call.headers, variables),
        query=templates.render_value(call.query, variables),
        body=templates.render_value(call.body, variables),
        timeout_s=timeout_s,
        waits=waits,
        allow=allow,
        max_bytes=max_bytes,
    )


def decoded(text: str) -> t.Any:
    """The value of a JSON text; any other text is itself."""
    try:
        return encoding.loads(text)
    except ValueError:
        return text
