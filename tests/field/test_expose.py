"""EXPOSE: what should stay inside is seen by nobody."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.field.rig import ANY, Server, Watched
from tests.field.wires import WIRES, Speaker
from tests.support import sse
from tests.support.vendor import Vendor

REGISTERED = "sk-test-ABCDEF123456"
PIECES = ("sk-te", "st-ABC", "DEF123456")


@pytest.fixture
def registered(served: Server) -> Iterator[None]:
    """The secret is stored while a case runs."""
    served.store.secrets.set("REGISTERED", REGISTERED)
    yield
    served.store.secrets.remove("REGISTERED")


def _all_of(watched: Watched) -> dict[str, str]:
    """What a reader has of each channel once its pieces are put together."""
    return {
        "answer": "".join(value["chunk"] for value in watched.values[:-1] if "chunk" in value),
        "thinking": "".join(value["data"] for value in watched.of("thinking")),
        "frames": json.dumps(watched.values),
    }


@pytest.mark.parametrize("wire", ["chat", "messages"])
@pytest.mark.usefixtures("registered")
def test_expose_03_a_secret_cut_in_pieces(served: Server, vendor: Vendor, wire: str) -> None:
    """In the answer, in thinking, in a tool's arguments and in its output: no more than the mask."""
    speaker: Speaker = WIRES[wire]()
    tool = {
        "name": "look",
        "description": "Looks.",
        "parameters": ANY,
        "result": {"key": REGISTERED, REGISTERED: 1},
    }
    workflow = served.agent(speaker.model, tools=[tool], thinking="low")
    watched = served.watch(workflow)
    for last in (False, True):
        call = vendor.next_call()
        for piece in ("Hm: ", *PIECES, "."):
            speaker.think(call, piece)
        for piece in ("It is ", *PIECES, " and so on"):
            speaker.text(call, piece)
        if last:
            assert REGISTERED in json.dumps(call.body), "the model is told what the tool gave"
        else:
            speaker.tool(call, 2, "call_1", "look", json.dumps({"with": REGISTERED}))
        speaker.finish(call, "stop" if last else "tool_calls")
    final = watched.end()
    assert final["event"] == "final"
    shown = _all_of(watched)
    assert watched.text == "It is *** and so on"
    assert shown["answer"] == 2 * "It is *** and so on"
    assert shown["thinking"].count("***") == 2
    told = [*shown.values(), json.dumps(served.record(watched.run_id)), _replayed(served, watched.run_id)]
    assert not any(part in each for each in told for part in (REGISTERED, "sk-te", "DEF123456"))
    assert '"key": "***"' in told[-2]
    assert '"with": "***"' in told[-2]


def _replayed(served: Server, run_id: str) -> str:
    """The run as somebody gets it who comes later, by every protocol; and what the server wrote down."""
    found = [served.studio.log.read_text()]
    thinks = "&includeThinking=true"
    for protocol in (f"agent-events-v1{thinks}", "agent-text", f"runs{thinks}", "builder", "graph"):
        path = f"/api/runs/{run_id}/events?protocol={protocol}"
        status, _, body = sse.request(served.studio.port, "GET", path, None, {"X-API-Key": served.studio.key})
        assert status == 200
        found.append(body.decode())
    return "\n".join(found)
