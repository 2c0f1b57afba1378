"""Durable runs in which something is masked: nothing is stored in the clear, and they go on with all they had."""

from __future__ import annotations

import sqlite3
import typing as t
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import gevent
import pytest

from app import events as ev
from app.engine import motion
from app.engine.run import Run
from app.engine.services import Services
from app.redaction.policy import Policy
from app.store.sealing import Sealer
from app.web.answers import body_of
from plugins.spec import Tool
from tests.engine.durable_runs import PATIENCE_S, Story, carry_on, die, lose_owner
from tests.engine.redacted import Model, chunks, ended, everything, rig
from tests.support.engine import Recorder, agent, start

MAIL = "jane.doe@example.com"
CARD = "4111 1111 1111 1111"
SECRET = "sk-test-ABCDEF123456"
OPEN = {"type": "object"}


class Door:
    """Tools: one waits until a test lets it go on; one a person has to allow. Both note what they were given."""

    def __init__(self) -> None:
        self.open = gevent.event.Event()
        self.given: list[t.Any] = []

    def tools(self) -> list[Tool]:
        return [
            Tool("wait", "Waits.", OPEN, self._wait, idempotent=True),
            Tool("pay", "Pays.", OPEN, self._note, approval="always"),
        ]

    def _wait(self, arguments: dict[str, t.Any], context: t.Any) -> t.Any:
        self.given.append(arguments)
        with context.waits.wait():
            self.open.wait()
        return {"found": MAIL, "key": SECRET}

    def _note(self, arguments: dict[str, t.Any], context: t.Any) -> str:
        self.given.append(arguments)
        return f"paid by {MAIL}"


@pytest.fixture
def door() -> Door:
    return Door()


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def made(door: Door, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Services]:
    """A store of one's own: it is searched as a whole."""
    monkeypatch.setattr(motion, "QUIET_S", 0.001)
    with rig(tmp_path, model, door.tools()) as opened:
        yield opened
        door.open.set()


def document(mode: str | None, tool: str = "wait", **more: t.Any) -> dict[str, t.Any]:
    redact = {} if mode is None else {"redact": {"mode": mode}}
    made = agent("said/x", tools=[tool], memory="conversation", **more)
    return {**made, "settings": {"durable": True, **redact}}


def turns(model: Model, tool: str = "wait") -> None:
    model.turns = [
        [
            ("thinking", f"{MAIL} pays"),
            ("text", f"I ask {MAIL}"),
            ("call", (tool, {"who": MAIL, "card": CARD})),
        ],
        [("text", f"It is {MAIL}, "), ("text", f"{SECRET}, {CARD[:9]}"), ("text", f"{CARD[9:]}.")],
    ]


def thread(made: Services) -> t.Any:
    return made.store.threads.open("wf_test", "key_1", made.clock.new_id("run"))


