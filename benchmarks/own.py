"""What the shared bench does not measure: the plateau, everyone leaving at once, the start.

Law of this room: a measurement returns numbers and judges nothing; it uses the bench's own way of counting
CPU (the whole session of a server), memory (PSS) and time (the monotonic clock of the machine).
"""

from __future__ import annotations

import select
import signal
import time
import typing as t

Sample = dict[str, t.Any]


def plateau(bench: t.Any, name: str, streams: int, tokens: int = 200, delay_us: int = 50_000) -> Sample:
    """CPU ms per 1,000 tokens between the last stream's start and the first one's end."""
    bench.quiet()
    bench.ctl(n=tokens, delay_us=delay_us, reasoning=0, tool=0, burst=1, reset=1)
    ramp_us = min(3333, 1_000_000 // streams)
    began = time.monotonic()
    client = bench.load(name, n=tokens, conc=streams, total=streams, timeout=60, ramp=ramp_us, popen=True)
    last_start = began + streams * ramp_us / 1e6 + 0.3
    first_end = began + tokens * delay_us / 1e6 - 0.3
    time.sleep(max(0.0, last_start - time.monotonic()))
    sid = bench.procs[name].pid
    cpu_from, tokens_from = bench.cpu(sid), bench.stats()["tokens"]
    time.sleep(max(0.2, first_end - time.monotonic()))
    cpu_to, tokens_to = bench.cpu(sid), bench.stats()["tokens"]
    client.communicate()
    made = max(tokens_to - tokens_from, 1)
    return {"cpu_ms_per_1k": (cpu_to - cpu_from) / made * 1e6, "tokens": made, "streams": streams}


def leave_at_once(bench: t.Any, name: str, clients: int, patience_s: float = 20.0) -> Sample:
    """All ``clients`` vanish in one instant, the model silent: when is the last upstream call closed?"""
    bench.quiet(20)
    bench.ctl(n=50, delay_us=120_000_000, reasoning=0, tool=0, reset=1)
    client = bench.load(
        name,
        n=50,
        conc=clients,
        total=clients,
        timeout=300,
        ramp=4000 if clients > 100 else 0,
        hold=300,
        popen=True,
    )
    select.select([client.stderr], [], [], 60)  # the client says so when every stream has its first token
    time.sleep(1.0)
    opened = bench.stats()["open"]
    left_at = time.monotonic()
    client.send_signal(signal.SIGKILL)  # the kernel closes all of its sockets
    client.communicate()
    end = left_at + patience_s
    state = bench.stats()
    while state["open"] and time.monotonic() < end:
        time.sleep(0.02)
        state = bench.stats()
    bench.ctl(delay_us=0, n=1)
    took = (state["last_abort_us"] / 1e6 - left_at) * 1000 if state["aborted"] else None
    return {"clients": clients, "opened": opened, "still_open": state["open"], "all_closed_ms": took}


def cold_start(bench: t.Any, name: str) -> Sample:
    """Seconds from the start of the process to the first whole answer, and PSS in MB after a pause.

    The server must not be running; it is afterwards.
    """
    bench.ctl(n=5, delay_us=0, reasoning=0, tool=0)
    began = time.monotonic()
    if bench.start(name) is None:
        raise RuntimeError(f"{name} did not start")
    while not bench.load(name, n=5, conc=1, total=1, timeout=20).get("ok"):
        if time.monotonic() - began > 60:
            raise RuntimeError(f"{name} gave no answer")
        time.sleep(0.02)
    first = time.monotonic() - began
    time.sleep(2.0)
    return {"first_answer_s": first, "rest_mb": bench.mem(bench.procs[name].pid)[0]}
