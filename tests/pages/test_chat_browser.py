"""The page of a chat, in a browser: nothing a model says becomes markup (field case EXPOSE-08), on desk and phone,
behind each gate, after a reload, while the connection is lost, and inside another site's page."""

from __future__ import annotations

import http.server
import json
import threading
import typing as t
from collections.abc import Iterator

import pytest
import yaml

from tests.pages.conftest import CONTRAST, CONTRAST_OF_PLACEHOLDER
from tests.support import sse
from tests.support.approvals import fit_to_send
from tests.support.browser import Page
from tests.support.servers import Studio, studio

ATTACK = "<img src=x onerror=window.__x=1>"
#: Field case EXPOSE-08, and what else models write.
ANSWER = f"""# A heading {ATTACK}

{ATTACK} **{ATTACK}** `{ATTACK}` [click](javascript:window.__x=1) [fine](https://example.org/a)
<script>window.__x=1</script>

| Name | Price |
|---|--:|
| {ATTACK} | 12 |

1. one
2. two
   - inner

```html
{ATTACK}
{"long " * 60}
```

> Quoted {ATTACK}

The end.
"""
SCRIPTS = {
    "rich": [{"thinking": f"Let me {ATTACK} see."}, {"text": ANSWER, "chunk": 7}],
    "looker": [{"text": "Let me look. "}, {"tool_call": {"name": "clock", "arguments": {}}}],
    "slow": [{"text": "Begun. "}, {"stall": True}],
    "mute": [{"finish": "stop"}],
}


def document(model: str, **agent: t.Any) -> dict[str, t.Any]:
    config = {"model": model, "prompt": "{{ input.message }}", **agent}
    return {
        "name": "Support",
        "blocks": [{"id": "start", "type": "start"}, {"id": "agent_1", "type": "agent", "config": config}],
        "edges": [{"source": "start", "target": "agent_1"}],
    }


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    folder = tmp_path_factory.mktemp("chats")
    scripts = folder / "scripts"
    scripts.mkdir()
    for name, steps in SCRIPTS.items():
        turns = [{"steps": steps}, {"steps": [{"text": "It is late."}]}]
        (scripts / f"{name}.yaml").write_text(yaml.safe_dump({"turns": turns}))
    environ = {"STUDIO_LIST_MODELS": "off", "STUDIO_SCRIPTS_DIR": str(scripts)}
    with studio(folder / "data", environ) as made:
        assert made.key
        yield made


def ask(
    server: Studio, method: str, path: str, body: t.Any = None, more: t.Mapping[str, str] | None = None
) -> t.Any:
    sent = None if body is None else json.dumps(body).encode()
    headers = {"X-API-Key": server.key, "Content-Type": "application/json", **(more or {})}
    status, _, data = sse.request(server.port, method, path, sent, headers)
    assert status < 300, data
    return json.loads(data)


def chat(server: Studio, slug: str, document: t.Any, **more: t.Any) -> str:
    """Deploy a chat; the address of its page."""
    workflow = server.deploy(document)
    body = {"workflowId": workflow, "slug": slug, "title": "Help & <b>more</b>", **more}
    ask(server, "POST", "/api/chats", body)
    return f"http://127.0.0.1:{server.port}/chat/{slug}"


@pytest.fixture(scope="module")
def rich(server: Studio) -> str:
    look = {"primaryColor": "#8a2be2", "placeholder": "Ask us"}
    more = {"includeThinking": True, "welcomeMessage": f"**Hello** {ATTACK}", "customization": look}
    return chat(server, "rich", document("scripted/rich"), description="All about <i>it</i>.", **more)


@pytest.fixture(scope="module")
def branded(server: Studio) -> str:
    return chat(server, "branded", document("scripted/mute"), welcomeMessage="[A link](https://example.org/)")


def say(page: Page, text: str) -> None:
    page.wait("!document.getElementById('say').hidden && !document.getElementById('send').hidden")
    page.js("document.getElementById('text').focus()")
    page.type(text)
    page.key("Enter")


