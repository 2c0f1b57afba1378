"""Files for the model: from every source to every wire's body, judged by their bytes, refused with the cure."""

from __future__ import annotations

import base64
import typing as t
from collections.abc import Mapping

import pytest

from app import events as ev
from app.agents.checks import checker
from app.agents.config import AgentConfig
from app.workflows.file_entries import MAX_BYTES, FileRefused, sniff
from tests.agents.conftest import PLAIN, PRICED, Agents
from tests.field.rig import Live
from tests.field.wires import Chat, Messages
from tests.support.vendor import Call, Vendor
from tests.support.vendor import vendor as one_vendor

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(40))
JPEG = b"\xff\xd8\xff\xe0" + bytes(40)
GIF = b"GIF89a" + bytes(20)
WEBP = b"RIFF\x24\x00\x00\x00WEBPVP8 " + bytes(20)
PDF = b"%PDF-1.7\n1 0 obj\n<< /Type /Page >>\nendobj\n"
SEES, CLAUDE = "priced/one", "anthropic/claude-sonnet-4-5"
chat, claude = Chat(), Messages()


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def answer(speaker: Chat | Messages) -> t.Callable[[Call], None]:
    def say(call: Call) -> None:
        speaker.text(call, "I see.")
        speaker.finish(call)

    return say


def sent(live: Live) -> list[dict[str, t.Any]]:
    """The parts of the user's message in the first request."""
    (user,) = [m for m in live.calls[0].body["messages"] if m["role"] == "user"]
    content = user["content"]
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


