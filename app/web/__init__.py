"""The HTTP surface: one blueprint per concern, one credential table, one error shape.

Law of this room: every check that can be a 4xx is done before the first byte. Views translate between
HTTP and the engine; they hold no rule of a run.
"""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from flask import Flask

    from app.engine.services import Services


def install(app: Flask, services: Services) -> None:
    """Put every route, check and handler on ``app``."""
    from app.web import (
        attach,
        auth,
        capability_table,
        decide,
        decisions,
        documents,
        errors,
        execute,
        graph,
        http,
        memory,
        meta,
        metrics,
        pages,
        resume,
        run_events,
        run_list,
        runs,
        secrets,
        stream_check,
        threads,
    )

    app.url_map.merge_slashes = False  # a doubled slash is a wrong path, not a redirect
    errors.install(app)
    http.install(app)
    auth.install(app, services.store)
    execute.install(app, services)
    run_events.install(app, services)
    graph.install(app, services)
    runs.install(app)
    attach.install(app, services)
    resume.install(app, services)
    decisions.install(app)
    decide.install(app)
    threads.install(app)
    memory.install(app)
    secrets.install(app)
    run_list.install(app)
    documents.install(app)
    capability_table.install(app, services)
    meta.install(app)
    stream_check.install(app)
    metrics.install(app)
    pages.install(app)
