"""One replay server for a module of tests, and a server for each choice of wires in front of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.recordings.cases import OTHER_WIRES, environ
from tests.recordings.playing import Rig
from tests.recordings.replaying import Replaying, replaying
from tests.support.servers import studio


@pytest.fixture(scope="module")
def replay() -> Iterator[Replaying]:
    with replaying() as server:
        yield server


@pytest.fixture(scope="module")
def rigs(replay: Replaying, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[bool, Rig]]:
    """A server with the families' own wires (False) and one with their other wires (True)."""
    plain = environ(replay.base)
    with (
        studio(tmp_path_factory.mktemp("own"), plain) as own,
        studio(tmp_path_factory.mktemp("other"), {**plain, **OTHER_WIRES}) as other,
    ):
        made = {False: Rig(own), True: Rig(other)}
        yield made
        for rig in made.values():
            rig.store.close()
