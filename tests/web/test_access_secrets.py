"""How secrets are compared: in constant time, or looked up by a digest; the program's own text is read for it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.support.shared import ROOT

#: What a value is called that nobody may guess piece by piece.
_SECRET = re.compile(
    r"(?:\w+_)?(?:password|passphrase|token|otp|digest|signature|nonce|secret|hash|hashed|plaintext|api_key|cookie)"
)
_JUDGED = ("Eq", "NotEq", "In", "NotIn")

#: Comparisons that look like one of a secret and are none, each with its reason.
_NONE = {
    "row_hash not in expected": "a journal's row, of what a run was given",
    "row.password != before.password": "two stored hashes: whether a chat's was changed, for the audit log",
}
#: Who judges what somebody sends, and by what.
_JUDGES = {
    "app/web/auth.py": "hmac.compare_digest",  # the token of the metrics
    "app/web/csrf.py": "hmac.compare_digest",
    "app/web/passwords.py": "check_password_hash",
    "app/store/keys.py": "c.hash == bindparam('hash')",
    "app/store/owner.py": "c.setup_hash == bindparam('token')",
    "app/store/decisions.py": "c.token_hash == bindparam('hash')",
}


def _word(node: ast.expr) -> str:
    """What a side of a comparison is called."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Call):
        return _word(node.func)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value)
    return ""


def comparisons(text: str) -> Iterator[str]:
    """The comparisons in a program's text that judge a secret, but those that the database makes by a digest."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Compare):
            continue
        sides = [node.left, *node.comparators]
        if any(isinstance(side, ast.Constant) for side in sides):
            continue  # with nothing, or with a word of ours
        if not any(type(each).__name__ in _JUDGED for each in node.ops):
            continue
        told = ast.unparse(node)
        if any(_SECRET.fullmatch(_word(side)) for side in sides) and not re.fullmatch(
            r"c\.\w*hash == bindparam\('\w+'\)", told
        ):
            yield told


def test_no_secret_is_compared_piece_by_piece() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {each}"
        for path in sorted((ROOT / "app").rglob("*.py"))
        for each in comparisons(path.read_text())
        if each not in _NONE
    }
    assert found == set()


@pytest.mark.parametrize(
    "text",
    [
        "if given == row.password: pass",
        "ok = request.headers['token'] != known",
        "x = sent_token in (row.token, other)",
        "c.password == bindparam('password')",
        "a = digest(text) == stored",
    ],
)
def test_the_reading_finds_what_it_looks_for(text: str) -> None:
    assert list(comparisons(text)) != []


@pytest.mark.parametrize(("file", "way"), _JUDGES.items(), ids=_JUDGES)
def test_who_judges_a_secret_does_it_in_one_of_the_two_ways(file: str, way: str) -> None:
    assert way in ast.unparse(ast.parse((ROOT / file).read_text()))
