"""``/decide/{token}``: the page behind a link, for a person who has no key.

Law of this room: the token is the credential, so nothing else is asked for, nothing else is shown than what is to be
decided, and no copy of the address is left anywhere: not kept, not indexed, not sent on. Only a POST decides; what
follows links by itself decides nothing. The page has no script, and no word on it is markup.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from flask import Blueprint, Flask, Response, render_template

from app import encoding
from app.clock import rfc3339
from app.errors import ApiError, ValidationFailed
from app.schemas.answers import MAX_REASON, AnswerBody, load_answer
from app.web import answers
from app.web.http import read_form, services
from app.web.resume import check_can_go_on, go_on

if t.TYPE_CHECKING:
    from app.store.checkpoints import DecisionRow

#: Who answered, for the record.
BY = "link"

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
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex, nofollow",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_DONE = {"approve": "Approved", "edit": "Approved, as you changed it", "reject": "Rejected"}
_WAS = {"approve": "approved", "edit": "changed and approved", "reject": "rejected"}
_ROWS = 6, 24
#: Characters that turn the direction of others: what is approved could be read as something else.
_TURNS = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Sent:
    """What the form held that was sent, to be shown again; line ends are as they were before a browser had them."""

    decision: str = ""
    text: str | None = None
    arguments: str | None = None
    reason: str | None = None
    remember: bool = False


def show(token: str) -> Response:
    """What is to be decided; 410 when that has been done, 404 for a link that is none."""
    row = services().store.decisions.by_token(token)
    return _asking(row, Sent()) if row is not None and row.state == "open" else _over(row)


def decide(token: str) -> Response:
    """Decide it."""
    store = services().store
    row = store.decisions.by_token(token)
    if row is None or row.state != "open":  # before the form is taken apart: anybody can send one
        return _over(row)
    sent = _read()
    try:
        body = _answer(sent)
        answers.check(row, body)
        check_can_go_on(services(), row.run_id)
        answered = answers.give(store, row, body, BY)
    except ValidationFailed as failed:
        words = [f"{p.path}: {p.message}" if p.path else p.message for p in failed.details]
        return _asking(row, sent, words, 400)
    except ApiError as failed:
        if failed.status == 503:
            return _page(503, "This cannot be decided at the moment", "Nothing was decided. Try again later.")
        return _over(store.decisions.get(row.id))
    go_on(services(), answered.run_id)
    return _page(200, f"{_DONE[body.decision]}. Thank you.", "You can close this page.")


def _read() -> Sent:
    form = read_form()

    def lines(name: str) -> str | None:
        return None if name not in form else form[name].replace("\r\n", "\n")

    reason = (lines("reason") or "").strip() or None
    return Sent(form.get("decision", ""), lines("text"), lines("arguments"), reason, "remember" in form)


def _answer(sent: Sent) -> AnswerBody:
    """:raises ValidationFailed: it is no answer."""
    said: dict[str, t.Any] = {"decision": sent.decision, "reason": sent.reason}
    if sent.decision == "edit":
        said["text"] = sent.text
        said["arguments"] = None if sent.arguments is None else _parsed(sent.arguments)
    if sent.remember:
        said["remember"] = True
    return load_answer(AnswerBody, {name: value for name, value in said.items() if value is not None})


def _parsed(text: str) -> t.Any:
    """What the person typed, as JSON; what is none is left for the check to refuse by its kind."""
    try:
        return encoding.loads(text)
    except ValueError:
        return text


# -- pages -------------------------------------------------------------------------------------------


def _asking(row: DecisionRow, sent: Sent, problems: t.Sequence[str] = (), status: int = 200) -> Response:
    review = row.review
    prompt = review.get("prompt")
    asked = {
        "tool": review.get("tool") if review.get("kind") == "tool" else None,
        "arguments": _json(review.get("arguments")),
        "draft": review.get("draft") or "",
        "reasons": review.get("reasons") or (),
        "show": [(name, _words(value)) for name, value in (review.get("show") or {}).items()],
        "can_remember": row.subject is not None and row.thread_id is not None,
        "expires_at": None if row.expires_at is None else _time(row.expires_at),
    }
    lines = str(asked["arguments"] if asked["tool"] else asked["draft"]).count("\n") + 1
    asked["rows"] = min(max(lines, _ROWS[0]), _ROWS[1])
    return _page(status, "A decision is needed", prompt, asked, sent, problems)


def _over(row: DecisionRow | None) -> Response:
    """The page for a link that decides nothing any more."""
    if row is None:
        message = "It may have been copied in part, or a newer link has taken its place. Ask whoever sent it."
        return _page(404, "This link is not known", message)
    if row.state == "expired":
        return _page(410, "The time is up", "Nobody decided in time, and it went on without.")
    if row.state == "answered":
        how = _WAS.get(str((row.answer or {}).get("decision")), "decided")
        when = "" if row.answered_at is None else f" on {_time(row.answered_at)['words']}"
        return _page(410, "This was decided already", f"It was {how}{when}.")
    return _page(410, "There is nothing to decide any more", "What asked for it has ended.")


def _page(
    status: int,
    title: str,
    message: str | None,
    asked: Mapping[str, t.Any] | None = None,
    sent: Sent | None = None,
    problems: t.Sequence[str] = (),
) -> Response:
    html = render_template(
        "decide.html",
        title=title,
        message=message,
        asked=asked,
        sent=sent or Sent(),
        problems=problems,
        most=MAX_REASON,
        up="../",
    )
    return Response(html, status, content_type="text/html; charset=utf-8", headers=_HEADERS)


def _time(ms: int) -> dict[str, str]:
    moment = dt.datetime.fromtimestamp(ms / 1000, dt.UTC)
    return {"machine": rfc3339(ms), "words": f"{moment:%-d %B %Y, %H:%M} UTC"}


def _words(value: t.Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: t.Any) -> str:
    """For people: indented, and no character in it changes the order in which the others are read."""
    text = json.dumps(encoding.plain(value), indent=2, ensure_ascii=False)
    return _TURNS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def install(app: Flask) -> None:
    """Put the routes on ``app``."""
    blueprint = Blueprint("decide", __name__)
    blueprint.add_url_rule("/decide/<token>", "show", show)
    blueprint.add_url_rule("/decide/<token>", "decide", decide, methods=["POST"])
    app.register_blueprint(blueprint)
