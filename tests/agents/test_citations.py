"""What counts as a citation: a mark, a passage of that number, and words that stand in it."""

from __future__ import annotations

import typing as t

import pytest

from app.agents.citations import cited
from app.agents.templates import evaluate, render

LEAVE = (
    "# Leave\n\nEvery employee has 30 days of holidays a year. Days that are left at the end of the year can be taken "
    "until the end of\nMarch; after that they are lost.\n\nSick leave is *paid in full* from the first day."
)
TRAVEL = "Hotels may cost 140 euros a night, breakfast included. 従業員は年間30日の休暇があります。"
PASSAGES: list[dict[str, t.Any]] = [
    {"index": 1, "text": LEAVE, "source": "leave.md"},
    {"index": 2, "text": TRAVEL, "source": "travel.md"},
]

MATRIX: tuple[tuple[str, list[int]], ...] = (
    # Quotations.
    ('"Every employee has 30 days of holidays a year." [1]', [1]),
    ('You have a month: "30 days of holidays a year" [1].', [1]),
    ("»Every employee has 30 days« [1]", [1]),
    ("„Every employee has 30 days“ [1]", [1]),
    ("\u201cuntil the end of March\u201d[1]", [1]),  # a line break of the source is a space
    ('"Every employee … holidays a year" [1]', [1]),
    ('"Every employee [...] after that they are lost" [1]', [1]),
    ('"paid in full from the first day" [1]', [1]),
    ('"EVERY EMPLOYEE has 30  days" [1]', [1]),
    # Sentences, word for word.
    ("Every employee has 30 days of holidays a year [1].", [1]),
    ("Every employee has 30 days of holidays a year. [1]", [1]),
    ("Of course. Every employee has 30 days of holidays a year. [1] Enjoy!", [1]),
    ("The handbook says: every employee has 30 days of holidays a year [1].", [1]),
    ("- Hotels may cost 140 euros a night [2]\n- Every employee has 30 days of holidays a year [1]", [2, 1]),
    ("従業員は年間30日の休暇があります [2]。", [2]),
    ("そうです。従業員は年間30日の休暇があります。[2]", [2]),
    # Several marks.
    ("Every employee has 30 days of holidays a year [1][2].", [1]),
    ("Every employee has 30 days of holidays a year [2, 1].", [1]),
    ('"Hotels may cost 140 euros" [2], and "sick leave is paid in full" [1].', [2, 1]),
    ('"Hotels may cost 140 euros" [2], again "a night, breakfast included" [2].', [2]),
    # No citation.
    ("Every employee has 30 days of holidays a year.", []),
    ("Every employee has 30 days of holidays a year [3].", []),
    ("Every employee has 30 days of holidays a year [0].", []),
    ("Every employee has 40 days of holidays a year [1].", []),
    ('"Every employee has 40 days of holidays a year" [1]', []),
    ('"holidays a year … every employee" [1]', []),
    ("Hotels may cost 140 euros a night [1].", []),
    ("[1]", []),
    ("[1] Every employee has 30 days of holidays a year.", []),
    ("Yes [1].", []),
    ('"a year" [1]', []),
    ("Every employee has 30 days of holidays a year (1).", []),
    ("Every employee has 30 days of holidays a year [1a].", []),
    ("", []),
)


@pytest.mark.parametrize(("text", "numbers"), MATRIX)
def test_a_citation_is_a_mark_behind_what_stands_in_that_passage(text: str, numbers: list[int]) -> None:
    assert [passage["index"] for passage in cited(text, PASSAGES)] == numbers


def test_no_passages_are_cited_by_nobody() -> None:
    assert cited('"Every employee has 30 days" [1]', []) == []
    assert cited("x [1]", ["no passage", None, 3]) == []


@pytest.mark.parametrize(
    "text",
    [
        "[1] " * 50_000,
        "[1]" * 50_000,
        '"' * 100_000,
        " " * 200_000,
        "\n" * 200_000,
        "[" * 200_000,
        "a. " * 50_000,
    ],
    ids=lambda text: repr(text[:4]),
)
def test_any_text_is_judged_in_linear_time(text: str) -> None:
    assert cited(text, PASSAGES) == []
    assert cited(f"{text}[1]", PASSAGES) == []


def test_templates_and_expressions_have_it() -> None:
    seen = {"blocks": {"find": {"results": PASSAGES}, "say": {"content": '"Every employee has 30 days" [1]'}}}
    assert render("{{ (blocks.say.content | cited(blocks.find.results))[0].source }}", seen) == "leave.md"
    assert evaluate("blocks.say.content | cited(blocks.find.results)", seen) == [PASSAGES[0]]
    for nothing in (
        "blocks.gone.content | cited(blocks.find.results)",
        "blocks.say.content | cited(blocks.gone.results)",
    ):
        assert evaluate(f"({nothing}) | length", seen) == 0
