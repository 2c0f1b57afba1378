"""The writer: one native thread per process that commits what greenlets hand it.

Law of this room: the hub is never blocked by a write. Greenlets queue jobs; the thread takes all that
is queued, runs it in one transaction and wakes who waits (group commit: a lone write is committed at
once, many at once share a commit). A small write is first tried :mod:`inline <app.store.inline>`, which
neither waits nor hands the interpreter to another thread. A job sees only its
:class:`~app.store.db.Link`; it touches no greenlet, logger or clock of the process.

A transaction that fails is repeated job by job, so that one bad row loses only itself. A database
that another process has locked is waited for up to ``wait_s``; then every job of the batch fails.
"""

from __future__ import annotations

import atexit
import logging
import os
import time
import typing as t
from _queue import Empty, SimpleQueue  # the C one: gevent's does not work across native threads
from collections.abc import Callable, Sequence

from gevent import get_hub, monkey
from gevent.event import Event

from app.errors import StudioError
from app.store.db import Backend, Busy, Link
from app.store.errors import StoreFailed
from app.store.inline import MOST_BYTES, Inline

_log = logging.getLogger("studio.store")
_start_thread = monkey.get_original("_thread", "start_new_thread")
_sleep = monkey.get_original("time", "sleep")
_PAUSE_S = 0.01  # between two tries; SQLite has waited inside the first already
_MOST = 500  # jobs a transaction: a burst of thousands must not hold the lock for long

Job = Callable[[Link], t.Any]
#: What a job leaves beside its change, in the same transaction; it is given what the job returns.
Note = Callable[[Link, t.Any], None]


class Ticket:
    """A write on its way. Greenlets of one thread may wait for it."""

    __slots__ = ("_done", "_error", "_event", "_value", "_watcher")

    def __init__(self) -> None:
        self._done = False
        self._error: BaseException | None = None
        self._event: Event | None = None
        self._value: t.Any = None
        self._watcher: t.Any = None

    @property
    def done(self) -> bool:
        """Whether the write was committed or has failed."""
        return self._done

    def wait(self, timeout: float | None = None) -> t.Any:
        """Wait, cooperatively, until the write is committed.

        :param timeout: seconds; None waits as long as the writer itself does.
        :returns: what the job returned.
        :raises StoreFailed: nothing of it was kept, or ``timeout`` ran out (then it may yet be).
        """
        if not self._done and not self._wait(timeout):
            raise StoreFailed("The store did not answer in time.")
        if self._error is None:
            return self._value
        if isinstance(self._error, StudioError):
            raise self._error
        raise StoreFailed(f"The store could not be written ({self._error}).") from self._error

    def _wait(self, timeout: float | None) -> bool:
        event = self._event
        if event is None:
            event = self._event = Event()
            # Active while we wait: else gevent sees a loop without watchers and calls the wait hopeless.
            watcher = get_hub().loop.async_()
            watcher.start(self._woken)
            # Given away before _done is read; the writer does it the other way round: one sees the other.
            self._watcher = watcher
        if self._done:
            self._woken()
        return event.wait(timeout) or self._done

    def _woken(self) -> None:
        self._watcher.stop()
        t.cast(Event, self._event).set()

    def settle(self, value: t.Any, error: BaseException | None) -> None:
        """The writer's side: keep the outcome, wake who waits."""
        self._value, self._error = value, error
        self._done = True
        if self._watcher is not None:
            self._watcher.send()


class Housekeeper(t.Protocol):
    """Regular work of the writer's thread: the owner's heartbeat."""

    def due(self) -> float | None:
        """Seconds until :meth:`work` is wanted (0 or less: now); None: never yet."""

    def work(self, link: Link) -> None:
        """Runs inside a transaction."""

    def leave(self, link: Link) -> None:
        """The last work, if there was any before; runs inside a transaction."""


class _Item(t.NamedTuple):
    job: Job
    ticket: Ticket | None
    what: str
    size: int = 0


