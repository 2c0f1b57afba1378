"""What the families say of Google's models and of others' on Vertex AI, and where and as whom they are called."""

from __future__ import annotations

import json
import typing as t

import pytest

from plugins import gemini_models, model_map
from plugins.connections import NotConfigured, Variables, connect, dialect_of
from plugins.families import gemini, vertex
from plugins.spec import Capabilities, ProviderFamily
from plugins.wires import load_wire
from providers import spec
from providers.spec import HttpRequest

FAMILIES = (gemini.FAMILY, vertex.FAMILY)
CLOUD = {"VERTEXAI_PROJECT": "p-1", "VERTEX_ACCESS_TOKEN": "tok"}


def connection(family: ProviderFamily, **environ: str) -> spec.Connection:
    return connect(family, Variables(family), environ)


def claimed(family: ProviderFamily, model: str) -> Capabilities:
    return family.capabilities(
        model, model_map.lookup(family.registry_prefix, family.registry_providers, model)
    )


def sent(model: str, **changes: t.Any) -> HttpRequest:
    """The authenticated request of one call on Vertex AI."""
    family = vertex.FAMILY
    to = connection(family, **CLOUD, VERTEXAI_LOCATION="europe-west4")
    asked = spec.ModelRequest(
        model,
        [spec.UserMessage("hi")],
        lambda: "id",
        dialect=dialect_of(family, model, Variables(family), {}),
        **changes,
    )
    assert family.model_wire is not None
    wire: t.Any = load_wire(family.model_wire(model) or family.wire)
    built: HttpRequest = wire.build(asked, to)
    to.auth.apply(built, {**to.options, **to.credentials})
    return built


class TestModels:
    @pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.id)
    def test_all_listed_ones_are_in_the_registry(self, family: ProviderFamily) -> None:
        rows = [model_map.lookup(family.registry_prefix, family.registry_providers, m) for m in family.known]
        assert [model for model, row in zip(family.known, rows, strict=True) if row is None] == []
        assert len(set(family.known)) == len(family.known)

    @pytest.mark.parametrize(
        ("model", "levels"),
        [
            ("gemini-4-hydrogen", ("low", "medium", "high", "xhigh", "auto")),
            ("gemini-4-argon", ("low", "medium", "high", "auto")),
            ("gemini-3.8-flash", ("low", "medium", "high", "auto")),
            ("gemini-3.8-flash-lite-preview", ("minimal", "low", "medium", "high", "auto")),
            ("gemini-flash-latest", ("low", "medium", "high", "auto")),
            ("gemini-3.6-flash", ("minimal", "low", "medium", "high", "auto")),
            ("gemini-3.1-pro-preview", ("low", "medium", "high", "auto")),
            ("gemini-3-pro-preview", ("low", "high", "auto")),
            ("gemini-3-flash-preview", ("minimal", "low", "medium", "high", "auto")),
            ("gemini-2.5-pro", ("minimal", "low", "medium", "high", "auto", "budget")),
            (
                "gemini-2.5-flash-preview-09-2025",
                ("none", "minimal", "low", "medium", "high", "auto", "budget"),
            ),
            ("gemini-ultra-next", ("low", "high", "auto")),
        ],
    )
    def test_what_thinks(self, model: str, levels: tuple[str, ...]) -> None:
        for family in FAMILIES:
            found = claimed(family, model)
            assert (found.thinking, found.thinking_control) == ("summary", levels)
            assert found.thinking_signed is ("budget" not in levels)
            assert found.source

    @pytest.mark.parametrize("model", ["gemini-2.0-flash", "gemma-4-31b-it", "gemma-3-27b-it"])
    def test_what_does_not(self, model: str) -> None:
        found = claimed(gemini.FAMILY, model)
        assert (found.thinking, found.thinking_control) == ("none", ())
        assert gemini_models.gemini_dialect(model)["thinking"] == "never"

    def test_every_claimed_level_is_sent_as_the_vendor_takes_it(self) -> None:
        from providers.gemini_request import build_body

        for model in gemini_models.KNOWN:
            dialect = gemini_models.gemini_dialect(model)
            for level in set(claimed(gemini.FAMILY, model).thinking_control) - {"auto", "budget"}:
                asked = spec.ModelRequest(
                    model, [spec.UserMessage("q")], lambda: "i", thinking=level, dialect=dialect
                )
                config = build_body(asked)["generationConfig"]["thinkingConfig"]
                if dialect["thinking"] == "level":
                    assert config == {"thinkingLevel": level}
                else:
                    least, most = dialect["budget_range"]
                    assert level == "none" or least <= config["thinkingBudget"] <= most

    def test_switches_by_generation(self) -> None:
        of = gemini_models.gemini_dialect
        assert of("gemini-3.5-flash")["sampling"] is True
        assert of("gemini-3.6-flash")["sampling"] is of("gemini-3.5-flash-lite")["sampling"] is False
        assert of("gemini-2.5-flash").get("signed_calls", False) is False
        assert of("gemini-3-flash-preview")["signed_calls"] is True
        assert of("gemini-2.5-flash-lite")["thinks_by_default"] is False
        assert of("gemini-2.5-pro")["schema_with_tools"] is False

    def test_publishers_on_vertex(self) -> None:
        assert claimed(vertex.FAMILY, "claude-sonnet-4-5@20250929").thinking == "summary"
        assert claimed(vertex.FAMILY, "claude-3-7-sonnet-20250219").thinking == "full"
        llama = claimed(vertex.FAMILY, "meta/llama-3.3-70b-instruct-maas")
        assert (llama.thinking, llama.inputs) == ("none", ("text",))
        for model in ("openai/gpt-oss-120b-maas", "moonshotai/kimi-k2-thinking-maas"):
            assert claimed(vertex.FAMILY, model).thinking == "hidden"


