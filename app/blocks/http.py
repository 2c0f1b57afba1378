"""The ``http`` block: one request, its answer as output.

Law of this room: where a request may go is not decided here, nor can a document change it; what comes back is data,
and only statuses named in ``fail_on`` are failures. A request that may have changed something is not made a second time
by itself.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.agents.http_calls import MAX_BYTES, SAFE, decoded, make_call
from app.errors import BlockError
from app.schemas.paths import join, shown
from app.workflows.secret_use import address_problems
from app.workflows.tool_entries import HttpCall, url_problem
from plugins.spec import ToolFailed
from plugins.spec.blocks import BlockContext, BlockType

#: The widest answer a document may ask for, in bytes.
MOST_BYTES = 16 * 1024 * 1024
_STATUSES = re.compile(r"([1-5])xx|([1-5]\d\d)(?:-([1-5]\d\d))?")
_MAX_DETAIL = 2000
#: Key of the row that says how far a request has come.
_SENT = "request"


@dataclass(frozen=True, slots=True)
class HttpConfig(HttpCall):
    """What is asked, and which answers are failures."""

    fail_on: Sequence[str | int] = field(
        default=("4xx", "5xx"),
        metadata={
            "doc": "Statuses that fail the block: `404`, `4xx`, `500-599`. `[]`: none; every answer is an output."
        },
    )
    max_bytes: int = field(
        default=MAX_BYTES,
        metadata={
            "doc": "Longest answer in bytes; a longer one fails the block.",
            "low": 1,
            "high": MOST_BYTES,
            "advanced": True,
        },
    )


def check(config: HttpConfig, path: str) -> list[tuple[str, str]]:
    """The address where it is known, and the statuses."""
    problems = []
    problem = url_problem(config.url)
    if problem is not None:
        problems.append((join(path, "url"), problem))
    problems += [(told.path, told.message) for told in address_problems(config.url, config.headers, path)]
    for place, entry in enumerate(config.fail_on):
        if _range(entry) is None:
            message = f"must be a status such as 404, 4xx or 500-599, not {shown(entry)}"
            problems.append((join(path, "fail_on", place), message))
    return problems


def _range(entry: str | int) -> range | None:
    found = _STATUSES.fullmatch(str(entry).strip().lower())
    if found is None:
        return None
    hundred, first, last = found.groups()
    if hundred is not None:
        return range(int(hundred) * 100, int(hundred) * 100 + 100)
    return range(int(first), int(last or first) + 1)


def run(context: BlockContext, config: HttpConfig) -> Mapping[str, t.Any]:
    """Make the request.

    :raises RunError: ``template_failed``. :raises BlockError: ``http_failed`` there is no answer, ``http_status`` it
        has a status of ``fail_on``; blocks behind the error edge then read it as usual. ``outcome_unknown``: the server
        stopped after it was sent.
    """
    if config.method not in SAFE:
        _begin(context, config)
    try:
        answer = make_call(
            config,
            context.variables(),
            secrets=context.secrets,
            timeout_s=config.timeout_s,
            waits=context.waits,
            allow=context.settings.http_allow,
            max_bytes=config.max_bytes,
        )
    except ToolFailed as failed:
        _ends(context, config, "failed")
        raise BlockError("http_failed", f"{context.name} got no answer: {failed}.") from None
    _ends(context, config, "done")
    output = {
        "status": answer.status,
        "headers": dict(answer.headers),
        "body": decoded(answer.text),
        "text": answer.text,
    }
    if any(answer.status in (_range(entry) or ()) for entry in config.fail_on):
        message = f"{context.name} was answered with HTTP status {answer.status}."
        raise BlockError("http_status", message, detail=answer.text[:_MAX_DETAIL], output=output)
    return output


def _begin(context: BlockContext, config: HttpConfig) -> None:
    """Say durably that a request is sent, unless one was in an earlier process and what came of it is not known.

    A further try of this process knows what came of the one before: it failed.

    :raises BlockError: ``outcome_unknown``.
    """
    row = context.journal.find(0, _SENT)
    if row is not None and (row.state == "unknown" or (row.state == "started" and context.attempt == 1)):
        context.journal.write(0, _SENT, "tool", "unknown")
        message = (
            f"Whether the {config.method} request of {context.name} came through is not known: the server stopped "
            "meanwhile. It was not sent again."
        )
        raise BlockError("outcome_unknown", message)
    context.journal.write(0, _SENT, "tool", "started")
    context.commit()


def _ends(context: BlockContext, config: HttpConfig, state: t.Literal["done", "failed"]) -> None:
    if config.method not in SAFE:
        context.journal.write(0, _SENT, "tool", state)


HTTP = BlockType(
    type_name="http",
    config=HttpConfig,
    run=run,
    summary="Makes one HTTP request; its output is the answer.",
    outputs=("status", "headers", "body", "text"),
    check=check,
)
