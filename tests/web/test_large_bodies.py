"""Large bodies are what they are however they are taken apart, and others go on while that is done."""

from __future__ import annotations

import base64
import hmac
import io
import json
import re
import typing as t

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.engine import giving_way
from app.web import bodies
from app.workflows import file_entries
from app.workflows.file_entries import Entry, FileRefused, content_of, sniff
from tests.web.test_chat import chat  # noqa: F401  # a fixture
from tests.web.test_files import upload

if t.TYPE_CHECKING:
    from tests.web.conftest import Studio

MIB = 1024 * 1024


class Turns:
    """What stands for ``gevent`` where work gives way: it counts how often."""

    def __init__(self) -> None:
        self.count = 0

    def sleep(self, _: float) -> None:
        self.count += 1


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    """Work gives way at each of its steps, and each is counted."""
    counted = Turns()
    monkeypatch.setattr(giving_way, "_LONG_S", -1.0)
    monkeypatch.setattr(giving_way, "gevent", counted)
    return counted


@pytest.mark.parametrize(
    "data", [b"\x89PNG\r\n\x1a\n" + bytes(4 * MIB), ("Größe!" * (MIB // 3)).encode("utf-16")]
)
def test_others_go_on_while_a_message_with_files_is_taken_in(
    turns: Turns,
    chat: t.Any,  # noqa: F811
    data: bytes,
) -> None:
    files = [{"name": name, "data": base64.b64encode(data).decode()} for name in ("a", "b")]
    visitor = chat()
    before = turns.count
    assert visitor.say(files=files).status_code == 200
    size = sum(len(file["data"]) for file in files)
    assert turns.count - before > 2 * size // MIB - 4  # once as it comes, and once from base64


def test_others_go_on_while_a_body_is_compared_with_that_of_a_key(turns: Turns) -> None:
    data = b"a" * (5 * MIB + 1)
    assert bodies.digest_of(b"key", data) == hmac.digest(b"key", data, "sha256")
    assert turns.count == 6


def test_others_go_on_while_a_file_is_taken_in(turns: Turns, studio: Studio) -> None:
    before = turns.count
    assert upload(studio, b"a" * (6 * MIB)).status_code == 201
    assert turns.count - before >= 12


@given(data=st.binary(max_size=60), cut=st.integers(1, 5), spaces=st.lists(st.integers(0, 90), max_size=9))
def test_base64_is_read_in_pieces_as_it_is_in_one(data: bytes, cut: int, spaces: list[int]) -> None:
    text = base64.b64encode(data).decode()
    for place in spaces:
        text = f"{text[:place]}\n {text[place:]}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_entries, "_PIECE", cut)
        assert content_of(Entry(data=text))[0] == data


@given(text=st.text(alphabet="aQ9=+/ \n!é", max_size=30), cut=st.integers(1, 5))
@example(text="YQ==YQ==", cut=4)
@example(text="YQ= =", cut=2)
def test_what_is_no_base64_is_refused_however_it_is_cut(text: str, cut: int) -> None:
    try:
        found: bytes | None = base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        found = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_entries, "_PIECE", cut)
        if found is None:
            with pytest.raises(FileRefused):
                content_of(Entry(data=text))
        else:
            assert content_of(Entry(data=text))[0] == found


TEXTS = st.text(max_size=20) | st.text(alphabet="é😀\0\ufeffa", max_size=9)


@given(
    data=st.sampled_from(("utf-8", "utf-8-sig", "utf-16", "latin-1")).flatmap(
        lambda how: TEXTS.map(lambda text: text.encode(how, "replace"))
    )
    | st.binary(max_size=9),
    cut=st.integers(1, 4),
)
def test_text_is_read_in_pieces_as_it_is_in_one(data: bytes, cut: int) -> None:
    wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    try:
        text: str | None = data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError:
        text = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_entries, "_PIECE", cut)
        if not data or text is None or "\0" in text:
            with pytest.raises(FileRefused):
                sniff(data)
        else:
            assert sniff(data) == ("text", "text/plain", text.encode())


JSON = st.recursive(
    st.none() | st.integers() | st.text(alphabet='a"\\[{:,é', max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)


@given(value=JSON, piece=st.integers(1, 40))
def test_what_a_large_body_has_is_counted_outside_of_its_strings(value: t.Any, piece: int) -> None:
    data = json.dumps(value).encode()
    strings = re.compile(rb'"(?:[^"\\]|\\.)*"')
    count = len(strings.findall(data)) + len(re.findall(rb"[\[{:,]", strings.sub(b"", data)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bodies, "PIECE", piece)
        patch.setattr(bodies, "_ESCAPED", piece)
        assert bodies.has_more(data, count - 1)
        assert not bodies.has_more(data, count)


@pytest.mark.parametrize("item", ['""', "1", '"[\\""', '{"a":1}', "[]"])
def test_a_large_message_of_many_values_is_refused_before_it_is_read(chat: t.Any, item: str) -> None:  # noqa: F811
    body = '{"input": [' + ",".join([item] * (11 * MIB // (len(item) + 1))) + "]}"
    answer = chat().client.post("/api/chat/help", data=body, content_type="application/json")
    assert answer.status_code == 413
    assert answer.get_json()["error"]["code"] == "payload_too_large"


def test_a_large_string_that_does_not_end_is_no_json(chat: t.Any) -> None:  # noqa: F811
    body = '{"input": "' + '\\"' * (6 * MIB)
    answer = chat().client.post("/api/chat/help", data=body, content_type="application/json")
    assert answer.get_json()["error"]["code"] == "invalid_json"


def test_a_stream_is_taken_in_whole() -> None:
    assert bodies.taken_in(io.BytesIO(b"")) == b""
    assert bodies.taken_in(io.BytesIO(b"a" * (2 * MIB) + b"b")) == b"a" * (2 * MIB) + b"b"
