"""Writes the results: what was aimed at, what was reached, and the tables of one run.

Law of this room: a missed target is printed as missed, by how much; nothing is rounded in our favour.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import statistics
import subprocess
import sys
import typing as t
from pathlib import Path

from benchmarks.harness import BENCH

Samples = list[dict[str, t.Any]]


class Row(t.NamedTuple):
    """One target: what it is, what Studio reached, the limit, and the same figure of others in this run."""

    what: str
    value: float | None
    limit: float
    unit: str
    others: str


def get(sample: dict[str, t.Any], path: str) -> float | None:
    """A dotted path into a sample, or None."""
    value: t.Any = sample
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return t.cast("float | None", value)


class Figures:
    """Medians over the rounds of one run."""

    def __init__(self, samples: Samples, own: dict[str, dict[str, t.Any]]) -> None:
        self._samples, self.own = samples, own

    def of(self, scenario: str, peer: str, path: str) -> float | None:
        """Median of ``path`` over the rounds of ``peer`` in ``scenario``."""
        values = [
            value
            for sample in self._samples
            if sample.get("sc") == scenario and sample.get("peer") == peer and "exc" not in sample
            if (value := get(sample, path)) is not None
        ]
        return statistics.median(values) if values else None

    def per_request(self, peer: str) -> float | None:
        """CPU ms of one request of 20 tokens, less 20 saturated tokens: what setting a run up costs."""
        values = [
            sample["cpu_s"] / max(sample["ok"], 1) * 1e3
            for sample in self._samples
            if sample.get("sc") == "d" and sample.get("peer") == peer and "exc" not in sample
        ]
        token = self.of("a", peer, "cpu_ms_per_1k")
        return statistics.median(values) - 20 * token / 1000 if values and token is not None else None

    def measured(self, kind: str, peer: str, path: str) -> float | None:
        """A figure of our own measurements."""
        return get(self.own.get(kind, {}).get(peer, {}), path)


def show(value: float | None, digits: int = 1) -> str:
    """A number for a table."""
    return "–" if value is None else f"{value:,.{digits}f}"


def ratio(value: float | None, reference: float | None) -> float | None:
    """``value / reference`` where both are there."""
    return value / reference if value is not None and reference else None


_PEERS = "nginx ref_raw ref_typed agno"


def targets(f: Figures) -> list[Row]:
    """The rows of the architecture's table that exist, with the same figures of the references."""
    return [*_per_token(f), *_delays(f), *_per_run(f), *_leaving(f), *_standing(f)]


def _beside(f: Figures, scenario: str, path: str, digits: int = 1, peers: str = _PEERS) -> str:
    """The same figure of the references, for those that have it."""
    shown = [(peer, f.of(scenario, peer, path)) for peer in peers.split()]
    return ", ".join(f"{peer} {show(value, digits)}" for peer, value in shown if value is not None)


def _per_token(f: Figures) -> list[Row]:
    """What a token costs."""
    cpu = f.of("b", "studio", "cpu_ms_per_1k")
    flat, flat_ref = (
        f.measured("plateau", "studio", "cpu_ms_per_1k"),
        f.measured("plateau", "ref_raw", "cpu_ms_per_1k"),
    )
    return [
        Row("CPU per 1k tokens, 300 streams × 20/s", cpu, 38, "ms", _beside(f, "b", "cpu_ms_per_1k")),
        Row("the same ÷ `ref_raw`", ratio(cpu, f.of("b", "ref_raw", "cpu_ms_per_1k")), 1.4, "×", ""),
        Row(
            "plateau of the same ÷ `ref_raw`",
            ratio(flat, flat_ref),
            1.2,
            "×",
            f"{show(flat)} against {show(flat_ref)} ms",
        ),
        Row(
            "CPU per 1k tokens, saturated",
            f.of("a", "studio", "cpu_ms_per_1k"),
            9,
            "ms",
            _beside(f, "a", "cpu_ms_per_1k"),
        ),
    ]


def _delays(f: Figures) -> list[Row]:
    """How much later a token comes."""
    over = (f.of("d", "studio", "ttft_ms.p50") or 0) - (f.of("d", "direct", "ttft_ms.p50") or 0)
    return [
        Row(
            "added latency p50, 300 streams",
            f.of("b", "studio", "lat_ms.p50"),
            0.3,
            "ms",
            _beside(f, "b", "lat_ms.p50", 2),
        ),
        Row(
            "added latency p99, 300 streams",
            f.of("b", "studio", "lat_ms.p99"),
            3,
            "ms",
            _beside(f, "b", "lat_ms.p99", 2),
        ),
        Row("first token over direct, alone", over, 1.2, "ms", _beside(f, "d", "ttft_ms.p50", 2)),
    ]


