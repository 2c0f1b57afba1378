"""Chats: their deployment, and what their pages call.

Law of this room: see :mod:`app.schemas.openapi.routes`.
"""

from __future__ import annotations

from app.schemas.answers import ResumeBody
from app.schemas.chat_deployment import ChatDeploymentBody
from app.schemas.chat_message import ChatMessageBody
from app.schemas.openapi.operation import HTML, Answer, Operation
from app.schemas.openapi.routes.running import KEY, LIMITS, REPLAYED
from app.schemas.openapi.routes.runs import CLOSED
from app.schemas.shapes.chats import (
    Chat,
    ChatConfig,
    ChatError,
    ChatList,
    ChatQuery,
    SaidList,
    VisitorEventsQuery,
    VisitorRun,
)
from app.schemas.shapes.common import Page
from app.schemas.shapes.runs import Accepted, Executed, Stopped

_PAGE = "chats.md"
_VISITS = "chats-api.md"
_CHANGED = {404: ("not_found",), 412: ("precondition_failed",), 428: ("precondition_required",)}
_SURFACES = ("agent-events-v1", "agent-text")
#: What everybody meets who knocks.
DOOR = {
    401: ("auth_required_password", "auth_required_email", "auth_required_sso"),
    403: ("chat_inactive", "origin_not_allowed"),
    404: ("not_found",),
    429: ("rate_limited",),
    503: ("chat_not_ready", "at_capacity", "draining"),
}
#: Who the visitor is.
VISITOR = ("X-Studio-Visitor",)

_MANAGED = (
    Operation(
        route="GET /api/chats",
        id="listChats",
        does="List chats",
        tag="Chats",
        page=_PAGE,
        says="Newest first.",
        query=ChatQuery,
        answers={
            200: Answer(
                says="A page of chats.",
                shape=ChatList,
                links={"chat": ("getChat", {"chat_id": "$response.body#/items/0/id"})},
            )
        },
    ),
    Operation(
        route="POST /api/chats",
        id="createChat",
        does="Deploy a workflow as a chat",
        tag="Chats",
        page=_PAGE,
        body=ChatDeploymentBody,
        nulls=True,
        example={"workflowId": "wf_01ABCDEF", "slug": "help-desk", "title": "Help desk"},
        answers={
            201: Answer(
                says="The chat.",
                shape=Chat,
                headers=("ETag", "Location"),
                links={"chat": ("getChat", {"chat_id": "$response.body#/id"})},
            )
        },
        errors={404: ("not_found",), 409: ("not_deployed", "slug_taken")},
    ),
    Operation(
        route="GET /api/chats/<chat_id>",
        id="getChat",
        does="Read a chat",
        tag="Chats",
        page=_PAGE,
        headers=("If-None-Match",),
        answers={
            200: Answer(says="The chat.", shape=Chat, headers=("ETag",)),
            304: Answer(says="It is as the caller has it.", headers=("ETag",)),
        },
        errors={404: ("not_found",)},
    ),
    Operation(
        route="PATCH /api/chats/<chat_id>",
        id="changeChat",
        does="Change a chat",
        tag="Chats",
        page=_PAGE,
        says="What the body names; null takes something away. With the chat's `ETag` in `If-Match`.",
        headers=("If-Match",),
        body=ChatDeploymentBody,
        nulls=True,
        partial=True,
        example={"active": False},
        answers={200: Answer(says="The chat.", shape=Chat, headers=("ETag",))},
        errors={**_CHANGED, 409: ("not_deployed", "slug_taken")},
    ),
    Operation(
        route="DELETE /api/chats/<chat_id>",
        id="removeChat",
        does="Take a chat away",
        tag="Chats",
        page=_PAGE,
        says="Takes no body, and the chat's `ETag` in `If-Match`.",
        headers=("If-Match",),
        answers={204: Answer(says="It is gone.")},
        errors=_CHANGED,
    ),
)

