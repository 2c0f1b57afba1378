"""Pages for people: HTML made here, style sheets and a script of this server, nothing from anywhere else.

Law of this room: a page is whole without its script; the script only fetches the same address again and puts the
new part in place. Text is escaped by the templates, and the policy that goes with every page allows no inline code.
"""

from __future__ import annotations

import functools
import hashlib
import mimetypes
import typing as t
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlencode

from flask import Blueprint, Flask, Response, abort, current_app, render_template, request
from markupsafe import Markup

from app import __version__
from app.errors import ApiError
from app.store.errors import StoreFailed
from app.store.sealing import SecretsLocked
from app.web import capability_table, sessions
from app.web.capability_query import CHOICES, SORTS, Query, Row, parse
from app.web.capability_words import DIRECTIONS, FILTER_LABELS, HEADS, MEANINGS, cells
from app.web.own_address import own_address
from plugins.capabilities import ANY_MODEL

#: Rows of one page of the table.
PAGE_ROWS = 100

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
#: What goes with every page.
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
#: The call of the README that any new server answers.
FIRST_CALL = """\
curl -N {address}/api/workflows/tour/execute \\
  -H "X-API-Key: $STUDIO_API_KEY" -H "Content-Type: application/json" \\
  -H "X-Studio-Stream-Protocol: agent-events-v1" \\
  -d '{{"stream": true, "includeThinking": true, "includeToolCalls": true, "input": "Show me."}}'"""
_YEAR = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file of ``app/static``, in memory. ``version`` names its content."""

    data: bytes
    content_type: str
    version: str


@functools.cache
def static_files() -> t.Mapping[str, StaticFile]:
    """Every file of ``app/static`` by name; nothing else can be asked for."""
    found = {}
    for path in sorted((Path(__file__).resolve().parents[1] / "static").iterdir()):
        data = path.read_bytes()
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        kind += "; charset=utf-8" if kind.startswith("text/") else ""
        found[path.name] = StaticFile(data, kind, hashlib.sha256(data).hexdigest()[:12])
    return found


def static_file(name: str) -> Response:
    """A file of a page; with its version in ``?v=`` it may be kept for ever."""
    file = static_files().get(name)
    if file is None:
        raise ApiError(404, "not_found", f"There is no file '{name[:100]}' here.")
    response = Response(file.data, content_type=file.content_type)
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Cache-Control"] = _YEAR if request.args.get("v") == file.version else "no-cache"
    response.set_etag(file.version)
    response.make_conditional(request)
    return response


def file_url(name: str) -> str:
    """The address of a static file, relative to a page at the root."""
    return f"static/{name}?v={static_files()[name].version}"


def home() -> Response:
    """What this server is, for browsers; nothing for programs, as at any other address that is none."""
    kinds = request.accept_mimetypes
    if kinds["text/html"] <= kinds["application/json"]:
        abort(404)
    call = FIRST_CALL.format(address=own_address())
    html = render_template("home.html", version=__version__, signed_in=_signed_in(), call=call)
    response = Response(html, content_type="text/html; charset=utf-8", headers=HEADERS)
    response.headers["Cache-Control"] = "no-store"  # who is signed in is for nobody else, nor for later
    response.headers["Vary"] = "Accept"
    return response


def _signed_in() -> bool:
    """Whether the owner asks; nobody does while that cannot be known: this page is there all the same."""
    try:
        return sessions.standing() == "live"
    except (StoreFailed, SecretsLocked):
        return False


def capabilities() -> Response:
    """The capability table: ``?q=&family=&thinking=&tools=&structured=&input=&sort=&page=``.

    What means nothing is left out and said on the page, with status 200: an address that somebody typed still shows
    the table. The API answers the same with a 400, lest a program take the whole table for what it asked for.
    """
    whole = capability_table.table().current()
    query, problems = parse(request.args, [row["id"] for row in whole.families])
    found = whole.select(query)
    last = max(1, -(-len(found) // PAGE_ROWS))
    query = replace(query, page=min(query.page, last))
    first = (query.page - 1) * PAGE_ROWS
    html = render_template(
        "capabilities.html",
        query=query,
        problems=problems,
        families=whole.families,
        choices=CHOICES,
        labels=FILTER_LABELS,
        meanings=MEANINGS,
        directions=DIRECTIONS,
        heads=[_head(query, name, label) for name, label in HEADS],
        rows=[_drawn(whole, row) for row in found[first : first + PAGE_ROWS]],
        total=len(found),
        named=sum(row["model"] != ANY_MODEL for row in whole.rows),
        servers=sum(row["model"] == ANY_MODEL for row in whole.rows),
        first=first + 1,
        last=min(first + PAGE_ROWS, len(found)),
        before=_address(replace(query, page=query.page - 1)) if query.page > 1 else None,
        after=_address(replace(query, page=query.page + 1)) if query.page < last else None,
    )
    return Response(html, content_type="text/html; charset=utf-8", headers=HEADERS)


def _head(query: Query, name: str, label: str) -> dict[str, str]:
    """One column's heading; ``href`` is empty where rows cannot be sorted by it."""
    state = {name: "ascending", f"-{name}": "descending"}.get(query.sort, "none")
    href = _address(query.sorted_by(name)) if name in SORTS else ""
    return {"name": name, "label": label, "state": state, "href": href}


def _address(query: Query) -> str:
    return "?" + urlencode(query.parameters())


def _drawn(whole: capability_table.Snapshot, row: Row) -> Markup:
    html = whole.drawn.get(row["id"])
    if html is None:
        macro = t.cast(t.Any, current_app.jinja_env.get_template("capability_row.html").module).draw
        html = whole.drawn[row["id"]] = macro(cells(row))
    return Markup(html)  # made by a template that escapes


def install(app: Flask) -> None:
    """Put the routes on ``app``, and :func:`file_url` where templates find it."""
    app.add_template_global(file_url)
    blueprint = Blueprint("pages", __name__)
    blueprint.add_url_rule("/", view_func=home)
    blueprint.add_url_rule("/capabilities", view_func=capabilities)
    blueprint.add_url_rule("/static/<name>", view_func=static_file)
    app.register_blueprint(blueprint)
