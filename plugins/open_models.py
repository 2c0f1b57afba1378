"""The lines of open-weight models that many vendors serve: which of them think, and how that is steered.

Law of this room: what is true of the weights, whoever serves them. Whether a vendor exposes the thinking, and under
which member of its API it is steered, stays the family's own statement.
"""

from __future__ import annotations

import re
import typing as t

from plugins.model_map import number
from plugins.spec.rows import Row


class Line(t.NamedTuple):
    """One line of models.

    :ivar thinks: ``never``; ``switch``: it can be told to or not to; ``always``.
    :ivar efforts: the levels the model knows by itself, of contract section 2.
    :ivar template_key: what its chat template calls the switch.
    """

    thinks: t.Literal["never", "switch", "always"]
    efforts: tuple[str, ...] = ()
    template_key: str = "enable_thinking"


_NEVER = Line("never")
_ALWAYS = Line("always")
_SWITCH = Line("switch")
_STEERED = ("low", "high", "max")
#: Tokens of context that hold no tools.
_TINY = 2048

#: Tried in order on the plain name (see :func:`line`). Sources: the cards of the weights on huggingface.co, sections on
#: thinking and chat templates: openai/gpt-oss-120b; deepseek-ai/DeepSeek-R1 and -V3.1; moonshotai/Kimi-K2-Thinking and
#: -K2.5; zai-org/GLM-4.5 and -5.2; Qwen/QwQ-32B and Qwen3-32B (and -Instruct-2507, -Thinking-2507);
#: MiniMaxAI/MiniMax-M2; mistralai/Magistral-Small-2509; nvidia/NVIDIA-Nemotron-Nano-9B-v2; Gemma. Of weights
#: that came later, the vendor's API pages named in its family (deepseek, moonshot, zai, minimax).
_LINES: tuple[tuple[str, Line], ...] = (
    (r"gpt-oss", Line("always", ("low", "medium", "high"))),
    (r"deepseek-(?:r1|reasoner)", _ALWAYS),
    (r"deepseek-(?:v4|flash)", Line("switch", _STEERED, "thinking")),
    (r"deepseek-(?:chat-)?v3\.[12]", Line("switch", (), "thinking")),
    (r"deepseek", _NEVER),
    (r"kimi-k3", Line("always", _STEERED)),
    (r"kimi-k2[.-]7|kimi-k2-thinking|kimi-thinking", _ALWAYS),
    (r"kimi-k2[.-][56](?!\d)", Line("switch", (), "thinking")),
    (r"kimi|moonshot-v1", _NEVER),
    (r"glm-5[.-]3(?!\d)|glm-latest", Line("always", _STEERED)),
    (r"glm-5[.-]2(?!\d)", Line("switch", ("high", "max"))),
    (r"glm-(?:4[.-][5-9](?!\d)|5)", _SWITCH),
    (r"glm", _NEVER),
    (r"qwq|qvq|qwen.*thinking", _ALWAYS),
    (r"qwen.*(?:instruct|coder)", _NEVER),
    (r"qwen-?3", _SWITCH),
    (r"qwen", _NEVER),
    (r"minimax-m3(?!\.)", _SWITCH),
    (r"minimax-m\d", _ALWAYS),
    (r"magistral", _ALWAYS),
    (r"nemotron-(?:3|nano-9b|nano-12b)|nemotron.*(?:super|ultra)", _SWITCH),
    (r"gemma-?4", _SWITCH),
    (
        r"llama|gemma|mistral|mixtral|ministral|codestral|devstral|pixtral|phi-[34]|dbrx|granite-3|opt-\d",
        _NEVER,
    ),
)


def line(model: str) -> Line | None:
    """The line that a served model belongs to; None when its name says nothing.

    :param model: as a vendor names it: with an owner's path, a ``:free`` or date behind it, ``5p2`` for ``5.2``.
    """
    name = model.lower().rpartition("/")[2].partition(":")[0]
    name = re.sub(r"(?<=\d)p(?=\d)", ".", name)
    for pattern, found in _LINES:
        if re.search(rf"(?:^|[-_.@]){'(?:' + pattern + ')'}", name):
            return found
    return None


def thinks(model: str, row: Row | None) -> bool:
    """Whether a served model thinks: its line says so, else the registry's row."""
    found = line(model)
    if found is not None:
        return found.thinks != "never"
    return row is not None and row.supports_reasoning is True


def control(found: Line | None, *, switch: bool = True) -> tuple[str, ...]:
    """The levels that a line can be asked for where a vendor passes on all that the model knows.

    :param switch: the vendor can switch thinking off for lines that allow it.
    """
    if found is None or found.thinks == "never":
        return ()
    off = ("none",) if switch and found.thinks == "switch" else ()
    return (*off, *found.efforts, "auto")


