"""The document, put together from the credential table and the descriptions of routes.

Law of this room: every row of the table is in it exactly once, and nothing else. Who may call is the table's to say;
so are the answers that follow from that.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Callable, Iterable, Iterator, Sequence

from apispec import APISpec

from app.schemas.openapi import parts
from app.schemas.openapi.fields import Plugin
from app.schemas.openapi.operation import ANY_CODE, HTML, JSON, STREAM, Answer, Operation
from app.schemas.openapi.routes import OPERATIONS
from app.schemas.shapes.common import Error

VERSION = "3.1.0"
_ABOUT = """\
Agent workflows over HTTP, streamed token by token over Server-Sent Events.

Programs send a key in `X-API-Key`; `studio key create` makes one. What each route asks of its caller is under
`security`, with the scopes a key needs; `x-credential` says it once more in words. Members that do not apply are
left out, never null. Answers may get further members: ignore what you do not know. Requests may not: an unknown key is
a 400.

Streams are `text/event-stream`. What their frames hold is not part of OpenAPI 3.1: each has its own JSON Schema under
`/api/schemas/{surface}`, named beside the answer.
"""
_VARIABLE = re.compile(r"<(?:\w+:)?(\w+)>")
#: Who may call routes that take no key.
_WHO = {
    "open": "none",
    "owner": "the owner's session",
    "chat": "the chat's own gate",
}
#: Methods of requests that may come with a body.
_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Row(t.Protocol):
    """What the document needs of a row of the credential table (:class:`app.web.auth.Credential`)."""

    @property
    def method(self) -> str:
        """The HTTP method."""

    @property
    def rule(self) -> str:
        """The rule, as Flask has it."""

    @property
    def kind(self) -> str:
        """``open``, ``key``, ``public``, ``owner`` or ``chat``."""

    @property
    def scope(self) -> str:
        """What a key must be allowed."""

    @property
    def own(self) -> str:
        """``all``, ``also`` or ``only``."""

    @property
    def bearer(self) -> bool:
        """Whether the key may come as a bearer token."""


def undescribed(rows: Iterable[Row]) -> tuple[list[str], list[str]]:
    """Rows without a description, and descriptions without a row."""
    routes = [f"{row.method} {row.rule}" for row in rows]
    return [route for route in routes if route not in OPERATIONS], sorted(OPERATIONS.keys() - set(routes))


def document(
    rows: Sequence[Row], version: str, *, closed: bool = False, pause: Callable[[], None] = lambda: None
) -> dict[str, t.Any]:
    """The OpenAPI document.

    :param rows: the credential table. :param version: of the program.
    :param closed: answers may have no member, errors no code that is not described: for tests.
    :param pause: called now and then, to let others go on.
    A row without a description is left out; a test fails for it.
    """
    plugin = Plugin(closed)
    spec = APISpec("Studio", version, VERSION, plugins=[plugin])
    spec.options.update(
        info={"description": _ABOUT, "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"}},
        servers=[{"url": "/", "description": "The server this document came from."}],
        tags=[{"name": name, "description": says} for name, says in parts.TAGS.items()],
        jsonSchemaDialect="https://spec.openapis.org/oas/3.1/dialect/base",
    )
    for name, scheme in parts.SECURITY.items():
        spec.components.security_scheme(name, scheme)
    maker = _Maker(spec, plugin, closed)
    for row in rows:
        described = OPERATIONS.get(f"{row.method} {row.rule}")
        if described is not None:
            spec.path(path(row.rule), operations={row.method.lower(): maker.operation(row, described)})
            pause()
    made = spec.to_dict()
    made["components"]["schemas"] = dict(sorted(made["components"]["schemas"].items()))
    first = ("openapi", "info", "jsonSchemaDialect", "servers", "tags", "paths", "components")
    return {name: made[name] for name in first}


def path(rule: str) -> str:
    """A rule as OpenAPI writes it."""
    return _VARIABLE.sub(r"{\1}", rule)


class _Maker:
    """Makes operations of one document."""

    def __init__(self, spec: APISpec, plugin: Plugin, closed: bool) -> None:
        self._spec = spec
        self._plugin = plugin
        self._closed = closed

    def operation(self, row: Row, described: Operation) -> dict[str, t.Any]:
        """One operation."""
        made: dict[str, t.Any] = {
            "operationId": described.id,
            "summary": described.does,
            "description": described.says,
            "tags": [described.tag],
            "security": security(row),
            "x-credential": _sentence(scope_words(row, described)),
            "parameters": list(self._parameters(described)),
            "requestBody": self._body(described),
            "responses": self._responses(row, described),
        }
        return {name: value for name, value in made.items() if value not in ("", None) and value != {}}

    def _parameters(self, described: Operation) -> Iterator[t.Any]:
        for name in _VARIABLE.findall(described.rule):
            schema = {"type": "string", "minLength": 1, **parts.PATH_SCHEMAS.get(name, {})}
            yield self._shared(name, "path", parts.PATHS[name], schema)
        if described.query is not None:
            yield from self._plugin.parameters(described.query, "query")
        for name in described.headers:
            yield self._shared(name, "header", *parts.REQUEST_HEADERS[name])

    def _shared(self, name: str, where: str, says: str, schema: dict[str, t.Any]) -> str:
        """A parameter of several routes, by the name under which apispec knows it."""
        if name not in self._spec.components.parameters:
            self._spec.components.parameter(name, where, {"description": says, "schema": schema})
        return name

    def _body(self, described: Operation) -> dict[str, t.Any] | None:
        if described.body is None:
            return None
        schema = self._plugin.body(described.body, described.nulls, described.partial)
        content: dict[str, t.Any] = {described.body_media: {"schema": schema}}
        if described.example is not None:
            content[described.body_media]["examples"] = {"body": {"value": described.example}}
        content |= {media: {"schema": parts.MEDIA.get(media, {"type": "string"})} for media in described.also}
        return {"required": not described.body_optional, "content": content}

    # -- answers -------------------------------------------------------------------------------

    def _responses(self, row: Row, described: Operation) -> dict[str, t.Any]:
        found = {str(status): self._answer(answer) for status, answer in described.answers.items()}
        for status, codes in sorted(_errors(row, described).items()):
            found[str(status)] = self._failure(status, codes, described)
        return dict(sorted(found.items()))

    def _answer(self, answer: Answer) -> dict[str, t.Any]:
        content: dict[str, t.Any] = {media: {"schema": {"type": "string"}} for media in answer.media}
        if answer.shape is not None:
            content[JSON] = {"schema": self._plugin.reference(answer.shape)}
            if answer.example is not None:
                content[JSON]["examples"] = {"answer": {"value": answer.example}}
        if answer.streams:
            content[STREAM] = stream(answer.streams)
        made: dict[str, t.Any] = {"description": answer.says, "headers": self._headers(answer)}
        if content:
            made["content"] = content
        if answer.links:
            made["links"] = {
                name: {"operationId": operation, "parameters": dict(parameters)}
                for name, (operation, parameters) in answer.links.items()
            }
        return made

    def _failure(self, status: int, codes: Sequence[str], described: Operation) -> t.Any:
        """An answer that says what is wrong; those that are alike are one component."""
        if status in described.page_errors:
            headers = {"X-Request-Id": self._header("X-Request-Id", True)}
            content = {HTML: {"schema": {"type": "string"}}}
            return {"description": parts.STATUSES[status], "headers": headers, "content": content}
        shape = described.error or Error
        made = self._failed(status, codes, shape)
        if len(codes) != 1 or ANY_CODE in codes:
            return made
        name = f"{shape.__name__}{status}{_camel(codes[0])}"
        if name not in self._spec.components.responses:
            self._spec.components.response(name, made)
        return name

    def _failed(self, status: int, codes: Sequence[str], shape: t.Any) -> dict[str, t.Any]:
        schema = self._plugin.reference(shape)
        known = sorted(code for code in codes if code != ANY_CODE)
        if self._closed and ANY_CODE not in codes:
            is_known = {"properties": {"code": {"enum": known}}}
            schema = {"allOf": [schema, {"properties": {"error": is_known}}]}
        named = [f"`{code}`" for code in known]
        if ANY_CODE in codes:
            named.append("that of the run's failure")
        says = f"{parts.STATUSES[status]} Codes: {', '.join(named)}."
        headers = {"X-Request-Id": self._header("X-Request-Id", True)}
        for header, always in parts.ERROR_HEADERS.get(status, {}).items():
            headers[header] = self._header(header, always)
        if status == 401 and not parts.CHALLENGED.isdisjoint(codes):
            headers["WWW-Authenticate"] = self._header("WWW-Authenticate", True)
        return {
            "description": says,
            "headers": headers,
            "content": {JSON: {"schema": schema}},
            "x-codes": known,
        }

    def _headers(self, answer: Answer) -> dict[str, t.Any]:
        found = {"X-Request-Id": self._header("X-Request-Id", True)}
        found |= {name: self._header(name, True) for name in answer.headers}
        return found | {name: self._header(name, False) for name in answer.maybe}

    def _header(self, name: str, always: bool) -> dict[str, t.Any]:
        says, schema = parts.HEADERS[name]
        if not always:
            return {"description": says, "schema": schema}
        if name not in self._spec.components.headers:
            made = {"description": says, "required": True, "schema": schema}
            self._spec.components.header(name, made)
        return {"$ref": f"#/components/headers/{name}"}


def stream(surfaces: Sequence[str]) -> dict[str, t.Any]:
    """What OpenAPI 3.1 can say of a stream, and where the rest is."""
    schemas = [f"/api/schemas/{surface}" for surface in surfaces if surface in parts.SURFACES]
    schema: dict[str, t.Any] = {"type": "string", "description": "Server-Sent Events, in UTF-8."}
    if schemas:
        where = " or ".join(f"`{address}`" for address in schemas)
        schema["description"] += f" The JSON Schema of one frame's data: {where}."
        schema["externalDocs"] = {"url": schemas[0], "description": f"Frames of {surfaces[0]}"}
        schema["x-frames"] = schemas
    examples = {surface: {"value": parts.FRAMES[surface]} for surface in surfaces}
    return {"schema": schema, "examples": examples}


def security(row: Row) -> list[dict[str, t.Any]]:
    """What a caller has to send; the alternatives."""
    session: dict[str, t.Any] = {"session": [], "csrf": []} if row.method in _WRITES else {"session": []}
    keys = [{name: [row.scope]} for name in ("apiKey", *(("bearer",) if row.bearer else ()))]
    return {"owner": [session], "key": [*keys, session], "public": [*keys, session, {}]}.get(row.kind, [])


def scope_words(row: Row, described: Operation) -> str:
    """Who may call: a phrase, in Markdown."""
    if described.who or row.kind in _WHO:
        return described.who or _WHO[row.kind]
    if "<" in row.rule:
        own = {
            "also": f"key with `{row.scope}`, or the key it belongs to",
            "only": f"the key it belongs to (with `{row.scope}`), or an `admin` key",
        }
    else:  # of a list they get a part
        own = {
            "also": f"key with `{row.scope}`; one with `run` gets what is its own",
            "only": f"key with `{row.scope}`, which gets what is its own; an `admin` key gets all",
        }
    said = own.get(row.own, f"key with `{row.scope}`")
    return f"{said}, or none where the workflow is `public`" if row.kind == "public" else said


def _sentence(phrase: str) -> str:
    return f"{phrase[:1].upper()}{phrase[1:]}."


def _errors(row: Row, described: Operation) -> dict[int, list[str]]:
    """What may be wrong, by status: what follows from the kind of route, and what it says itself."""
    found: dict[int, list[str]] = {}

    def add(status: int, *codes: str) -> None:
        found.setdefault(status, []).extend(code for code in codes if code not in found.get(status, []))

    if row.method in _WRITES and described.body_media == JSON:
        add(400, "invalid_json", "validation_failed")
        add(413, "payload_too_large")
        add(415, "unsupported_media_type")
    if described.query is not None and row.rule not in parts.LENIENT:
        add(400, "validation_failed")
    if row.kind not in ("open", "chat") and described.tag != parts.PAGES:
        add(401, "unauthorized")
        if row.scope:
            add(403, "forbidden")
        if row.method in _WRITES:
            add(403, "csrf_required")
        add(500, "internal")
        add(503, "draining")
    for status, codes in described.errors.items():
        add(status, *codes)
    return found


def _camel(code: str) -> str:
    return "".join(word.capitalize() for word in code.split("_"))
