"""How a route is described.

Law of this room: values only. What is the same for every route of a kind (401, 403, bodies that are too large) is
added by :mod:`app.schemas.openapi.document` from the credential table and from what the route takes.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

JSON, STREAM, HTML = "application/json", "text/event-stream", "text/html"
FORM = "application/x-www-form-urlencoded"

#: Among the codes of an error: whatever code the failure of the run has.
ANY_CODE = "*"

#: A JSON value of no shape of its own.
ANYTHING: t.Any = object


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One thing a route may answer with.

    :ivar says: what it means. :ivar shape: a ``TypedDict``, or another type, of a JSON body; None: there is none.
    :ivar streams: surfaces whose events a stream may carry; empty: it is no stream. :ivar media: of another body.
    :ivar headers: what comes with it always, by name of :data:`app.schemas.openapi.parts.HEADERS`.
    :ivar maybe: what comes with it at times.
    :ivar links: what may be called next: name to (operation id, {parameter: where its value is}).
    :ivar example: of a JSON body.
    """

    says: str
    shape: t.Any = None
    streams: Sequence[str] = ()
    media: Sequence[str] = ()
    headers: Sequence[str] = ()
    maybe: Sequence[str] = ()
    links: Mapping[str, tuple[str, Mapping[str, str]]] = field(default_factory=dict)
    example: t.Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One route.

    :ivar route: method and rule, as in the credential table. :ivar id: for generated clients.
    :ivar who: who may call, where the credential table does not say it all: a phrase.
    :ivar does: what it does, in a few words. :ivar says: the rest, in Markdown. :ivar page: of the docs, with anchor.
    :ivar query: a ``TypedDict`` of its parameters. :ivar headers: request headers it looks at, by name of
        :data:`app.schemas.openapi.parts.REQUEST_HEADERS`.
    :ivar body: a dataclass of :mod:`app.schemas`, or a ``TypedDict``; None: it takes none.
    :ivar body_media: how it comes; ``also``: in which other forms it may. :ivar body_optional: an empty body is an
        empty object. :ivar nulls: null stands for what is not given. :ivar partial: it names what it changes.
    :ivar example: of it.
    :ivar answers: by status. :ivar errors: codes by status, beyond those of every such route.
    :ivar error: the shape of errors. :ivar page_errors: its errors are pages.
    """

    route: str
    id: str
    does: str
    tag: str
    says: str = ""
    page: str = ""
    who: str = ""
    query: t.Any = None
    headers: Sequence[str] = ()
    body: t.Any = None
    body_media: str = JSON
    also: Sequence[str] = ()
    body_optional: bool = False
    nulls: bool = False
    partial: bool = False
    example: t.Any = None
    answers: Mapping[int, Answer] = field(default_factory=dict)
    errors: Mapping[int, Sequence[str]] = field(default_factory=dict)
    error: t.Any = None
    page_errors: Sequence[int] = ()

    @property
    def method(self) -> str:
        """The HTTP method."""
        return self.route.partition(" ")[0]

    @property
    def rule(self) -> str:
        """The rule, as Flask has it."""
        return self.route.partition(" ")[2]
