"""Runs ``studio ARGS``, or a script of the tests, as a process of its own without paying for its imports each time.

Law of this room: a process that has loaded what commands need, and has done nothing else, forks for each of them; what
comes out has its own environment, folder, standard streams and exit status, and ends as every interpreter ends. What
depends on how an interpreter starts (another one, other packages on its path) is none of its business. ``serve``
becomes gunicorn here too, but in the same process: what it would import is there, its master and workers are its own.
"""

from __future__ import annotations

import _socket
import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import typing as t
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path

from gevent.fileobject import FileObject
from gevent.monkey import get_original

from tests.support.shared import ROOT

# The real ones, and sockets of the lowest kind below: with gevent's the process that forks would get a hub.
_fork, _waitpid = get_original("os", ["fork", "waitpid"])
_signal = get_original("signal", "signal")

_SERVER = "from tests.support import commands; commands.serve()"
#: Variables that an interpreter looks at when it starts.
_AT_START = ("COVERAGE_PROCESS_START", "LD_LIBRARY_PATH")
#: And those that come to the same later.
_ALIKE = ("PYTHONUNBUFFERED", "PYTHONPATH")


def can_run(python: str, environ: Mapping[str, str]) -> bool:
    """Whether a command with these does the same here as in an interpreter of its own."""
    return python == sys.executable and not any(
        name in _AT_START or (name.startswith("PYTHON") and name not in _ALIKE) for name in environ
    )


def run(
    args: Sequence[str], environ: Mapping[str, str], stdin: str | None = None, seconds: float = 100
) -> subprocess.CompletedProcess[str]:
    """Like ``subprocess.run([python, "-c", …, *args], cwd=ROOT, capture_output=True, text=True)``."""
    with tempfile.TemporaryDirectory(prefix="studio-command-") as name:
        given, out, err = (Path(name, stream) for stream in ("in", "out", "err"))
        given.write_text(stdin or "")
        process = Process(args, environ, (given, out, err))
        try:
            process.wait(seconds)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        assert process.returncode is not None
        return subprocess.CompletedProcess(process.args, process.returncode, out.read_text(), err.read_text())


class Process:
    """One command that runs, with what the tests need of ``subprocess.Popen``; leader of a session of its own.

    :param files: standard input, output and error: paths, of which the last two are appended to, or what is open.
    :param script: a module whose ``main`` takes the arguments, instead of ``studio``.
    """

    def __init__(
        self,
        args: Sequence[str],
        environ: Mapping[str, str],
        files: tuple[Path | int, Path | int, Path | int],
        script: str = "app.cli",
    ) -> None:
        self.args = [script, *args]
        self.returncode: int | None = None
        self._said = b""
        self._sock = socket.socket(socket.AF_UNIX)
        self._sock.connect(_address())
        asked = json.dumps([script, list(args), dict(environ)])
        with contextlib.ExitStack() as stack:
            socket.send_fds(self._sock, [b"f"], [_opened(stack, *each) for each in enumerate(files)])
        self._sock.sendall(asked.encode() + b"\n")
        pid = self._line(None)
        assert pid is not None, "the process that forks is gone"
        self.pid = pid

    def poll(self) -> int | None:
        """Its exit status, or None while it runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, once it has ended.

        :raises subprocess.TimeoutExpired: it has not by then.
        """
        if self.returncode is None:
            status = self._line(timeout)
            if status is None:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = os.waitstatus_to_exitcode(status)
            self._sock.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it is known to have ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _line(self, timeout: float | None) -> int | None:
        """The next number that is told; None when it is not told in time."""
        self._sock.settimeout(timeout)
        while b"\n" not in self._said:
            try:
                piece = self._sock.recv(64)
            except (TimeoutError, BlockingIOError):
                return None
            assert piece, "whoever waits for the command is gone"
            self._said += piece
        line, _, self._said = self._said.partition(b"\n")
        return int(line)


def _opened(stack: contextlib.ExitStack, number: int, file: Path | int) -> int:
    """One of the standard streams; what is opened for it is closed with ``stack``."""
    if isinstance(file, int):
        return file
    flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND
    made = os.open(file, flags, 0o600)
    stack.callback(os.close, made)
    return made


class Piped(Process):
    """A script that is written to and read from; its errors are shown with those of the tests."""

    def __init__(self, args: Sequence[str], environ: Mapping[str, str], script: str) -> None:
        given, out = os.pipe(), os.pipe()
        super().__init__(args, environ, (given[0], out[1], 2), script)
        os.close(given[0])
        os.close(out[1])
        self.stdin: t.IO[str] = FileObject(given[1], "w", encoding="utf-8")
        self.stdout: t.IO[str] = FileObject(out[0], "r", encoding="utf-8")

    def communicate(self, text: str = "", seconds: float = 100) -> str:
        """Say the last words and wait for the rest of its output, and its end."""
        with contextlib.suppress(BrokenPipeError), self.stdin:
            self.stdin.write(text)
        with self.stdout:
            output = self.stdout.read()
        self.wait(seconds)
        return output