def stored(made: Services) -> bytes:
    """The whole database, as whoever has its file sees it."""
    path = made.settings.data_dir / "studio.db"
    with closing(sqlite3.connect(path)) as connection:
        names = [row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")]
        rows = [row for name in names for row in connection.execute(f'select * from "{name}"')]
    cells = (cell for row in rows for cell in row if isinstance(cell, (str, bytes)))
    return b"\n".join(cell if isinstance(cell, bytes) else cell.encode() for cell in cells)


def clear(made: Services, *more: str) -> list[str]:
    """What of the data is in the database."""
    found = stored(made)
    return [value for value in (MAIL, CARD, *more) if value.encode() in found]


def begun(made: Services, model: Model, door: Door, doc: t.Any, **options: t.Any) -> tuple[Run, Story]:
    """A run whose tool is at work, everything up to now stored."""
    turns(model)
    entered = thread(made)
    run, recorder = start(made, doc, {"message": f"I am {MAIL}"}, thread=entered, key_id="key_1", **options)
    with gevent.Timeout(PATIENCE_S):
        while not door.given:
            gevent.sleep(0.001)
    assert run.durable is not None
    run.durable.keeper.commit()
    return run, Story(run.id, [recorder])


@pytest.mark.parametrize("mode", ["live", "strict"])
def test_what_a_run_goes_on_with_is_sealed(made: Services, model: Model, door: Door, mode: str) -> None:
    run, story = begun(made, model, door, document(mode))
    assert clear(made) == []
    assert b"journal" not in stored(made)
    die(run)
    lose_owner(made, run)
    door.open.set()
    model.asked.clear()
    again = carry_on(made, run.id)
    assert again is not None
    run, recorder = again
    story.parts.append(recorder)
    ended(run)
    # It went on with what it had: the model is told all of it.
    assert model.asked[0].messages[0].text == f"I am {MAIL}"  # type: ignore[union-attr]
    assert MAIL in str(model.asked[0].messages[-1])
    assert chunks(recorder) == "It is [email], sk-test-ABCDEF123456, [card]."
    assert run.state.blocks["agent_1"].output["content"] == chunks(recorder)  # type: ignore[index]
    assert story.faults(made) == []
    assert clear(made) == []
    told = "".join(everything(made, run, part) for part in story.parts)
    assert MAIL not in told
    assert CARD not in told
    kept = made.store.memories.page(run.request.thread_id or "", None, 10)[0]
    assert [(row.asked, row.answer) for row in kept] == [("I am [email]", chunks(recorder))]


def test_without_a_policy_nothing_is_sealed(made: Services, model: Model, door: Door) -> None:
    run, _ = begun(made, model, door, document(None))
    assert clear(made) == [MAIL, CARD]
    door.open.set()
    ended(run)


def test_stored_secrets_alone_seal_it_too(made: Services, model: Model, door: Door) -> None:
    made.store.secrets.set("TOKEN", SECRET)
    run, story = begun(made, model, door, document(None))
    die(run)
    lose_owner(made, run)
    door.open.set()
    again = carry_on(made, run.id)
    assert again is not None
    ended(again[0])
    assert chunks(again[1]) == f"It is {MAIL}, ***, {CARD}."
    assert SECRET not in "".join(everything(made, again[0], part) for part in [*story.parts, again[1]])
    assert clear(made, SECRET) == [MAIL, CARD]  # what it said, in its record


def test_a_deployments_policy_outlives_the_process(made: Services, model: Model, door: Door) -> None:
    run, _ = begun(made, model, door, document(None), redact=Policy("strict", ("email",), "<{kind}>"))
    die(run)
    lose_owner(made, run)
    door.open.set()
    again = carry_on(made, run.id)
    assert again is not None
    ended(again[0])
    assert again[0].request.redact == Policy("strict", ("email",), "<{kind}>")
    assert chunks(again[1]) == f"It is <email>, {SECRET}, {CARD}."


def test_a_key_that_is_not_here_leaves_the_run_to_others(made: Services, model: Model, door: Door) -> None:
    run, _ = begun(made, model, door, document("live"))
    die(run)
    lose_owner(made, run)
    sealer = made.store.secrets._sealer
    other = "b3RoZXItb3RoZXItb3RoZXItb3RoZXItb3RoZXItb3Q="
    made.store.secrets._sealer = Sealer((other,), made.settings.data_dir)
    try:
        assert "cannot be opened with the keys that are here" in str(made.runs.obstacle(run.id))
        assert carry_on(made, run.id) is None
    finally:
        made.store.secrets._sealer = sealer
    door.open.set()
    made.runs._carrier._left.clear()
    again = carry_on(made, run.id)
    assert again is not None
    ended(again[0])


# -- people --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["live", "strict"])
def test_people_see_what_may_be_seen_and_what_runs_is_what_was_asked(
    made: Services, model: Model, door: Door, mode: str
) -> None:
    turns(model, "pay")
    run, recorder = start(made, document(mode, "pay"), {"message": MAIL}, thread=thread(made), key_id="key_1")
    ended(run)
    assert run.paused is not None
    (row,) = made.store.decisions.open_of_run(run.id)
    assert row.review["arguments"] == {"who": "[email]", "card": "[card]"}
    (asked,) = recorder.of(ev.DecisionRequested)
    assert asked.review["arguments"] == row.review["arguments"]
    assert clear(made) == []
    said = {"decision": "approve", "reason": f"says {MAIL}"}
    won, stands = made.store.decisions.answer(row.id, said, "somebody")
    assert won
    assert stands is not None
    assert body_of(stands)["answer"] == {"decision": "approve"}
    run = t.cast(Run, made.runs.go_on(run.id))
    later = Recorder()
    run.attach(later)
    ended(run)
    assert door.given == [{"who": MAIL, "card": CARD}]
    told = everything(made, run, recorder) + everything(made, run, later)
    assert MAIL not in told
    assert [event.reason for event in later.of(ev.DecisionSettled)] in ([], ["says [email]"])
    assert chunks(later).startswith("It is [email]")
    assert clear(made) == []


def test_what_a_person_puts_in_its_place_runs_as_it_is(made: Services, model: Model, door: Door) -> None:
    turns(model, "pay")
    run, _ = start(made, document("live", "pay"), {"message": MAIL}, thread=thread(made), key_id="key_1")
    ended(run)
    (row,) = made.store.decisions.open_of_run(run.id)
    changed = {"who": "joe@example.com"}
    made.store.decisions.answer(row.id, {"decision": "edit", "arguments": changed}, "somebody")
    run = t.cast(Run, made.runs.go_on(run.id))
    later = Recorder()
    run.attach(later)
    ended(run)
    assert door.given == [changed]
    assert "joe@example.com" not in everything(made, run, later)


def test_a_policy_is_stored_as_it_is() -> None:
    from app.redaction.policy import restored
    from app.redaction.policy import stored as kept

    policy = replace(Policy(), mode="live", detectors=("email",))
    assert restored(kept(policy)) == policy
    assert restored(kept(None)) is None
