"""A vendor that holds a thousand calls, and real servers for them."""

from __future__ import annotations

import resource
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.field.rig import Server, environ, opened
from tests.support.servers import studio
from tests.support.vendor import Vendor
from tests.support.vendor import vendor as one_vendor

#: Descriptors that a thousand streams take in this process: each a client's socket and a vendor's.
DESCRIPTORS = 4096


@pytest.fixture(autouse=True, scope="session")
def _descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft, DESCRIPTORS)
    assert hard == resource.RLIM_INFINITY or wanted <= hard, f"a thousand streams need {wanted} descriptors"
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    """A vendor for one test."""
    with one_vendor() as made:
        yield made


@contextmanager
def serving(folder: Path, vendor: Vendor, **more: str) -> Iterator[Server]:
    """A real Studio with one agent to be deployed by the test."""
    with studio(folder, environ(vendor, **more)) as made, opened(made) as server:
        assert made.key
        yield server


def statuses(server: Server) -> dict[tuple[str, str | None], int]:
    """How many runs of the store have which status and cause."""
    with closing(sqlite3.connect(server.studio.data / "studio.db")) as connection:
        rows = connection.execute("select status, cause, count(*) from runs group by status, cause")
        return {(status, cause): count for status, cause, count in rows}
