"""What the server is: health, capabilities, plugins, schemas of events.

Law of this room: nothing here touches a provider or the store; the answers are facts the process has.
"""

from __future__ import annotations

import typing as t

from flask import Blueprint, Flask, Response

from app import __version__
from app.errors import ApiError, Problem, ValidationFailed
from app.streams.schemas import SURFACES
from app.web.http import json_response, read_query, services
from plugins import capabilities as table


def health() -> Response:
    """Whether the process takes new runs; 200 as long as it answers at all."""
    draining = services().runs.draining
    status = "draining" if draining else "ok"
    return json_response({"status": status, "version": __version__, "draining": draining})


def capabilities() -> Response:
    """One row per model; ``?family=`` and ``?model=`` narrow them.

    Members a family does not state are left out. Which families are configured here is not told: this
    route is open.
    """
    wanted, problems = read_query("family", "model")
    family = wanted.get("family")
    plugins = services().plugins
    if family is not None and family not in plugins.families:
        problems.append(
            Problem("family", f"no family '{family[:100]}'; there are {', '.join(plugins.families)}")
        )
    if problems:
        raise ValidationFailed(problems)
    rows = table.rows(plugins, family, wanted.get("model"), environ=None)
    return json_response({"items": [_stated(row) for row in rows]})


def plugins() -> Response:
    """Every plugin with what it contributes, and what went wrong with it."""
    items = [
        _stated(
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


def _stated(row: dict[str, t.Any]) -> dict[str, t.Any]:
    return {name: value for name, value in row.items() if value is not None}


def install(app: Flask) -> None:
    """Put the routes on ``app``."""
    blueprint = Blueprint("meta", __name__)
    blueprint.add_url_rule("/api/health", view_func=health)
    blueprint.add_url_rule("/api/capabilities", view_func=capabilities)
    blueprint.add_url_rule("/api/plugins", view_func=plugins)
    blueprint.add_url_rule("/api/schemas/<surface>", view_func=schemas)
    app.register_blueprint(blueprint)