@pytest.mark.parametrize(
    ("data", "media_type"),
    [(PNG, "image/png"), (JPEG, "image/jpeg"), (GIF, "image/gif"), (WEBP, "image/webp")],
)
def test_pictures_reach_either_wire_before_the_text(agents: Agents, data: bytes, media_type: str) -> None:
    given = {"files": [{"data": b64(data), "media_type": "image/x-unheard-of"}], "prompt": "What is it?"}
    image, text = sent(agents.run(SEES, answer(chat), **given))
    assert image == {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{b64(data)}"}}
    assert text == {"type": "text", "text": "What is it?"}
    image, text = sent(agents.run(CLAUDE, answer(claude), **given))
    source = {"type": "base64", "media_type": media_type, "data": b64(data)}
    assert (image["type"], image["source"]) == ("image", source)
    assert text["text"] == "What is it?"


def test_a_pdf_reaches_either_wire(agents: Agents) -> None:
    given = {"files": [{"data": f"data:application/pdf;base64,{b64(PDF)}", "name": "a.pdf"}]}
    part = sent(agents.run(SEES, answer(chat), **given))[0]
    assert part["file"] == {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{b64(PDF)}"}
    part = sent(agents.run(CLAUDE, answer(claude), **given))[0]
    assert (part["type"], part["title"]) == ("document", "a.pdf")
    assert part["source"] == {"type": "base64", "media_type": "application/pdf", "data": b64(PDF)}


@pytest.mark.parametrize("model", [SEES, "plain/no-files-at-all"])
def test_text_reaches_every_model(agents: Agents, model: str) -> None:
    given = {"files": [{"text": "Grüße", "name": "notes.txt"}]}
    part = sent(agents.run(model, answer(chat), **given))[0]
    assert "notes.txt" in part["text"]
    assert "Grüße" in part["text"]


def test_text_is_a_document_where_the_vendor_has_such(agents: Agents) -> None:
    part = sent(agents.run(CLAUDE, answer(claude), files=[{"text": "Grüße", "name": "notes.txt"}]))[0]
    assert (part["type"], part["source"]["data"]) == ("document", "Grüße")


def test_files_are_sent_again_with_every_turn_and_to_a_fallback(agents: Agents) -> None:
    def look(call: Call) -> None:
        chat.tool(call, 0, "c", "clock", "{}")
        chat.finish(call, "tool_calls")

    live = agents.run(
        SEES, look, lambda call: call.answer(400, b"{}"), answer(claude),
        tools=["clock"], files=[{"data": b64(PNG)}], fallbacks=[CLAUDE],
    )  # fmt: skip
    for call in live.calls:
        assert b64(PNG) in str(call.body)


# -- where they come from -----------------------------------------------------------------------


def chat_input(**more: t.Any) -> dict[str, t.Any]:
    return {
        "message": "What is it?",
        "conversationId": "c",
        "files": [{"data": b64(PNG), "name": "a.png"}],
        **more,
    }


@pytest.mark.parametrize(
    "config", [{}, {"prompt": "Say: {{ input.message }}"}, {"files": "{{ input.files }}"}]
)
def test_an_agent_that_answers_the_message_gets_the_files_that_came_with_it(
    agents: Agents, config: dict[str, t.Any]
) -> None:
    live = agents.start(SEES, chat_input(), **config)
    answer(chat)(live.call())
    assert [part["type"] for part in sent(live.end())] == ["image_url", "text"]


@pytest.mark.parametrize("config", [{"prompt": "Tell a joke."}, {"files": []}])
def test_another_agent_does_not(agents: Agents, config: dict[str, t.Any]) -> None:
    live = agents.start(SEES, chat_input(), **config)
    answer(chat)(live.call())
    assert [part["type"] for part in sent(live.end())] == ["text"]


@pytest.mark.parametrize("files", [["a", "b"], {"a": 1}, "text", [{"path": "x"}], 7, None])
def test_an_input_that_calls_something_else_files_is_left_alone(agents: Agents, files: t.Any) -> None:
    live = agents.start(SEES, {"message": "hi", "files": files})
    answer(chat)(live.call())
    assert isinstance(live.end().terminal, ev.RunCompleted)


def test_templates_and_lists_may_be_mixed_and_what_is_missing_is_left_out(agents: Agents) -> None:
    missing = ["{{ input.nothing }}", *({source: "{{ input.no }}"} for source in ("url", "data", "text"))]
    config = {"files": ["{{ input.files }}", *missing, {"text": "for {{ input.message }}"}]}
    live = agents.start(SEES, chat_input(), **config)
    answer(chat)(live.call())
    image, text, _ = sent(live.end())
    assert image["type"] == "image_url"
    assert text["text"] == "for What is it?"


class TestFetching:
    """Addresses: through the guard, within the limits, once."""

    @pytest.fixture
    def more_environ(self) -> Mapping[str, str]:
        return {"STUDIO_TOOL_TIMEOUT_S": "5"}

    def fetch(self, agents: Agents, desk: Vendor, *answers: t.Callable[[Call], None]) -> Live:
        live = agents.start(SEES, files=[f"{desk.base}/pictures/a%20cat.png?size=1"])
        for give in answers:
            give(desk.next_call())
        return live

    @pytest.fixture
    def desk(self) -> t.Iterator[Vendor]:
        with one_vendor() as made:
            yield made
            assert made.calls.empty(), "the file was asked for more than once"

    def test_it_is_fetched_once_for_all_turns(self, agents: Agents, desk: Vendor) -> None:
        live = agents.start(SEES, files=[f"{desk.base}/pictures/a%20cat.png"], tools=["clock"])
        desk.next_call().answer(200, PNG, content_type="text/html")
        first = live.call()
        chat.tool(first, 0, "c", "clock", "{}")
        chat.finish(first, "tool_calls")
        answer(chat)(live.call())
        live.end()
        assert [part["type"] for part in sent(live)] == ["image_url", "text"]
        assert b64(PNG) in str(live.calls[1].body)

    def test_its_name_is_that_of_the_address(self, agents: Agents, desk: Vendor) -> None:
        live = self.fetch(agents, desk, lambda call: call.answer(200, PDF))
        answer(chat)(live.call())
        assert sent(live.end())[0]["file"]["filename"] == "a cat.png"

    @pytest.mark.parametrize(
        ("status", "body", "headers", "words"),
        [
            (404, b"gone", {}, "HTTP status 404"),
            (200, b"\x00\x01\x02", {}, "neither an image"),
            (200, b"<html>log in</html>", {"content_type": "image/png"}, "bytes are text"),
            (200, b"", {"content_encoding": "gzip"}, "compressed"),
        ],
    )
    def test_what_cannot_be_used_fails_the_block(
        self, agents: Agents, desk: Vendor, status: int, body: bytes, headers: dict[str, str], words: str
    ) -> None:
        end = self.fetch(agents, desk, lambda call: call.answer(status, body, **headers)).end().terminal
        assert (end.code, end.block) == ("files_invalid", "agent_1")
        assert words in end.message
        assert "files[0]" in end.message

    def test_more_than_the_limit_is_not_read(self, agents: Agents, desk: Vendor) -> None:
        def huge(call: Call) -> None:
            head = f"HTTP/1.1 200 OK\r\nContent-Length: {MAX_BYTES + 1}\r\n\r\n"
            call._sock.sendall(head.encode())

        end = self.fetch(agents, desk, huge).end().terminal
        assert end.code == "files_invalid"
        assert f"longer than {MAX_BYTES} bytes" in end.message

    def test_a_stop_ends_the_fetching(self, agents: Agents, desk: Vendor) -> None:
        live = agents.start(SEES, files=[f"{desk.base}/slow"])
        call = desk.next_call()
        live.run.cancel("stop_requested")
        assert isinstance(live.end().terminal, ev.RunCancelled)
        assert call.left.wait(10)


class TestGuard:
    """Without STUDIO_HTTP_ALLOW nothing private is reached."""

    @pytest.fixture
    def more_environ(self) -> Mapping[str, str]:
        return {"STUDIO_HTTP_ALLOW": ""}

    @pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "169.254.169.254", "localhost", "2130706433"])
    def test_private_addresses_are_refused(self, agents: Agents, host: str) -> None:
        live = agents.start(SEES, {"message": "hi", "files": [{"url": f"http://{host}:8080/secret.png"}]})
        end = live.end().terminal
        assert end.code == "files_invalid"
        assert "could not be fetched" in end.message


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"url": "file:///etc/passwd"}, "http://"),
        ({"url": "ftp://x/y"}, "http://"),
        ({"data": "%%%"}, "base64"),
        ({"data": "data:image/png,%00%01"}, "neither an image"),
        ({"data": b64(b"\x7fELF" + bytes(9))}, "neither an image"),
        ({"text": "a", "data": "b"}, "one of url, data, text and file"),
        ({"data": b64(b"plain words"), "media_type": "application/pdf"}, "bytes are text"),
    ],
)
def test_an_entry_of_a_request_that_is_none(agents: Agents, entry: dict[str, t.Any], words: str) -> None:
    live = agents.start(SEES, {"message": "hi", "files": [entry]})
    end = live.end().terminal
    assert (end.code, end.block) == ("files_invalid", "agent_1")
    assert words in end.message
    assert "files[0]" in end.message


