"""What the server is and can do, and its pages.

Law of this room: see :mod:`app.schemas.openapi.routes`.
"""

from __future__ import annotations

import typing as t

from app.schemas.openapi.operation import HTML, Answer, Operation
from app.schemas.shapes.meta import (
    Capabilities,
    CapabilityPageQuery,
    CapabilityQuery,
    Health,
    PluginList,
    StaticQuery,
    StreamCheckQuery,
)

_JSON_SCHEMA = dict[str, t.Any]

ROUTES = (
    Operation(
        route="GET /api/health",
        id="getHealth",
        does="Ask how the server is",
        tag="Server",
        says="200 as long as the process answers at all.",
        answers={200: Answer(says="How it is.", shape=Health)},
    ),
    Operation(
        route="GET /api/stream-check",
        id="checkStream",
        does="Get test frames at known times",
        tag="Server",
        page="behind-nginx.md",
        says=(
            "For `studio check-stream`, which finds out what holds streams back on the way. At most 8 at once in a "
            "process."
        ),
        query=StreamCheckQuery,
        answers={200: Answer(says="The stream.", streams=("check",))},
        errors={503: ("at_capacity",)},
    ),
    Operation(
        route="GET /api/capabilities",
        id="getCapabilities",
        does="Read what each model can do",
        tag="Server",
        page="http-api.md#capabilities",
        says="The whole table is large: keep its `ETag`, and send `Accept-Encoding: gzip`.",
        query=CapabilityQuery,
        headers=("If-None-Match",),
        answers={
            200: Answer(
                says="Models and families.", shape=Capabilities, maybe=("ETag", "Vary", "Cache-Control")
            ),
            304: Answer(says="It is as the caller has it.", headers=("ETag",)),
        },
    ),
    Operation(
        route="GET /api/plugins",
        id="listPlugins",
        does="List installed plugins",
        tag="Server",
        page="plugins.md",
        answers={200: Answer(says="Each with what it contributes.", shape=PluginList)},
    ),
    Operation(
        route="GET /api/schemas/<surface>",
        id="getSchema",
        does="Read the JSON Schema of a stream's frames",
        tag="Server",
        page="consuming-the-stream.md#what-comes",
        answers={200: Answer(says="JSON Schema, 2020-12.", shape=_JSON_SCHEMA)},
        errors={404: ("not_found",)},
    ),
    Operation(
        route="GET /api/openapi.json",
        id="getOpenapi",
        does="Read this document",
        tag="Server",
        page="openapi.md",
        says="OpenAPI 3.1, for programs that make clients of it.",
        headers=("If-None-Match",),
        answers={
            200: Answer(says="The document.", shape=_JSON_SCHEMA, headers=("ETag", "Vary", "Cache-Control")),
            304: Answer(says="It is as the caller has it.", headers=("ETag",)),
        },
    ),
    Operation(
        route="GET /api/docs",
        id="showDocs",
        does="Show the API to people",
        tag="Pages",
        page="openapi.md",
        headers=("If-None-Match",),
        answers={
            200: Answer(says="The page.", media=(HTML,), headers=("ETag", "Content-Security-Policy")),
            304: Answer(says="It is as the caller has it.", headers=("ETag",)),
        },
    ),
    Operation(
        route="GET /metrics",
        id="getMetrics",
        does="Read metrics for Prometheus",
        tag="Server",
        page="observability.md#metrics",
        who="key with `read`, also as `Authorization: Bearer`, or the token of the metrics",
        says="Where the server was started with `STUDIO_METRICS`.",
        answers={200: Answer(says="Text in the format of Prometheus.", media=("text/plain",))},
        errors={404: ("not_found",)},
    ),
    Operation(
        route="GET /",
        id="home",
        does="Show what this server is",
        tag="Pages",
        says="For whoever prefers HTML to JSON: the way to the other pages, and a first call. Programs get a 404.",
        answers={200: Answer(says="The page.", media=(HTML,), headers=("Content-Security-Policy", "Vary"))},
        errors={404: ("not_found",)},
    ),
    Operation(
        route="GET /capabilities",
        id="showCapabilities",
        does="Show what each model can do",
        tag="Pages",
        page="http-api.md#capabilities",
        query=CapabilityPageQuery,
        answers={200: Answer(says="The page.", media=(HTML,), headers=("Content-Security-Policy",))},
    ),
    Operation(
        route="GET /static/<name>",
        id="getStaticFile",
        does="Get a style sheet or a script",
        tag="Pages",
        query=StaticQuery,
        headers=("If-None-Match",),
        answers={
            200: Answer(
                says="The file.", media=("text/css", "text/javascript"), headers=("ETag", "Cache-Control")
            ),
            304: Answer(says="It is as the caller has it.", headers=("ETag",)),
        },
        errors={404: ("not_found",)},
    ),
)
