"""Measures Studio beside references and peers in one run, and writes ``results.md``.

    python benchmarks/run.py            everything: about 25 minutes on two cores
    python benchmarks/run.py --quick    one round, references only: about 6 minutes
    python benchmarks/run.py --graph    only the graph of thirty blocks beside LangGraph: about 2 minutes
    python benchmarks/run.py --smoke    does it work at all: under 90 seconds, no figure means anything

Law of this room: it fails when a stream is lost, never because a figure is high.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import typing as t
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import own, report
from benchmarks.harness import (
    BENCH,
    HERE,
    ROOT,
    Missing,
    Setting,
    bench_module,
    peers_folder,
    prepare,
    set_up,
)

REFERENCES = ("direct", "nginx", "ref_raw", "ref_typed")
PEERS = ("litellm", "agno", "pydantic_ai")
_STEADY = "+".join(("nginx", "ref_raw", "ref_typed", "studio"))
_PEERS = "+".join(PEERS)
#: The bench's own notation: scenario:rounds:servers. The 1,000 open streams come first: memory per stream is
#: only true in a server's first round, later ones take what it kept.
FULL = f"c:1,a:2,b50:1,b:2:{_STEADY},b:1:{_PEERS},d:2,f:2,e:1,e2:1"
QUICK = f"c:1:{_STEADY},a:1,b50:1:{_STEADY},b:1:{_STEADY},d:1,f:1,e:1,e2:1"


def shared_scenarios(setting: Setting, names: t.Sequence[str], scenarios: str, out: Path) -> dict[str, t.Any]:
    """The scenarios of the shared bench, all servers in turns; its samples."""
    command = [
        sys.executable,
        "bench.py",
        "run",
        "--peers",
        ",".join(names),
        "--scen",
        scenarios,
        "--out",
        str(out),
    ]
    env = {**os.environ, **setting.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run(command, cwd=BENCH, env=env, check=True)
    result: dict[str, t.Any] = json.loads(out.read_text())
    return result


def own_scenarios(
    setting: Setting, names: t.Sequence[str], streams: int, clients: int, tokens: int = 200
) -> dict[str, dict[str, t.Any]]:
    """Start, plateau and leave-at-once for each of ``names``."""
    bench = bench_module(setting)
    found: dict[str, dict[str, t.Any]] = {"start": {}, "plateau": {}, "leave": {}}
    bench.start_upstream()
    try:
        for name in names:
            found["start"][name] = own.cold_start(bench, name)
            print("start", name, found["start"][name], flush=True)
        for name in names:
            found["plateau"][name] = own.plateau(bench, name, streams, tokens)
            print("plateau", name, found["plateau"][name], flush=True)
        for name in names:
            found["leave"][name] = own.leave_at_once(bench, name, clients)
            print("leave", name, found["leave"][name], flush=True)
    finally:
        bench.stop_all()
    return found


def complain(samples: report.Samples, measured: dict[str, dict[str, t.Any]]) -> list[str]:
    """What Studio lost: streams without their tokens, upstream connections left open."""
    lost = [
        f"{s['sc']}: {s.get('errors')} streams failed, {s.get('ok', 0)} did not: {s.get('err', '')[:200]}"
        for s in samples
        if s.get("peer") == "studio" and (s.get("errors") or s.get("exc"))
    ]
    unclosed = [
        f"{s['sc']}: the model's connection was closed {s['closed']} times of {s['of']}"
        for s in samples
        if s.get("peer") == "studio" and "closed" in s and s["closed"] < s["of"]
    ]
    left = measured.get("leave", {}).get("studio", {})
    short = (
        []
        if left.get("opened") == left.get("clients")
        else [f"leave: only {left.get('opened')} streams opened"]
    )
    stuck = [f"leave: {left['still_open']} upstream connections still open"] if left.get("still_open") else []
    return [*lost, *unclosed, *short, *stuck]


def smoke_samples(setting: Setting) -> report.Samples:
    """A handful of streams of each kind through Studio and, for comparison, straight from the model."""
    bench = bench_module(setting)
    samples: report.Samples = []

    def keep(scenario: str, peer: str, sample: dict[str, t.Any]) -> None:
        samples.append({"sc": scenario, "peer": peer, **sample})
        print(
            scenario,
            peer,
            {key: sample.get(key) for key in ("ok", "errors", "err", "closed", "of")},
            flush=True,
        )

    bench.start_upstream()
    try:
        for peer in ("direct", "studio"):
            if bench.start(peer) is None:
                raise Missing(f"{peer} did not start; see {setting.peers}/log")
            bench.ctl(n=20, delay_us=0, reasoning=0, tool=0, burst=1, reset=1)
            keep("a", peer, bench.timed(peer, n=20, conc=4, total=40, timeout=20))
            keep("d", peer, bench.timed(peer, n=20, conc=1, total=10, timeout=20))
            bench.ctl(n=20, delay_us=20_000, reset=1)
            keep("b", peer, bench.timed(peer, n=20, conc=20, total=20, timeout=20))
        keep("e", "studio", bench.sc_e("studio", 0, n=100, tries=2))
        bench.ctl(n=20, delay_us=0, reasoning=0, tool=1, reset=1)
        run = bench.timed("studio", n=20, conc=2, total=10, timeout=20)
        keep("f", "studio", {**run, "upstream_calls_per_run": bench.stats()["requests"] / 10, "c1": run})
    finally:
        bench.stop_all()
        bench.procs.clear()
    return samples


def main(argv: t.Sequence[str] | None = None) -> int:
    """Parse, measure, write; 1 when Studio lost something, 2 when something needed is missing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="one round, references only")
    size.add_argument("--smoke", action="store_true", help="only that it works")
    size.add_argument(
        "--graph", action="store_true", help="only the graph of thirty blocks, beside LangGraph"
    )
    parser.add_argument(
        "--out", type=Path, help="where the page goes (default: benchmarks/results.md; smoke: nowhere)"
    )
    args = parser.parse_args(argv)
    try:
        with tempfile.TemporaryDirectory(prefix="studio-bench-") as folder:
            return measure(args, Path(folder))
    except Missing as problem:
        print(f"benchmarks: {problem}", file=sys.stderr)
        return 2


