"""``ollama``: models on an Ollama server, by its own API. Facts only.

Facts are the server's own, as of late 2026: its pages on thinking, tool calling, structured outputs, vision and OpenAI
compatibility, and its source where they are silent. Its own route is the default, because the OpenAI route replaces
a model's temperature and top_p by its own defaults and cannot say how large a context to load. What a model can do
is read from its name (``open_models``, and below); a name nobody knows is taken for one that can do what Ollama can,
and the server refuses what it cannot. Dialect switches are those of ``ollama_chat_request`` and, on the other route,
``openai_chat_request``.
"""

from __future__ import annotations

import re
import typing as t
from urllib.parse import urlsplit

from plugins import embedding_models, open_models
from plugins.claims import claims
from plugins.spec import Capabilities, ConnectionSpec, Embeddings, ProviderFamily, Row, Setting
from providers.auth import BEARER
from providers.model_lists import ollama_models

_SOURCE = "docs.ollama.com: thinking, tool calling, structured outputs, vision, OpenAI compatibility"
_PORT = 11434

#: Names of the library, without tag and namespace, that do not think and are none of the lines of ``open_models``.
_PLAIN = re.compile(
    r"(?:codellama|codegemma|phi[34](?:\.5)?(?:-mini)?|command-r.*|llava.*|bakllava|moondream|minicpm-v|tinyllama"
    r"|smollm2?|vicuna|orca-mini|starcoder2?|internlm2.*|codegeex4)"
)
#: Names of models that call no tools.
_NO_TOOLS = re.compile(
    r"(?:llama[23](?:-uncensored)?|codellama|gemma[23]?|codegemma|phi3?|llava.*|bakllava|moondream|minicpm-v"
    r"|tinyllama|vicuna|orca-mini|starcoder2?|deepseek-(?:coder|llm).*|codegeex4)"
)
#: What every version of the server takes; ``max`` came later and is answered 400 before.
_LEVELS = ("none", "low", "medium", "high", "auto")


def capabilities(model: str, row: Row | None) -> Capabilities:
    """What ``model`` can do, as far as its name tells."""
    name, _, tag = model.rpartition("/")[2].partition(":")
    line = open_models.line(name)
    plain = "instruct" in tag or (line.thinks == "never" if line else _PLAIN.fullmatch(name) is not None)
    levels = ("low", "medium", "high", "auto") if name.startswith("gpt-oss") else _LEVELS
    stated: dict[str, t.Any] = {
        "thinking": "none" if plain else "full",
        "thinking_control": () if plain else levels,
        "forced_tool_choice": False,
        "structured_output": "native",
        "notes": _notes(name, plain),
    }
    if _NO_TOOLS.fullmatch(name):
        stated["tools"] = "none"
    sees = open_models.sees(f"{name}:{tag}")
    if sees is None and (row is not None or _PLAIN.fullmatch(name)):
        sees = False
    if sees is not None:
        stated["inputs"] = ("text", "image") if sees else ("text",)
    if "cloud" not in tag:
        stated["price"] = (0.0, 0.0)
    # Of a name that says nothing an image is a wish: the server refuses it, not a guess.
    otherwise = {"tools": "parallel", "inputs": ("text", "image")}
    return claims(row, source=_SOURCE, stated=stated, otherwise=otherwise)


def _notes(name: str, plain: bool) -> str:
    if plain:
        return "The server decides how much context to load unless STUDIO_OLLAMA_NUM_CTX says."
    if name.startswith("gpt-oss"):
        return "Always thinks, at a level. The server decides how much context to load, or STUDIO_OLLAMA_NUM_CTX."
    return (
        "Thinks by default if the model can; one that cannot refuses a level, as one without tools refuses tools and "
        "one without eyes an image."
    )


def address(value: str) -> str:
    """``OLLAMA_HOST`` as the server reads it: scheme and port may be missing, and the host may be "any".

    An address with a scheme stays as it is.
    """
    if "://" in value:
        return value
    parts = urlsplit(f"//{value}")
    try:
        host, port = parts.hostname or "127.0.0.1", parts.port or _PORT
    except ValueError:
        return value
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1"
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{parts.path}"


FAMILY = ProviderFamily(
    id="ollama",
    title="Ollama",
    wire="ollama_chat",
    other_wires=("openai_chat",),
    auth=BEARER,
    connection=ConnectionSpec(
        default_base=f"http://127.0.0.1:{_PORT}",
        base_vars=("OLLAMA_API_BASE", "OLLAMA_HOST"),
        read_base=address,
        key_vars=("OLLAMA_API_KEY",),
        key_required=False,
        settings=(
            Setting("num_ctx", ("OLLAMA_CONTEXT_LENGTH",), "the context size to load models with, in tokens"),
        ),
    ),
    capabilities=capabilities,
    dialect={
        "inline_thinking": False,
        # Of the OpenAI route: its thinking field goes back as it came, and a model thinks unless told otherwise.
        "thinking": "effort",
        "thinks_by_default": True,
        "replay_thinking": "always",
    },
    list_models=ollama_models,
    registry_prefix="ollama",
    embeddings=Embeddings(
        wire="ollama_embeddings",
        source="docs.ollama.com: embeddings, reference of /api/embed",
        batch=32,
        model_dialect=embedding_models.prefixes,
        price=0.0,
    ),
)
