"""Running workflows: the routes that start runs.

Law of this room: see :mod:`app.schemas.openapi.routes`.
"""

from __future__ import annotations

from app.schemas.openapi.operation import Answer, Operation
from app.schemas.requests import DraftRunBody, ExecuteBody, RunsBody
from app.schemas.shapes.runs import Accepted, Executed

_FOLLOWS = {"run": ("getRun", {"run_id": "$response.body#/runId"})}

#: What is left of limits, where the caller has any.
LIMITS = ("RateLimit", "RateLimit-Policy")
#: What is said of a key that names a request.
KEY = ("idempotency_conflict", "idempotency_pending")
#: Of a request that may be sent again.
REPLAYED = ("Idempotent-Replayed",)
#: What is found out before a run begins, or when one that was begun before is looked for.
NOT_READY = {
    400: ("provider_not_configured", "secret_unknown", "not_supported"),
    404: ("not_found",),
    409: ("not_deployed", *KEY),
    429: ("rate_limited",),
    503: ("at_capacity", "provider_not_configured", "secret_unknown", "secrets_locked", "run_elsewhere"),
}

ROUTES = (
    Operation(
        route="POST /api/workflows/<workflow_id>/execute",
        id="executeWorkflow",
        does="Run a workflow",
        tag="Running",
        page="http-api.md#waiting-for-an-answer",
        says=(
            "Waits for the answer; with `stream: true` answers with a stream, with `async: true` at once. "
            "`includeThinking` and `includeToolCalls` need `stream: true` and the header `X-Studio-Stream-Protocol`."
        ),
        headers=("X-Studio-Stream-Protocol", "X-Sim-Stream-Protocol", "Idempotency-Key", "traceparent"),
        body=ExecuteBody,
        body_optional=True,
        example={"input": {"message": "Hello"}, "selectedOutputs": ["agent_1.content"]},
        answers={
            200: Answer(
                says="The answer, or the stream. Once there is a run, a failure is in band.",
                shape=Executed,
                streams=("agent-events-v1", "agent-text"),
                headers=("X-Run-Id",),
                maybe=("X-Studio-Stream-Protocol", *LIMITS, *REPLAYED),
                links=_FOLLOWS,
            ),
            202: Answer(
                says="The run goes on by itself.",
                shape=Accepted,
                headers=("X-Run-Id",),
                maybe=REPLAYED,
                links=_FOLLOWS,
            ),
        },
        errors={**NOT_READY, 409: (*NOT_READY[409], "thread_busy", "thread_paused")},
    ),
    Operation(
        route="POST /api/workflows/<workflow_id>/runs",
        id="followWorkflow",
        does="Run a workflow and tell all of it",
        tag="Running",
        page="run-events.md",
        says="Always a stream. `message` and `input` exclude each other; `thread_id` continues a conversation.",
        headers=("Idempotency-Key", "traceparent"),
        body=RunsBody,
        body_optional=True,
        example={"message": "Hello", "events": "messages"},
        answers={
            200: Answer(
                says="The stream.", streams=("runs",), headers=("X-Run-Id",), maybe=(*LIMITS, *REPLAYED)
            )
        },
        errors={
            **NOT_READY,
            406: ("not_acceptable",),
            409: (*NOT_READY[409], "thread_busy", "thread_paused"),
        },
    ),
    Operation(
        route="POST /api/workflows/<workflow_id>/draft/run",
        id="runDraft",
        does="Run a draft and follow it as its builder",
        tag="Running",
        page="builder-events.md",
        says="Always a stream. `document` is run in its place; `input` and `inputFromRunId` exclude each other.",
        headers=("Idempotency-Key", "traceparent"),
        body=DraftRunBody,
        body_optional=True,
        example={"input": {"message": "Hello"}, "stopAfter": "agent_1"},
        answers={
            200: Answer(says="The stream.", streams=("builder",), headers=("X-Run-Id",), maybe=REPLAYED)
        },
        errors={**NOT_READY, 409: KEY},
    ),
)
