"""The kit holds embeddings: what is claimed and not shown, shown and not claimed, and wires that do it wrong."""

from __future__ import annotations

import json
import typing as t
from array import array
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from plugins.conformance import RecordingInvalid, Verdict, check, load, render
from plugins.families import openai_compatible
from plugins.spec import Embeddings, ProviderFamily
from providers import openai_embeddings
from providers.embedding import HttpEmbeddingWire
from providers.spec import Embedded, EmbeddingRequest, ProviderError

ANSWER = {"data": [{"embedding": [0.5, 1.0]}, {"embedding": [2.0, -1.5]}], "usage": {"prompt_tokens": 7}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    expected = {"vectors": [[0.5, 1.0], [2.0, -1.5]], "usage": {"input": 7}}
    recording = {"model": "m", "body": ANSWER, "expected": expected}
    (tmp_path / "embedding.json").write_text(json.dumps(recording))
    return tmp_path


def family(wire: t.Any = "openai_embeddings") -> ProviderFamily:
    """A family with this embedding wire; None: without embeddings."""
    facts = None if wire is None else Embeddings(wire=wire, source="the kit's test")
    return replace(openai_compatible.FAMILY, id="kit", embeddings=facts)


def only(verdicts: list[Verdict]) -> Verdict:
    (verdict,) = verdicts
    return verdict


def states(verdict: Verdict) -> dict[str, str]:
    return {outcome.scenario: outcome.state for outcome in verdict.outcomes}


def test_a_good_family_conforms(folder: Path) -> None:
    verdict = only(check(family(), folder))
    assert verdict.ok, render([verdict])
    assert states(verdict) == dict.fromkeys(("embedding", "cut", "stall", "cancel"), "passed")


def test_a_claim_has_to_be_shown(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "text.json").write_text(json.dumps({"model": "m", "expected": {"text": "hi"}}))
    (tmp_path / "text.chunks").write_text('{"choices": [{"delta": {"content": "hi"}}]}\n[DONE]\n')
    (folder / "embedding.json").unlink()
    *_, verdict = check(family(), tmp_path)
    assert (states(verdict), verdict.ok) == ({"embedding": "missing"}, False)
    assert all(each.model == "m" for each in check(family(None), tmp_path))


def test_what_is_recorded_has_to_be_claimed(folder: Path) -> None:
    verdict = only(check(family(None), folder))
    assert not verdict.ok
    assert [(claim.claimed, claim.earned) for claim in verdict.claims] == [("no", "recorded")]


def test_a_wire_that_nobody_has_is_told(folder: Path) -> None:
    assert "no_such_wire" in only(check(family("no_such_wire"), folder)).problem


class Around:
    """OpenAI's wire with something done to each call."""

    name = "around"

    def __init__(self, act: Callable[[Callable[[], Embedded]], Embedded]) -> None:
        self.act = act

    def embed(self, request: EmbeddingRequest, connection: t.Any, waits: t.Any) -> Embedded:
        return self.act(lambda: openai_embeddings.WIRE.embed(request, connection, waits))


def swapped(call: Callable[[], Embedded]) -> Embedded:
    found = call()
    return Embedded(found.vectors[::-1], found.usage)


def uncounted(call: Callable[[], Embedded]) -> Embedded:
    return Embedded(call().vectors)


def made_up(call: Callable[[], Embedded]) -> Embedded:
    try:
        return call()
    except BaseException:
        return Embedded((array("f", (0.0, 0.0)),) * 2)


def retold(call: Callable[[], Embedded]) -> Embedded:
    try:
        return call()
    except ProviderError:
        raise ProviderError("provider_rate_limited", "Slow down.") from None


@pytest.mark.parametrize(
    ("act", "failed"),
    [
        (swapped, {"embedding"}),
        (uncounted, {"embedding"}),
        (made_up, {"cut", "stall", "cancel"}),
        (retold, {"cut", "stall"}),
    ],
)
def test_a_wire_that_does_it_wrong_fails(folder: Path, act: t.Any, failed: set[str]) -> None:
    verdict = only(check(family(Around(act)), folder))
    assert {name for name, state in states(verdict).items() if state == "failed"} == failed


def test_a_wire_that_reads_another_shape_fails(folder: Path) -> None:
    wire = HttpEmbeddingWire(
        "other", openai_embeddings.build_request, lambda answer: (answer.value["dots"], None)
    )
    assert states(only(check(family(wire), folder)))["embedding"] == "failed"


@pytest.mark.parametrize("expected", [{}, {"text": "hi"}])
def test_a_recording_without_vectors_is_none(tmp_path: Path, expected: t.Any) -> None:
    (tmp_path / "embedding.json").write_text(json.dumps({"model": "m", "body": ANSWER, "expected": expected}))
    with pytest.raises(RecordingInvalid, match=r"expected\.vectors"):
        load(tmp_path)