_VISITED = (
    Operation(
        route="GET /chat/<slug>",
        id="showChat",
        does="Show a chat",
        tag="Pages",
        page="chat-page.md",
        who="none; what it shows is behind the chat's own gate",
        answers={200: Answer(says="The page.", media=(HTML,), headers=("Content-Security-Policy",))},
        errors={403: (), 404: (), 503: ()},
        page_errors=(403, 404, 503),
    ),
    Operation(
        route="GET /api/chat/<slug>",
        id="enterChat",
        does="Read what a visitor may know of a chat",
        tag="Visitors",
        page=_VISITS,
        headers=VISITOR,
        answers={200: Answer(says="What its page shows.", shape=ChatConfig, maybe=VISITOR)},
        errors={400: ("validation_failed",), **DOOR},
        error=ChatError,
    ),
    Operation(
        route="POST /api/chat/<slug>",
        id="sayInChat",
        does="Say something in a chat",
        tag="Visitors",
        page=_VISITS,
        says=(
            "A stream, or one JSON answer for who takes no stream. What a visitor sees of a run is the deployment's "
            "to say. A body may have 72 MiB."
        ),
        headers=(*VISITOR, "X-Studio-Stream-Protocol", "X-Sim-Stream-Protocol", "Accept", "Idempotency-Key"),
        body=ChatMessageBody,
        nulls=True,
        example={"input": "Hello", "conversationId": "monday"},
        answers={
            200: Answer(
                says="The answer, or the stream.",
                shape=Executed,
                streams=_SURFACES,
                headers=("X-Run-Id",),
                maybe=("X-Conversation-Id", "X-Studio-Stream-Protocol", *LIMITS, *REPLAYED, *VISITOR),
            ),
            202: Answer(
                says="The run goes on by itself.", shape=Accepted, headers=("X-Run-Id",), maybe=REPLAYED
            ),
        },
        errors={
            400: ("not_supported",),
            **DOOR,
            409: ("thread_busy", "thread_paused", *KEY),
            503: (*DOOR[503], "run_elsewhere"),
        },
        error=ChatError,
    ),
    Operation(
        route="GET /api/chat/<slug>/runs/<run_id>",
        id="getVisitorRun",
        does="Ask how a visitor's run stands",
        tag="Visitors",
        page=_VISITS,
        who="the visitor who started the run",
        headers=VISITOR,
        answers={200: Answer(says="How it stands, and what it asks.", shape=VisitorRun, maybe=VISITOR)},
        errors={400: ("validation_failed",), **DOOR},
        error=ChatError,
    ),
    Operation(
        route="GET /api/chat/<slug>/runs/<run_id>/events",
        id="attachToVisitorRun",
        does="Follow a visitor's run",
        tag="Visitors",
        page=_VISITS,
        who="the visitor who started the run",
        query=VisitorEventsQuery,
        headers=(*VISITOR, "Last-Event-ID", "X-Sim-Stream-Protocol"),
        answers={
            200: Answer(says="The stream.", streams=_SURFACES, headers=("X-Run-Id",), maybe=VISITOR),
            204: Answer(says="The run is over and all was delivered.", headers=("X-Run-Id",), maybe=VISITOR),
        },
        errors={**DOOR, 503: (*DOOR[503], "run_elsewhere")},
        error=ChatError,
    ),
    Operation(
        route="POST /api/chat/<slug>/runs/<run_id>/cancel",
        id="stopVisitorRun",
        does="Stop a visitor's run",
        tag="Visitors",
        page=_VISITS,
        who="the visitor who started the run",
        says="Takes no body, and answers at once.",
        headers=VISITOR,
        answers={202: Answer(says="What came of it.", shape=Stopped, maybe=VISITOR)},
        errors=DOOR,
        error=ChatError,
    ),
    Operation(
        route="POST /api/chat/<slug>/runs/<run_id>/resume",
        id="resumeVisitorRun",
        does="Answer what a visitor's run asks, and follow how it goes on",
        tag="Visitors",
        page=_VISITS,
        who="the visitor who started the run",
        headers=VISITOR,
        body=ResumeBody,
        example={"decision": "approve"},
        answers={
            200: Answer(
                says="How it goes on.",
                shape=Executed,
                streams=_SURFACES,
                headers=("X-Run-Id",),
                maybe=("X-Studio-Stream-Protocol", *VISITOR),
            ),
            202: Answer(says="The run goes on by itself.", shape=Accepted, headers=("X-Run-Id",)),
        },
        errors={
            **DOOR,
            403: (*DOOR[403], "forbidden"),
            409: CLOSED,
            503: (*DOOR[503], "run_elsewhere", "workflow_unavailable"),
        },
        error=ChatError,
    ),
    Operation(
        route="GET /api/chat/<slug>/conversations/<path:conversation>",
        id="getConversation",
        does="Read a visitor's conversation",
        tag="Visitors",
        page=_VISITS,
        who="the visitor whose conversation it is",
        query=Page,
        headers=VISITOR,
        answers={200: Answer(says="A page of what was said, newest first.", shape=SaidList, maybe=VISITOR)},
        errors=DOOR,
        error=ChatError,
    ),
)

ROUTES = (*_MANAGED, *_VISITED)
