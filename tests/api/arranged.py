"""What the tests of the API share: the document in its closed form, and a server with something in it.

Law of this room: the closed document holds the server to its own description: answers may have no member, errors no
code, and streams no frame that is not described.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping

from app import __version__
from app.schemas.openapi.document import document
from app.schemas.openapi.parts import SURFACES as NAMED
from app.streams import agent_events_schema, graph_event_schema, run_event_schema
from app.web.auth import CREDENTIALS

#: What makes the schema of a surface's frames, closed.
FRAMES: Mapping[str, t.Callable[[], dict[str, t.Any]]] = {
    "agent-events-v1": lambda: agent_events_schema.agent_events(closed=True),
    "agent-text": agent_events_schema.agent_text,
    "runs": lambda: run_event_schema.run_events(closed=True),
    "graph": lambda: graph_event_schema.graph_events(closed=True),
}
assert set(FRAMES) >= set(NAMED)


def closed_document() -> dict[str, t.Any]:
    """The document, closed, with the frames of its streams."""
    made = document(CREDENTIALS, __version__, closed=True)
    for name, make in FRAMES.items():
        schema = make()
        definitions = schema.pop("$defs")
        components = {f"{name}.{key}": value for key, value in definitions.items()}
        components[name] = {key: value for key, value in schema.items() if not key.startswith("$")}
        made["components"]["schemas"] |= {key: _moved(value, name) for key, value in components.items()}
    for operation in operations(made):
        for answer in operation["responses"].values():
            stream = answer.get("content", {}).get("text/event-stream")
            if stream is not None and "x-frames" in stream["schema"]:
                stream["itemSchema"] = _event(stream.pop("schema")["x-frames"])
    return made


def operations(made: Mapping[str, t.Any]) -> Iterator[dict[str, t.Any]]:
    """Every operation of a document."""
    for item in made["paths"].values():
        yield from item.values()


def _moved(schema: t.Any, name: str) -> t.Any:
    """A schema with its references led to the components of the document."""
    if isinstance(schema, list):
        return [_moved(each, name) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: value.replace("#/$defs/", f"#/components/schemas/{name}.")
        if key == "$ref"
        else _moved(value, name)
        for key, value in schema.items()
    }


def _event(addresses: list[str]) -> dict[str, t.Any]:
    """One event of a stream, whose data is a frame of one of these surfaces."""
    names = [address.removeprefix("/api/schemas/") for address in addresses]
    plain = [{"$ref": f"#/components/schemas/{name}"} for name in names if name != "graph"]
    found = [_with_data({"anyOf": plain})] if plain else []
    return {"anyOf": [*found, *(_GRAPH if "graph" in names else ())]}


def _with_data(schema: dict[str, t.Any], **more: t.Any) -> dict[str, t.Any]:
    data = {"contentMediaType": "application/json", "contentSchema": schema}
    return {"type": "object", "required": ["data"], "properties": {"data": data, **more}}


def _graph() -> Iterator[dict[str, t.Any]]:
    """Frames of the graph surface, which say in their `event:` line what they are."""
    schema = FRAMES["graph"]()
    for branch in schema["oneOf"]:
        frame = schema["$defs"][branch["$ref"].rpartition("/")[2]]["properties"]
        yield _with_data(_moved(frame["data"], "graph"), event=frame["event"])


_GRAPH = tuple(_graph())
