"""A workflow that asks a person, for tests of who answers and how."""

from __future__ import annotations

import typing as t


def fit_to_send(**more: t.Any) -> dict[str, t.Any]:
    """Asks whether the input's ``message`` may go out, and says it (block ``sent``), or ``Kept.`` (block ``kept``).

    :param more: of the config of the block that asks.
    """
    asks = {"prompt": "Fit to send?", "draft": "{{ input.message }}", **more}
    return {
        "name": "Fit to send",
        "blocks": [
            {"id": "start", "type": "start"},
            {"id": "ask", "type": "approval", "config": asks},
            {"id": "sent", "type": "set", "config": {"values": {"text": "{{ blocks.ask.content }}"}}},
            {"id": "kept", "type": "set", "config": {"values": {"text": "Kept."}}},
        ],
        "edges": [
            {"source": "start", "target": "ask"},
            {"source": "ask", "target": "sent", "source_handle": "approved"},
            {"source": "ask", "target": "kept", "source_handle": "rejected"},
        ],
    }
