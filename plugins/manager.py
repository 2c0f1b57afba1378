"""Loads plugins and calls their hooks one by one.

Law of this room: a broken plugin never stops the server. Whatever goes wrong with one (its import,
a signature, a hook that raises or does not come back, an id somebody else has) is written into its row of
:meth:`PluginManager.report`, with a cure, and everything else goes on. The manager is made by
:func:`create_manager` and held on the app; there is no global one.
"""

from __future__ import annotations

import importlib.metadata
import inspect
import logging
import time
import typing as t
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pluggy

from plugins import hookspecs, time_limit

_T = t.TypeVar("_T")

log = logging.getLogger("studio.plugins.report")

#: Seconds that the import and the hooks of one plugin may take together.
LOAD_S = 10.0
#: Slow plugins together have this many times as much; when it is used up, each further one still has a second.
_ALL, _LEAST_S = 3, 1.0

#: Entry-point group third parties announce their plugin under.
ENTRY_POINT_GROUP = hookspecs.PROJECT


@dataclass(frozen=True, slots=True)
class PluginReport:
    """One row of ``studio plugins``.

    :ivar name: entry-point name, or the built-in's name.
    :ivar version: of the distribution, or None.
    :ivar contributes: ``{hook: ids}`` of what is in use.
    :ivar error: everything that went wrong, joined by ``; ``, or None.
    :ivar seconds: time its import and its hooks took.
    """

    name: str
    version: str | None
    contributes: t.Mapping[str, tuple[str, ...]]
    error: str | None
    seconds: float


class _Row:
    """The growing form of a :class:`PluginReport`."""

    def __init__(self, name: str, version: str | None, own: bool = False) -> None:
        self.name = name
        self.version = version
        self.own = own
        self.too_slow = False
        self.contributes: dict[str, list[str]] = {}
        self.errors: list[str] = []
        self.seconds = 0.0

    def frozen(self) -> PluginReport:
        contributes = {hook: tuple(ids) for hook, ids in self.contributes.items()}
        return PluginReport(
            self.name, self.version, contributes, "; ".join(self.errors) or None, self.seconds
        )


