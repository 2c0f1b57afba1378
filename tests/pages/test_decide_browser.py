"""The page behind a link to a decision, in a browser: read on desk and phone, filled in and sent without scripts."""

from __future__ import annotations

import json
import typing as t

import pytest

from tests.pages.conftest import CONTRAST
from tests.support import sse
from tests.support.approvals import fit_to_send
from tests.support.browser import Page
from tests.support.servers import Studio, wait_until

TEXT = "\nDear <b>Ada</b>,\n\n<script>document.title = 'taken'</script>" + "a" * 300 + "\n\nYours"
DOCUMENT = fit_to_send(reasons=["It is new."], deadline_s=3600)


@pytest.fixture(scope="module")
def workflow(server: Studio) -> str:
    return server.deploy(DOCUMENT)


def ask(server: Studio, method: str, path: str, body: t.Any = None) -> t.Any:
    sent = None if body is None else json.dumps(body).encode()
    headers = {"X-API-Key": server.key, "Content-Type": "application/json"}
    return json.loads(sse.request(server.port, method, path, sent, headers)[2])


def asked(server: Studio, workflow: str) -> tuple[str, str]:
    """A run that asks, and a link to what it asks."""
    run = ask(server, "POST", f"/api/workflows/{workflow}/execute", {"input": TEXT})
    return run["runId"], ask(server, "POST", f"/api/decisions/{run['resume']['pauseId']}/link", {})["url"]


def record(server: Studio, run: str) -> t.Any:
    return ask(server, "GET", f"/api/runs/{run}")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_it_fits_the_screen_and_can_be_read(
    page: Page, server: Studio, workflow: str, width: int, dark: bool
) -> None:
    _, url = asked(server, workflow)
    page.see(width, dark=dark)
    page.open(url)
    page.js("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert page.js("document.documentElement.scrollWidth") <= width, "nothing runs out of the page"
    for chosen in ("body", ".quiet", "pre", "textarea", "button.yes", "button.no", "details button"):
        contrast = page.js(CONTRAST.replace("CHOSEN", json.dumps(chosen)))
        assert contrast >= 4.5, f"{chosen} has a contrast of {contrast:.2f}"
    low = page.js("Math.min(...[...document.querySelectorAll('button')].map(b => b.offsetHeight))")
    assert low >= 44, "a finger finds it"
    assert page.js("document.querySelector('pre').textContent") == TEXT
    assert page.js("document.querySelector('textarea').value") == TEXT
    assert page.js("document.title") == "A decision is needed · Studio"
    assert page.js("document.querySelectorAll('script, b, pre *').length") == 0
    unnamed = "[...document.querySelectorAll('textarea')].filter(field => !field.labels.length).length"
    assert page.js(unnamed) == 0


@pytest.mark.parametrize(
    ("button", "said", "text"),
    [
        ("button.yes", "Approved. Thank you.", TEXT),
        ("button[value=edit]", "Approved, as you changed it. Thank you.", "Shorter.\nMuch."),
        ("button.no", "Rejected. Thank you.", "Kept."),
    ],
    ids=["approve", "edit", "reject"],
)
def test_it_is_filled_in_and_sent_without_scripts(
    page: Page, server: Studio, workflow: str, button: str, said: str, text: str
) -> None:
    run, url = asked(server, workflow)
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    page.open(url)
    page.js("document.querySelector('#text').value = 'Shorter.\\nMuch.'")
    page.js(f"document.querySelector({json.dumps(button)}).click()")
    page.wait(f"document.querySelector('h1')?.textContent === {json.dumps(said)}")
    page.wait("document.readyState === 'complete'")
    page.open(url)
    page.wait("document.querySelector('h1')?.textContent === 'This was decided already'")
    wait_until(lambda: record(server, run)["status"] == "completed", "the run has gone on")
    assert record(server, run)["output"] == {"text": text}
    page.errors[:] = [error for error in page.errors if "410" not in error]  # the browser notes the status
