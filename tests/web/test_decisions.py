"""``/api/decisions`` and the page behind a link: what is shown to whom, who decides, and how often."""

from __future__ import annotations

import html
import re
import typing as t

import gevent
import pytest

from tests.web import asking
from tests.web.asking import open_of, paused, resume, send
from tests.web.conftest import Studio, assert_error

MARKUP = '<img src=x onerror=alert(1)> & "quoted" {% if 7 %}'


def answer(studio: Studio, decision: str, body: t.Any, key: str | None = "run") -> t.Any:
    return send(studio, f"/api/decisions/{decision}", body, key)


def link(studio: Studio, decision: str, key: str | None = "run") -> str:
    """The path of a new link to a decision."""
    made = send(studio, f"/api/decisions/{decision}/link", None, key)
    assert made.status_code == 201, made.get_data()
    assert made.headers["Cache-Control"] == "no-store"
    url = made.get_json()["url"]
    assert re.fullmatch(r"http://localhost/decide/[A-Za-z0-9_-]{43}", url), url
    return t.cast(str, url.removeprefix("http://localhost"))


def text_of(page: t.Any) -> str:
    """The words of a page."""
    assert page.mimetype == "text/html"
    return html.unescape(re.sub(r"<[^>]+>", "", page.get_data(as_text=True)))


@pytest.fixture
def draft(studio: Studio) -> str:
    return studio.deploy(asking.draft())


# -- reading -----------------------------------------------------------------------------------------


def test_a_decision_says_what_is_decided(studio: Studio, draft: str) -> None:
    run = paused(studio, draft)
    (listed,) = studio.get("/api/decisions").get_json()["items"]
    shown = studio.get(f"/api/decisions/{listed['id']}").get_json()
    assert shown == listed
    review = shown.pop("review")
    assert (review["kind"], review["draft"], review["prompt"]) == ("answer", "Hello there.", "Fit to send?")
    assert review["reasons"] == ["It is the first one."]
    assert shown.pop("createdAt").endswith("Z")
    assert shown.pop("threadId").startswith("thr_")
    assert shown == {
        "id": listed["id"],
        "status": "open",
        "runId": run,
        "workflowId": draft,
        "blockId": "ask",
    }


def test_a_call_says_with_what_it_may_be_made(studio: Studio) -> None:
    run = paused(studio, studio.deploy(asking.call()))
    (shown,) = open_of(studio, run)
    assert shown["review"] == {
        "kind": "tool",
        "tool": "secretive",
        "arguments": asking.ARGUMENTS,
        "reasons": [],
    }
    assert shown["parameters"] == {"type": "object", "properties": {"q": {"type": "string"}}}
    assert (shown["toolCallId"], shown["canRemember"]) == ("call_1", True)


def test_the_list_is_paged_and_filtered(studio: Studio, draft: str) -> None:
    other = studio.deploy(asking.call())
    ids = []
    for number in range(3):
        run = paused(studio, draft, {"conversationId": f"c{number}"})
        ids += [decision["id"] for decision in open_of(studio, run)]
    (elsewhere,) = open_of(studio, paused(studio, other))
    assert answer(studio, ids[0], {"decision": "approve"}).status_code == 200

    def listed(query: str) -> tuple[list[str], str | None]:
        body = studio.get(f"/api/decisions?{query}").get_json()
        return [item["id"] for item in body["items"]], body.get("nextCursor")

    newest_first = [elsewhere["id"], *ids[::-1]]
    assert listed("") == (newest_first, None)
    page, cursor = listed("limit=3")
    assert page == newest_first[:3]
    assert listed(f"limit=3&cursor={cursor}") == (newest_first[3:], None)
    assert listed("status=answered") == ([ids[0]], None)
    assert listed(f"status=open&workflowId={draft}") == ([ids[2], ids[1]], None)
    thread = studio.get(f"/api/decisions/{ids[1]}").get_json()["threadId"]
    assert listed(f"threadId={thread}") == ([ids[1]], None)
    assert listed(f"runId={elsewhere['runId']}&status=open") == ([elsewhere["id"]], None)
    assert listed("runId=run_unknown") == ([], None)


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("status=undecided", "status"),
        ("limit=0", "limit"),
        ("cursor=x", "cursor"),
        ("thread=x", "thread"),
        ("runId=", "runId"),
    ],
)
def test_a_wrong_query_is_a_400(studio: Studio, query: str, path: str) -> None:
    assert_error(studio.get(f"/api/decisions?{query}"), 400, "validation_failed", path=path)


