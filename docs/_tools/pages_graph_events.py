"""The table of the page of graph events. Law of this room: read from the one table in the program."""

from __future__ import annotations

from docs._tools.markdown import table


def events() -> str:
    """Every event with its members."""
    from app.streams.graph_event_schema import EVENTS

    rows = [
        (f"`{row.event}`", row.when, row.shown if row.shown.startswith("[") else f"`{row.shown}`")
        for row in EVENTS
    ]
    return table(("`event`", "Meaning", "`data`"), rows)