class PluginManager:
    """The plugins of one app.

    :param load_s: seconds that one installed plugin may take to load.
    """

    def __init__(self, load_s: float = LOAD_S) -> None:
        self._load_s = load_s
        self._left = load_s * _ALL
        self._pluggy = pluggy.PluginManager(hookspecs.PROJECT)
        self._pluggy.add_hookspecs(hookspecs)
        self._rows: dict[str, _Row] = {}

    def register(
        self,
        plugin: object,
        name: str | None = None,
        version: str | None = None,
        seconds: float = 0.0,
        own: bool = False,
    ) -> bool:
        """Add one plugin; a class is instantiated without arguments.

        :param name: shown in the report; default: the plugin's ``plugin_name``, else its module or class name.
        :param seconds: time already spent on importing it.
        :param own: it is part of this program and is not held to a time limit.
        :returns: False when it could not be used; the report says why.
        """
        name = name or _name_of(plugin)
        if name in self._rows:
            self.failed(
                name,
                f'a second plugin is also called "{name}" and was left out; rename one of the entry points',
            )
            return False
        row = self._rows[name] = _Row(name, version or getattr(plugin, "plugin_version", None), own)
        row.seconds = seconds
        started = time.perf_counter()
        try:
            made = self._bounded(row, plugin) if inspect.isclass(plugin) else plugin
            problem = self._add(made, name)
        except (Exception, SystemExit) as error:
            self._forget(name)
            problem = _describe("could not be registered", error)
        row.seconds += time.perf_counter() - started
        if problem:
            self.failed(name, problem)
        return self._pluggy.has_plugin(name)

    def _bounded(self, row: _Row, work: t.Callable[[], _T]) -> _T:
        """What ``work`` gives; an installed plugin has what is left of its time for it.

        :raises time_limit.TooSlow: it took longer. :raises Exception: what it raised; see :class:`time_limit.Ended`.
        """
        if row.own:
            return work()
        started = time.perf_counter()
        try:
            left = max(self._left, _LEAST_S)
            return time_limit.run(max(0.0, min(self._load_s - row.seconds, left)), work)
        except time_limit.TooSlow:
            row.too_slow = True
            raise time_limit.TooSlow(
                f"it did not load within {self._load_s:g} s and was left out (STUDIO_PLUGIN_LOAD_S; "
                f"when several are slow, {self._load_s * _ALL:g} s for all)"
            ) from None
        finally:
            self._left -= time.perf_counter() - started

    def _add(self, plugin: object, name: str) -> str | None:
        if self._pluggy.register(plugin, name) is None:
            return None
        callers = self._pluggy.get_hookcallers(plugin) or []
        for caller in callers:
            for implementation in caller.get_hookimpls():
                if implementation.plugin is plugin and (implementation.wrapper or implementation.hookwrapper):
                    self._forget(name)
                    return f"{caller.name}: hook wrappers are not supported; return your own items instead"
        known = {caller.name for caller in callers if caller.has_spec()}
        unknown = sorted({caller.name for caller in callers} - known)
        if unknown:
            return (
                f"unknown hook {', '.join(unknown)} (ignored); this Studio has {', '.join(self.hook_names())}"
            )
        if not callers:
            return 'implements no hook; mark functions with pluggy.HookimplMarker("studio")'
        return None

    def _forget(self, name: str) -> None:
        # pluggy keeps a half-registered plugin when the signature of one of its hooks is wrong.
        if self._pluggy.has_plugin(name):
            self._pluggy.unregister(name=name)

    def load_entry_points(self, group: str = ENTRY_POINT_GROUP) -> None:
        """Load every installed plugin of the entry-point ``group``, one by one, in order of name."""
        for distribution, entry in sorted(self._entry_points(group), key=lambda pair: pair[1].name):
            started = time.perf_counter()
            version = _version_of(distribution)
            row = _Row(entry.name, version)
            try:
                plugin = self._bounded(row, entry.load)
            except (Exception, SystemExit) as error:
                row = self._rows.setdefault(entry.name, row)
                row.seconds += time.perf_counter() - started
                self.failed(entry.name, _describe(f"import of {entry.value} failed", error))
                continue
            self.register(plugin, entry.name, version, time.perf_counter() - started)

    def _entry_points(
        self, group: str
    ) -> Iterator[tuple[importlib.metadata.Distribution, importlib.metadata.EntryPoint]]:
        # entry_points() of the standard library fails as a whole when one package's file is
        # malformed; asked one distribution at a time, only that package is lost.
        seen: set[str] = set()
        for distribution in importlib.metadata.distributions():
            # The text first: reading a package's whole metadata costs 1 ms, and most have no plugin.
            if f"[{group}]" not in (distribution.read_text("entry_points.txt") or ""):
                continue
            name = _distribution_name(distribution)
            if name.lower() in seen:
                continue  # shadowed: an earlier sys.path entry has the same distribution
            seen.add(name.lower())
            try:
                found = [entry for entry in distribution.entry_points if entry.group == group]
            except Exception as error:
                self._rows.setdefault(name, _Row(name, _version_of(distribution)))
                self.failed(name, _describe("its entry_points.txt is malformed", error))
                continue
            for entry in found:
                yield distribution, entry

    def hook_names(self) -> tuple[str, ...]:
        """The hooks that exist, sorted."""
        return tuple(sorted(c.name for c in vars(self._pluggy.hook).values() if c.has_spec()))

    def collect(self, hook: str, **arguments: t.Any) -> list[tuple[str, t.Any]]:
        """Call ``hook`` of every plugin, in order of registration.

        :returns: ``(plugin name, item)`` for each item of each result; one that raises keeps what it
            had yielded before and is reported with its name.
        """
        caller = getattr(self._pluggy.hook, hook)
        order = {name: place for place, name in enumerate(self._rows)}
        found: list[tuple[str, t.Any]] = []
        for implementation in sorted(caller.get_hookimpls(), key=lambda i: order[i.plugin_name]):
            row = self._rows[implementation.plugin_name]
            if row.too_slow:
                continue
            given = [arguments[argument] for argument in implementation.argnames]
            items: list[t.Any] = []
            started = time.perf_counter()
            try:
                self._bounded(row, partial(_gather, implementation.function, given, items))
            except (Exception, SystemExit) as error:
                self.failed(row.name, _describe(f"hook {hook} raised", error))
            found += [(row.name, item) for item in tuple(items)]
            row.seconds += time.perf_counter() - started
        return found

    def is_own(self, plugin: str) -> bool:
        """Whether ``plugin`` is part of this program."""
        return self._rows[plugin].own

    def contributed(self, plugin: str, hook: str, item_id: str) -> None:
        """Note that ``plugin``'s ``item_id`` of ``hook`` is in use."""
        self._rows[plugin].contributes.setdefault(hook, []).append(item_id)

    def failed(self, plugin: str, message: str) -> None:
        """Note and log what went wrong with ``plugin``; the same message only once."""
        errors = self._rows[plugin].errors
        if message not in errors:
            errors.append(message)
            log.warning('plugin "%s": %s', plugin, message)

    def report(self) -> tuple[PluginReport, ...]:
        """One row per plugin, in order of loading, the broken ones included."""
        return tuple(row.frozen() for row in self._rows.values())


def create_manager(
    entry_points: bool = True, builtins: Sequence[object] = (), load_s: float = LOAD_S
) -> PluginManager:
    """The plugin manager of one app.

    :param entry_points: also load what installed packages announce.
    :param builtins: plugin objects that come first, e.g. ``[app.builtins.Builtins(...)]``.
    :param load_s: seconds that each installed plugin may take for its import and its hooks.
    """
    manager = PluginManager(load_s)
    for plugin in builtins:
        manager.register(plugin, own=True)
    if entry_points:
        manager.load_entry_points()
    return manager


def _gather(hook: t.Callable[..., t.Any], given: list[t.Any], items: list[t.Any]) -> None:
    """Put what a hook gives into ``items`` one by one, so that one that fails midway keeps what it gave."""
    for item in hook(*given) or ():
        items.append(item)


def _name_of(plugin: object) -> str:
    given = getattr(plugin, "plugin_name", None) or getattr(plugin, "__name__", None)
    return str(given or type(plugin).__name__)


def _distribution_name(distribution: importlib.metadata.Distribution) -> str:
    try:
        return distribution.metadata["Name"] or "unnamed"
    except Exception:
        return "unnamed"


def _version_of(distribution: importlib.metadata.Distribution) -> str | None:
    try:
        return distribution.version
    except Exception:
        return None  # a dist-info without METADATA is still worth loading


def _describe(what: str, error: BaseException) -> str:
    return f"{what}: {time_limit.named(error)}"
