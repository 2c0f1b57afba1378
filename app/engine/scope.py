"""Cancellation: the only module that spawns greenlets, throws into them or sets deadlines.

Law of this room: an exception is thrown only into a greenlet that is inside ``with scope.wait():``,
so clean-up, store writes and locks are never torn. Outside a wait, cancellation is seen at the
next one, which raises at entry. Bare throws broke 225 of 445 fuzzed runs, guarded waits none
(``docs/decisions/0002-guarded-waits.md``).
"""

from __future__ import annotations

import contextvars
import logging
import typing as t
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import gevent
from gevent import Greenlet, get_hub
from gevent.event import Event
from greenlet import getcurrent

from app.engine.gate import FlowGate
from app.engine.timers import Deadline, Idle, Limit

log = logging.getLogger("studio.scope")

#: A greenlet of ours; what it returns is never looked at.
Task: t.TypeAlias = "Greenlet[..., t.Any]"

#: Seconds that greenlets of a cancelled scope get for their clean-up before they are abandoned.
CLEANUP_S = 5.0


class Cancelled(BaseException):
    """The scope was cancelled. A BaseException, so that no ``except Exception`` of a tool or wire swallows it.

    :ivar cause: the first cause given to :meth:`RunScope.cancel`.
    """

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause


_NONE: frozenset[t.Any] = frozenset()
_T = t.TypeVar("_T")


def _with(some: set[_T] | frozenset[_T], one: _T) -> set[_T]:
    """``some`` with ``one`` added, as a set of its own."""
    found = some if isinstance(some, set) else set(some)
    found.add(one)
    return found


class _Wait:
    """The guard of one scope. Holds no state of its own, so one object serves every wait of the scope."""

    __slots__ = ("_scope", "_waiting")

    def __init__(self, scope: RunScope) -> None:
        self._scope = scope
        self._waiting = scope.waiting

    def __enter__(self) -> None:
        if self._scope.interrupt is not None:
            raise self._scope.interrupt()
        self._waiting[getcurrent()] = True

    def __exit__(self, *_exc: object) -> None:
        self._waiting.pop(getcurrent(), False)


