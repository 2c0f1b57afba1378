"""Every built-in family conforms: one model of each kind it claims, with the recordings of its wire.

The recordings under ``fixtures/`` are written for this test, one folder a wire. They show that a family's address,
authentication, dialect and wire carry what it claims; what vendors really send is shown by tests/recordings.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import typing as t
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from app import builtins, config
from plugins.conformance import Recording, check, load, render
from plugins.conformance.rig import environment
from plugins.families import local, scripted
from plugins.manager import create_manager
from plugins.registry import Registry
from plugins.spec import Capabilities, ProviderFamily
from providers.local import LocalWire
from providers.supervisor import Address
from tests.providers.aws_frames import event, exception
from tests.support.servers import studio
from tests.support.shared import ROOT

FIXTURES = Path(__file__).parent / "fixtures"

#: Families whose wire takes no bytes, with the test that holds them instead.
ELSEWHERE = {
    "scripted": "test_scripted_is_called_directly",
    "local": "test_local_conforms_at_an_address_that_exists",
    "litellm": "test_the_bridge_conforms_through_litellm_itself",
}

#: Variables beside address, key and required settings, by family.
ENVIRON: dict[str, dict[str, str]] = {
    "bedrock": {"AWS_REGION": "us-east-1"},
    "watsonx": {"WATSONX_TOKEN": "kit", "WATSONX_PROJECT_ID": "kit"},
}

#: Wires that speak another's protocol, and whose recordings they are held with.
SAME_BYTES = {"watsonx_chat": "openai_chat"}


@dataclass(frozen=True)
class Kind:
    """A model that stands for all of its family with the same claims about what a stream shows."""

    family: str
    model: str
    wire: str
    inline: str

    def __str__(self) -> str:
        return f"{self.family}/{self.model}"


@cache
def registry() -> Registry:
    return Registry(create_manager(False, builtins.plugins(config.load({}))))


def wire_of(family: ProviderFamily, model: str) -> str:
    wire = (family.model_wire(model) if family.model_wire else None) or family.wire
    return wire if isinstance(wire, str) else wire.name


def inline_of(family: ProviderFamily, model: str) -> str:
    """How the model's thinking is told inside its text: ``""``, ``inline`` or ``implicit``."""
    switches = {**family.dialect, **(family.model_dialect(model) if family.model_dialect else {})}
    given = switches.get("inline_thinking")
    return "inline" if given is True else str(given or "")


def kinds() -> list[Kind]:
    found: dict[t.Any, Kind] = {}
    for family in registry().families.values():
        if family.id in ELSEWHERE:
            continue
        for model in list(registry().models(family)[0]) or ["any-model"]:
            claims = registry().capabilities(family, model)
            kind = Kind(family.id, model, wire_of(family, model), inline_of(family, model))
            shown = (claims.thinking, claims.thinking_signed, claims.tools, claims.usage_in_stream)
            found.setdefault((family.id, kind.wire, kind.inline, *shown), kind)
    return list(found.values())


def suited(recordings: list[Recording], claims: Capabilities) -> list[Recording]:
    """Those that a model with these claims would send: a vendor that hides thinking sends none, and so on.

    Variants carry their condition in their name: ``thinking-hidden``, ``thinking-unsigned``.
    """
    left_out = {
        "none": ["tool", "parallel", "no-arguments"],
        "serial": ["parallel"],
        "parallel": [],
    }[claims.tools]
    return [
        recording
        for recording in recordings
        if recording.scenario not in left_out
        and (recording.scenario != "thinking" or _thinks(recording, claims))
        and (claims.thinking_signed or not recording.signature)
        and ("unsigned" not in recording.title or not claims.thinking_signed)
    ]


def _thinks(recording: Recording, claims: Capabilities) -> bool:
    return claims.thinking != "none" and (claims.thinking == "hidden") == ("hidden" in recording.title)


@cache
def recordings_of(wire: str, inline: str = "") -> list[Recording]:
    """The recordings of a wire; AWS's frames are made of their readable form here.

    :param inline: how thinking is told inside the text; the answers of such a model all begin with it.
    """
    found = load(FIXTURES / SAME_BYTES.get(wire, wire))
    if inline:
        other = load(FIXTURES / f"{wire}-{inline}")
        found = [
            r for r in found if r.scenario not in ("text", "thinking") and r.title != "error-inside"
        ] + other
    if not wire.startswith("bedrock"):
        return found
    return [
        replace(recording, pieces=tuple(map(framed, recording.pieces)))
        if recording.status == 200
        else recording
        for recording in found
    ]


def framed(line: bytes) -> bytes:
    """``{"<event>": {…}}`` as one message of an AWS event stream."""
    ((kind, value),) = json.loads(line).items()
    return exception(kind, value) if kind.endswith("Exception") else event(kind, value)


