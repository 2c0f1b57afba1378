"""``/setup/{token}``, ``/login``, ``/account``, ``/logout``: how the workspace owner gets in, in a browser.

Law of this room: no page has a script, and none leads anywhere but to a page of this server. A form brings a token that
only our pages have; one that does not changes nothing, and is shown anew. Only a POST uses a link up: what opens links
by itself, before a person does, uses up nothing.
"""

from __future__ import annotations

import datetime as dt
import logging
import re
import typing as t
from urllib.parse import urlencode

from flask import Blueprint, Flask, Response, render_template, request

from app.clock import rfc3339
from app.errors import ApiError, ValidationFailed
from app.store.sealing import SecretsLocked
from app.web import csrf, session_api, sessions
from app.web.errors import error_response
from app.web.http import is_api, services
from app.web.passwords import LEAST
from app.web.sessions import NotSignedIn

log = logging.getLogger("studio.web")

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "style-src 'self'",
        "img-src data:",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "X-Robots-Tag": "noindex, nofollow",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
#: What a page keeps of the headers of an error.
_KEPT = ("Retry-After", "WWW-Authenticate")
_OLD_FORM = "This form was open for too long, or the browser keeps no cookies. Here is a new one; nothing was changed."
_FOREIGN = (
    "The form came from another address than this server's. If it is behind a proxy, STUDIO_PUBLIC_URL has to name the "
    "address that browsers see."
)
_NOT_THE_SAME = "The two new passwords are not the same. Type both again."
#: A page of ours, by its way from the root of the program.
_WAY = re.compile(r"/[A-Za-z0-9._~!$&'()*+,;=:@%/?-]{0,1000}")


# -- signing in ----------------------------------------------------------------------------------------


def login() -> Response:
    """The form; whoever is signed in goes on."""
    way = _next(request.args.get("next"))
    return _go(_onward(way)) if sessions.standing() == "live" else _login(way)


def sign_in() -> Response:
    """Sign in and go where ``next`` says, on this server."""
    form = csrf.form()
    way = _next(form.get("next"))
    if not csrf.form_is_right():
        return _login(way, _wrong_form(), 403)
    try:
        session_api.sign_in(form.get("password", ""))
    except ApiError as refused:
        return _login(way, _said(refused), refused.status, refused.headers)
    return _go(_onward(way))


def _login(
    way: str | None, problem: str = "", status: int = 200, headers: t.Mapping[str, str] | None = None
) -> Response:
    return _page("login.html", "Sign in", status, headers, problem=problem, way=way, token=csrf.form_token())


def logout() -> Response:
    """Sign out."""
    session_api.sign_out()
    return _go("login")


# -- the link that sets a password ---------------------------------------------------------------------


def setup(token: str) -> Response:
    """The form that sets the owner's password; 404 for a link that works no more."""
    row = services().store.owner.get()
    works = row is not None and services().store.owner.link_works(token)
    return _setup(row.setup_expires_at if row else None) if works else _over()


def set_up(token: str) -> Response:
    """Set the password and sign in."""
    row = services().store.owner.get()
    if row is None or not services().store.owner.link_works(token):
        return _over()
    until = row.setup_expires_at
    if not csrf.form_is_right():
        return _setup(until, _wrong_form(), 403)
    form = csrf.form()
    new = form.get("new", "")
    if new != form.get("again", ""):
        return _setup(until, _NOT_THE_SAME, 400)
    try:
        session = session_api.set_by_link(token, new)
    except ApiError as refused:
        return _setup(until, _said(refused), refused.status, refused.headers)
    return _over() if session is None else _go("../account")


def _setup(
    until: int | None, problem: str = "", status: int = 200, headers: t.Mapping[str, str] | None = None
) -> Response:
    more: dict[str, t.Any] = {
        "until": _time(until),
        "problem": problem,
        "token": csrf.form_token(),
        "least": LEAST,
    }
    return _page("setup.html", "Choose the owner's password", status, headers, up="../", **more)


def _over() -> Response:
    message = (
        "It was used, its time is over, or a newer one has taken its place. If you have set the password, sign in "
        "with it."
    )
    return _page("notice.html", "This link does not work any more", 404, up="../", message=message, lost=True)


# -- the account ---------------------------------------------------------------------------------------


def account() -> Response:
    """Who is signed in, with the forms to sign out and to change the password."""
    return _account(done="changed" in request.args)