class TestGemini:
    def test_key_and_address(self) -> None:
        with pytest.raises(NotConfigured) as caught:
            connection(gemini.FAMILY)
        assert caught.value.variable == "GEMINI_API_KEY"
        to = connection(gemini.FAMILY, GOOGLE_API_KEY="k")
        assert to.base_url == "https://generativelanguage.googleapis.com/v1beta"
        request = HttpRequest("POST", to.base_url, {}, b"")
        to.auth.apply(request, to.credentials)
        assert (request.headers, request.url) == ({"x-goog-api-key": "k"}, to.base_url)
        assert (
            connection(gemini.FAMILY, GEMINI_API_KEY="k", GEMINI_API_BASE="http://h/v1").base_url
            == "http://h/v1"
        )
        assert (
            connection(gemini.FAMILY, GEMINI_API_KEY="k", GEMINI_API_BASE="http://h").base_url
            == "http://h/v1beta"
        )


class TestVertex:
    @pytest.mark.parametrize(
        ("location", "host"),
        [
            ("", "aiplatform.googleapis.com"),
            ("global", "aiplatform.googleapis.com"),
            ("us", "aiplatform.us.rep.googleapis.com"),
            ("us-east5", "us-east5-aiplatform.googleapis.com"),
        ],
    )
    def test_addresses(self, location: str, host: str) -> None:
        assert connection(vertex.FAMILY, **CLOUD, VERTEXAI_LOCATION=location).base_url == f"https://{host}/v1"

    def test_an_address_of_ones_own(self) -> None:
        to = connection(vertex.FAMILY, **CLOUD, VERTEXAI_API_BASE="http://proxy")
        assert to.base_url == "http://proxy/v1"

    @pytest.mark.parametrize(
        ("environ", "variable"),
        [
            ({"VERTEX_ACCESS_TOKEN": "t"}, "VERTEXAI_PROJECT"),
            ({"GOOGLE_CLOUD_PROJECT": "p"}, "GOOGLE_APPLICATION_CREDENTIALS"),
            ({"VERTEXAI_PROJECT": "a b", "VERTEX_ACCESS_TOKEN": "t"}, "VERTEXAI_PROJECT"),
        ],
    )
    def test_what_is_missing(self, environ: dict[str, str], variable: str) -> None:
        with pytest.raises(NotConfigured) as caught:
            connection(vertex.FAMILY, **environ)
        assert caught.value.variable == variable
        assert variable in caught.value.message

    def test_credentials_may_be_a_document_of_many_lines(self) -> None:
        document = json.dumps({"type": "service_account"}, indent="\t")
        to = connection(vertex.FAMILY, VERTEXAI_PROJECT="p", VERTEX_CREDENTIALS=document)
        assert to.credentials["credentials"] == document
        assert "service_account" not in repr(to)

    def test_a_key_or_a_token(self) -> None:
        to = connection(vertex.FAMILY, VERTEXAI_PROJECT="p", VERTEX_API_KEY="k")
        request = HttpRequest("POST", "http://v", {}, b"")
        to.auth.apply(request, to.credentials)
        assert request.headers == {"x-goog-api-key": "k"}
        both = connection(vertex.FAMILY, **CLOUD, VERTEX_API_KEY="k")
        request = HttpRequest("POST", "http://v", {}, b"")
        both.auth.apply(request, both.credentials)
        assert request.headers == {"Authorization": "Bearer tok"}

    def test_gemini(self) -> None:
        request = sent("gemini-2.5-pro")
        place = "https://europe-west4-aiplatform.googleapis.com/v1/projects/p-1/locations/europe-west4"
        assert request.url == f"{place}/publishers/google/models/gemini-2.5-pro:streamGenerateContent?alt=sse"
        assert request.headers["Authorization"] == "Bearer tok"
        assert "contents" in json.loads(request.body)

    def test_claude(self) -> None:
        request = sent("claude-sonnet-4-5@20250929", thinking="low")
        assert request.url.endswith(
            "/publishers/anthropic/models/claude-sonnet-4-5@20250929:streamRawPredict"
        )
        body = json.loads(request.body)
        assert body["anthropic_version"] == "vertex-2023-10-16"
        assert "model" not in body
        assert body["thinking"]["type"] == "enabled"
        assert "anthropic-version" not in request.headers

    def test_open_models(self) -> None:
        request = sent("meta/llama-3.3-70b-instruct-maas", thinking="low", show_thinking=True)
        assert request.url.endswith("/locations/europe-west4/endpoints/openapi/chat/completions")
        body = json.loads(request.body)
        assert body["model"] == "meta/llama-3.3-70b-instruct-maas"
        assert "reasoning_effort" not in body

    def test_mistral(self) -> None:
        request = sent("codestral-2")
        assert request.url.endswith("/publishers/mistralai/models/codestral-2:streamRawPredict")
        assert json.loads(request.body)["model"] == "codestral-2"
