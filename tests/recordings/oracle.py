"""What a vendor needs back of a recorded turn, worked out from its raw bytes alone (``providers.md`` section 2).

Law of this room: nothing here imports the program; the bytes are taken apart by the recordings' own ``expect.py``.
Each function of :data:`REPLAYED` gives the part of the next request's body that belongs to the turn before it, as
``(found in the request, made from the bytes)``; the two must be equal.
"""

from __future__ import annotations

import json
import typing as t

from tests.support.shared import shared_module

Json = dict[str, t.Any]
Pair = tuple[t.Any, t.Any]


def replayed(entry: Json, request: Json) -> Pair:
    """See the module. ``request``: the body sent after the turn of ``entry``."""
    expect = shared_module("recordings", "expect.py")
    return REPLAYED[entry["wire"]](expect, expect.read_body(entry), request)


def _values(expect: t.Any, body: bytes) -> list[Json]:
    found, _ = expect.sse_events(body)
    return [json.loads(data) for _, data, _ in found if data != "[DONE]"]


# -- anthropic ---------------------------------------------------------------------------------


def _blocks(values: list[Json]) -> list[Json]:
    """The content blocks of a message stream, put together as the vendor documents it."""
    blocks: dict[int, Json] = {}
    texts: dict[int, str] = {}
    for value in values:
        if value.get("type") == "content_block_start":
            blocks[value["index"]] = dict(value["content_block"])
        elif value.get("type") == "content_block_delta":
            _apply(blocks[value["index"]], value["delta"], texts, value["index"])
    for index, text in texts.items():
        blocks[index]["input"] = json.loads(text) if text else blocks[index].get("input") or {}
    return [block for _, block in sorted(blocks.items()) if block.get("text") != ""]


def _apply(block: Json, delta: Json, texts: dict[int, str], index: int) -> None:
    match delta["type"]:
        case "text_delta":
            block["text"] = block.get("text", "") + delta["text"]
        case "thinking_delta":
            block["thinking"] = block.get("thinking", "") + delta["thinking"]
        case "signature_delta":
            block["signature"] = block.get("signature", "") + delta["signature"]
        case "input_json_delta":
            texts[index] = texts.get(index, "") + delta["partial_json"]
        case "citations_delta":
            block["citations"] = [*(block.get("citations") or []), delta["citation"]]


def _tail(messages: list[Json]) -> tuple[list[Json], list[str]]:
    """The last assistant message's content and the ids of the results that answer it."""
    assistant, results = messages[-2], messages[-1]
    assert (assistant["role"], results["role"]) == ("assistant", "user")
    return assistant["content"], [
        str((part.get("toolResult") or {}).get("toolUseId") or part.get("tool_use_id"))
        for part in results["content"]
        if "cachePoint" not in part  # a mark, no answer
    ]


def _anthropic(expect: t.Any, body: bytes, request: Json) -> Pair:
    blocks = _blocks(_values(expect, body))
    ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
    return _tail(request["messages"]), (blocks, ids)


def _invoke(expect: t.Any, body: bytes, request: Json) -> Pair:
    import base64

    values = [json.loads(base64.b64decode(json.loads(p)["bytes"])) for _, p in expect.aws_messages(body)]
    blocks = _blocks(values)
    ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
    return _tail(request["messages"]), (blocks, ids)


# -- bedrock -----------------------------------------------------------------------------------


def _converse(expect: t.Any, body: bytes, request: Json) -> Pair:
    blocks: dict[int, Json] = {}
    inputs: dict[int, str] = {}
    for headers, payload in expect.aws_messages(body):
        value, kind = json.loads(payload), headers.get(":event-type")
        index = value.get("contentBlockIndex")
        if kind == "contentBlockStart":
            use = value["start"]["toolUse"]
            blocks[index] = {"toolUse": {"toolUseId": use["toolUseId"], "name": use["name"]}}
        elif kind == "contentBlockDelta":
            _converse_delta(blocks.setdefault(index, {}), value["delta"], inputs, index)
    for index, block in blocks.items():
        if "toolUse" in block:
            block["toolUse"]["input"] = json.loads(inputs.get(index) or "{}")
    made = [block for _, block in sorted(blocks.items()) if block.get("text") != ""]
    ids = [block["toolUse"]["toolUseId"] for block in made if "toolUse" in block]
    return _tail(request["messages"]), (made, ids)


def _converse_delta(block: Json, delta: Json, inputs: dict[int, str], index: int) -> None:
    if "text" in delta:
        block["text"] = block.get("text", "") + delta["text"]
    elif "toolUse" in delta:
        inputs[index] = inputs.get(index, "") + delta["toolUse"]["input"]
    elif "reasoningContent" in delta:
        thinking = delta["reasoningContent"]
        content = block.setdefault("reasoningContent", {})
        if "redactedContent" in thinking:
            content["redactedContent"] = thinking["redactedContent"]
            return
        text = content.setdefault("reasoningText", {"text": ""})
        text["text"] += thinking.get("text", "")
        if "signature" in thinking:
            text["signature"] = thinking["signature"]


