"""One batch of tool calls: check, run concurrently, settle each exactly once.

Law of this room: a call that cannot run is answered, never dropped: the model is told what was wrong
and the run goes on. Nothing a tool does or raises ends the run; only cancellation does.
"""

from __future__ import annotations

import typing as t
from collections.abc import Sequence
from dataclasses import replace

from app import encoding
from app import events as ev
from app.agents.loop import CallResult
from app.agents.quiet import log
from app.agents.tools import ToolSet
from plugins.spec import BlockContext, Tool, ToolContext, ToolFailed
from providers.spec import ToolCallReady, Waits

#: Most calls of one turn that run; a model that asks for more is told so.
MAX_CALLS = 128
_TOO_MANY = f"More than {MAX_CALLS} calls in one turn. Nothing was run; ask for fewer at a time."
#: What the model is told of a call that a person would have to allow.
NO_APPROVAL = "This tool needs a person's approval, and none can be given in this version. Nothing was run."
_UNUSABLE = {
    "invalid_json": "Invalid arguments: they are not valid JSON. Nothing was run.",
    "not_an_object": "Invalid arguments: they have to be a JSON object. Nothing was run.",
    "cut": "The call was cut off by the output limit before its arguments were complete. Nothing was run.",
}


class Batch:
    """Runs the calls of one turn. ``settled`` is told of each result as it comes, before its event."""

    def __init__(
        self,
        context: BlockContext,
        turn: int,
        tools: ToolSet,
        timeout_s: float,
        started: t.Callable[[str], None],
        settled: t.Callable[[CallResult], None],
    ) -> None:
        self._context = context
        self._turn = turn
        self._tools = tools
        self._timeout_s = timeout_s
        self._started = started
        self._settled = settled

    def run(self, calls: Sequence[ToolCallReady]) -> None:
        """Settle every call: those that cannot run at once, the others as they end."""
        jobs = []
        for place, call in enumerate(calls):
            problem = self._problem(call) if place < MAX_CALLS else _TOO_MANY
            if problem is None:
                jobs.append(lambda waits, call=call: self._run_one(call, waits))
            else:
                self.refuse(call, problem)
        self._context.flush()
        if jobs:
            self._context.gather(jobs)

    def hold(self, calls: Sequence[ToolCallReady]) -> None:
        """Settle calls that a person would have to allow: nobody can be asked, so none of them runs."""
        for call in calls:
            self.refuse(call, self._problem(call) or NO_APPROVAL)
        self._context.flush()

    def refuse(self, call: ToolCallReady, message: str, ran: bool = False) -> None:
        """Settle a call ``error`` without running it; the model is told ``message``. ``ran``: it was begun before."""
        now = self._context.now_ms()
        self._settle(call, CallResult(call.id, call.name, message, {"error": message}, True, now, now, ran))

    def _problem(self, call: ToolCallReady) -> str | None:
        if call.error is not None:
            return _UNUSABLE[call.error]
        if call.name not in self._tools.tools:
            names = ", ".join(self._tools.tools) or "none"
            return " ".join((f"Unknown tool {call.name!r}. Available tools: {names}.", *self._tools.missing))
        return self._tools.problem(call.name, call.arguments or {})

    def _run_one(self, call: ToolCallReady, waits: Waits) -> None:
        with waits.wait():  # a cancelled run starts no further tool (field case CANCEL-08)
            pass
        self._started(call.id)
        tool = self._tools.tools[call.name]
        started = self._context.now_ms()
        self._context.emit(
            ev.ToolExecuting(self._context.block, self._turn, call.id, call.name, call.arguments, started)
        )
        self._context.flush()
        context = ToolContext(
            waits,
            self._context.run_id,
            call.id,
            self._timeout_s,
            self._context.variables(),
            self._context.now_ms,
            self._context.secrets,
        )
        content, result, failed = self._answer(tool, call, context, waits)
        ended = self._context.now_ms()
        self._settle(call, CallResult(call.id, call.name, content, result, failed, started, ended))
        self._context.flush()

    def _answer(
        self, tool: Tool, call: ToolCallReady, context: ToolContext, waits: Waits
    ) -> tuple[str, t.Any, bool]:
        """What the model is told, the value, and whether it is an error."""
        arguments = dict(call.arguments or {})

        def run(inner: Waits) -> t.Any:
            bound = replace(context, waits=inner)
            if tool.runs == "thread":
                known = context.secrets()  # here: the store is read by greenlets only
                bound = replace(bound, secrets=lambda: known)
                return self._context.run_blocking(lambda: tool.run(arguments, bound), inner)
            return tool.run(arguments, bound)

        try:
            value = encoding.plain(self._context.bounded(waits, self._timeout_s, run))
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

    def _settle(self, call: ToolCallReady, result: CallResult) -> None:
        self._settled(result)
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