DONE = "!document.querySelector('.working') && document.querySelectorAll('.answer').length >= "


def forget(page: Page, url: str) -> None:
    """As a browser that was never here."""
    page.call("Network.clearBrowserCookies")
    page.call("Storage.clearDataForOrigin", origin=url.partition("/chat/")[0], storageTypes="local_storage")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_it_fits_the_screen_and_nothing_said_becomes_markup(
    page: Page, rich: str, width: int, dark: bool
) -> None:
    forget(page, rich)
    page.see(width, dark=dark)
    page.open(rich)
    say(page, f"Tell me {ATTACK}")
    page.wait("document.querySelector('.answer pre:not(.thoughts)') !== null")
    page.wait(DONE + "2")
    for place in ("live", "reloaded"):
        assert page.js("window.__x === undefined"), place
        assert (
            page.js(
                "document.querySelectorAll('#messages img, #messages script, #messages [onerror]').length"
            )
            == 0
        )
        addresses = page.js("[...document.querySelectorAll('#messages a')].map(a => a.href)")
        assert addresses == ["https://example.org/a"], place
        assert page.js("document.querySelector('.answer table td').textContent") == ATTACK
        assert page.js("document.querySelectorAll('.answer')[1].textContent").count(ATTACK) == 7 + (
            place == "live"
        )
        assert page.js("document.querySelector('.asked .words').textContent") == f"Tell me {ATTACK}"
        assert page.js("document.documentElement.scrollWidth") <= width, "nothing runs out of the page"
        page.open(rich)
        page.wait(DONE + "2")
    assert page.js("document.title") == "Help & <b>more</b>"
    assert page.js("document.getElementById('description').textContent") == "All about <i>it</i>."
    for chosen in ("body", "header p", ".asked .words", ".answer code", "#send", "#anew", ".answer th"):
        contrast = page.js(CONTRAST.replace("CHOSEN", json.dumps(chosen)))
        assert contrast >= 4.5, f"{chosen} has a contrast of {contrast:.2f}"
    low = page.js("Math.min(...['send', 'text'].map(id => document.getElementById(id).offsetHeight))")
    assert low >= 44, "a finger finds it"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_links_and_buttons_can_be_read_in_any_colour_of_the_owner(
    page: Page, server: Studio, branded: str, dark: bool
) -> None:
    forget(page, branded)
    page.see(1280, dark=dark)
    page.open(branded)
    page.wait("document.querySelector('.answer a') !== null")
    contrast = page.js(CONTRAST_OF_PLACEHOLDER.replace("CHOSEN", '"#text"'))
    assert contrast >= 4.5, f"the placeholder has a contrast of {contrast:.2f}"
    for colour in ("#8a2be2", "#ff0", "#0000ff", "#ff0000", "#00ff7f", "#000", "#fff", "#808080"):
        [item] = [each for each in ask(server, "GET", "/api/chats")["items"] if each["slug"] == "branded"]
        look = {"customization": {"primaryColor": colour}}
        ask(server, "PATCH", f"/api/chats/{item['id']}", look, {"If-Match": "*"})
        page.open(branded)
        page.wait("document.querySelector('.answer a') !== null")
        for chosen in (".answer a", "#send"):
            contrast = page.js(CONTRAST.replace("CHOSEN", json.dumps(chosen)))
            assert contrast >= 4.5, f"{chosen} in {colour} has a contrast of {contrast:.2f}"


def test_thinking_is_shown_where_the_chat_allows_it_and_as_text(page: Page, rich: str) -> None:
    forget(page, rich)
    page.open(rich)
    say(page, "Think")
    page.wait(DONE + "2")
    assert page.js("document.querySelectorAll('.thinking')[1].hidden") is False
    assert page.js("document.querySelectorAll('.thoughts')[1].textContent") == f"Let me {ATTACK} see."


def test_tools_are_named_where_the_chat_allows_it_and_the_preamble_is_taken_back(
    page: Page, server: Studio
) -> None:
    url = chat(server, "tools", document("scripted/looker", tools=["clock"]), includeToolCalls=True)
    page.open(url)
    say(page, "What time is it?")
    page.wait(DONE + "1")
    assert page.js("document.querySelector('.tools').textContent") == "clock was used"
    assert page.js("document.querySelector('.answer .text').textContent") == "It is late."


