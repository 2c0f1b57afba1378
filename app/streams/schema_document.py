"""The JSON Schema of a surface's frames, made of types (contract 3.3, 5 and 6).

Law of this room: knows no surface. Clients ignore what they do not know, so what is published leaves objects open; the
closed form holds the server to its own description in tests.
"""

from __future__ import annotations

import typing as t

import msgspec


def schema_document(
    name: str, module: str, description: str, frames: t.Sequence[t.Any], *, closed: bool
) -> dict[str, t.Any]:
    """A schema that any of ``frames`` fits.

    :param name: of the surface. :param module: where its frames are described. :param description: for people.
    :param closed: forbid members that are not described.
    """
    branches, definitions = msgspec.json.schema_components(frames, ref_template="#/$defs/{name}")
    if not closed:
        for definition in definitions.values():
            definition.pop("additionalProperties", None)
    source = module.replace(".", "/")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:studio:events:{name}",
        "$comment": f"Generated from {source}.py; never edit, run `make docs`.",
        "title": name,
        "description": description,
        "oneOf": list(branches),
        "$defs": definitions,
    }