def test_an_uploaded_file_reaches_the_model_of_its_uploader(agents: Agents) -> None:
    kept = agents.services.store.files.put("key_1", "a.png", "image/png", PNG, None, 10_000)
    given = {"message": "What is it?", "files": [{"file": kept.id}]}
    live = agents.start(SEES, given, prompt="{{ input.message }}", key_id="key_1")
    answer(chat)(live.call())
    image, text = sent(live.end())
    assert image["image_url"]["url"] == f"data:image/png;base64,{b64(PNG)}"
    assert text["text"] == "What is it?"
    for other in ("key_2", None):
        end = agents.start(SEES, given, prompt="{{ input.message }}", key_id=other).end().terminal
        assert end.code == "files_invalid"
        assert "not there for who started this run" in end.message


def test_too_many(agents: Agents) -> None:
    live = agents.start(SEES, {"message": "hi", "files": [{"text": "a"}] * 16})
    end = live.end().terminal
    assert (end.code, "at most 15" in end.message) == ("files_invalid", True)


def test_too_much_together(agents: Agents, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.agents.files.MAX_BYTES", 100)
    live = agents.start(SEES, {"message": "hi", "files": [{"text": "a" * 60}, {"text": "b" * 60}]})
    end = live.end().terminal
    assert (end.code, "files[1]" in end.message) == ("files_invalid", True)


# -- what models take ---------------------------------------------------------------------------


def test_a_kind_the_model_does_not_take_is_named_with_those_it_takes(agents: Agents) -> None:
    live = agents.start("plain/one", {"message": "hi", "files": [{"data": b64(PNG)}, {"data": b64(PDF)}]})
    end = live.end().terminal
    assert (end.code, end.block) == ("files_not_supported", "agent_1")
    assert end.message.startswith("plain/one takes no image and no pdf files; it takes: text.")


def test_a_fallback_that_does_not_take_it_is_passed_over(agents: Agents) -> None:
    live = agents.start(
        SEES, {"message": "hi", "files": [{"data": b64(PNG)}]}, fallbacks=["plain/one", CLAUDE], retries=0
    )
    live.call().answer(401, b"{}")
    answer(claude)(live.call())
    assert live.end().output["content"] == "I see."


@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        ({"data": b64(PNG)}, "image"),
        (f"data:;base64,{b64(PDF)}", "pdf"),
        ({"url": "https://x/y", "media_type": "image/png"}, "image"),
        ({"data": "{{ input.x }}", "media_type": "application/pdf; x=1"}, "pdf"),
        ({"url": "https://x/y.png"}, None),
        ({"text": "words"}, None),
        ("{{ input.file }}", None),
    ],
)
def test_what_is_known_before_a_run_is_refused_before_a_run(entry: t.Any, kind: str | None) -> None:
    check = checker({"plain": PLAIN, "sees": PRICED}.__getitem__)
    found = check(AgentConfig(model="plain", files=[entry]))
    if kind is None:
        assert found == []
    else:
        assert found == [
            (
                "files[0]",
                f"plain takes no {kind} files; it takes: text. "
                "Leave them out or choose a model that takes them.",
            )
        ]
    assert check(AgentConfig(model="sees", files=[entry])) == []
    fallback = check(AgentConfig(model="sees", fallbacks=["plain"], files=[entry]))
    assert [path for path, _ in fallback] == ([] if kind is None else ["fallbacks[0]"])


@pytest.mark.parametrize(
    ("data", "stated", "kind", "media_type"),
    [
        (b"\n\n" + PDF, "", "pdf", "application/pdf"),
        (b"a,b\n1,2\n", "text/csv", "text", "text/csv"),
        (b'{"a": 1}', "application/json; charset=utf-8", "text", "application/json; charset=utf-8"),
        (b"words", "application/octet-stream", "text", "text/plain"),
        ("\ufeffwords".encode(), "", "text", "text/plain"),
        ("Grüße".encode("utf-16"), "", "text", "text/plain"),
    ],
)
def test_what_a_file_is_its_bytes_say(data: bytes, stated: str, kind: str, media_type: str) -> None:
    found = sniff(data, stated)
    assert found[:2] == (kind, media_type)
    if kind == "text":
        assert not found[2].startswith(b"\xef\xbb\xbf")
        found[2].decode()


@pytest.mark.parametrize(
    "data", [b"", b"MZ\x90\x00\x03", b"PK\x03\x04\x14\x00", b"\xff\xfe\x00", b"RIFF1234WAVE\0"]
)
def test_what_is_none_of_the_kinds_is_refused(data: bytes) -> None:
    with pytest.raises(FileRefused):
        sniff(data)
