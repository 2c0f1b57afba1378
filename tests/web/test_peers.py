"""The sockets on which worker processes of one host reach one another."""

from __future__ import annotations

import socket
import stat
import typing as t
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import gevent
import pytest

from app.web import peers


@contextmanager
def listening(data: Path, owner: str) -> Iterator[peers.Listener]:
    made = peers.listen(data, owner)
    assert made is not None
    try:
        yield made
    finally:
        made.close()


def names(data: Path) -> set[str]:
    return {path.name for path in (data / "run").iterdir()}


def test_it_is_reached_by_its_owners_name_and_gone_when_closed(tmp_path: Path) -> None:
    """Also where the name of the folder is longer than an address may be."""
    data = tmp_path / ("x" * 100) / ("y" * 100)
    with listening(data, "own_1") as made:
        made.serve(lambda sock, _: sock.sendall(b"here") or sock.close())
        with closing(peers.connect(data, "own_1", 5.0)) as sock:
            assert sock.recv(10) == b"here"
        with pytest.raises(OSError, match="No such file"):
            peers.connect(data, "own_2", 5.0)
    assert names(data) == set()


@pytest.fixture
def full(tmp_path: Path) -> Iterator[socket.socket]:
    """A socket of the owner ``own_1`` whose backlog is full."""
    (tmp_path / "run").mkdir()
    with closing(socket.socket(socket.AF_UNIX)) as busy, ExitStack() as stack:
        busy.bind(str(tmp_path / "run" / "own_1.sock"))
        busy.listen(0)
        stack.enter_context(closing(peers.connect(tmp_path, "own_1", 5.0)))
        yield busy


def test_a_process_that_takes_nobody_in_is_given_up(
    tmp_path: Path, full: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After few attempts: nothing may spin for it."""
    monkeypatch.setattr(peers, "_RETRY_S", 0.2)
    tries = []

    def attempt(*given: object) -> t.Any:
        tries.append(1)
        return real(*given)

    real: t.Any = peers._connected
    monkeypatch.setattr(peers, "_connected", attempt)
    with pytest.raises(TimeoutError):
        peers.connect(tmp_path, "own_1", 0.5)
    assert len(tries) <= 4


def test_who_waits_for_room_gets_in(tmp_path: Path, full: socket.socket) -> None:
    waiting = gevent.spawn(peers.connect, tmp_path, "own_1", 20.0)
    gevent.sleep(0)
    with closing(full.accept()[0]), closing(waiting.get(timeout=20)), closing(full.accept()[0]):
        pass


def test_nobody_else_on_the_host_gets_in(tmp_path: Path) -> None:
    """Nor may anybody put a socket there that workers would take for one another's."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run").chmod(0o777)
    with listening(tmp_path, "own_1"):
        assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o700
        assert stat.S_IMODE((tmp_path / "run" / "own_1.sock").stat().st_mode) == 0o600


def test_what_a_killed_process_left_is_cleared_away_and_nothing_else(tmp_path: Path) -> None:
    """What cannot be cleared is no reason to go without."""
    folder = tmp_path / "run"
    (folder / "folder.sock").mkdir(parents=True)
    with closing(socket.socket(socket.AF_UNIX)) as dead:
        dead.bind(str(folder / "own_dead.sock"))
    with listening(tmp_path, "own_1"), listening(tmp_path, "own_2"):
        assert names(tmp_path) == {"folder.sock", "own_1.sock", "own_2.sock"}


def test_without_a_folder_there_is_none_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "run").write_text("no folder")
    assert peers.listen(tmp_path, "own_1") is None
    assert str(tmp_path / "run") in caplog.text
