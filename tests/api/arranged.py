"""What the tests of the API share: the document in its closed form, and a server with something in it.

Law of this room: the closed document holds the server to its own description: answers may have no member, errors no
code, and streams no frame that is not described.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from flask import Flask

from app import __version__
from app.schemas.openapi.document import document
from app.schemas.openapi.parts import SURFACES as NAMED
from app.streams import agent_events_schema, builder_schema, graph_event_schema, run_event_schema
from app.web.auth import CREDENTIALS
from tests.web.conftest import TOOL, Studio, opened
from tests.web.conftest import document as document_of

#: What makes the schema of a surface's frames, closed.
FRAMES: Mapping[str, t.Callable[[], dict[str, t.Any]]] = {
    "agent-events-v1": lambda: agent_events_schema.agent_events(closed=True),
    "agent-text": agent_events_schema.agent_text,
    "builder": lambda: builder_schema.builder_events(closed=True),
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
    if "builder" in names:  # its sentinel is no JSON
        found.append({"type": "object", "properties": {"data": {"const": "[DONE]"}}})
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


@dataclass
class Arranged:
    """A server with one of everything.

    :ivar ids: what there is, and something that is not, by parameter.
    """

    app: Flask
    keys: dict[str, str]
    ids: dict[str, list[str]]

    def known(self, made: dict[str, t.Any]) -> dict[str, t.Any]:
        """The document with these ids for its parameters, and without the route that takes its time on purpose."""
        for name, values in self.ids.items():
            made["components"]["parameters"][name]["schema"] = {"enum": values}
        del made["paths"]["/api/stream-check"]
        return made


@contextmanager
def arranged(tmp_path: Path) -> Iterator[Arranged]:
    """See :class:`Arranged`."""
    # Of the provider nothing answers; e-mails go to standard output.
    settings = {
        "STUDIO_MAX_STREAMS": "1000",
        "STUDIO_MAX_STREAMS_PER_ADDRESS": "1000",
        "STUDIO_MAIL": "console",
        "STUDIO_OIDC_ISSUER": "http://127.0.0.1:9",
        "STUDIO_OIDC_CLIENT_ID": "studio",
    }
    with opened(tmp_path, settings) as studio:
        yield Arranged(studio.app, studio.keys, _filled(studio))


def _filled(studio: Studio) -> dict[str, list[str]]:
    def made(path: str, **body: t.Any) -> dict[str, t.Any]:
        answer = studio.client.post(path, json=body, headers={"X-API-Key": studio.keys["admin"]})
        assert answer.status_code == 201, answer.get_data()
        return t.cast("dict[str, t.Any]", answer.get_json())

    public = studio.deploy(document_of("scripted/plain", settings={"public": True}), "wf_public")
    tooling = studio.deploy(document_of("scripted/tooling", tools=[TOOL]), "wf_tooling")
    failing = studio.deploy(document_of("scripted/broken"), "wf_failing")
    ran = studio.execute(public, {"input": "hi", "conversationId": "c1"}).get_json()["runId"]
    used = studio.execute(tooling, {"input": "hi"}).get_json()["runId"]
    thread = studio.get(f"/api/runs/{ran}").get_json()["threadId"]
    chats = [made("/api/chats", **_chat(public, kind)) for kind in ("public", "password", "email", "sso")]
    document = made("/api/documents", collection="manuals", source="pump.md", text="Prime it first.")
    file = studio.client.post(
        "/api/files?name=a.txt",
        data=b"Hello.",
        headers={"X-API-Key": studio.keys["run"]},
        content_type="text/plain",
    ).get_json()
    return {
        "workflow_id": [public, tooling, failing, "nobody"],
        "version": ["1", "2", "x"],
        "run_id": [ran, used, "run_nobody"],
        "thread_id": [thread, "thr_nobody"],
        "slug": [*(chat["slug"] for chat in chats), "nobody"],
        "chat_id": [*(chat["id"] for chat in chats[:2]), "chat_nobody"],
        "key_id": [made("/api/keys", name="spare")["id"], "key_nobody"],
        "file_id": [file["id"], "file_nobody"],
        "document_id": [document["id"], "doc_nobody"],
        "If-Match": ["*", '"nothing"'],
    }


def _chat(workflow: str, kind: str) -> dict[str, t.Any]:
    more = {"password": {"password": "a long password"}, "email": {"allowedEmails": ["ada@example.org"]}}
    shown = {"includeThinking": True, "includeToolCalls": True}
    return {
        "workflowId": workflow,
        "slug": f"by-{kind}",
        "title": "Help desk",
        "authType": kind,
        **shown,
        **more.get(kind, {}),
    }
