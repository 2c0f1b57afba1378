"""How visitors get into chats.

Law of this room: see :mod:`app.schemas.openapi.routes`.
"""

from __future__ import annotations

from app.schemas.chat_codes import CodeGiven, CodeWanted, PasswordShown
from app.schemas.openapi.operation import Answer, Operation
from app.schemas.openapi.routes.chats import DOOR, VISITOR
from app.schemas.shapes.chats import ChatError, CodeSent, LetIn, SignInReturnQuery

_PAGE = "chat-access.md"
_ASKED_OTHERWISE = {400: ("not_supported",)}

ROUTES = (
    Operation(
        route="POST /api/chat/<slug>/session",
        id="enterChatSession",
        does="Get into a chat without saying anything yet",
        tag="Visitors",
        page=_PAGE,
        headers=VISITOR,
        body=PasswordShown,
        nulls=True,
        body_optional=True,
        answers={200: Answer(says="The visitor is in.", shape=LetIn, maybe=VISITOR)},
        errors=DOOR,
        error=ChatError,
    ),
    Operation(
        route="DELETE /api/chat/<slug>/session",
        id="leaveChatSession",
        does="Leave a chat",
        tag="Visitors",
        page=_PAGE,
        says="Takes no body. The browser forgets who it was.",
        headers=VISITOR,
        answers={204: Answer(says="It is forgotten.", maybe=VISITOR)},
        errors={403: ("origin_not_allowed",), 404: ("not_found",)},
        error=ChatError,
    ),
    Operation(
        route="POST /api/chat/<slug>/otp",
        id="sendChatCode",
        does="Ask for a code by e-mail",
        tag="Visitors",
        page=_PAGE,
        says="The answer is the same whether or not the address may get in.",
        headers=VISITOR,
        body=CodeWanted,
        nulls=True,
        example={"email": "ada@example.org"},
        answers={202: Answer(says="A code is on its way, if the address may get in.", shape=CodeSent)},
        errors={**DOOR, **_ASKED_OTHERWISE, 503: (*DOOR[503], "gate_unavailable")},
        error=ChatError,
    ),
    Operation(
        route="PUT /api/chat/<slug>/otp",
        id="redeemChatCode",
        does="Get in by a code",
        tag="Visitors",
        page=_PAGE,
        who="the code",
        headers=VISITOR,
        body=CodeGiven,
        nulls=True,
        example={"email": "ada@example.org", "otp": "123456"},
        answers={200: Answer(says="The visitor is in.", shape=LetIn, maybe=VISITOR)},
        errors={**DOOR, **_ASKED_OTHERWISE},
        error=ChatError,
    ),
    Operation(
        route="GET /api/chat/<slug>/sso",
        id="beginChatSignIn",
        does="Send a browser to sign in",
        tag="Pages",
        page=_PAGE,
        answers={303: Answer(says="To the OpenID provider.", headers=("Location",))},
        errors={
            **DOOR,
            400: ("not_supported", "validation_failed"),
            502: (),
            503: (*DOOR[503], "gate_unavailable"),
        },
        error=ChatError,
        page_errors=(502,),
    ),
    Operation(
        route="GET /api/chat/sso/callback",
        id="endChatSignIn",
        does="Take in a browser that has signed in",
        tag="Pages",
        page=_PAGE,
        who="what the OpenID provider confirms",
        query=SignInReturnQuery,
        answers={303: Answer(says="To the chat.", headers=("Location",))},
        errors={401: (), 403: (), 429: (), 502: (), 503: ()},
        page_errors=(401, 403, 429, 502, 503),
    ),
)
