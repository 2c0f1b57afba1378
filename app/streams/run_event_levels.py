"""Which run events a reader gets, by the level it asked for (contract section 5).

Law of this room: this table is the only place that knows. The projection filters by it, the schema is held against
it, and the table on the page of the stream is made from it.
"""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass

Level = t.Literal["full", "messages", "minimal"]
#: From all to least. Each level's events are among those of the one before.
LEVELS: tuple[Level, ...] = t.get_args(Level)

#: ``answer``: only text of blocks whose output reaches the run's output.
Shown = t.Literal["yes", "answer", "no"]


@dataclass(frozen=True, slots=True)
class EventRow:
    """One kind of event.

    :ivar data: the members of ``data``, for people; ``?`` marks those that may be absent.
    :ivar when: what it says and when it comes, for people.
    :ivar least: the least level that has it. :ivar answer_only: at that level, text of the answer alone.
    """

    type: str
    data: str
    when: str
    least: Level
    answer_only: bool = False

    def shown(self, level: Level) -> Shown:
        """What a reader at ``level`` gets of it."""
        if LEVELS.index(level) > LEVELS.index(self.least):
            return "no"
        return "answer" if self.answer_only and level == self.least else "yes"


_NODE = "node_id, node_type, node_name, node_run_id"
_CALL = "tool_call_id, node_id, tool_name"
_PAUSE = "node_id, pause_id, tool_call_id?, review{kind, …}, expires_at?"

#: Every event there is.
EVENTS: tuple[EventRow, ...] = (
    EventRow(
        "thread", "thread_id", "First, in every run, and again first when a paused run goes on.", "minimal"
    ),
    EventRow(
        "gap",
        "from, to, reason",
        "Only for those who [attach](#attaching): the events between cannot be told any more. Text and nodes that you "
        "show do not stand; what stands follows.",
        "minimal",
    ),
    EventRow("workflow_node_start", _NODE, "A block begins.", "messages"),
    EventRow(
        "workflow_node_end",
        f"{_NODE}, success, error?, skipped?, duration_ms",
        "A block has ended. One that no path led to has only this, with `skipped`.",
        "messages",
    ),
    EventRow(
        "workflow_loop",
        "node_id, iteration, path",
        "A loop runs its body (`loop`, before the body's first block) or is over (`exit`, with the iterations done).",
        "messages",
    ),
    EventRow(
        "agent_message",
        "content, sender{name}, context{node_id}, round?",
        "What a block said, whole, once its turn is settled.",
        "minimal",
        answer_only=True,
    ),
    EventRow(
        "chat_chunk",
        "content, node_id",
        "A piece of an answer as it is written, where exactly one block speaks and nothing can take its text back.",
        "minimal",
        answer_only=True,
    ),
    EventRow("tool_use", f"{_CALL}, tool_input?", "A model asks for a tool.", "messages"),
    EventRow("tool_executing", f"{_CALL}, status", 'The tool runs: `status` is "running".', "messages"),
    EventRow(
        "tool_result",
        f"{_CALL}, output?, status, truncated?, size?",
        "The call is settled. An output over 64 KiB is cut; `size` is its whole length in bytes.",
        "messages",
    ),
    EventRow("routing_decision", "node_id, route, reason?", "A router or condition has chosen.", "full"),
    EventRow("sequential_start", "node_id, agent_index, name", "An agent of a sequence begins.", "full"),
    EventRow("sequential_end", "node_id, agent_index, name", "It has ended.", "full"),
    EventRow("debate_start", "node_id, participants[{index, name}], rounds", "A debate begins.", "full"),
    EventRow("debate_round", "node_id, round", "A round of it begins.", "full"),
    EventRow("debate_end", "node_id, round, consensus", "It is over; `round` is the last one.", "full"),
    EventRow(
        "vote_cast",
        "node_id, vote?, abstained?, voter_index, sender?",
        "A ballot, or with `abstained` none. A secret one has no `sender`.",
        "full",
    ),
    EventRow(
        "vote_result",
        "node_id, votes{option: count}, winner, has_majority, abstained",
        "The result; `winner` is null for a tie that no rule decides.",
        "full",
    ),
    EventRow(
        "llm_thinking",
        "node_id, state, chars, text?",
        "A model thinks: `started`, then `finished`. With `includeThinking` also `thinking`, with the `text`.",
        "full",
    ),
    EventRow("search_started", "node_id", "A retrieve block searches.", "full"),
    EventRow("search_finished", "node_id, success", "It has searched.", "full"),
    EventRow("processing_final_response", "node_id", "A response block makes the run's output.", "full"),
    EventRow(
        "decision_requested",
        _PAUSE,
        "A [person has to decide](approvals.md); what runs beside goes on.",
        "minimal",
    ),
    EventRow("decision_settled", "node_id, pause_id, decision", "It was decided, or time was up.", "minimal"),
    EventRow(
        "workflow_paused",
        _PAUSE,
        "Nothing can go on before somebody has decided: one for each open decision. The stream ends, the run does not.",
        "minimal",
    ),
    EventRow(
        "flow_state",
        "pinned_node, pinned_agent",
        "Where the next message enters, before `done`; null when at the start.",
        "messages",
    ),
    EventRow(
        "workflow_stopped",
        "node_id?, node_ids?",
        "The run was stopped; what would have run next.",
        "minimal",
    ),
    EventRow("workflow_error", "error, code, node_id", "The run failed at this block.", "minimal"),
    EventRow("error", "error, code", "The run failed, and no block is at fault; or time was up.", "minimal"),
    EventRow(
        "detached",
        "retry_ms",
        "In place of an end: the run goes on in another process. [Attach](#attaching) again.",
        "minimal",
    ),
    EventRow("done", "usage, status, cause?", "Last, in every run; `status` may be `paused`.", "minimal"),
)


@functools.cache
def shown(level: Level) -> t.Mapping[str, Shown]:
    """What a reader at ``level`` gets, by type of event; what it never gets is not in it."""
    return {row.type: row.shown(level) for row in EVENTS if row.shown(level) != "no"}
