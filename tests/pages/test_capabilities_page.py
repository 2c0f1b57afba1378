"""The page without a browser: what an address gives, who may be fooled, what it costs."""

from __future__ import annotations

import gzip
import html
import re
import typing as t
from collections.abc import Iterator, Sequence

import pytest

from app import config, create_app
from app.web.capability_query import CHOICES, SORTS, Query, parse, select
from app.web.capability_words import DIRECTIONS, FILTER_LABELS, HEADS, LABELS, cells, short
from plugins.capabilities import COLUMNS, rows
from plugins.hookspecs import hookimpl
from plugins.registry import Registry
from plugins.spec import Capabilities, ConnectionSpec, ProviderFamily
from providers.auth import NoAuth
from tests.support import databases

EVIL = "<script>alert(1)</script>\"'&"


class Many:
    """A family of many models, one of which would like to be more than text."""

    plugin_name = "many"

    @hookimpl
    def provider_families(self) -> Sequence[ProviderFamily]:
        return [
            ProviderFamily(
                id="many",
                title=f"Many {EVIL}",
                wire="openai_chat",
                auth=NoAuth(),
                connection=ConnectionSpec(default_base="http://127.0.0.1:9", key_required=False),
                capabilities=lambda model, row: Capabilities(
                    thinking="full",
                    notes=f"Note {EVIL}",
                    source=f"page {EVIL}",
                    context_window=int(model[1:]) if model[1:].isdigit() else None,
                ),
                known=(*(f"m{number}" for number in range(250)), EVIL),
            )
        ]


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[t.Any]:
    settings = config.load(
        {"STUDIO_DATA_DIR": str(tmp_path_factory.mktemp("data")), "STUDIO_LIST_MODELS": "off"}
    )
    databases.ready(settings)
    app = create_app(settings)
    services = app.extensions["studio"]
    services.plugins.manager.register(Many())
    services.plugins.families.update(Registry(services.plugins.manager).families)
    services.plugins._given._owners["provider_families"]["many"] = "many"
    try:
        yield app
    finally:
        services.runs.close()
        services.threads.close()
        services.store.close()


@pytest.fixture
def get(application: t.Any) -> t.Callable[..., t.Any]:
    client = application.test_client()

    def ask(query: str = "", path: str = "/capabilities", **headers: str) -> t.Any:
        return client.get(path + query, headers=headers)

    return ask


def models(page: str) -> list[str]:
    found = re.findall(r'class="model"><code>(.*?)</code>', page)
    return [html.unescape(name.replace("<wbr>", "")) for name in found]


@pytest.fixture
def table(application: t.Any) -> list[dict[str, t.Any]]:
    return rows(application.extensions["studio"].plugins, environ=None)


def test_the_page_is_whole_and_keeps_to_itself(get: t.Any) -> None:
    answer = get()
    assert (answer.status_code, answer.content_type) == (200, "text/html; charset=utf-8")
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    page = answer.get_data(as_text=True)
    assert not re.search(r"<script(?![^>]* src=)|<style|\son\w+=|\sstyle=|javascript:", page)
    files = re.findall(r'(?:src|href)="(static/[^"]+)"', page)
    assert len(files) == 4
    for file in files:
        got = get(path=f"/{file}")
        assert got.status_code == 200
        assert "immutable" in got.headers["Cache-Control"]
        assert get(path=f"/{file}", **{"If-None-Match": got.headers["ETag"]}).status_code == 304
    for file in files:
        assert not re.search(r"https?:|@import|url\(|\bimport\b", get(path=f"/{file}").get_data(as_text=True))


def test_text_is_text_wherever_it_comes_from(get: t.Any) -> None:
    for query in ("?family=many", f"?q={EVIL}", f"?family={EVIL}&sort={EVIL}&page={EVIL}"):
        page = get(query).get_data(as_text=True)
        assert "<script>alert" not in page
    assert f"many/{EVIL}" in models(get("?family=many&page=3").get_data(as_text=True))


def test_an_address_is_a_view(get: t.Any, table: list[dict[str, t.Any]]) -> None:
    page = get("?family=anthropic&sort=-price&q=opus").get_data(as_text=True)
    wanted = [row for row in table if row["family"] == "anthropic" and "opus" in row["id"]]
    assert models(page) == [row["id"] for row in sorted(wanted, key=lambda row: -row["price"]["input"])]
    assert 'value="opus"' in page
    assert '<option value="anthropic" selected>' in page
    assert 'class="price" aria-sort="descending"' in page
    none = get("?q=nonesuch").get_data(as_text=True)
    assert "No model is like that." in none
    assert '<a href="capabilities" data-live="all">Show all models</a>' in none


def test_a_long_table_comes_in_pages(get: t.Any) -> None:
    seen: list[str] = []
    query: str | None = "?family=many"
    while query is not None:
        page = get(query).get_data(as_text=True)
        seen += models(page)
        found = re.search(r'<a href="([^"]+)" rel="next"', page)
        query = html.unescape(found[1]) if found else None
    assert len(seen) == len(set(seen)) == 251
    assert "251 models" not in page
    assert "Models 201 to 251 of 251" in page
    assert models(get("?family=many&page=999").get_data(as_text=True)) == models(page)


