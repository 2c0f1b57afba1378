"""Structured output: what a model is told of a response format, and what its answer must be.

Law of this room: an answer that is not exactly one object of the schema fails the run; nothing is
repaired but a code fence around it.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping

from app import encoding
from app.errors import RunError
from app.schemas.json_schema import checker

_FENCE = "```"
_OPENING = re.compile(r"```[A-Za-z0-9_-]*[ \t]*\r?")
CODE = "structured_output_invalid"
_MAX_SHOWN = 3
_WHY = {
    "length": "the output limit cut it; give more max_tokens",
    "refusal": "it refused to answer",
    "content_filter": "the vendor's content filter stopped it",
}


def strip_fences(text: str) -> str:
    """``text`` without one Markdown fence around all of it, and without space around that."""
    bare = text.strip()
    opening, _, rest = bare.partition("\n")
    # By its ends, not by one pattern: that goes back over each space of a model that writes nothing else any more.
    if rest.endswith(_FENCE) and _OPENING.fullmatch(opening):
        return rest.removesuffix(_FENCE).strip()
    return bare


def parse(text: str, schema: Mapping[str, t.Any], reason: str = "stop") -> dict[str, t.Any]:
    """The object a model answered.

    :param schema: the agent's ``response_format``.
    :param reason: why the model ended; it explains an answer that is no JSON.
    :raises RunError: ``structured_output_invalid``: no JSON, no object, or not of the schema. The message has
        paths only; what the model wrote is in ``detail``.
    """
    answer = strip_fences(text)
    if not answer:
        message = f"The model gave no structured output: {_WHY.get(reason, 'its answer is empty')}."
        raise RunError(CODE, message)
    try:
        value = encoding.loads(answer)
    except ValueError as error:
        message = f"The model's structured output is no valid JSON: {_WHY.get(reason, 'ask again')}."
        raise RunError(CODE, message, detail=f"{error}: {answer[:2000]}") from None
    if not isinstance(value, dict):
        raise RunError(CODE, "The model's structured output is no JSON object.", detail=answer[:2000])
    problems = checker(schema).problems(value)
    if problems:
        places = ", ".join(dict.fromkeys(path or "the top level" for path, _ in problems[:_MAX_SHOWN]))
        more = f" and {len(problems) - _MAX_SHOWN} more" if len(problems) > _MAX_SHOWN else ""
        detail = "; ".join(f"{path}: {message}" for path, message in problems)
        message = f"The model's structured output does not fit its response_format at {places}{more}."
        raise RunError(CODE, message, detail=detail)
    return value


def instruction(schema: Mapping[str, t.Any]) -> str:
    """What a model without native structured output is told, to be added to its system message."""
    written = encoding.dumps(schema).decode()
    return (
        "Answer with one JSON object that fits this JSON Schema, and with nothing else: "
        f"no explanation before or after it, no code fence.\n{written}"
    )
