"""Runs: lists, records, events, ends.

Law of this room: see :mod:`app.schemas.openapi.routes`.
"""

from __future__ import annotations

from app.schemas.answers import ResumeBody
from app.schemas.openapi.operation import ANYTHING, Answer, Operation
from app.schemas.shapes.runs import Accepted, AttachedQuery, Executed, RunList, RunQuery, RunRecord, Stopped

#: Why an answer cannot be taken.
CLOSED = ("not_paused", "several_pauses", "already_answered", "decision_expired")
#: Surfaces a run can be followed in.
SURFACES = ("agent-events-v1", "agent-text", "builder", "runs", "graph")

ROUTES = (
    Operation(
        route="GET /api/runs",
        id="listRuns",
        does="List runs",
        tag="Runs",
        page="http-api.md#listing-runs",
        says="Newest first. A key without the scope `read` sees the runs it started.",
        query=RunQuery,
        answers={
            200: Answer(
                says="A page of runs.",
                shape=RunList,
                links={"run": ("getRun", {"run_id": "$response.body#/items/0/runId"})},
            )
        },
    ),
    Operation(
        route="GET /api/runs/<run_id>",
        id="getRun",
        does="Read the record of a run",
        tag="Runs",
        page="http-api.md#the-record-of-a-run",
        says="`output` is there for runs that have completed. What is too large is a reference in its place.",
        answers={200: Answer(says="The record.", shape=RunRecord)},
        errors={404: ("not_found",)},
    ),
    Operation(
        route="GET /api/runs/<run_id>/events",
        id="attachToRun",
        does="Follow a run",
        tag="Runs",
        page="http-api.md#attaching-to-a-run",
        says="From its beginning, or from an event on; of a run that goes on, and of one that is over.",
        query=AttachedQuery,
        headers=("Last-Event-ID", "X-Sim-Stream-Protocol"),
        answers={
            200: Answer(says="The stream.", streams=SURFACES, headers=("X-Run-Id",)),
            204: Answer(says="The run is over and all was delivered.", headers=("X-Run-Id",)),
        },
        errors={
            404: ("not_found",),
            503: ("at_capacity", "run_elsewhere"),
        },
    ),
    Operation(
        route="GET /api/runs/<run_id>/values/<ref>",
        id="getRunValue",
        does="Read a large value of a run",
        tag="Runs",
        page="http-api.md#large-values",
        answers={200: Answer(says="The value.", shape=ANYTHING)},
        errors={404: ("not_found",)},
    ),
    Operation(
        route="DELETE /api/runs/<run_id>",
        id="removeRun",
        does="Delete a run",
        tag="Runs",
        page="http-api.md#deleting-a-run",
        says="Takes no body. What belongs to the run goes with it; one that has not ended has to be stopped first.",
        answers={204: Answer(says="It is gone.")},
        errors={404: ("not_found",), 409: ("run_not_ended",)},
    ),
    Operation(
        route="POST /api/runs/<run_id>/cancel",
        id="stopRun",
        does="Stop a run",
        tag="Runs",
        page="http-api.md#stopping-a-run",
        says="Takes no body, and answers at once; the stream of the run ends with its `error` frame.",
        answers={202: Answer(says="What came of it.", shape=Stopped)},
        errors={404: ("not_found",)},
    ),
    Operation(
        route="POST /api/runs/<run_id>/resume",
        id="resumeRun",
        does="Answer what a run asks, and follow how it goes on",
        tag="Runs",
        page="decisions-api.md#continuing-a-run",
        says="The answer comes in the protocol in which the run was started.",
        body=ResumeBody,
        example={"decision": "approve"},
        answers={
            200: Answer(
                says="How it goes on: the answer, or the stream.",
                shape=Executed,
                streams=SURFACES,
                headers=("X-Run-Id",),
                maybe=("X-Studio-Stream-Protocol",),
            ),
            202: Answer(says="The run goes on by itself.", shape=Accepted, headers=("X-Run-Id",)),
        },
        errors={
            404: ("not_found",),
            409: CLOSED,
            429: ("rate_limited",),
            503: ("at_capacity", "run_elsewhere", "workflow_unavailable"),
        },
    ),
)
