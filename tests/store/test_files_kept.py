"""How much is kept in files, by one and by all visitors of a chat."""

from __future__ import annotations

import pytest

from app.store import Store
from app.store.files import FilesFull


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
