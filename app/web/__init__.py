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
    from app.web import auth, chat_gates, chat_origins, claims, errors, http, limits

    app.url_map.merge_slashes = False  # a doubled slash is a wrong path, not a redirect
    errors.install(app)
    chat_origins.install(app)
    http.install(app)
    auth.install(app, services.store)
    limits.install(app, services)
    claims.install(app)
    _install_owner(app)
    chat_gates.install(app)
    _install_runs(app, services)
    _install_rest(app, services)
    _install_chats(app, services)


def _install_chats(app: Flask, services: Services) -> None:
    """How workflows are deployed as chats, and what their visitors call."""
    from app.web import chat, chat_config, chat_page, chat_runs, chats

    chats.install(app, services)
    chat_config.install(app)
    chat.install(app, services)
    chat_runs.install(app, services)
    chat_page.install(app)


def _install_owner(app: Flask) -> None:
    """How the workspace owner gets in."""
    from app.web import cookies, session_api, sessions, sign_in

    cookies.install(app)
    sessions.install(app)
    session_api.install(app)
    sign_in.install(app)


def _install_runs(app: Flask, services: Services) -> None:
    """What starts runs, follows them, answers what they ask, and lists them."""
    from app.web import (
        attach,
        decide,
        decisions,
        draft_run,
        execute,
        graph,
        resume,
        run_events,
        run_list,
        runs,
        threads,
    )

    execute.install(app, services)
    run_events.install(app, services)
    graph.install(app, services)
    draft_run.install(app, services)
    runs.install(app)
    attach.install(app, services)
    resume.install(app, services)
    decisions.install(app)
    decide.install(app)
    threads.install(app)
    run_list.install(app)


def _install_rest(app: Flask, services: Services) -> None:
    """What is kept, what can be known, and the pages."""
    from app.web import (
        capability_table,
        documents,
        memory,
        meta,
        metrics,
        openapi,
        pages,
        secrets,
        stream_check,
    )

    memory.install(app)
    _install_management(app, services)
    secrets.install(app)
    documents.install(app)
    capability_table.install(app, services)
    meta.install(app)
    openapi.install(app)
    stream_check.install(app)
    metrics.install(app)
    pages.install(app)


def _install_management(app: Flask, services: Services) -> None:
    """What workflows, keys and files are changed with, and who did."""
    from app.web import audit, files, keys, versions, workflows
    from app.web.judging import Judge

    judge = Judge(services)
    workflows.install(app, services, judge)
    versions.install(app, services, judge)
    keys.install(app)
    files.install(app)
    audit.install(app)
