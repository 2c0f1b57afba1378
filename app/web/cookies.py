"""Every cookie of this program.

Law of this room: every one is http-only, goes to this host alone and to no request that another site makes but to open
a page; over TLS its name says so, and no other host of the domain can plant one of that name. What a page of ours needs
inside a frame of another site is sent there too, and is another cookie for each site that shows the frame.
"""

from __future__ import annotations

from flask import Flask, Response, g, request

from app.web.own_address import is_https


def sent(name: str) -> str | None:
    """The cookie of this request; None: it has none."""
    return request.cookies.get(_full(name)) if "HTTP_COOKIE" in request.environ else None


def give(name: str, text: str, age_s: int | None) -> None:
    """Let the answer of this request set a cookie.

    :param age_s: None: until the browser is closed; 0 takes it away.
    """
    g.setdefault("cookies", {})[name] = text, age_s


def put(response: Response, name: str, text: str, age_s: int | None, *, framed: bool = False) -> None:
    """Let ``response`` set a cookie; see :func:`give`.

    :param framed: pages of other sites may show in a frame what needs it; without TLS no browser would send it there.
    """
    secure = is_https()
    framed = framed and secure
    response.set_cookie(
        _full(name),
        text,
        max_age=age_s,
        path="/",
        secure=secure,
        httponly=True,
        samesite="None" if framed else "Lax",
        partitioned=framed,
    )


def _full(name: str) -> str:
    return f"__Host-{name}" if is_https() else name


def _tell(response: Response) -> Response:
    for name, (text, age) in g.get("cookies", {}).items():
        put(response, name, text, age)
    return response


def install(app: Flask) -> None:
    """Let answers of ``app`` carry cookies."""
    app.after_request(_tell)