def test_a_key_reads_and_answers_what_its_runs_ask(studio: Studio, draft: str) -> None:
    run = paused(studio, draft)
    (asked,) = open_of(studio, run)
    _, other = studio.store.keys.create("other", frozenset({"run"}))
    assert studio.get("/api/decisions", key=other).get_json() == {"items": []}
    assert [i["id"] for i in studio.get("/api/decisions", key="run").get_json()["items"]] == [asked["id"]]
    messages = set()
    for each in (asked["id"], "dec_unknown"):
        for refused in (
            studio.get(f"/api/decisions/{each}", key=other),
            answer(studio, each, {"decision": "approve"}, other),
            send(studio, f"/api/decisions/{each}/link", None, other),
        ):
            messages.add(assert_error(refused, 404, "not_found")["message"].replace(each, "ID"))
    assert len(messages) == 1
    for path in ("", "/link"):
        refused = send(studio, f"/api/decisions/{asked['id']}{path}", {}, "read")
        assert_error(refused, 403, "forbidden", says="run")
    assert studio.get(f"/api/decisions/{asked['id']}", key="run").status_code == 200
    assert answer(studio, asked["id"], {"decision": "approve"}, "admin").status_code == 200


# -- answering ---------------------------------------------------------------------------------------


def test_an_answer_is_the_decision_and_the_run_goes_on(studio: Studio, draft: str) -> None:
    run = paused(studio, draft)
    (asked,) = open_of(studio, run)
    given = {"decision": "edit", "text": "Good day.", "reason": "Kinder."}
    body = answer(studio, asked["id"], given).get_json()
    assert (body["id"], body["status"], body["answer"]) == (asked["id"], "answered", given)
    assert body["answeredBy"].startswith("key_")
    assert body["answeredAt"] >= body["createdAt"]
    ended = ends(studio, run)
    assert (ended["status"], ended["output"]) == ("completed", {"text": "Good day."})
    assert studio.get(f"/api/decisions/{asked['id']}").get_json() == body
    error = assert_error(answer(studio, asked["id"], {"decision": "reject"}), 409, "already_answered")
    assert {d["path"]: d["message"] for d in error["details"]}["answeredBy"] == body["answeredBy"]


@pytest.mark.parametrize("body", [{}, {"decision": "edit"}, {"decision": "approve", "pauseId": "x"}])
def test_an_answer_that_does_not_fit_is_a_400(studio: Studio, draft: str, body: dict[str, t.Any]) -> None:
    (asked,) = open_of(studio, paused(studio, draft))
    assert_error(answer(studio, asked["id"], body), 400, "validation_failed")


def test_one_whose_time_is_up_takes_no_answer(studio: Studio) -> None:
    run = paused(studio, studio.deploy(asking.draft(deadline_s=0.05)))
    (asked,) = studio.get(f"/api/decisions?runId={run}").get_json()["items"]
    assert asked["expiresAt"] > asked["createdAt"]
    gevent.sleep(0.1)
    late = answer(studio, asked["id"], {"decision": "approve"})
    error = assert_error(late, 409, "decision_expired", says=asked["expiresAt"])
    assert error["details"] == [{"path": "expiredAt", "message": asked["expiresAt"]}]
    assert studio.get(f"/api/decisions/{asked['id']}").get_json()["status"] == "expired"
    assert_error(send(studio, f"/api/decisions/{asked['id']}/link"), 409, "decision_expired")
    assert_error(resume(studio, run, {"decision": "approve"}), 409, "decision_expired")


# -- links -------------------------------------------------------------------------------------------


def test_a_link_shows_what_is_decided_and_decides_nothing(studio: Studio, draft: str) -> None:
    run = paused(studio, draft)
    (asked,) = open_of(studio, run)
    path = link(studio, asked["id"])
    for method in ("GET", "HEAD", "GET"):
        page = studio.client.open(path, method=method)
        assert page.status_code == 200
        assert page.headers["Cache-Control"] == "no-store"
        assert page.headers["Referrer-Policy"] == "no-referrer"
        assert "noindex" in page.headers["X-Robots-Tag"]
        policy = page.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "script" not in policy
    shown = text_of(page)
    for words in ("Fit to send?", "Hello there.", "It is the first one."):
        assert words in shown
    secrets = (run, asked["id"], asked["threadId"], draft, *studio.keys.values())
    assert not [secret for secret in secrets if secret in page.get_data(as_text=True)]
    assert "<script" not in page.get_data(as_text=True)
    assert open_of(studio, run) == [asked]


