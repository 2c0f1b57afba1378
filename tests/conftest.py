from gevent import monkey; monkey.patch_all()  # noqa: E702, I001  # fmt: skip
"""What every test gets: cooperative I/O, no way out to the network, leak detectors, no silent skips.

Law of this room: fixtures here know no room of the program. What starts servers or speaks a protocol is
in tests/support and is imported by whoever needs it.
"""

import gc
import os
import typing as t

import gevent
import hypothesis
import pytest

from tests.support import leaks, loopback

loopback.close_the_door()

# No test is about time: how long one example takes on a busy machine says nothing.
hypothesis.settings.register_profile(
    "studio", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("studio")

if "PYTEST_XDIST_WORKER" in os.environ:
    # A worker waits for its next test on an Event that another thread sets. With no watcher on the loop
    # gevent would call that wait hopeless (LoopExit).
    _keep = gevent.get_hub().loop.async_()
    _keep.start(lambda: None)


def _freeze() -> None:
    """What is there now outlives whatever is looked at next: no search for leaks or garbage goes through it again.

    With thousands of collected tests a search took half a second, and each test that is checked for leaks makes two.
    """
    gc.collect()
    gc.freeze()


def pytest_collection_finish() -> None:
    """See :func:`_freeze`."""
    _freeze()


@pytest.fixture(autouse=True)
def _leak_check(request: pytest.FixtureRequest) -> t.Iterator[None]:
    """Fails a test marked ``leak_check`` when greenlets, threads or sockets outlive it."""
    if request.node.get_closest_marker("leak_check") is None:
        yield
        return
    _freeze()
    before = leaks.take()
    yield
    left = leaks.wait_for_none_since(before)
    if left:
        pytest.fail("left behind:\n" + "\n".join(left), pytrace=False)


def pytest_terminal_summary(terminalreporter: t.Any) -> None:
    """On CI a skipped test is a failure: it names what the machine lacks."""
    skipped = terminalreporter.stats.get("skipped", [])
    if os.environ.get("CI") and skipped:
        terminalreporter.section("skipped on CI", red=True)
        terminalreporter.line(f"{len(skipped)} skipped: CI must run everything (see the reasons above)")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """See :func:`pytest_terminal_summary`; this one sets the exit status."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter is not None else []
    if os.environ.get("CI") and skipped and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
