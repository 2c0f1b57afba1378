"""A data folder of one's own, driven by real processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import servers


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[servers.Studio]:
    """Not started: commands work on its folder."""
    with servers.studio(tmp_path / "data", start=False) as made:
        yield made


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Studio]:
    """A running server with its examples and an admin key."""
    with servers.studio(tmp_path_factory.mktemp("served") / "data") as made:
        yield made
