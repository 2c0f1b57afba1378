"""Threads and their memory.

Law of this room: see :mod:`app.schemas.openapi.routes`.
"""

from __future__ import annotations

from app.schemas.openapi.operation import Answer, Operation
from app.schemas.shapes.runs import Stopped
from app.schemas.shapes.threads import (
    Forgotten,
    MemoryKey,
    MemoryList,
    MemoryQuery,
    Thread,
    ThreadList,
    ThreadQuery,
)

_UNKNOWN = {404: ("not_found",)}

ROUTES = (
    Operation(
        route="GET /api/threads",
        id="listThreads",
        does="List threads",
        tag="Threads",
        page="run-events.md#threads",
        says="Newest first. A key without the scope `read` sees those it has opened.",
        query=ThreadQuery,
        answers={
            200: Answer(
                says="A page of threads.",
                shape=ThreadList,
                links={"thread": ("getThread", {"thread_id": "$response.body#/items/0/threadId"})},
            )
        },
    ),
    Operation(
        route="GET /api/threads/<thread_id>",
        id="getThread",
        does="Read a thread",
        tag="Threads",
        page="run-events.md#threads",
        answers={200: Answer(says="Whose run is in it, and where the next one enters.", shape=Thread)},
        errors=_UNKNOWN,
    ),
    Operation(
        route="POST /api/threads/<thread_id>/stop",
        id="stopThread",
        does="Stop the run that is in a thread",
        tag="Threads",
        page="run-events.md#threads",
        says="Takes no body, and answers at once.",
        answers={202: Answer(says="What came of it.", shape=Stopped)},
        errors=_UNKNOWN,
    ),
    Operation(
        route="POST /api/threads/<thread_id>/release",
        id="releaseThread",
        does="Let go of what keeps a thread",
        tag="Threads",
        page="run-events.md#agents-that-keep-a-thread",
        says="Takes no body. The next message enters at the start.",
        answers={200: Answer(says="The thread.", shape=Thread)},
        errors=_UNKNOWN,
    ),
    Operation(
        route="GET /api/threads/<thread_id>/memory",
        id="getThreadMemory",
        does="Read what the agents of a thread remember",
        tag="Threads",
        page="memory.md#reading-and-deleting",
        query=MemoryQuery,
        answers={200: Answer(says="A page of exchanges, newest first.", shape=MemoryList)},
        errors=_UNKNOWN,
    ),
    Operation(
        route="DELETE /api/threads/<thread_id>/memory",
        id="deleteThreadMemory",
        does="Delete what the agents of a thread remember",
        tag="Threads",
        page="memory.md#reading-and-deleting",
        says="Takes no body. A run that goes on still adds what it comes to.",
        query=MemoryKey,
        answers={200: Answer(says="How much was deleted.", shape=Forgotten)},
        errors=_UNKNOWN,
    ),
)