@pytest.mark.parametrize("name", ["thinking", "tools", "structured", "input", "family", "sort"])
def test_what_means_nothing_is_said_and_left_out(get: t.Any, name: str) -> None:
    answer = get(f"?{name}=nonesuch&q=opus")
    assert answer.status_code == 200
    page = answer.get_data(as_text=True)
    assert f"There is no {name} “nonesuch”" in page
    assert all("opus" in model for model in models(page))


def test_every_filter_keeps_exactly_its_rows(table: list[dict[str, t.Any]]) -> None:
    for name, values in CHOICES.items():
        column = {"structured": "structuredOutput", "input": "inputs"}.get(name, name)
        for value in values:
            found = select(table, Query(**{name: value}))
            held = [
                row for row in table if value == row[column] or (name == "input" and value in row[column])
            ]
            assert found == held


@pytest.mark.parametrize("sort", [*SORTS, *(f"-{name}" for name in SORTS)])
def test_what_is_not_known_is_last_either_way(table: list[dict[str, t.Any]], sort: str) -> None:
    key = SORTS[sort.removeprefix("-")]
    found = [key(row) for row in select(table, Query(sort=sort))]
    known = [value for value in found if value is not None]
    assert found == known + [None] * (len(found) - len(known))
    assert known == sorted(known, reverse=sort.startswith("-"))
    assert len(found) == len(table)


def test_every_word_of_a_search_has_to_be_there() -> None:
    query, problems = parse({"q": "  CLAUDE   opus "}, ())
    assert (query.q, problems) == ("CLAUDE opus", [])
    row = {"id": "a/claude-opus", "title": "A", "notes": ""}
    assert select([row], query) == [row]
    assert select([row], Query(q="claude sonnet")) == []


@pytest.mark.parametrize(
    ("given", "page"),
    [
        ("2", 2),
        ("0", 1),
        ("-1", 1),
        ("x", 1),
        ("123456789x", 1),
        ("9" * 400, 10_000),
        ("9" * 5_000, 10_000),
        ("٣", 1),
        ("", 1),
        ("1e3", 1),
    ],
)
def test_a_page_is_a_number(given: str, page: int) -> None:
    assert parse({"page": given}, ())[0].page == page


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (None, "–"),
        (512, "512"),
        (4_096, "4.1K"),
        (131_072, "131K"),
        (200_000, "200K"),
        (999_999, "1M"),
        (1_048_576, "1.05M"),
    ],
)
def test_figures_are_short(tokens: int | None, text: str) -> None:
    assert short(tokens) == text


def test_every_field_has_words_and_a_place_on_the_page(get: t.Any, table: list[dict[str, t.Any]]) -> None:
    assert list(LABELS) == list(COLUMNS.values())
    assert {name for name, _ in HEADS} - {"notes"} == set(SORTS)
    assert {value.removeprefix("-") for value, _ in DIRECTIONS} == {"", *SORTS}
    assert set(FILTER_LABELS) == set(CHOICES)
    row = next(row for row in table if row["id"] == "anthropic/claude-sonnet-4-5")
    page = html.unescape(get("?q=anthropic/claude-sonnet-4-5").get_data(as_text=True))
    drawn = cells(row)
    for label, text in (*drawn["details"], *drawn["sources"]):
        assert label in page
        assert text in page
    for value in (row["notes"], row["source"], row["thinking"], row["tools"], row["structuredOutput"]):
        assert value in page
    for value in (*row["thinkingControl"], *row["inputs"], drawn["price"], drawn["context"], drawn["output"]):
        assert value in page


def test_the_api_is_kept_encoded_and_a_caller_who_has_it_gets_no_more(get: t.Any, application: t.Any) -> None:
    first = get(path="/api/capabilities")
    tag = first.headers["ETag"]
    again = get(path="/api/capabilities", **{"If-None-Match": tag})
    assert (again.status_code, again.get_data()) == (304, b"")
    packed = get(path="/api/capabilities", **{"Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert packed.headers["Vary"] == "Accept-Encoding"
    assert gzip.decompress(packed.get_data()) == first.get_data()
    kept = application.extensions["studio.capabilities"].current()
    assert application.extensions["studio.capabilities"].current() is kept
    application.extensions["studio"].plugins.listings.generation += 1
    assert application.extensions["studio.capabilities"].current() is not kept


def test_a_model_of_no_family_is_refused_by_the_api(get: t.Any) -> None:
    for query in ("?family=nope", "?model=nope/x"):
        seen = get(query, "/api/capabilities")
        assert seen.status_code == 400
        assert "no family 'nope'; there are" in seen.get_json()["error"]["message"]


def test_a_file_that_is_not_there_is_a_404(get: t.Any) -> None:
    for name in ("nonesuch.css", "..%2F..%2Fsetup.cfg", "%2e%2e"):
        assert get(path=f"/static/{name}").status_code == 404


def test_families_are_summed_up(get: t.Any) -> None:
    body = get(path="/api/capabilities").get_json()
    summary = {row["id"]: row for row in body["families"]}
    assert summary["many"]["models"] == 251
    assert summary["many"]["thinking"] == ["full"]
    assert summary["anthropic"]["wires"] == ["anthropic_messages"]
    assert {row["family"] for row in body["items"]} == set(summary)
    one = get("?family=anthropic", path="/api/capabilities").get_json()
    assert [row["id"] for row in one["families"]] == ["anthropic"]
