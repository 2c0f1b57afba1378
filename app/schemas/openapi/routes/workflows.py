"""Workflows: drafts, and the versions that are deployed.

Law of this room: see :mod:`app.schemas.openapi.routes`.
"""

from __future__ import annotations

from app.schemas.management import DeployBody, RollbackBody
from app.schemas.openapi.operation import Answer, Operation
from app.schemas.shapes.common import Page
from app.schemas.shapes.workflows import (
    Deployed,
    Diff,
    DiffQuery,
    Judgement,
    JudgementQuery,
    RemovalQuery,
    Version,
    VersionList,
    Workflow,
    WorkflowDocument,
    WorkflowList,
    WorkflowQuery,
)

YAML = "application/yaml"

_PAGE = "management-api.md"
_UNKNOWN = {404: ("not_found",)}
_CHANGED = {404: ("not_found",), 412: ("precondition_failed",), 428: ("precondition_required",)}
_DRAFT = Answer(says="The workflow with its draft.", shape=Workflow, headers=("ETag",))
_NEW = Answer(
    says="The workflow with its draft.",
    shape=Workflow,
    headers=("ETag", "Location"),
    links={
        "workflow": ("getWorkflow", {"workflow_id": "$response.body#/id"}),
        "deploy": ("deployWorkflow", {"workflow_id": "$response.body#/id"}),
        "versions": ("listVersions", {"workflow_id": "$response.body#/id"}),
    },
)
_STATE = Answer(says="The workflow, and the version that is live now.", shape=Deployed, headers=("ETag",))
_EXAMPLE = {
    "name": "Support agent",
    "blocks": [
        {"id": "start", "type": "start"},
        {
            "id": "agent_1",
            "type": "agent",
            "config": {"model": "anthropic/claude-sonnet-4-5", "prompt": "{{ input.message }}"},
        },
    ],
    "edges": [{"source": "start", "target": "agent_1"}],
}

