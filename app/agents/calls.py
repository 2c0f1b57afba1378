"""One batch of tool calls: check, ask people where it is due, run concurrently, settle each exactly once.

Law of this room: a call that cannot run is answered, never dropped: the model is told what was wrong
and the run goes on. Nothing a tool does or raises ends the run; only cancellation does. That a call begins is durable
before it does.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from app import encoding
from app import events as ev
from app.agents import approval, hashes
from app.agents.loop import CallResult, decision_key
from app.agents.quiet import log
from app.agents.tools import ToolSet
from plugins.spec import BlockContext, Tool, ToolContext, ToolFailed
from plugins.spec.decisions import Answer
from providers.spec import ToolCallReady, Waits

#: Most calls of one turn that run; a model that asks for more is told so.
MAX_CALLS = 128
_TOO_MANY = f"More than {MAX_CALLS} calls in one turn. Nothing was run; ask for fewer at a time."
#: What the model is told of a call that a person would have to allow, where none can be asked.
NO_APPROVAL = "This tool needs a person's approval, and nobody can be asked in this run. Nothing was run."
#: What the model is told of a call that had begun when the process it ran in went away.
UNKNOWN = "The outcome of this call is unknown: the server stopped while it ran."
_UNUSABLE = {
    "invalid_json": "Invalid arguments: they are not valid JSON. Nothing was run.",
    "not_an_object": "Invalid arguments: they have to be a JSON object. Nothing was run.",
    "cut": "The call was cut off by the output limit before its arguments were complete. Nothing was run.",
}


class Batch:
    """Runs the calls of one turn, and takes down in the journal what comes of each, before its event."""

    def __init__(self, context: BlockContext, turn: int, tools: ToolSet, timeout_s: float) -> None:
        self._context = context
        self._turn = turn
        self._tools = tools
        self._timeout_s = timeout_s

    def run(self, calls: Sequence[ToolCallReady], held: Collection[str] = ()) -> None:
        """Settle every call: those that cannot run at once, the others as they end.

        :param held: ids of those that a person has to decide about; the others do not wait for that.
        """
        free, asking = [], []
        for place, call in enumerate(calls):
            problem = self._problem(call) if place < MAX_CALLS else _TOO_MANY
            if problem is None and call.id in held and not self._context.can_ask:
                problem = NO_APPROVAL
            if problem is not None:
                self.refuse(call, problem)
            elif call.id in held:
                asking.append(call)
            else:
                free.append(call)
        self._context.flush()
        if asking:
            self._context.at_once([*map(self._alone, free), *map(self._asked, self._groups(asking))])
        elif free:
            self._context.gather([self._job(call) for call in free])

    def refuse(self, call: ToolCallReady, message: str) -> None:
        """Settle a call ``error`` without running it; the model is told ``message``."""
        self._settle(call, self._failed(call, message, ran=False))

    def unknown(self, call: ToolCallReady) -> None:
        """Settle a call ``error`` that had begun in a process that is gone."""
        decided = self._decided(call)
        changed = None if decided is None else approval.changed(decided)
        self._settle(_with(call, changed), self._failed(call, UNKNOWN, ran=True, changed=changed))

    def _failed(
        self, call: ToolCallReady, message: str, ran: bool, changed: dict[str, t.Any] | None = None
    ) -> CallResult:
        now = self._context.now_ms()
        return CallResult(call.id, call.name, message, {"error": message}, True, now, now, ran, changed)

    def _problem(self, call: ToolCallReady) -> str | None:
        if call.error is not None:
            return _UNUSABLE[call.error]
        if call.name not in self._tools.tools:
            names = ", ".join(self._tools.tools) or "none"
            return " ".join((f"Unknown tool {call.name!r}. Available tools: {names}.", *self._tools.missing))
        return self._tools.problem(call.name, call.arguments or {})

    # -- people ------------------------------------------------------------------------------

    def _groups(self, calls: Sequence[ToolCallReady]) -> Sequence[Sequence[ToolCallReady]]:
        """The calls that are asked about one after the other: those of one tool that is asked about once."""
        groups: dict[str, list[ToolCallReady]] = {}
        for call in calls:
            once = self._tools.tools[call.name].approval == "ask_once"
            groups.setdefault(call.name if once else f"{call.name}\0{call.id}", []).append(call)
        return list(groups.values())

    def _asked(self, calls: Sequence[ToolCallReady]) -> Callable[[BlockContext], None]:
        """A job that asks about calls, and runs what was allowed while others are still being asked about."""

        def job(context: BlockContext) -> None:
            for place, call in enumerate(calls):
                if self._let_run(call, context):
                    context.gather([self._job(one) for one in calls[place:]])
                    return

        return job

    def _let_run(self, call: ToolCallReady, context: BlockContext) -> bool:
        """Whether a call may run, and those that it is asked about for; else it is settled."""
        tool = self._tools.tools[call.name]
        subject = approval.subject_of(tool)
        (answer,) = context.decide([approval.ask_of(tool, call, self._turn)])
        shown = hashes.of_call(call.name, call.arguments)
        context.journal.write(self._turn, decision_key(call.id), "decision", "done", answer, shown)
        if not approval.lets_run(answer):
            self.refuse(call, approval.refusal(answer))
            self._context.flush()
            return False
        if tool.approval == "ask_once" or answer.remember:
            context.approve(subject)
        return True

    def _decided(self, call: ToolCallReady) -> Answer | None:
        """What a person has decided about this very call; None when nobody was asked.

        :raises RunError: ``journal_mismatch``: they were shown another.
        """
        row = self._context.journal.find(self._turn, decision_key(call.id))
        if row is None:
            return None
        shown = hashes.of_call(call.name, call.arguments)
        hashes.check(row.input_hash, f"the decision about {call.name}", shown)
        return t.cast(Answer, row.value)

    # -- the call ----------------------------------------------------------------------------

    def _alone(self, call: ToolCallReady) -> Callable[[BlockContext], None]:
        return lambda context: self._run_one(call, context.waits)

    def _job(self, call: ToolCallReady) -> Callable[[Waits], None]:
        return lambda waits: self._run_one(call, waits)

    def _run_one(self, call: ToolCallReady, waits: Waits) -> None:
        with waits.wait():  # a cancelled run starts no further tool (field case CANCEL-08)
            pass
        decided = self._decided(call)
        if decided is not None and not approval.lets_run(decided):
            self.refuse(call, approval.refusal(decided))
            return
        changed = None if decided is None else approval.changed(decided)
        if changed is not None:
            problem = self._tools.problem(call.name, changed)
            if problem is not None:
                self.refuse(call, f"A person changed the arguments of this call. {problem}")
                return
            call = _with(call, changed)
        started = self._begin(call)
        content, result, failed = self._answer(call, waits)
        if changed is not None:
            content = approval.of_changed(changed, content)
        ended = self._context.now_ms()
        made = CallResult(call.id, call.name, content, result, failed, started, ended, changed=changed)
        self._settle(call, made)
        self._context.flush()

    def _begin(self, call: ToolCallReady) -> int:
        """Say that a call begins, durably where it may not be repeated; when that was."""
        context, now = self._context, self._context.now_ms()
        known = context.journal.find(self._turn, call.id)
        context.journal.write(self._turn, call.id, "tool", "started", None, self._hash(call))
        if known is None:  # else it is being repeated, and was told
            context.emit(ev.ToolExecuting(context.block, self._turn, call.id, call.name, call.arguments, now))
        if call.name not in self._tools.repeatable:
            context.commit()
        context.flush()
        return now

    def _answer(self, call: ToolCallReady, waits: Waits) -> tuple[str, t.Any, bool]:
        """What the model is told, the value, and whether it is an error."""
        tool = self._tools.tools[call.name]
        context = self._tool_context(call, waits)
        arguments = dict(call.arguments or {})
        try:
            made = self._context.bounded(waits, self._timeout_s, self._call(tool, arguments, context))
            value = encoding.plain(made)
        except ToolFailed as failed:
            message = str(failed)
        except TimeoutError:
            message = f"The tool did not answer within {self._timeout_s:g} s."
        except Exception:
            log.exception("tool %s failed run=%s call=%s", tool.name, context.run_id, call.id)
            message = f"The tool {tool.name} failed."
        else:
            return (value if isinstance(value, str) else encoding.dumps(value).decode()), value, False
        message = encoding.clean_text(message)
        return message, {"error": message}, True

    def _tool_context(self, call: ToolCallReady, waits: Waits) -> ToolContext:
        context = self._context
        return ToolContext(
            waits,
            context.run_id,
            call.id,
            self._timeout_s,
            context.variables(),
            context.now_ms,
            context.secrets,
        )

    def _call(
        self, tool: Tool, arguments: dict[str, t.Any], context: ToolContext
    ) -> Callable[[Waits], t.Any]:
        """What runs the tool with waits that end."""

        def run(inner: Waits) -> t.Any:
            bound = replace(context, waits=inner)
            if tool.runs == "thread":
                known = context.secrets()  # here: the store is read by greenlets only
                bound = replace(bound, secrets=lambda: known)
                return self._context.run_blocking(lambda: tool.run(arguments, bound), inner)
            return tool.run(arguments, bound)

        return run

    def _hash(self, call: ToolCallReady) -> str | None:
        """Of a call that may be found again in the journal by another process."""
        return hashes.of_call(call.name, call.arguments) if self._context.can_ask else None

    def _settle(self, call: ToolCallReady, result: CallResult) -> None:
        state: t.Literal["failed", "done"] = "failed" if result.is_error else "done"
        self._context.journal.write(self._turn, call.id, "tool", state, result, self._hash(call))
        self._context.emit(
            ev.ToolFinished(
                self._context.block,
                self._turn,
                call.id,
                call.name,
                "error" if result.is_error else "success",
                call.arguments if call.arguments is not None else call.raw,
                result.result,
                result.ended_at,
                result.started_at,
            )
        )


def _with(call: ToolCallReady, changed: dict[str, t.Any] | None) -> ToolCallReady:
    """The call as a person has changed it."""
    if changed is None:
        return call
    return ToolCallReady(call.id, call.name, changed, encoding.dumps(changed).decode())
