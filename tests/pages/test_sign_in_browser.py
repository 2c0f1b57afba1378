"""How the owner gets in, in a browser: read on desk and phone, by keyboard and without scripts; and what a page of
another origin can do in the browser of an owner who is in: nothing.
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator

import pytest
from gevent.pywsgi import WSGIServer

from tests.pages.conftest import CONTRAST
from tests.support import sse
from tests.support.browser import Page
from tests.support.servers import Studio

GOOD, NEW = "correct horse battery", "another good password"


@pytest.fixture
def base(page: Page, server: Studio) -> Iterator[str]:
    """The owner has a password; the browser is nobody's, before and after."""
    done = server.run_cli("owner", "password", stdin=f"{GOOD}\n")
    assert done.returncode == 0, done.stderr
    page.call("Network.clearBrowserCookies")
    yield f"http://127.0.0.1:{server.port}"
    page.call("Network.clearBrowserCookies")
    # The browser notes the status of a page that says no.
    page.errors[:] = [each for each in page.errors if "Failed to load resource" not in each]


def link(server: Studio, base: str) -> str:
    return base + "/setup/" + server.cli("owner", "link").strip().rpartition("/")[2]


def heading(text: str) -> str:
    return f"document.readyState === 'complete' && document.querySelector('h1').textContent === {json.dumps(text)}"


def sign_in(page: Page, base: str) -> None:
    page.open(f"{base}/login")
    page.type(GOOD)  # the field has the focus
    page.key("Enter")
    page.wait(heading("Signed in"))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_pages_fit_the_screen_and_can_be_read(
    page: Page, server: Studio, base: str, width: int, dark: bool
) -> None:
    page.see(width, dark=dark)

    def judge(*chosen: str) -> None:
        assert page.js("document.documentElement.scrollWidth") <= width, "nothing runs out of the page"
        for each in ("body", "h1", ".site a", *chosen):
            contrast = page.js(CONTRAST.replace("CHOSEN", json.dumps(each)))
            assert contrast >= 4.5, f"{each} has a contrast of {contrast:.2f}"
        low = page.js(
            "Math.min(...[...document.querySelectorAll('button, input:not([type=hidden]):not([hidden])')]"
            ".filter(each => each.checkVisibility()).map(each => each.offsetHeight))"
        )
        assert low >= 44, "a finger finds it"
        assert page.js("document.querySelectorAll('script').length") == 0
        unnamed = "[...document.querySelectorAll('input:not([type=hidden]):not([hidden])')]"
        assert page.js(f"{unnamed}.filter(field => !field.labels.length).length") == 0

    page.open(f"{base}/login")
    judge("button.main", ".quiet", "code")
    page.type("not the password")
    page.key("Enter")
    page.wait("document.querySelector('.problem') !== null && document.activeElement.id === 'password'")
    judge(".problem")
    described = "document.getElementById(document.activeElement.getAttribute('aria-describedby')).textContent"
    assert page.js(described) == "That is not the password."
    page.open(link(server, base))
    judge("button.main", ".hint")
    page.open(f"{base}/setup/nonesuch")
    assert page.js("document.querySelector('h1').textContent") == "This link does not work any more"
    page.open(f"{base}/login")
    page.type(GOOD)
    page.key("Enter")
    page.wait(heading("Signed in"))
    page.js("document.querySelector('details').open = true")
    judge("form[action=logout] button", "a", "summary")


def test_a_link_leads_in_by_keyboard_and_without_scripts(page: Page, server: Studio, base: str) -> None:
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    page.open(link(server, base))
    assert page.js("document.activeElement.id") == "new"
    page.type(NEW)
    page.key("Tab")
    assert page.js("document.activeElement.id") == "again"
    page.type(NEW)
    page.key("Enter")
    page.wait(heading("Signed in"))
    assert page.js("location.pathname") == "/account"
    page.js("document.querySelector('details').open = true")
    for field, text in (("current", NEW), ("new", GOOD), ("again", GOOD)):
        page.js(f"document.getElementById('{field}').focus()")
        page.type(text)
    page.key("Enter")
    page.wait("document.querySelector('.done')?.textContent.startsWith('The password was changed') ?? false")
    page.js("document.querySelector('form[action=logout] button').click()")
    page.wait(heading("Sign in"))
    page.open(f"{base}/login?next=/capabilities%3Fq%3Dopus")
    page.type(GOOD)
    page.key("Enter")
    page.wait("location.pathname === '/capabilities' && location.search === '?q=opus'")


