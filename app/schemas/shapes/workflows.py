"""What is answered about workflows, their versions, and what differs between them.

Law of this room: see :mod:`app.schemas.shapes`.
"""

from __future__ import annotations

import typing as t
from typing import Annotated, NotRequired, TypedDict

from app.schemas.shapes.common import Cursor, Instant, Page, Problem

WorkflowDocument = Annotated[
    dict[str, t.Any], {"doc": "A workflow document: name, blocks, edges, variables, settings."}
]
_Number = Annotated[int, {"low": 1}]


class WorkflowItem(TypedDict):
    """A workflow, without its draft."""

    id: str
    name: str
    liveVersion: NotRequired[Annotated[int, {"doc": "The version that runs; absent: none does.", "low": 1}]]
    draftDiffers: Annotated[bool, {"doc": "The draft is another document than what is live."}]
    createdAt: Instant
    updatedAt: Instant


class WorkflowList(TypedDict):
    """Workflows, newest first."""

    items: list[WorkflowItem]
    nextCursor: NotRequired[Cursor]


class WorkflowQuery(Page):
    """Which workflows are listed."""

    name: NotRequired[Annotated[str, {"doc": "Those that have this in their name.", "nonempty": True}]]


class Workflow(WorkflowItem):
    """A workflow with its draft, and what there is to say about that."""

    document: WorkflowDocument
    problems: Annotated[list[Problem], {"doc": "Why the draft cannot be deployed."}]
    warnings: Annotated[list[Problem], {"doc": "What may be a mistake in it."}]


class Judgement(TypedDict):
    """What there is to say about a document."""

    valid: bool
    problems: list[Problem]
    warnings: list[Problem]


class JudgementQuery(TypedDict):
    """As what it is judged."""

    workflowId: NotRequired[
        Annotated[str, {"doc": "As the draft of this workflow, which cannot run inside itself."}]
    ]


class RemovalQuery(TypedDict):
    """What goes with it."""

    chats: NotRequired[
        Annotated[t.Literal["delete"], {"doc": "Its chats, too; without this one that has chats is a 409."}]
    ]


class VersionItem(TypedDict):
    """A version, without its document."""

    version: _Number
    name: NotRequired[str]
    description: NotRequired[str]
    live: bool
    createdAt: Instant
    createdBy: NotRequired[Annotated[str, {"doc": "A key's id, or `owner`."}]]


class Version(VersionItem):
    """A version with its document."""

    document: WorkflowDocument


class VersionList(TypedDict):
    """Versions, newest first."""

    items: list[VersionItem]
    nextCursor: NotRequired[Cursor]


class Deployed(WorkflowItem):
    """The workflow as it is now, and the version that was made live."""

    version: NotRequired[VersionItem]
    warnings: NotRequired[list[Problem]]


_Side = t.Literal["draft"] | int

DiffQuery = TypedDict(
    "DiffQuery",
    {
        "from": NotRequired[
            Annotated[
                str,
                {
                    "doc": "A version's number, or `draft`. Default: the live version.",
                    "pattern": "^([1-9][0-9]{0,8}|draft)$",
                },
            ]
        ],
        "to": NotRequired[
            Annotated[str, {"doc": "The same. Default: the draft.", "pattern": "^([1-9][0-9]{0,8}|draft)$"}]
        ],
    },
)
DiffQuery.__doc__ = "From which version to which."

Change = TypedDict(
    "Change",
    {
        "path": Annotated[str, {"doc": "JSON path; empty for all of it."}],
        "change": t.Literal["added", "removed", "changed"],
        "from": NotRequired[t.Any],
        "to": NotRequired[t.Any],
    },
)
Change.__doc__ = "One change of a value."


class ChangedBlock(TypedDict):
    """A block that was added, removed or changed."""

    id: NotRequired[str]
    type: NotRequired[str]
    name: NotRequired[str]
    path: str
    block: NotRequired[Annotated[t.Any, {"doc": "All of one that was added or removed."}]]
    changes: NotRequired[list[Change]]


class ChangedBlocks(TypedDict):
    """What has changed of the blocks."""

    added: list[ChangedBlock]
    removed: list[ChangedBlock]
    changed: list[ChangedBlock]
    reordered: bool


class ChangedEdge(TypedDict):
    """An edge that was added or removed."""

    path: str
    edge: t.Any


class ChangedEdges(TypedDict):
    """What has changed of the edges."""

    added: list[ChangedEdge]
    removed: list[ChangedEdge]
    reordered: bool


Diff = TypedDict(
    "Diff",
    {
        "from": _Side,
        "to": _Side,
        "same": bool,
        "blocks": ChangedBlocks,
        "edges": ChangedEdges,
        "variables": list[Change],
        "settings": list[Change],
        "document": Annotated[list[Change], {"doc": "Of what else there is."}],
    },
)
Diff.__doc__ = "What has changed from one version to another."