ROUTES = (
    Operation(
        route="GET /api/workflows",
        id="listWorkflows",
        does="List workflows",
        tag="Workflows",
        page=f"{_PAGE}#workflows",
        says="Newest first.",
        query=WorkflowQuery,
        answers={
            200: Answer(
                says="A page of workflows.",
                shape=WorkflowList,
                links={"workflow": ("getWorkflow", {"workflow_id": "$response.body#/items/0/id"})},
            )
        },
    ),
    Operation(
        route="POST /api/workflows",
        id="createWorkflow",
        does="Make a workflow",
        tag="Workflows",
        page=f"{_PAGE}#making-a-workflow",
        says="The document becomes a draft, also one that could not run yet; `problems` says why.",
        body=WorkflowDocument,
        also=(YAML,),
        example=_EXAMPLE,
        answers={201: _NEW},
        errors={409: ("store_conflict",)},
    ),
    Operation(
        route="POST /api/workflows/validate",
        id="validateWorkflow",
        does="Judge a document without saving it",
        tag="Workflows",
        page=f"{_PAGE}#validating",
        query=JudgementQuery,
        body=WorkflowDocument,
        also=(YAML,),
        example=_EXAMPLE,
        answers={200: Answer(says="What there is to say about it.", shape=Judgement)},
    ),
    Operation(
        route="GET /api/workflows/<workflow_id>",
        id="getWorkflow",
        does="Read a workflow with its draft",
        tag="Workflows",
        page=f"{_PAGE}#workflows",
        says="The draft alone, as YAML, for who prefers `application/yaml`.",
        headers=("Accept", "If-None-Match"),
        answers={
            200: Answer(
                says="The workflow with its draft.", shape=Workflow, media=(YAML,), headers=("ETag", "Vary")
            ),
            304: Answer(says="It is as the caller has it.", headers=("ETag",)),
        },
        errors=_UNKNOWN,
    ),
    Operation(
        route="PUT /api/workflows/<workflow_id>",
        id="replaceWorkflow",
        does="Replace the draft of a workflow, or make one under this id",
        tag="Workflows",
        page=f"{_PAGE}#changing-a-draft",
        says="With the draft's `ETag` in `If-Match`; with `If-None-Match: *` the workflow is new.",
        headers=("If-Match", "If-None-Match"),
        body=WorkflowDocument,
        also=(YAML,),
        example=_EXAMPLE,
        answers={200: _DRAFT, 201: _NEW},
        errors=_CHANGED,
    ),
    Operation(
        route="PATCH /api/workflows/<workflow_id>",
        id="changeWorkflow",
        does="Change members of the draft of a workflow",
        tag="Workflows",
        page=f"{_PAGE}#changing-a-draft",
        says="A merge patch (RFC 7396): null takes a member away. With the draft's `ETag` in `If-Match`.",
        headers=("If-Match",),
        body=WorkflowDocument,
        body_optional=True,
        example={"name": "Support agent, second try"},
        answers={200: _DRAFT},
        errors=_CHANGED,
    ),
    Operation(
        route="DELETE /api/workflows/<workflow_id>",
        id="removeWorkflow",
        does="Remove a workflow and its versions",
        tag="Workflows",
        page=f"{_PAGE}#removing-a-workflow",
        says="Takes no body, and the draft's `ETag` in `If-Match`. What its runs have left stays.",
        query=RemovalQuery,
        headers=("If-Match",),
        answers={204: Answer(says="It is gone.")},
        errors={**_CHANGED, 409: ("has_chats",)},
    ),
    Operation(
        route="POST /api/workflows/<workflow_id>/deploy",
        id="deployWorkflow",
        does="Make the draft of a workflow live",
        tag="Workflows",
        page=f"{_PAGE}#deploying",
        says="As a new version that nobody changes any more.",
        headers=("If-Match",),
        body=DeployBody,
        body_optional=True,
        example={"name": "Shorter answers"},
        answers={
            200: Answer(says="What is live says the same already.", shape=Deployed, headers=("ETag",)),
            201: Answer(says="The version is new.", shape=Deployed, headers=("ETag", "Location")),
        },
        errors={404: ("not_found",), 412: ("precondition_failed",)},
    ),
    Operation(
        route="DELETE /api/workflows/<workflow_id>/deploy",
        id="undeployWorkflow",
        does="Let nothing of a workflow be live",
        tag="Workflows",
        page=f"{_PAGE}#deploying",
        says="Takes no body. Runs that go on are left alone.",
        headers=("If-Match",),
        answers={200: _STATE},
        errors={404: ("not_found",), 412: ("precondition_failed",)},
    ),
    Operation(
        route="POST /api/workflows/<workflow_id>/rollback",
        id="rollbackWorkflow",
        does="Make an earlier version live again",
        tag="Workflows",
        page=f"{_PAGE}#rolling-back",
        headers=("If-Match",),
        body=RollbackBody,
        body_optional=True,
        example={"version": 1},
        answers={200: _STATE},
        errors={**_CHANGED, 409: ("not_deployed", "no_earlier_version")},
    ),
    Operation(
        route="GET /api/workflows/<workflow_id>/versions",
        id="listVersions",
        does="List the versions of a workflow",
        tag="Workflows",
        page=f"{_PAGE}#versions",
        query=Page,
        answers={200: Answer(says="A page of versions, newest first.", shape=VersionList)},
        errors=_UNKNOWN,
    ),
    Operation(
        route="GET /api/workflows/<workflow_id>/versions/<version>",
        id="getVersion",
        does="Read a version with its document",
        tag="Workflows",
        page=f"{_PAGE}#versions",
        headers=("Accept",),
        answers={200: Answer(says="The version.", shape=Version, media=(YAML,), headers=("Vary",))},
        errors=_UNKNOWN,
    ),
    Operation(
        route="GET /api/workflows/<workflow_id>/diff",
        id="compareVersions",
        does="Tell what has changed from one version to another",
        tag="Workflows",
        page=f"{_PAGE}#differences",
        query=DiffQuery,
        answers={200: Answer(says="What has changed.", shape=Diff)},
        errors={404: ("not_found",), 409: ("not_deployed",)},
    ),
)
