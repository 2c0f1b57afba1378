"""The kit finds what is wrong with a wire or a claim; a kit that passes everything shows nothing."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import gevent
import pytest

import studio_plugin
from plugins.conformance import Recording, RecordingInvalid, Verdict, check, load, render
from plugins.families import openai_compatible
from plugins.spec import Capabilities, ProviderFamily
from providers import anthropic_messages, openai_chat, spec
from providers.auth import NoAuth

pytest_plugins = ("plugins.conformance.pytest_plugin",)

FIXTURES = Path(__file__).parent / "fixtures"
CHAT = FIXTURES / "openai_chat"
CLAUDE = FIXTURES / "anthropic_messages"

CLAIMS = Capabilities(thinking="full", tools="parallel", structured_output="native")


def family(wire: t.Any = "openai_chat", claims: Capabilities = CLAIMS, **more: t.Any) -> ProviderFamily:
    return replace(
        openai_compatible.FAMILY,
        id="kit",
        wire=wire,
        capabilities=lambda model, row: claims,
        **{"embeddings": None, **more},
    )


def only(verdicts: list[Verdict]) -> Verdict:
    (verdict,) = verdicts
    return verdict


def failures(verdict: Verdict) -> dict[str, str]:
    """What did not pass, by scenario."""
    return {outcome.scenario: outcome.detail for outcome in verdict.outcomes if not outcome.ok}


def differences(verdict: Verdict) -> dict[str, tuple[str, str]]:
    return {claim.name: (claim.claimed, claim.earned) for claim in verdict.claims if not claim.ok}


@pytest.mark.leak_check
def test_a_good_family_conforms() -> None:
    verdict = only(check(family(), CHAT))
    assert (failures(verdict), differences(verdict), verdict.problem) == ({}, {}, "")
    assert verdict.ok
    assert {outcome.scenario for outcome in verdict.outcomes} >= {
        "text", "thinking", "tool", "parallel", "no-arguments", "error", "cut", "stall", "cancel", "replay",
    }  # fmt: skip


def test_the_fixture_checks(conformance: t.Any) -> None:
    assert conformance(family(), CHAT)[0].ok
    with pytest.raises(pytest.fail.Exception, match="DOES NOT CONFORM"):
        conformance(family(claims=Capabilities()), CHAT)


def test_the_public_door_is_the_kit() -> None:
    assert studio_plugin.conformance.check is check


# -- wires that are wrong ----------------------------------------------------------------------------


@dataclass
class Wrong:
    """The chat wire, with ``stream`` in the hands of one of the mutants below."""

    mutant: t.Callable[[spec.ModelRequest, spec.Connection, spec.Waits], Iterator[t.Any]]
    name: str = "openai_chat"

    def stream(self, request: t.Any, connection: t.Any, waits: t.Any) -> t.Any:
        return self.mutant(request, connection, waits)


def chat(request: t.Any, connection: t.Any, waits: t.Any) -> t.Any:
    return closing(t.cast(t.Any, openai_chat.WIRE.stream(request, connection, waits)))


def relay(
    request: t.Any, connection: t.Any, waits: t.Any, change: t.Callable[[t.Any], t.Any]
) -> Iterator[t.Any]:
    """What ``change`` makes of each event; None leaves it out."""
    with chat(request, connection, waits) as stream:
        for batch in stream:
            changed = [made for event in batch if (made := change(event)) is not None]
            if changed:
                yield changed


def loses_the_second_call(request: t.Any, connection: t.Any, waits: t.Any) -> Iterator[t.Any]:
    first: list[str] = []

    def change(event: t.Any) -> t.Any:
        if isinstance(event, (spec.ToolCallStarted, spec.ToolCallReady)):
            first.append(event.id)
            return event if event.id == first[0] else None
        return event

    return relay(request, connection, waits, change)


def cuts_characters(request: t.Any, connection: t.Any, waits: t.Any) -> Iterator[t.Any]:
    return relay(
        request, connection, waits,
        lambda e: spec.TextDelta(e.text.replace("🕒", "\ud83d")) if isinstance(e, spec.TextDelta) else e,
    )  # fmt: skip


def shows_no_thinking(request: t.Any, connection: t.Any, waits: t.Any) -> Iterator[t.Any]:
    return relay(request, connection, waits, lambda e: None if isinstance(e, spec.ThinkingDelta) else e)


def finishes_twice(request: t.Any, connection: t.Any, waits: t.Any) -> Iterator[t.Any]:
    with chat(request, connection, waits) as stream:
        for batch in stream:
            yield batch
            if isinstance(batch[-1], spec.ModelFinished):
                yield [batch[-1]]


def never_finishes(request: t.Any, connection: t.Any, waits: t.Any) -> Iterator[t.Any]:
    return relay(request, connection, waits, lambda e: None if isinstance(e, spec.ModelFinished) else e)


def waits_for_the_end(request: t.Any, connection: t.Any, waits: t.Any) -> Iterator[t.Any]:
    with chat(request, connection, waits) as stream:
        batches = list(stream)
    yield [event for batch in batches for event in batch]


def yields_nothing_at_times(request: t.Any, connection: t.Any, waits: t.Any) -> Iterator[t.Any]:
    yield []
    with chat(request, connection, waits) as stream:
        yield from stream


def yields_rubbish(request: t.Any, connection: t.Any, waits: t.Any) -> Iterator[t.Any]:
    yield [{"text": "hello"}]


def raises_its_own(request: t.Any, connection: t.Any, waits: t.Any) -> Iterator[t.Any]:
    raise KeyError("choices")
    yield


def takes_a_cut_for_whole(request: t.Any, connection: t.Any, waits: t.Any) -> Iterator[t.Any]:
    try:
        with chat(request, connection, waits) as stream:
            yield from stream
    except spec.ProviderError as error:
        if error.code != "provider_bad_stream":
            raise
        yield [spec.ModelFinished("stop", None, None)]


class Unlimited:
    """Waits whose idle limit and gate are never asked."""

    def __init__(self, waits: t.Any) -> None:
        self.wait, self.progress = waits.wait, waits.progress

    def idle_limit(self, seconds: float) -> t.Any:
        return nullcontext()

    def gate(self) -> None:
        """Never asked."""


def has_no_limit(request: t.Any, connection: t.Any, waits: t.Any) -> Iterator[t.Any]:
    with chat(request, connection, Unlimited(waits)) as stream:
        yield from stream


def swallows_stop(request: t.Any, connection: t.Any, waits: t.Any) -> Iterator[t.Any]:
    try:
        with chat(request, connection, waits) as stream:
            yield from stream
    except (GeneratorExit, spec.ProviderError):
        raise
    except BaseException:
        yield [spec.ModelFinished("stop", None, None)]


KEPT: list[t.Any] = []


def leaves_the_connection_open(request: t.Any, connection: t.Any, waits: t.Any) -> Iterator[t.Any]:
    stream = openai_chat.WIRE.stream(request, connection, waits)
    KEPT.append(stream)
    yield from iter(stream.__next__, None)


def reuses_ids(request: t.Any, connection: t.Any, waits: t.Any) -> Iterator[t.Any]:
    with chat(replace(request, used_ids=frozenset()), connection, waits) as stream:
        yield from stream


def forgets_results(request: t.Any, connection: t.Any, waits: t.Any) -> Iterator[t.Any]:
    kept = [message for message in request.messages if not isinstance(message, spec.ToolResult)]
    with chat(replace(request, messages=kept), connection, waits) as stream:
        yield from stream


def asks_without_a_key(request: t.Any, connection: t.Any, waits: t.Any) -> Iterator[t.Any]:
    with chat(request, replace(connection, auth=NoAuth()), waits) as stream:
        yield from stream


def makes_things_up(request: t.Any, connection: t.Any, waits: t.Any) -> Iterator[t.Any]:
    yield [spec.TextDelta("São três horas. 🕒 It is three.")]
    yield [spec.ModelFinished("stop", spec.Usage(11, 9, 20), None)]


WRONG = [
    (loses_the_second_call, "parallel", "calls"),
    (cuts_characters, "text", "half a character"),
    (shows_no_thinking, "thinking", "thinking"),
    (finishes_twice, "text", "after ModelFinished"),
    (never_finishes, "text", "ended without ModelFinished"),
    (waits_for_the_end, "text", "waits for the end"),
    (yields_nothing_at_times, "text", "lists of one event"),
    (yields_rubbish, "text", "a dict, which is no model event"),
    (raises_its_own, "text", "KeyError"),
    (takes_a_cut_for_whole, "cut", "took it for a whole answer"),
    (has_no_limit, "text", "idle_limit"),
    (swallows_stop, "cancel", "swallowed"),
    (leaves_the_connection_open, "cancel", "stays open after the stream was closed"),
    (reuses_ids, "replay", "used before"),
    (forgets_results, "replay", "result 0 of the kit"),
    (asks_without_a_key, "text", "the key is not in the request"),
    (makes_things_up, "text", "idle_limit"),
]


@pytest.mark.parametrize(
    ("mutant", "scenario", "words"), WRONG, ids=lambda value: getattr(value, "__name__", None)
)
def test_a_wrong_wire_fails(
    mutant: t.Any, scenario: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plugins.conformance.scenarios.CLOSE_S", 0.3)
    keyed = replace(openai_compatible.FAMILY.connection, key_required=True)
    verdict = only(check(family(Wrong(mutant), connection=keyed), CHAT))
    assert not verdict.ok
    assert words in failures(verdict).get(scenario, ""), failures(verdict)
    for stream in KEPT:
        stream.close()
    KEPT.clear()


def test_a_wire_that_blocks_outside_a_wait_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plugins.conformance.calling.CALL_S", 0.05)

    def hangs(request: t.Any, connection: t.Any, waits: t.Any) -> Iterator[t.Any]:
        gevent.sleep(3600)
        yield

    verdict = only(check(family(Wrong(hangs)), CHAT))
    assert "nothing ended the call" in failures(verdict)["text"]


@dataclass
class Forgetful:
    """The Messages wire without what has to go back."""

    name: str = "anthropic_messages"

    def stream(self, request: t.Any, connection: t.Any, waits: t.Any) -> t.Any:
        kept = [
            spec.AssistantMessage(message.text, message.calls)
            if isinstance(message, spec.AssistantMessage)
            else message
            for message in request.messages
        ]
        return anthropic_messages.WIRE.stream(replace(request, messages=kept), connection, waits)


def test_a_lost_signature_fails_twice() -> None:
    claims = replace(CLAIMS, thinking_signed=True, structured_output="none")
    verdict = only(check(family(Forgetful(), claims), CLAUDE))
    assert "which the vendor wants back" in failures(verdict)["replay"]
    assert differences(verdict) == {"thinking_signed": ("yes", "no")}


# -- claims that are wrong ---------------------------------------------------------------------------


def without(*scenarios: str) -> list[Recording]:
    return [recording for recording in load(CHAT) if recording.scenario not in scenarios]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"thinking": "none"}, {"thinking": ("none", "shown")}),
        ({"thinking": "hidden"}, {"thinking": ("hidden", "shown")}),
        ({"tools": "none"}, {"tools": ("none", "parallel")}),
        ({"tools": "serial"}, {"tools": ("serial", "parallel")}),
        ({"usage_in_stream": False}, {"usage_in_stream": ("no", "yes")}),
        ({"thinking_signed": True}, {"thinking_signed": ("yes", "no")}),
    ],
)
def test_what_is_shown_has_to_be_claimed(changes: t.Any, expected: t.Any) -> None:
    verdict = only(check(family(claims=replace(CLAIMS, **changes)), CHAT))
    assert differences(verdict) == expected
    assert not verdict.ok


@pytest.mark.parametrize(
    ("left_out", "claimed"),
    [("thinking", "thinking"), ("parallel", "tools"), ("tool", None), ("error", None)],
)
def test_what_is_claimed_has_to_be_shown(left_out: str, claimed: str | None) -> None:
    verdict = only(check(family(), without(left_out)))
    assert failures(verdict) == {left_out: "claimed, not shown"}
    assert not verdict.ok
    if claimed:
        assert claimed in differences(verdict)


def test_a_scenario_that_is_not_claimed_is_absent() -> None:
    claims = replace(CLAIMS, thinking="none", tools="none")
    verdict = only(check(family(claims=claims), without("thinking", "tool", "parallel", "no-arguments")))
    assert verdict.ok, render([verdict])
    states = {outcome.scenario: outcome.state for outcome in verdict.outcomes}
    assert states["parallel"] == states["thinking"] == "absent"


def test_a_claim_that_is_never_asked_for_fails() -> None:
    claims = replace(CLAIMS, thinking_control=("low", "high"))
    verdict = only(check(family(claims=claims, dialect={"thinking": "never"}), CHAT))
    assert differences(verdict) == {"thinking_control": ("low, high", "not in the request")}


def test_an_unrecorded_family_does_not_pass() -> None:
    verdict = only(check(family()))
    assert not verdict.ok
    assert "nothing is recorded" in verdict.problem
    assert "DOES NOT CONFORM" in render([verdict])


def test_a_family_that_studio_refuses_says_why() -> None:
    verdict = only(check(family("no_such_wire"), CHAT))
    assert "unknown wire" in verdict.problem


# -- recordings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "meta", "words"),
    [
        ("texts", {}, "a recording is called"),
        ("text", {"model": "m"}, "it needs model"),
        ("text", {"model": "m", "expected": {"txt": ""}}, "unknown txt"),
        ("text", {"model": "m", "framng": "sse", "expected": {}}, "unknown framng"),
        ("text", {"model": "m", "framing": "xml", "expected": {}}, "framing is one of"),
        ("text", {"model": "m", "expected": {"calls": [{"name": "x"}]}}, "KeyError"),
        ("error", {"model": "m", "expected": {}}, "an error recording"),
        ("text", {"model": "m", "expected": {"usage": {"prompt_tokens": 1}}}, "unknown prompt_tokens"),
    ],
)
def test_a_recording_that_says_something_else_is_refused(
    tmp_path: Path, name: str, meta: t.Any, words: str
) -> None:
    (tmp_path / f"{name}.json").write_text(json.dumps(meta))
    (tmp_path / f"{name}.chunks").write_text("{}\n")
    with pytest.raises(RecordingInvalid, match=words):
        load(tmp_path)
    assert words in only(check(family(), tmp_path)).problem


def test_framings(tmp_path: Path) -> None:
    lines = {"sse": '{"a":1}\n:x\n', "lines": '{"a":1}\n', "text": '"a\\n"\n', "base64": "AAE=\n"}
    for number, (framing, text) in enumerate(lines.items()):
        meta = {"model": "m", "framing": framing, "expected": {}}
        (tmp_path / f"text-{number}.json").write_text(json.dumps(meta))
        (tmp_path / f"text-{number}.chunks").write_text(text)
    assert [recording.pieces for recording in load(tmp_path)] == [
        (b'data: {"a":1}\n\n', b":x\n\n"),
        (b'{"a":1}\n',),
        (b"a\n",),
        (b"\0\1",),
    ]
