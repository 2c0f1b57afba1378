"""Log lines leave without secrets, tracebacks included."""

from __future__ import annotations

import io
import logging

import pytest

from app.redaction import log_lines


@pytest.fixture
def out(monkeypatch):
    monkeypatch.setenv("VENDOR_API_KEY", "from-the-environment")
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logger = logging.getLogger("studio.test.lines")
    logger.addHandler(handler)
    logger.propagate = False
    yield logger, handler, stream
    logger.removeHandler(handler)
    logger.propagate = True


def test_lines_and_tracebacks_hold_no_secret(out):
    logger, handler, stream = out
    used = ["stored-value"]
    with log_lines.masked([handler], lambda: used):
        logger.warning("sent %s with %s", "stored-value", "from-the-environment")
        used.append("stored-later")
        try:
            raise ValueError("bad value: stored-later")
        except ValueError:
            logger.exception("failed")
    text = stream.getvalue()
    assert text.startswith("WARNING sent *** with ***\nERROR failed\nTraceback")
    assert "ValueError: bad value: ***" in text
    assert not any(value in text for value in (*used, "from-the-environment"))
    logger.warning("as before: stored-value")
    assert stream.getvalue().endswith("WARNING as before: stored-value\n")
