"""How much is kept in files, by one and by all visitors of a chat."""

from __future__ import annotations

import pytest

from app.config import Settings
from app.store import Store
from app.store.files import FilesFull
from tests.store import other


def test_what_all_of_a_chat_keep_is_added_up(store: Store) -> None:
    now = 10**12
    for owner, size in (("chat:c1:a", 3), ("chat:c1:b", 4), ("chat:c10:a", 5), ("key_1", 6), ("%", 7)):
        store.files.put(owner, "a", "text/plain", bytes(size), None, 100)
    store.files.put("chat:c1:a", "old", "text/plain", bytes(50), now - 1, 100)  # its time is over
    assert store.files.kept("chat:c1:") == 7
    assert store.files.kept("chat:c10:") == 5
    assert store.files.kept("chat:c2:") == 0
    assert store.files.kept("%") == 7
    with pytest.raises(FilesFull):
        store.files.put("key_1", "b", "text/plain", bytes(95), None, 100)


def test_a_quota_that_several_share(store: Store) -> None:
    def put(owner: str, size: int) -> None:
        store.files.put(owner, "a", "text/plain", bytes(size), None, 10, together="chat:c1:")

    put("chat:c1:a", 6)
    put("chat:c1:b", 4)
    with pytest.raises(FilesFull):
        put("chat:c1:c", 1)
    store.files.put("chat:c2:a", "a", "text/plain", bytes(10), None, 10, together="chat:c2:")


@pytest.mark.parametrize("together", ["", "chat:c1:"], ids=["one", "several"])
def test_processes_at_once_do_not_pass_a_quota(settings: Settings, store: Store, together: str) -> None:
    """Each may keep one more for as long as it does not see what the others are about to keep."""
    owners = [f"chat:c1:{name if together else 'a'}" for name in "abcd"]
    arguments = (together, 100_000, 1_000_000, 10)
    processes = [other.start("upload", settings, owner, *arguments) for owner in owners]
    assert [other.line(process) for process in processes] == ["ready"] * 4
    for process in processes:
        other.go_on(process)
    assert sum(int(other.finish(process)) for process in processes) == 10
    assert store.files.kept("chat:c1:") == 1_000_000
