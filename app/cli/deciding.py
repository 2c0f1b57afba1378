"""What a run asks people, in a terminal: what is shown of it, and how it is answered there.

Law of this room: what is shown may have been made by a model or a tool; a terminal must not obey it. Nothing is decided
by an empty line, an end of input or an interrupt.
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Mapping

import click

from app import encoding
from app.cli.render import harmless

Decision = Mapping[str, t.Any]


def words(decision: Decision) -> str:
    """A decision for people to read."""
    review = decision["review"]
    lines = [f"{decision['blockId']} waits for a decision ({decision['id']})."]
    if review.get("prompt"):
        lines.append(str(review["prompt"]))
    lines += [f"  because: {reason}" for reason in review.get("reasons", ())]
    if review["kind"] == "tool":
        lines += [f"  call {review['tool']} with", _indented(_json(review.get("arguments", {})))]
    else:
        lines.append(_indented(str(review.get("draft", ""))))
    for name, value in (review.get("show") or {}).items():
        lines += [f"  {name}:", _indented(value if isinstance(value, str) else _json(value))]
    if "expiresAt" in decision:
        lines.append(f"  until {decision['expiresAt']}")
    return harmless("\n".join(lines))


def how_to_answer(decision: Decision, remote: bool) -> str:
    """What to do about a decision where nobody can be asked."""
    id_ = decision["id"]
    note = "" if remote else ", on this data folder"
    return harmless(
        f"{words(decision)}\nAnswer it{note}:\n  studio decisions approve {id_}\n"
        f'  studio decisions reject {id_} --reason "…"'
    )


def ask(decision: Decision) -> dict[str, t.Any]:
    """Ask whoever sits at the terminal: a body as of ``POST /api/runs/{id}/resume``.

    :raises click.Abort: they do not want to decide.
    """
    click.echo(words(decision), err=True)
    while True:
        wanted = click.prompt(
            "[a]pprove, [e]dit or [r]eject?",
            type=click.Choice(("a", "e", "r")),
            show_choices=False,
            err=True,
        )
        answer: dict[str, t.Any] = {"pauseId": decision["id"], "decision": _DECISIONS[wanted]}
        if wanted == "r":
            reason = click.prompt("Reason (may be empty)", default="", show_default=False, err=True)
            return answer | ({"reason": reason} if reason else {})
        if wanted == "a":
            return answer
        changed = _edited(decision)
        if changed is not None:
            return answer | changed


_DECISIONS = {"a": "approve", "e": "edit", "r": "reject"}


def _edited(decision: Decision) -> dict[str, t.Any] | None:
    """What they make of it in their editor; None when they left it as it was, or it is no JSON."""
    review = decision["review"]
    if review["kind"] != "tool":
        text = click.edit(str(review.get("draft", "")))
        return None if text is None else {"text": text}
    text = click.edit(_json(review.get("arguments", {})), extension=".json")
    if text is None:
        return None
    try:
        return {"arguments": encoding.loads(text)}
    except ValueError as error:
        click.echo(f"That is not JSON: {error}", err=True)
        return None


def _json(value: t.Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
