"""The graph on LangGraph: ``python langgraph_side.py RUNS`` prints what it took, by way of streaming, as JSON.

Law of this room: the same thirty nodes and edges as ``thirty.yaml``, written as its documentation writes them: a state
with one reducer, node functions, conditional edges, agents that stream their words by the stream writer. Each item that
is streamed is made bytes, as for a client. Node functions use f-strings where Studio renders sandboxed templates, and
nothing is stored but where the row says so: both are in its favour.
"""

from __future__ import annotations

import asyncio
import gc
import json
import operator
import sys
import time
from typing import Annotated, Any, TypedDict

import orjson
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph

#: As on the other side.
GC_THRESHOLDS = (50_000, 20, 50)
WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
INPUT = {"message": "hello", "n": 5, "out": {}, "rounds": 0}


class State(TypedDict):
    """What nodes hand on; ``out`` holds what each has said."""

    message: str
    n: int
    rounds: int
    out: Annotated[dict[str, Any], operator.or_]


def put(name: str, text: Any) -> Any:
    """A node that makes a text."""

    def node(state: State) -> dict[str, Any]:
        return {"out": {name: text(state, state["out"])}}

    return node


def agent(name: str, prompt: Any) -> Any:
    """A node that streams its words."""

    def node(state: State) -> dict[str, Any]:
        prompt(state["out"])
        write = get_stream_writer()
        said = []
        for place, word in enumerate(WORDS):
            piece = word if place == 0 else f" {word}"
            write({"node": name, "text": piece})
            said.append(piece)
        return {"out": {name: "".join(said)}}

    return node


def pass_on(state: State) -> dict[str, Any]:
    """A node that other edges hang on."""
    return {}


def build(checkpointer: Any = None) -> Any:
    """The compiled graph."""
    g = StateGraph(State)
    add = g.add_node
    add("start", pass_on)
    add("prepare", put("prepare", lambda s, o: f"{s['message']}!"))
    add("more", put("more", lambda s, o: f"{o['prepare']} {s['n']}"))
    add("check", pass_on)
    add("big", put("big", lambda s, o: f"big {o['more']}"))
    add("small", put("small", lambda s, o: f"small {o['more']}"))
    add("joined", put("joined", lambda s, o: o.get("big") or o.get("small")))
    add("rounds", pass_on)
    add(
        "step",
        lambda s: {
            "rounds": s["rounds"] + 1,
            "out": {"step": f"round {s['rounds'] + 1} of {s['out']['joined']}"},
        },
    )
    add("note", put("note", lambda s, o: f"{o['step']}."))
    add("fan", pass_on)
    for lane in "abcd":
        add(f"{lane}1", put(f"{lane}1", lambda s, o, lane=lane: f"{lane}: {o['note']}"))
        add(f"{lane}2", agent(f"{lane}2", lambda o, lane=lane: o[f"{lane}1"]))
        add(f"{lane}3", put(f"{lane}3", lambda s, o, lane=lane: f"{o[f'{lane}2']}?"))
        g.add_edge("fan", f"{lane}1")
        g.add_edge(f"{lane}1", f"{lane}2")
        g.add_edge(f"{lane}2", f"{lane}3")
    add("merge", put("merge", lambda s, o: f"{o['a3']} {o['b3']} {o['c3']} {o['d3']}"))
    g.add_edge([f"{lane}3" for lane in "abcd"], "merge")
    add("route", pass_on)
    for way in ("short", "long", "other"):
        add(way, put(way, lambda s, o, way=way: f"{way} {o['merge']}"))
        g.add_edge(way, "write")
    add("write", agent("write", lambda o: o.get("short") or o.get("long") or o.get("other")))
    add("answer", put("answer", lambda s, o: {"text": o["write"], "rounds": s["rounds"]}))
    for source, target in zip(["start", "prepare", "more"], ["prepare", "more", "check"], strict=True):
        g.add_edge(source, target)
    g.add_edge(START, "start")
    g.add_conditional_edges("check", lambda s: "big" if s["n"] > 3 else "small", ["big", "small"])
    g.add_edge("big", "joined")
    g.add_edge("small", "joined")
    g.add_edge("joined", "rounds")
    g.add_conditional_edges("rounds", lambda s: "step" if s["rounds"] < 3 else "fan", ["step", "fan"])
    g.add_edge("step", "note")
    g.add_edge("note", "rounds")
    g.add_edge("merge", "route")
    g.add_conditional_edges("route", _way, ["short", "long", "other"])
    g.add_edge("write", "answer")
    g.add_edge("answer", END)
    return g.compile(checkpointer=checkpointer)


def _way(state: State) -> str:
    if len(state["out"]["merge"]) < 10:
        return "short"
    return "long" if state["n"] > 3 else "other"


def stream(graph: Any, mode: list[str], number: int) -> tuple[int, int, Any]:
    """One run by ``stream``: bytes, nodes that ended, the answer."""
    size = blocks = 0
    answer = None
    for kind, item in graph.stream(INPUT, _config(number), stream_mode=mode):
        size += len(orjson.dumps(item, default=str))
        if kind == "updates":
            blocks += len(item)
            answer = item.get("answer", answer)
    return size, blocks, answer


async def astream(graph: Any, mode: list[str], number: int) -> tuple[int, int, Any]:
    """The same by ``astream``."""
    size = blocks = 0
    answer = None
    async for kind, item in graph.astream(INPUT, _config(number), stream_mode=mode):
        size += len(orjson.dumps(item, default=str))
        if kind == "updates":
            blocks += len(item)
            answer = item.get("answer", answer)
    return size, blocks, answer


def _config(number: int) -> dict[str, Any]:
    return {"recursion_limit": 100, "configurable": {"thread_id": str(number)}}


async def _each(graph: Any, mode: list[str], numbers: range) -> list[tuple[int, int, Any]]:
    return [await astream(graph, mode, number) for number in numbers]


def measure(
    mode: list[str], runs: int, checkpointer: Any = None, asynchronous: bool = False
) -> dict[str, Any]:
    """Warm up, run, count."""
    graph = build(checkpointer)

    def go(numbers: range) -> list[tuple[int, int, Any]]:
        if asynchronous:
            return asyncio.run(_each(graph, mode, numbers))
        return [stream(graph, mode, number) for number in numbers]

    warm = max(2, runs // 10)
    go(range(warm))
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    cpu, wall = time.process_time(), time.perf_counter()
    found = go(range(warm, warm + runs))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    size, blocks, answer = found[-1]
    return {
        "cpu_ms_per_run": cpu / runs * 1e3,
        "wall_ms_per_run": wall / runs * 1e3,
        "blocks": blocks,
        "cpu_us_per_block": cpu / runs / blocks * 1e6,
        "bytes": size,
        "answer": answer and answer["out"]["answer"],
    }


def main(runs: int) -> dict[str, Any]:
    """Every way of streaming."""
    plain = ["updates", "custom"]
    return {
        "stream": measure(plain, runs),
        "astream": measure(plain, runs, asynchronous=True),
        "stream, debug too": measure([*plain, "debug"], runs),
        "stream, checkpoints in memory": measure(plain, runs, InMemorySaver()),
    }


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]))))
