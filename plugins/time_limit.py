"""A limit on the time that other people's code may take, whatever it does meanwhile.

Law of this room: the code runs in a thread of its own and its caller waits in the kernel, so that nothing it does
(sleep, a connection that hangs, a loop) can hold the caller longer than the limit. A thread cannot be ended from
outside: one that is late gets an exception at its next step and its result is dropped; one that waits in native code
stays behind, idle, until the process ends.
"""

from __future__ import annotations

import ctypes
import typing as t
from collections.abc import Callable

import gevent
from gevent.event import Event
from gevent.monkey import get_original

_T = t.TypeVar("_T")


class TooSlow(Exception):
    """The code did not end in its time."""


class Ended(Exception):
    """The code raised what is no ``Exception`` and would end its caller, too; the text names it."""


class _Late(BaseException):
    """Thrown into a thread nobody waits for any more."""


def run(seconds: float, work: Callable[[], _T]) -> _T:
    """The result of ``work()``, for the start of a process: while it runs, nothing else does.

    :param seconds: how long it may take.
    :raises TooSlow: it took longer. :raises Ended: it raised what is no ``Exception``.
    :raises Exception: what it raised.
    """
    # The original: under gevent the names in threading mean greenlets of this very thread.
    done = get_original("_thread", "allocate_lock")()
    done.acquire()
    return _run(seconds, work, done.release, lambda: done.acquire(True, seconds))


def run_beside(seconds: float, work: Callable[[], _T]) -> _T:
    """As :func:`run`, for a server that is running: while this greenlet waits, the others go on."""
    hub = gevent.get_hub()
    done = Event()
    return _run(seconds, work, lambda: hub.loop.run_callback_threadsafe(done.set), lambda: done.wait(seconds))


def _run(seconds: float, work: Callable[[], _T], tell: Callable[[], object], wait: Callable[[], bool]) -> _T:
    """Do ``work()`` in a thread.

    :param tell: called there when it is over. :param wait: whether it was over in time.
    """
    found: list[_T] = []
    raised: list[BaseException] = []

    def inside() -> None:
        try:
            found.append(work())
        except BaseException as error:
            raised.append(error)
        finally:
            tell()

    thread = get_original("_thread", "start_new_thread")(inside, ())
    if not wait():
        _stop(thread)
        raise TooSlow(f"not done within {seconds:g} s")
    return _outcome(found, raised)


def named(error: BaseException) -> str:
    """Kind and text of ``error`` on one line, whatever its text does."""
    if isinstance(error, Ended):
        return str(error)
    try:
        text = str(error).strip().replace("\n", " ")
    except Exception:  # anybody's code
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _outcome(found: list[_T], raised: list[BaseException]) -> _T:
    if not raised:
        return found[0]
    error = raised[0]
    if isinstance(error, Exception):
        raise error
    raise Ended(named(error)) from error


def _stop(thread: int) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(_Late))