def test_scripts_of_the_page_cannot_read_the_session(page: Page, base: str) -> None:
    sign_in(page, base)
    assert page.js("document.cookie") == ""
    page.open(f"{base}/capabilities")  # a page that may ask the server
    told = page.js("fetch('/api/session').then(answer => answer.json())")
    assert told["signedIn"] is True
    assert page.js("fetch('/api/runs').then(answer => answer.status)") == 200
    put = (
        "fetch('/api/secrets/FROM_PAGE', {method: 'PUT', body: '{\"value\": \"long-enough-value\"}', "
        "headers: {'Content-Type': 'application/json', TOKEN}}).then(answer => answer.status)"
    )
    assert page.js(put.replace("TOKEN", "")) == 403
    assert page.js(put.replace("TOKEN", f"'X-CSRF-Token': {json.dumps(told['csrfToken'])}")) in (200, 201)


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """Another origin on the same host: cookies know no ports, so its requests carry the owner's."""

    def application(environ: t.Any, start: t.Any) -> list[bytes]:
        start("200 OK", [("Content-Type", "text/html")])
        return [
            b"<!doctype html><title>Elsewhere</title><form method=post target=frame></form><iframe name=frame></iframe>"
        ]

    there = WSGIServer(("127.0.0.1", 0), application, log=None)
    there.start()
    yield f"http://127.0.0.1:{there.server_port}/"
    there.stop()


def runs(server: Studio) -> list[str]:
    """The ids of the runs there are."""
    listed = sse.request(server.port, "GET", "/api/runs", None, {"X-API-Key": server.key})[2]
    return [each["runId"] for each in json.loads(listed)["items"]]


def test_another_origin_can_make_no_use_of_the_session(
    page: Page, server: Studio, base: str, elsewhere: str
) -> None:
    sign_in(page, base)
    before = runs(server)
    page.open(elsewhere)

    def fetched(path: str, options: str) -> t.Any:
        read = ".then(async answer => answer.type + ' ' + await answer.text(), error => String(error))"
        return page.js(f"fetch({json.dumps(base + path)}, {options}){read}")

    failed = "TypeError: Failed to fetch"
    assert fetched("/api/session", "{}") == 'cors {"signedIn":false}', "anybody may ask, as nobody"
    assert fetched("/api/session", "{credentials: 'include'}") == failed
    assert fetched("/api/runs", "{credentials: 'include'}") == failed
    secret = (
        "{method: 'PUT', body: '{}', headers: {'Content-Type': 'application/json'}, credentials: 'include'}"
    )
    assert fetched("/api/secrets/FROM_ELSEWHERE", secret) == failed
    assert fetched("/api/session", "{method: 'DELETE', credentials: 'include'}") == failed
    run = "{method: 'POST', mode: 'no-cors', credentials: 'include', body: '{\"input\": \"hi\"}'}"
    assert fetched("/api/workflows/tour/execute", run) == "opaque ", "sent, cookie and all, and refused"
    for path in ("/logout", "/account"):
        send = (
            "new Promise(done => { document.querySelector('iframe').onload = done; "
            f"document.forms[0].action = {json.dumps(base + path)}; document.forms[0].submit() }})"
        )
        page.js(send)
    page.errors.clear()
    page.open(f"{base}/account")
    assert page.js("document.querySelector('h1').textContent") == "Signed in"
    assert runs(server) == before, "none was started"
    listed = json.loads(sse.request(server.port, "GET", "/api/secrets", None, {"X-API-Key": server.key})[2])
    assert "FROM_ELSEWHERE" not in str(listed)