_started: list[str] = []


def _address() -> str:
    """Where the process that forks listens; started with the first command."""
    if not _started:
        folder = tempfile.mkdtemp(prefix="studio-commands-")
        address = f"{folder}/socket"
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "LC_ALL") if name in os.environ}
        process = subprocess.Popen(
            [sys.executable, "-c", _SERVER, address],
            cwd=ROOT,
            env=kept,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.stdout.close()
        atexit.register(_stop, process, folder)
        _started.append(address)
    return _started[0]


def _stop(process: subprocess.Popen[bytes], folder: str) -> None:
    process.kill()
    process.wait()
    assert process.stdin is not None
    process.stdin.close()
    for path in Path(folder).iterdir():
        path.unlink()
    os.rmdir(folder)


# -- in the process that forks -----------------------------------------------------------------------


def serve() -> t.NoReturn:
    """Fork for each command that is asked for at the socket ``argv[1]``, until whoever started it is gone."""
    _warm_up()
    listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    listener.bind(sys.argv[1])
    listener.listen(64)
    _signal(signal.SIGCHLD, signal.SIG_IGN)
    _end_with_parent()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        asked, _ = listener._accept()
        if _fork():
            os.close(asked)
            continue
        listener.close()
        _signal(signal.SIGCHLD, signal.SIG_DFL)
        script, args, environ = _read(asked)
        pid = _fork()
        if pid:
            _tell(asked, pid)
            _tell(asked, _waitpid(pid, 0)[1])
            os._exit(0)
        os.close(asked)
        os.setsid()
        _become(args, environ)
        os.execv = _execute
        sys.exit(importlib.import_module(script).main(args))


def _tell(asked: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # whoever asked may have gone; the command runs on
        os.write(asked, b"%d\n" % number)


def _warm_up() -> None:
    """Do once what every command does: load the store and the plugins, and migrate a database."""
    from gevent import get_hub

    from app import __version__, builtins
    from app.cli import sources  # noqa: F401
    from app.config import Settings
    from app.store import Store

    _import_what_servers_do()
    with tempfile.TemporaryDirectory(prefix="studio-commands-") as folder:
        settings = Settings(data_dir=Path(folder))
        store = Store(settings)
        store.migrate()
        store.close()
        builtins.registry(settings, __version__)
    assert [thread.name for thread in threading.enumerate()] == ["MainThread"], "a fork has one thread only"
    # What is forked needs a hub of its own, whose time begins then.
    get_hub().destroy(destroy_loop=True)
    gc.collect()
    gc.freeze()  # nor does it look for garbage in what all of them share


def _import_what_servers_do() -> None:
    """All that ``wsgi.py`` does, which makes an application when it is imported itself."""
    from gunicorn.app import wsgiapp  # noqa: F401

    import app.web
    from app.engine import services  # noqa: F401
    from app.engine.observe import folder  # noqa: F401
    from app.web import direct, server_log, worker  # noqa: F401
    from providers import anthropic_messages, http, openai_chat  # noqa: F401

    for module in pkgutil.iter_modules(app.web.__path__):
        importlib.import_module(f"app.web.{module.name}")


def _execute(path: str, args: list[str]) -> t.NoReturn:
    """What ``os.execv`` is to ``studio serve``."""
    from gevent import get_hub
    from gunicorn.app import wsgiapp

    assert (path, *args[:3]) == (sys.executable, sys.executable, "-m", "gunicorn"), args
    get_hub().destroy(destroy_loop=True)  # gunicorn begins without one
    sys.argv[:] = args[2:]
    wsgiapp.run()
    sys.exit()


def _read(asked: int) -> t.Any:
    """What is asked for; the standard streams that come along become those of this process."""
    sock = _socket.socket(fileno=asked)
    _, sent, *_ = sock.recvmsg(1, _socket.CMSG_SPACE(3 * array("i").itemsize))
    sock.detach()
    for number, stream in enumerate(array("i", sent[0][2])):
        os.dup2(stream, number)
        os.close(stream)
    line = b""
    while not line.endswith(b"\n"):
        line += os.read(asked, 1 << 16)
    return json.loads(line)


def _end_with_parent() -> None:
    """A test process that is killed must not leave this one behind."""
    import ctypes

    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def _become(args: list[str], environ: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environ)
    sys.argv[:] = ["-c", *args]
    more = [path for path in environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[1:1] = map(os.path.abspath, more)  # behind the current folder
