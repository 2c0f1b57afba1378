"""docs/redaction.md says what is so: its sample works as printed, its keys are those there are, its example runs."""

from __future__ import annotations

import re
import types
import typing as t
from pathlib import Path

import yaml
from hypothesis import given
from hypothesis import strategies as st

from app.redaction.finders import DetectorFinder
from app.redaction.loading import KEYS, load_policy
from app.redaction.sieve import Sieve, sieved
from plugins.detectors import DETECTORS
from plugins.spec.detectors import HoldsBack
from tests.support.engine import services, start

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "redaction.md").read_text()


def ticket() -> t.Any:
    (sample,) = re.findall(r"```python\n(# studio_tickets.py\n.*?)```", PAGE, re.S)
    made = types.ModuleType("studio_tickets")
    exec(compile(sample, "docs/redaction.md", "exec"), made.__dict__)
    return made.pii_detectors()[0]


TICKET = ticket()


@given(text=st.text(alphabet="TK-012 xé", max_size=60), size=st.integers(1, 12))
def test_the_sample_lets_text_flow_and_no_ticket_through(text: str, size: int) -> None:
    assert isinstance(TICKET, HoldsBack)
    finder = DetectorFinder(TICKET, "[{kind}]")
    text = f"{text} TK-123456 {text}"
    sieve = Sieve([finder])
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    out = "".join([*(sieve.feed(piece) for piece in pieces), sieve.end()])
    assert out == sieved([finder], text)
    assert "TK-123456" not in out


def test_every_key_and_every_detector_is_there() -> None:
    assert [key for key in KEYS if f"| `{key}` |" not in PAGE] == []
    assert [detector.name for detector in DETECTORS if f"`{detector.name}`" not in PAGE] == []


def test_what_is_printed_is_a_policy() -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)
    redact = yaml.safe_load(block)["settings"]["redact"]
    assert load_policy(redact, "redact", {detector.name for detector in DETECTORS})[1] == []
    assert set(redact) == set(KEYS)


def test_the_example_masks(tmp_path: Path) -> None:
    document = yaml.safe_load((ROOT / "examples" / "redaction.yaml").read_text())
    with services(tmp_path) as made:
        run, _ = start(
            made, document, {"message": "I am jane.doe@example.com, my card is 4111 1111 1111 1111"}
        )
        assert run.done.wait(20)
    assert run.state.outputs()["agent"]["content"] == "I am [email], my card is [card]"
