"""Drafts and versions under many hands: random changes against a model, and two processes at once."""

from __future__ import annotations

import typing as t
from collections.abc import Callable
from dataclasses import dataclass, field

import gevent
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.store import Store, StoreConflict
from app.store.errors import RevisionConflict
from app.store.versions import VersionUnknown
from app.store.workflows import HasChats, WorkflowExists

EXAMPLES, ROUNDS = 40, 15
Two = tuple[Store, Store]


def draft(number: int) -> dict[str, t.Any]:
    return {"name": f"Draft {number}", "blocks": [number]}


@dataclass
class Model:
    """What a workflow must be like."""

    drafted: dict[str, t.Any]
    revision: int = 1
    live: int | None = None
    versions: list[tuple[str | None, dict[str, t.Any]]] = field(default_factory=list)

    def edit(self, number: int) -> None:
        if draft(number) != self.drafted:
            self.drafted = draft(number)
            self.revision += 1

    def deploy(self, name: str | None) -> tuple[int, bool]:
        if self.live is not None:
            called, document = self.versions[self.live - 1]
            if document == self.drafted and name in (None, called):
                return self.live, False
        self.versions.append((name, self.drafted))
        self.live = len(self.versions)
        self.revision += 1
        return self.live, True

    def undeploy(self) -> int | None:
        was, self.live = self.live, None
        self.revision += was is not None
        return was

    def rollback(self, number: int, take: bool) -> bool:
        document = self.versions[number - 1][1]
        goes_live, is_taken = self.live != number, take and self.drafted != document
        self.live = number
        if is_taken:
            self.drafted = document
        self.revision += goes_live + is_taken
        return goes_live or is_taken


STEPS = st.one_of(
    st.tuples(st.just("edit"), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("deploy"), st.sampled_from([None, None, "a", "b"]), st.booleans()),
    st.tuples(st.just("undeploy"), st.none(), st.booleans()),
    st.tuples(st.just("rollback"), st.tuples(st.integers(1, 4), st.booleans()), st.booleans()),
)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEPS, max_size=12), st.integers(0, 1))
def test_any_changes_do_what_the_model_does(
    two: Two, steps: list[tuple[str, t.Any, bool]], first: int
) -> None:
    """Changes come from either process in turn; ``stale`` ones name a revision that is none and change nothing."""
    made = two[first].workflows.create(draft(0), "Draft 0").id
    model = Model(draft(0))
    for place, (action, value, stale) in enumerate(steps):
        store = two[(first + place) % 2].workflows
        seen = model.revision + 1 if stale else model.revision
        done = _step(store, made, model, action, value, seen, stale)
        if stale:
            with pytest.raises(StoreConflict):
                done()
        else:
            done()
        _check(two[(first + place + 1) % 2], made, model)


def _step(
    store: t.Any, made: str, model: Model, action: str, value: t.Any, seen: int, stale: bool
) -> Callable[[], None]:
    """Does one change, and sees that it came to what the model says."""

    def edit() -> None:
        row = store.change(made, seen, draft(value), f"Draft {value}")
        model.edit(value)
        assert row == store.get(made)

    def deploy() -> None:
        found = store.deploy(made, value, None, "somebody", seen)
        assert found == model.deploy(value)

    def undeploy() -> None:
        found = store.versions.undeploy(made, seen)
        assert found == model.undeploy()

    def rollback() -> None:
        number, take = value
        if not stale and number > len(model.versions):
            with pytest.raises(VersionUnknown):
                store.versions.rollback(made, number, seen, take)
            return
        found = store.versions.rollback(made, number, seen, take)
        assert found == model.rollback(number, take)

    return {"edit": edit, "deploy": deploy, "undeploy": undeploy, "rollback": rollback}[action]


