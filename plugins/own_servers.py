"""Servers of one's own: what is claimed where nobody knows which model was loaded.

Law of this room: of a model that nobody names nothing is known, so nothing is refused: thinking is shown as it is sent,
and a level, tools and images are passed on as a wish, for the server to grant. Where a server is reached and what it
calls its switches stays the family's statement.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping, Sequence

from plugins import embedding_models
from plugins.spec.families import Capabilities, ConnectionSpec, Embeddings, ProviderFamily
from plugins.spec.rows import Row
from providers.auth import BEARER
from providers.spec import Connection, Waits

#: Levels that may be wished for.
WISHES = ("none", "minimal", "low", "medium", "high", "xhigh", "max", "auto")
#: Switches of servers that hand a level on to the model's chat template, whatever it calls the switch.
TEMPLATE: Mapping[str, t.Any] = {
    "inline_thinking": False,
    "thinks_by_default": True,
    "template_keys": ("enable_thinking", "thinking"),
    "levels": {"minimal": "low", "xhigh": "high", "max": "high"},
}


def own_server(
    family_id: str,
    title: str,
    connection: ConnectionSpec,
    *,
    able: str,
    inline: str,
    source: str,
    list_models: Callable[[Connection, Waits], Sequence[str]],
    dialect: Mapping[str, t.Any],
    forced: bool = True,
) -> ProviderFamily:
    """The family of a server that speaks chat completions.

    :param able: who decides what can be done, e.g. ``the loaded model``; for the note.
    :param inline: the variable that has thinking taken out of the text.
    :param source: where the claims of the server itself come from.
    :param forced: the server takes a forced tool.
    """
    claimed = Capabilities(
        thinking="as_sent",
        thinking_control=WISHES,
        tools="parallel",
        forced_tool_choice=forced,
        structured_output="native",
        inputs=("text", "image"),
        price=(0.0, 0.0),
        notes=f"What {able} can do; a thinking level and an image are a wish. Thinking inside the text "
        f"(<think>…</think>) is separated when {inline} is 1.",
        source=source,
    )

    def capabilities(model: str, row: Row | None) -> Capabilities:
        """The same of every model."""
        return claimed

    return ProviderFamily(
        id=family_id,
        title=title,
        wire="openai_chat",
        auth=BEARER,
        connection=connection,
        capabilities=capabilities,
        dialect=dialect,
        list_models=list_models,
        list_ttl_s=30.0,
        embeddings=Embeddings(
            wire="openai_embeddings",
            source=source,
            batch=32,
            model_dialect=embedding_models.prefixes,
            price=0.0,
        ),
    )
