"""Logs, traces and metrics.

Law of this room: declarations alone; see :mod:`app.config.settings`.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.config import kinds
from app.config.declaring import setting


@dataclass(frozen=True, kw_only=True)
class WatchSettings:
    """Logs, traces and metrics."""

    log_level: str = setting(
        "STUDIO_LOG_LEVEL",
        kinds.choice("debug", "info", "warning", "error", "critical"),
        "info",
        "Lowest level of log lines that are written.",
    )
    traces: str = setting(
        "STUDIO_TRACES",
        kinds.choice("off", "otlp"),
        "off",
        "otlp: runs are told as OpenTelemetry spans, sent by OTLP over HTTP to where OTEL_EXPORTER_OTLP_ENDPOINT says. "
        "See [Observability](../observability.md).",
    )
    trace_content: bool = setting(
        "STUDIO_TRACE_CONTENT",
        kinds.SWITCH,
        False,
        "Whether spans also hold what was said: prompts, answers, arguments and results of tools. Nobody's in a secret "
        "vote.",
        shown="false",
    )
    metrics: bool = setting(
        "STUDIO_METRICS",
        kinds.SWITCH,
        False,
        "Whether GET /metrics tells Prometheus how the server fares.",
        shown="false",
    )
    metrics_token: str = setting(
        "STUDIO_METRICS_TOKEN",
        kinds.TEXT,
        "",
        "A token that may read /metrics, sent as Authorization: Bearer, and nothing else. Keys with scope read "
        "may too.",
        shown="none",
        secret=True,
    )
    access_log: str = setting(
        "STUDIO_ACCESS_LOG",
        kinds.TEXT,
        "",
        "Where one line per request goes: a path, or - for standard output.",
        shown="none",
    )
