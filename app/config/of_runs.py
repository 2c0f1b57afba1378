"""Runs and streams.

Law of this room: declarations alone; see :mod:`app.config.settings`.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.config import kinds
from app.config.declaring import setting


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Runs and streams."""

    max_streams: int = setting(
        "STUDIO_MAX_STREAMS",
        kinds.whole(1, 1_000_000),
        2000,
        "Runs a worker carries at once; one more is answered 503 with Retry-After.",
    )
    max_streams_per_key: int = setting(
        "STUDIO_MAX_STREAMS_PER_KEY",
        kinds.whole(0),
        0,
        "Runs one API key may have open at once in a worker; one more is answered 429. 0: no limit.",
    )
    max_streams_per_address: int = setting(
        "STUDIO_MAX_STREAMS_PER_ADDRESS",
        kinds.whole(0),
        0,
        "Runs one client address (of IPv6, one network of 64 bits) may have open at once in a worker; one more is "
        "answered 429. 0: no limit.",
    )
    stream_writer: str = setting(
        "STUDIO_STREAM_WRITER",
        kinds.choice("direct", "generator"),
        "direct",
        "How streams reach the socket: direct writes past the WSGI server where it can, generator "
        "never does. Both send equal bytes.",
    )
    keepalive_s: float = setting(
        "STUDIO_KEEPALIVE_S",
        kinds.seconds(0.05, 3600),
        15.0,
        "A silent stream gets a comment line this often.",
    )
    slow_reader_s: float = setting(
        "STUDIO_SLOW_READER_S",
        kinds.seconds(0.05),
        60.0,
        "A reader that takes no byte for this long while some are waiting counts as gone.",
    )
    run_log_s: float = setting(
        "STUDIO_RUN_LOG_S",
        kinds.seconds(0),
        300.0,
        "How long the events of a run that has ended are kept for those who attach late (those of a durable run in "
        "the database); after that it is told from its record. 0 keeps none.",
    )
    run_log_bytes: int = setting(
        "STUDIO_RUN_LOG_BYTES",
        kinds.whole(0),
        32 * 1024 * 1024,
        "Most bytes, by estimate, that a worker keeps of the events of runs that have ended; the oldest go first.",
    )
    run_days: int = setting(
        "STUDIO_RUN_RETENTION_DAYS",
        kinds.whole(0, 36_500),
        0,
        "How long a run that has ended is kept, in days, with all that belongs to it. 0: until somebody deletes it.",
    )
    audit_days: int = setting(
        "STUDIO_AUDIT_DAYS",
        kinds.whole(0, 36_500),
        365,
        "How long the audit log keeps a row, in days. 0: for ever.",
    )
    files_mb: int = setting(
        "STUDIO_FILES_MB",
        kinds.whole(0, 1_000_000),
        500,
        "Most that one API key keeps in uploaded files, in MB; more is answered 409. All visitors of a chat together "
        "keep as much. 0: nobody uploads.",
    )
    files_s: float = setting(
        "STUDIO_FILES_S",
        kinds.seconds(60, 10 * 365 * 86400),
        30 * 86400.0,
        "How long an uploaded file is kept, and at most; whoever uploads one may ask for less.",
    )
    vectors_mb: int = setting(
        "STUDIO_VECTORS_MB",
        kinds.whole(0, 1_000_000),
        256,
        "Memory for vectors of documents in each worker, in MB: four bytes a number, so 50,000 passages of 384 numbers "
        "take 77. A collection that does not fit is read from the database by each search.",
    )
