"""One HTTP request described in a document: made for an agent's tool, or for an ``http`` block.

Law of this room: every text of it is a template; where it may go is the guard's to say (``app.net``). Headers alone
see secrets, and nothing that comes back of the call, an answer or a failure, repeats one.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from app import encoding
from app.agents import templates
from app.errors import RunError
from app.net import client as net
from app.redaction.values import ValueMask
from app.workflows.secret_use import names_in
from app.workflows.tool_entries import HttpCall
from plugins.spec import ToolFailed
from providers.spec import Waits

MAX_BYTES = net.MAX_BYTES
Secrets = Callable[[], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer, without the secrets it was asked with. Header names are lower case."""

    status: int
    headers: Mapping[str, str]
    text: str


@dataclass(frozen=True, slots=True)
class _Headers:
    """Rendered headers. ``private``: names of those that hold secrets, which ``mask`` knows."""

    values: Mapping[str, t.Any]
    private: frozenset[str]
    mask: ValueMask


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
    headers = _headers(call.headers, variables, secrets)
    mask = headers.mask
    try:
        answer = net.fetch(
            call.method,
            templates.render(call.url, variables),
            headers=headers.values,
            private=headers.private,
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


def _headers(given: Mapping[str, str], variables: Mapping[str, t.Any], secrets: Secrets) -> _Headers:
    by_header = {name: names for name, value in given.items() if (names := names_in(value))}
    if not by_header:
        return _Headers(templates.render_value(given, variables), frozenset(), ValueMask(()))
    stored = secrets()
    used = {name: stored[name] for name in sorted(frozenset[str]().union(*by_header.values()))}
    plain = {name: value for name, value in given.items() if name not in by_header}
    secret = {name: given[name] for name in by_header}
    try:
        filled = templates.render_value(secret, {**variables, "secrets": used})
    except RunError as error:  # its detail may quote what a filter was given
        raise RunError(
            error.code, error.message, detail=ValueMask(used.values()).text(error.detail)
        ) from None
    made = {word for name in secret for word in _made_of(secret[name], str(filled[name]), variables, used)}
    values = {**templates.render_value(plain, variables), **filled}
    return _Headers(values, frozenset(name.lower() for name in secret), ValueMask({*used.values(), *made}))


def _made_of(source: str, rendered: str, variables: Mapping[str, t.Any], used: Mapping[str, str]) -> set[str]:
    """The words a template made of secrets, by a filter for instance: they are as secret as those."""
    for value in used.values():
        rendered = rendered.replace(value, "")
    try:
        blank = str(templates.render_value(source, {**variables, "secrets": dict.fromkeys(used, "")}))
    except RunError:
        blank = ""
    return set(rendered.split()) - set(blank.split())


def decoded(text: str) -> t.Any:
    """The value of a JSON text; any other text is itself."""
    try:
        return encoding.loads(text)
    except ValueError:
        return text
