"""Lines of the server: what of an address is not written down."""

from __future__ import annotations

import datetime as dt
import io
import logging
from types import SimpleNamespace

import pytest
from gunicorn.config import Config

from app.web.server_log import ServerLog

TOKEN = "tokentokentokentokentoken"


def atoms(path: str, **more: str) -> dict[str, object]:
    environ = {
        "REQUEST_METHOD": "GET",
        "RAW_URI": path,
        "PATH_INFO": path.partition("?")[0],
        "QUERY_STRING": path.partition("?")[2],
        "SERVER_PROTOCOL": "HTTP/1.1",
        **more,
    }
    response = SimpleNamespace(status="200 OK", headers=[], sent=5)
    return dict(ServerLog(Config()).atoms(response, [], environ, dt.timedelta(seconds=1)))


@pytest.mark.parametrize("way", ["/decide/", "/setup/"])
@pytest.mark.parametrize("path", ["{way}{token}", "/base{way}{token}?x=1", "{way}{token}/"])
def test_the_token_of_a_link_is_in_no_part_of_a_line(way: str, path: str) -> None:
    made = atoms(path.format(way=way, token=TOKEN))
    assert TOKEN not in str(made)
    assert f"{way}-" in str(made["r"])


def test_a_way_that_was_sent_encoded_hides_nothing_from_that() -> None:
    made = atoms(f"/%64ecide/{TOKEN}", PATH_INFO=f"/decide/{TOKEN}")
    assert TOKEN not in str(made)
    assert made["r"] == "GET /decide/- HTTP/1.1"


def test_nor_is_that_of_the_page_a_request_came_from() -> None:
    made = atoms("/static/decide.css", HTTP_REFERER=f"https://studio.example.org/decide/{TOKEN}")
    assert TOKEN not in str(made)
    assert made["f"] == "https://studio.example.org/decide/-"


@pytest.mark.parametrize(
    "raw", ["/api/chat/sso/callback", "/base/api/chat/sso/callback", "/api/chat/%73so/callback"]
)
def test_the_code_of_a_sign_in_is_in_no_part_of_a_line(raw: str) -> None:
    query = f"code={TOKEN}&state=s"
    path = raw.replace("%73", "s")
    referer = f"https://studio.example.org{path}?{query}"
    made = atoms(f"{raw}?{query}", PATH_INFO=path, HTTP_REFERER=referer)
    assert TOKEN not in str(made)
    assert made["r"] == f"GET {path}?- HTTP/1.1"
    assert made["f"] == f"https://studio.example.org{path}?-"


def test_other_addresses_are_as_they_are() -> None:
    assert atoms("/api/runs/run_1?after=5")["r"] == "GET /api/runs/run_1?after=5 HTTP/1.1"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        (f"/decide/{TOKEN}", "/decide/-"),
        (f"/base/setup/{TOKEN}?x=1", "/base/setup/-?x=1"),
        (f"/%64ecide/{TOKEN}", "/decide/-"),
        (f"/api/chat/sso/callback?code={TOKEN}&state={TOKEN}", "/api/chat/sso/callback?-"),
        ("/api/runs/run_1?q=%20", "/api/runs/run_1?q=%20"),
    ],
)
@pytest.mark.parametrize(
    "line", ["GET {}", "Error handling request GET {}", "Invalid HTTP request line: 'GET {} X'"]
)
def test_what_the_server_says_itself_holds_none_either(address: str, shown: str, line: str) -> None:
    """Such as the line for each request that gunicorn writes while its level is ``debug``."""
    config = Config()
    config.set("loglevel", "debug")
    log = ServerLog(config)
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    log.error_log.addHandler(handler)
    try:
        config.pre_request(SimpleNamespace(log=log), SimpleNamespace(method="GET", path=address))
        log.debug(line.replace("{}", "%s"), address)
    finally:
        log.error_log.removeHandler(handler)
    assert written.getvalue() == f"GET {shown}\n{line.format(shown)}\n"
