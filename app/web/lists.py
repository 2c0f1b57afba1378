"""Lists that are read page by page: what their queries may say, and how a page is answered.

Law of this room: every list takes ``limit`` and ``cursor`` alike, and says everything that is wrong at once.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from flask import Response

from app.errors import Problem, ValidationFailed
from app.web.http import json_response, read_count, read_query

#: How many a page has, unless the query says another number; and at most.
DEFAULT_LIMIT, MAX_LIMIT = 50, 100


class PageQuery(t.NamedTuple):
    """A query of a list. ``cursor`` and ``limit`` hold only where there are no problems.

    :ivar sent: its parameters. :ivar problems: what is wrong so far.
    :ivar cursor: ``nextCursor`` of the page before, None at the start. :ivar limit: how many are wanted.
    """

    sent: dict[str, str]
    problems: list[Problem]
    cursor: str | None
    limit: int


def read_page(
    form: re.Pattern[str],
    *known: str,
    judge: Callable[[Mapping[str, str]], Iterable[Problem]] = lambda sent: (),
) -> PageQuery:
    """The request's query.

    :param form: what a cursor looks like. :param known: the parameters beside ``limit`` and ``cursor``.
    :param judge: what is wrong with their values.
    """
    sent, problems = read_query(*known, "limit", "cursor")
    problems += judge(sent)
    limit = read_count(sent, "limit", DEFAULT_LIMIT, MAX_LIMIT, problems)
    cursor = sent.get("cursor")
    if cursor is not None and not form.fullmatch(cursor):
        problems.append(Problem("cursor", "is none of ours; send the nextCursor of the page before"))
    return PageQuery(sent, problems, cursor, limit)


def read_filtered(
    form: re.Pattern[str], filters: Mapping[str, str], statuses: Collection[str]
) -> tuple[dict[str, str | None], str | None, int]:
    """The request's query of a list that can be filtered: what is wanted by column, after which one, how many.

    :param filters: the column of each parameter; ``status`` is among them. :param statuses: what that may be.
    :raises ValidationFailed: with everything that is wrong with it.
    """

    def judge(sent: Mapping[str, str]) -> Iterator[Problem]:
        yield from (Problem(name, "is empty; leave it out") for name in filters if sent.get(name) == "")
        if sent.get("status") not in (None, "", *statuses):
            yield Problem("status", f"there are {', '.join(statuses)}")

    sent, problems, cursor, limit = read_page(form, *filters, judge=judge)
    if problems:
        raise ValidationFailed(problems)
    return {column: sent.get(name) for name, column in filters.items()}, cursor, limit


def page_of(items: Sequence[t.Any], further: object) -> Response:
    """``{items, nextCursor?}``.

    :param further: where the list goes on; None at its end.
    """
    return json_response({"items": items, **({} if further is None else {"nextCursor": str(further)})})
