"""Tables of the pages of builder events and of what visitors see. Law of this room: read from the program's own tables."""

from __future__ import annotations

import typing as t

from docs._tools.markdown import table


def builder_events() -> str:
    """Every builder event with its members."""
    from app.streams.builder_schema import DATA

    rows = [
        (
            f"`{kind}`",
            " ".join((data.__doc__ or "").split()),
            f"`{_members(data)}`" if _members(data) else "–",
        )
        for kind, data in DATA.items()
    ]
    return table(("`type`", "Meaning", "`data`"), rows)


def _members(data: type[t.Any]) -> str:
    import msgspec

    return ", ".join(
        field.encode_name + ("" if field.required else "?") for field in msgspec.structs.fields(data)
    )


def texts() -> str:
    """What visitors are told of failures, each text with its codes."""
    from app.streams.public_texts import FAILED, TEXTS

    told: dict[str, list[str]] = {}
    for code, text in TEXTS.items():
        told.setdefault(text, []).append(f"`{code}`")
    told.setdefault(FAILED, []).append("every other one")
    return table(("Text", "Codes"), [(text, ", ".join(codes)) for text, codes in told.items()])
