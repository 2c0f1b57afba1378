"""What a visitor is told of a failure: one fixed text for each stable code.

Law of this room: this table is the only place that knows. What really happened may name blocks, models, tools and
addresses; it stands in the run's record, for those with a key. A text here names none of them and says what helps, if
anything does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from app.events import STOPPED_TEXT, TIMEOUT_TEXT

#: For every failure that has no text of its own.
FAILED = "Something went wrong, and the answer could not be made."
_LATER = "The answer could not be made at the moment. Try again a little later."
_WRONG = "Something in this workflow does not work. Tell whoever published it."
_LONG = "It took too long, and was stopped."
_PERSON = "A person would have had to decide, and nobody did."

#: Fixed texts by code; codes of plugins have :data:`FAILED`.
TEXTS: Mapping[str, str] = {
    # The vendor's side.
    "provider_auth": _WRONG,
    "provider_bad_request": _WRONG,
    "provider_bad_stream": _LATER,
    "provider_idle": _LATER,
    "provider_not_configured": _WRONG,
    "provider_overloaded": _LATER,
    "provider_rate_limited": _LATER,
    "provider_unavailable": _LATER,
    "content_filtered": "The answer was withheld by a content filter.",
    "context_length_exceeded": "The conversation is too long. Begin a new one, or say it in fewer words.",
    # Ours, whatever the workflow does.
    "budget_exceeded": "This service has used what it may use for now. Try again later.",
    "cancelled": STOPPED_TEXT,
    "internal": _LATER,
    "journal_mismatch": FAILED,
    "output_too_large": "The answer is too large to be sent.",
    "resume_failed": FAILED,
    "timed_out": TIMEOUT_TEXT,
    "worker_lost": _LATER,
    # What a workflow does.
    "approval_unavailable": _WRONG,
    "block_failed": FAILED,
    "block_timeout": _LONG,
    "collection_unknown": _WRONG,
    "decision_expired": _PERSON,
    "embedding_model_differs": _WRONG,
    "embedding_model_missing": _WRONG,
    "embeddings_differ": _WRONG,
    "embeddings_missing": _WRONG,
    "files_invalid": "A file could not be read, or is of a kind that is not taken.",
    "files_not_supported": "A file is of a kind that is not taken.",
    "guardrail_failed": "The text could not be checked, so it is not shown.",
    "http_failed": _LATER,
    "http_status": _LATER,
    "loop_invalid": _WRONG,
    "mcp_tool_unknown": _WRONG,
    "mcp_too_many_tools": _WRONG,
    "mcp_unavailable": _LATER,
    "memory_key_invalid": _WRONG,
    "memory_unavailable": _LATER,
    "model_unknown": _WRONG,
    "no_route": FAILED,
    "node_failed": FAILED,
    "outcome_unknown": "Whether it was done is not known. Ask before you try again.",
    "redaction_failed": "The text could not be checked, so it is not shown.",
    "rejected": "A person has decided against it.",
    "route_undecided": FAILED,
    "search_failed": _LATER,
    "secret_unknown": _WRONG,
    "structured_output_invalid": FAILED,
    "template_failed": _WRONG,
    "tool_arguments_invalid": FAILED,
    "tool_call_truncated": FAILED,
    "tool_failed": FAILED,
    "workflow_timeout": _LONG,
    "workflow_too_deep": _WRONG,
    "workflow_unavailable": _WRONG,
}

#: In place of a failure of which only the text is known.
TEXT_LOST = "Some of the text was lost."

_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")


def text_for(code: str | None) -> str:
    """The text of a code."""
    return TEXTS.get(code or "", FAILED)


def code_for(code: str | None) -> str:
    """A code as a visitor may see it: what does not look like one is none."""
    return code if code is not None and _CODE.fullmatch(code) else "block_failed"
