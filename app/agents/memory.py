"""What an agent is told of the conversation before it: a window of whole exchanges.

Law of this room: a window is made of the newest exchanges without a gap; it begins with what the user said, ends with
an answer, and cuts no message. Of earlier turns there is final text only: no calls, no thinking, nothing a vendor has
signed, so any model can be told of what another has said. The system prompt and the message that is being answered
are no part of it.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterator, Mapping, Sequence

from app.agents import estimate
from app.agents.config import AgentConfig
from app.errors import BlockError
from app.workflows.memory_config import MAX_KEY, MemoryConfig, memory_of
from plugins.spec import BlockContext, ResolvedModel
from plugins.spec.memory import Exchange, Memory
from providers import spec
from providers.tokens import COUNTER, SMALL

#: Most exchanges an agent is told, and most bytes of them, whatever its memory's type.
MOST, MOST_BYTES = 1_000, 4 * 1024 * 1024
#: What stands for a text that is not there: vendors refuse empty messages.
UNANSWERED = "(This was not answered: it was stopped before the answer was complete.)"
NO_TEXT = "(There was no text.)"
#: Key of the row that says that the exchange is kept.
KEPT = "kept"
#: Part of a model's context that is left free, since its tokens are estimated.
_MARGIN = 0.1
#: Tokens kept for the answer when neither the agent nor the model's capabilities say how long it may be.
_ANSWER = 4_096


class Remembered:
    """The memory of one agent's execution.

    :param asked: what it is being asked.
    :ivar earlier: the window, once it was recalled.
    :raises BlockError: ``memory_key_invalid``. :raises RunError: ``template_failed``.
    """

    def __init__(self, context: BlockContext, config: MemoryConfig, asked: str) -> None:
        self._context = context
        self._config = config
        self._asked = asked
        self._memory = context.memory(_key(context, config))
        self.earlier: Sequence[Exchange] = ()

    @classmethod
    def of(cls, context: BlockContext, config: AgentConfig, asked: str) -> Remembered | None:
        """The memory that an agent's config asks for; None for none."""
        wanted = memory_of(config.memory)
        return None if wanted is None else cls(context, wanted, asked)

    def around(self, answer: Callable[[], Mapping[str, t.Any]]) -> Mapping[str, t.Any]:
        """Recall what was said before, let ``answer`` make the agent's output, and keep that when it is whole.

        :raises BlockError: ``memory_unavailable``; and whatever ``answer`` raises.
        """
        try:
            self.earlier = _window(self._context, self._config, self._memory)
            output = answer()
        except Exception:
            raise  # it failed: whoever asked is told so, and will ask again
        except BaseException:  # it was cut off before its answer was complete
            self._memory.unanswered(self._asked)
            raise
        journal = self._context.journal
        if journal.find(0, KEPT) is None:  # else it is kept, and a process went away right after
            self._context.commit()  # what is kept is what was answered, also for whoever goes on from the journal
            self._memory.append(self._asked, str(output["content"]))
            journal.write(0, KEPT, "told", "done")
        return output


def told(exchanges: Sequence[Exchange]) -> Iterator[spec.Message]:
    """Exchanges as a model is told of them: turn by turn, no message empty."""
    for exchange in exchanges:
        asked, answer = _texts(exchange)
        yield spec.UserMessage(asked)
        yield spec.AssistantMessage(answer)


def _texts(exchange: Exchange) -> tuple[str, str]:
    """Both messages as a model is told of them."""
    asked, answer = exchange
    said = UNANSWERED if answer is None else answer
    return asked if asked.strip() else NO_TEXT, said if said.strip() else NO_TEXT


def newest(exchanges: Sequence[Exchange], size: Callable[[Exchange], int], most: int) -> Sequence[Exchange]:
    """The newest exchanges whose sizes add up to at most ``most``; the first that does not fit ends the window."""
    taken = 0
    for place in range(len(exchanges) - 1, -1, -1):
        taken += size(exchanges[place])
        if taken > most:
            return exchanges[place + 1 :]
    return exchanges


def fitting(
    context: BlockContext,
    exchanges: Sequence[Exchange],
    request: spec.ModelRequest,
    model: ResolvedModel,
    max_tokens: int | None,
) -> Sequence[Exchange]:
    """The newest exchanges that fit into a model's context beside the rest of the request, and its answer.

    All of them where the model's context is not known.

    :param request: without them.
    """
    can = model.capabilities
    if can.context_window is None or not exchanges:
        return exchanges
    answer = max_tokens or min(can.max_output or _ANSWER, can.context_window // 4)
    room = int(can.context_window * (1 - _MARGIN)) - answer
    # No text has more tokens than bytes, so that what is short need not be counted.
    if estimate.at_most(request) + sum(map(_bytes, exchanges)) <= room:
        return exchanges
    characters = estimate.size(request) + _characters(exchanges)
    rest = estimate.prompt_tokens

    def fit() -> Sequence[Exchange]:
        return newest(exchanges, tokens, room - rest(request, COUNTER.count))

    return _counted(context, characters, fit)


def tokens(exchange: Exchange) -> int:
    """About how many tokens an exchange costs."""
    return sum(COUNTER.count(text) + estimate.PER_MESSAGE for text in _texts(exchange))


def _window(context: BlockContext, config: MemoryConfig, memory: Memory) -> Sequence[Exchange]:
    most = MOST
    if config.type == "sliding_window" and config.limit is not None:
        most = min(MOST, config.limit // 2)
    exchanges = memory.read(most, MOST_BYTES)
    if config.type != "sliding_window_tokens" or config.limit is None:
        return exchanges
    limit = config.limit
    if sum(map(_bytes, exchanges)) <= limit:
        return exchanges
    return _counted(context, _characters(exchanges), lambda: newest(exchanges, tokens, limit))


def _counted(
    context: BlockContext, characters: int, fit: Callable[[], Sequence[Exchange]]
) -> Sequence[Exchange]:
    """What ``fit`` counts: here when that is quick, else in a native thread, which loads the tokenizer first."""
    if COUNTER.loaded and characters <= SMALL:
        return fit()

    def count() -> Sequence[Exchange]:
        COUNTER.load()
        return fit()

    return context.run_blocking(count, context.waits)


def _bytes(exchange: Exchange) -> int:
    """More than an exchange has tokens."""
    return sum(len(text.encode("utf-8", "surrogatepass")) + estimate.PER_MESSAGE for text in _texts(exchange))


def _characters(exchanges: Sequence[Exchange]) -> int:
    return sum(len(text) for exchange in exchanges for text in _texts(exchange))


def _key(context: BlockContext, config: MemoryConfig) -> str | None:
    """The name of the memory; None for the agent's own."""
    if config.key is None:
        return None
    key = context.render(config.key).strip()
    if not key or len(key) > MAX_KEY:
        has = "renders empty" if not key else f"has {len(key)} characters"
        raise BlockError(
            "memory_key_invalid",
            f"The memory key of {context.name} {has}; it must have 1 to {MAX_KEY} characters.",
        )
    return key
