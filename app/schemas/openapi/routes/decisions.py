"""What runs ask people.

Law of this room: see :mod:`app.schemas.openapi.routes`.
"""

from __future__ import annotations

from app.schemas.answers import AnswerBody
from app.schemas.openapi.operation import FORM, HTML, Answer, Operation
from app.schemas.openapi.routes.runs import CLOSED
from app.schemas.shapes.threads import DecideForm, Decision, DecisionLink, DecisionList, DecisionQuery

_UNKNOWN = {404: ("not_found",)}
_PAGE = "decisions-api.md#decisions"
_LINK = "decisions-api.md#links"

ROUTES = (
    Operation(
        route="GET /api/decisions",
        id="listDecisions",
        does="List what runs ask people",
        tag="Decisions",
        page=_PAGE,
        says="Newest first. A key without the scope `read` sees those of the runs it started.",
        query=DecisionQuery,
        answers={
            200: Answer(
                says="A page of decisions.",
                shape=DecisionList,
                links={"decision": ("getDecision", {"decision_id": "$response.body#/items/0/id"})},
            )
        },
    ),
    Operation(
        route="GET /api/decisions/<decision_id>",
        id="getDecision",
        does="Read one decision",
        tag="Decisions",
        page=_PAGE,
        answers={200: Answer(says="The decision.", shape=Decision)},
        errors=_UNKNOWN,
    ),
    Operation(
        route="POST /api/decisions/<decision_id>",
        id="answerDecision",
        does="Answer a decision",
        tag="Decisions",
        page=_PAGE,
        says="The run goes on by itself.",
        body=AnswerBody,
        example={"decision": "approve"},
        answers={200: Answer(says="The decision, answered.", shape=Decision)},
        errors={**_UNKNOWN, 409: CLOSED, 503: ("workflow_unavailable",)},
    ),
    Operation(
        route="POST /api/decisions/<decision_id>/link",
        id="linkDecision",
        does="Make a link for a person without a key",
        tag="Decisions",
        page=_LINK,
        says="Takes no body. It answers once, and replaces the link made before.",
        answers={201: Answer(says="The link.", shape=DecisionLink, headers=("Cache-Control",))},
        errors={**_UNKNOWN, 409: CLOSED},
    ),
    Operation(
        route="GET /decide/<token>",
        id="showDecision",
        does="Show what is to be decided",
        tag="Pages",
        page=_LINK,
        who="the link",
        answers={200: Answer(says="The page.", media=(HTML,), headers=("Content-Security-Policy",))},
        errors={404: (), 410: ()},
        page_errors=(404, 410),
    ),
    Operation(
        route="POST /decide/<token>",
        id="decide",
        does="Decide it, once",
        tag="Pages",
        page=_LINK,
        who="the link",
        body=DecideForm,
        body_media=FORM,
        answers={200: Answer(says="The page.", media=(HTML,), headers=("Content-Security-Policy",))},
        errors={400: (), 404: (), 410: (), 413: ("payload_too_large",), 503: ()},
        page_errors=(400, 404, 410, 503),
    ),
)
