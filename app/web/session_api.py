"""``/api/session`` and ``/api/owner/password``: the owner signs in, out, and changes the password, as JSON.

Law of this room: a password comes in and goes nowhere but to be compared or hashed. What is wrong with a try is not
said: no password set and a wrong one are one answer, after the same time. Every session of before ends with a change.
"""

from __future__ import annotations

import typing as t

from flask import Blueprint, Flask, Response

from app.clock import rfc3339
from app.errors import ApiError, Problem, ValidationFailed
from app.schemas import derive
from app.schemas.owner import PasswordBody, SignInBody
from app.web import audit, csrf, guesses, passwords, sessions
from app.web.auth import OWNER, caller
from app.web.errors import unauthorized
from app.web.http import MAX_ENTRANCE, json_response, read_object, services
from app.web.sessions import Session
from app.web.tries import give_back

if t.TYPE_CHECKING:
    from app.store.owner import OwnerRow

#: What the audit log calls the account.
SUBJECT = "owner:owner"


# -- what the pages do, too ----------------------------------------------------------------------------


def sign_in(password: str) -> Session:
    """Begin a session for whoever knows the password.

    :raises ApiError: 401 ``wrong_password``, 429 ``rate_limited``, 503 ``at_capacity``.
    :raises SecretsLocked: the keys of this installation are not here.
    """
    row = services().store.owner.get()
    taken = guesses.take_for_sign_in()
    if not _matches(row, password, taken) or row is None:
        audit.record("owner.sign_in_failed", SUBJECT, actor="anonymous")
        raise _wrong(401)
    guesses.know()
    session = sessions.begin(row.password_version)
    audit.record("owner.sign_in", SUBJECT, actor="owner")
    return session


def change_password(current: str, new: str) -> Session | None:
    """Set another password; every session ends, and the one of this request goes on as a new one.

    :returns: that one; None: the request came with a key.
    :raises ApiError: 400 the new one cannot be set, 403 ``wrong_password``, 429, 503.
    """
    session = sessions.current() if caller() is OWNER else None
    if wrong := passwords.problem(new):
        raise ValidationFailed([Problem("new", wrong)])
    owner = services().store.owner
    row = owner.get()
    taken = guesses.take_for(session.id if session else str(caller().key_id))
    if not _matches(row, current, taken):
        raise _wrong(403)
    note = audit.note(audit.told("owner.password", SUBJECT))
    version = t.cast(int, owner.set_password(passwords.make_hash(new), note=note))
    return None if session is None else sessions.begin(version)


def set_by_link(token: str, new: str) -> Session | None:
    """Set the password by a link and begin a session; None: the link does not work any more.

    :raises ApiError: 400 the password cannot be set, 503.
    """
    owner = services().store.owner
    if not owner.link_works(token):  # nobody has a hash made for nothing
        return None
    if wrong := passwords.problem(new):
        raise ValidationFailed([Problem("password", wrong)])
    note = audit.note(audit.told("owner.password", SUBJECT, {"by": "link"}), "owner")
    version = owner.set_password(passwords.make_hash(new), token, note)
    if version is None:
        return None
    guesses.know()
    return sessions.begin(version)


def sign_out() -> None:
    """End the session of this request."""
    audit.unchanged()  # unless the note is asked: there may be no session
    sessions.end(audit.note(audit.told("owner.sign_out", SUBJECT), "owner"))


def _matches(row: OwnerRow | None, password: str, taken: t.Sequence[str]) -> bool:
    """Compare, and give the try back unless it was a wrong one."""
    right = True
    try:
        right = passwords.matches(None if row is None else row.password, password)
    finally:
        if right:
            give_back(taken)
    return right


def _wrong(status: int) -> ApiError:
    message = "This is not the owner's password. To set a new one, run on the server: studio owner link"
    headers = unauthorized("").headers if status == 401 else {}
    return ApiError(status, "wrong_password", message, headers=headers)


# -- views ---------------------------------------------------------------------------------------------


def show() -> Response:
    """Who is signed in, and the token that changes have to bring."""
    return _answer(sessions.current() if sessions.standing() == "live" else None)


def begin() -> Response:
    """Sign in."""
    if not csrf.is_from_here():
        raise ApiError(
            403, "csrf_required", "Another site sent this request; sign in on a page of this server."
        )
    return _answer(sign_in(_read(SignInBody).password))


def end() -> Response:
    """Sign out: 204."""
    read_object()
    sign_out()
    return Response(status=204)


def put_password() -> Response:
    """Change the password."""
    body = _read(PasswordBody)
    session = change_password(body.current, body.new)
    return Response(status=204) if session is None else _answer(session)


_Body = t.TypeVar("_Body")


def _read(cls: type[_Body]) -> _Body:
    parsed, problems = derive.load(cls, read_object(MAX_ENTRANCE), null_unset=False)
    if parsed is None:
        raise ValidationFailed(problems)
    return parsed


def _answer(session: Session | None) -> Response:
    body: dict[str, t.Any] = {"signedIn": session is not None}
    if session is not None:
        body |= {"subject": OWNER.key_id, "scopes": sorted(OWNER.scopes)}
        body |= {"expiresAt": rfc3339(session.until * 1000), "csrfToken": csrf.token(session.id)}
    response = json_response(body)
    response.headers["Cache-Control"] = "no-store"
    return response


def install(app: Flask) -> None:
    """Put the routes on ``app``."""
    blueprint = Blueprint("session_api", __name__)
    blueprint.add_url_rule("/api/session", "show", show)
    blueprint.add_url_rule("/api/session", "begin", begin, methods=["POST"])
    blueprint.add_url_rule("/api/session", "end", end, methods=["DELETE"])
    blueprint.add_url_rule("/api/owner/password", "put_password", put_password, methods=["PUT"])
    app.register_blueprint(blueprint)
