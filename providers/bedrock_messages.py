"""A conversation as Converse wants it: roles in turn, blocks in order, results together.

Law of this room: an assistant turn this wire made goes back as it came, apart from thinking that its model does not
take back. What follows each other on one side is one message. Names and ids are put into the vendor's alphabets.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence

from providers.request_parts import file_text, hashed, safe_name
from providers.spec import AssistantMessage, FilePart, Json, Message, ModelRequest, ToolResult, UserMessage

_UNSAFE_ID = re.compile(r"[^A-Za-z0-9_.:-]")
_MOST_ID = 64
#: A document's name: letters and digits of ASCII, single spaces, hyphens, brackets (API reference: DocumentBlock).
_UNSAFE_NAME = re.compile(r"[^A-Za-z0-9()\[\]-]+")
_MOST_NAME = 190
#: A blank text is refused; what a tool that said nothing is said to have said.
_NOTHING = "(no output)"


def messages(request: ModelRequest, wire: str) -> list[Json]:
    """The conversation as ``messages`` of the body.

    :param wire: whose ``replay`` is used.
    """
    send_back = request.dialect.get("send_back", "text")
    status = bool(request.dialect.get("result_status"))
    names = _DocumentNames()
    settled: set[str] = set()
    sent: list[Json] = []
    for message in request.messages:
        if isinstance(message, UserMessage):
            role, content = "user", _user(message, names)
        elif isinstance(message, ToolResult):
            role = "user"
            content = [] if safe_id(message.call_id) in settled else [_result(message, status)]
        else:
            role, content = "assistant", _assistant(message, wire, send_back)
            settled = {block["toolResult"]["toolUseId"] for block in content if "toolResult" in block}
        if not content:
            continue
        if sent and sent[-1]["role"] == role:
            sent[-1]["content"].extend(content)
        else:
            sent.append({"role": role, "content": content})
    return sent


def named_tools(conversation: Sequence[Message]) -> list[str]:
    """The tools that earlier turns called, each once, in order."""
    names: dict[str, None] = {}
    for message in conversation:
        if isinstance(message, AssistantMessage):
            names.update(dict.fromkeys(safe_name(call.name) for call in message.calls))
    return list(names)


def safe_id(call_id: str) -> str:
    """An id in the alphabet and length that the vendor accepts; other wires' vendors use more."""
    safe = _UNSAFE_ID.sub("_", call_id)
    return safe if len(safe) <= _MOST_ID else hashed(call_id)


class _DocumentNames:
    """Names of documents: in the vendor's alphabet, each once in a request."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def name(self, wanted: str) -> str:
        """``wanted`` without its ending, or a number behind it where that is taken."""
        stem = wanted.rpartition(".")[0] or wanted
        stem = _UNSAFE_NAME.sub(" ", stem).strip()[:_MOST_NAME].strip() or "document"
        name, number = stem, 1
        while name in self._given:
            number += 1
            name = f"{stem} {number}"
        self._given.add(name)
        return name


def _user(message: UserMessage, names: _DocumentNames) -> list[Json]:
    """Files, then the text; a document is refused without a text beside it."""
    content = [_file(file, names) for file in message.files]
    if message.text.strip() or not content:
        content.append({"text": message.text})
    elif all("text" not in block for block in content) and any("document" in block for block in content):
        content.append({"text": ", ".join(file.name or file.kind for file in message.files)})
    return content


def _file(file: FilePart, names: _DocumentNames) -> Json:
    if file.kind == "text":
        return {"text": file_text(file)}
    source = {"bytes": base64.b64encode(file.data).decode()}
    if file.kind == "pdf":
        return {"document": {"format": "pdf", "name": names.name(file.name), "source": source}}
    kind = file.media_type.partition("/")[2].lower()
    return {"image": {"format": {"jpg": "jpeg"}.get(kind, kind), "source": source}}


def _result(message: ToolResult, status: bool) -> Json:
    result: Json = {
        "toolUseId": safe_id(message.call_id),
        "content": [{"text": message.content if message.content.strip() else _NOTHING}],
    }
    if status:
        result["status"] = "error" if message.is_error else "success"
    return {"toolResult": result}


def _assistant(message: AssistantMessage, wire: str, send_back: str) -> list[Json]:
    if message.wire == wire and isinstance(message.replay, list):
        return [kept for block in message.replay if (kept := _kept(block, send_back)) is not None]
    content: list[Json] = [{"text": message.text}] if message.text.strip() else []
    content.extend(
        {
            "toolUse": {
                "toolUseId": safe_id(call.id),
                "name": safe_name(call.name),
                "input": call.arguments or {},
            }
        }
        for call in message.calls
    )
    return content


def _kept(block: Json, send_back: str) -> Json | None:
    """A block of an earlier turn, as its model takes it back; None when it does not."""
    thinking = block.get("reasoningContent")
    if thinking is not None and send_back != "all":
        text = thinking.get("reasoningText", {}).get("text")
        if send_back == "none" or not text:
            return None
        return {"reasoningContent": {"reasoningText": {"text": text}}}
    for kind in ("toolUse", "toolResult"):
        if kind in block:
            kept = {**block[kind], "toolUseId": safe_id(str(block[kind].get("toolUseId")))}
            if "name" in kept:
                kept["name"] = safe_name(str(kept["name"]))
            return {kind: kept}
    return block
