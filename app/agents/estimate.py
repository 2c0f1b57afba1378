"""Token counts where the vendor states none, or only some.

Law of this room: what was sent and what came is counted, once a call and off the token path; whatever is filled
in here makes the call's usage ``estimated``. What a vendor adds to a prompt by itself is not known and not counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import msgspec

from app import encoding
from plugins.spec import BlockContext, ResolvedModel
from providers import spec
from providers.tokens import COUNTER, SMALL, by_length

#: Tokens that a message costs beside its text (OpenAI's cookbook, "How to count tokens with tiktoken").
PER_MESSAGE = 3
#: Tokens of a picture: vendors' own formulas give a few hundred to some two thousand for usual sizes.
_PER_IMAGE = 1_000
#: Tokens of a page of a PDF (Anthropic, "PDF support": 1,500 to 3,000 of text a page).
_PER_PAGE = 2_000
_PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")
#: Bytes of a PDF that are looked at.
_PDF_LOOK = 2 * 1024 * 1024


def whole(
    context: BlockContext,
    model: ResolvedModel,
    request: spec.ModelRequest,
    said: Sequence[str],
    stated: spec.Usage | None,
) -> spec.Usage:
    """The usage of a finished call: the vendor's, with what it did not state counted by the tokenizer.

    May wait while the tokenizer is loaded, or a long text counted, in a native thread. A model that is free is
    counted by length: no bill rests on it.

    :param said: everything the model generated.
    """
    usage = stated or spec.Usage()
    if not _lacking(usage, said):
        return usage
    if model.capabilities.price == (0.0, 0.0):
        return _filled(usage, request, said, by_length)
    if COUNTER.loaded and size(request) + sum(map(len, said)) <= SMALL:
        return _filled(usage, request, said, COUNTER.count)

    def count() -> spec.Usage:
        COUNTER.load()
        return _filled(usage, request, said, COUNTER.count)

    counted: spec.Usage = context.run_blocking(count, context.waits)
    return counted


def partial(request: spec.ModelRequest, said: Sequence[str], stated: spec.Usage | None) -> spec.Usage | None:
    """The usage of a call that was cut or stopped: the vendor's last word, else counted as far as it came.

    Never waits: it is needed while a run is being stopped. None when nothing was stated and nothing came.
    """
    if not said or (stated is not None and not _lacking(stated, said)):
        return stated
    return _filled(stated or spec.Usage(), request, said, _quick)


def _quick(text: str) -> int:
    return COUNTER.count(text, SMALL)


def _input(usage: spec.Usage) -> bool:
    """Whether the prompt's count was stated. No prompt has 0 tokens: that is a vendor that does not count."""
    return bool(usage.input)


def _lacking(usage: spec.Usage, said: Sequence[str]) -> bool:
    return not _input(usage) or (not usage.output and any(said))


def _filled(
    usage: spec.Usage, request: spec.ModelRequest, said: Sequence[str], count: Callable[[str], int]
) -> spec.Usage:
    """``usage`` with what it lacks; ``total`` is made anew from the parts."""
    into = usage.input if _input(usage) else prompt_tokens(request, count)
    generated = "".join(said)
    out = usage.output or (count(generated) if generated else usage.output)
    return msgspec.structs.replace(usage, input=into, output=out, total=None, estimated=True)


def size(request: spec.ModelRequest) -> int:
    """How much there is to look at, in characters and bytes."""
    return sum(map(len, _prompt(request))) + sum(len(f.data) for f in _files(request))


def at_most(request: spec.ModelRequest) -> int:
    """A number of tokens that a request surely does not exceed, without counting: no text has more than bytes."""
    texts = sum(len(text.encode("utf-8", "surrogatepass")) for text in _prompt(request))
    return texts + prompt_tokens(request, lambda text: 0)


def _files(request: spec.ModelRequest) -> list[spec.FilePart]:
    return [file for m in request.messages if isinstance(m, spec.UserMessage) for file in m.files]


def prompt_tokens(request: spec.ModelRequest, count: Callable[[str], int]) -> int:
    """Tokens of a request, by ``count`` of its texts."""
    files = _files(request)
    return (
        count("\n".join(_prompt(request)))
        + PER_MESSAGE * (len(request.messages) + 1)
        + sum(_PER_IMAGE for file in files if file.kind == "image")
        + sum(_PER_PAGE * _pages(file.data) for file in files if file.kind == "pdf")
    )


def _prompt(request: spec.ModelRequest) -> Iterator[str]:
    """Every text of a request."""
    if request.system:
        yield request.system
    for message in request.messages:
        if isinstance(message, spec.ToolResult):
            yield message.content
            continue
        yield message.text
        if isinstance(message, spec.AssistantMessage):
            for call in message.calls:
                yield f"{call.name}{call.raw}"
        else:
            yield from (f.data.decode("utf-8", "replace") for f in message.files if f.kind == "text")
    for tool in request.tools:
        yield f"{tool.name} {tool.description} {encoding.dumps(tool.parameters).decode()}"
    if request.response_format is not None:
        yield encoding.dumps(request.response_format).decode()


def _pages(pdf: bytes) -> int:
    """Pages of a PDF, as far as its objects can be read without opening it; at least one."""
    seen = pdf[:_PDF_LOOK]
    return max(1, len(_PAGE.findall(seen)) * len(pdf) // max(1, len(seen)))
