"""What the server is: health, capabilities, plugins, schemas of events.

Law of this room: nothing here touches a provider or the store; the answers are facts the process has.
"""

from __future__ import annotations

from collections.abc import Iterable

from flask import Blueprint, Flask, Response, request

from app import __version__
from app.errors import ApiError, Problem, ValidationFailed
from app.streams.schemas import SURFACES
from app.web import capability_table
from app.web.http import json_response, read_query, services
from plugins import capabilities as facts


def health() -> Response:
    """Whether the process takes new runs; 200 as long as it answers at all."""
    draining = services().runs.draining
    status = "draining" if draining else "ok"
    return json_response({"status": status, "version": __version__, "draining": draining})


def capabilities() -> Response:
    """One row per model and one per family; ``?family=`` and ``?model=`` narrow them.

    Members that nobody states are left out. Which families are configured here is not told: this
    route is open. The whole table is kept encoded, and a caller who has it gets a 304.
    """
    wanted, problems = read_query("family", "model")
    family, model = wanted.get("family"), wanted.get("model")
    plugins = services().plugins
    if family is not None and family not in plugins.families:
        problems.append(_no_family("family", family, plugins.families))
    if family is None and model is not None and "/" in model:
        of_model = model.partition("/")[0]
        if of_model not in plugins.families:
            problems.append(_no_family("model", of_model, plugins.families))
    if model == "":
        problems.append(Problem("model", "names no model; leave it out for all"))
    if problems:
        raise ValidationFailed(problems)
    whole = capability_table.table().current()
    if family is None and model is None:
        return _whole_table(whole)
    rows = facts.rows(plugins, family, model, environ=None)
    named = {row["family"] for row in rows} if family is None else {family}
    families = [row for row in whole.families if row["id"] in named]
    return Response(capability_table.answer(rows, families), content_type="application/json")


def _no_family(parameter: str, family: str, known: Iterable[str]) -> Problem:
    return Problem(parameter, f"no family '{family[:100]}'; there are {', '.join(known)}")


def _whole_table(whole: capability_table.Snapshot) -> Response:
    packed = request.accept_encodings["gzip"] > 0
    response = Response(whole.packed if packed else whole.body, content_type="application/json")
    if packed:
        response.headers["Content-Encoding"] = "gzip"
    response.headers["Vary"] = "Accept-Encoding"
    response.headers["Cache-Control"] = "no-cache"
    response.set_etag(whole.tag, weak=True)
    response.make_conditional(request)
    return response


def plugins() -> Response:
    """Every plugin with what it contributes, and what went wrong with it."""
    items = [
        capability_table.stated(
            {
                "name": row.name,
                "version": row.version,
                "contributes": {hook: list(ids) for hook, ids in row.contributes.items()},
                "error": row.error,
                "loadMs": round(row.seconds * 1000),
            }
        )
        for row in services().plugins.manager.report()
    ]
    return json_response({"items": items})


def schemas(surface: str) -> Response:
    """The JSON Schema of one frame of a surface's streams; the same as ``docs/events/<surface>.json``."""
    make = SURFACES.get(surface)
    if make is None:
        message = f"There is no surface '{surface[:100]}'; there are {', '.join(SURFACES)}"
        raise ApiError(404, "not_found", message)
    return json_response(make())


def install(app: Flask) -> None:
    """Put the routes on ``app``."""
    blueprint = Blueprint("meta", __name__)
    blueprint.add_url_rule("/api/health", view_func=health)
    blueprint.add_url_rule("/api/capabilities", view_func=capabilities)
    blueprint.add_url_rule("/api/plugins", view_func=plugins)
    blueprint.add_url_rule("/api/schemas/<surface>", view_func=schemas)
    app.register_blueprint(blueprint)
