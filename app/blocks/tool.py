"""The ``tool`` block: runs one tool with arguments of the workflow's own choosing.

Law of this room: the call is made as an agent's is: checked against the tool's schema, within the time tools have, and
shown to whoever may see tools. A tool that says no fails the block.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.agents.calls import Batch
from app.agents.loop import CallResult
from app.agents.templates import render_value
from app.agents.tools import ToolSet, tool_set
from app.errors import BlockError
from app.events import ToolStarted, TurnEnded
from app.schemas.paths import join
from app.workflows.mcp_entries import is_mcp, tool_names
from app.workflows.template_syntax import is_template
from plugins.spec.blocks import BlockContext, BlockType, Use
from providers.spec import ToolCallReady


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

    :raises RunError: ``template_failed``. :raises BlockError: ``tool_arguments_invalid``, ``tool_failed``; blocks
        behind the error edge read ``result`` and ``status``. ``approval_unavailable``: nothing was called.
    """
    tools = tool_set(config.tool, context)
    arguments = render_value(config.arguments, context.variables())
    name = next(iter(tools.tools), None)
    if name is None:
        name = config.tool if isinstance(config.tool, str) else str(config.tool["name"])
        raise BlockError("tool_failed", f"The tool {name} is not there any more; see studio plugins.")
    if name in tools.held:
        raise BlockError(
            "approval_unavailable",
            f"The tool {name} of {context.name} needs a person's approval, and none can be given in this version; "
            "call one with approval: never.",
        )
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


def _failure(context: BlockContext, name: str, fits: bool, result: CallResult) -> BlockError:
    code, message = "tool_failed", f"The tool {name} of {context.name} failed."
    if not fits:
        code = "tool_arguments_invalid"
        message = f"The arguments of {context.name} do not fit the schema of the tool {name}."
    return BlockError(
        code, message, detail=result.content, output={"result": result.result, "status": "error"}
    )


def _call(context: BlockContext, tools: ToolSet, name: str, arguments: t.Any, turn: int) -> CallResult:
    """One call in a turn of its own, as an agent's: announced, then run, then settled."""
    settled: list[CallResult] = []
    journal, call_id = context.journal, context.new_id("call")

    def done(result: CallResult) -> None:
        settled.append(result)
        journal.write(turn, result.id, "tool", "failed" if result.is_error else "done", result)

    with context.waits.wait():  # nothing is announced once a stop was asked for
        pass
    context.emit(ToolStarted(context.block, turn, call_id, name, context.now_ms()))
    context.emit(TurnEnded(context.block, turn, "intermediate", "tool_turn"))
    given = dict(arguments) if isinstance(arguments, Mapping) else None
    call = ToolCallReady(
        call_id,
        name,
        given,
        "" if given is not None else str(arguments),
        None if given is not None else "not_an_object",
    )
    batch = Batch(
        context,
        turn,
        tools,
        context.settings.tool_timeout_s,
        lambda started: journal.write(turn, started, "tool", "started"),
        done,
    )
    batch.run([call])
    context.flush()
    return settled[0]


TOOL = BlockType(
    type_name="tool",
    config=ToolConfig,
    run=run,
    summary="Runs one tool; its output is the result.",
    outputs=("result", "status"),
    check=check,
    uses=lambda config: (Use("tool", ("tool",), config.tool),),
)
