"""Spans with prompts and answers of a run that is redacted: they hold what may be told."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from app import events as ev
from app.engine.observe.observer import Observing
from plugins.spec import Tool
from tests.engine.redacted import Model, ended, rig
from tests.support.engine import agent, start
from tests.support.servers import wait_until
from tests.support.spans import Traces

MAIL = "jane.doe@example.com"


def look(arguments: t.Any, context: t.Any) -> t.Any:
    return {"found": MAIL}


@pytest.mark.parametrize("redact", [{"mode": "live"}, {"mode": "strict"}, None])
def test_what_spans_say_is_masked_where_the_run_is(tmp_path: Path, redact: t.Any) -> None:
    model = Model()
    model.turns = [[("text", "I look"), ("call", ("look", {"who": MAIL}))], [("text", f"It is {MAIL}")]]
    with rig(tmp_path, model, [Tool("look", "Looks.", {"type": "object"}, look)]) as made:
        traces = Traces(made, content=True)
        document = agent("said/x", tools=["look"], redact=redact, system=f"You know {MAIL}.")
        ended(start(made, document, {"message": f"I am {MAIL}"})[0])
        said = str([dict(span.attributes or {}) for span in traces.spans])
        made.observing = Observing()
    assert (MAIL in said) is (redact is None)
    assert ("I am [email]" in said) is (redact is not None)
    assert ("It is [email]" in said) is (redact is not None)


@pytest.mark.parametrize(
    ("redact", "said", "cut"),
    [
        ({"mode": "live"}, "It is jane.doe@exam", "jane.doe@exam"),
        (None, "It is Zebra-4711-Umb", "Zebra-4711"),
    ],
    ids=["personal data", "a stored secret"],
)
def test_what_was_cut_off_in_the_middle_of_a_value_is_left_out(
    tmp_path: Path, redact: t.Any, said: str, cut: str
) -> None:
    model = Model()
    model.turns = [[("text", said), ("stall", None)]]
    with rig(tmp_path, model) as made:
        made.store.secrets.set("KEY", "Zebra-4711-Umbrella")
        traces = Traces(made, content=True)
        run, told = start(made, agent("said/x", redact=redact), {"message": "Hello"})
        wait_until(lambda: any(isinstance(each.event, ev.TextDelta) for each in told.envelopes), "it speaks")
        run.cancel("stop_requested")
        ended(run)
        answers = str([dict(span.attributes or {}) for span in traces.spans])
        made.observing = Observing()
    assert "It is" in answers
    assert cut not in answers
