"""Starts real servers for tests: Studio under gunicorn, and the replay of recorded vendor answers.

Law of this room: every server has a free port, a data folder of its own and a bounded life; what it wrote is
shown when it does not come up.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import typing as t
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.support import commands, databases, sse
from tests.support.shared import ROOT, shared_path

_MAIN = "import sys; from app.cli import main; sys.exit(main())"
#: What of the caller's environment a server sees; the rest would make tests depend on who runs them.
_INHERITED = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "VIRTUAL_ENV",
    "LD_LIBRARY_PATH",
    "COVERAGE_PROCESS_START",
)


#: What keeps the ports of this process from everybody else.
_PORTS: list[socket.socket] = []


def free_port() -> int:
    """A TCP port of loopback that nobody else is given while this process lives.

    It stays bound, and nobody listens: a connection is refused until a server that sets SO_REUSEADDR, as all do that
    have a fixed port, listens there. Were it let go, another process could have it before that server is up.
    """
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(("127.0.0.1", 0))
    _PORTS.append(kept)
    port: int = kept.getsockname()[1]
    return port


def can_listen(port: int) -> bool:
    """Whether nobody listens on a port of loopback."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def wait_until(condition: t.Callable[[], t.Any], what: str, seconds: float = 60.0) -> t.Any:
    """Poll ``condition`` until it is true and return its value; fails naming ``what``."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(0.02)


def tail(path: Path, lines: int = 40) -> str:
    """The last lines of a log file, for a failure message."""
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.exists() else ""


def end(process: subprocess.Popen[t.Any] | commands.Process, seconds: float = 40.0) -> int:
    """SIGTERM, then SIGKILL to the process group when it does not end within ``seconds``; its exit status."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(5)
    return process.returncode


