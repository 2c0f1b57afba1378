"""Capabilities: what a family claims beside what its recordings earned.

Law of this room: bytes decide what they can decide, both ways. What a vendor takes (levels, forced tools, files, a
schema) no recording of an answer shows; there the kit shows only that a claimed thing is really asked for.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence

from plugins.conformance.calling import Broken, Heard
from plugins.conformance.recordings import Recording
from plugins.conformance.rig import Rig
from plugins.conformance.server import answer_of
from plugins.conformance.verdict import Claim
from plugins.spec import Capabilities
from providers import spec

#: What a claim about thinking looks like from outside: bytes cannot tell a summary from the whole.
SEEN_AS: Mapping[str, str] = {
    "none": "none",
    "hidden": "hidden",
    "summary": "shown",
    "full": "shown",
    "as_sent": "shown",
}
_SCHEMA = {
    "type": "object",
    "properties": {"answer_of_the_kit": {"type": "string"}},
    "required": ["answer_of_the_kit"],
    "additionalProperties": False,
}
_DATA = b"\x00conformance kit\x00"
_TOOL = spec.ToolSpec("kit_tool", "A tool.", {"type": "object", "properties": {}})


def earned(
    claims: Capabilities,
    heard: Mapping[str, Sequence[Heard]],
    recordings: Sequence[Recording],
    signed: bool,
) -> list[Claim]:
    """The capabilities that bytes decide.

    :param heard: by title of each recording that passed, what was heard.
    :param signed: a signature went back with the next turn.
    """
    answers = [each for group in heard.values() for each in group if each.finished is not None]
    thinking = "none"
    if any(each.thinking for each in answers):
        thinking = "shown"
    elif any(each.redacted or (each.usage and each.usage.reasoning) for each in answers):
        thinking = "hidden"
    passed = {recording.scenario for recording in recordings if recording.title in heard}
    tools = "parallel" if "parallel" in passed else "serial" if "tool" in passed else "none"
    counted = bool(answers) and all(
        each.usage is not None and each.usage.input is not None and each.usage.output is not None
        for each in answers
    )
    return [
        Claim("thinking", claims.thinking, thinking, SEEN_AS[claims.thinking] == thinking),
        _flag("thinking_signed", claims.thinking_signed, signed),
        Claim("tools", claims.tools, tools, claims.tools == tools),
        _flag("usage_in_stream", claims.usage_in_stream, counted),
    ]


def _flag(name: str, claimed: bool, shown: bool) -> Claim:
    return Claim(name, "yes" if claimed else "no", "yes" if shown else "no", claimed == shown)


def asked_for(rig: Rig, claims: Capabilities, text: Recording) -> list[Claim]:
    """The capabilities a request shows: what is claimed has to be asked for.

    :param text: what the server answers meanwhile.
    """
    plain = _body(rig, text)
    with_tool = _body(rig, text, tools=(_TOOL,))
    found = []
    if claims.structured_output == "native":
        found.append(
            _asked("structured_output", "native", _body(rig, text, response_format=_SCHEMA) != plain)
        )
    if claims.tools != "none" and claims.forced_tool_choice:
        forced = _body(rig, text, tools=(_TOOL,), tool_choice="required")
        found.append(_asked("forced_tool_choice", "yes", forced != with_tool))
    # "auto" is the vendor's own default and may be said by saying nothing; a budget stands beside levels.
    levels = [level for level in claims.thinking_control if level not in ("auto", "budget")]
    if levels:
        changed = any(_body(rig, text, thinking=level) != plain for level in levels)
        found.append(_asked("thinking_control", ", ".join(claims.thinking_control), changed))
    for kind in claims.inputs:
        if kind in ("image", "pdf"):
            found.append(_asked(f"inputs: {kind}", "yes", _carries(rig, text, kind)))
    return found


def _carries(rig: Rig, text: Recording, kind: str) -> bool:
    part = spec.FilePart("image", "image/png", _DATA, "kit.png")
    if kind == "pdf":
        part = spec.FilePart("pdf", "application/pdf", _DATA, "kit.pdf")
    body = _body(rig, text, messages=[spec.UserMessage("What is this?", (part,))])
    return base64.b64encode(_DATA) in body or _DATA in body


def _asked(name: str, claimed: str, asked: bool) -> Claim:
    return Claim(name, claimed, "asked for" if asked else "not in the request", asked)


def _body(rig: Rig, text: Recording, **request: object) -> bytes:
    """The body of a request; the answer to it is played and forgotten."""
    heard, _ = rig.ask(answer_of(text), **request)
    if heard.error is not None or rig.last is None:
        raise Broken(f"a plain request failed: {heard.error}")
    return rig.last.body
