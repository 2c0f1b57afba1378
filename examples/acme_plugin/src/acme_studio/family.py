"""``acme``: Acme's models behind an API like OpenAI's. Facts only; no line of HTTP.

What differs from the wire's defaults is the dialect; what the models can do is a rule of the name, in the order of
Acme's model page. The recordings beside this module show every claim, and Studio's conformance kit plays them.
"""

from __future__ import annotations

from pathlib import Path

from studio_plugin import Capabilities, ConnectionSpec, HeaderAuth, ProviderFamily, Row

_SOURCE = "Acme's model page"


def capabilities(model: str, row: Row | None) -> Capabilities:
    """What ``model`` can do. ``row`` is the model registry's, which knows nothing of Acme."""
    if model.startswith("acme-large"):
        return Capabilities(
            thinking="full",
            thinking_control=("none", "auto"),
            tools="parallel",
            structured_output="native",
            context_window=128_000,
            price=(1.0, 4.0),
            source=_SOURCE,
        )
    return Capabilities(
        tools="serial",
        forced_tool_choice=False,
        context_window=32_000,
        price=(0.1, 0.4),
        notes="One tool call a turn.",
        source=_SOURCE,
    )


def dialect(model: str) -> dict[str, str | bool]:
    """The chat wire's switches by model: only the large one can think, and does so unless it is told not to."""
    if model.startswith("acme-large"):
        return {"thinking": "type", "thinks_by_default": True}
    return {"thinking": "never"}


FAMILY = ProviderFamily(
    id="acme",
    title="Acme",
    wire="openai_chat",
    auth=HeaderAuth("X-Acme-Key"),
    connection=ConnectionSpec(default_base="https://api.acme.example/v2", key_vars=("ACME_API_KEY",)),
    capabilities=capabilities,
    known=("acme-large", "acme-small"),
    dialect={"max_tokens_field": "max_output_tokens"},
    model_dialect=dialect,
    recordings=Path(__file__).parent / "recordings",
)
