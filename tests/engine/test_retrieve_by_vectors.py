"""The retrieve block by vectors: what is found, what is made on demand and counted, and every way it is refused."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import gevent.event
import pytest
import yaml

from app import events as ev
from app.agents import vector_search
from app.engine.catalog import Catalog
from app.engine.services import Services
from app.errors import ApiError
from app.store.documents import Draft
from app.web.catalog import check_ready
from plugins.spec import Embeddings
from providers.http_connection import POOL
from tests.engine.flows import document, ended, problems, stopped, stored
from tests.engine.switches import cancelled_at
from tests.providers.raw_server import Peer, raw_server
from tests.support.engine import Recorder, services, start
from tests.support.shared import ROOT

SCRIPTED = "scripted/bag-of-words"
SMALL = "openai/text-embedding-3-small"
PAGES = {
    "returns.md": "A parcel that arrived damaged can be returned within thirty days.",
    "hours.md": "Our offices are closed on public holidays.",
    "prices.md": "Shipping a heavy parcel abroad costs twelve euros.",
}


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Services]:
    with services(tmp_path) as opened:
        for source, text in PAGES.items():
            opened.store.documents.put("help", Draft(source, text))
        yield opened


def flow(**config: t.Any) -> dict[str, t.Any]:
    """A search of the collection ``help``."""
    given = {"collection": "help", "mode": "embedding", **config}
    return document([("find", "retrieve", given)], "start > find")


def found(made: Services, query: str = "Can I return damaged parcels?", **config: t.Any) -> list[str]:
    """The sources that a run finds, best first."""
    end, _ = ended(made, flow(**config), {"message": query})
    assert isinstance(end, ev.RunCompleted), end
    return [result["source"] for result in end.output["results"]]


def failed(made: Services, **config: t.Any) -> ev.RunFailed:
    """How a run fails."""
    end, _ = ended(made, flow(**config), {"message": "parcels"})
    assert isinstance(end, ev.RunFailed)
    return end


class Vendor:
    """OpenAI's embeddings by a rule: the first number is how often the text says "parcel"."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.asked: list[list[str]] = []
        self.answer: Callable[[list[str]], bytes | None] = self.good

    def good(self, texts: list[str]) -> bytes:
        vectors = [[float(text.count("parcel")), 1.0] for text in texts]
        data = [{"index": n, "embedding": vector} for n, vector in enumerate(vectors)]
        return _reply({"data": data, "usage": {"prompt_tokens": 1_000 * len(texts)}})


def _reply(value: t.Any, status: str = "200 OK", headers: str = "") -> bytes:
    body = json.dumps(value).encode()
    return f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body


@pytest.fixture
def vendor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Vendor]:
    with _serving() as serving:
        monkeypatch.setenv("OPENAI_API_KEY", "key-1")
        monkeypatch.setenv("OPENAI_API_BASE", f"http://{serving.address}/v1")
        yield serving
        POOL.close()


@contextmanager
def _serving() -> Iterator[Vendor]:
    known: list[Vendor] = []

    def handle(peer: Peer) -> None:
        while request := peer.request():
            texts = json.loads(request.partition(b"\r\n\r\n")[2])["input"]
            known[0].asked.append(texts)
            answer = known[0].answer(texts)
            if answer is None:
                peer.gone()
                return
            peer.send(answer)

    with raw_server(handle) as address:
        known.append(Vendor(address))
        yield known[0]


def test_the_nearest_by_counted_words(made: Services) -> None:
    assert found(made, embedding_model=SCRIPTED)[0] == "returns.md"
    assert found(made, "public holidays at the office")[0] == "hours.md"
    assert len(found(made, top_k=2)) == 2
    assert found(made, "damaged", min_score=0.3) == ["returns.md"]