def test_a_message_is_stopped(page: Page, server: Studio) -> None:
    page.open(chat(server, "slow", document("scripted/slow")))
    say(page, "Go on for ever")
    page.wait("document.querySelector('.answer .text')?.textContent === 'Begun. '.trim()")
    page.js("document.getElementById('stop').click()")
    page.wait("document.querySelector('.foot.bad')?.textContent === 'The run was stopped.'")
    page.wait(DONE + "1")
    page.wait("!document.getElementById('send').hidden")


def test_an_answer_goes_on_after_a_reload_in_its_middle(page: Page, server: Studio) -> None:
    page.open(chat(server, "again", document("scripted/slow") | {"settings": {"on_disconnect": "continue"}}))
    say(page, "Stay with me")
    page.wait("document.querySelector('.answer .text')?.textContent === 'Begun.'")
    page.open(f"http://127.0.0.1:{server.port}/chat/again")
    page.wait("document.querySelector('.answer.working .text')?.textContent === 'Begun.'")
    assert page.js("document.querySelector('.asked .words').textContent") == "Stay with me"
    page.js("document.getElementById('stop').click()")
    page.wait(DONE + "1")


def test_a_password_is_asked_for(page: Page, server: Studio) -> None:
    more = {"authType": "password", "password": "open sesame"}
    page.open(chat(server, "locked", document("scripted/rich"), **more))
    page.wait("!document.getElementById('password').hidden")
    assert page.js("document.title") == "Chat", "nothing is told before"
    for word in ("wrong", "open sesame"):
        page.js(f"document.getElementById('password-text').value = {json.dumps(word)}")
        page.js("document.querySelector('#password button').click()")
        if word == "wrong":
            page.wait(
                "document.querySelector('#password .problem').textContent === 'This password is wrong.'"
            )
            described = "document.getElementById('password-text').getAttribute('aria-describedby')"
            assert page.js(f"document.getElementById({described}).checkVisibility()"), (
                "the field says so, too"
            )
    say(page, "Hello")
    page.wait(DONE + "1")
    page.errors[:] = [error for error in page.errors if "401" not in error]


def test_a_visitor_decides_what_he_is_asked(page: Page, server: Studio) -> None:
    page.open(chat(server, "deciding", fit_to_send(reasons=["It is new."]), outputs=["sent.text"]))
    say(page, "Dear Ada")
    page.wait("document.querySelector('.review textarea') !== null")
    assert page.js("document.querySelector('.review textarea').value") == "Dear Ada"
    page.js("document.querySelector('.review textarea').value = 'Dear Bob'")
    page.js("document.querySelector('.review button.main').click()")
    page.wait("document.querySelector('.answer:not(.working)')?.textContent.includes('Dear Bob')")


class _Elsewhere(http.server.BaseHTTPRequestHandler):
    """Another site, with the widget on its page."""

    page = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(self.page)

    def log_message(self, format: str, *args: t.Any) -> None:
        """Say nothing."""


@pytest.fixture
def elsewhere() -> Iterator[http.server.ThreadingHTTPServer]:
    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Elsewhere)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.mark.parametrize("allowed", [True, False], ids=["its own", "another"])