def change() -> Response:
    """Change the password."""
    form = csrf.form()
    new = form.get("new", "")
    if new != form.get("again", ""):
        return _account(_NOT_THE_SAME, 400, wrong="new")
    try:
        session_api.change_password(form.get("current", ""), new)
    except ApiError as refused:
        wrong = "new" if isinstance(refused, ValidationFailed) else "current"
        return _account(_said(refused), refused.status, refused.headers, wrong=wrong)
    return _go("account?changed=1")


def _account(
    problem: str = "",
    status: int = 200,
    headers: t.Mapping[str, str] | None = None,
    *,
    done: bool = False,
    wrong: str = "",
) -> Response:
    session = t.cast(sessions.Session, sessions.current())
    more: dict[str, t.Any] = {
        "wrong": wrong,
        "until": _time(session.until * 1000),
        "problem": problem,
        "done": done,
        "least": LEAST,
    }
    token = csrf.token(session.id)
    return _page("account.html", "Signed in", status, headers, here="account", token=token, **more)


# -- whoever may not see a page ------------------------------------------------------------------------


def _not_signed_in(refused: NotSignedIn) -> Response:
    """To the form, and from there back; what was to be changed has to be sent again."""
    if refused.status == 403:
        return _page("notice.html", "Nothing was changed", 403, message=f"{_wrong_form()}", back="account")
    way = request.full_path.rstrip("?") if request.method == "GET" else None
    return _go("login?" + urlencode({"next": way}) if way and way != "/account" else "login")


def _locked(locked: SecretsLocked) -> Response:
    """Nothing can be signed; what is missing is for the log, not for strangers."""
    log.error("nobody can sign in: %s", locked.message)
    message = "This server cannot sign anybody in at the moment. Its log says why."
    if is_api(request.environ["PATH_INFO"]):
        return error_response(ApiError(503, locked.code, message))
    return _page("notice.html", "Not possible at the moment", 503, message=message)


# -- pages ---------------------------------------------------------------------------------------------


def _next(sent: str | None) -> str | None:
    """Where to go once signed in; None: what was sent is no way on this server."""
    return sent if sent and _WAY.fullmatch(sent) and not sent.startswith("//") else None


def _onward(way: str | None) -> str:
    """Relative to a page at the root: whatever follows never leaves this server, nor the way a proxy puts it under."""
    return "account" if way is None else f".{way}"


def _go(where: str) -> Response:
    return Response(status=303, headers={"Location": where, "Cache-Control": "no-store"})


def _wrong_form() -> str:
    return _OLD_FORM if csrf.is_from_here() else _FOREIGN


def _said(refused: ApiError) -> str:
    """A refusal in words for people."""
    if isinstance(refused, ValidationFailed):
        return " ".join(f"The new password cannot be set: {problem.message}." for problem in refused.details)
    return "That is not the password." if refused.code == "wrong_password" else refused.message


def _page(
    template: str,
    title: str,
    status: int = 200,
    headers: t.Mapping[str, str] | None = None,
    *,
    up: str = "",
    here: str = "",
    **more: t.Any,
) -> Response:
    html = render_template(template, title=title, up=up, here=here, **more)
    kept = {name: value for name, value in (headers or {}).items() if name in _KEPT}
    return Response(html, status, content_type="text/html; charset=utf-8", headers={**_HEADERS, **kept})


def _time(ms: int | None) -> dict[str, str] | None:
    if ms is None:
        return None
    moment = dt.datetime.fromtimestamp(ms / 1000, dt.UTC)
    return {"machine": rfc3339(ms), "words": f"{moment:%-d %B %Y, %H:%M} UTC"}


def install(app: Flask) -> None:
    """Put the routes on ``app``."""
    app.register_error_handler(NotSignedIn, _not_signed_in)
    app.register_error_handler(SecretsLocked, _locked)
    blueprint = Blueprint("sign_in", __name__)
    for rule, get, post in (
        ("/login", login, sign_in),
        ("/setup/<token>", setup, set_up),
        ("/account", account, change),
        ("/logout", None, logout),
    ):
        if get is not None:
            blueprint.add_url_rule(rule, get.__name__, get)
        blueprint.add_url_rule(rule, post.__name__, post, methods=["POST"])
    app.register_blueprint(blueprint)
