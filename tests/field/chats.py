"""Chats for the cases of the field that are about them."""

from __future__ import annotations

import typing as t

from tests.field.rig import Server


def deployed(served: Server, workflow: str, **more: t.Any) -> str:
    """A chat of a workflow; its slug."""
    slug = f"field-{workflow}"
    body = {"workflowId": workflow, "slug": slug, "title": "Field", "outputs": ["agent_1.content"], **more}
    status, answer = served.call("POST", "/api/chats", body=body)
    assert status == 201, answer
    return slug
