"""Counts what a test leaves behind: greenlets, threads, sockets.

Law of this room: a leak is what is still there after a generous wait, so that a test which ended while
its clean-up was on its last step does not fail.
"""

from __future__ import annotations

import gc
import os
import threading
from dataclasses import dataclass

import gevent
from greenlet import greenlet


@dataclass(frozen=True)
class Held:
    """What a process holds: living greenlets and threads by identity, sockets by inode."""

    greenlets: frozenset[int]
    threads: frozenset[int]
    sockets: frozenset[str]


def _greenlets() -> dict[int, str]:
    living: dict[int, str] = {}
    # Threads of gevent's own pool, in which names are looked up: it keeps what it once began.
    pooled: list[greenlet] = []
    names = gevent.get_hub().threadpool.task_queue
    for thing in gc.get_objects():
        # A type check by `type(...)`, since isinstance asks lazy proxies for their class and wakes them.
        if issubclass(type(thing), greenlet) and not thing.dead and thing:
            living[id(thing)] = repr(thing)
            if getattr(thing, "_task_queue", None) is names:
                pooled += [thing, thing.parent]
    for hub in (gevent.get_hub(), gevent.getcurrent(), *pooled):
        living.pop(id(hub), None)
    return living


def _sockets() -> dict[str, str]:
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
        if target.startswith("socket:"):
            found[target] = f"fd {fd} {target}"
    return found


def _threads() -> dict[int, str]:
    return {id(thread): repr(thread) for thread in threading.enumerate()}


def take() -> Held:
    """What is held now."""
    gc.collect()
    return Held(frozenset(_greenlets()), frozenset(_threads()), frozenset(_sockets()))


def since(before: Held) -> list[str]:
    """One line for each thing held now that was not held ``before``."""
    gc.collect()
    return [
        *(f"greenlet {text}" for key, text in _greenlets().items() if key not in before.greenlets),
        *(f"thread {text}" for key, text in _threads().items() if key not in before.threads),
        *(f"socket {text}" for key, text in _sockets().items() if key not in before.sockets),
    ]


def wait_for_none_since(before: Held, seconds: float = 10.0) -> list[str]:
    """Like :func:`since`, after giving clean-up up to ``seconds`` to finish."""
    left = since(before)
    for _ in range(int(seconds / 0.05)):
        if not left:
            break
        gevent.sleep(0.05)
        left = since(before)
    return left