def langgraph(peers: Path) -> Path:
    """The interpreter of LangGraph's own environment, made when it is not there."""
    set_up(peers, ("langgraph",))
    return peers / "langgraph" / "bin" / "python"


def measure_graph(out: Path) -> int:
    """The graph alone; its section of the page."""
    graph = own.thirty_blocks(langgraph(peers_folder()), runs=200, rounds=5)
    report.put_graph(out, graph, f"{report.today()} with {report.versions()}")
    print("\n".join(report.graph_section(graph)))
    return 0


def measure(args: argparse.Namespace, folder: Path) -> int:
    """One run of the chosen size."""
    if args.graph:
        return measure_graph(args.out or HERE / "results.md")
    names = () if args.smoke else (*REFERENCES, "studio", *(() if args.quick else PEERS))
    setting = prepare(names, folder)
    raw = folder / "samples.json"
    if args.smoke:
        samples, start = (
            smoke_samples(setting),
            {name: {"start_s": None, "mem_mb": None} for name in ("direct", "studio")},
        )
        raw.write_text(json.dumps({"samples": samples, "start": start}))
        measured = own_scenarios(setting, ("studio",), streams=10, clients=50, tokens=40)
        measured["graph"] = own.thirty_blocks(None, runs=5, rounds=1)
    else:
        samples = shared_scenarios(setting, names, QUICK if args.quick else FULL, raw)["samples"]
        measured = own_scenarios(
            setting, ("nginx", "ref_raw", "ref_typed", "studio"), streams=300, clients=1000
        )
        measured["graph"] = own.thirty_blocks(langgraph(setting.peers), 200, 2 if args.quick else 5)
    note = (
        "A smoke run: figures mean nothing."
        if args.smoke
        else "A quick run: one round, no peers."
        if args.quick
        else ""
    )
    out = args.out or (folder / "smoke.md" if args.smoke else HERE / "results.md")
    report.write(out, raw, samples, measured, note)
    if not args.smoke:
        (setting.peers / "studio-samples.json").write_text(json.dumps({"samples": samples, "own": measured}))
    print(out.read_text() if args.smoke else f"wrote {out.relative_to(ROOT)}")
    problems = complain(samples, measured)
    for problem in problems:
        print(f"benchmarks: Studio lost something: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
