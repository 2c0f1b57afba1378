"""``final.data`` and the answer of a waiting caller: what a finished run hands over (contract 3.4, 3.5).

Law of this room: values are stripped first and picked from afterwards, so that no selector reaches what a
reader may not see.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Collection, Iterable, Mapping, Sequence

from app import encoding
from app.clock import rfc3339
from app.errors import RunError
from app.events import DecisionRequested, RunCompleted, RunPaused
from app.streams import references
from app.streams.rights import Rights, strip_call, strip_output, strip_usage

#: Most bytes of selected output in one answer (contract 3.5).
OUTPUT_LIMIT = 16 * 1024 * 1024

_INDEX = re.compile(r"\[\d+\]")
_MISSING: t.Any = object()


class Selection(t.Protocol):
    """A resolved selector: a block id as in the document, and a path into its output (empty: all of it)."""

    @property
    def block(self) -> str:
        """Block id without instance indexes."""

    @property
    def path(self) -> tuple[str, ...]:
        """Member names or list indexes, outermost first."""


def selects(block: str, instance: str) -> bool:
    """Whether a selector's block means this instance path; one without an index means every instance."""
    return block == instance or block == _INDEX.sub("", instance)


def pick(output: t.Any, path: Sequence[str]) -> t.Any:
    """The value at ``path``, or a marker of absence (see :func:`selection_map`)."""
    for part in path:
        if isinstance(output, Mapping) and part in output:
            output = output[part]
        elif isinstance(output, (list, tuple)) and part.isdecimal() and int(part) < len(output):
            output = output[int(part)]
        else:
            return _MISSING
    return output


def selection_map(
    outputs: Mapping[str, Mapping[str, t.Any]],
    selections: Sequence[Selection],
    rights: Rights,
    sent: Collection[str] = (),
) -> dict[str, dict[str, t.Any]]:
    """``{blockId: {path: value}}`` in the order of the selections.

    A whole output contributes each of its members. A path the output lacks is absent, not null.

    :param sent: instances whose ``content`` this reader already has as text.
    """
    chosen: dict[str, dict[str, t.Any]] = {}
    stripped: dict[str, t.Any] = {}
    for selection in selections:
        for instance in outputs:
            if not selects(selection.block, instance):
                continue
            if selection.path == ("content",) and instance in sent:
                continue
            if instance not in stripped:
                stripped[instance] = strip_output(outputs[instance], rights)
            if not selection.path:
                chosen.setdefault(instance, {}).update(stripped[instance])
                continue
            value = pick(stripped[instance], selection.path)
            if value is not _MISSING:
                chosen.setdefault(instance, {})[".".join(selection.path)] = value
    return chosen


def output_bytes(
    run_id: str,
    event: RunCompleted | RunPaused,
    selections: Sequence[Selection] | None,
    rights: Rights,
    sent: Collection[str] = (),
) -> bytes:
    """The ``output`` member as JSON: the run's output, or the selection map when selections were sent. A paused run
    has none yet, and of selections those that are there.

    :raises RunError: ``output_too_large``: it is over :data:`OUTPUT_LIMIT` bytes.
    """
    output: t.Any
    if selections is None:
        output = {} if isinstance(event, RunPaused) else strip_output(event.output, rights)
    else:
        output = selection_map(event.outputs, selections, rights, sent)
    encoded = encoding.dumps(output)
    if len(encoded) > references.VALUE_LIMIT:
        output = _referring(run_id, output, selected=selections is not None)
        encoded = encoding.dumps(output)
    if len(encoded) > OUTPUT_LIMIT:
        raise RunError(
            "output_too_large",
            f"The selected output has {len(encoded)} bytes; at most {OUTPUT_LIMIT} can be answered. "
            "Select fewer or smaller paths in selectedOutputs.",
        )
    return encoded


def _referring(run_id: str, output: t.Any, *, selected: bool) -> t.Any:
    """An output with references for what is too large in it; ``selected``: it is a map of selections."""
    if not selected and isinstance(output, (Mapping, list, tuple)):
        return references.referring(run_id, output, ("output",))
    if not selected:
        return references.whole(run_id, output, ("output",))
    return {
        block: {
            path: references.whole(run_id, value, ("blocks", block, "output", *_parts(path)))
            for path, value in values.items()
        }
        for block, values in output.items()
    }


def _parts(path: str) -> references.Path:
    return tuple(int(part) if part.isdecimal() else part for part in path.split("."))