#: Names of models that see (their cards; ollama.com/search?c=vision).
_SEES = re.compile(
    r"llava|vision|(?<![a-z])vl(?![a-z])|\dvl(?![a-z])|ocr|gemma-?[34](?!n)|llama-?4|moondream|minicpm-[vo]|pixtral"
    r"|mistral-(?:small-?3\.[12]|small-2503|small-2506|medium|large-3)|ministral-3|magistral-small-2509"
    r"|qwen-?3\.[5-9]|qvq|internvl|kimi-(?:k2\.[56]|k3|vl)|glm-\d(?:\.\d)?v|molmo|idefics|phi-?4-multimodal"
)
#: Sizes and kinds of the above, or of no line, that have no eyes.
_BLIND = re.compile(r"gemma-?3[-:](?:270m|1b)|phi-?4(?:-mini)?-reasoning")
#: Names of models from before tools were taught, of classifiers and of bare weights (their cards).
_NO_TOOLS = re.compile(
    r"(?<!safe)guard|code-?llama|llama-?v?[12](?![.\d])|(?:^|[-_])base(?![a-z])|-draft|hermes-(?:2-(?:yi|mixtral)|llama2|13b)"
    r"|chronos|mythomax|starcoder|stablecode|codegemma|code-qwen|gemma-?[27]b|gemma-?2(?![.\db])|phi-?[23](?![.\d])|pythia"
    r"|(?:^|[-_/])yi-|zephyr|toppy|openorca|openchat|openhermes|capybara|dolphin-2p6|phind|qwen-?1[.p]5(?!b)|deepseek-(?:coder|prover)"
    r"|deepseek-v2-lite|llava|flux-|ocr|vicuna|dbrx|math-|snorkel|mixtral-8x\d+b$|(?:^|/)mistral-7b(?:$|-v0|-instruct-4k)"
    r"|qwen\d?(?:[.p]5)?-coder-[\d.p]+b$"
)


def sees(model: str) -> bool | None:
    """Whether a served model takes images; None when its name says nothing."""
    name = model.lower().rpartition("/")[2]
    if _BLIND.search(name):
        return False
    if _SEES.search(name):
        return True
    return None if line(model) is None else False


def inputs(model: str) -> tuple[str, ...]:
    """Inputs of a model whose server takes images. Of a name that says nothing an image is a wish, for the server to
    grant: it is not refused by a guess.
    """
    return ("text",) if sees(model) is False else ("text", "image")


def tools(model: str, row: Row | None, default: str = "parallel") -> str:
    """Tools where the registry's row is silent: none of what is too old or too small to call any.

    :param default: the family's, for all others; also of models that have no row.
    """
    if row is None or isinstance(row.supports_function_calling, bool):
        return default
    tokens = number(row.max_input_tokens)
    tiny = tokens is not None and tokens <= _TINY
    return "none" if tiny or row.mode == "completion" or _NO_TOOLS.search(model.lower()) else default


def shown(
    model: str,
    row: Row | None,
    *,
    steered: Line | None = None,
    switch: bool = True,
    otherwise: tuple[str, ...] = (),
) -> dict[str, t.Any]:
    """What a vendor states of thinking that hands out all of it, as fields of ``Capabilities``.

    :param steered: the line as the vendor steers it; default: what the name says.
    :param switch: see :func:`control`.
    :param otherwise: levels of models that think and belong to no line.
    """
    if not thinks(model, row):
        return {"thinking": "none", "thinking_control": ()}
    levels = control(steered or line(model), switch=switch)
    return {"thinking": "full", "thinking_control": levels or otherwise}


def shown_by_name(model: str) -> t.Literal["none", "full", "as_sent"]:
    """How much thinking a gateway hands out that passes on what comes: of a name that says nothing, whatever it is."""
    found = line(model)
    if found is None:
        return "as_sent"
    return "none" if found.thinks == "never" else "full"


def efforts(found: Line | None, *, off: str | None = None) -> dict[str, str | None]:
    """The ``levels`` switch of the chat wire for a line: each level in a word that the model knows.

    :param off: the vendor's word for ``none``; None: it is not sent.
    """
    words: dict[str, str | None] = {"none": off, "auto": None}
    known = found.efforts if found is not None else ()
    for level, stands_for in _NEAREST.items():
        words[level] = next((name for name in stands_for if name in known), None)
    return words


#: For a level, what a model may know it by, nearest first.
_NEAREST = {
    "minimal": ("minimal", "low", "high"),
    "low": ("low", "high"),
    "medium": ("medium", "high"),
    "high": ("high",),
    "xhigh": ("xhigh", "max", "high"),
    "max": ("max", "xhigh", "high"),
}
