"""The graph surface: turns of a conversation, followed node by node.

Law of this room: see :mod:`app.schemas.openapi.routes`.
"""

from __future__ import annotations

from dataclasses import replace

from app.schemas.chat import ChatBody, ChatResumeBody
from app.schemas.openapi.operation import ANY_CODE, Answer, Operation
from app.schemas.openapi.routes.running import LIMITS, NOT_READY, REPLAYED
from app.schemas.openapi.routes.runs import CLOSED
from app.schemas.shapes.graph import ChatResponse, Graph, TopologyQuery, TurnError, TurnGoesOn

_ANSWER = Answer(
    says="The answer, or the stream for those who prefer it.",
    shape=ChatResponse,
    streams=("graph",),
    headers=("X-Run-Id", "Vary"),
    maybe=LIMITS,
)
_GOES_ON = Answer(says="The turn goes on without this caller.", shape=TurnGoesOn, headers=("X-Run-Id",))
_BEGUN = replace(_ANSWER, maybe=(*LIMITS, *REPLAYED))

ROUTES = (
    Operation(
        route="POST /chat",
        id="chat",
        does="Answer a message, in JSON or node by node",
        tag="Running",
        page="graph-events.md",
        says="A stream comes where `Accept` prefers `text/event-stream` to `application/json`.",
        headers=("Accept", "Idempotency-Key", "traceparent"),
        body=ChatBody,
        example={"messages": [{"role": "user", "content": "Hello"}]},
        answers={200: _BEGUN, 202: replace(_GOES_ON, maybe=REPLAYED)},
        errors={
            **NOT_READY,
            409: (*NOT_READY[409], "thread_busy", "thread_paused", "cancelled"),
            503: (*NOT_READY[503], "cancelled"),
            500: (ANY_CODE,),
            502: (ANY_CODE,),
            504: (ANY_CODE,),
        },
        error=TurnError,
    ),
    Operation(
        route="POST /chat/resume",
        id="resumeChat",
        does="Answer the question at which a turn has paused, and go on with it",
        tag="Running",
        page="graph-events.md#answering",
        who="the key that opened the thread (with `run`), or an `admin` key; none where anybody may answer",
        headers=("Accept",),
        body=ChatResumeBody,
        example={"thread_id": "thr_01ABCDEF", "decision": "approve"},
        answers={200: _ANSWER, 202: _GOES_ON},
        errors={
            404: ("not_found",),
            409: (*CLOSED, "cancelled"),
            429: ("rate_limited",),
            500: (ANY_CODE,),
            502: (ANY_CODE,),
            503: ("cancelled", "at_capacity", "workflow_unavailable", "run_elsewhere"),
            504: (ANY_CODE,),
        },
        error=TurnError,
    ),
    Operation(
        route="GET /graph/topology",
        id="getTopology",
        does="Read the graph of a workflow",
        tag="Running",
        page="graph-events.md#the-graph",
        query=TopologyQuery,
        answers={200: Answer(says="The graph.", shape=Graph)},
        errors={404: ("not_found",), 409: ("not_deployed",)},
    ),
)
