"""The OpenAPI document: what is in it, and that it says what the program does."""

from __future__ import annotations

import json
import re
import typing as t

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from app import __version__
from app.schemas.openapi import parts
from app.schemas.openapi.document import document, path, undescribed
from app.schemas.openapi.routes import OPERATIONS
from app.streams.schemas import SURFACES
from app.web.auth import CREDENTIALS
from tests.api.arranged import FRAMES, operations
from tests.support import sse
from tests.support.shared import ROOT


@pytest.fixture(scope="module")
def made() -> dict[str, t.Any]:
    return document(CREDENTIALS, __version__)


def test_every_route_is_described_and_every_description_is_a_route() -> None:
    assert undescribed(CREDENTIALS) == ([], []), "describe it in app/schemas/openapi/routes"


def test_every_route_is_in_the_document_exactly_once(made: dict[str, t.Any]) -> None:
    found = [(method.upper(), where) for where, item in made["paths"].items() for method in item]
    assert sorted(found) == sorted((row.method, path(row.rule)) for row in CREDENTIALS)


def test_operation_ids_are_unique_and_make_good_names(made: dict[str, t.Any]) -> None:
    ids = [operation["operationId"] for operation in operations(made)]
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"[a-z][a-zA-Z]+", each) for each in ids)


def test_every_operation_says_what_people_need(made: dict[str, t.Any]) -> None:
    tags = {tag["name"] for tag in made["tags"]}
    for operation in operations(made):
        assert operation["summary"], operation["operationId"]
        assert not operation["summary"].endswith(".")
        assert set(operation["tags"]) <= tags
        assert any(int(status) < 400 for status in operation["responses"])
        assert operation["x-credential"].endswith(".")


def test_the_document_is_valid_openapi(made: dict[str, t.Any]) -> None:
    from schemathesis.specs.openapi.definitions import OPENAPI_31

    problems = list(Draft202012Validator(OPENAPI_31).iter_errors(made))
    assert not problems, problems[:3]


def test_every_schema_in_it_is_a_json_schema_and_its_references_lead_somewhere(
    made: dict[str, t.Any],
) -> None:
    registry = Registry().with_resource("urn:api", Resource(made, DRAFT202012))
    resolver = registry.resolver("urn:api")
    for name, schema in made["components"]["schemas"].items():
        Draft202012Validator.check_schema(schema)
        assert schema["description"], name
    for reference in set(re.findall(r'"\$ref": "(#[^"]+)"', json.dumps(made))):
        assert resolver.lookup(reference).contents


def test_every_component_is_used(made: dict[str, t.Any]) -> None:
    text = json.dumps(made)
    for kind in ("schemas", "responses"):
        unused = [name for name in made["components"][kind] if f'"#/components/{kind}/{name}"' not in text]
        assert not unused


def test_what_is_shared_is_used(made: dict[str, t.Any]) -> None:
    parameters = set(made["components"]["parameters"])
    assert parameters == {*parts.PATHS, *parts.REQUEST_HEADERS}
    assert {tag for operation in operations(made) for tag in operation["tags"]} == set(parts.TAGS)


def test_examples_of_bodies_fit_their_schemas(made: dict[str, t.Any]) -> None:
    registry = Registry().with_resource("urn:api", Resource(made, DRAFT202012))
    shown = 0
    for operation in operations(made):
        contents = [
            *operation.get("requestBody", {}).get("content", {}).values(),
            *(
                c
                for a in operation["responses"].values()
                for m, c in a.get("content", {}).items()
                if "json" in m
            ),
        ]
        for content in contents:
            for example in content.get("examples", {}).values():
                if "$ref" in content["schema"]:
                    schema = {"$ref": f"urn:api{content['schema']['$ref']}"}
                    Draft202012Validator(schema, registry=registry).validate(example["value"])
                    shown += 1
    assert shown > 5


def test_surfaces_are_those_that_have_schemas() -> None:
    assert set(parts.SURFACES) == set(SURFACES) == set(FRAMES)


@pytest.mark.parametrize("surface", SURFACES)
def test_examples_of_frames_fit_their_schemas(surface: str) -> None:
    schema = FRAMES[surface]()
    frames = [frame for frame in sse.parse(parts.FRAMES[surface].encode()) if frame.comment is None]
    assert frames
    for frame in frames:
        data = frame.json() if frame.event is None else {"event": frame.event, "data": frame.json()}
        Draft202012Validator(schema).validate(data)


def test_pages_of_the_docs_that_are_named_exist() -> None:
    for described in OPERATIONS.values():
        name, _, anchor = described.page.partition("#")
        if not name:
            continue
        page = ROOT / "docs" / name
        assert page.exists(), f"{described.route}: {described.page}"
        anchors = {_anchor(title) for title in re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)}
        assert not anchor or anchor in anchors, f"{described.route}: {described.page}"


def _anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def test_the_copy_in_the_docs_is_what_the_program_says(made: dict[str, t.Any]) -> None:
    assert json.loads((ROOT / "docs" / "_static" / "openapi.json").read_text()) == made
