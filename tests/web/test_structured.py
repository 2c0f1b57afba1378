"""Structured output end to end: what the vendor is asked, what becomes of its answer, over both kinds of families."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator

import gevent
import pytest

from tests.support.vendor import Call, Vendor, vendor
from tests.web.conftest import TOOL, Studio, document

#: By its kind: a family that takes the schema, and one that is told it in words.
MODELS = {"native": "openai-compatible/field", "told": "deepseek/deepseek-chat"}
#: Nested, with a definition that is used twice.
TRIP = {
    "type": "object",
    "properties": {
        "stops": {"type": "array", "items": {"$ref": "#/$defs/stop"}, "minItems": 1},
        "home": {"$ref": "#/$defs/stop"},
    },
    "required": ["stops", "home"],
    "$defs": {
        "stop": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
            "required": ["city", "days"],
        }
    },
}
ROME = {"city": "Rome", "days": 2}
GOOD = {"stops": [ROME, {"city": "Oslo", "days": 1}], "home": ROME}


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch) -> Iterator[Vendor]:
    """A vendor that shows what it was asked."""
    with vendor() as made:
        for family in ("OPENAI_COMPATIBLE", "DEEPSEEK"):
            monkeypatch.setenv(f"STUDIO_{family}_API_BASE", made.base)
            monkeypatch.setenv(f"STUDIO_{family}_API_KEY", "sk-test")
        yield made


@pytest.fixture(params=list(MODELS))
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind of family."""
    return t.cast(str, request.param)


def say(call: Call, text: str, reason: str = "stop") -> None:
    """Answer in two pieces."""
    middle = len(text) // 2
    for piece in (text[:middle], text[middle:]):
        if piece:
            call.text(piece)
    call.finish(reason)


def run(studio: Studio, upstream: Vendor, found: dict[str, t.Any], *answers: str) -> tuple[t.Any, list[Call]]:
    """Execute a document whose model calls are answered one after the other: the body, and the calls."""
    running = gevent.spawn(studio.execute, studio.deploy(found), {"input": "Plan it."})
    calls = []
    for answer in answers:
        calls.append(upstream.next_call())
        say(calls[-1], answer)
    return running.get(timeout=20).get_json(), calls


def test_a_nested_answer_is_parsed_and_its_fields_stand_at_top_level(
    studio: Studio, upstream: Vendor, kind: str
) -> None:
    found = document(MODELS[kind], response_format=TRIP, system="You plan trips.")
    body, (call,) = run(studio, upstream, found, json.dumps(GOOD))
    output = body["output"]
    assert {key: output[key] for key in GOOD} == GOOD
    assert output["content"] == json.dumps(GOOD)
    assert output["finishReason"] == "stop"
    (system,) = [message["content"] for message in call.body["messages"] if message["role"] == "system"]
    if kind == "native":
        assert call.body["response_format"]["json_schema"]["schema"] == TRIP
        assert system == "You plan trips."
    else:
        assert "response_format" not in call.body
        assert system.startswith("You plan trips.\n\n")
        assert json.loads(system[system.index("{") :]) == TRIP


def test_one_fence_around_it_is_taken_off(studio: Studio, upstream: Vendor, kind: str) -> None:
    found = document(MODELS[kind], response_format=TRIP)
    body, _ = run(studio, upstream, found, f"```json\n{json.dumps(GOOD)}\n```\n")
    assert body["output"]["home"] == ROME


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("", "its answer is empty"),
        ("Rome, I would say.", "no valid JSON"),
        ("[1]", "no JSON object"),
        (json.dumps({**GOOD, "home": {"city": "Rome", "days": 0}}), "at home.days"),
        (json.dumps({"stops": [ROME, {"city": "private town"}], "home": ROME}), "at stops[1]"),
        ("[" * 100_000, "no valid JSON"),
    ],
)
def test_an_answer_of_another_form_fails_the_block(
    studio: Studio, upstream: Vendor, kind: str, answer: str, says: str
) -> None:
    body, _ = run(studio, upstream, document(MODELS[kind], response_format=TRIP, retries=0), answer)
    assert body["success"] is False
    assert (body["error"]["code"], body["error"]["blockId"]) == ("structured_output_invalid", "agent_1")
    assert says in body["error"]["message"]
    assert "private town" not in json.dumps(body)


