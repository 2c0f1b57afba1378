"""``GET /metrics``: what Prometheus reads.

Law of this room: off unless the operator says so, and never open: a scrape shows what the server is used for.
"""

from __future__ import annotations

from flask import Blueprint, Flask, Response

from app.errors import ApiError
from app.web import streaming
from app.web.http import services


def metrics() -> Response:
    """The metrics of all workers of this server."""
    made = services().observing.metrics
    if made is None:
        raise ApiError(
            404, "not_found", "There are no metrics here; the server was started without STUDIO_METRICS."
        )
    from app.engine.observe.metrics import CONTENT_TYPE

    return Response(made.text(), content_type=CONTENT_TYPE)


def install(app: Flask) -> None:
    """Put the route on ``app``, and tell the metrics of its streams."""
    blueprint = Blueprint("metrics", __name__)
    blueprint.add_url_rule("/metrics", view_func=metrics)
    app.register_blueprint(blueprint)
    made = app.extensions["studio"].observing.metrics
    if made is not None:
        made.looks["streams_open"] = lambda: len(streaming.service(app))
