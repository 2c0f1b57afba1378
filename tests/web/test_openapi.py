"""The document and its page as they are served: cached, packed, made when somebody asks."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from app import __version__
from app.schemas.openapi.document import document
from app.web.auth import CREDENTIALS
from tests.support.shared import ROOT
from tests.web.conftest import Studio


def test_the_document_is_served_to_everybody(studio: Studio) -> None:
    answer = studio.client.get("/api/openapi.json")
    assert answer.status_code == 200
    assert answer.mimetype == "application/json"
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert answer.get_json() == json.loads(json.dumps(document(CREDENTIALS, __version__)))


@pytest.mark.parametrize("path", ["/api/openapi.json", "/api/docs"])
def test_it_is_packed_for_who_takes_it_so_and_sent_once(studio: Studio, path: str) -> None:
    plain = studio.client.get(path)
    assert "Content-Encoding" not in plain.headers
    packed = studio.client.get(path, headers={"Accept-Encoding": "gzip, br"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert packed.headers["Vary"] == "Accept-Encoding"
    assert gzip.decompress(packed.get_data()) == plain.get_data()
    assert len(packed.get_data()) < len(plain.get_data()) / 5
    again = studio.client.get(path, headers={"If-None-Match": plain.headers["ETag"]})
    assert again.status_code == 304
    assert again.get_data() == b""


def test_nothing_of_it_is_there_before_somebody_asks() -> None:
    rooms = ("apispec", "app.schemas.openapi", "app.schemas.shapes")
    script = (
        "import sys, app.web.worker, app.web.openapi, app.cli.main\n"
        f"print([name for name in sys.modules if name.startswith({rooms})])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=200, check=True
    )
    assert done.stdout.strip() == "[]"


class Seen(HTMLParser):
    """The ids, links and files of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.files: list[str] = []
        self.inline: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found["href"]] if tag == "a" else []
        self.files += [found[name] for name in ("src",) if name in found]
        self.files += [found["href"]] if tag == "link" else []
        self.inline += [name for name in found if name.startswith("on") or name == "style"]


@pytest.fixture
def seen(studio: Studio) -> Seen:
    answer = studio.client.get("/api/docs")
    assert answer.mimetype == "text/html"
    found = Seen()
    found.feed(answer.get_data(as_text=True))
    return found


def test_the_page_has_every_route_and_every_link_leads_somewhere(seen: Seen) -> None:
    made = document(CREDENTIALS, __version__)
    operations = {each["operationId"] for item in made["paths"].values() for each in item.values()}
    assert operations <= set(seen.ids)
    assert {f"schema-{name}" for name in made["components"]["schemas"]} <= set(seen.ids)
    assert len(seen.ids) == len(set(seen.ids))
    inside = {link[1:] for link in seen.links if link.startswith("#")}
    assert inside <= set(seen.ids)


def test_the_page_has_no_code_of_its_own_and_nothing_from_elsewhere(studio: Studio, seen: Seen) -> None:
    assert seen.inline == []
    for file in seen.files:
        assert re.fullmatch(r"\.\./static/(?:palette|site|api_docs)\.(?:css|js)\?v=[0-9a-f]{12}|data:,", file)
    assert not [link for link in seen.links if "//" in link]
    policy = studio.client.get("/api/docs").headers["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert "connect-src 'self'" in policy
    assert "unsafe" not in policy