@pytest.mark.parametrize("kind", kinds(), ids=str)
def test_it_conforms(kind: Kind) -> None:
    family = registry().families[kind.family]
    claims = registry().capabilities(family, kind.model)
    recordings = suited(recordings_of(kind.wire, kind.inline), claims)
    (verdict,) = check(family, recordings, model=kind.model, environ=ENVIRON.get(kind.family))
    assert verdict.wire == kind.wire
    assert verdict.ok, "\n" + render([verdict])


def test_bedrock_signs_and_azure_fetches_a_token() -> None:
    """The other ways to log in: keys that sign, and a client's token from an endpoint."""
    keys = {"STUDIO_BEDROCK_API_KEY": "", "AWS_ACCESS_KEY_ID": "AKIDKIT", "AWS_SECRET_ACCESS_KEY": "s3cr3t"}
    model = next(kind.model for kind in kinds() if kind.family == "bedrock")
    claims = registry().capabilities(registry().families["bedrock"], model)
    (verdict,) = check(
        registry().families["bedrock"],
        suited(recordings_of("bedrock_converse"), claims),
        model=model,
        environ={**ENVIRON["bedrock"], **keys},
    )
    assert verdict.ok, "\n" + render([verdict])
    (verdict,) = check(
        registry().families["azure"],
        suited(recordings_of("openai_responses"), registry().capabilities_of("azure/gpt-4.1")),
        model="gpt-4.1",
        environ={
            "STUDIO_AZURE_API_KEY": "",
            "AZURE_AUTHORITY_HOST": "{base}",
            "AZURE_TENANT_ID": "kit",
            "AZURE_CLIENT_ID": "client",
            "AZURE_CLIENT_SECRET": "s3cr3t",
        },
        routes={"/kit/oauth2/v2.0/token": {"access_token": "kit-token", "expires_in": 3600}},
    )
    assert verdict.ok, "\n" + render([verdict])


def test_scripted_is_called_directly() -> None:
    """Its models are scripts, one for each part of what the family claims."""
    folder = FIXTURES / "scripted"
    (verdict,) = check(scripted.family(lambda: folder), load(folder))
    assert verdict.ok, "\n" + render([verdict])
    states = {outcome.scenario: outcome.state for outcome in verdict.outcomes}
    assert (states["cut"], states["stall"], states["cancel"]) == ("unfit", "unfit", "passed")


class StandIn:
    """A supervisor whose model is the kit's own server; what starts the true one has its own tests."""

    def __init__(self) -> None:
        self.address = Address(0, "")

    def ensure(self, waits: t.Any) -> Address:
        return self.address

    def doubt(self, address: Address) -> None:
        raise AssertionError("the kit's server is up")


def test_local_conforms_at_an_address_that_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = StandIn()
    known = environment

    def noted(family: ProviderFamily, base: str, ground: t.Any) -> dict[str, str]:
        stand_in.address = Address(int(base.rpartition(":")[2]), "kit")
        return known(family, base, ground)

    monkeypatch.setattr("plugins.conformance.rig.environment", noted)
    family = replace(local.family(tmp_path), wire=LocalWire(t.cast(t.Any, stand_in)))
    claims = registry().capabilities_of("local/smollm2-135m")
    (verdict,) = check(family, suited(recordings_of("openai_chat"), claims), model="smollm2-135m")
    assert verdict.ok, "\n" + render([verdict])


_LOADED = """
import sys
from app.cli import main
from plugins.conformance.waits import KitWaits
from providers.litellm_loading import load
load(KitWaits())
sys.exit(main())
"""


@pytest.mark.slow
def test_the_bridge_conforms_through_litellm_itself(tmp_path: Path) -> None:
    """In a process of its own: litellm is not for this one. It is imported first: that takes as long as it takes."""
    folder = tmp_path / "recordings"
    folder.mkdir()
    for title in ("text", "thinking", "tool", "parallel", "no-arguments", "error"):
        given = json.loads((FIXTURES / "openai_chat" / f"{title}.json").read_text())
        # litellm counts the share of thinking itself, so the bridge does not say it.
        (given["expected"].get("usage") or {}).pop("reasoning", None)
        (folder / f"{title}.json").write_text(json.dumps(given))
        if title != "error":
            shutil.copy(FIXTURES / "openai_chat" / f"{title}.chunks", folder)
    with studio(tmp_path / "data", start=False) as made:
        done = subprocess.run(
            [
                sys.executable, "-c", _LOADED, "conformance", "--plugin", "studio", "--family", "litellm",
                "--model", "openai/kit-model", "--recordings", str(folder),
            ],
            cwd=ROOT, env=made.env(), capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
    assert "litellm/openai/kit-model over litellm_bridge: conforms" in done.stdout, done.stdout + done.stderr


def test_every_family_is_held() -> None:
    held = {kind.family for kind in kinds()} | ELSEWHERE.keys()
    assert set(registry().families) <= held
    assert all(name in globals() for family, name in ELSEWHERE.items() if family in registry().families)
