"""A package of somebody else: built, installed into a fresh environment beside Studio, and used over HTTP."""

from __future__ import annotations

import json
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from plugins.conformance.recordings import load
from plugins.conformance.server import ByteServer, answer_of, byte_server
from tests.support import sse
from tests.support.environments import Environment, fresh
from tests.support.servers import NEGOTIATE, Studio, studio
from tests.support.shared import ROOT

pytestmark = pytest.mark.slow

SOURCE = ROOT / "examples" / "acme_plugin"
RECORDINGS = {recording.title: recording for recording in load(SOURCE / "src" / "acme_studio" / "recordings")}

DOCUMENT = {
    "name": "anvils",
    "blocks": [
        {"id": "start", "type": "start"},
        {"id": "agent_1", "type": "agent", "config": {"model": "acme/acme-large", "tools": ["acme_part"]}},
    ],
    "edges": [{"source": "start", "target": "agent_1"}],
}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    made = fresh(tmp_path_factory.mktemp("environment"))
    wheel = made.install(SOURCE)
    assert wheel.name == "acme_studio-1.4.0-py3-none-any.whl"
    assert "acme_studio/recordings/text.chunks" in zipfile.ZipFile(wheel).namelist()
    return made


@pytest.fixture
def vendor() -> Iterator[ByteServer]:
    with byte_server({}) as made:
        yield made


@pytest.fixture
def server(environment: Environment, vendor: ByteServer, tmp_path: Path) -> Iterator[Studio]:
    environ = {"STUDIO_ACME_API_BASE": f"{vendor.base}/v2", "ACME_API_KEY": "acme-key-1"}
    with studio(tmp_path / "data", environ, python=environment.python) as made:
        yield made


def test_it_is_listed_and_used(server: Studio, vendor: ByteServer) -> None:
    status, _, body = sse.request(server.port, "GET", "/api/plugins", headers={"X-API-Key": server.key})
    assert status == 200
    (row,) = [each for each in json.loads(body)["items"] if each["name"] == "acme"]
    assert row["version"] == "1.4.0"
    assert row["contributes"] == {
        "provider_families": ["acme"],
        "tools": ["acme_part"],
        "pii_detectors": ["acme-customer"],
    }
    assert "error" not in row

    workflow = server.deploy(DOCUMENT)
    answers = iter([answer_of(RECORDINGS["tool"]), answer_of(RECORDINGS["thinking"])])
    vendor.plan_next = lambda: next(answers)
    given = {"stream": True, "input": "How heavy?", "includeThinking": True, "includeToolCalls": True}
    with server.execute(workflow, given, NEGOTIATE) as stream:
        frames = list(stream)
    assert sse.standing(frames) == {"agent_1": "About 40 kg."}
    values = [value for frame in frames if frame.comment is None and isinstance(value := frame.json(), dict)]
    thinking = "".join(value["data"] for value in values if value.get("event") == "thinking")
    assert thinking == "A common anvil… 40 kg?"
    tools = [(v["phase"], v["name"]) for v in values if v.get("event") == "tool"]
    assert tools == [("start", "acme_part"), ("end", "acme_part")]

    first, second = vendor.exchanges
    assert first.path == "/v2/chat/completions"
    assert b"X-Acme-Key: acme-key-1" in first.head
    assert b"anvil" in second.body  # the tool's result


def test_the_kit_passes_it(environment: Environment, tmp_path: Path) -> None:
    with studio(tmp_path / "data", python=environment.python, start=False) as made:
        done = made.run_cli("conformance", "--plugin", "acme")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "acme/acme-large over openai_chat: conforms" in done.stdout
        assert "acme/acme-small over openai_chat: conforms" in done.stdout
        assert "acme\t1.4.0\t" in made.cli("plugins")
        wrong = made.run_cli("conformance", "--plugin", "acme", "--family", "emca")
        assert (wrong.returncode, "it has acme" in wrong.stderr) == (2, True)


def test_its_own_tests_pass(environment: Environment, tmp_path: Path) -> None:
    subprocess.run(["cp", "-r", str(SOURCE / "tests"), str(SOURCE / "setup.cfg"), str(tmp_path)], check=True)
    done = subprocess.run(
        [
            environment.python,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-c",
            "setup.cfg",
            "--rootdir",
            ".",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed" in done.stdout