# -- chat completions --------------------------------------------------------------------------


def _chat(expect: t.Any, body: bytes, request: Json) -> Pair:
    """Content, calls, the vendor's own thinking fields, and the results in call order."""
    seen = expect.Seen()
    expect.openai_chat(body, seen)
    thinking: dict[str, str] = {}
    details: list[t.Any] = []
    for value in _values(expect, body):
        for choice in value.get("choices") or []:
            delta = choice.get("delta") or {}
            details += delta.get("reasoning_details") or []
            for name in expect.REASONING:
                if isinstance(delta.get(name), str) and delta[name]:
                    thinking[name] = thinking.get(name, "") + delta[name]
    messages = request["messages"]
    assistant = max(n for n, message in enumerate(messages) if message["role"] == "assistant")
    sent = messages[assistant]
    calls = seen.done()["tool_calls"]
    found = {
        "text": sent.get("content") or "",
        "calls": [
            (c["function"]["name"], json.loads(c["function"]["arguments"])) for c in sent["tool_calls"]
        ],
        "ids": [c["id"] for c in sent["tool_calls"]],
        "results": [m["tool_call_id"] for m in messages[assistant + 1 :]],
        "details": sent.get("reasoning_details") or [],
        "thinking": {name: sent[name] for name in expect.REASONING if sent.get(name)},
    }
    ids = [c["id"] or sent["tool_calls"][n]["id"] for n, c in enumerate(calls)]
    made = {
        "text": "".join(seen.text),
        "calls": [(c["name"], c["input"]) for c in calls],
        "ids": ids,
        "results": ids,
        "details": details,
        "thinking": thinking,
    }
    return found, made


# -- responses ---------------------------------------------------------------------------------


def _responses(expect: t.Any, body: bytes, request: Json) -> Pair:
    items = [v["item"] for v in _values(expect, body) if v.get("type") == "response.output_item.done"]
    calls = [item["call_id"] for item in items if item["type"] == "function_call"]
    sent = request["input"]
    tail = len(sent) - len(calls)
    return (
        sent[tail - len(items) : tail],
        [(item["type"], item["call_id"]) for item in sent[tail:]],
    ), (items, [("function_call_output", call) for call in calls])


# -- gemini ------------------------------------------------------------------------------------


def _gemini(expect: t.Any, body: bytes, request: Json) -> Pair:
    """Calls and signatures part by part, the text as a whole (its pieces may be joined)."""
    text = body.lstrip()
    values = json.loads(text) if text[:1] == b"[" else _values(expect, body)
    parts = [
        part
        for value in values
        for candidate in value.get("candidates") or []
        for part in (candidate.get("content") or {}).get("parts") or []
    ]
    contents = request["contents"]
    assert (contents[-2]["role"], contents[-1]["role"]) == ("model", "user")
    answered = [part["functionResponse"] for part in contents[-1]["parts"]]
    called = [part["functionCall"] for part in parts if "functionCall" in part]
    return (
        _gemini_parts(contents[-2]["parts"]),
        [(answer["name"], answer.get("id")) for answer in answered],
    ), (_gemini_parts(parts), [(call["name"], call.get("id")) for call in called])


def _gemini_parts(parts: list[Json]) -> Json:
    return {
        "calls": [part for part in parts if "functionCall" in part],
        "signatures": [part["thoughtSignature"] for part in parts if "thoughtSignature" in part],
        "text": "".join(part.get("text", "") for part in parts if not part.get("thought")),
    }


# -- cohere ------------------------------------------------------------------------------------


def _cohere(expect: t.Any, body: bytes, request: Json) -> Pair:
    seen = expect.Seen()
    expect.cohere(body, seen) if hasattr(expect, "cohere") else expect.WIRES["cohere-v2"](body, seen)
    calls = seen.done()["tool_calls"]
    messages = request["messages"]
    at = max(n for n, message in enumerate(messages) if message["role"] == "assistant")
    sent = messages[at]
    plan = "".join(
        ((value.get("delta") or {}).get("message") or {}).get("tool_plan") or ""
        for value in _values(expect, body)
    )
    found = (
        sent.get("tool_plan") or "",
        [
            (c["id"], c["function"]["name"], json.loads(c["function"]["arguments"]))
            for c in sent["tool_calls"]
        ],
        [message["tool_call_id"] for message in messages[at + 1 :]],
    )
    return found, (plan, [(c["id"], c["name"], c["input"]) for c in calls], [c["id"] for c in calls])


REPLAYED: dict[str, t.Callable[[t.Any, bytes, Json], Pair]] = {
    "anthropic-messages": _anthropic,
    "bedrock-invoke-anthropic": _invoke,
    "bedrock-converse": _converse,
    "openai-chat": _chat,
    "openai-responses": _responses,
    "gemini": _gemini,
    "cohere-v2": _cohere,
}
