"""No client outlives its test."""

from __future__ import annotations

import typing as t

import pytest

from tests.transport.server import Client


@pytest.fixture(autouse=True)
def _close_clients() -> t.Iterator[None]:
    yield
    while Client.begun:
        Client.begun.pop().sock.close()