class _Unguarded:
    """The guard of a scope that is closed: nobody can interrupt it any more."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_exc: object) -> None:
        pass


_UNGUARDED = _Unguarded()


class RunScope:
    """One level of a run (run, block, batch or call) with its greenlets, waits and deadlines.

    :param parent: the enclosing scope; its cancellation reaches this one.
    :param gate: the run's flow gate, inherited from the parent.
    """

    # A thousand streams have two scopes each: no dict, and no set before there is something to put into it.
    __slots__ = (
        "_changed",
        "_children",
        "_closed",
        "_holds",
        "_thrown",
        "_timers",
        "_wait",
        "abandoned",
        "cause",
        "error",
        "flow",
        "gated",
        "greenlets",
        "idle",
        "interrupt",
        "parent",
        "waiting",
    )

    def __init__(self, parent: RunScope | None = None, gate: FlowGate | None = None) -> None:
        self.parent = parent
        self.flow: FlowGate = gate or (parent.flow if parent else FlowGate())
        self.cause: str | None = None
        self.interrupt: Callable[[], BaseException] | None = None
        self.error: BaseException | None = None
        self.gated = False
        #: Greenlets that may be thrown into; an adopted one where that says so.
        self.waiting: dict[t.Any, t.Literal[True] | Callable[[t.Any], bool]] = {}
        self.greenlets: set[Task] | frozenset[Task] = _NONE
        self.abandoned = 0
        self._children: set[RunScope] | frozenset[RunScope] = _NONE
        self._thrown: set[t.Any] | frozenset[t.Any] = _NONE
        self._timers: tuple[Deadline, ...] = ()
        self._holds = 0
        self._changed: Event | None = None
        self.idle: Idle | None = None
        self._wait: _Wait | _Unguarded = _Wait(self)
        self._closed = False
        if parent is not None:
            if parent.cause is not None:
                raise Cancelled(parent.cause)
            parent._children = _with(parent._children, self)

    # -- waits -------------------------------------------------------------------------------

    def wait(self) -> _Wait | _Unguarded:
        """Guard one blocking step; see :class:`providers.spec.Waits`.

        :raises Cancelled: at entry or inside, once the scope is cancelled.
        """
        return self._wait

    def progress(self) -> None:
        """Restart the idle limit."""
        idle = self.idle
        if idle is not None:
            idle.last = idle.loop.now()

    def idle_limit(self, seconds: float) -> Idle:
        """While open, ``seconds`` of silence end the wait with ``ProviderError("provider_idle")``."""
        return Idle(self, seconds)

    def limit(self, seconds: float, make: Callable[[], BaseException]) -> Limit:
        """While open, ``seconds`` are all there is; then what ``make`` makes is thrown into whoever waits."""
        return Limit(self, seconds, make)

    def calm(self) -> None:
        """Forget an interruption that was not a cancellation."""
        self.interrupt = None
        self._thrown = _NONE

    def gate(self) -> None:
        """Block while the run's reader is too far behind."""
        if not self.flow.closed:
            return
        self.gated = True
        try:
            with self._wait:
                self.flow.wait_open()
        finally:
            self.gated = False
            self.progress()

    def sleep(self, seconds: float) -> None:
        """Wait, interruptibly."""
        with self._wait:
            gevent.sleep(seconds)

    # -- cancellation ------------------------------------------------------------------------

    def cancel(self, cause: str) -> None:
        """End everything in this scope; the first cause wins. Safe from any greenlet and from hub callbacks."""
        if self.cause is not None or self._closed:
            return
        self.cause = cause
        self.interrupt_with(lambda: Cancelled(cause))
        if self._changed is not None:
            self._changed.set()
        for child in tuple(self._children):
            child.cancel(cause)

    def interrupt_with(self, make: Callable[[], BaseException]) -> None:
        """Throw what ``make`` makes into whoever waits, and at the entry of later waits."""
        self.interrupt = make
        get_hub().loop.run_callback(self._deliver)

    def _deliver(self) -> None:
        """On the hub, where nobody else runs: re-check membership and throw once per greenlet."""
        make = self.interrupt
        if make is None:
            return
        for waiter, inside in list(self.waiting.items()):
            if inside is not True and not inside(waiter):
                continue  # adopted, and at work on something of its own that must not be torn
            if waiter not in self._thrown and self.waiting.pop(waiter, False):
                self._thrown = _with(self._thrown, waiter)
                waiter.throw(make())

    def deadline(self, seconds: float, cause: str) -> None:
        """Cancel with ``cause`` after ``seconds`` unless the scope is closed before."""
        self._timers += (Deadline(self, seconds, cause),)

    @contextmanager
    def held(self, whole: bool = False) -> Iterator[None]:
        """While open, no time passes for the deadlines of this scope and of those around it: a person is waited for.

        :param whole: also for those of the run.
        """
        scopes = [scope for scope in self._upwards() if whole or scope.parent is not None]
        for scope in scopes:
            scope._hold(1)
        try:
            yield
        finally:
            for scope in scopes:
                scope._hold(-1)

    def _upwards(self) -> Iterator[RunScope]:
        scope: RunScope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def _hold(self, change: int) -> None:
        self._holds += change
        for timer in self._timers:
            if change > 0 and self._holds == 1:
                timer.hold()
            elif not self._holds and not self._closed:
                timer.go()

    # -- greenlets ---------------------------------------------------------------------------

    def spawn(self, fn: Callable[..., t.Any], *args: t.Any) -> Task:
        """Run ``fn(*args)`` in a greenlet of this scope, with a copy of the context variables.

        Registered before it starts, else a join would miss it. Its first uncaught exception is kept
        as :attr:`error` and cancels the scope with cause ``block_failed``.
        """
        greenlet = Greenlet(contextvars.copy_context().run, self._guarded, fn, *args)
        self.greenlets = _with(self.greenlets, greenlet)
        greenlet.start()
        return greenlet

    def _guarded(self, fn: Callable[..., t.Any], *args: t.Any) -> None:
        try:
            fn(*args)
        except Cancelled:
            pass
        except BaseException as exc:  # the scope's owner re-raises it: nothing is swallowed
            if self.error is None:
                self.error = exc
            self.cancel("block_failed")
        finally:
            t.cast("set[Task]", self.greenlets).discard(t.cast(Task, getcurrent()))
            if self._changed is not None:
                self._changed.set()

    def adopt(self, inside: Callable[[t.Any], bool]) -> None:
        """Let the greenlet this is called from be thrown into wherever it is suspended while ``inside(greenlet)``.

        For greenlets of other libraries, whose waits nobody guards: whether they stand in code that may be given up
        is seen from outside. Ask again whenever it begins something.

        :raises Cancelled: the scope is cancelled.
        """
        if self.interrupt is not None:
            raise self.interrupt()
        if self._closed:
            return
        for waiter in [waiter for waiter in self.waiting if waiter.dead]:
            del self.waiting[waiter]
        self.waiting.setdefault(getcurrent(), inside)

    def join(self) -> None:
        """Wait until every greenlet of the scope ended: unbounded while it is alive, ``CLEANUP_S`` once cancelled.

        Not interruptible: the greenlets are, and the owner may go on only after them.
        """
        self._changed = changed = Event()
        while self.greenlets and self.cause is None:
            changed.wait()
            changed.clear()
        if self.greenlets:
            left = gevent.wait(list(self.greenlets), timeout=CLEANUP_S)
            stuck = len(self.greenlets - set(left))
            if stuck:
                self.abandoned += stuck
                log.error("%d greenlet(s) did not end within %g s of cancellation", stuck, CLEANUP_S)
        self._changed = None

    def child(self) -> RunScope:
        """A scope inside this one.

        :raises Cancelled: this scope is cancelled already.
        """
        return RunScope(self)

    def close(self) -> None:
        """Stop timers and leave the parent. Idempotent.

        The guard and the scope hold each other; let go here, the scope is freed with its last use and never waits
        for a garbage collection, which would stop every stream of the worker for its time.
        """
        self._closed = True
        self._wait = _UNGUARDED
        for timer in self._timers:
            timer.stop()
        self._timers = ()
        self.waiting.clear()  # what was adopted holds those who were asked about it, and they this
        if self.parent is not None:
            t.cast("set[RunScope]", self.parent._children).discard(self)

    def __enter__(self) -> RunScope:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