def test_a_link_decides_once(studio: Studio, draft: str) -> None:
    run = paused(studio, draft)
    (asked,) = open_of(studio, run)
    path = link(studio, asked["id"])
    done = studio.client.post(path, data={"decision": "edit", "text": "Good\r\nday."})
    assert done.status_code == 200
    assert "Approved, as you changed it" in text_of(done)
    assert ends(studio, run)["output"] == {"text": "Good\nday."}
    shown = studio.get(f"/api/decisions/{asked['id']}").get_json()
    assert (shown["answeredBy"], shown["answer"]) == ("link", {"decision": "edit", "text": "Good\nday."})
    for again in (studio.client.get(path), studio.client.post(path, data={"decision": "reject"})):
        assert again.status_code == 410
        assert "It was changed and approved on" in text_of(again)
        assert "Hello there." not in text_of(again)


def test_a_link_to_a_call(studio: Studio) -> None:
    run = paused(studio, studio.deploy(asking.call()), {"conversationId": "c"})
    (asked,) = open_of(studio, run)
    path = link(studio, asked["id"])
    page = studio.client.get(path)
    assert '"q": "private question"' in text_of(page)
    assert "secretive" in text_of(page)
    for data, problem in (
        ({}, "decision"),
        ({"decision": "edit", "arguments": "{"}, "arguments"),
        ({"decision": "edit", "arguments": '{"q": 1}'}, "arguments.q"),
    ):
        refused = studio.client.post(path, data=data)
        assert refused.status_code == 400
        assert problem in text_of(refused)
    assert '<textarea id="arguments"' in refused.get_data(as_text=True)
    assert '{"q": 1}' in text_of(refused)
    assert open_of(studio, run) == [asked]
    done = studio.client.post(path, data={"decision": "reject", "reason": "Never."})
    assert "Rejected" in text_of(done)
    assert "Never." in str(ends(studio, run)["output"]["toolCalls"])


def test_a_link_remembers_for_the_conversation(studio: Studio) -> None:
    workflow = studio.deploy(asking.call())
    run = paused(studio, workflow, {"conversationId": "c"})
    (asked,) = open_of(studio, run)
    path = link(studio, asked["id"])
    assert "without asking" in text_of(studio.client.get(path))
    assert studio.client.post(path, data={"decision": "approve", "remember": "yes"}).status_code == 200
    ends(studio, run)
    again = studio.execute(workflow, {"input": "hi", "conversationId": "c"}).get_json()
    assert again["status"] == "completed"


def test_a_newer_link_takes_the_place_of_an_older_one(studio: Studio, draft: str) -> None:
    (asked,) = open_of(studio, paused(studio, draft))
    first, second = link(studio, asked["id"]), link(studio, asked["id"], "admin")
    for method in ("GET", "POST"):
        page = studio.client.open(first, method=method, data={"decision": "approve"})
        assert page.status_code == 404
        assert "not known" in text_of(page)
    assert studio.client.get(second).status_code == 200


@pytest.mark.parametrize("token", ["x", "A" * 43, "é", "a" * 5000])
def test_a_token_that_is_none_is_a_friendly_404(studio: Studio, token: str) -> None:
    for method in ("GET", "POST"):
        page = studio.client.open(f"/decide/{token}", method=method, data={"decision": "approve"})
        assert page.status_code == 404
        assert "This link is not known" in text_of(page)


def test_a_form_is_taken_apart_for_those_alone_who_have_a_link(studio: Studio, draft: str) -> None:
    def many(path: str) -> t.Any:
        return studio.client.post(path, data="a=&" * 50, content_type="application/x-www-form-urlencoded")

    assert many("/decide/nonesuch").status_code == 404
    (asked,) = open_of(studio, paused(studio, draft))
    assert_error(many(link(studio, asked["id"])), 400, "validation_failed", says="more than 50 fields")
    assert studio.get(f"/api/decisions/{asked['id']}").get_json()["status"] == "open"


