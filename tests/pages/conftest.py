"""One browser for all pages, and one server for those that need none of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.browser import Page, browser
from tests.support.servers import Studio, studio

#: The contrast of an element's text with what is behind it, as WCAG counts it; CHOSEN is a selector in JSON.
#: Colours are painted to be read, in whatever way they are written.
CONTRAST = """(() => {
  const paint = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const parts = (colour) => {
    paint.clearRect(0, 0, 1, 1);
    paint.fillStyle = colour;
    paint.fillRect(0, 0, 1, 1);
    return [...paint.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map((part) => part / 255)
    .map((part) => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, n) => sum + part * [0.2126, 0.7152, 0.0722][n], 0);
  const element = document.querySelector(CHOSEN);
  let behind = element;
  while (parts(getComputedStyle(behind).backgroundColor)[3] === 0) behind = behind.parentElement;
  const [one, two] = [getComputedStyle(element).color, getComputedStyle(behind).backgroundColor]
    .map((colour) => light(parts(colour))).sort((a, b) => b - a);
  return (one + 0.05) / (two + 0.05);
})()"""
#: The same of what stands in an empty field.
CONTRAST_OF_PLACEHOLDER = CONTRAST.replace(
    "getComputedStyle(element)", "getComputedStyle(element, '::placeholder')"
)


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    with studio(tmp_path_factory.mktemp("studio"), {"STUDIO_LIST_MODELS": "off"}) as made:
        assert made.key
        yield made


@pytest.fixture(scope="session")
def server(shared_server: Studio) -> Studio:
    """A module may have one of its own instead."""
    return shared_server


@pytest.fixture(scope="session")
def chromium(shared_server: Studio, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """It ends before the server, which would wait for the connections that it keeps."""
    with browser(tmp_path_factory.mktemp("browser")) as made:
        yield made


@pytest.fixture
def page(chromium: Page) -> Iterator[Page]:
    chromium.call("Emulation.setScriptExecutionDisabled", value=False)
    chromium.see(1280)
    chromium.open("about:blank")
    chromium.errors.clear()  # not before: what the page of the last test still had to say is not this one's
    yield chromium
    assert chromium.errors == []
