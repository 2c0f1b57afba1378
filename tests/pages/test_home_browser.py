"""The front page in a browser: read on desk and phone, gone on from by keyboard and without scripts; what it says to
paste works."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.pages.conftest import CONTRAST
from tests.support import printed
from tests.support.browser import Page
from tests.support.servers import Studio

TEXTS = (
    "body",
    ".version",
    ".ways strong",
    ".ways span",
    "pre code",
    ".quiet",
    ".quiet a",
    ".site a",
    "code",
)


def address(server: Studio) -> str:
    return f"http://127.0.0.1:{server.port}/"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_the_screen_and_can_be_read(page: Page, server: Studio, width: int, dark: bool) -> None:
    page.see(width, dark=dark)
    page.open(address(server))
    assert page.js("document.documentElement.scrollWidth") <= width, "nothing runs out of the page"
    for chosen in TEXTS:
        contrast = page.js(CONTRAST.replace("CHOSEN", json.dumps(chosen)))
        assert contrast >= 4.5, f"{chosen} has a contrast of {contrast:.2f}"
    small = page.js(
        "[...document.querySelectorAll('.site a, .ways a')].map((each) => [each, each.getBoundingClientRect()])"
        ".filter(([, box]) => box.width < 44 || box.height < 44).map(([each]) => each.textContent)"
    )
    assert small == [], "a finger finds each"
    assert page.js("document.querySelectorAll('script, [style]').length") == 0


def test_it_leads_on_by_keyboard_and_without_scripts(page: Page, server: Studio) -> None:
    page.call("Network.clearBrowserCookies")
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    page.open(address(server))
    seen = []
    for _ in range(7):
        page.key("Tab")
        seen.append(
            page.js(
                "document.activeElement.querySelector('strong')?.textContent ?? document.activeElement.text"
            )
        )
    assert seen == ["Studio", "Capabilities", "HTTP API", "Account", "Capabilities", "HTTP API", "Sign in"]
    page.key("Enter")
    page.wait("location.pathname === '/login' && document.readyState === 'complete'")
    for name, path in (
        ("Capabilities", "/capabilities"),
        ("HTTP API", "/api/docs"),
        ("Account", "/login"),  # nobody is signed in
        ("Studio", "/"),
    ):
        page.js(
            f"[...document.querySelectorAll('.site a')].find((each) => each.text === {json.dumps(name)}).click()"
        )
        page.wait(f"location.pathname === {json.dumps(path)} && document.readyState === 'complete'")


def test_the_first_call_works_as_it_is_printed(page: Page, server: Studio, tmp_path: Path) -> None:
    printed.need_curl()
    page.open(address(server))
    lines = page.js("document.querySelector('pre').innerText")
    answer = printed.run(re.sub("^export .*$", "", lines, flags=re.MULTILINE), server, tmp_path)
    assert '"event":"thinking"' in answer
    assert answer.endswith('data: "[DONE]"\n\n')
