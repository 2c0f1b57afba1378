"""What the shared bench does not measure: the plateau, everyone leaving at once, the start, a graph of thirty blocks.

Law of this room: a measurement returns numbers and judges nothing; it uses the bench's own way of counting
CPU (the whole session of a server), memory (PSS) and time (the monotonic clock of the machine).
"""

from __future__ import annotations

import json
import os
import select
import signal
import statistics
import subprocess
import sys
import time
import typing as t
from pathlib import Path

from benchmarks.harness import ROOT

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


def thirty_blocks(langgraph: Path | None, runs: int, rounds: int) -> dict[str, Sample]:
    """The graph of thirty blocks on each engine, in turns, each in a process of its own on one core; medians.

    :param langgraph: the interpreter of its environment; None leaves it out.
    """
    commands = {"studio": [sys.executable, "-m", "benchmarks.graph.studio_side", str(runs)]}
    if langgraph is not None:
        commands["langgraph"] = [str(langgraph), str(ROOT / "benchmarks/graph/langgraph_side.py"), str(runs)]
    core = {max(os.sched_getaffinity(0))}
    found: dict[str, list[Sample]] = {}
    for _ in range(rounds):
        for name, command in commands.items():
            done = subprocess.run(
                command,
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=False,
                preexec_fn=lambda: os.sched_setaffinity(0, core),
            )
            if done.returncode:
                raise RuntimeError(f"{name} did not run the graph:\n{done.stderr[-2000:]}")
            result = json.loads(done.stdout)
            for way, sample in {"": result}.items() if name == "studio" else result.items():
                found.setdefault(f"{name} {way}".strip(), []).append(sample)
    answers = {
        json.dumps(sample["answer"], sort_keys=True) for samples in found.values() for sample in samples
    }
    if len(answers) != 1:
        raise RuntimeError(f"the engines do not agree on the answer: {answers}")
    numbers = ("cpu_ms_per_run", "cpu_us_per_block", "wall_ms_per_run", "blocks", "bytes")
    return {
        name: {key: statistics.median(sample[key] for sample in samples) for key in numbers}
        for name, samples in found.items()
    }