def _per_run(f: Figures) -> list[Row]:
    """What a run costs, and a stream that is open."""
    peers_f = "agno pydantic_ai"
    return [
        Row(
            "agent run with one tool call, alone",
            f.of("f", "studio", "c1.done_ms.p50"),
            3,
            "ms",
            _beside(f, "f", "c1.done_ms.p50", 1, peers_f),
        ),
        Row(
            "set-up CPU per run",
            f.per_request("studio"),
            0.9,
            "ms",
            f"ref_raw {show(f.per_request('ref_raw'), 2)}, agno {show(f.per_request('agno'), 2)}",
        ),
        Row(
            "memory per open stream of 1,000",
            f.of("c", "studio", "kb_per_stream"),
            32,
            "KB",
            _beside(f, "c", "kb_per_stream", 0),
        ),
    ]


def _leaving(f: Figures) -> list[Row]:
    """How soon the vendor is let go of when clients leave."""
    leave = f.measured("leave", "studio", "all_closed_ms")
    clients = f.measured("leave", "studio", "clients") or 0
    return [
        Row(
            "client leaves a silent model: closed after",
            f.of("e2", "studio", "cancel_ms"),
            2,
            "ms",
            _beside(f, "e2", "cancel_ms", 2),
        ),
        Row(
            f"{clients:,.0f} leave at once: all closed within",
            leave,
            200,
            "ms",
            f"ref_raw {show(f.measured('leave', 'ref_raw', 'all_closed_ms'))}",
        ),
    ]


def _standing(f: Figures) -> list[Row]:
    """The server by itself, and its engine."""
    return [
        Row("start to first answer", f.measured("start", "studio", "first_answer_s"), 2, "s", ""),
        Row("memory at rest", f.measured("start", "studio", "rest_mb"), 85, "MB", ""),
        Row(
            "CPU per block, graph of thirty blocks",
            f.measured("graph", "studio", "cpu_us_per_block"),
            100,
            "µs",
            f"LangGraph {show(f.measured('graph', 'langgraph stream', 'cpu_us_per_block'), 0)}",
        ),
    ]


def verdict(row: Row) -> str:
    """``met``, or by how much it is missed."""
    if row.value is None:
        return "not measured"
    return (
        "met" if row.value <= row.limit else f"**missed** by {show((row.value / row.limit - 1) * 100, 0)} %"
    )


