"""ACCESS: what is not yours does not exist for you."""

from __future__ import annotations

import pytest

from tests.field.rig import ALL, Server, Watched
from tests.support import sse
from tests.support.servers import NEGOTIATE
from tests.support.vendor import Vendor


@pytest.fixture(scope="module")
def keys(served: Server) -> dict[str, str]:
    """Two users with a ``run`` key each."""
    create = served.studio.cli
    return {
        name: create("key", "create", "--name", name, "--scopes", "run").strip() for name in ("one", "two")
    }


def test_access_01_a_run_of_somebody_else(served: Server, vendor: Vendor, keys: dict[str, str]) -> None:
    """Reading and stopping it look just as for a run that never was; without a key, 401."""
    workflow = served.agent("openai-compatible/field")
    own = {**NEGOTIATE, "X-API-Key": keys["one"]}
    watched = Watched(served.studio.execute(workflow, ALL, own))
    call = vendor.next_call()
    never = watched.run_id[:-4] + "0000"
    for method, path, body in (("GET", "/api/runs/{}", None), ("POST", "/api/runs/{}/cancel", {})):
        theirs = served.call(method, path.format(watched.run_id), keys["two"], body)
        unknown = served.call(method, path.format(never), keys["two"], body)
        assert theirs[0] == unknown[0] == 404
        for answer in (theirs, unknown):
            answer[1]["error"].pop("requestId")
        assert str(theirs).replace(watched.run_id, never) == str(unknown)
        assert served.call(method, path.format(watched.run_id), None, body)[0] == 401
    assert not call.left.is_set()
    call.text("mine")
    call.finish()
    assert watched.end()["event"] == "final"
    assert served.call("GET", f"/api/runs/{watched.run_id}", keys["one"])[0] == 200


@pytest.mark.parametrize("key", [None, "sk-wrong", "", "stk_" + "0" * 40])
@pytest.mark.parametrize("stream", [True, False])
def test_access_03_without_the_right_key(
    served: Server, vendor: Vendor, key: str | None, stream: bool
) -> None:
    """401 before any run is made, whether or not the workflow exists; other methods tell nothing."""
    workflow = served.agent("openai-compatible/field")
    headers = {} if key is None else {"X-API-Key": key}
    answers = []
    for target in (workflow, "nope"):
        with sse.post(
            served.studio.port, f"/api/workflows/{target}/execute", {"stream": stream}, headers
        ) as answer:
            assert answer.status == 401
            assert answer.headers["WWW-Authenticate"].startswith("ApiKey")
            assert "X-Run-Id" not in answer.headers
            answers.append(answer.body().decode().rpartition('"requestId"')[0])
    assert answers[0] == answers[1]
    for method in ("HEAD", "OPTIONS", "GET"):
        told = [
            sse.request(served.studio.port, method, f"/api/workflows/{target}/execute", headers=headers)
            for target in (workflow, "nope")
        ]
        assert told[0][0] == told[1][0]
        assert told[0][2].rpartition(b'"requestId"')[0] == told[1][2].rpartition(b'"requestId"')[0]
    assert vendor.calls.empty()
