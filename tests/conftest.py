from gevent import monkey; monkey.patch_all()  # noqa: E702, I001  # fmt: skip
"""What every test gets: cooperative I/O, no way out to the network, leak detectors, no silent skips.

Law of this room: fixtures here know no room of the program. What starts servers or speaks a protocol is
in tests/support and is imported by whoever needs it.
"""

import gc
import os
import typing as t
from pathlib import Path

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


#: Files that take long for what they have of tests. A process takes whole files: begun last, one of these would leave
#: the other processors idle.
_LONG = (
    "leaks/test_leaks.py",
    "field/test_terminal.py",
    "field/test_reconnect.py",
    "field/test_stall.py",
    "engine/test_random_workflows.py",
    "engine/test_mcp_process.py",
    "field/test_hitl.py",
    "field/test_durable.py",
    "store/test_writer.py",
    "plugins/test_broken.py",
    "engine/test_random_stops.py",
    "engine/test_longest_path.py",
    "engine/test_thirty_blocks.py",
    "plugins/test_third_party.py",
    "plugins/test_scaffold.py",
    "nginx/test_check_stream.py",
    "nginx/test_nginx.py",
    "cli/test_serve.py",
    "cli/test_embedding.py",
    "docs/test_pages.py",
    "docs/test_clients.py",
    "engine/test_mcp.py",
    "engine/test_mcp_http.py",
    "web/test_databases.py",
    "web/test_sso_gate.py",
    "field/test_access_gates.py",
    "field/test_access_limits.py",
    "pages/test_chat_browser.py",
    "pages/test_api_docs_browser.py",
    "pages/test_sign_in_browser.py",
    "web/test_versions_server.py",
    "web/test_chat_server.py",
    "docs/test_chat_access_page.py",
    "docs/test_chats_pages.py",
    "docs/test_management_page.py",
    "cli/test_versions.py",
    "streams/test_builder.py",
    "redaction/test_sieve.py",
    "store/test_counters.py",
    "web/test_email_gate.py",
    "web/test_server.py",
    "api/test_schemathesis.py",
    "field/test_load.py",
    "load/test_shutdown.py",
    "load/test_leaving.py",
    "load/test_slow_readers.py",
    "transport/test_shutdown.py",
    "streams/test_invariants.py",
    "workflows/test_random_faults.py",
    "pages/test_capabilities_browser.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the long files first (with ``--no-loadscope-reorder``, or xdist puts those with many tests first)."""
    here = Path(__file__).parent
    missing = [name for name in _LONG if not (here / name).exists()]
    assert not missing, f"tests/conftest.py names files that are gone: {missing}"
    place = {here / name: at for at, name in enumerate(_LONG)}
    items.sort(key=lambda item: place.get(item.path, len(place)))


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