def test_the_widget_shows_the_chat_on_pages_of_its_origins(
    page: Page, server: Studio, elsewhere: http.server.ThreadingHTTPServer, allowed: bool
) -> None:
    # By another name, so that it is another site.
    site = f"http://localhost:{elsewhere.server_port}"
    slug = "framed" if allowed else "unframed"
    origins = [site if allowed else "https://example.org"]
    chat(server, slug, document("scripted/rich"), allowedOrigins=origins)
    source = f"http://127.0.0.1:{server.port}/static/widget.js"
    _Elsewhere.page = (
        f'<!doctype html><body><script src="{source}" data-chat="{slug}" data-open defer></script>'.encode()
    )
    page.open(f"{site}/")
    if allowed:
        target = page.frame(f"/chat/{slug}")
        target("document.getElementById('text') && !document.getElementById('say').hidden")
        target(
            "(document.getElementById('text').value = 'Hi', document.getElementById('send').click(), true)"
        )
        target(DONE + "1")
        target("document.cookie === '' && localStorage.getItem('studio-visitor:framed') !== null")
    else:
        page.wait(f"performance.getEntriesByType('resource').some(e => e.name.endsWith('/chat/{slug}'))")
        page.wait_for_error("frame-ancestors")
        page.errors.clear()


@pytest.mark.parametrize(("width", "height"), [(390, 700), (1280, 600)], ids=["phone", "desk"])
def test_the_widget_gives_the_chat_room(
    page: Page,
    server: Studio,
    elsewhere: http.server.ThreadingHTTPServer,
    rich: str,
    width: int,
    height: int,
) -> None:
    # A frame with an automatic height is 150 pixels high, whatever its inset says.
    source = f"http://127.0.0.1:{server.port}/static/widget.js"
    _Elsewhere.page = (
        f'<!doctype html><meta name="viewport" content="width=device-width"><body>'
        f'<script src="{source}" data-chat="rich" data-open defer></script>'.encode()
    )
    page.see(width, 900)
    page.open(f"http://localhost:{elsewhere.server_port}/")
    page.frame("/chat/rich")(f"innerHeight >= {height} && innerHeight <= 900 - 84")


def test_a_chat_that_is_not_there_says_so(page: Page, server: Studio, rich: str) -> None:
    status, headers, data = sse.request(server.port, "GET", "/chat/nobody", None, {})
    assert status == 404
    assert b"There is no chat at this address." in data
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]


def test_the_page_holds_nothing_of_the_chat(server: Studio, rich: str) -> None:
    _, headers, data = sse.request(server.port, "GET", "/chat/rich", None, {})
    for told in (b"Help", b"All about", b"Hello", b"agent_1", b"scripted", b"wf_"):
        assert told not in data
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy


def test_any_text_is_drawn_in_linear_time(page: Page, rich: str) -> None:
    # Each of these lines held a page for minutes: several parts of one pattern could take the same characters.
    page.open(rich)
    drawn = page.js(
        """import(document.querySelector("script").src.replace("chat.js", "markdown.js")).then(({ draw }) => {
            const many = " ".repeat(200000), long = "a".repeat(200000);
            const texts = ["a | b\\n-" + many + "x", "# a" + many + "b #", "# " + many + "x\\u2028y",
                "- " + many + "a\\u2028", "```" + long + "```", "~".repeat(200000) + "`", "`a` ".repeat(150000)];
            return texts.map((text) => draw(text).map((element) => element.tagName).join(" "));
        })"""
    )
    assert drawn == ["P UL", "H2", "H2", "UL", "P", "P", "P"]
    heads = page.js(
        """import(document.querySelector("script").src.replace("chat.js", "markdown.js")).then(({ draw }) =>
            draw("# one #\\n## two # three\\n###\\n#four\\n# five#\\n\\n| a | b |\\n|---|:-:|\\n| 1 | 2 |")
                .map((element) => `${element.tagName} ${element.textContent}`))"""
    )
    assert heads == ["H2 one", "H3 two # three", "H4 ", "P #four", "H2 five#", "DIV ab12"]


def test_a_message_is_sent_once_however_often_it_is_asked_for(page: Page, server: Studio) -> None:
    page.open(chat(server, "once", document("scripted/slow")))
    page.wait("!document.getElementById('say').hidden")
    page.js(
        "document.getElementById('text').value = 'Only once',"
        " [1, 2, 3].forEach(() => document.getElementById('say').requestSubmit())"
    )
    page.wait("document.querySelector('.answer .text')?.textContent === 'Begun.'")
    [made] = [each for each in ask(server, "GET", "/api/chats")["items"] if each["slug"] == "once"]
    runs = [each["workflowId"] for each in ask(server, "GET", "/api/runs")["items"]]
    assert runs.count(made["workflowId"]) == 1
    assert page.js("document.querySelectorAll('.asked').length") == 1
    page.js("document.getElementById('stop').click()")
    page.wait(DONE + "1")


