"""The store as the rest of the program sees it: one object per process.

Law of this room: opened after the fork, closed before the end. Everything else is in the repositories.
"""

from __future__ import annotations

from app.clock import Clock, SystemClock
from app.config import Settings
from app.store import deployment_tables, migrate  # noqa: F401  # the first so that its tables are known
from app.store.aside import Aside
from app.store.audit import Audit
from app.store.catalog import Catalog
from app.store.chat_codes import ChatCodes
from app.store.chats import Chats
from app.store.counters import Counters
from app.store.db import open_backend
from app.store.decisions import Decisions
from app.store.documents import Documents
from app.store.durable import Durable
from app.store.files import Files
from app.store.idempotency import Idempotency
from app.store.keys import Keys
from app.store.memories import Memories
from app.store.owner import Owner
from app.store.owners import Heartbeat, Lost
from app.store.retention import Retention
from app.store.run_list import RunList
from app.store.runs import Runs
from app.store.sealing import Sealer
from app.store.secrets import Secrets
from app.store.spending import Spending
from app.store.threads import Threads
from app.store.workflows import Workflows
from app.store.writer import Writer


class Store:
    """Keys, workflows and runs of one installation.

    :param settings: ``database_url``, ``store_wait_s``, ``secrets_key`` and ``data_dir`` are read.
    :ivar keys: :class:`app.store.keys.Keys`.
    :ivar workflows: :class:`app.store.workflows.Workflows`.
    :ivar runs: :class:`app.store.runs.Runs`.
    :ivar durable: :class:`app.store.durable.Durable`.
    :ivar decisions: :class:`app.store.decisions.Decisions`.
    :ivar run_list: :class:`app.store.run_list.RunList`.
    :ivar retention: :class:`app.store.retention.Retention`.
    :ivar threads: :class:`app.store.threads.Threads`.
    :ivar memories: :class:`app.store.memories.Memories`.
    :ivar secrets: :class:`app.store.secrets.Secrets`.
    :ivar documents: :class:`app.store.documents.Documents`.
    :ivar chats: :class:`app.store.chats.Chats`.
    :ivar chat_codes: :class:`app.store.chat_codes.ChatCodes`.
    :ivar counters: :class:`app.store.counters.Counters`.
    :ivar spending: :class:`app.store.spending.Spending`.
    :ivar audit: :class:`app.store.audit.Audit`.
    :ivar files: :class:`app.store.files.Files`.
    :ivar idempotency: :class:`app.store.idempotency.Idempotency`.
    :ivar owner: :class:`app.store.owner.Owner`.
    :ivar owner_id: the owner of runs whose row names none.
    """

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        clock = clock or SystemClock()
        self._backend = open_backend(settings.database_url, settings.store_wait_s)
        heartbeat = Heartbeat(self._backend)
        self._writer = Writer(self._backend, settings.store_wait_s, heartbeat)
        self._catalog = Catalog(self._backend)
        self._aside = Aside(self._backend)
        # Never a test's counted id: two processes may share a file.
        self.owner_id = SystemClock().new_id("own")
        self.keys = Keys(self._backend, self._writer, self._catalog, clock)
        self.workflows = Workflows(self._backend, self._writer, self._catalog, clock)
        lost = Lost(self._backend)
        self.runs = Runs(self._backend, self._writer, heartbeat, lost, clock, self.owner_id)
        self.durable = Durable(self._backend, self._writer, heartbeat, lost, clock, self.runs)
        self.decisions = Decisions(self._backend, self._writer, clock)
        self.run_list = RunList(self._backend)
        self.retention = Retention(self._backend, self._writer, clock)
        self.threads = Threads(self._backend, self._writer, clock)
        self.memories = Memories(self._backend, self._writer, clock)
        sealer = Sealer(settings.secrets_key, settings.data_dir)
        self.secrets = Secrets(self._backend, self._writer, self._catalog, clock, sealer)
        self.documents = Documents(
            self._backend, self._writer, self._aside, clock, settings.vectors_mb * 1_000_000
        )
        self.counters = Counters(self._backend, self._writer, clock)
        self.spending = Spending(self._backend, self._writer, heartbeat, lost, clock, self.owner_id)
        self.audit = Audit(self._backend, self._writer, clock)
        self.files = Files(self._backend, self._writer, self._aside, clock)
        self.owner = Owner(self._backend, self._writer, self._catalog, clock)
        self.chats = Chats(self._backend, self._writer, self._catalog, clock)
        self.chat_codes = ChatCodes(self._backend, self._writer, clock)
        self.idempotency = Idempotency(self._backend, self._writer, heartbeat, lost, clock, self.owner_id)
        self.generation = self._catalog.generation

    def open(self) -> None:
        """Nothing is connected before its first use, so that a store made before a fork can be used after it."""

    def close(self) -> None:
        """Write what is queued, sign off as an owner, close the connections. Safe to call again."""
        self._writer.close()
        self._aside.close()
        self._backend.close()

    def is_new(self) -> bool:
        """Whether the database has no tables yet."""
        return self._backend.revision() is None

    def migrate(self) -> None:
        """Bring the database to this program's revision; makes it if there is none.

        :raises NotMigrated: it was made by a newer version.
        """
        migrate.migrate(self._backend)

    def check_revision(self) -> None:
        """Refuse a database that this program does not fit.

        :raises NotMigrated: with what to do about it.
        """
        migrate.check_revision(self._backend)
