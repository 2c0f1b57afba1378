"""One HTTP request described in a document: made for an agent's tool, or for an ``http`` block.

Law of this room: every text of it is a template; where it may go is the guard's to say (``app.net``). Headers alone
see secrets, and nothing that comes back of the call, an answer or a failure, repeats one.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app import encoding
from app.agents import templates
from app.agents.secret_fields import Secrets, filled
from app.net import client as net
from app.redaction.values import value_mask
from app.workflows.tool_entries import HttpCall
from plugins.spec import ToolFailed
from providers.spec import Waits

MAX_BYTES = net.MAX_BYTES
#: Methods that only read: such a request may be made again when it is not known how the first one ended.
SAFE = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer, without the secrets it was asked with. Header names are lower case."""

    status: int
    headers: Mapping[str, str]
    text: str


def make_call(
    call: HttpCall,
    variables: Mapping[str, t.Any],
    *,
    secrets: Secrets,
    timeout_s: float,
    waits: Waits,
    allow: Sequence[t.Any],
    max_bytes: int = MAX_BYTES,
) -> HttpAnswer:
    """Make the request with its templates rendered over ``variables``.

    :param secrets: asked only when a header names one.
    :param allow: networks that may be reached although they are private (``STUDIO_HTTP_ALLOW``).
    :raises RunError: ``template_failed``. :raises BlockError: ``secret_unknown``.
    :raises ToolFailed: there is no answer; see :func:`app.net.client.fetch`.
    """
    headers = filled(call.headers, variables, secrets)
    mask = value_mask(headers.hidden)
    try:
        answer = net.fetch(
            call.method,
            templates.render(call.url, variables),
            headers=headers.values,
            private={name.lower() for name in headers.private},
            mask=mask.text,
            query=templates.render_value(call.query, variables),
            body=templates.render_value(call.body, variables),
            timeout_s=timeout_s,
            waits=waits,
            allow=allow,
            max_bytes=max_bytes,
        )
    except ToolFailed as failed:
        raise ToolFailed(mask.text(str(failed))) from None
    if not mask:
        return HttpAnswer(answer.status, answer.headers, answer.text)
    repeated = {mask.text(name): mask.text(value) for name, value in answer.headers.items()}
    return HttpAnswer(answer.status, repeated, mask.json(answer.text))


def decoded(text: str) -> t.Any:
    """The value of a JSON text; any other text is itself."""
    try:
        return encoding.loads(text)
    except ValueError:
        return text
