"""The colours of all pages stand in one sheet, in light and dark, and no page can do without it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.web.pages import file_url

APP = Path(file_url.__code__.co_filename).resolve().parents[1]
SHEETS = sorted((APP / "static").glob("*.css"))
PALETTE = (APP / "static" / "palette.css").read_text()
LIGHT, DARK = (set(re.findall(r"(--[\w-]+):", part)) for part in PALETTE.split("@media"))
#: What a chat's owner may choose, set by the script of its page.
CHOSEN = {"--bar", "--on-bar", "--brand"}
_COLOUR = re.compile(r"#[0-9a-f]{3,8}\b|\b(?:rgba?|hsla?|lab|lch|oklab|color)\(", re.IGNORECASE)


def test_light_and_dark_have_the_same_names() -> None:
    assert DARK == LIGHT


@pytest.mark.parametrize(
    "sheet", [path for path in SHEETS if path.name != "palette.css"], ids=lambda p: p.name
)
def test_no_other_sheet_has_colours_of_its_own(sheet: Path) -> None:
    text = sheet.read_text()
    assert _COLOUR.findall(text) == []
    assert not re.search("(?<!prefers-)color-scheme", text)
    used = set(re.findall(r"var\((--[\w-]+)", text))
    assert used <= LIGHT | CHOSEN


def test_every_colour_is_used() -> None:
    everything = "".join(path.read_text() for path in SHEETS)
    assert {name for name in LIGHT if f"var({name}" not in everything} == set()


@pytest.mark.parametrize("template", sorted((APP / "templates").glob("*.html")), ids=lambda p: p.name)
def test_every_page_begins_as_all_do(template: Path) -> None:
    text = template.read_text()
    links = re.findall(r'rel="stylesheet" href="([^"]*)"', text)
    if template.name == "page.html":
        assert re.search(r'for sheet in \["palette.css"\] \+ sheets', text), "before all others"
        assert links == ["{{ up }}{{ file_url(sheet) }}"]
        return
    assert links == []
    assert not re.search("<(?:!doctype|html|head)\\b", text)
    if "<body" in text:
        assert '{%- extends "page.html" -%}' in text
        sheets = re.search(r"set sheets = \[(.*)\]", text)
        assert sheets is not None
        assert {name.strip(' "') for name in sheets[1].split(",")} <= {path.name for path in SHEETS}
