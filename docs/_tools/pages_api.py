"""What the docs say of the HTTP API: the OpenAPI document, and the table of all routes.

Law of this room: both come from the credential table and the descriptions of routes, which the server answers with, too.
"""

from __future__ import annotations

import json

from docs._tools.markdown import table

_PAGE = "http-api.md"


def openapi() -> str:
    """The OpenAPI document, as ``/api/openapi.json`` gives it, for people to read."""
    from app import __version__
    from app.schemas.openapi.document import document
    from app.web.auth import CREDENTIALS

    return json.dumps(document(CREDENTIALS, __version__), indent=2, ensure_ascii=False)


def routes() -> str:
    """Every route: who may call it, and what it does."""
    from app.schemas.openapi.document import scope_words
    from app.schemas.openapi.operation import Operation
    from app.schemas.openapi.routes import OPERATIONS
    from app.web.auth import CREDENTIALS

    def does(described: Operation) -> str:
        link = (
            described.page.removeprefix(_PAGE) if described.page.startswith(f"{_PAGE}#") else described.page
        )
        return f"[{described.does}]({link})" if link else described.does

    rows = [
        (f"`{row.method} {row.rule}`", scope_words(row, described), does(described))
        for row in CREDENTIALS
        if (described := OPERATIONS.get(f"{row.method} {row.rule}")) is not None
    ]
    return table(("route", "credential", "what it does"), rows)
