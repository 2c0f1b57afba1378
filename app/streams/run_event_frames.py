"""One frame of run events, as bytes, and what a reader of them asked for (contract section 5).

Law of this room: several frames of one envelope share its ``seq``; ``id: <runId>:<seq>`` stands on the last of them.
Whoever reads the older clients' members at the top finds them there as well: ``usage``, ``tool_name``, ``tool_input``,
``output``, ``sender``.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.clock import rfc3339
from app.encoding import dumps
from app.streams import sse
from app.streams.rights import Rights
from app.streams.run_event_data import MIRRORED
from app.streams.run_event_levels import Level
from app.streams.voices import Voices


@dataclass(frozen=True, slots=True)
class RunEventsOptions:
    """What one reader asked for and may have, and what is known of the workflow.

    :ivar rights: ``payloads``: inputs and outputs of tools; ``thinking``: the text of thinking.
    :ivar voices: which blocks speak.
    """

    run_id: str
    thread_id: str
    level: Level
    rights: Rights
    voices: Voices = field(default_factory=Voices)


def frame(
    options: RunEventsOptions, seq: int, ts: int, kind: str, data: Mapping[str, t.Any], last: bool
) -> bytes:
    """One frame.

    :param last: it is the last one of its envelope.
    """
    body: dict[str, t.Any] = {
        "type": kind,
        "seq": seq,
        "ts": rfc3339(ts),
        "run_id": options.run_id,
        "thread_id": options.thread_id,
        "data": data,
    }
    for name in MIRRORED:
        if name in data:
            body[name] = data[name]
    return sse.frame(dumps(body), id_of(options, seq) if last else None)


def id_of(options: RunEventsOptions, seq: int) -> bytes:
    """What names an event to those who attach."""
    return b"%b:%d" % (options.run_id.encode(), seq)
