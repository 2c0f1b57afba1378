"""What tests over sockets share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from providers.http_connection import POOL


@pytest.fixture(autouse=True)
def _empty_pool() -> Iterator[None]:
    POOL.close()
    yield
    POOL.close()