def multiples(f: Figures) -> list[str]:
    """How many times Studio's figure each other server needs; over 1 is worse than Studio."""
    columns = {
        "CPU saturated": ("a", "cpu_ms_per_1k"),
        "CPU 50 streams": ("b50", "cpu_ms_per_1k"),
        "CPU 300 streams": ("b", "cpu_ms_per_1k"),
        "first token alone": ("d", "ttft_ms.p50"),
        "run with a tool, alone": ("f", "c1.done_ms.p50"),
        "KB per open stream": ("c", "kb_per_stream"),
    }
    lines = ["| server | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for peer in ("nginx", "ref_raw", "ref_typed", "litellm", "agno", "pydantic_ai"):
        cells = [ratio(f.of(sc, peer, path), f.of(sc, "studio", path)) for sc, path in columns.values()]
        if any(cell is not None for cell in cells):
            lines.append(f"| {peer} | " + " | ".join(show(cell, 2) for cell in cells) + " |")
    return lines


def today() -> str:
    """The date."""
    return f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"


def versions() -> str:
    """What was measured, and on what."""
    names = ("flask", "gunicorn", "gevent", "greenlet", "msgspec", "orjson", "sqlalchemy")
    found = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return (
        f"Studio {commit.stdout.strip() or 'without git'}, Python {platform.python_version()}, {found}; "
        f"{os.cpu_count()} cores, Linux {platform.release().split('-')[0]}"
    )


def bench_tables(raw: Path) -> str:
    """The bench's own tables of the same samples."""
    done = subprocess.run(
        [sys.executable, str(BENCH / "report.py"), str(raw)], capture_output=True, text=True, check=False
    )
    return done.stdout if done.returncode == 0 else f"(the bench's report failed: {done.stderr[-300:]})"


def own_tables(own: dict[str, dict[str, t.Any]]) -> str:
    """Our own measurements, one table each."""
    lines = ["### Plateau: between the last stream's start and the first one's end", ""]
    lines += ["| server | streams | CPU ms per 1k tokens | tokens counted |", "|---|---|---|---|"]
    for peer, s in own.get("plateau", {}).items():
        lines.append(f"| {peer} | {s['streams']} | {show(s['cpu_ms_per_1k'])} | {s['tokens']:,} |")
    lines += ["", "### Everyone leaves at once, the model silent", ""]
    lines += [
        "| server | clients | open upstream before | all closed after ms | still open 20 s later |",
        "|---|---|---|---|---|",
    ]
    for peer, s in own.get("leave", {}).items():
        took = show(s["all_closed_ms"])
        lines.append(f"| {peer} | {s['clients']:,} | {s['opened']:,} | {took} | {s['still_open']} |")
    lines += [
        "",
        "### Start",
        "",
        "| server | first whole answer after s | PSS at rest MB |",
        "|---|---|---|",
    ]
    for peer, s in own.get("start", {}).items():
        lines.append(f"| {peer} | {show(s['first_answer_s'], 2)} | {show(s['rest_mb'], 0)} |")
    return "\n".join(lines) + "\n"


GRAPH = "## A graph of thirty blocks"


def graph_section(graph: dict[str, dict[str, t.Any]]) -> list[str]:
    """The engines side by side."""
    own = graph.get("studio", {}).get("cpu_ms_per_run")
    lines = [
        GRAPH,
        "",
        "One run after another in one process on one core, streamed to a consumer that makes bytes of each item.",
        "Studio: run events at level full, templates in the sandbox, the record of the run stored in SQLite.",
        "LangGraph: nodes that are plain functions, `updates` and the agents' words (`custom`), nothing stored but",
        "where it says so. Executions: of blocks; LangGraph's loop node is one for each round.",
        "",
        "| engine | CPU ms per run | ÷ Studio | executions | CPU µs per execution | wall ms per run | bytes |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, s in graph.items():
        lines.append(
            f"| {name} | {show(s['cpu_ms_per_run'], 2)} | {show(ratio(s['cpu_ms_per_run'], own), 1)} |"
            f" {show(s['blocks'], 0)} | {show(s['cpu_us_per_block'], 0)} | {show(s['wall_ms_per_run'], 2)} |"
            f" {show(s['bytes'], 0)} |"
        )
    return [*lines, ""]


def put_graph(path: Path, graph: dict[str, dict[str, t.Any]], when: str) -> None:
    """Replace the section of a page whose other figures are of another run."""
    before, _, rest = path.read_text().partition(GRAPH)
    rest = rest[rest.find("\n## ") + 1 :] if "\n## " in rest else ""
    if not rest:
        before, _, rest = before.partition("## Tables of the bench")
        rest = "## Tables of the bench" + rest
    section = graph_section(graph)
    section.insert(2, f"Measured {when}, apart from the rest of this page.")
    path.write_text(before + "\n".join(section) + "\n" + rest)


def write(path: Path, raw: Path, samples: Samples, own: dict[str, dict[str, t.Any]], note: str) -> None:
    """The whole page.

    :param raw: the bench's file of samples, for its own tables.
    :param note: a sentence on how this run differs from a full one; empty for a full one.
    """
    figures = Figures(samples, own)
    rows = [
        f"| {row.what} | {show(row.value, 2)} {row.unit} | ≤ {row.limit:g} {row.unit} | {verdict(row)} |"
        f" {row.others} |"
        for row in targets(figures)
    ]
    parts = [
        "# Results",
        "",
        "<!-- written by `make bench`; never edit by hand -->",
        "",
        f"{today()}. {versions()}.",
        "One worker. Everything below comes from one run in which all servers took turns: ratios count,",
        "absolute figures belong to this machine. Studio is measured whole: authentication, rights, run log,",
        "run record, flow gate.",
        *([note] if note else []),
        "",
        "## Targets",
        "",
        "| figure | Studio | target | | beside it |",
        "|---|---|---|---|---|",
        *rows,
        "",
        "## Others, as multiples of Studio",
        "",
        *multiples(figures),
        "",
        "## Own measurements",
        "",
        own_tables(own),
        *(graph_section(own["graph"]) if own.get("graph") else []),
        "## Tables of the bench",
        "",
        bench_tables(raw),
    ]
    path.write_text("\n".join(parts).rstrip() + "\n")
