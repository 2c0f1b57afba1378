"""The detector finds customer numbers and nothing that only looks like one."""

from __future__ import annotations

from acme_studio.detectors import CustomerNumbers

from studio_plugin import Detector


def test_found_and_left() -> None:
    detector = CustomerNumbers()
    assert isinstance(detector, Detector)
    text = "AC-12345670 wrote, AC12345678 did; AC-12345671 and XAC-12345670 are none"
    found = [text[start:end] for start, end in detector.find(text)]
    assert found == ["AC12345678"]
    assert all(end - start <= detector.longest for start, end in detector.find(text))
