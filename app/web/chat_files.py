"""Files that come with a visitor's message.

Law of this room: a file is what its bytes say, and nothing is fetched for a visitor. Its bytes are kept once, as those
of an uploaded file that belongs to the visitor, and for as long as the run may need them; the run's input names it.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from app.engine.giving_way import giving_way
from app.errors import ApiError, Problem, ValidationFailed
from app.schemas.paths import join
from app.store.files import FilesFull
from app.workflows.file_entries import MAX_BYTES, Entry, FileRefused, content_of, sniff

if t.TYPE_CHECKING:
    from collections.abc import Sequence

    from app.engine.services import Services
    from app.schemas.chat_message import ChatFile
    from app.web.chat_config import Chat
    from app.web.visitors import Visitor

#: Seconds that files are kept beyond the time a run may take.
_LATER_S = 60


@dataclass(frozen=True, slots=True)
class Sent:
    """One file of a message."""

    name: str
    media_type: str
    data: bytes


def read(chat: Chat, files: Sequence[ChatFile]) -> list[Sent]:
    """The files of a message, each as what its bytes say.

    :raises ValidationFailed: 400 with every problem.
    """
    if files and not chat.takes_files:
        raise ValidationFailed([Problem("files", "this chat takes no files; leave them out")])
    found, problems, left = [], [], MAX_BYTES
    step = giving_way()
    for place, file in enumerate(files):
        try:
            data, stated = content_of(Entry(data=file.data, media_type=file.type), step)
            if file.size not in (None, len(data)):
                raise FileRefused(f"has {len(data)} bytes and not {file.size}; send it whole")
            _, media_type, data = sniff(data, stated, step)
        except FileRefused as refused:
            problems.append(Problem(join("files", place), str(refused)))
            continue
        left -= len(data)
        found.append(Sent(_plain(file.name), media_type, data))
    if left < 0:
        problems.append(Problem("files", f"may have {MAX_BYTES // 1024 // 1024} MiB together; send less"))
    if problems:
        raise ValidationFailed(problems)
    return found


def keep(services: Services, chat: Chat, visitor: Visitor, files: Sequence[Sent]) -> list[dict[str, t.Any]]:
    """Keep the files of a message; what the run's input says of them.

    :raises ApiError: 503 ``at_capacity``: its visitors keep as much as one API key may.
    """
    if not files:
        return []
    settings, run = services.settings, chat.found.workflow
    most = settings.files_mb * 1_000_000
    together = f"chat:{chat.row.id}:"
    # Before anything is kept of what does not fit whole; each file is counted again where it is kept.
    if services.store.files.kept(together) + sum(len(file.data) for file in files) > most:
        raise _full()
    # Who waits for people may need them for long; all others are over by then.
    seconds = settings.files_s if run.durable else run.settings.timeout_s + _LATER_S
    until = services.clock.now_ms() + round(seconds * 1000)
    entries: list[dict[str, t.Any]] = []
    for file in files:
        try:
            row = services.store.files.put(
                visitor.subject, file.name, file.media_type, file.data, until, most, together=together
            )
        except FilesFull:
            for entry in entries:  # of a message that is refused
                services.store.files.remove(entry["file"])
            raise _full() from None
        entries.append({"name": row.name, "media_type": row.media_type, "file": row.id})
    return entries


def _full() -> ApiError:
    message = "Too many files are being looked at in this chat at this moment; try again."
    return ApiError(503, "at_capacity", message, headers={"Retry-After": "60"})


def _plain(name: str) -> str:
    """A name without what is no character, and without folders."""
    bare = name.replace("\\", "/").rpartition("/")[2]
    return "".join(c for c in bare if c.isprintable()) or "file"