def test_missing_vectors_are_made_once_and_what_they_used_is_counted(made: Services, vendor: Vendor) -> None:
    run, recorder = start(made, flow(embedding_model=SMALL), {"message": "parcel"})
    assert run.done.wait(20)
    assert [len(texts) for texts in vendor.asked] == [3, 1]
    assert [(e.model, e.tokens) for e in recorder.of(ev.UsageReported)] == [
        (SMALL, {"input": 3_000, "total": 3_000}), (SMALL, {"input": 1_000, "total": 1_000}),
    ]  # fmt: skip
    row = made.store.runs.get(run.id)
    assert row is not None
    assert row["usage"]["tokens"] == {"input": 4_000, "total": 4_000}
    assert row["usage"]["cost"]["total"] == pytest.approx(4_000 * 0.02 / 1e6)
    assert set(row["usage"]["byModel"]) == {SMALL}
    assert made.store.documents.vectors.model("help") == SMALL
    vendor.asked.clear()
    assert found(made, "parcel")[:2] in (["returns.md", "prices.md"], ["prices.md", "returns.md"])
    assert vendor.asked == [["parcel"]]
    made.store.documents.put("help", Draft("new.md", "parcel parcel parcel"))
    vendor.asked.clear()
    assert found(made, "parcel parcel parcel")[0] == "new.md"
    assert vendor.asked == [["parcel parcel parcel"], ["parcel parcel parcel"]]


def test_of_many_runs_at_once_one_makes_what_is_missing(made: Services, vendor: Vendor) -> None:
    runs = [start(made, flow(embedding_model=SMALL), {"message": "parcel"}) for _ in range(5)]
    assert all(run.done.wait(20) for run, _ in runs)
    assert all(isinstance(recorder.envelopes[-1].event, ev.RunCompleted) for _, recorder in runs)
    assert sorted(len(texts) for texts in vendor.asked) == [1, 1, 1, 1, 1, 3]


def test_a_vendor_that_counts_nothing_is_counted_for(made: Services, vendor: Vendor) -> None:
    vendor.answer = lambda texts: _reply({"data": [{"embedding": [1.0]} for _ in texts]})
    _, recorder = ended(made, flow(embedding_model=SMALL), {"message": "four"})
    last = recorder.of(ev.UsageReported)[-1]
    assert (last.tokens, last.estimated) == ({"input": 1, "total": 1}, True)


@pytest.mark.parametrize("query", ["", "  \n"])
def test_an_empty_query_finds_nothing_and_asks_nobody(made: Services, vendor: Vendor, query: str) -> None:
    assert found(made, query, embedding_model=SMALL) == []
    assert vendor.asked == []


def test_the_example_finds_what_it_asks_for(made: Services) -> None:
    for file in sorted((ROOT / "examples" / "documents").iterdir()):
        made.store.documents.put("handbook", Draft(file.name, file.read_text()))
    made.store.documents.vectors.choose("handbook", SCRIPTED, 1)
    doc = yaml.safe_load((ROOT / "examples" / "retrieve_vectors.yaml").read_text())
    end, _ = ended(made, doc, {"message": "How many holidays do I have?"})
    assert isinstance(end, ev.RunCompleted)
    first = end.output["citations"][0]
    assert first["source"] == "leave.md"
    assert "[1] leave.md\n" in end.output["content"]


