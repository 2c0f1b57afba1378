"""One vendor, one desk for tools and one real server for all field cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import yaml

from tests.field import rig
from tests.field.rig import Engine, Server, environ, opened, until
from tests.field.wires import FRAGMENTED, WIRES, Chat, Messages, Speaker
from tests.support.engine import services
from tests.support.servers import studio
from tests.support.vendor import Vendor
from tests.support.vendor import vendor as one_vendor

#: Scripts of the scripted family, for cases about the server and not about a vendor.
SCRIPTS = {
    "plain": [[{"text": "Hello there.", "chunk": "words"}]],
    "broken": [[{"text": "Half "}, {"error": {"code": "provider_overloaded", "message": "Too busy."}}]],
    "silent": [[{"stall": True}]],
    "failing-tool": [[{"tool_call": {"name": "boom"}}], [{"text": "It failed."}]],
}


@pytest.fixture(scope="session")
def _vendor() -> Iterator[Vendor]:
    with one_vendor() as made:
        yield made


@pytest.fixture(scope="session")
def _desk() -> Iterator[Vendor]:
    with one_vendor() as made:
        yield made


def _clean(made: Vendor) -> Iterator[Vendor]:
    while not made.calls.empty():  # of a case that failed
        made.calls.get()
    yield made
    assert made.calls.empty(), "a request came that the case did not expect"
    until(lambda: made.open == 0, "every upstream connection is closed")


@pytest.fixture
def vendor(_vendor: Vendor) -> Iterator[Vendor]:
    """The model vendor of both wires; afterwards no request and no connection may be left."""
    yield from _clean(_vendor)


@pytest.fixture
def desk(_desk: Vendor) -> Iterator[Vendor]:
    """Where held tools are answered; afterwards no request and no connection may be left."""
    yield from _clean(_desk)


@pytest.fixture(scope="session")
def served(_vendor: Vendor, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A real Studio with a third party's plugin, at its most talkative."""
    folder = tmp_path_factory.mktemp("field")
    more = {"STUDIO_LOG_LEVEL": "debug", "STUDIO_SCRIPTS_DIR": str(folder / "scripts")}
    more["STUDIO_RATE_LIMIT_ADDRESS"] = "1000/minute"  # all cases come from one
    scripts = folder / "scripts"
    scripts.mkdir()
    for name, turns in SCRIPTS.items():
        (scripts / f"{name}.yaml").write_text(
            yaml.safe_dump({"turns": [{"steps": steps} for steps in turns]})
        )
    more["PYTHONPATH"] = str(_distribution(folder / "site"))
    with studio(folder / "data", environ(_vendor, **more)) as made, opened(made) as server:
        assert made.key  # made once, before many clients ask for it at the same time
        yield server


def _distribution(folder: Path) -> Path:
    """A folder in which ``tests.field.plugin`` is announced as an installed plugin."""
    info = folder / "field_plugin-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: field-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[studio]\nfield = tests.field.plugin\n")
    return folder


@pytest.fixture(params=list(WIRES))
def speaker(request: pytest.FixtureRequest) -> Speaker:
    """Each vendor protocol."""
    return WIRES[request.param]()


@pytest.fixture(params=FRAGMENTED)
def fragmented(
    request: pytest.FixtureRequest, vendor: Vendor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Engine]:
    """The engine in this process, once for each wire whose arguments are text in pieces."""
    yield from _engine(WIRES[request.param](), vendor, tmp_path, monkeypatch)


@pytest.fixture
def over(
    vendor: Vendor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], Engine]]:
    """The engine in this process, over the wire of that name."""
    with ExitStack() as stack:
        yield lambda name: stack.enter_context(
            contextmanager(_engine)(WIRES[name](), vendor, tmp_path, monkeypatch)
        )


@pytest.fixture
def engine(
    speaker: Speaker, vendor: Vendor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Engine]:
    """The engine in this process, once for each wire."""
    yield from _engine(speaker, vendor, tmp_path, monkeypatch)


@pytest.fixture
def chat(vendor: Vendor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """The engine in this process, over chat completions."""
    yield from _engine(Chat(), vendor, tmp_path, monkeypatch)


@pytest.fixture
def messages(vendor: Vendor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """The engine in this process, over the Messages protocol."""
    yield from _engine(Messages(), vendor, tmp_path, monkeypatch)


def _engine(
    speaker: Speaker, vendor: Vendor, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Engine]:
    for name, value in environ(vendor).items():
        monkeypatch.setenv(name, value)
    with services(folder, {"STUDIO_TOOL_TIMEOUT_S": "0.5", "STUDIO_IDLE_S": "20"}) as made:
        yield rig.Engine(made, vendor, speaker)
        until(lambda: len(made.runs) == 0, "no run is left")