def _check(store: Store, made: str, model: Model) -> None:
    row = store.workflows.get(made)
    assert row is not None
    assert (row.document, row.name) == (model.drafted, model.drafted["name"])
    assert (row.live_version, row.revision) == (model.live, model.revision)
    live = store.workflows.live(made)
    assert (None if live is None else live.version) == model.live
    kept = [store.workflows.version(made, number + 1) for number in range(len(model.versions))]
    assert [(each.name, each.document) for each in kept if each is not None] == model.versions
    page, further = store.workflows.versions.page(made, None, 100)
    assert ([each.version for each in page], further) == (list(range(len(model.versions), 0, -1)), None)
    differs = model.live is None or model.versions[model.live - 1][1] != model.drafted
    for _ in range(2):  # the second time from memory
        assert store.workflows.draft_differs(made, row.created_at, row.revision) == differs


def _both(*jobs: Callable[[], t.Any]) -> list[t.Any]:
    """What each came to, or raised, done at once."""

    def outcome(job: Callable[[], t.Any]) -> t.Any:
        try:
            return job()
        except StoreConflict as conflict:
            return conflict

    spawned = [gevent.spawn(outcome, job) for job in jobs]
    gevent.joinall(spawned, raise_error=True)
    return [each.value for each in spawned]


def test_of_two_writers_one_is_refused(two: Two) -> None:
    one, other = (store.workflows for store in two)
    made = one.create(draft(0), "Draft 0").id
    for number in range(ROUNDS):
        row = one.get(made)
        assert row is not None
        seen, words = row.revision, [f"{number}/{which}" for which in range(2)]
        outcomes = _both(
            lambda seen=seen, name=words[0]: one.change(made, seen, {"name": name}, name),
            lambda seen=seen, name=words[1]: other.change(made, seen, {"name": name}, name),
        )
        refused = [isinstance(outcome, RevisionConflict) for outcome in outcomes]
        assert sorted(refused) == [False, True]
        found = other.get(made)
        assert found is not None
        assert (found.name, found.revision) == (words[refused.index(False)], seen + 1)


def test_two_who_deploy_make_two_versions(two: Two) -> None:
    one, other = (store.workflows for store in two)
    made = one.create(draft(0), "Draft 0").id
    numbers: list[int] = []
    for number in range(ROUNDS):
        outcomes = _both(
            lambda name=f"{number}a": one.deploy(made, name),
            lambda name=f"{number}b": other.deploy(made, name),
        )
        assert all(is_new for _, is_new in outcomes)
        numbers += [version for version, _ in outcomes]
    assert sorted(numbers) == list(range(1, 2 * ROUNDS + 1))


def test_a_chat_is_never_left_without_its_workflow(two: Two) -> None:
    one, other = two
    for number in range(ROUNDS):
        made = one.workflows.create(draft(0), "Draft 0").id
        chat = {"workflow_id": made, "slug": f"at-once-{number}", "title": "Help"}
        removed, created = _both(
            lambda made=made: one.workflows.remove(made, None), lambda chat=chat: other.chats.create(chat)
        )
        if isinstance(removed, HasChats):
            assert one.chats.get(created.id) is not None
            assert one.workflows.get(made) is not None
            assert one.workflows.remove(made, None, chats=True)
            assert other.chats.get(created.id) is None
        else:
            assert removed is True
            assert isinstance(created, StoreConflict)


def test_an_id_is_given_once(two: Two) -> None:
    one, other = (store.workflows for store in two)
    for number in range(ROUNDS):
        outcomes = _both(
            lambda name=f"once-{number}": one.create(draft(0), "one", name),
            lambda name=f"once-{number}": other.create(draft(0), "other", name),
        )
        assert sorted(isinstance(outcome, WorkflowExists) for outcome in outcomes) == [False, True]


def test_whoever_changes_what_is_gone_is_told(two: Two) -> None:
    store = two[0].workflows
    assert store.change("nobody", None, {}, "x") is None
    assert store.remove("nobody", None) is False
    for change in (
        lambda: store.deploy("nobody"),
        lambda: store.versions.undeploy("nobody"),
        lambda: store.versions.rollback("nobody", 1),
    ):
        with pytest.raises(VersionUnknown):
            change()