def gather(scope: RunScope, jobs: t.Sequence[Callable[[RunScope], None]]) -> None:
    """Run jobs concurrently in a child scope, each with a scope of its own; return when all ended.

    One job runs in the calling greenlet. The first exception of a job cancels the others and is raised here.

    :raises Cancelled: the outer scope was cancelled.
    """
    with scope.child() as batch:
        if len(jobs) == 1:
            with batch.child() as only:
                jobs[0](only)
            return
        for job in jobs:
            batch.spawn(_in_child, batch, job)
        batch.join()
        if batch.error is not None:
            raise batch.error
        if batch.cause is not None:
            raise Cancelled(batch.cause)


def _in_child(batch: RunScope, job: Callable[[RunScope], None]) -> None:
    with batch.child() as scope:
        job(scope)


def start_run(fn: Callable[[], None]) -> Task:
    """Start the greenlet of a run, outside any request's greenlet."""
    return gevent.spawn(fn)


def spawn_service(fn: Callable[..., t.Any], *args: t.Any) -> Task:
    """A background greenlet of the worker (sweeps, heartbeats); its failure is logged, never silent."""
    greenlet = gevent.spawn(fn, *args)
    greenlet.link_exception(lambda g: log.error("service %r died", fn, exc_info=g.exc_info))
    return greenlet


def stop_service(greenlet: Task) -> None:
    """End a background greenlet made by :func:`spawn_service`."""
    greenlet.kill(block=False)
