"""The entries of an agent's ``tools``: a registered name, an inline HTTP tool, a fixed result, an MCP server.

Law of this room: the shape of an entry is written once, as dataclasses; whoever runs tools works on a
:class:`ToolEntry` and never on the document. What is documented but not built is refused by name.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from app.errors import Problem
from app.schemas import derive
from app.schemas.json_schema import check_schema
from app.schemas.paths import did_you_mean, join, shown
from app.workflows import mcp_entries
from app.workflows.secret_use import NAME as SECRET_NAME
from app.workflows.secret_use import address_problems
from app.workflows.template_syntax import check, inspect, is_template, strings_in
from plugins.spec.mcp import McpServers
from plugins.spec.tools import Approval

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
#: Any arguments: what an entry without ``parameters`` declares.
OPEN_OBJECT: Mapping[str, t.Any] = {"type": "object", "properties": {}}
_UNSAFE = "secrets may only be used in headers, and in the env of an MCP server; nothing else keeps them"


@dataclass(frozen=True, slots=True)
class HttpCall:
    """``http`` of an inline tool. Every text is a template over ``args``, ``input``, ``blocks`` and ``vars``."""

    url: str = field(metadata={"doc": "http or https address.", "template": True, "nonempty": True})
    method: t.Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] = field(
        default="GET", metadata={"doc": "Request method."}
    )
    headers: Mapping[str, str] = field(
        default_factory=dict, metadata={"doc": "Request headers.", "template": True, "secret_safe": True}
    )
    query: Mapping[str, t.Any] = field(
        default_factory=dict,
        metadata={"doc": "Query parameters, added to those of the url.", "template": True},
    )
    body: t.Any = field(
        default=None, metadata={"doc": "Text is sent as it is, anything else as JSON.", "template": True}
    )
    timeout_s: float = field(
        default=30.0, metadata={"doc": "Longest the call may take, in seconds.", "above": 0, "high": 600}
    )


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """One tool an agent may call.

    :ivar kind: ``registered`` (look ``name`` up), ``http`` (make the call) or ``result`` (always answer it).
    """

    name: str
    kind: t.Literal["registered", "http", "result"]
    description: str = ""
    parameters: Mapping[str, t.Any] = field(default_factory=lambda: OPEN_OBJECT)
    http: HttpCall | None = None
    result: t.Any = None
    approval: Approval = "never"
    approval_deadline_s: float | None = None


@dataclass(frozen=True, slots=True)
class _Inline:
    """Keys of an entry written as an object; ``result`` may be null, so its presence is asked separately."""

    name: str = field(metadata={"nonempty": True})
    description: str = ""
    parameters: Mapping[str, t.Any] | None = None
    http: Mapping[str, t.Any] | None = None
    result: t.Any = None
    approval: Approval = "never"
    approval_deadline_s: float | None = field(default=None, metadata=mcp_entries.DEADLINE)


def entry_of(raw: str | Mapping[str, t.Any]) -> ToolEntry:
    """An entry of a compiled workflow as a value. Cheap: it was checked already."""
    if isinstance(raw, str):
        return ToolEntry(raw, "registered")
    inline, _ = derive.load(_Inline, raw)
    if inline is None:
        raise ValueError("not an entry of a compiled workflow")
    return _entry(inline, raw)


def entry_problems(
    raw: t.Any, path: str, registered: Collection[str], servers: McpServers = mcp_entries.NO_SERVERS
) -> list[Problem]:
    """Everything that is wrong with one entry.

    :param registered: names of the tools plugins offer.
    :param servers: the MCP servers it may use.
    """
    if isinstance(raw, str):
        return _unknown_name(raw, path, registered)
    if not isinstance(raw, Mapping):
        wanted = "the name of a tool, an object with name and http or result, or one with mcp"
        return [Problem(path, f"must be {wanted}, not {shown(raw)}")]
    if mcp_entries.is_mcp(raw):
        return [
            *mcp_entries.entry_problems(raw, path, servers),
            *_mcp_templates(raw["mcp"], join(path, "mcp")),
        ]
    inline, problems = derive.load(_Inline, raw, path)
    problems += _shape_problems(raw, path)
    if inline is not None and "http" not in raw and "result" not in raw:
        problems += _unknown_name(inline.name, join(path, "name"), registered)
    elif inline is not None and not NAME.fullmatch(inline.name):
        problems.append(Problem(join(path, "name"), f"must match {NAME.pattern}, not {shown(inline.name)}"))
    return problems


def _entry(inline: _Inline, raw: Mapping[str, t.Any]) -> ToolEntry:
    kind: t.Literal["registered", "http", "result"] = "registered"
    http = None
    if inline.http is not None:
        kind = "http"
        http, _ = derive.load(HttpCall, inline.http)
    elif "result" in raw:
        kind = "result"
    parameters = OPEN_OBJECT if inline.parameters is None else inline.parameters
    return ToolEntry(
        inline.name,
        kind,
        inline.description,
        parameters,
        http,
        inline.result,
        inline.approval,
        inline.approval_deadline_s,
    )


def _unknown_name(name: str, path: str, registered: Collection[str]) -> list[Problem]:
    if name in registered:
        return []
    message = f"there is no registered tool {shown(name)}; name one, or give http or result. "
    return [Problem(path, (message + did_you_mean(name, sorted(registered))).strip())]


def _shape_problems(raw: Mapping[str, t.Any], path: str) -> list[Problem]:
    problems = []
    if raw.get("http") is not None and "result" in raw:
        problems.append(Problem(path, "has both http and result; keep one"))
    elif "http" in raw and raw["http"] is None and "result" not in raw:
        problems.append(Problem(join(path, "http"), "must be an object with at least url"))
    elif "http" not in raw and "result" not in raw:
        extra = [key for key in ("description", "parameters") if raw.get(key) is not None]
        if extra:
            given = " and ".join(extra)
            message = f"has {given} but neither http nor result; a registered tool brings its own"
            problems.append(Problem(path, message))
    if raw.get("parameters") is not None:
        problems += _parameter_problems(raw["parameters"], join(path, "parameters"))
    if isinstance(raw.get("http"), Mapping):
        problems += _http_problems(raw["http"], join(path, "http"))
    return problems


def _mcp_templates(server: t.Any, path: str) -> list[Problem]:
    problems = []
    for key in ("env", "headers") if isinstance(server, Mapping) else ():
        problems += template_problems(server.get(key), join(path, key), secret_safe=True)
    return problems


def _parameter_problems(schema: t.Any, path: str) -> list[Problem]:
    if not isinstance(schema, Mapping):
        return []  # told already, as a wrong type
    problem = check_schema(schema)
    if problem is None and schema.get("type", "object") != "object":
        problem = f"must be a JSON Schema of type object, not {shown(schema['type'])}"
    return [Problem(path, problem)] if problem else []


def _http_problems(http: Mapping[str, t.Any], path: str) -> list[Problem]:
    _, problems = derive.load(HttpCall, http, path)
    problem = url_problem(http.get("url"))
    if problem is not None:
        problems.append(Problem(join(path, "url"), problem))
    for key in ("url", "headers", "query", "body"):
        problems += template_problems(http.get(key), join(path, key), secret_safe=key == "headers")
    return problems + address_problems(http.get("url"), http.get("headers"), path)


def url_problem(url: t.Any) -> str | None:
    """What is wrong with an address that is no template; None when nothing is, or when that is told elsewhere."""
    if isinstance(url, str) and not is_template(url) and not url.lower().startswith(("http://", "https://")):
        return "must begin with http:// or https://"
    return None


def template_problems(
    value: t.Any,
    path: str,
    *,
    secret_safe: bool = False,
    look: Callable[[str, str], None] | None = None,
) -> list[Problem]:
    """What is wrong with the templates in a tree of values.

    :param secret_safe: the field may use ``secrets``.
    :param look: called with (path, source) of every template that is right.
    """
    problems = []
    for keys, source in strings_in(value):
        if not is_template(source):
            continue
        where = join(path, *keys)
        problem = check(source)
        if problem is None and (names := inspect(source).secrets):
            problem = _secret_problem(names) if secret_safe else _UNSAFE
        if problem is not None:
            problems.append(Problem(where, problem))
        elif look is not None:
            look(where, source)
    return problems


def _secret_problem(names: Collection[str]) -> str | None:
    wrong = [name for name in sorted(names) if not SECRET_NAME.fullmatch(name)]
    return f"{shown(wrong[0])} is no name of a secret; it must match {SECRET_NAME.pattern}" if wrong else None
