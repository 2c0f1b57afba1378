"""The ``approval`` block: a person releases a text, changes it, or turns it down.

Law of this room: what a person is shown is taken down before they are asked, and exactly that, or what they put in its
place, goes on. Whoever is not asked, or does not answer, has released nothing, unless ``when`` says that none need be.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app import encoding
from app.agents import hashes
from app.agents.approval import lets_run
from app.agents.loop import decision_key
from app.agents.said import said_before
from app.agents.templates import evaluate
from app.agents.values import holds
from app.errors import BlockError
from app.schemas.paths import join, shown
from plugins.spec.blocks import BlockContext, BlockType
from plugins.spec.decisions import Answer, Ask

APPROVED, REJECTED, EXPIRED = "approved", "rejected", "expired"
MOST = 20
#: Longest time for an answer, in seconds: a year.
LONGEST_S = 31_536_000
_MOST_NAME = 100
_ASKED, _ANSWER = "asked", "answer"


@dataclass(frozen=True, slots=True)
class ApprovalConfig:
    """What a person is asked, and what they are shown."""

    prompt: str = field(metadata={"doc": "What they are asked.", "template": True, "nonempty": True})
    show: Sequence[t.Any] = field(
        default=(),
        metadata={
            "doc": "What they are shown beside the text: expressions such as `blocks.search.citations`, or "
            "`{name, value}` objects whose `value` is one.",
            "template": True,
            "expression": "value",
            "most": MOST,
        },
    )
    draft: str | None = field(
        default=None,
        metadata={
            "doc": "The text that is released, changed or turned down. Default: the `content` (or `text`) of the block "
            "before it.",
            "template": True,
        },
    )
    when: str | None = field(
        default=None,
        metadata={
            "doc": "A Jinja2 expression, with or without its braces: ask only if it holds; otherwise the draft goes on "
            "by `approved`. Default: always ask.",
            "template": True,
            "expression": True,
        },
    )
    reasons: Sequence[str] = field(
        default=(),
        metadata={
            "doc": "Why they are asked, for them to read; those that render empty are left out.",
            "template": True,
            "most": MOST,
        },
    )
    deadline_s: float | None = field(
        default=None,
        metadata={
            "doc": "Seconds after which it goes on by `expired`. Default: it waits.",
            "above": 0,
            "high": LONGEST_S,
        },
    )


def check(config: ApprovalConfig, path: str) -> list[tuple[str, str]]:
    """The entries of ``show``."""
    problems: list[tuple[str, str]] = []
    names: set[str] = set()
    for place, entry in enumerate(config.show):
        where = join(path, "show", place)
        name = _name(entry)
        if name is None:
            problems.append(
                (where, f"must be an expression, or an object of name and value, not {shown(entry)}")
            )
        elif not name or len(name) > _MOST_NAME:
            problems.append(
                (where, f"must have a name of 1 to {_MOST_NAME} characters; give it one of its own")
            )
        elif name in names:
            problems.append((where, f"{shown(name)} is there twice; names must differ"))
        names.add(name or "")
    return problems


def _name(entry: t.Any) -> str | None:
    """How an entry of ``show`` is called; empty where it has no name, None for what is no entry."""
    if isinstance(entry, str):
        name = entry.strip().removeprefix("{{").removesuffix("}}").strip()
        return "" if "{" in name else name
    if isinstance(entry, Mapping) and entry.keys() == {"name", "value"}:
        return entry["name"].strip() if isinstance(entry["name"], str) else None
    return None


def run(context: BlockContext, config: ApprovalConfig) -> Mapping[str, t.Any]:
    """Ask if it is due, and take the edge.

    :raises RunError: ``template_failed``; ``journal_mismatch``: what was asked before is not what is asked now.
    :raises BlockError: ``approval_unavailable``: nobody can be asked. ``rejected``, ``decision_expired``: no edge takes
        that up; blocks behind the error edge read the output all the same.
    """
    question = _question(context, config)
    draft = question.get("draft")
    if not question["asked"]:
        context.take(APPROVED)
        return {"decision": "approve", "asked": False, **({} if draft is None else {"content": draft})}
    answer = _answer(context, config, question)
    told = {"reason": answer.reason, "by": answer.by}
    output = {
        "decision": answer.verdict,
        "asked": True,
        **{key: value for key, value in told.items() if value is not None},
    }
    if lets_run(answer):
        text = answer.text if answer.verdict == "edit" and answer.text is not None else draft
        context.take(APPROVED)
        return output if text is None else {"content": text, **output}
    # Without the text: nobody has released it.
    handle = EXPIRED if answer.verdict == "expired" else REJECTED
    if not context.leaves_by(handle):
        raise _failure(context, handle, output)
    context.take(handle)
    return output


def _question(context: BlockContext, config: ApprovalConfig) -> Mapping[str, t.Any]:
    """What is asked: as it was rendered when the block began, also where it goes on later."""
    own = hashes.of(config) if context.can_ask else None
    row = context.journal.find(0, _ASKED)
    if row is not None:
        if own is not None:
            hashes.check(row.input_hash, f"what {context.name} asks", own)
        return t.cast("Mapping[str, t.Any]", row.value)
    question = _rendered(context, config)
    context.journal.write(0, _ASKED, "asked", "done", question, own)
    return question


def _rendered(context: BlockContext, config: ApprovalConfig) -> dict[str, t.Any]:
    seen = context.variables()
    draft = said_before(context) if config.draft is None else context.render(config.draft)
    if config.when is not None and not holds(evaluate(config.when, seen)):
        return {"asked": False, "draft": draft}
    reasons = [context.render(reason).strip() for reason in config.reasons]
    values = ((_name(entry), entry if isinstance(entry, str) else entry["value"]) for entry in config.show)
    return {
        "asked": True,
        "draft": draft,
        "prompt": context.render(config.prompt),
        "show": {name: encoding.plain(evaluate(value, seen)) for name, value in values},
        "reasons": [reason for reason in reasons if reason],
    }


def _answer(context: BlockContext, config: ApprovalConfig, question: Mapping[str, t.Any]) -> Answer:
    """What a person answered; taken down as soon as it is known, so that it counts once and for all."""
    row = context.journal.find(0, decision_key(_ANSWER))
    if row is not None:
        return t.cast(Answer, row.value)
    ask = Ask(
        _ANSWER,
        "answer",
        draft=question["draft"],
        reasons=question["reasons"],
        prompt=question["prompt"],
        show=question["show"],
        deadline_s=config.deadline_s,
    )
    (answer,) = context.decide([ask])
    context.journal.write(0, decision_key(_ANSWER), "decision", "done", answer)
    return answer


def _failure(context: BlockContext, handle: str, output: Mapping[str, t.Any]) -> BlockError:
    if handle == EXPIRED:
        return BlockError(
            "decision_expired",
            f"Nobody decided about {context.name} in time; see its deadline_s.",
            output=output,
        )
    return BlockError("rejected", f"A person has turned {context.name} down.", output=output)


APPROVAL = BlockType(
    type_name="approval",
    config=ApprovalConfig,
    run=run,
    summary="Asks a person to release a text, to change it, or to turn it down.",
    handles=(APPROVED, REJECTED, EXPIRED, "error"),
    outputs=("content", "decision", "reason", "by", "asked"),
    check=check,
    answers=True,
    fails_without=(REJECTED, EXPIRED),
)