def test_an_answer_without_a_word_is_told(page: Page, server: Studio) -> None:
    url = chat(server, "mute", document("scripted/mute"))
    page.open(url)
    say(page, "Say nothing")
    for place in ("live", "reloaded"):
        page.wait(DONE + "1")
        assert page.js("document.querySelector('.answer .foot').innerText") == "The answer is empty.", place
        assert page.js("document.querySelectorAll('.answer .value').length") == 0, place
        page.open(url)


#: Longer than a test takes.
NEVER = 3_600_000


def asks_again_after(page: Page, ms: int) -> None:
    """While somebody has to decide, the page asks every five seconds how it stands: let it be every ``ms``."""
    page.js(
        "window.real = setTimeout, window.setTimeout = (act, ms) => real(act, ms === 5000 ? MS : ms), 0".replace(
            "MS", str(ms)
        )
    )


def decides(page: Page, text: str) -> None:
    page.wait("document.querySelector('.review textarea') !== null")
    page.js(f"document.querySelector('.review textarea').value = {json.dumps(text)}")
    page.js("document.querySelector('.review button.main').click()")


def test_a_run_that_goes_on_after_a_decision_can_be_stopped(page: Page, server: Studio) -> None:
    workflow = fit_to_send()
    answers = {"model": "scripted/slow", "prompt": "{{ input.message }}"}
    workflow["blocks"][2] = {"id": "sent", "type": "agent", "config": answers}
    page.open(chat(server, "goes-on", workflow))
    asks_again_after(page, 50)
    page.js(
        "window.asked = 0, window.get = fetch, window.fetch = (...sent) => (window.asked++, get(...sent))"
    )
    say(page, "Dear Ada")
    page.wait("document.querySelector('.review') !== null && asked > 4")
    decides(page, "Dear Bob")
    page.wait("document.querySelector('.answer .text').textContent === 'Begun.'")
    # Whoever asks every 50 ms has asked before a later timer of the same page is up, however slow the machine is.
    more = page.js("(asked = 0, new Promise((done) => real(() => real(() => done(asked), 60), 60)))")
    assert more == 0, "nobody waits for a decision any more"
    assert page.js("document.getElementById('stop').hidden") is False
    page.js("document.getElementById('stop').click()")
    page.wait(DONE + "1")


def test_what_was_decided_elsewhere_meanwhile_is_followed(page: Page, server: Studio) -> None:
    page.open(chat(server, "elsewhere", fit_to_send(), outputs=["sent.text"]))
    asks_again_after(page, NEVER)  # or it might hear of the decision before it makes its own
    say(page, "Dear Ada")
    page.wait("document.querySelector('.review textarea') !== null")
    run = ask(server, "GET", "/api/runs?status=paused")["items"][0]["runId"]
    sse.request(
        server.port,
        "POST",
        f"/api/runs/{run}/resume",
        b'{"decision": "edit", "text": "Dear Cy"}',
        {"X-API-Key": server.key, "Content-Type": "application/json"},
    )
    decides(page, "Dear Bob")
    page.wait(DONE + "1")
    page.wait("document.querySelector('.answer').textContent.includes('Dear Cy')")
    page.errors[:] = [error for error in page.errors if "409" not in error]


def test_a_decision_that_is_lost_can_be_made_again(page: Page, server: Studio) -> None:
    page.open(chat(server, "lossy", fit_to_send(), outputs=["sent.text"]))
    asks_again_after(page, NEVER)  # or what is lost might be that
    say(page, "Dear Ada")
    page.wait("document.querySelector('.review textarea') !== null")
    page.js(
        "window.get = fetch, window.fetch = () =>"
        " (window.fetch = get, Promise.reject(new TypeError('The connection is lost.')))"
    )
    decides(page, "Dear Bob")
    page.wait(
        "document.querySelector('.foot.bad')?.textContent === 'The server cannot be reached. Try again.'"
    )
    page.wait("!document.querySelector('.review button.main').disabled")
    assert page.js("document.querySelector('.review textarea').value") == "Dear Bob"
    page.js("document.querySelector('.review button.main').click()")
    page.wait("document.querySelector('.answer:not(.working)')?.textContent.includes('Dear Bob')")
    assert page.js("document.querySelector('.foot').hidden")


