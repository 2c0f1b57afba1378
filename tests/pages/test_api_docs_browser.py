"""The page of the API in a browser: search, links, and requests that are tried."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.pages.conftest import CONTRAST
from tests.support.browser import Page
from tests.support.servers import Studio

SHOWN = "[...document.querySelectorAll('.operation:not([hidden])')].map((each) => each.id)"


@pytest.fixture
def docs(page: Page, server: Studio) -> Callable[[str], None]:
    def opened(place: str = "") -> None:
        page.open("about:blank")
        page.open(f"http://127.0.0.1:{server.port}/api/docs{place}")
        page.wait("document.documentElement.classList.contains('scripted')")

    return opened


def search(page: Page, words: str) -> list[str]:
    page.js(
        "(() => { const field = document.getElementById('search'); "
        f"field.value = {json.dumps(words)}; field.dispatchEvent(new Event('input')); }})()"
    )
    found: list[str] = page.js(SHOWN)
    return found


def send(page: Page, operation: str, key: str | None, **fields: str) -> tuple[str, str]:
    """What came of trying a route: the line that sums it up, and the body."""
    if key is not None:
        page.js(f"document.getElementById('key').value = {json.dumps(key)}")
    for name, value in fields.items():
        chosen = f"#{operation} [data-name={name}], #{operation} [data-in={name}]"
        page.js(f"document.querySelector({json.dumps(chosen)}).value = {json.dumps(value)}")
    page.js(f"document.querySelector('#{operation} .try button').click()")
    page.wait(f"document.querySelector('#{operation} .stop').hidden")
    texts = [f"document.querySelector('#{operation} .{part}').textContent" for part in ("outcome", "got")]
    return page.js(texts[0]), page.js(texts[1])


def test_the_search_finds_words_paths_and_codes(page: Page, docs: Callable[[str], None]) -> None:
    docs("")
    everything = page.js(SHOWN)
    assert search(page, "/rollback") == ["rollbackWorkflow"]
    assert page.js("document.getElementById('count').textContent") == "1 route"
    assert page.js("document.querySelector('nav [data-of=listRuns]').hidden") is True
    assert "storeDocument" in search(page, "precondition_required if-match")
    assert search(page, "nonesuch at all") == []
    assert search(page, "") == everything


def test_a_link_opens_what_it_names_also_behind_a_search(page: Page, docs: Callable[[str], None]) -> None:
    docs("#getRun")
    assert page.js("document.getElementById('getRun').open") is True
    search(page, "rollback")
    page.js("location.hash = '#schema-RunRecord'")
    page.wait("document.getElementById('schema-RunRecord').open")
    assert page.js("document.getElementById('search').value") == ""


def test_a_route_is_tried_with_the_key_that_was_pasted(
    page: Page, server: Studio, docs: Callable[[str], None]
) -> None:
    docs("#listRuns")
    outcome, got = send(page, "listRuns", server.key, limit="1")
    assert outcome.startswith("200 · application/json")
    assert "items" in json.loads(got)
    outcome, got = send(page, "listRuns", "sk-studio-nobody")
    assert outcome.startswith("401")
    assert json.loads(got)["error"]["code"] == "unauthorized"
    assert (
        page.js("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])") == '[{},{},""]'
    )
    page.wait_for_error("401")
    page.errors.clear()


def test_a_stream_is_shown_as_it_comes(page: Page, server: Studio, docs: Callable[[str], None]) -> None:
    docs("#executeWorkflow")
    outcome, got = send(
        page, "executeWorkflow", server.key, workflow_id="tour", body='{"input": "hi", "stream": true}'
    )
    assert outcome.startswith("200 · text/event-stream")
    assert got.endswith('data: "[DONE]"\n\n')


def test_what_comes_back_is_text(page: Page, server: Studio, docs: Callable[[str], None]) -> None:
    docs("#storeDocument")
    body = json.dumps(
        {"collection": "manuals", "source": "<img src=x onerror=alert(1)>", "text": "Prime it."}
    )
    outcome, got = send(page, "storeDocument", server.key, body=body)
    assert outcome.startswith("201")
    assert "<img src=x onerror=alert(1)>" in got
    assert page.js("document.querySelectorAll('img').length") == 0


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_can_be_read_on_any_screen(
    page: Page, docs: Callable[[str], None], width: int, dark: bool
) -> None:
    page.see(width, dark=dark)
    docs("#executeWorkflow")
    assert page.js("document.documentElement.scrollWidth") <= width
    for chosen in (
        ".version",
        "#executeWorkflow .who",
        "#executeWorkflow .needed",
        "#executeWorkflow .method",
    ):
        contrast = page.js(CONTRAST.replace("CHOSEN", json.dumps(chosen)))
        assert contrast >= 4.5, chosen


def test_it_is_whole_without_its_script(page: Page, server: Studio) -> None:
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    page.call("Page.navigate", url=f"http://127.0.0.1:{server.port}/api/docs#getRun")
    page.wait("document.readyState === 'complete' && document.querySelectorAll('.operation').length > 50")
    assert page.js("getComputedStyle(document.getElementById('tools')).display") == "none"
