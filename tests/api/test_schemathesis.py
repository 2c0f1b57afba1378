"""Calls every route as the OpenAPI document says that it can be called, and as it says that it cannot.

schemathesis makes the requests and holds the answers to the document in its closed form: status, content type, headers,
every member of a body and every frame of a stream. Each caller has a database of his own, since he may break all he
can reach. On CI the requests are the same every time; ``make api-test`` makes more, and others
(``STUDIO_API_EXAMPLES``).
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.schemas.openapi.document import path
from app.web.auth import CREDENTIALS
from tests.api.arranged import Arranged, arranged, closed_document

if t.TYPE_CHECKING:
    from schemathesis.engine import events

#: Made-up requests of each route, beside examples and boundary values: of who may do most, and of everybody else.
EXAMPLES = int(os.environ.get("STUDIO_API_EXAMPLES", "3"))
FEWER = max(1, EXAMPLES // 3)
#: Walks from answer to answer are of all routes together.
WALKS = 4
#: That a server or a provider cannot be reached is no fault of ours, and neither is it where we say so.
EXPECTED = ["2xx", "3xx", "4xx", "502", "503"]
CHECKS = (
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "unsupported_method",
    "allow_header_conformance",
)
#: Who calls, and how the requests are made. Who may do most is tried with every boundary value of every parameter, and
#: goes from answer to answer by the links of the document.
RUNS = (
    ("nobody", "fuzzing"),
    ("run", "fuzzing"),
    ("read", "fuzzing"),
    ("admin", "fuzzing"),
    ("admin", "coverage"),
    ("admin", "stateful"),
)


def config(headers: dict[str, str], phase: str, examples: int) -> t.Any:
    from schemathesis.config import SchemathesisConfig

    return SchemathesisConfig.from_dict(
        {
            # Bodies are looked at as they are.
            "headers": {"Accept-Encoding": "identity", **headers},
            "continue-on-failure": True,
            "generation": {
                "max-examples": examples * WALKS if phase == "stateful" else examples,
                "deterministic": EXAMPLES <= 3,
                "no-shrink": True,
                "database": "none",
            },
            "checks": {
                "enabled": False,
                "not_a_server_error": {"enabled": True, "expected-statuses": EXPECTED},
                **{name: {"enabled": True} for name in CHECKS},
            },
            "phases": {
                name: {"enabled": name == phase or (name, phase) == ("examples", "coverage")}
                for name in ("examples", "coverage", "fuzzing", "stateful")
            },
        }
    )


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """What is refused is in the log of the server; of thousands of refusals nobody reads that."""
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def run(studio: Arranged, headers: dict[str, str], phase: str, examples: int) -> list[str]:
    """All that was wrong."""
    import schemathesis
    from schemathesis.engine import events, from_schema

    made = studio.known(closed_document())
    schema = schemathesis.openapi.from_dict(made, config=config(headers, phase, examples))
    schema.app = studio.app
    called: set[str | None] = set()
    wrong: dict[str, str] = {}
    with quiet():
        for event in from_schema(schema).execute():
            if isinstance(event, events.ScenarioFinished):
                called |= {event.label} if event.recorder.interactions else set()
                wrong |= failures(event)
            elif isinstance(event, events.NonFatalError):
                wrong[event.label] = f"{event.label}: {event.info.message}"
            elif isinstance(event, events.FatalError):
                raise event.exception
    routes = {f"{method.upper()} {where}" for where, item in made["paths"].items() for method in item}
    missed = set() if phase == "stateful" else routes - called
    return [*wrong.values(), *(f"{route}: was not called" for route in sorted(missed))]


def failures(event: events.ScenarioFinished) -> dict[str, str]:
    """One of each kind for each route."""
    return {
        f"{event.label} {check.failure_info.failure.title}": (
            f"{event.label}: {check.failure_info.failure.title}\n"
            f"{check.failure_info.failure.message[:1500]}\n{check.failure_info.code_sample}"
        )
        for checks in event.recorder.checks.values()
        for check in checks
        if check.failure_info is not None and not is_another_route(event.label, check)
    }


def is_another_route(label: str | None, check: t.Any) -> bool:
    """Whether a method is wrong for a route, and right for another one that takes any name in its place."""
    if check.name != "unsupported_method":
        return False
    where = str(label).partition(" ")[2]
    likes = [
        re.sub(r"\{\w+\}", "[^/]+", each)
        for each in map(path, {row.rule for row in CREDENTIALS})
        if each != where
    ]
    return any(re.fullmatch(like, where) for like in likes)


@pytest.mark.slow
@pytest.mark.timeout(3600 if EXAMPLES > 3 else 300)
@pytest.mark.parametrize(("who", "phase"), RUNS)
def test_the_server_keeps_to_its_description(who: str, phase: str, tmp_path: Path) -> None:
    with arranged(tmp_path) as studio:
        headers = {} if who == "nobody" else {"X-API-Key": studio.keys[who]}
        wrong = run(studio, headers, phase, EXAMPLES if who == "admin" else FEWER)
        assert not wrong, "\n\n".join(wrong)
