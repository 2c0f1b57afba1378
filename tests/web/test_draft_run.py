"""``POST /api/workflows/{id}/draft/run``: what is refused, what runs, what is told, and to whom."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

import pytest
import yaml
from jsonschema import Draft202012Validator

from app.streams.builder_schema import ENDS, builder_events
from tests.support import sse
from tests.support.servers import wait_until
from tests.web.conftest import TOOL, Studio, assert_error, document

CLOSED = Draft202012Validator(builder_events(closed=True))
Frame = dict[str, t.Any]


def post(
    studio: Studio, workflow: str, body: t.Any = None, key: str | None = "admin", **headers: str
) -> t.Any:
    sent = {} if key is None else {"X-API-Key": studio.keys.get(key, key)}
    return studio.client.post(
        f"/api/workflows/{workflow}/draft/run", json={} if body is None else body, headers={**sent, **headers}
    )


def frames(answer: t.Any) -> list[Frame]:
    """The events of a stream that came to its end."""
    assert answer.status_code == 200, answer.get_data()
    assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    *found, last = [frame for frame in sse.parse(answer.get_data()) if frame.comment is None]
    assert last.data == "[DONE]"
    values = [frame.json() for frame in found]
    for value in values:
        CLOSED.validate(value)
        assert value["runId"] == answer.headers["X-Run-Id"]
    assert values[-1]["type"] in ENDS
    return values


def run(studio: Studio, workflow: str, body: t.Any = None) -> list[Frame]:
    return frames(post(studio, workflow, body))


def kinds(told: list[Frame]) -> list[str]:
    return [frame["type"] for frame in told]


def saved(studio: Studio, doc: Mapping[str, t.Any], workflow: str | None = None) -> str:
    """A draft that was never deployed."""
    return studio.store.workflows.save(dict(doc), doc["name"], workflow)


@pytest.fixture
def draft(studio: Studio) -> str:
    return saved(studio, document("scripted/tooling", tools=[TOOL]))


# -- what is told ----------------------------------------------------------------------------------


def test_a_draft_that_was_never_deployed_runs_and_is_told_whole(studio: Studio, draft: str) -> None:
    told = run(studio, draft, {"input": "Hello"})
    assert kinds(told) == [
        "execution:started",
        "block:started",
        "block:completed",
        "block:started",
        "stream:chunk",
        "stream:tool",
        "stream:chunk_reset",
        "stream:tool",
        "stream:chunk",
        "stream:done",
        "block:completed",
        "execution:completed",
    ]
    completed = told[-2]["data"]
    assert completed["input"]["prompt"] == "Hello"
    assert completed["output"]["content"] == "It is settled."
    assert completed["output"]["toolCalls"]["list"][0]["result"] == {"found": "private answer"}
    end = told[-1]["data"]
    assert end["output"] == completed["output"]
    assert [log["blockId"] for log in end["finalBlockLogs"]] == ["start", "agent_1"]
    assert end["finalBlockLogs"][0]["input"] == {"message": "Hello"}


def test_thinking_is_told_though_nobody_asked_for_it(studio: Studio) -> None:
    told = run(studio, saved(studio, document("scripted/thinker")))
    thought = [frame["data"]["text"] for frame in told if frame["type"] == "stream:thinking"]
    assert "".join(thought) == "Hm, let me see."
    assert kinds(told).index("stream:thinking") < kinds(told).index("stream:chunk")


def test_edits_that_are_not_saved_run_and_stay_unsaved(studio: Studio, draft: str) -> None:
    told = run(studio, draft, {"document": document("scripted/plain"), "input": "Hello"})
    assert told[-1]["data"]["output"]["content"] == "Hello there."
    assert studio.store.workflows.get(draft).document["blocks"][1]["config"]["model"] == "scripted/tooling"
    assert studio.store.workflows.live(draft) is None


def test_what_is_live_stays_out_of_it(studio: Studio) -> None:
    workflow = studio.deploy(document("scripted/plain"))
    saved(studio, document("scripted/thinker"), workflow)
    assert run(studio, workflow)[-1]["data"]["output"]["content"] == "Done."
    assert studio.execute(workflow).get_json()["output"]["content"] == "Hello there."


def test_a_failure_ends_it_with_the_log(studio: Studio) -> None:
    told = run(studio, saved(studio, document("scripted/broken", retries=0)))
    assert kinds(told)[-3:] == ["stream:done", "block:error", "execution:error"]
    end = told[-1]["data"]
    assert (end["code"], end["blockId"]) == ("provider_overloaded", "agent_1")
    assert [log["status"] for log in end["finalBlockLogs"]] == ["completed", "failed"]


# -- input and how far -----------------------------------------------------------------------------


def test_the_input_of_an_earlier_run(studio: Studio, draft: str) -> None:
    first = run(studio, draft, {"input": {"message": "Again", "n": 5}})
    told = run(studio, draft, {"inputFromRunId": first[0]["runId"]})
    assert told[-1]["data"]["finalBlockLogs"][0]["input"] == {"message": "Again", "n": 5}


def test_of_this_workflow_alone(studio: Studio, draft: str) -> None:
    other = run(studio, saved(studio, document("scripted/plain")))[0]["runId"]
    texts = {
        assert_error(post(studio, draft, {"inputFromRunId": name}), 404, "not_found")["message"].replace(
            name, ""
        )
        for name in (other, "run_unknown")
    }
    assert len(texts) == 1
    both = post(studio, draft, {"inputFromRunId": other, "input": None})
    assert_error(both, 400, "validation_failed", path="inputFromRunId")


def test_it_stops_after_a_block(studio: Studio, draft: str) -> None:
    told = run(studio, draft, {"input": "Hello", "stopAfter": "start"})
    assert kinds(told) == ["execution:started", "block:started", "block:completed", "execution:completed"]
    assert told[-1]["data"]["output"] == {"message": "Hello"}


def test_an_unknown_block_is_refused_with_those_there_are(studio: Studio, draft: str) -> None:
    answer = post(studio, draft, {"stopAfter": "agent_2"})
    assert_error(answer, 400, "validation_failed", path="stopAfter", says="agent_1")


# -- refused before the first byte -----------------------------------------------------------------


def test_everything_wrong_with_a_draft_is_said_at_once(studio: Studio) -> None:
    wrong = document("scripted/plain", nonsense=1)
    wrong["edges"].append({"source": "agent_1", "target": "nowhere"})
    error = assert_error(post(studio, saved(studio, wrong)), 400, "validation_failed")
    assert {detail["path"] for detail in error["details"]} == {"blocks[1].config.nonsense", "edges[1].target"}
    sent = post(studio, saved(studio, document("scripted/plain")), {"document": wrong})
    error = assert_error(sent, 400, "validation_failed")
    assert {detail["path"] for detail in error["details"]} == {
        "document.blocks[1].config.nonsense",
        "document.edges[1].target",
    }


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"nonsense": 1}, "nonsense"),
        ({"document": 5}, "document"),
        ({"document": {}}, "document"),
        ({"stopAfter": 5}, "stopAfter"),
        ({"inputFromRunId": ""}, "inputFromRunId"),
    ],
)
def test_bodies_are_strict(studio: Studio, draft: str, body: t.Any, path: str) -> None:
    error = assert_error(post(studio, draft, body), 400, "validation_failed")
    assert any(detail["path"].startswith(path) for detail in error["details"])


def test_what_it_needs_and_lacks_is_named(
    studio: Studio, draft: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    answer = post(studio, draft, {"document": document("openai/gpt-5-mini")})
    assert_error(answer, 400, "provider_not_configured", says="OPENAI_API_KEY")


def test_unknown_workflows_and_keys_without_admin(studio: Studio, draft: str) -> None:
    assert_error(post(studio, "wf_unknown"), 404, "not_found")
    for key in ("run", "read"):
        assert_error(post(studio, draft, key=key), 403, "forbidden")
    assert_error(post(studio, draft, key=None), 401, "unauthorized")
    assert len(studio.get("/api/runs").get_json()["items"]) == 0


# -- the run afterwards ----------------------------------------------------------------------------


def attach(studio: Studio, run_id: str, query: str = "", key: str = "admin", **headers: str) -> t.Any:
    return studio.client.get(
        f"/api/runs/{run_id}/events?protocol=builder{query}",
        headers={"X-API-Key": studio.keys[key], **headers},
    )


def test_it_is_listed_without_a_version(studio: Studio, draft: str) -> None:
    run_id = run(studio, draft)[0]["runId"]
    (item,) = studio.get("/api/runs").get_json()["items"]
    assert (item["runId"], item["workflowId"], item["status"]) == (run_id, draft, "completed")
    assert "version" not in item


def test_attaching_gives_the_same_bytes(studio: Studio, draft: str) -> None:
    answer = post(studio, draft, {"input": "Hello"})
    run_id, sent = answer.headers["X-Run-Id"], answer.get_data()
    assert attach(studio, run_id).get_data() == sent
    middle = [frame.id for frame in sse.parse(sent) if frame.id][3]
    rest = sent[sent.index(f"id: {middle}\n".encode()) :].partition(b"\n\n")[2]
    assert attach(studio, run_id, **{"Last-Event-ID": middle}).get_data() == rest
    assert attach(studio, run_id, f"&after={middle}").get_data() == rest
    last = [frame.id for frame in sse.parse(sent)][-1]
    assert attach(studio, run_id, f"&after={last}").status_code == 204


def test_a_durable_replay_leaves_out_what_is_provisional(studio: Studio, draft: str) -> None:
    everything = run(studio, draft)
    told = frames(attach(studio, everything[0]["runId"], "&replay=durable"))
    assert kinds(told) == [kind for kind in kinds(everything) if not kind.startswith("stream:")]
    assert [f["data"] for f in told] == [f["data"] for f in everything if not f["type"].startswith("stream:")]


def test_only_builders_attach_so(studio: Studio, draft: str) -> None:
    run_id = run(studio, draft)[0]["runId"]
    for key in ("read", "run"):
        assert_error(attach(studio, run_id, key=key), 403, "forbidden")
    assert_error(attach(studio, "run_unknown"), 404, "not_found")
    for query in ("&replay=some", "&events=full", "&includeThinking=true"):
        assert_error(attach(studio, run_id, query), 400, "validation_failed")
    wrong = studio.get(f"/api/runs/{run_id}/events?replay=durable")
    assert_error(wrong, 400, "validation_failed", path="replay")


def test_a_run_of_others_can_be_seen_so_without_what_blocks_were_given(studio: Studio) -> None:
    workflow = studio.deploy(document("scripted/plain"))
    run_id = studio.execute(workflow).headers["X-Run-Id"]
    told = frames(attach(studio, run_id))
    assert kinds(told)[-1] == "execution:completed"
    assert not any("input" in frame["data"] for frame in told)


def test_from_its_record_when_the_log_is_gone(studio: Studio, draft: str) -> None:
    """A draft may be another one by then: what is not stored is not made up."""
    run_id = run(studio, draft)[0]["runId"]
    saved(studio, {**document("scripted/plain"), "name": "Other"}, draft)
    studio.app.extensions["studio"].runs._retained._runs.clear()
    told = frames(attach(studio, run_id))
    assert kinds(told)[-1] == "execution:completed"
    assert told[-1]["data"]["output"]["content"] == "It is settled."
    assert [log["blockId"] for log in told[-1]["data"]["finalBlockLogs"]] == ["start", "agent_1"]


# -- people ----------------------------------------------------------------------------------------


ASKS: dict[str, t.Any] = {
    "name": "Asks",
    "blocks": [
        {"id": "start", "type": "start"},
        {"id": "ask", "type": "approval", "config": {"prompt": "Send?", "draft": "Dear {{ input.message }}"}},
        {"id": "send", "type": "set", "config": {"values": {"sent": "{{ blocks.ask.content }}"}}},
    ],
    "edges": [
        {"source": "start", "target": "ask"},
        {"source": "ask", "target": "send", "source_handle": "approved"},
    ],
}


def paused(studio: Studio, **body: t.Any) -> Frame:
    """The end of a draft run that waits for a person, once it has left the process."""
    told = run(studio, saved(studio, ASKS), {"input": "Ann", **body})
    assert kinds(told)[-1] == "execution:paused"
    runs = studio.app.extensions["studio"].runs
    wait_until(lambda: len(runs) == 0, "the run has left")
    return told[-1]


def resume(studio: Studio, run_id: str, key: str = "admin") -> t.Any:
    return studio.client.post(
        f"/api/runs/{run_id}/resume", json={"decision": "approve"}, headers={"X-API-Key": studio.keys[key]}
    )


def test_a_pause_says_what_to_decide_and_goes_on_in_the_same_form(studio: Studio) -> None:
    end = paused(studio)
    (asked,) = end["data"]["pauses"]
    assert asked["blockId"] == "ask"
    assert (asked["review"]["prompt"], asked["review"]["draft"]) == ("Send?", "Dear Ann")
    assert [log["status"] for log in end["data"]["finalBlockLogs"]] == ["completed", "paused"]
    told = frames(resume(studio, end["runId"]))
    assert kinds(told) == ["block:completed", "block:started", "block:completed", "execution:completed"]
    assert told[-1]["data"]["output"] == {"sent": "Dear Ann"}
    assert told[0]["data"]["input"]["draft"] == "Dear Ann"
    assert [log["blockId"] for log in told[-1]["data"]["finalBlockLogs"]] == ["start", "ask", "send"]
    assert told[0]["eventId"] > end["eventId"]
    # Whoever attaches now gets all of it, without the pause in between.
    whole = frames(attach(studio, end["runId"]))
    assert "execution:paused" not in kinds(whole)
    assert kinds(whole)[-len(told) :] == kinds(told)


def test_it_still_stops_where_it_was_to(studio: Studio) -> None:
    end = paused(studio, stopAfter="ask")
    told = frames(resume(studio, end["runId"]))
    assert kinds(told) == ["block:completed", "execution:completed"]
    assert told[-1]["data"]["output"]["content"] == "Dear Ann"


# -- stops, and who leaves -------------------------------------------------------------------------


def test_a_stop_ends_it_with_what_was_going_on(studio: Studio) -> None:
    workflow = saved(studio, document("scripted/silent"))
    answer = studio.client.post(
        f"/api/workflows/{workflow}/draft/run",
        json={},
        headers={"X-API-Key": studio.keys["admin"]},
        buffered=False,
    )
    pieces = []
    for piece in answer.iter_encoded():
        pieces.append(piece)
        if b"agent_1" in piece:
            path = f"/api/runs/{answer.headers['X-Run-Id']}/cancel"
            studio.client.post(path, headers={"X-API-Key": studio.keys["admin"]})
    *found, last = sse.parse(b"".join(pieces))
    assert last.data == "[DONE]"
    end = found[-1].json()
    CLOSED.validate(end)
    assert (end["type"], end["data"]["cause"]) == ("execution:cancelled", "stop_requested")
    assert [log["status"] for log in end["data"]["finalBlockLogs"]] == ["completed", "failed"]


@pytest.mark.parametrize("policy", ["cancel", "continue"])
def test_a_client_that_leaves_is_treated_as_the_workflow_says(studio: Studio, policy: str) -> None:
    doc = document("scripted/silent", settings={"on_disconnect": policy})
    answer = studio.client.post(
        f"/api/workflows/{saved(studio, doc)}/draft/run",
        json={},
        headers={"X-API-Key": studio.keys["admin"]},
        buffered=False,
    )
    runs = studio.app.extensions["studio"].runs
    body = answer.iter_encoded()
    while b"agent_1" not in next(body):
        pass
    live = runs.get(answer.headers["X-Run-Id"])
    answer.close()
    if policy == "cancel":
        wait_until(lambda: live.status == "cancelled", "it was cancelled")
    else:
        assert live.status == "running"
        live.cancel("stop_requested")


# -- secrets ---------------------------------------------------------------------------------------


def test_secret_values_are_in_no_event(studio: Studio, tmp_path: t.Any) -> None:
    secret = "sk-test-ABCDEF123456"
    says = {"turns": [{"steps": [{"text": f"It is {secret}."}]}]}
    (tmp_path / "scripts" / "telling.yaml").write_text(yaml.safe_dump(says))
    studio.store.secrets.set("TOKEN", secret)
    list(studio.store.secrets.values().items())  # it was used
    told = post(studio, saved(studio, document("scripted/telling")), {"input": f"Say {secret}"}).get_data()
    assert secret.encode() not in told
    assert b"***" in told


def test_what_became_a_secret_after_it_was_told_is_in_no_event_that_is_told_again(studio: Studio) -> None:
    """The run itself had nothing to mask then: its log and its record have it."""
    secret = "sk-test-ABCDEF123456"
    answer = post(studio, saved(studio, document("scripted/echo")), {"input": {"message": f"Say {secret}"}})
    assert secret.encode() in answer.get_data()
    studio.store.secrets.set("TOKEN", secret)
    list(studio.store.secrets.values().items())  # it was used
    told = attach(studio, answer.headers["X-Run-Id"]).get_data()
    assert secret.encode() not in told
    assert b"***" in told


def test_a_secret_that_comes_in_pieces_is_in_no_event(studio: Studio, tmp_path: t.Any) -> None:
    pieces = [{"text": piece} for piece in ("Use sk-te", "st-ABC", "DEF123456", " for it.")]
    (tmp_path / "scripts" / "piecewise.yaml").write_text(yaml.safe_dump({"turns": [{"steps": pieces}]}))
    studio.store.secrets.set("TOKEN", "sk-test-ABCDEF123456")
    told = run(studio, saved(studio, document("scripted/piecewise")))
    text = "".join(frame["data"]["chunk"] for frame in told if frame["type"] == "stream:chunk")
    assert text == "Use *** for it."
    assert told[-1]["data"]["output"]["content"] == text


# -- redaction -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["strict", "live"])
def test_what_is_masked_is_masked_for_builders_too(studio: Studio, tmp_path: t.Any, mode: str) -> None:
    steps = [{"thinking": "ann@example.org asks."}, {"text": "Dear ann@exam"}, {"text": "ple.org, yes."}]
    (tmp_path / "scripts" / "mailing.yaml").write_text(yaml.safe_dump({"turns": [{"steps": steps}]}))
    doc = document("scripted/mailing", redact={"mode": mode, "detectors": ["email"]})
    told = run(studio, saved(studio, doc), {"input": "From ann@example.org"})
    for frame in told:
        if frame["data"].get("blockId") == "agent_1":
            assert "ann@example" not in str(frame), frame
    chunks = [frame["data"]["chunk"] for frame in told if frame["type"] == "stream:chunk"]
    assert "".join(chunks) == told[-1]["data"]["output"]["content"] == "Dear [email], yes."
    # Strict: nothing before the turn is over; then it comes whole.
    assert (len(chunks) == 1) is (mode == "strict")
