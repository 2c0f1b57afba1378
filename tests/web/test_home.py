"""The front page, and the way between the pages: who sees what, and that it leads there."""

from __future__ import annotations

import re
import typing as t
from urllib.parse import urljoin, urlsplit

import pytest

from app import __version__
from app.store.errors import StoreFailed
from app.store.sealing import SecretsLocked
from app.web import sessions
from tests.support.shared import ROOT
from tests.web import owner
from tests.web.conftest import Studio, assert_error, opened
from tests.web.gates import make_chat

#: What browsers send when somebody types an address.
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
#: The pages that have the way at their top, with what opens them.
PAGES = ("/", "/capabilities", "/api/docs", "/login", "/account", "/setup/nonesuch")
#: A prefix that a proxy takes off, and the address under which browsers then see a page.
UNDER = "https://example.org/studio"


def page(client: t.Any, path: str, **headers: str) -> str:
    answer = client.get(path, headers={"Accept": BROWSER, **headers})
    assert answer.mimetype == "text/html", answer.status
    return t.cast(str, answer.get_data(as_text=True))


def links(text: str) -> list[str]:
    return re.findall(r'<a\b[^>]*?\bhref="([^"#]+)"', text)


def site(text: str) -> dict[str, str]:
    """Name and address of each place in the way between the pages."""
    found = re.search(r'<nav class="site" aria-label="Studio">(.*?)</nav>', text, re.DOTALL)
    assert found is not None
    return {name: way for way, name in re.findall(r'<a href="([^"]+)"[^>]*>([^<]+)</a>', found[1])}


def test_a_browser_is_told_what_this_is(studio: Studio) -> None:
    answer = studio.client.get("/", headers={"Accept": BROWSER})
    assert (answer.status_code, answer.content_type) == (200, "text/html; charset=utf-8")
    assert answer.headers["Vary"] == "Accept"
    assert answer.headers["Cache-Control"] == "no-store"
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    text = answer.get_data(as_text=True)
    assert __version__ in text
    assert not re.search(r"<script|<style|\son\w+=|\sstyle=|javascript:", text)
    assert {"capabilities", "api/docs", "login", "api/openapi.json"} <= set(links(text))
    for file in re.findall(r'(?:src|href)="(static/[^"]+)"', text):
        assert "immutable" in studio.client.get(f"/{file}").headers["Cache-Control"]


@pytest.mark.parametrize("accept", [None, "*/*", "application/json", "", "text/html;q=0.5, application/json"])
def test_programs_are_told_nothing_as_ever(studio: Studio, accept: str | None) -> None:
    assert_error(
        studio.client.get("/", headers={} if accept is None else {"Accept": accept}), 404, "not_found"
    )


def test_it_leads_whoever_is_signed_in_to_the_account(studio: Studio) -> None:
    client = studio.app.test_client(use_cookies=False)
    owner.set_password(studio)
    signed = owner.session(studio).headers()
    assert "account" in links(page(client, "/", **signed))
    assert "login" not in links(page(client, "/", **signed))
    for nobody in ({}, {"Cookie": "studio_session=x"}, {**signed, "Sec-Fetch-Site": "cross-site"}):
        assert "login" in links(page(client, "/", **nobody))


@pytest.mark.parametrize("failed", [StoreFailed("The database is gone."), SecretsLocked("No key.")])
def test_it_is_there_while_nobody_can_be_known(
    studio: Studio, monkeypatch: pytest.MonkeyPatch, failed: Exception
) -> None:
    def fail() -> t.NoReturn:
        raise failed

    monkeypatch.setattr(sessions, "standing", fail)
    assert "login" in links(page(studio.client, "/"))


def test_it_names_no_chat_and_no_workflow(studio: Studio) -> None:
    chat = make_chat(studio, "public")
    text = page(studio.client, "/")
    for told in (chat.slug, chat.id, chat.workflow_id, "/chat/"):
        assert told not in text.replace("chats", "")


def test_the_first_call_is_that_of_the_readme(studio: Studio) -> None:
    text = page(studio.client, "/", Host="studio.test")
    found = re.search(r"(curl .*?)</code>", text, re.DOTALL)
    assert found is not None
    call = (
        found[1]
        .replace("&#34;", '"')
        .replace("&#39;", "'")
        .replace("http://studio.test", "http://127.0.0.1:8000")
    )
    assert call in (ROOT / "README.md").read_text()


def test_what_a_host_is_called_is_text(studio: Studio) -> None:
    text = page(studio.client, "/", Host="<b>.test")
    assert "<b>.test" not in text


def test_the_address_of_a_call_is_the_one_that_browsers_see(tmp_path: t.Any) -> None:
    with opened(tmp_path, {"STUDIO_PUBLIC_URL": f"{UNDER}/"}) as made:
        assert f"curl -N {UNDER}/api/workflows/tour/execute" in page(made.client, "/")


# -- the way between the pages -------------------------------------------------------------------------


@pytest.fixture
def signed(studio: Studio) -> t.Any:
    owner.set_password(studio)
    headers = owner.session(studio).headers()
    client = studio.app.test_client(use_cookies=False)
    return lambda path: page(client, path, **({} if path in ("/login", "/setup/nonesuch") else headers))


@pytest.mark.parametrize("path", PAGES)
def test_every_page_that_is_not_for_visitors_has_the_same_way(signed: t.Any, path: str) -> None:
    text = signed(path)
    there = {name: urlsplit(urljoin(f"{UNDER}{path}", way)).path for name, way in site(text).items()}
    assert there == {
        "Studio": "/studio/",
        "Capabilities": "/studio/capabilities",
        "HTTP API": "/studio/api/docs",
        "Account": "/studio/account",
    }
    current = re.findall(r'<a href="([^"]+)" aria-current="page">', text)
    assert [urljoin(f"{UNDER}{path}", way) for way in current] == (
        [] if path in ("/login", "/setup/nonesuch") else [UNDER + path]
    )


@pytest.mark.parametrize("path", PAGES)
def test_every_link_and_file_stays_under_the_prefix_of_a_proxy(
    studio: Studio, signed: t.Any, path: str
) -> None:
    text = signed(path)
    client = studio.app.test_client()
    for way in {*links(text), *re.findall(r'<(?:link|script)\b[^>]*?(?:href|src)="([^"]+)"', text)} - {
        "data:,"
    }:
        seen = urlsplit(urljoin(f"{UNDER}{path}", way))
        assert seen.netloc == "example.org"
        assert seen.path.startswith("/studio/"), way
        answer = client.get(
            seen.path.removeprefix("/studio"), query_string=seen.query, headers={"Accept": BROWSER}
        )
        assert answer.status_code in (200, 303), way


def test_visitors_of_chats_are_shown_no_way_into_the_server(studio: Studio) -> None:
    chat = make_chat(studio, "public")
    for path in (f"/chat/{chat.slug}", "/chat/nobody", "/api/chat/sso/callback?state=x", "/decide/nobody"):
        text = page(studio.client, path)
        assert 'class="site"' not in text
        assert not {"login", "account", "capabilities"} & {way.rpartition("/")[2] for way in links(text)}
