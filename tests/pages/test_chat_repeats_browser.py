"""The page of a chat where answers are lost: a message is sent again, and its run begins once."""

from __future__ import annotations

import typing as t

import pytest

from tests.pages import test_chat_browser as chats
from tests.pages.test_chat_browser import DONE, chat, document, say
from tests.support.browser import Page
from tests.support.servers import Studio

server = chats.server

#: What the page sends, and how often its answer is lost on the way.
LOSE = (
    "(times) => { window.sent = []; const real = fetch; window.fetch = async (url, options) => {"
    " if (options?.method !== 'POST') return real(url, options);"
    " window.sent.push(options.headers['Idempotency-Key'] ?? null);"
    " const answer = await real(url, options);"
    " if (times-- > 0) throw new TypeError('The connection is lost.');"
    " return answer; } }"
)


def loses(page: Page, times: int) -> None:
    page.wait("!document.getElementById('say').hidden")
    page.js(f"({LOSE})({times})")


def runs(server: Studio, url: str) -> int:
    slug = url.rpartition("/")[2]
    (found,) = [each for each in chats.ask(server, "GET", "/api/chats")["items"] if each["slug"] == slug]
    page = chats.ask(server, "GET", f"/api/runs?workflowId={found['workflowId']}")
    return len(page["items"])


def test_a_message_whose_answer_is_lost_is_answered_once(page: Page, server: Studio) -> None:
    url = chat(server, "lost-once", document("scripted/looker", tools=["clock"]))
    page.open(url)
    loses(page, 2)
    say(page, "What time is it?")
    page.wait(DONE + "1")
    page.wait("document.querySelector('.answer').textContent.includes('It is late.')")
    sent = t.cast("list[str]", page.js("window.sent"))
    assert len(sent) == 3
    assert len(set(sent)) == 1
    assert runs(server, url) == 1
    say(page, "And now?")
    page.wait(DONE + "2")
    assert page.js("window.sent[3] !== window.sent[0]")
    assert runs(server, url) == 2


def test_what_is_sent_again_by_hand_is_answered_once(page: Page, server: Studio) -> None:
    url = chat(server, "lost-long", document("scripted/looker", tools=["clock"]))
    page.open(url)
    loses(page, 3)
    say(page, "What time is it?")
    page.wait("document.getElementById('notice').textContent.includes('cannot be reached')")
    assert page.js("document.getElementById('text').value") == "What time is it?"
    page.js("document.getElementById('say').requestSubmit()")
    page.wait(DONE + "1")
    assert page.js("new Set(window.sent).size") == 1
    assert runs(server, url) == 1


@pytest.mark.parametrize("model", ["scripted/looker"])
def test_a_browser_that_keeps_nothing_is_answered_without_a_key(
    page: Page, server: Studio, model: str
) -> None:
    url = chat(server, "forgetful", document(model, tools=["clock"]))
    page.open(url)
    loses(page, 0)
    page.call("Network.clearBrowserCookies")
    say(page, "What time is it?")
    page.wait(DONE + "1")
    assert page.js("window.sent.length") == 2
    assert page.js("window.sent[1]") is None
    page.errors[:] = [error for error in page.errors if "400" not in error]
    assert runs(server, url) == 1
