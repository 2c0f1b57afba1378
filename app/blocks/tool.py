"""The ``tool`` block: runs one tool with arguments of the workflow's own choosing.

Law of this room: the call is made as an agent's is: checked against the tool's schema, within the time tools have, and
shown to whoever may see tools. A tool that says no fails the block.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.agents import hashes
from app.agents.approval import lets_run
from app.agents.calls import Batch
from app.agents.loop import CallResult, decision_key
from app.agents.templates import render_value
from app.agents.tools import ToolSet, tool_set
from app.errors import BlockError
from app.events import ToolStarted, TurnEnded
from app.schemas.paths import join
from app.workflows.mcp_entries import is_mcp, tool_names
from app.workflows.template_syntax import is_template
from plugins.spec.blocks import BlockContext, BlockType, Use
from providers.spec import ToolCallReady

#: Keys of the rows with what is asked for, and with the id of a turn's call.
_ASKED, _CALL = "asked", "call"


@dataclass(frozen=True, slots=True)
class ToolConfig:
    """Which tool, and with what."""

    tool: t.Any = field(
        metadata={
            "doc": "A registered name, or an entry as in an agent's `tools`; of an MCP server, with the one name."
        }
    )
    arguments: t.Any = field(
        default_factory=dict,
        metadata={
            "doc": "An object, or a template that gives one; checked against the tool's schema.",
            "template": True,
        },
    )
    retries: int = field(
        default=0,
        metadata={"doc": "Further calls after one that failed; each is shown.", "low": 0, "high": 10},
    )


def check(config: ToolConfig, path: str) -> list[tuple[str, str]]:
    """What arguments may be, and that it is one tool."""
    given, problems = config.arguments, []
    if is_mcp(config.tool) and len(tool_names(config.tool) or ()) != 1:
        problems.append((join(path, "tool", "tools"), "must name the one tool of the server that is called"))
    if not isinstance(given, Mapping) and not (isinstance(given, str) and is_template(given)):
        problems.append((join(path, "arguments"), "must be an object, or a template that gives one"))
    return problems


def run(context: BlockContext, config: ToolConfig) -> Mapping[str, t.Any]:
    """Call the tool until it answers or its attempts are used up.

    :raises RunError: ``template_failed``, ``journal_mismatch``. :raises BlockError: ``tool_arguments_invalid``,
        ``tool_failed``, ``outcome_unknown``; blocks behind the error edge read ``result`` and ``status``. Where a
        person has to allow the call: ``rejected``, ``decision_expired``, ``approval_unavailable``.
    """
    tools = tool_set(config.tool, context)
    name = next(iter(tools.tools), None)
    if name is None:
        name = config.tool if isinstance(config.tool, str) else str(config.tool["name"])
        raise BlockError("tool_failed", f"The tool {name} is not there any more; see studio plugins.")
    if name in tools.held and not context.can_ask:
        raise BlockError(
            "approval_unavailable",
            f"The tool {name} of {context.name} needs a person's approval, and nobody can be asked in this run; "
            "call one with approval: never.",
        )
    arguments = _arguments(context, config)
    fits = isinstance(arguments, Mapping) and tools.problem(name, arguments) is None
    attempts = config.retries + 1 if fits else 1
    for turn in range(attempts):
        context.sleep(0)  # a stop lands before the next call is announced
        result = _call(context, tools, name, arguments, turn)
        if not result.is_error:
            return {"result": result.result, "status": "success"}
        if turn == attempts - 1:
            raise _failure(context, name, fits, result)
    raise AssertionError("not reached")


def _arguments(context: BlockContext, config: ToolConfig) -> t.Any:
    """What the tool is called with: as it was rendered when the block began."""
    own = hashes.of(config) if context.can_ask else None
    row = context.journal.find(0, _ASKED)
    if row is not None:
        if own is not None:
            hashes.check(row.input_hash, context.name, own)
        return row.value
    arguments = render_value(config.arguments, context.variables())
    context.journal.write(0, _ASKED, "asked", "done", arguments, own)
    return arguments


def _failure(context: BlockContext, name: str, fits: bool, result: CallResult) -> BlockError:
    code, message = "tool_failed", f"The tool {name} of {context.name} failed."
    if not fits:
        code = "tool_arguments_invalid"
        message = f"The arguments of {context.name} do not fit the schema of the tool {name}."
    return _error(code, message, result)


def _error(code: str, message: str, result: CallResult) -> BlockError:
    output = {"result": result.result, "status": "error"}
    return BlockError(code, message, detail=result.content, output=output)


def _call(context: BlockContext, tools: ToolSet, name: str, arguments: t.Any, turn: int) -> CallResult:
    """One call in a turn of its own, as an agent's: announced, then run, then settled.

    :raises BlockError: it must not be made again.
    """
    call = _announced(context, name, arguments, turn)
    batch = Batch(context, turn, tools, context.settings.tool_timeout_s)
    row = context.journal.find(turn, call.id)
    unknown = row is not None and row.state == "started" and name not in tools.repeatable
    if unknown:
        batch.unknown(call)
    elif row is None or row.state == "started":
        decided = context.journal.find(turn, decision_key(call.id)) is not None
        batch.run([call], () if decided or name not in tools.held else (call.id,))
    context.flush()
    settled = context.journal.find(turn, call.id)
    assert settled is not None
    result: CallResult = settled.value
    if unknown:
        message = f"Whether {context.name} has called {name} is not known: the server stopped meanwhile."
        raise _error("outcome_unknown", message, result)
    _see_allowed(context, name, turn, result)
    return result


def _announced(context: BlockContext, name: str, arguments: t.Any, turn: int) -> ToolCallReady:
    """The call of a turn, announced once for all to see."""
    given = dict(arguments) if isinstance(arguments, Mapping) else None
    known = context.journal.find(turn, _CALL)
    if known is None:
        with context.waits.wait():  # nothing is announced once a stop was asked for
            pass
        known = context.journal.write(turn, _CALL, "told", "done", context.new_id("call"))
        context.emit(ToolStarted(context.block, turn, known.value, name, context.now_ms()))
        context.emit(TurnEnded(context.block, turn, "intermediate", "tool_turn"))
    raw, error = ("", None) if given is not None else (str(arguments), "not_an_object")
    return ToolCallReady(known.value, name, given, raw, error)


def _see_allowed(context: BlockContext, name: str, turn: int, result: CallResult) -> None:
    """See that a person has not turned the call down: it is not for a further try to get round that."""
    row = context.journal.find(turn, decision_key(result.id))
    if row is None or lets_run(row.value):
        return
    if row.value.verdict == "expired":
        message = f"Nobody allowed the call of {name} by {context.name} in time."
        raise _error("decision_expired", message, result)
    raise _error("rejected", f"A person did not allow the call of {name} by {context.name}.", result)


TOOL = BlockType(
    type_name="tool",
    config=ToolConfig,
    run=run,
    summary="Runs one tool; its output is the result.",
    outputs=("result", "status"),
    check=check,
    uses=lambda config: (Use("tool", ("tool",), config.tool),),
)
