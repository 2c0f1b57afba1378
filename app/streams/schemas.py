"""Every surface whose events have a JSON Schema, by the name it has in URLs (contract 1.13).

Law of this room: one entry per surface; the pages under ``docs/events/`` and the route
``/api/schemas/{surface}`` show what stands here, nothing else.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping

from app.streams import agent_events_schema, builder_schema, graph_event_schema, run_event_schema

#: Surface to what makes the JSON Schema (2020-12) of one of its frames.
SURFACES: Mapping[str, Callable[[], dict[str, t.Any]]] = {
    "agent-events-v1": agent_events_schema.agent_events,
    "agent-text": agent_events_schema.agent_text,
    "builder": builder_schema.builder_events,
    "runs": run_event_schema.run_events,
    "graph": graph_event_schema.graph_events,
}