def call_bytes(run_id: str, event: RunCompleted | RunPaused, rights: Rights) -> bytes:
    """The ``toolCalls`` member as JSON."""
    calls = tool_calls(event, rights)
    encoded = encoding.dumps(calls)
    if len(encoded) <= references.VALUE_LIMIT:
        return encoded
    return encoding.dumps(referring_calls(run_id, calls))


def referring_calls(run_id: str, calls: Mapping[str, t.Any]) -> dict[str, t.Any]:
    """``toolCalls`` with references for payloads that are too large."""
    return {
        block: {
            **found,
            "list": [
                references.referring(run_id, call, ("toolCalls", block, "list", place))
                for place, call in enumerate(found["list"])
            ],
        }
        for block, found in calls.items()
    }


def tool_calls(event: RunCompleted | RunPaused, rights: Rights) -> dict[str, dict[str, t.Any]]:
    """``{blockId: {list, count}}`` for every agent that ran. Calls that are held at a pause are not among them: what
    they become is not known, and what is asked about them is told elsewhere.
    """
    return {block: _settled(calls, rights) for block, calls in event.tool_calls.items()}


def _settled(calls: Sequence[Mapping[str, t.Any]], rights: Rights) -> dict[str, t.Any]:
    told = [strip_call(call, rights) for call in calls if call["status"] is not None]
    return {"list": told, "count": len(told)}


def final_data(
    run_id: str,
    event: RunCompleted,
    selections: Sequence[Selection] | None,
    rights: Rights,
    sent: Collection[str] = (),
) -> bytes:
    """``final.data`` as JSON (contract 3.5).

    :raises RunError: see :func:`output_bytes`.
    """
    members = [
        (b"success", encoding.dumps(event.success)),
        (b"runId", encoding.dumps(run_id)),
        (b"status", b'"completed"'),
        (b"output", output_bytes(run_id, event, selections, rights, sent)),
        (b"toolCalls", call_bytes(run_id, event, rights)),
    ]
    if not event.success:
        members.append((b"error", encoding.dumps(event.error or "The run failed.")))
    members.append((b"usage", encoding.dumps(strip_usage(event.usage, rights))))
    return joined(members)


#: Where runs are, for the addresses that answers hold.
RUNS_URL = "/api/runs"


def resume_of(
    run_id: str,
    thread_id: str,
    event: RunPaused,
    asked: Iterable[DecisionRequested],
    runs_url: str = RUNS_URL,
) -> dict[str, t.Any]:
    """How a paused run is continued (contract 3.5). Of several open decisions it names the oldest.

    :param asked: what was asked in this run; of others than that decision nothing is told.
    :param runs_url: where this reader finds runs.
    """
    pause_id = event.pauses[0][0] if event.pauses else ""
    body: dict[str, t.Any] = {
        "url": f"{runs_url}/{run_id}/resume",
        "pauseId": pause_id,
        "threadId": thread_id,
    }
    expires = [ask.expires_at for ask in asked if ask.pause_id == pause_id and ask.expires_at is not None]
    return body | ({"expiresAt": rfc3339(expires[-1])} if expires else {})


def output_so_far(
    run_id: str,
    event: RunPaused,
    selections: Sequence[Selection] | None,
    rights: Rights,
    sent: Collection[str] = (),
) -> bytes:
    """As :func:`output_bytes`; empty where that is too large: the run's end says so, a pause is no failure."""
    try:
        return output_bytes(run_id, event, selections, rights, sent)
    except RunError:
        return b"{}"


def paused_data(
    run_id: str,
    event: RunPaused,
    selections: Sequence[Selection] | None,
    rights: Rights,
    sent: Collection[str],
    resume: Mapping[str, t.Any],
) -> bytes:
    """``final.data`` of a run that waits for people, as JSON.

    :param resume: see :func:`resume_of`.
    """
    return joined(
        [
            (b"success", b"true"),
            (b"runId", encoding.dumps(run_id)),
            (b"status", b'"paused"'),
            (b"output", output_so_far(run_id, event, selections, rights, sent)),
            (b"toolCalls", call_bytes(run_id, event, rights)),
            (b"usage", encoding.dumps(strip_usage(event.usage, rights))),
            (b"resume", encoding.dumps(resume)),
        ]
    )


def joined(members: Sequence[tuple[bytes, bytes]]) -> bytes:
    """A JSON object of members that are encoded already: an output may be megabytes and is encoded once, for its
    size and for the wire.
    """
    return b"{%b}" % b",".join(b'"%b":%b' % member for member in members)