@dataclass
class Studio:
    """A Studio of one's own: a data folder, an environment, and, once started, a server.

    :ivar data: ``STUDIO_DATA_DIR``.
    :ivar environ: ``STUDIO_*`` and vendor variables on top of a bare environment.
    :ivar python: the interpreter, and with it the installed packages, it runs on.
    :ivar forked: its processes come from one that has imported what they need; see :mod:`tests.support.commands`.
    """

    data: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    python: str = sys.executable
    forked: bool = True
    process: subprocess.Popen[bytes] | commands.Process | None = None
    _key: str | None = None

    @property
    def log(self) -> Path:
        """What the server printed."""
        return self.data / "server.out"

    @property
    def key(self) -> str:
        """An admin key, made when first asked for."""
        if self._key is None:
            self._key = self.cli("key", "create", "--name", "tests", "--scopes", "admin").strip()
        return self._key

    def env(self) -> dict[str, str]:
        """The whole environment of this Studio's processes."""
        bare = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        return {
            **bare,
            "STUDIO_DATA_DIR": str(self.data),
            "PORT": str(self.port),
            "PYTHONUNBUFFERED": "1",
            **self.environ,
        }

    def run_cli(
        self, *args: str, stdin: str | None = None, environ: t.Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run ``studio ARGS`` to its end; ``environ``: variables more."""
        whole = {**self.env(), **(environ or {})}
        if self.forked and commands.can_run(self.python, whole):
            return commands.run(args, whole, stdin)
        return subprocess.run(
            [self.python, "-c", _MAIN, *args],
            cwd=ROOT,
            env=whole,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )

    def cli(self, *args: str) -> str:
        """Standard output of ``studio ARGS``; fails when it does."""
        done = self.run_cli(*args)
        assert done.returncode == 0, (
            f"studio {' '.join(args)} gave {done.returncode}:\n{done.stdout}\n{done.stderr}"
        )
        return done.stdout

    def deploy(self, document: Mapping[str, t.Any] | Path) -> str:
        """Import a workflow (a mapping, or a file) and make it live; its id."""
        path = document if isinstance(document, Path) else self.data / "import.yaml"
        if not isinstance(document, Path):
            path.write_text(yaml.safe_dump(dict(document), sort_keys=False))
        return self.cli("workflow", "import", str(path), "--deploy").strip()

    def start(self) -> t.Self:
        """Start the server and return once it answers its health check, and all of its workers serve."""
        # A worker that was killed listens until it had the time to die, which may be after its master's death.
        wait_until(lambda: can_listen(self.port), f"nobody listens on port {self.port} any more")
        if self.forked and commands.can_run(self.python, self.env()):
            self.process = commands.Process(["serve"], self.env(), (Path(os.devnull), self.log, self.log))
        else:
            self.process = self._started()
        wait_until(self._healthy, "Studio answers its health check", 90)
        return self

    def _started(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as out:
            return subprocess.Popen(
                [self.python, "-c", _MAIN, "serve"],
                cwd=ROOT,
                env=self.env(),
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def _healthy(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError(f"Studio ended with {self.process.returncode}:\n{tail(self.log)}")
        try:
            answered = sse.request(self.port, "GET", "/api/health", timeout=5)[0] == 200
        except OSError:
            return False
        workers = int(self.environ.get("STUDIO_WORKERS", "1"))
        # One that serves has a socket for the others; a single one has just answered.
        return answered and (workers == 1 or len(list((self.data / "run").glob("*.sock"))) >= workers)

    def stop(self) -> int:
        """End the server as an operator would; its exit status."""
        return end(self.process) if self.process is not None else 0

    def workers(self) -> list[int]:
        """Process ids of the server's workers."""
        assert self.process is not None
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def execute(
        self,
        workflow: str,
        body: Mapping[str, t.Any],
        headers: Mapping[str, str] | None = None,
        timeout: float = 30.0,
    ) -> sse.EventStream:
        """``POST /api/workflows/{id}/execute`` with this Studio's key; returns once the headers are here."""
        return sse.post(
            self.port,
            f"/api/workflows/{workflow}/execute",
            body,
            {"X-API-Key": self.key, **(headers or {})},
            timeout,
        )


#: The header that says a client understands the framing of agent-events-v1.
NEGOTIATE = {"X-Studio-Stream-Protocol": "agent-events-v1"}


@contextmanager
def studio(
    data: Path,
    environ: Mapping[str, str] | None = None,
    *,
    start: bool = True,
    python: str = sys.executable,
    forked: bool = True,
) -> Iterator[Studio]:
    """A running Studio on a free port with its data under ``data``; ended afterwards. It was started before: what a
    first start does is the business of ``tests/cli/test_serve.py``.
    """
    data.mkdir(parents=True, exist_ok=True)
    made = Studio(data, dict(environ or {}), python=python, forked=forked)
    if start and "STUDIO_DATABASE_URL" not in made.environ and not (data / "studio.db").exists():
        databases.begun(data)
    try:
        yield made.start() if start else made
    finally:
        made.stop()


@dataclass
class Replay:
    """A server that answers with recorded vendor bodies.

    :ivar base: its address without a path; vendors' versions of it are ``base + "/v1"``.
    """

    port: int
    log: Path
    process: subprocess.Popen[str]

    @property
    def base(self) -> str:
        """Address without a path."""
        return f"http://127.0.0.1:{self.port}"

    def requests(self) -> list[dict[str, t.Any]]:
        """What it was asked so far, in order."""
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []


@contextmanager
def replay(cases: Sequence[str], folder: Path, *options: str) -> Iterator[Replay]:
    """Serve the recorded ``cases`` (``family/case``, in order, the last again and again).

    :param folder: where the log of requests goes.
    :param options: further arguments of ``replay.py``, e.g. ``"--split-bytes", "7"``.
    """
    script = shared_path("recordings", "replay.py")
    log = folder / f"replay-{free_port()}.jsonl"
    process = subprocess.Popen(
        [sys.executable, str(script), "0", "--case", ",".join(cases), "--log", str(log), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        first = process.stdout.readline()
        assert first.startswith("listening "), f"replay.py did not start for {cases}"
        yield Replay(int(first.split()[1]), log, process)
    finally:
        end(process)
        process.stdout.close()
