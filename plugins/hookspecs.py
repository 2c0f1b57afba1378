"""Every hook a plugin can implement. The whole extension surface is this screen.

Law of this room: a hook ships only with a plugin in the tree that uses it, and hooks are called at
start and at run boundaries, never per token. Implementations are called one by one; one that
raises loses only its own contribution and is named in ``studio plugins``.

A plugin is a module or an object whose functions carry the marker ``hookimpl``: import it from
``studio_plugin``, or make one with ``pluggy.HookimplMarker("studio")``. A package announces it by
an entry point of the group ``studio``. Ids that two plugins claim go to the one loaded first
(built-ins first, then entry points by name), and the report names both.
"""

from __future__ import annotations

from collections.abc import Iterable

import pluggy

from plugins.spec.blocks import BlockType
from plugins.spec.detectors import Detector
from plugins.spec.families import ProviderFamily
from plugins.spec.runners import WorkflowRunner
from plugins.spec.tools import Tool

#: The name of the project in markers and of the entry-point group.
PROJECT = "studio"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def provider_families() -> Iterable[ProviderFamily]:
    """Called once, when the app is made: the provider families this plugin adds.

    :returns: any iterable of :class:`~plugins.spec.families.ProviderFamily`; results of all plugins are joined.

    Raising loses this plugin's families only. Anyone may implement it. Used in the tree by
    ``app/builtins.py``.
    """
    raise NotImplementedError  # never called: pluggy only reads the signature


@hookspec
def block_types() -> Iterable[BlockType]:
    """Called once, when the app is made: the block types this plugin adds.

    :returns: any iterable of :class:`~plugins.spec.blocks.BlockType`; results of all plugins are joined.

    Raising loses this plugin's block types only. Anyone may implement it. Used in the tree by
    ``app/builtins.py``.
    """
    raise NotImplementedError  # never called: pluggy only reads the signature


@hookspec
def tools() -> Iterable[Tool]:
    """Called once, when the app is made: the tools this plugin adds.

    :returns: any iterable of :class:`~plugins.spec.tools.Tool`; results of all plugins are joined.

    Raising loses this plugin's tools only. Anyone may implement it. Used in the tree by
    ``app/builtins.py``.
    """
    raise NotImplementedError  # never called: pluggy only reads the signature


@hookspec
def pii_detectors() -> Iterable[Detector]:
    """Called once, when the app is made: the detectors of personal data this plugin adds.

    Guardrails look with them, and redaction masks what they find, in every run whose policy names them or names none.
    One that raises or answers nonsense there ends that run: it never opens the gate.

    :returns: any iterable of :class:`~plugins.spec.detectors.Detector`; results of all plugins are joined.

    Raising loses this plugin's detectors only. Anyone may implement it. Used in the tree by
    ``app/builtins.py``.
    """
    raise NotImplementedError  # never called: pluggy only reads the signature


@hookspec
def workflow_runners() -> Iterable[WorkflowRunner]:
    """Called once, when the app is made: workflows that are run by other means than blocks, such as another library's
    graphs. They are served on every surface, under their ids.

    :returns: any iterable of :class:`~plugins.spec.runners.WorkflowRunner`; results of all plugins are joined.

    Raising loses this plugin's runners only. Anyone may implement it. Used in the tree by
    ``plugins/langgraph_app``.
    """
    raise NotImplementedError  # never called: pluggy only reads the signature