def test_links_of_what_is_over_say_so(studio: Studio) -> None:
    late = paused(studio, studio.deploy(asking.draft(deadline_s=3600)))
    (asked,) = open_of(studio, late)
    path = link(studio, asked["id"])
    stopped = paused(studio, studio.deploy(asking.draft()))
    other = link(studio, open_of(studio, stopped)[0]["id"])
    send(studio, f"/api/runs/{stopped}/cancel")
    assert ends(studio, stopped)["status"] == "cancelled"
    page = studio.client.get(other)
    assert page.status_code == 410
    assert "nothing to decide any more" in text_of(page)
    services = studio.app.extensions["studio"]
    (settled,) = services.store.decisions.expire(services.clock.now_ms() + 3_600_000)
    assert settled.id == asked["id"]
    page = studio.client.post(path, data={"decision": "approve"})
    assert page.status_code == 410
    assert "The time is up" in text_of(page)


def test_nothing_on_the_page_is_markup_or_turns_what_is_read(studio: Studio) -> None:
    """EXPOSE: what a model or tool made is text, and no character of it reorders the others."""
    deceiving = {"q": f"{MARKUP}\u202e txt.exe", "nested": {"<b>": ["</pre><script>1</script>"]}}
    (studio.app.extensions["studio"].settings.scripts_dir / "liar.yaml").write_text(
        _script(deceiving), encoding="utf-8"
    )
    document = asking.call()
    document["blocks"][1]["config"]["model"] = "scripted/liar"
    (asked,) = open_of(studio, paused(studio, studio.deploy(document)))
    page = studio.client.get(link(studio, asked["id"])).get_data(as_text=True)
    for markup in ("<img", "<script", "</pre><", "<b>", "\u202e"):
        assert markup not in page.replace("</pre>\n</section>", "")
    assert "\\u202e txt.exe" in html.unescape(page)
    assert "{% if 7 %}" in html.unescape(page)


def test_a_request_to_no_name_makes_no_link_and_leaves_the_one_there_is(studio: Studio, draft: str) -> None:
    (asked,) = open_of(studio, paused(studio, draft))
    path = link(studio, asked["id"])
    answer = send(studio, f"/api/decisions/{asked['id']}/link", None, Host="no/name")
    assert_error(answer, 400, "validation_failed", path="Host", says="STUDIO_PUBLIC_URL")
    assert studio.client.get(path).status_code == 200


def test_a_public_address_is_where_links_lead(studio: Studio, draft: str) -> None:
    import dataclasses

    services = studio.app.extensions["studio"]
    services.settings = dataclasses.replace(services.settings, public_url="https://studio.example.org/base/")
    (asked,) = open_of(studio, paused(studio, draft))
    url = send(studio, f"/api/decisions/{asked['id']}/link").get_json()["url"]
    assert url.startswith("https://studio.example.org/base/decide/")


def ends(studio: Studio, run: str) -> dict[str, t.Any]:
    """The record of a run once it has ended."""
    with gevent.Timeout(10):
        while "endedAt" not in (body := studio.get(f"/api/runs/{run}").get_json()):
            gevent.sleep(0.01)
    return t.cast("dict[str, t.Any]", body)


def _script(arguments: dict[str, t.Any]) -> str:
    import yaml

    first = {"tool_call": {"name": "secretive", "arguments": arguments, "id": "call_1"}}
    return yaml.safe_dump({"turns": [{"steps": [first]}, {"steps": [{"text": "Done."}]}]})


# -- where it cannot go on ---------------------------------------------------------------------------


def test_a_server_that_cannot_go_on_with_a_run_decides_nothing(
    studio: Studio, draft: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another server on the same data may have the plugin that is missing here."""
    run = paused(studio, draft)
    decision = open_of(studio, run)[0]["id"]
    page = link(studio, decision)
    services = studio.app.extensions["studio"]
    with monkeypatch.context() as lacking:
        lacking.delitem(services.plugins.block_types, "agent")
        for refused in (
            answer(studio, decision, {"decision": "approve"}),
            resume(studio, run, {"decision": "approve"}),
        ):
            assert_error(refused, 503, "workflow_unavailable")
            assert refused.headers["Retry-After"] == "10"
        shown = studio.client.post(page, data={"decision": "approve"})
        assert shown.status_code == 503
        assert "Nothing was decided" in text_of(shown)
    assert answer(studio, decision, {"decision": "approve"}).status_code == 200