class TestFailures:
    def test_what_may_be_over_soon_is_tried_again(self, made: Services, vendor: Vendor) -> None:
        def busy_once(texts: list[str]) -> bytes:
            vendor.answer = vendor.good
            return _reply({"error": {}}, "429 Too Many Requests", "Retry-After: 0\r\n")

        vendor.answer = busy_once
        run, recorder = start(made, flow(embedding_model=SMALL), {"message": "parcel"})
        assert run.done.wait(20)
        assert isinstance(recorder.envelopes[-1].event, ev.RunCompleted)
        (failure,) = recorder.of(ev.ModelCallFailed)
        assert (failure.model, failure.code, failure.attempt, failure.status) == (
            SMALL,
            "provider_rate_limited",
            1,
            429,
        )

    def test_what_will_not_be_over_fails_the_block_with_its_code(
        self, made: Services, vendor: Vendor
    ) -> None:
        vendor.answer = lambda texts: _reply({"error": {"message": "bad key-1"}}, "401 Unauthorized")
        end = failed(made, embedding_model=SMALL)
        assert end.code == "provider_auth"
        assert "key-1" not in end.message
        assert len(vendor.asked) == 1

    def test_what_was_made_before_a_failure_stays(
        self, made: Services, vendor: Vendor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(vector_search, "BATCH", 1)
        family = made.plugins.families["openai"]
        one = replace(t.cast(Embeddings, family.embeddings), batch=1)
        monkeypatch.setitem(made.plugins.families, "openai", replace(family, embeddings=one))

        def second_is_refused(texts: list[str]) -> bytes:
            if len(vendor.asked) == 2:
                return _reply({"error": {}}, "400 Bad Request")
            return vendor.good(texts)

        vendor.answer = second_is_refused
        assert failed(made, embedding_model=SMALL).code == "provider_bad_request"
        vendor.asked.clear()
        vendor.answer = vendor.good
        found(made, "parcel")
        assert len(vendor.asked) == 3  # two passages and the query

    def test_another_length_than_before_is_told(self, made: Services, vendor: Vendor) -> None:
        found(made, embedding_model=SMALL)
        vendor.answer = lambda texts: _reply({"data": [{"embedding": [1.0, 2.0, 3.0]} for _ in texts]})
        end = failed(made)
        assert end.code == "embeddings_differ"
        assert "studio documents embed --again help" in end.message

    def test_too_much_to_make_while_somebody_waits(
        self, made: Services, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(vector_search, "MOST_ON_DEMAND", 2)
        end = failed(made, embedding_model=SCRIPTED)
        assert end.code == "embeddings_missing"
        assert f"studio documents embed help {SCRIPTED}" in end.message

    def test_no_model_and_another_model(self, made: Services) -> None:
        end = failed(made)
        assert end.code == "embedding_model_missing"
        assert "studio documents embed help" in end.message
        made.store.documents.vectors.choose("help", SMALL, 1)
        end = failed(made, embedding_model=SCRIPTED, collection="{{ 'help' }}")
        assert end.code == "embedding_model_differs"
        assert SMALL in end.message

    def test_an_unknown_collection(self, made: Services) -> None:
        assert failed(made, collection="hlep", embedding_model=SCRIPTED).code == "collection_unknown"

    @pytest.mark.leak_check
    def test_a_stop_lets_the_next_run_make_what_is_missing(self, made: Services, vendor: Vendor) -> None:
        asked = gevent.event.Event()

        def silent(texts: list[str]) -> None:
            vendor.answer = vendor.good
            asked.set()

        vendor.answer = silent
        first, recorder = start(made, flow(embedding_model=SMALL), {"message": "parcel"})
        assert asked.wait(10)
        second, behind = start(made, flow(embedding_model=SMALL), {"message": "parcel"})
        third, gone = start(made, flow(embedding_model=SMALL), {"message": "parcel"})
        gevent.sleep(0.05)  # most likely they wait by now; whether they do changes nothing
        stopped(third, gone)
        stopped(first, recorder)
        assert second.done.wait(20)
        assert isinstance(behind.envelopes[-1].event, ev.RunCompleted)
        assert [len(texts) for texts in vendor.asked] == [3, 3, 1]

    @pytest.mark.leak_check
    def test_a_stop_closes_the_upstream(self, made: Services, vendor: Vendor) -> None:
        asked = gevent.event.Event()

        def silent(texts: list[str]) -> None:
            asked.set()

        vendor.answer = silent
        run, recorder = start(made, flow(embedding_model=SMALL), {"message": "parcel"})
        assert asked.wait(10)
        stopped(run, recorder)
        assert stored(made, run)["find"]["status"] == "failed"
        assert recorder.of(ev.UsageReported) == []


def _cancelled_at(made: Services, point: int) -> tuple[Recorder, int]:
    """A run that makes all vectors and is cancelled at a switch point; also how many there were."""
    vectors = made.store.documents.vectors
    vectors.forget(made.store.documents.collection_id("help"), SMALL)
    _, recorder, count = cancelled_at(
        lambda: start(made, flow(embedding_model=SMALL), {"message": "parcel"}), {point: "stop_requested"}
    )
    return recorder, count


@pytest.mark.leak_check
def test_cancel_at_every_switch_point(made: Services, vendor: Vendor) -> None:
    _cancelled_at(made, 0)  # imports and caches warm
    number = made.store.documents.collection_id("help")
    endings = set()
    point = 1
    while "RunCompleted" not in endings or point < 10:  # past the last point the run ends by itself
        recorder, count = _cancelled_at(made, point)
        (terminal,) = recorder.of(ev.Terminal)
        assert recorder.envelopes[-1].event is terminal
        assert len(made.store.documents.vectors.missing(number, SMALL)) in (0, 3)
        if point < count:
            endings.add(type(terminal).__name__)
        point += 1
        assert point < 1_000
    assert "RunCancelled" in endings
    assert found(made, "parcel parcel")[0] in ("returns.md", "prices.md")


class TestBeforeARun:
    @pytest.mark.parametrize(
        ("config", "path", "says"),
        [
            ({"embedding_model": "anthropic/claude-sonnet-5"}, "embedding_model", "makes no embeddings"),
            ({"embedding_model": "scripted/echo"}, "embedding_model", "scripted/bag-of-words"),
            ({"embedding_model": "nope/x"}, "embedding_model", "unknown family"),
            ({"mode": "text", "embedding_model": SCRIPTED}, "embedding_model", "mode embedding"),
            ({"model": SCRIPTED}, "model", ""),
        ],
    )
    def test_documents(self, made: Services, config: dict[str, t.Any], path: str, says: str) -> None:
        wrong = problems(made, flow(**config))
        assert list(wrong) == [f"blocks[1].config.{path}"]
        assert says in wrong[f"blocks[1].config.{path}"]

    def ready(self, made: Services, public: bool = False, **config: t.Any) -> ApiError:
        """Why a run is not accepted."""
        runnable = Catalog(made).of("wf_1", flow(**config))
        with pytest.raises(ApiError) as caught:
            check_ready(runnable, made, public)
        return caught.value

    def test_a_missing_key_is_found(self, made: Services, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        error = self.ready(made, embedding_model=SMALL)
        assert (error.status, error.code) == (400, "provider_not_configured")
        assert "OPENAI_API_KEY" in error.message
        assert error.details[0].path == "blocks[1].config.embedding_model"
        error = self.ready(made, public=True, embedding_model=SMALL)
        assert (error.status, "OPENAI" in error.message) == (503, False)

    def test_that_of_the_collections_own_model_too(
        self, made: Services, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        made.store.documents.vectors.choose("help", SMALL, 1)
        error = self.ready(made)
        assert (error.code, error.details[0].path) == (
            "provider_not_configured",
            "blocks[1].config.collection",
        )

    def test_another_model_than_the_collections(self, made: Services) -> None:
        made.store.documents.vectors.choose("help", SMALL, 1)
        error = self.ready(made, embedding_model=SCRIPTED)
        assert (error.status, error.code) == (400, "validation_failed")
        assert f"studio documents embed help {SCRIPTED}" in error.details[0].message

    def test_what_is_ready(self, made: Services) -> None:
        check_ready(Catalog(made).of("wf_1", flow(embedding_model=SCRIPTED)), made, False)
        check_ready(Catalog(made).of("wf_1", flow(collection="{{ input.where }}")), made, False)
