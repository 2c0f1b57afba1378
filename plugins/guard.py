"""What other people's plugins are held by once they are loaded: nothing they do ends more than their own call.

Law of this room: a guard changes nothing of what a well-behaved plugin does. An exception, a result of the wrong
kind, a rule that does not come back: each is written into the plugin's report once, and the call that met it gets
the smallest honest answer (nothing claimed, no model, an error with a code). Studio's own families and tools are not
guarded; their tests are.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from plugins import time_limit, wire_guard
from plugins.spec import checks
from plugins.spec.blocks import BlockType
from plugins.spec.families import Capabilities, ConnectionSpec, Embeddings, ProviderFamily
from plugins.spec.tools import Tool
from providers import spec

#: Seconds a family's rule may take; one that takes longer is not asked again.
RULE_S = 2.0

Report = Callable[[str], None]
_T = t.TypeVar("_T")


class _Rules:
    """Calls the rules of one family: each bounded, each failure reported once, a slow one never asked again."""

    def __init__(self, family: str, report: Report) -> None:
        self._family = family
        self._report = report
        self._given_up: set[str] = set()

    def call(self, rule: str, work: Callable[[], t.Any], good: Callable[[t.Any], bool], otherwise: _T) -> _T:
        """What ``work`` gives when it is ``good``, else ``otherwise``."""
        if rule in self._given_up:
            return otherwise
        try:
            found = time_limit.run_beside(RULE_S, work)
        except time_limit.TooSlow as error:
            self._given_up.add(rule)
            self._report(f'{rule} of "{self._family}": {error}; it is not asked again')
            return otherwise
        except Exception as error:
            self._report(f'{rule} of "{self._family}": {time_limit.named(error)}')
            return otherwise
        if good(found):
            return t.cast(_T, found)
        what = (
            f"odd {', '.join(checks.odd_claims(found))}"
            if isinstance(found, Capabilities)
            else f"{found!r:.100}"
        )
        self._report(f'{rule} of "{self._family}" gave {what}, which cannot be used')
        return otherwise


def hold(item: t.Any, report: Report) -> t.Any:
    """``item`` with every function of it held; what is none of ours to call is given as it is.

    :param report: writes a sentence into the report of the item's plugin.
    """
    match item:
        case ProviderFamily():
            return family(item, report)
        case Tool():
            return tool(item, report)
        case BlockType():
            return block_type(item, report)
    return item


def family(given: ProviderFamily, report: Report) -> ProviderFamily:
    """``given`` with every function of it held."""
    rules = _Rules(given.id, report)
    changes: dict[str, t.Any] = {
        "wire": _wire(given.wire),
        "capabilities": lambda model, row: rules.call(
            "capabilities", lambda: given.capabilities(model, row), checks.are_capabilities, Capabilities()
        ),
        "connection": _connection(given, rules),
        "auth": _GuardedAuth(given.auth) if not _is_ours(given.auth) else given.auth,
    }
    if callable(given.models):
        list_all = given.models
        changes["models"] = lambda: rules.call("models", lambda: tuple(list_all()), checks.are_names, ())
    if given.model_wire is not None:
        by_model = given.model_wire
        changes["model_wire"] = lambda model: _wire(
            rules.call("model_wire", lambda: by_model(model), _is_wire_or_none, None)
        )
    if (switches := given.model_dialect) is not None:
        changes["model_dialect"] = lambda model: rules.call(
            "model_dialect", lambda: switches(model), lambda found: isinstance(found, Mapping), {}
        )
    if (on_wire := given.on_wire) is not None:
        changes["on_wire"] = lambda name, claims: rules.call(
            "on_wire", lambda: on_wire(name, claims), checks.are_capabilities, Capabilities()
        )
    if given.list_models is not None:
        changes["list_models"] = _lister(given.list_models, given.id, report)
    if isinstance(t.cast(object, given.embeddings), Embeddings):
        changes["embeddings"] = _embeddings(t.cast(Embeddings, given.embeddings), rules)
    return replace(given, **changes)


def _embeddings(given: Embeddings, rules: _Rules) -> Embeddings:
    changes: dict[str, t.Any] = {}
    if not isinstance(given.wire, str):
        changes["wire"] = wire_guard.GuardedEmbeddingWire(given.wire)
    if callable(given.batch):
        size = given.batch
        changes["batch"] = lambda model: rules.call(
            "embeddings.batch", lambda: size(model), checks.is_batch, 1
        )
    if (switches := given.model_dialect) is not None:
        changes["model_dialect"] = lambda model: rules.call(
            "embeddings.model_dialect",
            lambda: switches(model),
            lambda found: isinstance(found, Mapping),
            {},
        )
    return replace(given, **changes)


def _connection(given: ProviderFamily, rules: _Rules) -> ConnectionSpec:
    connection = given.connection
    changes: dict[str, t.Any] = {}
    if connection.check is not None:
        check = connection.check
        sentence = f"{given.title} cannot say whether it is configured; see studio plugins"
        failed = (sentence, f"STUDIO_{given.id.upper()}_API_KEY")
        changes["check"] = lambda credentials, options: rules.call(
            "connection.check", lambda: check(credentials, options), checks.is_problem_or_none, failed
        )
    if callable(connection.default_base):
        make = connection.default_base
        changes["default_base"] = lambda options: rules.call(
            "connection.default_base", lambda: make(options), checks.is_text_or_none, None
        )
    if connection.read_base is not None:
        read = connection.read_base
        changes["read_base"] = lambda value: rules.call(
            "connection.read_base", lambda: read(value), lambda found: isinstance(found, str), value
        )
    return replace(connection, **changes) if changes else connection


def _is_ours(thing: object) -> bool:
    return type(thing).__module__.partition(".")[0] == "providers"


def _is_wire_or_none(found: t.Any) -> bool:
    return checks.is_text_or_none(found) or callable(getattr(found, "stream", None))


def _lister(
    list_models: Callable[[spec.Connection, spec.Waits], Sequence[str]], family_id: str, report: Report
) -> Callable[[spec.Connection, spec.Waits], Sequence[str]]:
    """``list_models`` under the idle limit of its connection, to be interrupted wherever it blocks."""

    def ask(connection: spec.Connection, waits: spec.Waits) -> Sequence[str]:
        try:
            with wire_guard.HeldWaits(waits, connection.idle_s) as held, held.wait():
                return tuple(list_models(connection, held))
        except spec.ProviderError as error:
            raise wire_guard.usable(error) from error.__cause__

    return _contained(ask, lambda _, waits: waits, f'list_models of "{family_id}"', report)


# -- wires -------------------------------------------------------------------------------------------


def _wire(given: t.Any) -> t.Any:
    """A wire of a plugin's own, guarded; a name, or None, as it is."""
    return given if given is None or isinstance(given, str) else wire_guard.GuardedWire(given)


