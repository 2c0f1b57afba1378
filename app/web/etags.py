"""ETags of what can be changed, and the check that a writer has seen what it replaces.

Law of this room: a tag names a revision of a resource, not bytes, so one that a compressing proxy made weak is as good.
:func:`require_match` compares with what was read; the write compares again, inside its transaction, with the revision
that this gave (a ``RevisionConflict`` of the store is the same 412).
"""

from __future__ import annotations

from flask import Response, request

from app.errors import ApiError


def etag(revision: int, made: int = 0) -> str:
    """The tag of a revision.

    :param made: tells apart what has the same id and revision: when it was made, of what can be made anew under its id.
    """
    return f"{made:x}-{revision}" if made else str(revision)


def set_etag(response: Response, revision: int, made: int = 0, *, weak: bool = False) -> Response:
    """``response`` with the tag; 304 for a reader who has it.

    :param weak: it is another form of the resource, such as YAML.
    """
    response.set_etag(etag(revision, made), weak=weak)
    if response.status_code == 200:
        response.make_conditional(request)
    return response


def require_match(revision: int, made: int = 0) -> int | None:
    """The revision that the write may replace, for the store to compare with; None: any (``If-Match: *``).

    :param revision: as it was read just now.
    :raises ApiError: 428 the request does not say what it has seen. 412 that is not what is there.
    """
    if "If-Match" not in request.headers:
        tag = etag(revision, made)
        message = f'Read it first and send its ETag, now "{tag}", in the header If-Match; * stands for any.'
        raise ApiError(428, "precondition_required", message)
    return match_if_sent(revision, made)


def match_if_sent(revision: int, made: int = 0) -> int | None:
    """As :func:`require_match`, for what need not say what it has seen; None where it does not."""
    wanted = request.if_match
    if "If-Match" not in request.headers or wanted.star_tag:
        return None
    if not wanted.contains_weak(etag(revision, made)):
        raise conflict()
    return revision


def must_be_new() -> bool:
    """Whether the request asks for what is not there yet (``If-None-Match: *``)."""
    return bool(request.if_none_match.star_tag)


def conflict(message: str = "It was changed since you read it") -> ApiError:
    """412."""
    return ApiError(412, "precondition_failed", f"{message.removesuffix('.')}. Read it, then decide anew.")
