"""What the request sides of several wires have in common: addresses, tools, calls and files.

Law of this room: no vendor is named here. The switches ``path`` and ``query`` mean the same on every wire.

====================  =======================================================================================
switch                meaning
====================  =======================================================================================
``path``              where the wire posts, below the base address. ``{model}`` and the connection's options in
                      braces are filled in; default: the wire's own
``query``             mapping added to the address; values may name options in braces, and one that comes out
                      empty is left out; default: the wire's own
====================  =======================================================================================
"""

from __future__ import annotations

import base64
import hashlib
import re
import typing as t
from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlencode

from providers.errors import failure
from providers.spec import (
    Connection,
    EmbeddingRequest,
    FilePart,
    HttpRequest,
    Json,
    ModelRequest,
    ToolCall,
    ToolSpec,
)
from providers.surrogates import encode

#: What a model's name may hold in an address as it is: versions (``@20250929``), publishers, tags.
_IN_NAME = "/@:._-"
#: What vendors take in a tool's name, and how much of it (OpenAI, Anthropic, Amazon Bedrock).
_UNSAFE_NAME = re.compile("[^A-Za-z0-9_-]")
MAX_NAME = 64


def endpoint(
    request: ModelRequest | EmbeddingRequest,
    connection: Connection,
    path: str,
    query: Mapping[str, str] | None = None,
) -> str:
    """The address of one model call.

    :param path: the wire's own, e.g. ``/models/{model}:streamGenerateContent``; ``dialect["path"]`` wins.
    :param query: the wire's own; ``dialect["query"]`` replaces it.
    :raises ProviderError: ``provider_unavailable`` when the path names an option that the connection lacks.
    """
    path = request.dialect.get("path") or path
    if "{" in path:
        names = {**connection.options, "model": quote(request.model, safe=_IN_NAME)}
        try:
            path = path.format_map(names)
        except KeyError as error:
            raise failure(
                "provider_unavailable",
                message=f"The provider's address needs the setting {error.args[0]}. Set it.",
            ) from None
    wanted = {
        name: filled
        for name, value in (request.dialect.get("query", query) or {}).items()
        if (filled := _filled(str(value), connection.options))
    }
    return f"{connection.base_url}{path}{f'?{urlencode(wanted)}' if wanted else ''}"


def post_json(
    url: str,
    connection: Connection,
    body: Json,
    *,
    accept: str = "text/event-stream",
    headers: Mapping[str, str] | None = None,
) -> HttpRequest:
    """The request of one model call, not yet authenticated.

    :param headers: the wire's own; the connection's win over them.
    """
    sent = {"Content-Type": "application/json", "Accept": accept, **(headers or {}), **connection.headers}
    return HttpRequest("POST", url, sent, encode(body))


def _filled(value: str, options: Mapping[str, str]) -> str:
    try:
        return value.format_map(options) if "{" in value else value
    except KeyError:
        return ""


def function_tools(tools: Sequence[ToolSpec]) -> list[Json]:
    """Tools as chat completions declare them."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.parameters),
            },
        }
        for tool in tools
    ]


def sent_arguments(call: ToolCall) -> str:
    """A call's arguments as they go back: what was no object goes back as ``{}``, since servers parse the history."""
    return call.raw if call.arguments is not None and call.raw.strip() else "{}"


def shortened(name: str, most: int) -> str:
    """A name within a vendor's length; a longer one is named by its hash, the same everywhere.

    :param most: characters, at most the 64 of the hash.
    """
    return name if len(name) <= most else hashed(name)[:most]


def hashed(name: str) -> str:
    """64 hexadecimal digits that stand for ``name``, which may hold half a character: vendors' ids are anything."""
    return hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()


def safe_name(name: str) -> str:
    """A tool's name as every vendor takes it. Models make up others, and a history that holds one is refused."""
    return _UNSAFE_NAME.sub("_", name)[:MAX_NAME] or "_"


def may_begin_thinking(messages: Sequence[Mapping[str, t.Any]], call: str, thoughts: tuple[str, ...]) -> bool:
    """Whether Claude may be asked to think by a budget: not in the middle of a turn that began without.

    Within a tool loop the vendor wants the loop's first message to begin with thinking; one that another model made,
    or that was made while thinking was off, does not (platform.claude.com, extended thinking with tool use).

    :param messages: the conversation, alternating, in either of Claude's two shapes.
    :param call: what makes a block a call: its type, or a member of it.
    :param thoughts: the same for thinking.
    """
    first: t.Any = None
    for message in reversed(messages):
        if message["role"] == "user":
            if not any(_is(block, ("tool_result", "toolResult")) for block in message["content"]):
                break
        else:
            first = message["content"][0]
            if not any(_is(block, (call,)) for block in message["content"]):
                break
    return first is None or _is(first, thoughts)


def _is(block: Mapping[str, t.Any], kinds: tuple[str, ...]) -> bool:
    return block.get("type") in kinds or any(kind in block for kind in kinds)


def file_text(file: FilePart) -> str:
    """A text file as it is put into a prompt: headed by its name, for vendors without text documents."""
    text = file.data.decode("utf-8", "replace")
    return f"{file.name}:\n{text}" if file.name else text


def file_base64(file: FilePart) -> str:
    """A file's bytes as vendors take them in JSON."""
    return base64.b64encode(file.data).decode()


def data_url(file: FilePart) -> str:
    """A file as a ``data:`` address."""
    return f"data:{file.media_type};base64,{file_base64(file)}"
