"""What plugins give to a hook, by id: what cannot be used is reported, the rest goes on.

Law of this room: an item is anybody's code and is judged before anything is done with it; the first of an id keeps it.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass
from functools import partial

from plugins import guard, time_limit
from plugins.manager import PluginManager

_T = t.TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Wanted(t.Generic[_T]):
    """What a hook takes.

    :ivar problem: what is wrong with an item, from its id, itself and its plugin; None: nothing.
    """

    hook: str
    kind: type[_T]
    id_of: t.Callable[[_T], str]
    problem: t.Callable[[str, _T, str], str | None]

    def judge(self, plugin: str, item: t.Any) -> tuple[str, str | None]:
        """An item's id, and what is wrong with it."""
        if isinstance(item, Exception):
            return "", str(item)
        if not isinstance(item, self.kind):
            return (
                "",
                f"hook {self.hook} returned a {type(item).__name__}; it takes {self.kind.__name__} objects",
            )
        item_id = self.id_of(item)
        return item_id, self.problem(item_id, item, plugin)


class Contributions:
    """What the plugins of ``manager`` give, and whose it is."""

    def __init__(self, manager: PluginManager) -> None:
        self._manager = manager
        self._owners: dict[str, dict[str, str]] = {}

    def owner(self, hook: str, item_id: str) -> str:
        """The plugin of an item."""
        return self._owners[hook][item_id]

    def collect(self, wanted: Wanted[_T], into: dict[str, _T] | None = None) -> dict[str, _T]:
        """What there is, by id; what cannot be used is reported.

        :param into: filled as they come, for a ``problem`` that looks at those before.
        """
        found: dict[str, _T] = {} if into is None else into
        hook, manager = wanted.hook, self._manager
        owners = self._owners[hook] = {}
        for plugin, item in manager.collect(hook):
            try:
                if not manager.is_own(plugin):
                    item = guard.hold(item, partial(manager.failed, plugin))
                item_id, problem = wanted.judge(plugin, item)
                taken = item_id in found
            except (Exception, SystemExit) as error:  # an id that is no text, a property: anybody's code
                what = f"hook {hook} returned a {type(item).__name__} that cannot be used"
                manager.failed(plugin, f"{what}: {time_limit.named(error)}")
                continue
            if taken:
                problem = (
                    f'{hook}: "{item_id}" of plugin "{plugin}" is left out, '
                    f'plugin "{owners[item_id]}" has that id already; rename one'
                )
            if problem:
                manager.failed(plugin, problem)
                continue
            found[item_id] = item
            owners[item_id] = plugin
            manager.contributed(plugin, hook, item_id)
        return found
