"""The driver of an agent: performs what the loop decides, writes the row, asks again.

Law of this room: no state but the journal's rows. The stream is written in the order of contract 3.3:
deltas and tool starts as they arrive, the turn boundary, tool ends as they come, the next turn.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import replace

from app import encoding
from app import events as ev
from app.agents import allowance, approval, attempts, files, hashes, loop, structured, turn
from app.agents.allowance import Bound
from app.agents.calls import Batch
from app.agents.chain import Chain
from app.agents.config import AgentConfig
from app.agents.mcp_tools import note
from app.agents.memory import Remembered, fitting
from app.agents.memory import told as told_of
from app.agents.output import agent_output
from app.agents.tools import ToolSet, check_choice, prepare
from app.errors import BlockError
from app.workflows.agent_rules import AGENT_OUTPUTS
from plugins.spec import BlockContext, ResolvedModel
from plugins.spec.budget import BudgetMeter, Held
from providers import spec

#: Key of the row with what an agent was asked.
ASKED = "asked"
_NOT_RUN = "Tools are off for the final answer. Nothing was run."


def run_agent(
    context: BlockContext, config: AgentConfig, prompt: str | None = None, told: str | None = None
) -> Mapping[str, t.Any]:
    """Run one agent to its answer.

    :param prompt: what it is asked, instead of what its config says.
    :param told: further instructions, after its own system prompt.
    :returns: the output of contract section 2.
    :raises BlockError: the model failed, or the answer does not follow its ``response_format``.
    """
    asked = _asked(context, config, prompt, told)
    memory = Remembered.of(context, config, asked.prompt)
    if memory is None:
        return _Driver(context, config, asked).run()
    return memory.around(lambda: _Driver(context, config, asked, memory).run())


class _Asked(t.NamedTuple):
    """What an agent was asked: as it was rendered when it began, also where it goes on later.

    :ivar own: hash of the agent's config, where the run outlives its process.
    """

    prompt: str
    system: str | None
    started: int
    own: str | None


def _asked(context: BlockContext, config: AgentConfig, prompt: str | None, told: str | None) -> _Asked:
    """What the agent is asked, taken down once.

    :raises RunError: ``template_failed``; ``journal_mismatch``: what is stored is of another agent.
    """
    own = hashes.of_config(config) if context.can_ask else None
    row = context.journal.find(0, ASKED)
    if row is not None:
        if own is not None:
            hashes.check(row.input_hash, f"the agent of {context.name}", own)
        stored, system, began = row.value
        return _Asked(stored, system, began, own)
    given = _prompt(context, config) if prompt is None else prompt
    system = context.render(config.system) if config.system else None
    whole = "\n\n".join(part for part in (system, told) if part) or None
    now = context.now_ms()
    context.journal.write(0, ASKED, "asked", "done", (given, whole, now), own)
    return _Asked(given, whole, now, own)


class _Driver:
    def __init__(
        self, context: BlockContext, config: AgentConfig, asked: _Asked, memory: Remembered | None = None
    ) -> None:
        self.context = context
        self.config = config
        settings = context.settings
        # The chain holds these and not the driver: a run is freed with its last use, not by a garbage collection.
        self._files = files.Shown(context, config)
        self.chain = Chain(context, config, self._files.fit, loop.answered_last(context.journal.rows()))
        self.tools: ToolSet = prepare(config, context)
        check_choice(config, self.tools)
        self.held = self.tools.held
        self.prompt = asked.prompt
        # Which servers are away is told as it is now, and is no part of what was asked.
        away = note(self.tools.missing)
        self.system = "\n\n".join(part for part in (asked.system, away) if part) or None
        self.max_batches = _or(config.max_batches, settings.max_tool_batches)
        self.retries = _or(config.retries, settings.model_retries)
        self.call_s = _or(config.call_timeout_s, settings.model_call_s)
        self.started, self.own = asked.started, asked.own
        self.memory = memory
        #: Which budget limited what the last call may say; None: none did.
        self._bound: Bound = None
        #: What is, or was, held of budgets for the last call.
        self._held: Held | None = None
        if self.own is not None:
            self._check_rows(self.own)

    def _check_rows(self, own: str) -> None:
        """See that the rows in the journal are this agent's, and results those of the calls that its turns ask for.

        :raises RunError: ``journal_mismatch``.
        """
        journal, name = self.context.journal, self.context.name
        for row in journal.rows():
            if row.kind != loop.TURN:
                continue
            hashes.check(row.input_hash, f"turn {row.turn} of {name}", own)
            for call in row.value.calls if row.state == "done" else ():
                found = journal.find(row.turn, call.id)
                decided = journal.find(row.turn, loop.decision_key(call.id))
                changed = None if decided is None else approval.changed(decided.value)
                made = [call.arguments] if changed is None else [call.arguments, changed]
                if found is not None:
                    expected = [hashes.of_call(call.name, arguments) for arguments in made]
                    hashes.check(found.input_hash, f"the call of {call.name} by {name}", *expected)

    def run(self) -> Mapping[str, t.Any]:
        """Do what the loop says until it is done."""
        journal = self.context.journal
        while True:
            rows = journal.rows()
            action = self._next(rows)
            if isinstance(action, loop.Done):
                return self._done(rows)
            if isinstance(action, loop.AskModel):
                self._ask(rows, action)
            elif isinstance(action, loop.Truncated):
                raise BlockError(
                    "tool_call_truncated",
                    f"The output limit cut the call of {action.call.name}; raise max_tokens.",
                )
            else:
                self._settle(action)

    def _next(self, rows: t.Sequence[t.Any]) -> loop.Action:
        return loop.next_action(
            rows, self.max_batches, self.config.cut_call_retries, self.held, self.tools.repeatable
        )

    # -- the model ---------------------------------------------------------------------------

    def _ask(self, rows: t.Sequence[t.Any], action: loop.AskModel) -> None:
        context, journal = self.context, self.context.journal
        journal.write(action.turn, loop.TURN, loop.TURN, "started", None, self.own)
        try:
            result = attempts.ask(
                context,
                self.chain,
                lambda model: self._request(rows, action, model),
                action.turn,
                self.retries,
                self.call_s,
            )
        except turn.TurnFailed as failed:
            raise self._failure(failed.error) from failed
        finally:
            self._let_go()
        self._count(result)
        journal.write(action.turn, loop.TURN, loop.TURN, "done", result, self.own)
        self._end_turn(action.turn, result)

    def _count(self, result: loop.TurnResult) -> None:
        """Go no further when a call used more than may be, or was cut by what budgets left for it.

        :raises BaseException: the run ends.
        """
        budget = self.context.budget
        if budget is None:
            return
        budget.check()
        if self._held is not None and self._bound is not None and result.reason == "length":
            self._held.exceed(self._bound)

    def _failure(self, error: spec.ProviderError) -> BlockError:
        asked = turn.model_id(self.chain.current)
        return BlockError(error.code, error.message, detail=error.detail, model=asked)

    def _end_turn(self, number: int, result: loop.TurnResult) -> None:
        """The turn boundary. A turn whose cut call fails the run is left open: it ends ``aborted``."""
        if result.calls and not result.tools_off:
            if isinstance(self._next(self.context.journal.rows()), loop.Truncated):
                return
            event = ev.TurnEnded(self.context.block, number, "intermediate", "tool_turn")
        else:
            event = ev.TurnEnded(self.context.block, number, "final")
        self.context.emit(event)
        self.context.flush()

    def _request(
        self, rows: t.Sequence[t.Any], action: loop.AskModel, model: ResolvedModel
    ) -> spec.ModelRequest:
        config, context = self.config, self.context
        native = model.capabilities.structured_output == "native"
        wants = config.response_format
        system = self.system
        if wants is not None and not native:
            system = "\n\n".join(part for part in (system, structured.instruction(wants)) if part)
        request = spec.ModelRequest(
            model.model,
            self._messages(rows, turn.model_id(model)),
            lambda: context.new_id("call"),
            system=system,
            tools=self.tools.specs,
            tool_choice=self._tool_choice(rows, action),
            thinking=self._thinking(model),
            show_thinking=context.show_thinking,
            temperature=config.temperature,
            top_p=config.top_p,
            max_tokens=config.max_tokens,
            stop=tuple(config.stop),
            seed=config.seed,
            parallel_tool_calls=config.parallel_tool_calls,
            response_format=wants if native else None,
            used_ids=loop.used_ids(rows),
            # By default where it pays: the tool loop repeats its prompt within seconds.
            cache=_or(config.prompt_cache, bool(self.tools.specs)),
            conversation=context.conversation,
            dialect=model.dialect,
        )
        request = self._with_earlier(request, model)
        return request if context.budget is None else self._affordable(context.budget, request, model)

    def _affordable(
        self, budget: BudgetMeter, request: spec.ModelRequest, model: ResolvedModel
    ) -> spec.ModelRequest:
        """The request, with no more to say than budgets leave, which is held for it until :meth:`_let_go`."""
        self._let_go()
        request, self._bound, self._held = allowance.bounded(self.context, budget, request, model)
        return request

    def _let_go(self) -> None:
        if self._held is not None:
            self._held.release()

    def _with_earlier(self, request: spec.ModelRequest, model: ResolvedModel) -> spec.ModelRequest:
        """The request with what was said before, as far as the model has room for it."""
        if self.memory is None or not self.memory.earlier:
            return request
        earlier = fitting(self.context, self.memory.earlier, request, model, self.config.max_tokens)
        return replace(request, messages=[*told_of(earlier), *request.messages])

    def _thinking(self, model: ResolvedModel) -> str | int | None:
        """The agent's level; without one, ``none`` where a forced tool and thinking exclude each other.

        For all of the run: vendors refuse thinking that begins after the first call of a turn.
        """
        config, can = self.config, model.capabilities
        forced = bool(self.tools.specs) and config.tool_choice not in ("auto", "none")
        if config.thinking is None and forced and not can.forced_tool_with_thinking:
            return "none" if "none" in can.thinking_control else None
        return config.thinking

    def _tool_choice(self, rows: t.Sequence[t.Any], action: loop.AskModel) -> str:
        """``none`` for the synthesis turn; a forced choice goes back to ``auto`` once it did what it can.

        That is a tool that ran, also when it failed (what it does may have been done), or one that may not run, since a
        person turned its call down or none can be asked. A call that was wrong is asked for again.
        """
        if action.tools_off:
            return "none"
        forced = self.config.tool_choice not in ("auto", "none")
        settled = (row for row in rows if row.kind == "tool" and row.value is not None)
        if forced and any(row.value.ran or self._barred(row) for row in settled):
            return "auto"
        return self.config.tool_choice

    def _barred(self, row: t.Any) -> bool:
        """Whether a call that did not run was not allowed to."""
        if not self.context.can_ask:
            return row.value.name in self.held
        return self.context.journal.find(row.turn, loop.decision_key(row.key)) is not None

    def _messages(self, rows: t.Sequence[t.Any], asked: str) -> list[spec.Message]:
        """The conversation so far: prompt, then each turn with its results in call order.

        What a vendor wants back of its own turns goes to the very model that made them.
        """
        messages: list[spec.Message] = [spec.UserMessage(self.prompt, self._files.parts)]
        results = {(r.turn, r.key): r.value for r in rows if r.kind == "tool" and r.value is not None}
        turns = sorted((r for r in rows if r.kind == loop.TURN and r.state == "done"), key=lambda r: r.turn)
        for row in turns:
            done: loop.TurnResult = row.value
            calls = tuple(spec.ToolCall(c.id, c.name, c.arguments, c.raw) for c in done.calls)
            own = done.asked == asked
            messages.append(
                spec.AssistantMessage(
                    done.text, calls, done.replay if own else None, done.wire if own else ""
                )
            )
            for call in done.calls:
                result: loop.CallResult = results[row.turn, call.id]
                messages.append(spec.ToolResult(call.id, call.name, result.content, result.is_error))
        return messages

    # -- the tools ---------------------------------------------------------------------------

    def _settle(self, action: loop.RunTools | loop.SettleUnknown) -> None:
        batch = Batch(self.context, action.turn, self.tools, self.context.settings.tool_timeout_s)
        if isinstance(action, loop.RunTools) and not action.refuse:
            batch.run(action.calls, action.held)
            return
        for call in action.calls:
            if isinstance(action, loop.SettleUnknown):
                batch.unknown(call)
            else:
                batch.refuse(call, _NOT_RUN)
        self.context.flush()

    # -- the answer --------------------------------------------------------------------------

    def _done(self, rows: t.Sequence[t.Any]) -> Mapping[str, t.Any]:
        output = agent_output(self.context, rows, self.started)
        if self.config.response_format is not None:
            said, reason = str(output["content"]), str(output["finishReason"])
            fields = structured.parse(said, self.config.response_format, reason)
            output = {**{k: v for k, v in fields.items() if k not in AGENT_OUTPUTS}, **output}
        return output


_T = t.TypeVar("_T")


def _or(value: _T | None, default: _T) -> _T:
    return default if value is None else value


def _prompt(context: BlockContext, config: AgentConfig) -> str:
    return message(context) if config.prompt is None else context.render(config.prompt)


def message(context: BlockContext) -> str:
    """What the run was asked: the input's ``message``, or the whole input as JSON when it has none."""
    given = context.variables()["input"]
    if isinstance(given, Mapping) and "message" in given:
        asked = given["message"]
        return asked if isinstance(asked, str) else encoding.dumps(asked).decode()
    return given if isinstance(given, str) else encoding.dumps(given).decode()
