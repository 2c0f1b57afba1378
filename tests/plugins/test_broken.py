"""Whatever a plugin does, the server starts, other plugins work, other streams go on, and its report says why."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app import config
from app import events as ev
from app.builtins import Builtins
from app.engine import model_lists
from app.engine.services import Services
from app.store import Store
from plugins import guard
from plugins.hookspecs import hookimpl
from plugins.manager import PluginManager, create_manager
from plugins.registry import Registry
from plugins.spec import Tool
from providers import spec
from tests.plugins import broken_site
from tests.plugins.wild import Panic, Wild
from tests.support import databases, sse
from tests.support.engine import agent, start
from tests.support.servers import studio, wait_until

LOAD_S = "2"


# -- loading, over a real server ---------------------------------------------------------------------


@pytest.mark.slow
def test_a_server_full_of_broken_plugins_starts_and_says_why(tmp_path: Path) -> None:
    site = broken_site.write(tmp_path / "site")
    environ = {"PYTHONPATH": str(site), "STUDIO_PLUGIN_LOAD_S": LOAD_S}
    with studio(tmp_path / "data", environ) as server:
        _, _, body = sse.request(server.port, "GET", "/api/plugins", headers={"X-API-Key": server.key})
        rows = {row["name"]: row for row in json.loads(body)["items"]}
        listed = {row["name"]: row for row in json.loads(server.cli("plugins", "--json"))}
        for name, words in broken_site.REASONS.items():
            assert rows[name]["version"] == listed[name]["version"] == "1.2.3"
            for row in (rows[name], listed[name]):
                assert words is None or words in row["error"], row
            if words is None:
                assert "error" not in rows[name]
                assert listed[name]["error"] is None
        assert rows["g-half"]["contributes"] == {"tools": ["half"]}
        assert rows["z-good"]["contributes"] == {"tools": ["greet"]}
        assert "Tool objects" in rows["i-duplicate"]["error"]
        for path in ("/api/capabilities", "/capabilities?sort=context", "/capabilities?sort=-price"):
            assert sse.request(server.port, "GET", path)[0] == 200
        with server.execute("tour", {"stream": True, "input": "still here"}) as stream:
            assert any(sse.standing(stream).values())
        server.environ = {**environ, "STUDIO_PLUGIN_LOAD_S": "1"}  # only the reasons are of interest here
        judged = server.run_cli("conformance", "--plugin", "m-mixed")
        assert (judged.returncode, "Traceback" in judged.stderr) == (1, False)
        assert "mixed/" in judged.stdout
        assert "a-import\t1.2.3\t\timport of sp_a_import failed: ModuleNotFoundError" in server.cli("plugins")


_FACTS: dict[str, t.Any] = {
    "title": None,
    "models": 5,
    "dialect": 5,
    "other_wires": "openai_chat",
    "list_ttl_s": "soon",
    "max_concurrency": -3,
    "registry_providers": 5,
    "known": (1, None),
    "recordings": 5,
}
_CONNECTION_FACTS: dict[str, t.Any] = {
    "default_base": "http://{a",
    "key_vars": "KEY",
    "settings": ("region",),
    "headers": {"X-Beta": "{nowhere}"},
    "idle_s": float("nan"),
}


@pytest.mark.parametrize("fact", [*_FACTS, *(f"connection.{name}" for name in _CONNECTION_FACTS)])
def test_a_family_with_a_fact_of_the_wrong_kind_is_left_out(fact: str) -> None:
    good = Wild().provider_families()[0]
    if fact in _FACTS:
        bad = replace(good, **{fact: _FACTS[fact]})
    else:
        name = fact.partition(".")[2]
        bad = replace(good, connection=replace(good.connection, **{name: _CONNECTION_FACTS[name]}))
    registry = Registry(_with_families([bad, replace(good, id="other")]))
    assert list(registry.families) == ["other"]
    (row,) = registry.manager.report()
    assert row.error == f'family "wild": {fact} cannot be used; see the field\'s documentation'


class _Auth:
    """Does to a request what ``act`` does."""

    def __init__(self, act: t.Callable[[t.Any], t.Any]) -> None:
        self.act = act

    def apply(self, request: t.Any, credentials: t.Any) -> None:
        self.act(request)


def _panic(_: object) -> t.NoReturn:
    raise Panic("sk-secret")


@pytest.mark.parametrize("act", [_panic, lambda request: request.headers.update({"X-Key": 5})])
def test_an_authentication_that_breaks_says_so_and_no_key(act: t.Callable[[t.Any], t.Any]) -> None:
    given = replace(Wild().provider_families()[0], auth=_Auth(act))
    auth = t.cast(spec.Auth, guard.family(given, lambda message: None).auth)
    with pytest.raises(spec.ProviderError) as caught:
        auth.apply(spec.HttpRequest("POST", "http://h", {}, b""), {})
    assert caught.value.code == "provider_auth"
    assert "sk-secret" not in caught.value.message + caught.value.detail


def test_a_wire_by_model_that_is_not_there_is_reported_and_passed_over() -> None:
    base = replace(Wild().provider_families()[0], wire="openai_chat")
    base = replace(base, connection=replace(base.connection, default_base="http://127.0.0.1:9"))
    registry = Registry(_with_families([replace(base, model_wire=lambda model: "morse")]))
    assert registry.resolve("wild/m", {}).wire.name == "openai_chat"
    assert 'no wire "morse"' in str(registry.manager.report()[0].error)


def _with_families(families: list[t.Any]) -> PluginManager:
    class Plugin:
        @hookimpl
        def provider_families(self) -> list[t.Any]:
            return families

    manager = create_manager(False)
    assert manager.register(Plugin())
    return manager


@pytest.mark.parametrize(
    "bad",
    [
        Tool("t", t.cast(str, None), {"type": "object"}, print),
        Tool("t", "T.", t.cast(t.Any, 5), print),
        Tool("t", "T.", {"type": object()}, print),
        Tool("t", "T.", {"type": "object"}, t.cast(t.Any, 5)),
    ],
)
def test_a_tool_that_nobody_could_call_is_left_out(bad: Tool) -> None:
    class Plugin:
        @hookimpl
        def tools(self) -> list[Tool]:
            return [bad]

    manager = create_manager(False)
    assert manager.register(Plugin())
    assert Registry(manager).tools == {}
    assert "needs a text as description, a JSON Schema as parameters" in str(manager.report()[0].error)


# -- running -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wild(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    """Services with the wild plugin as an installed one, not one of ours."""
    settings = config.load(
        {
            "STUDIO_DATA_DIR": str(tmp_path_factory.mktemp("wild")),
            "STUDIO_IDLE_S": "0.5",
            "STUDIO_TOOL_TIMEOUT_S": "0.5",
        }
    )
    databases.ready(settings)
    store = Store(settings)
    store.open()
    manager = create_manager(False, (Builtins(settings),))
    assert manager.register(Wild())
    made = Services(settings, store, Registry(manager))
    try:
        yield made
    finally:
        made.runs.close()
        made.threads.close()
        store.close()


def ended(services: Services, model: str, retries: int = 0, **settings: t.Any) -> tuple[t.Any, t.Any]:
    """Run one agent on ``wild/<model>`` to its end."""
    run, recorder = start(services, agent(f"wild/{model}", retries=retries, **settings))
    assert run.done.wait(30)
    return run, recorder


@pytest.mark.parametrize(
    ("model", "code"),
    [
        ("raises", "provider_bad_stream"),
        ("raises-later", "provider_bad_stream"),
        ("exits", "provider_bad_stream"),
        ("kills", "provider_bad_stream"),
        ("hangs", "provider_idle"),
        ("blocks", "provider_idle"),
        ("times-out", "provider_bad_stream"),
        ("panics", "provider_bad_stream"),
        ("gives-up", "provider_bad_stream"),
        ("odd-code", "provider_bad_stream"),
        ("never-made", "provider_bad_stream"),
        ("no-id", "provider_bad_stream"),
        ("rubbish", "provider_bad_stream"),
        ("no-list", "provider_bad_stream"),
        ("number", "provider_bad_stream"),
        ("bad-reason", "provider_bad_stream"),
        ("bad-usage", "provider_bad_stream"),
        ("unfinished", "provider_bad_stream"),
    ],
)
@pytest.mark.leak_check
def test_a_wire_that_breaks_fails_its_own_run(wild: Services, model: str, code: str) -> None:
    run, _ = ended(wild, model)
    assert isinstance(run.state.terminal, ev.RunFailed)
    assert run.state.terminal.code == code
    stored = wild.store.runs.get(run.id)
    assert stored is not None
    assert stored["status"] == "failed"
    assert wild.runs.live() == []


@pytest.mark.leak_check
def test_a_wires_own_shorter_limit_takes_the_place_of_the_guards(wild: Services) -> None:
    """As providers.http does after the finish, whose connection is not worth a minute."""
    run, _ = ended(wild, "hangs-briefly", idle_s=60)
    assert isinstance(run.state.terminal, ev.RunFailed)
    assert (run.state.terminal.code, "0.05 s" in run.state.terminal.message) == ("provider_idle", True)


@pytest.mark.leak_check
def test_a_list_that_blocks_is_ended(wild: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plugins.listing.IDLE_S", 0.05)
    model_lists.refresh_now(wild.plugins, ["wild"])
    assert "0.05 s" in str(wild.plugins.listings.reason("wild"))


@pytest.mark.parametrize("model", ["odd-wait", "text-wait"])
def test_a_wait_that_is_no_number_of_seconds_is_none(wild: Services, model: str) -> None:
    run, _ = ended(wild, model, retries=1)
    assert isinstance(run.state.terminal, ev.RunFailed)
    assert run.state.terminal.code == "provider_overloaded"


@pytest.mark.parametrize(("model", "tools"), [("blocks", []), ("calls-blocks", ["blocks"])])
def test_a_stop_ends_what_blocks_outside_its_waits(wild: Services, model: str, tools: list[str]) -> None:
    run, recorder = start(wild, agent(f"wild/{model}", retries=0, idle_s=60, tools=tools))
    wait_until(lambda: recorder.of(ev.ToolStarted if tools else ev.TextDelta), "it began")
    run.cancel("stop_requested")
    assert run.done.wait(30)
    assert isinstance(run.state.terminal, ev.RunCancelled)


@pytest.mark.parametrize("model", ["good", "goes-on", "empty"])
def test_a_wire_that_says_too_much_or_nothing_at_times_is_read(wild: Services, model: str) -> None:
    run, recorder = ended(wild, model)
    assert isinstance(run.state.terminal, ev.RunCompleted)
    assert [event.text for event in recorder.of(ev.TextDelta)] == ["hello"]


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("exits", "failed"),
        ("exits_thread", "failed"),
        ("times_out", "failed"),
        ("panics", "failed"),
        ("panics_thread", "failed"),
        ("interrupts_thread", "failed"),
        ("raises", "failed"),
        ("hangs", "did not answer within"),
        ("blocks", "did not answer within"),
        ("odd", ""),
    ],
)
def test_a_tool_that_breaks_is_answered_and_the_run_goes_on(wild: Services, tool: str, words: str) -> None:
    run, recorder = ended(wild, f"calls-{tool}", tools=[tool])
    assert isinstance(run.state.terminal, ev.RunCompleted)
    (finished,) = recorder.of(ev.ToolFinished)
    assert words in str(finished.result)
    assert (finished.status == "error") == (tool != "odd")


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("raises-rule", "ZeroDivisionError"),
        ("exits-rule", "SystemExit: 4"),
        ("lies-rule", "which cannot be used"),
        ("odd-rule", "odd thinking, which cannot be used"),
        ("priced-rule", "odd context_window, price, which cannot be used"),
    ],
)
def test_a_rule_that_breaks_claims_nothing(wild: Services, model: str, words: str) -> None:
    claims = wild.plugins.capabilities_of(f"wild/{model}")
    assert (claims.thinking, claims.tools) == ("none", "none")
    assert wild.plugins.capabilities_of("wild/good").tools == "parallel"
    row = next(row for row in wild.plugins.manager.report() if row.name == "wild")
    assert row.version == "6.6.6"
    assert row.error is not None
    assert words in row.error


def test_a_slow_rule_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plugins.guard.RULE_S", 0.2)
    manager = create_manager(False)
    manager.register(Wild())
    registry = Registry(manager)
    assert registry.capabilities_of("wild/slow-rule").tools == "none"
    assert registry.capabilities_of("wild/another").tools == "none"  # not asked again
    assert "not done within 0.2 s; it is not asked again" in str(manager.report()[0].error)


def test_streams_go_on_beside_wires_that_break(wild: Services) -> None:
    steady, recorder = start(wild, agent("scripted/slow"))
    for model in ("exits", "kills", "number", "hangs"):
        ended(wild, model)
    assert steady.state.terminal is None
    said = len(recorder.of(ev.TextDelta))
    wait_until(lambda: len(recorder.of(ev.TextDelta)) > said, "the other stream goes on")
    steady.cancel("user")
    assert steady.done.wait(30)
