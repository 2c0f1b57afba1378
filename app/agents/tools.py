"""From the tool entries of an agent to tools that run.

Law of this room: a model is told of exactly the tools prepared here, and nothing else can be called.
Prepared once per agent config and kept beside it.
"""

from __future__ import annotations

import typing as t
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import jsonschema
from jsonschema.protocols import Validator

from app import encoding, net
from app.agents import templates
from app.agents.config import AgentConfig, ToolEntry
from plugins.spec import Tool, ToolContext, ToolFailed
from providers.spec import ToolSpec

_ANY_OBJECT: dict[str, t.Any] = {"type": "object"}
_PREPARED: weakref.WeakKeyDictionary[AgentConfig, ToolSet] = weakref.WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class ToolSet:
    """The tools of one agent: what runs, what the model is told, and what checks the arguments."""

    tools: Mapping[str, Tool]
    specs: tuple[ToolSpec, ...]
    validators: Mapping[str, Validator]

    def problem(self, name: str, arguments: Mapping[str, t.Any]) -> str | None:
        """What is wrong with the arguments, naming the path; None when they fit the schema."""
        error = jsonschema.exceptions.best_match(self.validators[name].iter_errors(arguments))
        if error is None:
            return None
        return f"Invalid arguments at {error.json_path}: {error.message}"


def prepare(
    config: AgentConfig, registered: Callable[[str], Tool | None], allow: t.Sequence[t.Any]
) -> ToolSet:
    """The tool set of ``config``.

    :param registered: finds a registered tool by name.
    :param allow: networks HTTP tools may reach among private ones (``STUDIO_HTTP_ALLOW``).
    """
    known = _PREPARED.get(config)
    if known is None:
        tools = [tool for tool in (_tool(entry, registered, allow) for entry in config.tools) if tool]
        known = _PREPARED[config] = ToolSet(
            {tool.name: tool for tool in tools},
            tuple(ToolSpec(tool.name, tool.description, tool.parameters) for tool in tools),
            {tool.name: jsonschema.Draft202012Validator(tool.parameters) for tool in tools},
        )
    return known


def _tool(
    entry: ToolEntry, registered: Callable[[str], Tool | None], allow: t.Sequence[t.Any]
) -> Tool | None:
    if isinstance(entry, str):
        return registered(entry)
    run = _fixed(entry["result"]) if "result" in entry else _http(entry["http"], allow)
    return Tool(
        entry["name"],
        entry.get("description") or "",
        entry.get("parameters") or _ANY_OBJECT,
        run,
        idempotent="result" in entry,
    )


def _fixed(result: t.Any) -> Callable[[dict[str, t.Any], ToolContext], t.Any]:
    return lambda arguments, context: result


def _http(
    http: Mapping[str, t.Any], allow: t.Sequence[t.Any]
) -> Callable[[dict[str, t.Any], ToolContext], t.Any]:
    """A tool that makes one HTTP request; its strings are templates that also see ``args``."""

    def run(arguments: dict[str, t.Any], context: ToolContext) -> t.Any:
        seen = {**context.variables, "args": arguments}
        body = templates.render_value(http.get("body"), seen)
        headers = {k: str(v) for k, v in (templates.render_value(http.get("headers") or {}, seen)).items()}
        if body is not None and not isinstance(body, str):
            body = encoding.dumps(body).decode()
            headers.setdefault("Content-Type", "application/json")
        answer = net.fetch(
            http.get("method", "GET"),
            templates.render(http["url"], seen),
            headers=headers,
            query={k: str(v) for k, v in templates.render_value(http.get("query") or {}, seen).items()},
            body=body,
            timeout_s=min(float(http.get("timeout_s") or context.timeout_s), context.timeout_s),
            waits=context.waits,
            allow=allow,
        )
        value = _decoded(answer.text)
        if answer.status >= 400:
            raise ToolFailed(f"HTTP status {answer.status}: {answer.text[:2000]}")
        return value

    return run


def _decoded(text: str) -> t.Any:
    try:
        return encoding.loads(text)
    except ValueError:
        return text
