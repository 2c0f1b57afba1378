"""LangGraph apps as workflows: the plugin ``langgraph``.

Law of this room: langgraph and what it brings are imported here alone, and only in a process that serves such an app.
Only documented API of it is used, with one exception that says why (:mod:`plugins.langgraph_app.watching`).
"""

from __future__ import annotations

from collections.abc import Iterable

from plugins.hookspecs import hookimpl
from plugins.langgraph_app.app import AppProblem, GraphApp
from plugins.spec.runners import WorkflowRunner

__all__ = ["AppProblem", "GraphApp", "Plugin"]


class Plugin:
    """The graphs of one installation.

    :param apps: (name, ``module:attribute``) of each.
    :raises AppProblem: one cannot be served; the message has the cure.
    """

    plugin_name = "langgraph"

    def __init__(self, apps: Iterable[tuple[str, str]]) -> None:
        from plugins.langgraph_app.loading import load

        self._runners = [load(name, target) for name, target in apps]

    @hookimpl
    def workflow_runners(self) -> Iterable[WorkflowRunner]:
        """One for each app, ``langgraph:<name>``."""
        return self._runners