@pytest.mark.parametrize(
    ("reason", "says"),
    [("length", "give more max_tokens"), ("content_filter", "content filter"), ("refusal", "refused")],
)
def test_a_cut_a_filter_and_a_refusal_are_told_apart(
    studio: Studio, upstream: Vendor, kind: str, reason: str, says: str
) -> None:
    workflow = studio.deploy(document(MODELS[kind], response_format=TRIP))
    running = gevent.spawn(studio.execute, workflow, {"input": "Plan it."})
    call = upstream.next_call()
    if reason == "refusal":
        call.send({"refusal": "I would rather not."})
        call.finish()
    else:
        say(call, '{"stops": [', reason)
    error = running.get(timeout=20).get_json()["error"]
    assert error["code"] == "structured_output_invalid"
    assert says in error["message"]


def test_what_is_said_beside_a_tool_call_is_not_parsed(studio: Studio, upstream: Vendor, kind: str) -> None:
    workflow = studio.deploy(document(MODELS[kind], response_format=TRIP, tools=[TOOL]))
    running = gevent.spawn(studio.execute, workflow, {"input": "Plan it."})
    call = upstream.next_call()
    call.text("Let me look.")
    call.send({"tool_calls": [{"index": 0, "id": "t", "function": {"name": "secretive", "arguments": "{}"}}]})
    call.finish("tool_calls")
    say(upstream.next_call(), json.dumps(GOOD))
    output = running.get(timeout=20).get_json()["output"]
    assert output["home"] == ROME
    assert output["toolCalls"]["count"] == 1


def test_a_fallback_of_another_kind_is_asked_in_its_own_way(studio: Studio, upstream: Vendor) -> None:
    found = document(MODELS["native"], response_format=TRIP, fallbacks=[MODELS["told"]], retries=0)
    running = gevent.spawn(studio.execute, studio.deploy(found), {"input": "Plan it."})
    first = upstream.next_call()
    assert "response_format" in first.body
    first.answer(503)
    second = upstream.next_call()
    assert "response_format" not in second.body
    say(second, json.dumps(GOOD))
    assert running.get(timeout=20).get_json()["output"]["home"] == ROME


def test_agents_of_a_sequence_read_the_fields_of_those_before(
    studio: Studio, upstream: Vendor, kind: str
) -> None:
    found = document(MODELS[kind])
    agents = [
        {"model": MODELS[kind], "response_format": TRIP},
        {"model": MODELS[kind], "prompt": "{{ answers[0].home.city }} and {{ answers[0].stops | length }}"},
    ]
    found["blocks"][1] = {"id": "agent_1", "type": "sequential", "config": {"agents": agents}}
    body, calls = run(studio, upstream, found, json.dumps(GOOD), "Fine.")
    assert calls[1].body["messages"][-1]["content"] == "Rome and 2"
    assert body["output"]["answers"][0]["home"] == ROME
    body, _ = run(studio, upstream, found, "Rome")
    assert (body["error"]["code"], body["error"]["blockId"]) == ("structured_output_invalid", "agent_1")


SHADOWS = {"type": "object", "properties": {"cost": {"type": "string"}, "tokens": {"type": "string"}}}
SHADOWED = '{"cost": "cheap", "tokens": "two for the bus"}'


def test_no_field_takes_the_name_of_one_every_output_may_have(
    studio: Studio, upstream: Vendor, kind: str
) -> None:
    """The price of this model is not known, so its output has no ``cost`` of its own."""
    found = document("openai-compatible/field", response_format=SHADOWS)
    output = run(studio, upstream, found, SHADOWED)[0]["output"]
    assert "cost" not in output
    assert set(output["tokens"]) == {"input", "output", "total"}
    assert output["content"] == SHADOWED
    agents = [{"model": MODELS[kind], "response_format": SHADOWS}]
    found["blocks"][1] = {"id": "agent_1", "type": "sequential", "config": {"agents": agents}}
    body, _ = run(studio, upstream, found, SHADOWED)
    assert body["output"]["content"] == SHADOWED
    assert set(body["output"]["tokens"]) == {"input", "output", "total"}


def test_a_participant_of_a_debate_is_held_to_its_form(studio: Studio, upstream: Vendor, kind: str) -> None:
    found = document(MODELS[kind])
    who = [
        {"model": MODELS[kind], "name": "ann", "response_format": TRIP},
        {"model": MODELS[kind], "name": "bob"},
    ]
    debate = {"participants": who, "rounds": 1}
    found["blocks"][1] = {"id": "agent_1", "type": "debate", "config": debate}
    body, _ = run(studio, upstream, found, json.dumps(GOOD), "No.")
    assert [json.loads(body["output"]["statements"][0]["content"]), body["output"]["content"]] == [
        GOOD,
        "No.",
    ]
    body, _ = run(studio, upstream, found, "By train.")
    assert body["error"]["code"] == "structured_output_invalid"
