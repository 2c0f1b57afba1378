"""What a worker's parts share: made once by the app factory, handed to whoever needs it.

Law of this room: no module globals; tests build their own.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from app.clock import Clock, SystemClock
from app.engine.catalog import Catalog
from app.engine.compiler import Compiler
from app.engine.limits import Limits
from app.engine.mcp_client import McpClient
from app.engine.observe.observer import Observing
from app.engine.redaction import KnownSecrets
from app.engine.threads import ToolThreads
from plugins.registry import Registry

if t.TYPE_CHECKING:
    from app.config import Settings
    from app.engine.registry import RunRegistry
    from app.store import Store


@dataclass(slots=True)
class Services:
    """Settings, store, plugin registry, clock, tool threads, slots for model calls, who looks at runs, MCP servers,
    stored secrets as runs are searched for them, documents compiled and the workflows made of them, and the runs of
    this process.
    """

    settings: Settings
    store: Store
    plugins: Registry
    clock: Clock = field(default_factory=SystemClock)
    threads: ToolThreads = field(default_factory=ToolThreads)
    limits: Limits = field(default_factory=Limits)
    observing: Observing = field(default_factory=Observing)
    compiler: Compiler = field(init=False)
    catalog: Catalog = field(init=False)
    mcp: McpClient = field(init=False)
    runs: RunRegistry = field(init=False)
    known: KnownSecrets = field(init=False)

    def __post_init__(self) -> None:
        self.known = KnownSecrets(self.store.secrets)
        self.compiler = Compiler(self.plugins)
        self.catalog = Catalog(self, self.compiler)
        self.mcp = McpClient(self.settings)
        from app.engine.registry import RunRegistry  # the registry's runs hold these services

        self.runs = RunRegistry(self)
