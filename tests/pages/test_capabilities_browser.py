"""The page in a browser: search, filter, sort, back, with and without its script, on a desk and on a phone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pages.conftest import CONTRAST
from tests.support.browser import Page
from tests.support.servers import Studio

MODELS = "[...document.querySelectorAll('tbody .model code')].map(code => code.textContent)"
COUNT = "document.getElementById('count').textContent"


def address(server: Studio, query: str = "") -> str:
    return f"http://127.0.0.1:{server.port}/capabilities{query}"


def choose(page: Page, name: str, value: str) -> None:
    page.js(
        f"(() => {{ const field = document.getElementById({json.dumps(name)});"
        f"field.value = {json.dumps(value)};"
        "field.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )


def test_typing_narrows_the_table_and_its_address(page: Page, server: Studio) -> None:
    page.open(address(server))
    before = page.js(MODELS)
    page.js("document.getElementById('q').focus()")
    page.type("claude opus")
    page.wait("location.search === '?q=claude+opus'")
    page.wait(f"{MODELS}.every(id => id.includes('opus'))")
    found = page.js(MODELS)
    assert 0 < len(found) < len(before)
    assert page.js("document.activeElement.id") == "q"
    page.js("document.getElementById('q').value = ''")
    page.type("no such model anywhere")
    page.wait(f"{COUNT} === 'No model is like that.'")


def test_filters_add_up_and_back_takes_them_away(page: Page, server: Studio) -> None:
    page.open(address(server))
    choose(page, "family", "anthropic")
    page.wait(f"location.search === '?family=anthropic' && {MODELS}.every(id => id.startsWith('anthropic/'))")
    choose(page, "thinking", "none")
    page.wait(
        "location.search === '?family=anthropic&thinking=none' && "
        "[...document.querySelectorAll('tbody .thinking .mark')].every(mark => mark.textContent === 'none')"
    )
    few = page.js(MODELS)
    page.js("history.back()")
    page.wait(f"document.getElementById('thinking').value === '' && {MODELS}.length > {len(few)}")
    assert page.js("document.getElementById('family').value") == "anthropic"
    page.js("document.getElementById('clear').click()")
    page.wait(f"location.search === '' && {MODELS}.some(id => !id.startsWith('anthropic/'))")
    assert page.js("document.getElementById('family').value") == ""


def test_a_heading_sorts_by_keyboard_and_says_so(page: Page, server: Studio) -> None:
    page.open(address(server, "?family=anthropic"))
    state = "document.querySelector('th.price').getAttribute('aria-sort')"
    prices = "[...document.querySelectorAll('tbody .price')].map(cell => parseFloat(cell.textContent))"
    assert page.js(state) == "none"
    page.js("document.querySelector('th.price a').focus()")
    page.key("Enter")
    page.wait(f"{state} === 'ascending'")
    found = page.js(prices)
    assert found == sorted(found)
    assert page.js("document.activeElement.dataset.live") == "sort-price", "the focus stays where it was"
    page.key("Enter")
    page.wait(f"{state} === 'descending'")
    assert page.js(prices) == sorted(found, reverse=True)
    assert page.js("document.getElementById('sort').value") == "-price"


def test_an_address_opens_as_it_was_left(page: Page, server: Studio) -> None:
    page.open(address(server, "?q=sonnet&family=anthropic&sort=-context"))
    with_script = page.js(MODELS)
    assert page.js("['q', 'family', 'sort'].map(id => document.getElementById(id).value)") == [
        "sonnet",
        "anthropic",
        "-context",
    ]
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    page.open("about:blank")
    page.open(address(server, "?q=sonnet&family=anthropic&sort=-context"))
    assert page.js(MODELS) == with_script
    assert page.js("getComputedStyle(document.querySelector('form button')).display") != "none"


def test_it_is_whole_without_its_script(page: Page, server: Studio) -> None:
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    page.open(address(server))
    page.js("document.getElementById('q').value = 'haiku'")
    page.js("document.querySelector('form button').click()")
    page.wait(
        "location.search.includes('q=haiku') && document.readyState === 'complete' && "
        f"{MODELS}.length && {MODELS}.every(id => id.includes('haiku'))"
    )
    page.js("document.querySelector('th.context a').click()")
    page.wait("location.search.includes('sort=context') && document.readyState === 'complete'")
    assert page.js("document.querySelector('th.context').getAttribute('aria-sort')") == "ascending"


def test_sources_are_a_click_away(page: Page, server: Studio) -> None:
    page.open(address(server, "?q=anthropic/claude-sonnet-4-5"))
    assert page.js("document.querySelector('tbody td.thinking').title").startswith("Source: ")
    shown = "document.querySelector('tbody details dl').checkVisibility({contentVisibilityAuto: true})"
    page.js("document.querySelector('tbody summary').click()")
    page.wait(shown)
    assert "Source" in page.js("document.querySelector('tbody details').innerText")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 800, 1280])
def test_it_fits_the_screen_and_can_be_read(page: Page, server: Studio, width: int, dark: bool) -> None:
    page.see(width, dark=dark)
    page.open(address(server))
    assert page.js("document.documentElement.scrollWidth") <= width, "nothing runs out of the page"
    assert page.js("getComputedStyle(document.querySelector('tbody tr')).display") == (
        "block" if width < 768 else "table-row"
    )
    if width < 768:
        assert page.js("document.querySelector('.scroll').scrollWidth") <= width
    for chosen in (
        "body",
        "header p",
        ".vendor",
        ".levels",
        ".mark.summary",
        ".mark.parallel",
        "td.notes",
        "a",
    ):
        contrast = page.js(CONTRAST.replace("CHOSEN", json.dumps(chosen)))
        assert contrast >= 4.5, f"{chosen} has a contrast of {contrast:.2f}"


def test_everything_has_a_name(page: Page, server: Studio) -> None:
    page.open(address(server))
    nameless = page.js(
        "[...document.querySelectorAll('input, select')]"
        ".filter(field => !document.querySelector(`label[for='${field.id}']`)).length"
    )
    assert nameless == 0
    page.call("Accessibility.enable")
    tree = page.call("Accessibility.getFullAXTree")["nodes"]
    named = (
        "textbox",
        "searchbox",
        "combobox",
        "link",
        "button",
        "columnheader",
        "rowheader",
        "table",
        "region",
    )
    roles = {}
    for node in tree:
        role = node.get("role", {}).get("value")
        roles.setdefault(role, 0)
        roles[role] += 1
        if role in named and role != "table" and not node.get("ignored"):
            assert node.get("name", {}).get("value"), node
    assert roles["table"] == 1
    assert roles["columnheader"] == 9
    assert roles["search"] == 1


def test_pictures(page: Page, server: Studio, tmp_path: Path) -> None:
    """Something is drawn: the picture is no single colour (a PNG of one would be tiny)."""
    page.open(address(server))
    page.screenshot(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 20_000