class Writer:
    """Queue and thread. The thread starts with the first write and ends with :meth:`close`.

    :param wait_s: how long a write waits for a database that another process has locked.
    """

    def __init__(self, backend: Backend, wait_s: float, housekeeper: Housekeeper | None = None) -> None:
        self._backend = backend
        self._wait_s = wait_s
        self._housekeeper = housekeeper
        self._queue: SimpleQueue[_Item | None] = SimpleQueue()
        self._inline = Inline(backend)
        self._given = self._taken = self._finished = 0
        self._pid: int | None = None
        self._closed = self._dead = False
        self._ended: Ticket | None = None
        self._hub: t.Any = None

    def submit(self, job: Job, size: int = MOST_BYTES + 1, note: Note | None = None) -> Ticket:
        """Commit a job whose outcome somebody will wait for, now or in the thread.

        :param size: bytes of its values; unknown is taken for large.
        :param note: runs after the job, in its transaction: one is kept with the other or not at all.
        :raises StoreFailed: the store is closed.
        """
        ticket = Ticket()
        self._give(_Item(job if note is None else _with(job, note), ticket, "", size))
        return ticket

    def post(self, job: Job, what: str, size: int = 0) -> None:
        """Commit a job nobody waits for, now or in the thread; a failure is logged, ``what`` names it.

        :param size: bytes of its values.
        :raises StoreFailed: the store is closed.
        """
        self._give(_Item(job, None, what, size))

    def _give(self, item: _Item) -> None:
        self._ready()
        values = self._inline.commit([item.job]) if self._may_commit_here(item) else None
        if values is not None:
            self._settle([item], values, None)
            return
        self._given += 1
        self._queue.put(item)
        if self._dead:  # it died in between: nobody else would tell who waits
            self._fail_queued(None)

    def _may_commit_here(self, item: _Item) -> bool:
        """Small, and never ahead of what the thread has yet to do; a heartbeat that is due is of that, since it makes
        the owner of a run known to other processes.
        """
        due = self._due()
        return self._given == self._finished and (due is None or due > 0) and item.size <= MOST_BYTES

    def close(self, timeout: float | None = None) -> None:
        """Write what is queued and end the thread. Safe to call again."""
        if self._closed:
            return
        self._closed = True
        if self._pid == os.getpid() and self._ended is not None:
            if self._housekeeper is not None and self._housekeeper.due() is not None:
                self._given += 1
                self._queue.put(_Item(self._housekeeper.leave, None, "the end of this process"))
            self._queue.put(None)
            self._ended.wait(timeout)
            self._inline.close()
            atexit.unregister(self.close)

    def _ready(self) -> None:
        if self._closed:
            raise StoreFailed("The store is closed.")
        if self._pid is None:
            self._start()
        elif self._pid != os.getpid():
            raise StoreFailed("The store was opened before this process was forked; open one per process.")

    def _start(self) -> None:
        self._pid = os.getpid()
        self._hub = get_hub()
        self._ended = Ticket()
        atexit.register(self.close)  # a command that ends must not lose its last writes
        _start_thread(self._main, (self._ended,))

    # -- The thread ----------------------------------------------------------------------------------

    def _main(self, ended: Ticket) -> None:
        raw: t.Any = None
        going = True
        error: BaseException | None = None
        try:
            while going:
                batch, going = self._take()
                if batch:
                    raw = self._write(raw, batch)
                    self._finished += self._taken
        except BaseException as failure:  # a defect of ours: fail what waits instead of leaving it waiting
            error = failure
            self._closed = True
            self._tell(_error_log("the writer's thread ended", failure))
        finally:
            self._dead = True  # before the queue is emptied: whoever puts something later looks at it
            self._fail_queued(error)
            _close(raw)
            ended.settle(None, None)

    def _take(self) -> tuple[list[_Item], bool]:
        """What is queued (nothing, if only the housekeeper is due) and whether to go on."""
        batch: list[_Item] = []
        going = True
        due = self._due()
        try:
            item = self._queue.get(True, None if due is None else max(due, 0.001))
            while item is not None:
                batch.append(item)
                if len(batch) >= _MOST:
                    break
                item = self._queue.get_nowait()
            going = item is not None
        except Empty:
            pass
        self._taken = len(batch)
        due = self._due()
        if self._housekeeper is not None and due is not None and due <= 0:
            batch.insert(0, _Item(self._housekeeper.work, None, "the heartbeat"))
        return batch, going

    def _due(self) -> float | None:
        return None if self._housekeeper is None else self._housekeeper.due()

    def _write(self, raw: t.Any, batch: Sequence[_Item]) -> t.Any:
        """Commit ``batch``; the connection to use next, None after a failure."""
        try:
            raw, values = self._transaction(raw, batch)
        except Exception as error:
            _close(raw)
            if isinstance(error, Busy) or (len(batch) == 1 and not self._backend.gave_way(error)):
                self._settle(batch, None, self._words(error))
                return None
            return self._write_each(batch)
        self._settle(batch, values, None)
        return raw

    def _write_each(self, batch: Sequence[_Item]) -> t.Any:
        raw: t.Any = None
        for place, item in enumerate(batch):
            try:
                raw, values = self._alone(raw, item)
            except Busy as error:  # the rest would wait as long again, each
                self._settle(batch[place:], None, self._words(error))
                return None
            except Exception as error:
                _close(raw)
                raw = None
                self._settle([item], None, error)
            else:
                self._settle([item], values, None)
        return raw

    def _alone(self, raw: t.Any, item: _Item) -> tuple[t.Any, list[t.Any]]:
        """One job's transaction, once more when it gave way to another process."""
        try:
            return self._transaction(raw, [item])
        except Exception as error:
            if not self._backend.gave_way(error):
                raise
        return self._transaction(None, [item])

    def _transaction(self, raw: t.Any, batch: Sequence[_Item]) -> tuple[t.Any, list[t.Any]]:
        raw = self._begin(raw)
        try:
            link = Link(raw)
            values = [item.job(link) for item in batch]
            self._backend.commit(raw)
        except BaseException:
            try:
                self._backend.rollback(raw)
            except Exception:  # the connection is lost; so is the transaction
                pass
            _close(raw)
            raise
        return raw, values

    def _begin(self, raw: t.Any) -> t.Any:
        """A connection inside a transaction; a new one whenever the last try failed."""
        deadline = time.monotonic() + self._wait_s
        while True:
            try:
                if raw is None:
                    raw = self._backend.connect()
                self._backend.begin(raw)
            except Busy:
                _close(raw)
                raw = None
                if time.monotonic() > deadline:
                    raise
                _sleep(_PAUSE_S)
            else:
                return raw

    # -- Back to the greenlets -----------------------------------------------------------------------

    def _settle(
        self, batch: Sequence[_Item], values: list[t.Any] | None, error: BaseException | None
    ) -> None:
        for place, item in enumerate(batch):
            if item.ticket is not None:
                item.ticket.settle(values[place] if values else None, error)
            elif error is not None:
                self._tell(_error_log(f"could not store {item.what}", error))

    def _tell(self, log: Callable[[], None]) -> None:
        # Loggers belong to greenlets: their locks are gevent's.
        _on_hub(self._hub, _call, log)

    def _fail_queued(self, error: BaseException | None) -> None:
        failure = error or StoreFailed("The store is closed.")
        while True:
            try:
                item = self._queue.get_nowait()
            except Empty:
                return
            if item is not None:
                self._settle([item], None, failure)

    def _words(self, error: BaseException) -> BaseException:
        if not isinstance(error, Busy):
            return error
        failure = StoreFailed(f"Nothing was stored: {error} for more than {self._wait_s:g} s.")
        failure.__cause__ = error.__cause__
        return failure


def _with(job: Job, note: Note) -> Job:
    def both(link: Link) -> t.Any:
        value = job(link)
        note(link, value)
        return value

    return both


def _on_hub(hub: t.Any, function: Callable[[t.Any], None], argument: t.Any) -> None:
    try:
        hub.loop.run_callback_threadsafe(function, argument)
    except (AttributeError, RuntimeError, ValueError):
        pass  # the hub is gone, and with it everybody who could wait


def _call(function: Callable[[], None]) -> None:
    function()


def _error_log(what: str, error: BaseException) -> Callable[[], None]:
    return lambda: _log.error("store: %s: %s", what, error, exc_info=error)


def _close(raw: t.Any) -> None:
    if raw is not None:
        try:
            raw.close()
        except Exception:  # it was broken; there is nothing to keep
            pass
