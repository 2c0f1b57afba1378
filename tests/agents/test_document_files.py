"""Files as text: what they say, their title, and what is no text."""

from __future__ import annotations

import codecs
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.agents import document_files
from app.agents.document_files import MAX_TEXT, TooLong, Unreadable, media_type, read


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.TXT", "text/plain"), ("b/c.md", "text/markdown"), ("x.htm", "text/html"), ("y.py", "text/plain")],
)
def test_a_name_says_the_kind(name: str, kind: str) -> None:
    assert media_type(name) == kind


def test_text_stays_as_it_is() -> None:
    assert read("a\r\n\0 b\ud800".encode("utf-8", "replace"), "text/plain") == (
        "a\r\n\0 b?",
        None,
        "text/plain",
    )
    assert read("  # not a title\n", "text/csv; charset=utf-8").text == "  # not a title\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_byte_order_marks_are_no_text(encoding: str) -> None:
    assert read("Ünï".encode(encoding), "text/plain").text == "Ünï"


def test_markdown_has_its_first_heading_as_title() -> None:
    text = "---\na: b\n---\n\n## The *title* ##\n\n# Another\n"
    assert read(text, "text/markdown") == (text, "The *title*", "text/markdown")


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("# C#", "C#"),
        ("# C# ##  ", "C#"),
        ("#\tF \t#", "F"),
        ("# ##", None),
        ("# #", None),
        ("#  ", None),
        ("#no", None),
        ("####### seven", None),
        ("x\r\n## Windows\r\ny", "Windows"),
        ("x\r# Old Mac\ry", "Old Mac"),
        ("# " + "#" * 9_990 + "x", ("#" * 9_990 + "x")[:200]),
    ],
)
def test_what_closes_a_heading_is_no_part_of_it(line: str, title: str | None) -> None:
    assert read(line, "text/markdown").title == title


def test_json_is_on_many_lines_with_its_letters() -> None:
    text = read(b'{"n":"\\u00fc","l":[1,2]}', "application/json").text
    assert text == '{\n "n": "ü",\n "l": [\n  1,\n  2\n ]\n}'


PAGE = """<!DOCTYPE html><html><head><title> A &amp;
 B </title><style>no { }</style><script>if (a < b) no()</script></head>
<body><h1>One</h1>two <b>th</b>ree
four<p>five<br>six<ul><li>a<li>b</ul><noscript>no</noscript>
<table><tr><td>1<td>2<tr><td>3</table><template>no</template>&lt;end&gt;</body></html>"""


def test_html_is_what_a_reader_sees() -> None:
    text, title, _ = read(PAGE, "text/html")
    assert title == "A & B"
    assert text == "One\n\ntwo three four\n\nfive\nsix\n\na\nb\n\n1 2\n3\n\n<end>"


def test_preformatted_text_keeps_its_lines() -> None:
    page = "<p>a\nb</p><pre>one\r\n  <b>two</b>\n\nthree</pre>c\nd"
    assert read(page, "text/html").text == "a b\n\none\ntwo\n\nthree\n\nc d"


def test_html_that_is_never_closed_is_read_to_its_end() -> None:
    assert read("<body>one<div>two<p>three<script>no", "text/html").text == "one\n\ntwo\n\nthree"
    assert read("<head><meta x><body>one<div>two", "text/html") == ("one\n\ntwo", None, "text/html")


@pytest.mark.parametrize(
    ("data", "kind", "says"),
    [
        (b"%PDF-1.7", "text/plain", "pdftotext"),
        (b"PK\x03\x04", "text/plain", "office document"),
        (b"\x1f\x8b", "text/plain", "Unpack"),
        (b"\xff\xfa", "text/plain", "UTF-8"),
        (codecs.BOM_UTF16_LE + b"a", "text/plain", "UTF-8"),
        (b"{", "application/json", "no JSON"),
        (b"[" * 100_000, "application/json", "no JSON"),
        (b"x", "image/png", "image/png cannot be read"),
        (b"x", "", "no media type"),
        (b"x", "text", "no media type"),
        (b"x", "text/a b", "no media type"),
        (b"x", "text/\0", "no media type"),
        (b"x", "text/plain\nx", "no media type"),
        (b"<div>" * 513, "text/html", "512 elements"),
    ],
)
def test_what_is_no_text_is_refused_with_a_cure(data: bytes, kind: str, says: str) -> None:
    with pytest.raises(Unreadable, match=says):
        read(data, kind)


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    assert read(text, "text/plain").text == text
    for kind in ("text/html", "text/markdown"):
        assert isinstance(read(text, kind).text, str)
    dumped = json.dumps(text)
    assert json.loads(read(dumped, "application/json").text) == text


@pytest.mark.parametrize("piece", ["<!--", "<![CDATA[", "<script>", "<a ", '<a b="', "</", "<p>", "</p>"])
def test_pages_that_are_never_closed_are_read_soon(piece: str) -> None:
    """Not in minutes: the test's own time limit is the bound."""
    assert read("before " + piece * 100_000, "text/html").text.startswith("before")


@pytest.mark.parametrize("piece", ["<div>", "<table><tr><td>", "<i>"])
def test_pages_deeper_than_any_browser_goes_are_refused_soon(piece: str) -> None:
    with pytest.raises(Unreadable, match="512 elements"):
        read(piece * 500_000 + "</b>" * 500_000, "text/html")


def test_elements_inside_one_another_are_counted_and_not_those_in_all() -> None:
    page = ("<div>" * 500 + "x" + "</div>" * 500) * 100
    assert read(page, "text/html").text.split() == ["x"] * 100


def test_a_text_of_most_characters_is_read_and_no_longer_one() -> None:
    assert len(read("a" * MAX_TEXT, "text/plain").text) == MAX_TEXT
    with pytest.raises(TooLong, match="20 million characters"):
        read("a" * (MAX_TEXT + 1), "text/plain")


def test_json_that_would_be_far_longer_on_many_lines_is_refused() -> None:
    bomb = "[" + ",".join("[" * 400 + "]" * 400 for _ in range(400)) + "]"
    assert len(bomb) < MAX_TEXT // 50
    with pytest.raises(TooLong):
        read(bomb, "application/json")


def test_json_of_too_many_parts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_files, "_MOST_PARTS", 3)
    assert read('[{}, "a", []]', "application/json").text == '[\n {},\n "a",\n []\n]'
    with pytest.raises(Unreadable, match="Split it"):
        read("[{}, [], []]", "application/json")
