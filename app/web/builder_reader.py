"""A reader of a run as builder events, whoever started it and on whatever surface.

Law of this room: values in, a projection out; who may read is judged before. A run masks what was a secret while it
spoke; what has become one since stands in its log and in its record, and is taken out here.
"""

from __future__ import annotations

import typing as t

from app.redaction.values import value_mask
from app.streams.builder import BuilderEvents, BuilderOptions

if t.TYPE_CHECKING:
    from app.engine.services import Services


def builder_events(
    services: Services, run_id: str, workflow_id: str, thread_id: str, durable_only: bool = False
) -> BuilderEvents:
    """The projection of a run.

    :param thread_id: empty for a run in no thread. :param durable_only: leave out what is provisional.
    """
    secrets = services.store.secrets.opened()
    masked = value_mask(secrets).value if secrets else None
    return BuilderEvents(BuilderOptions(run_id, workflow_id, thread_id, durable_only, masked))
