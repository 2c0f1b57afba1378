"""A chat model that streams and thinks, and needs no network: put your own in its place.

It quotes the first passage of its system prompt, and calls the calculator when it is asked for a sum.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterator, Sequence

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models.chat_models import BaseChatModel, generate_from_stream
from langchain_core.messages import AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult

_SUM = re.compile(r"\d[\d.]*(?:\s*[-+*/]\s*\d[\d.]*)+")


class QuotingModel(BaseChatModel):
    """See the module."""

    @property
    def _llm_type(self) -> str:
        return "quoting"

    def bind_tools(self, tools: Sequence[t.Any], **kwargs: t.Any) -> t.Any:
        """It knows one tool, whatever it is given."""
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: t.Any,
    ) -> ChatResult:
        return generate_from_stream(self._stream(messages, stop, run_manager, **kwargs))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: t.Any,
    ) -> Iterator[ChatGenerationChunk]:
        pieces = list(_reply(messages))
        used = {
            "input_tokens": sum(len(str(message.content).split()) for message in messages),
            "output_tokens": len(pieces),
        }
        used["total_tokens"] = used["input_tokens"] + used["output_tokens"]
        last = AIMessageChunk("", usage_metadata=used, response_metadata={"model_name": "quoting-1"})
        for piece in (*pieces, last):
            chunk = ChatGenerationChunk(message=piece)
            if run_manager is not None:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk


def _reply(messages: Sequence[BaseMessage]) -> Iterator[AIMessageChunk]:
    question = next(str(each.content) for each in reversed(messages) if isinstance(each, HumanMessage))
    if isinstance(messages[-1], ToolMessage):
        yield from _words(f"{messages[-1].content}. That is what the calculator says.")
    elif found := _SUM.search(question):
        yield _thinks("That is a sum; ")
        yield _thinks("the calculator knows better than I do.")
        yield from _words("Let me work that out.")
        call = {"name": "calculator", "args": f'{{"expression": "{found[0]}"}}', "id": "call_sum", "index": 0}
        yield AIMessageChunk("", tool_call_chunks=[call])
    elif passage := re.search(r"^\[1\] (?:\w+: )?([^.]+)\.", str(messages[0].content), re.MULTILINE):
        yield _thinks("The first passage has it.")
        yield from _words(f'"{passage[1]}" [1]')
    else:
        yield from _words("I do not know that; ask the front desk.")


def _thinks(text: str) -> AIMessageChunk:
    return AIMessageChunk([{"type": "thinking", "thinking": text}])


def _words(text: str) -> Iterator[AIMessageChunk]:
    for place, word in enumerate(text.split(" ")):
        yield AIMessageChunk(word if place == 0 else f" {word}")