_AUTH_FAILED = "The plugin's authentication failed; see the plugin's author."


class _GuardedAuth:
    """A plugin's own authentication scheme; what it raises is told as ``provider_auth``."""

    def __init__(self, auth: spec.Auth) -> None:
        self._auth = auth

    def apply(self, request: spec.HttpRequest, credentials: Mapping[str, str]) -> None:
        """See ``providers.spec.Auth``."""
        self._held(partial(self._auth.apply, request, credentials), None)
        if not checks.are_names((request.url, *request.headers, *request.headers.values())):
            raise spec.ProviderError("provider_auth", _AUTH_FAILED, detail="a header or the url is no text")

    def prepare(self, credentials: Mapping[str, str], connect_s: float, waits: spec.Waits) -> None:
        """See ``providers.spec.FetchingAuth``; a scheme that fetches nothing has none."""
        if isinstance(self._auth, spec.FetchingAuth):
            self._held(partial(self._auth.prepare, credentials, connect_s, waits), waits)

    @staticmethod
    def _held(work: Callable[[], None], waits: spec.Waits | None) -> None:
        try:
            work()
        except spec.ProviderError as error:
            raise wire_guard.usable(error) from error.__cause__
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if waits is not None:
                wire_guard.let_a_stop_go_first(waits)
            # What it says may hold a key.
            raise spec.ProviderError("provider_auth", _AUTH_FAILED, detail=type(error).__name__) from error


# -- tools and blocks --------------------------------------------------------------------------------


def tool(given: Tool, report: Report) -> Tool:
    """``given``, of which nothing but an ``Exception`` comes out: ``sys.exit`` in a tool must not end a worker."""
    what = f'tool "{given.name}"'
    if given.runs == "thread" or not callable(t.cast(object, given.run)):  # nothing is thrown into a thread
        return replace(given, run=_contained(given.run, lambda *_: None, what, report))

    def run(arguments: dict[str, t.Any], context: t.Any) -> t.Any:
        with context.waits.wait():  # a request it makes outside its own waits can be stopped, too
            return given.run(arguments, context)

    return replace(given, run=_contained(run, lambda _, context: context.waits, what, report))


def block_type(given: BlockType, report: Report) -> BlockType:
    """``given``, as :func:`tool`; a check that fails is a problem of the document it was asked about."""
    run = _contained(given.run, lambda context, _: context.waits, f'block type "{given.type_name}"', report)
    changes: dict[str, t.Any] = {"run": run}
    if given.check is not None:
        check = given.check

        def checked(config: t.Any, path: str) -> list[tuple[str, str]]:
            try:
                return [(str(where), str(what)) for where, what in check(config, path)]
            except (Exception, SystemExit) as error:
                report(f'check of block type "{given.type_name}": {type(error).__name__}: {error}')
                return [(path, f"the check of block type {given.type_name} failed; see studio plugins")]

        changes["check"] = checked
    return replace(given, **changes)


def _contained(
    run: Callable[..., _T], waits_of: Callable[..., spec.Waits | None], what: str, report: Report
) -> Callable[..., _T]:
    """``run``, of which nothing comes but an ``Exception``, a stop that is due, or the operator's own interrupt."""

    if not callable(t.cast(object, run)):  # the check of its item says so
        return run

    def contained(*given: t.Any) -> _T:
        try:
            return run(*given)
        except (Exception, KeyboardInterrupt):
            raise
        except BaseException as error:
            if (waits := waits_of(*given)) is not None:
                wire_guard.let_a_stop_go_first(waits)
            report(
                f"{what} raised {type(error).__name__}, which could end the process; raise an Exception instead"
            )
            raise RuntimeError(f"{what} raised {type(error).__name__}") from error

    return contained
