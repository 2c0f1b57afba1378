"""``litellm``: any model that litellm knows, by litellm's own id: ``litellm/<provider>/<model>``. Facts only.

The way for vendors without a family here. Nothing is claimed for the model behind the id but what the model registry
says of it: thinking is shown as it is sent, levels are passed on as a wish. Credentials are litellm's business: it
reads the vendor's own variables, at every call. What the way through litellm loses and costs is measured in
``docs/decisions/0010-own-wires-and-the-bridge.md``.
"""

from __future__ import annotations

from plugins import model_map
from plugins.claims import claims
from plugins.spec import Capabilities, ConnectionSpec, ProviderFamily, Row
from providers.auth import NoAuth

_LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max", "auto", "budget")
_NOTES = (
    "Whatever litellm can make of the vendor; a thinking level is a wish, and so is an image to a model that nobody "
    "lists. Slower than a family of its own, and some of what vendors send is lost on the way."
)


def capabilities(model: str, row: Row | None) -> Capabilities:
    """What the registry says of ``model``, and nothing for certain beyond that."""
    row = row or _row(model)
    # Of a model that nobody lists no image is refused by a guess.
    inputs = ("text", "image") if row is None else ("text",)
    return claims(
        row,
        source="generic family: nothing is claimed for the vendor",
        stated={"thinking": "as_sent", "thinking_control": _LEVELS, "notes": _NOTES},
        otherwise={"tools": "parallel", "structured_output": "native", "inputs": inputs},
    )


def _row(model: str) -> Row | None:
    """The registry's row: its names are litellm's ids, some of them without the provider."""
    known = model_map.rows()
    if model in known:
        return known[model]
    provider, _, name = model.partition("/")
    found = known.get(name)
    return found if found is not None and found.litellm_provider == provider else None


FAMILY = ProviderFamily(
    id="litellm",
    title="Any vendor, through litellm",
    wire="litellm_bridge",
    auth=NoAuth(),
    connection=ConnectionSpec(default_base="", key_required=False, version_path=""),
    capabilities=capabilities,
)