def test_who_has_to_show_a_password_again_is_shown_nothing_meanwhile(page: Page, server: Studio) -> None:
    url = chat(server, "changing", document("scripted/mute"), authType="password", password="first word")
    page.open(url)
    for word in ("first word", "second word"):
        page.wait("!document.getElementById('password').hidden")
        assert page.js("document.getElementById('messages').textContent") == ""
        page.js(f"document.getElementById('password-text').value = {json.dumps(word)}")
        page.js("document.querySelector('#password button').click()")
        if word == "second word":
            break
        say(page, "Hello")
        page.wait(DONE + "1")
        [item] = [e for e in ask(server, "GET", "/api/chats")["items"] if e["slug"] == "changing"]
        body = json.dumps({"password": "second word"}).encode()
        headers = {"X-API-Key": server.key, "Content-Type": "application/json", "If-Match": "*"}
        assert sse.request(server.port, "PATCH", f"/api/chats/{item['id']}", body, headers)[0] == 200
        say(page, "Are you there?")
    page.wait("document.querySelector('.asked')?.textContent.includes('Hello')")
    assert page.js("document.getElementById('text').value") == "Are you there?"
    page.errors[:] = [error for error in page.errors if "401" not in error]


@pytest.mark.parametrize(
    "text",
    [
        "\t- one\n\n- ```\n\n",
        "- one\n1. two\nlazy\n\n1. three\n",
        "2. one\nlazy\n\n\t- inner\n",
        "```\n- a\n\n```\nb\n\nc",
    ],
)
def test_what_grows_is_drawn_as_what_is_whole(page: Page, rich: str, text: str) -> None:
    page.open(rich)
    live, whole = page.js(
        f"""import(document.querySelector("script").src.replace("chat.js", "markdown.js")).then(({{ Growing }}) => {{
            const text = {json.dumps(text)};
            const [live, whole] = [1, text.length].map((step) => {{
                const grown = new Growing(document.createElement("div"));
                for (let end = step; end <= text.length; end += step) grown.show(text.slice(0, end));
                return grown.element.innerHTML;
            }});
            return [live, whole];
        }})"""
    )
    assert live == whole


def test_a_run_is_stopped_while_it_waits_for_a_decision(page: Page, server: Studio) -> None:
    page.open(chat(server, "stopped", fit_to_send(), outputs=["sent.text"]))
    say(page, "Dear Ada")
    page.wait("document.querySelector('.review') !== null")
    page.js("document.getElementById('stop').click()")
    page.wait("document.querySelector('.foot.bad')?.textContent === 'The run was stopped.'")
    assert page.js("document.querySelector('.review') === null")
    page.wait("document.getElementById('stop').hidden")


def test_a_file_that_is_refused_is_named(page: Page, server: Studio) -> None:
    page.open(chat(server, "filing", document("scripted/mute")))
    page.wait("!document.getElementById('say').hidden")
    page.js(
        """(() => {
            const chosen = new DataTransfer();
            chosen.items.add(new File(["hello"], "good.txt"));
            chosen.items.add(new File([new Uint8Array([0, 1, 2])], "<b>bad</b>.bin"));
            document.getElementById("file").files = chosen.files;
            document.getElementById("file").dispatchEvent(new Event("change"));
        })()"""
    )
    say(page, "Look at these")
    page.wait("!document.getElementById('notice').hidden")
    said = page.js("document.getElementById('notice').textContent")
    assert said.startswith("“<b>bad</b>.bin” is neither an image")
    page.errors[:] = [error for error in page.errors if "400" not in error]
