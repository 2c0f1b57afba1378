"""What descriptions of routes name: path parameters, headers, tags, and an example of every kind of frame.

Law of this room: a thing that several routes share is described here, once.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

#: What the variable parts of paths are.
PATHS: Mapping[str, str] = {
    "workflow_id": "Id of a workflow.",
    "thread_id": "Id of a thread, `thr_…`.",
    "run_id": "Id of a run, `run_…`.",
    "ref": "The `ref` of a large value.",
    "decision_id": "Id of a decision, `dec_…`.",
    "token": "What stands at the end of a link.",
    "version": "Number of a version.",
    "key_id": "Id of an API key, `key_…`.",
    "chat_id": "Id of a chat, `chat_…`.",
    "slug": "Name of a chat in addresses.",
    "conversation": "A visitor's name for a conversation.",
    "secret_name": "Name of a secret.",
    "file_id": "Id of a file, `file_…`.",
    "document_id": "Id of a document, `doc_…`.",
    "name": "Name of a file.",
    "surface": "A kind of stream.",
}

_TEXT: dict[str, t.Any] = {"type": "string"}

#: Request headers by name: what they mean, and their schema.
REQUEST_HEADERS: Mapping[str, tuple[str, dict[str, t.Any]]] = {
    "X-Studio-Stream-Protocol": (
        "Send `agent-events-v1` for live text, token by token; without it a stream has settled text only.",
        {"type": "string", "examples": ["agent-events-v1"]},
    ),
    "X-Sim-Stream-Protocol": ("Another name of `X-Studio-Stream-Protocol`.", _TEXT),
    "Idempotency-Key": (
        "Names the request: for a day the same key with the same body is answered with the run that the first one "
        "began. A UUID, say.",
        {
            "type": "string",
            "minLength": 1,
            "maxLength": 255,
            "examples": ["8e03978e-40d5-43dd-bc93-6894a57f9324"],
        },
    ),
    "If-Match": ("The `ETag` of what is to be changed.", {"type": "string", "examples": ['"doc_01-3"']}),
    "If-None-Match": ("The `ETag` of what the caller has; a 304 says that it is still the same.", _TEXT),
    "X-Studio-Visitor": (
        "Who the visitor is, where cookies are blocked: what the answer before had under the same name.",
        _TEXT,
    ),
    "Last-Event-ID": (
        "Id of the last event there is already; newer than `after`, which an `EventSource` repeats unchanged.",
        {"type": "string", "examples": ["run_01ABCDEF:12"]},
    ),
    "Accept": ("Which of the forms of the answer is preferred.", _TEXT),
    "traceparent": ("The caller's trace (W3C); the spans of the run become part of it.", _TEXT),
}

#: Response headers by name: what they mean, and their schema.
HEADERS: Mapping[str, tuple[str, dict[str, t.Any]]] = {
    "X-Request-Id": ("Of this request: the caller's own, when it sent a plain one.", _TEXT),
    "X-Run-Id": ("Of the run.", {"type": "string", "pattern": "^run_"}),
    "X-Studio-Stream-Protocol": ("What was agreed; only where it was asked for.", _TEXT),
    "RateLimit": ("What is left of the limits the request counts against.", _TEXT),
    "RateLimit-Policy": ("Those limits.", _TEXT),
    "Retry-After": ("Seconds to wait.", {"type": "string", "pattern": "^[0-9]+$"}),
    "WWW-Authenticate": ("Where the key goes.", _TEXT),
    "X-Studio-Visitor": ("Who the visitor is; only where the request had it.", _TEXT),
    "X-Conversation-Id": ("Name of a conversation that has just begun.", _TEXT),
    "Idempotent-Replayed": (
        "The run was begun by an earlier request with the same `Idempotency-Key`.",
        {"type": "string", "const": "true"},
    ),
    "ETag": ("Of this state; for `If-Match` and `If-None-Match`.", _TEXT),
    "Content-Disposition": ("Under which name it is saved.", _TEXT),
    "Location": ("Where it is.", _TEXT),
    "Vary": ("Which request headers the answer depends on.", _TEXT),
    "Cache-Control": ("How long it may be kept.", _TEXT),
    "Content-Security-Policy": ("What the page may do.", _TEXT),
}

#: The group of routes that answer with pages.
PAGES = "Pages"

#: Groups of routes, in the order in which people read them.
TAGS: Mapping[str, str] = {
    "Running": "Run workflows, waiting or streaming.",
    "Workflows": "Drafts, and the versions that are deployed.",
    "Chats": "Deploy workflows as chats.",
    "Visitors": "What pages of a chat call.",
    "Runs": "Follow, read, stop and continue runs.",
    "Threads": "Conversations, and what agents remember of them.",
    "Decisions": "What runs ask people.",
    "Files": "Files that the input of runs names.",
    "Management": "Keys, and who changed what.",
    "Owner": "The workspace owner's session and password.",
    "Secrets": "Credentials that workflows use by name.",
    "Documents": "Documents that agents search.",
    "Server": "What the server is and can do.",
    PAGES: "Pages for people.",
}

#: A frame or two of every kind of stream.
FRAMES: Mapping[str, str] = {
    "agent-events-v1": (
        'id: run_01ABCDEF:7\ndata: {"blockId":"agent_1","chunk":"Hello"}\n\n'
        "id: run_01ABCDEF:9\n"
        'data: {"blockId":"agent_1","event":"chunk_reset","reason":"tool_turn"}\n\n'
    ),
    "agent-text": 'data: {"blockId":"agent_1","chunk":"Hello there."}\n\n',
    "builder": (
        'id: run_01ABCDEF:3\ndata: {"type":"block:started","timestamp":"2026-01-31T09:30:00.000Z",'
        '"runId":"run_01ABCDEF","workflowId":"wf_01ABCDEF","data":{"blockId":"agent_1","blockName":"Agent 1",'
        '"blockType":"agent","executionOrder":2},"eventId":3}\n\n'
    ),
    "runs": (
        'id: run_01ABCDEF:1\ndata: {"type":"thread","seq":1,"ts":"2026-01-31T09:30:00.000Z","run_id":"run_01ABCDEF",'
        '"thread_id":"thr_01ABCDEF","data":{"thread_id":"thr_01ABCDEF"}}\n\n'
    ),
    "graph": (
        "event: node_started\nid: run_01ABCDEF:2\n"
        'data: {"node":"agent_1","run_id":"run_01ABCDEF","ts_ms":1769851800000}\n\n'
    ),
    "check": 'data: {"event":"check","version":"0.1.0","small":16}\n\n',
}

#: Surfaces whose frames have a JSON Schema of their own.
SURFACES = ("agent-events-v1", "agent-text", "builder", "runs", "graph")

#: Schemas of bodies that are no JSON, where there is more to say than that they are text.
MEDIA: Mapping[str, dict[str, t.Any]] = {
    "multipart/form-data": {
        "type": "object",
        "required": ["file"],
        "properties": {"file": {"type": "string", "contentMediaType": "application/octet-stream"}},
    }
}

#: What more is known of path parameters.
PATH_SCHEMAS: Mapping[str, dict[str, t.Any]] = {"surface": {"enum": list(SURFACES)}}

#: Routes that ignore parameters they do not know: pages, whose addresses people type.
LENIENT = frozenset({"/account", "/api/chat/sso/callback", "/capabilities", "/login", "/static/<name>"})

#: What an error of each status means.
STATUSES: Mapping[int, str] = {
    400: "The request is wrong; nothing was done.",
    401: "There is no key, or it is unknown or revoked.",
    403: "The caller may not do this.",
    404: "It does not exist, or is not the caller's.",
    406: "`Accept` rules out what this route answers.",
    409: "It is at odds with how things stand.",
    410: "It is over.",
    412: "It has changed since it was read.",
    413: "The body is over 10 MiB.",
    415: "The body is no JSON in UTF-8.",
    428: "The request does not say what it has seen.",
    429: "Too much was asked for in too short a time.",
    500: "A fault of the server; its log has the details under `requestId`.",
    502: "A vendor failed.",
    503: "Not at the moment.",
    504: "It took too long.",
}

#: Headers of errors by status, and whether they always come.
ERROR_HEADERS: Mapping[int, Mapping[str, bool]] = {
    429: {"Retry-After": True, "RateLimit": False, "RateLimit-Policy": False},
    503: {"Retry-After": False},
}

#: Codes that come with a challenge.
CHALLENGED = frozenset({"unauthorized", "wrong_password"})

#: How callers say who they are.
SECURITY: Mapping[str, dict[str, t.Any]] = {
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "A key of a program."},
    "bearer": {"type": "http", "scheme": "bearer", "description": "The token of the metrics, or a key."},
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "studio_session",
        "description": "The workspace owner, signed in on a page; over TLS it is called `__Host-studio_session`.",
    },
    "csrf": {
        "type": "apiKey",
        "in": "header",
        "name": "X-CSRF-Token",
        "description": "Goes with the cookie on every request that changes something; `GET /api/session` tells it.",
    },
}
