"""The server.

Law of this room: declarations alone; see :mod:`app.config.settings`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from app.config import kinds
from app.config.declaring import setting


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """The server."""

    host: str = setting("STUDIO_HOST", kinds.TEXT, "127.0.0.1", "Address the server listens on.")
    port: int = setting(
        "PORT",
        kinds.whole(0, 65535),
        8000,
        "Port the server listens on; 0 lets the system choose a free one.",
    )
    workers: int = setting(
        "STUDIO_WORKERS",
        kinds.whole(1, 128),
        1,
        "Server processes. One serves thousands of streams; more use more cores.",
    )
    data_dir: Path = setting(
        "STUDIO_DATA_DIR",
        kinds.PATH,
        Path("instance"),
        "Directory of the database and of everything else that is kept.",
    )
    database_url: str = setting(
        "STUDIO_DATABASE_URL",
        kinds.DATABASE,
        "",
        "Database of workflows, keys and runs.",
        shown="SQLite file studio.db under STUDIO_DATA_DIR",
        secret=True,
    )
    store_wait_s: float = setting(
        "STUDIO_STORE_WAIT_S",
        kinds.seconds(0.1, 300),
        10.0,
        "How long a write waits for a database that another process has locked before it fails.",
    )
    redis_url: str | None = setting(
        "STUDIO_REDIS_URL",
        kinds.url("redis", "rediss", "unix"),
        None,
        "Redis, where rate limits are counted for all workers and hosts (needs the extra redis).",
        shown="none",
        secret=True,
    )
    secrets_key: tuple[str, ...] = setting(
        "STUDIO_SECRETS_KEY",
        kinds.FERNET_KEYS,
        (),
        "Keys that stored secrets are encrypted with: the first one encrypts, all of them decrypt. All processes of "
        "an installation need the same.",
        shown="a key made with the first secret, in the file secrets.key under STUDIO_DATA_DIR",
        secret=True,
    )
    public_url: str = setting(
        "STUDIO_PUBLIC_URL",
        kinds.url("http", "https"),
        "",
        "Where people's browsers reach this server, such as https://studio.example.org: links to decisions begin with "
        "it. Without it they begin as the request that made them did.",
        shown="none",
    )
    trusted_proxies: int = setting(
        "STUDIO_TRUSTED_PROXIES",
        kinds.whole(0, 16),
        0,
        "Reverse proxies in front of the server whose X-Forwarded-* headers are believed. 0: none are.",
    )
    graceful_s: float = setting(
        "STUDIO_GRACEFUL_S",
        kinds.seconds(0, 3600),
        30.0,
        "How long a server that was asked to stop, and stops its runs at once, waits for their ends to be "
        "recorded and delivered.",
    )
    plugin_load_s: float = setting(
        "STUDIO_PLUGIN_LOAD_S",
        kinds.seconds(0.1, 600),
        10.0,
        "Longest that one installed plugin may take to load (its import and its hooks), and a third of what all may.",
    )
