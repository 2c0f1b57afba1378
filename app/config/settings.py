"""Every setting: one field of :class:`Settings`, whose metadata names its variable, its default and its meaning.

Law of this room: declarations alone; the reference page, the start-up checks and the code read them.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from app.config import kinds

if t.TYPE_CHECKING:
    from plugins.spec.mcp import McpServer

#: How many in which unit of time, shortest first; see :data:`app.config.kinds.RATES`.
Rates = tuple[tuple[int, str], ...]


def _setting(
    variable: str,
    kind: kinds.Kind,
    default: t.Any,
    doc: str,
    *,
    shown: str | None = None,
    secret: bool = False,
) -> t.Any:
    """A field; ``shown`` is the default as the page prints it, ``secret`` keeps the value out of ``repr``."""
    metadata = {"variable": variable, "kind": kind, "doc": doc, "shown": shown, "secret": secret}
    return field(default=default, metadata=metadata, repr=not secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be configured; immutable for the life of the process. Made by :func:`load`."""

    host: str = _setting("STUDIO_HOST", kinds.TEXT, "127.0.0.1", "Address the server listens on.")
    port: int = _setting(
        "PORT",
        kinds.whole(0, 65535),
        8000,
        "Port the server listens on; 0 lets the system choose a free one.",
    )
    workers: int = _setting(
        "STUDIO_WORKERS",
        kinds.whole(1, 128),
        1,
        "Server processes. One serves thousands of streams; more use more cores.",
    )
    data_dir: Path = _setting(
        "STUDIO_DATA_DIR",
        kinds.PATH,
        Path("instance"),
        "Directory of the database and of everything else that is kept.",
    )
    database_url: str = _setting(
        "STUDIO_DATABASE_URL",
        kinds.DATABASE,
        "",
        "Database of workflows, keys and runs.",
        shown="SQLite file studio.db under STUDIO_DATA_DIR",
        secret=True,
    )
    store_wait_s: float = _setting(
        "STUDIO_STORE_WAIT_S",
        kinds.seconds(0.1, 300),
        10.0,
        "How long a write waits for a database that another process has locked before it fails.",
    )
    vectors_mb: int = _setting(
        "STUDIO_VECTORS_MB",
        kinds.whole(0, 1_000_000),
        256,
        "Memory for vectors of documents in each worker, in MB: four bytes a number, so 50,000 passages of 384 numbers "
        "take 77. A collection that does not fit is read from the database by each search.",
    )
    secrets_key: tuple[str, ...] = _setting(
        "STUDIO_SECRETS_KEY",
        kinds.FERNET_KEYS,
        (),
        "Keys that stored secrets are encrypted with: the first one encrypts, all of them decrypt. All processes of "
        "an installation need the same.",
        shown="a key made with the first secret, in the file secrets.key under STUDIO_DATA_DIR",
        secret=True,
    )
    redis_url: str | None = _setting(
        "STUDIO_REDIS_URL",
        kinds.url("redis", "rediss", "unix"),
        None,
        "Redis, where rate limits are counted for all workers and hosts (needs the extra redis).",
        shown="none",
        secret=True,
    )
    max_streams: int = _setting(
        "STUDIO_MAX_STREAMS",
        kinds.whole(1, 1_000_000),
        2000,
        "Runs a worker carries at once; one more is answered 503 with Retry-After.",
    )
    max_streams_per_key: int = _setting(
        "STUDIO_MAX_STREAMS_PER_KEY",
        kinds.whole(0),
        0,
        "Runs one API key may have open at once in a worker; one more is answered 429. 0: no limit.",
    )
    max_streams_per_address: int = _setting(
        "STUDIO_MAX_STREAMS_PER_ADDRESS",
        kinds.whole(0),
        0,
        "Runs one client address (of IPv6, one network of 64 bits) may have open at once in a worker; one more is "
        "answered 429. 0: no limit.",
    )
    rate_limit_storage: str = _setting(
        "STUDIO_RATE_LIMIT_STORAGE",
        kinds.choice("auto", "memory", "redis", "database"),
        "auto",
        "Where rate limits are counted. memory: in the process, for one worker on one host. auto: in Redis if "
        "STUDIO_REDIS_URL is set, else in memory with one worker and SQLite, else in the database.",
    )
    rate_limit_chat: Rates = _setting(
        "STUDIO_RATE_LIMIT_CHAT",
        kinds.RATES,
        ((60, "minute"), (2000, "day")),
        "Runs of one chat by all of its visitors, and of one public workflow by all callers without a key. A chat's "
        "rateLimit goes before it.",
        shown="60/minute, 2000/day",
    )
    rate_limit_visitor: Rates = _setting(
        "STUDIO_RATE_LIMIT_VISITOR",
        kinds.RATES,
        ((10, "minute"), (200, "day")),
        "Runs of one visitor of a chat.",
        shown="10/minute, 200/day",
    )
    rate_limit_address: Rates = _setting(
        "STUDIO_RATE_LIMIT_ADDRESS",
        kinds.RATES,
        ((20, "minute"), (500, "day")),
        "Runs of one client address in one chat whose visitors do not prove who they are, and of public workflows "
        "without a key.",
        shown="20/minute, 500/day",
    )
    rate_limit_key: Rates = _setting(
        "STUDIO_RATE_LIMIT_KEY",
        kinds.RATES,
        (),
        "Runs of one API key. A key's rateLimit goes before it.",
        shown="off",
    )
    trusted_proxies: int = _setting(
        "STUDIO_TRUSTED_PROXIES",
        kinds.whole(0, 16),
        0,
        "Reverse proxies in front of the server whose X-Forwarded-* headers are believed. 0: none are.",
    )
    connect_s: float = _setting(
        "STUDIO_CONNECT_S", kinds.seconds(0.05), 10.0, "Longest wait for a connection to a provider."
    )
    idle_s: float | None = _setting(
        "STUDIO_IDLE_S",
        kinds.seconds(0.05),
        None,
        "Longest silence of a provider inside a stream; then the run fails with provider_idle. Vendors whose models "
        "think in silence have more by default.",
        shown="60, or the family's own",
    )
    model_call_s: float = _setting(
        "STUDIO_MODEL_CALL_S",
        kinds.seconds(0.05),
        600.0,
        "Longest time of one model call, from the moment it may begin to the end of its answer; then the run "
        "fails with provider_unavailable. An agent's call_timeout_s goes before it.",
    )
    model_retries: int = _setting(
        "STUDIO_MODEL_RETRIES",
        kinds.whole(0, 10),
        2,
        "How often a failed model call is repeated while nothing of it was shown. An agent's retries goes before it.",
    )
    keepalive_s: float = _setting(
        "STUDIO_KEEPALIVE_S",
        kinds.seconds(0.05, 3600),
        15.0,
        "A silent stream gets a comment line this often.",
    )
    slow_reader_s: float = _setting(
        "STUDIO_SLOW_READER_S",
        kinds.seconds(0.05),
        60.0,
        "A reader that takes no byte for this long while some are waiting counts as gone.",
    )
    run_log_s: float = _setting(
        "STUDIO_RUN_LOG_S",
        kinds.seconds(0),
        300.0,
        "How long the events of a run that has ended are kept for those who attach late (those of a durable run in "
        "the database); after that it is told from its record. 0 keeps none.",
    )
    run_log_bytes: int = _setting(
        "STUDIO_RUN_LOG_BYTES",
        kinds.whole(0),
        32 * 1024 * 1024,
        "Most bytes, by estimate, that a worker keeps of the events of runs that have ended; the oldest go first.",
    )
    stream_writer: str = _setting(
        "STUDIO_STREAM_WRITER",
        kinds.choice("direct", "generator"),
        "direct",
        "How streams reach the socket: direct writes past the WSGI server where it can, generator "
        "never does. Both send equal bytes.",
    )
    graceful_s: float = _setting(
        "STUDIO_GRACEFUL_S",
        kinds.seconds(0, 3600),
        30.0,
        "How long a server that was asked to stop, and stops its runs at once, waits for their ends to be "
        "recorded and delivered.",
    )
    list_models: str = _setting(
        "STUDIO_LIST_MODELS",
        kinds.choice("on", "off"),
        "on",
        "Whether servers of models (Ollama, vLLM, gateways) are asked what they have, for the capability table, "
        "which is open to all, and for warnings.",
    )
    http_allow: tuple[kinds.Network, ...] = _setting(
        "STUDIO_HTTP_ALLOW",
        kinds.NETWORKS,
        (),
        "Private, loopback and link-local networks that HTTP tools may reach.",
        shown="none",
    )
    mcp_servers: Mapping[str, McpServer] | None = _setting(
        "STUDIO_MCP_SERVERS",
        kinds.MCP,
        None,
        'File of MCP servers by name, {"mcpServers": {"NAME": {"command": …, "args": […]} or {"url": …}}}.',
        shown="none",
    )
    mcp_inline_commands: str = _setting(
        "STUDIO_MCP_INLINE_COMMANDS",
        kinds.choice("on", "off"),
        "off",
        "Whether a document may name the program of an MCP server itself, which the server then runs.",
    )
    mcp_start_s: float = _setting(
        "STUDIO_MCP_START_S",
        kinds.seconds(0.05, 600),
        30.0,
        "How long an agent waits for an MCP server to start and to name its tools; without them it goes on.",
    )
    mcp_idle_s: float = _setting(
        "STUDIO_MCP_IDLE_S",
        kinds.seconds(0.05),
        300.0,
        "An MCP server that was not used for this long is closed until its next use.",
    )
    plugin_load_s: float = _setting(
        "STUDIO_PLUGIN_LOAD_S",
        kinds.seconds(0.1, 600),
        10.0,
        "Longest that one installed plugin may take to load (its import and its hooks), and a third of what all may.",
    )
    chat_workflow: str = _setting(
        "STUDIO_CHAT_WORKFLOW",
        kinds.TEXT,
        "assistant",
        "Id of the workflow that answers POST /chat when a request names none. `assistant` comes with the program, and "
        "is there until another one is deployed under this id.",
    )
    files_mb: int = _setting(
        "STUDIO_FILES_MB",
        kinds.whole(0, 1_000_000),
        500,
        "Most that one API key keeps in uploaded files, in MB; more is answered 409. All visitors of a chat together "
        "keep as much. 0: nobody uploads.",
    )
    files_s: float = _setting(
        "STUDIO_FILES_S",
        kinds.seconds(60, 10 * 365 * 86400),
        30 * 86400.0,
        "How long an uploaded file is kept, and at most; whoever uploads one may ask for less.",
    )
    audit_days: int = _setting(
        "STUDIO_AUDIT_DAYS",
        kinds.whole(0, 36_500),
        365,
        "How long the audit log keeps a row, in days. 0: for ever.",
    )
    run_days: int = _setting(
        "STUDIO_RUN_RETENTION_DAYS",
        kinds.whole(0, 36_500),
        0,
        "How long a run that has ended is kept, in days, with all that belongs to it. 0: until somebody deletes it.",
    )
    public_url: str = _setting(
        "STUDIO_PUBLIC_URL",
        kinds.url("http", "https"),
        "",
        "Where people's browsers reach this server, such as https://studio.example.org: links to decisions begin with "
        "it. Without it they begin as the request that made them did.",
        shown="none",
    )
    chat_pass_s: float = _setting(
        "STUDIO_CHAT_PASS_S",
        kinds.seconds(60, 30 * 86400),
        86400.0,
        "How long a visitor who got into a chat by password, e-mail or single sign-on stays in.",
    )
    mail: str = _setting(
        "STUDIO_MAIL",
        kinds.choice("smtp", "console"),
        "smtp",
        "How e-mails are sent: smtp by STUDIO_SMTP_HOST; console prints them to standard output, with the codes in "
        "them, for development.",
    )
    smtp_host: str = _setting(
        "STUDIO_SMTP_HOST",
        kinds.TEXT,
        "",
        "Server that takes e-mails. Without one, chats that send codes by e-mail cannot be made.",
        shown="none",
    )
    smtp_port: int = _setting(
        "STUDIO_SMTP_PORT",
        kinds.whole(0, 65535),
        0,
        "Its port.",
        shown="587, with STUDIO_SMTP_TLS=tls 465, with none 25",
    )
    smtp_tls: str = _setting(
        "STUDIO_SMTP_TLS",
        kinds.choice("starttls", "tls", "none"),
        "starttls",
        "starttls encrypts after the greeting and refuses a server that cannot, tls from the first byte, none not at "
        "all. Certificates are checked.",
    )
    smtp_user: str = _setting("STUDIO_SMTP_USER", kinds.TEXT, "", "Who signs in there.", shown="nobody")
    smtp_password: str = _setting(
        "STUDIO_SMTP_PASSWORD", kinds.TEXT, "", "Their password.", shown="none", secret=True
    )
    smtp_from: str = _setting(
        "STUDIO_SMTP_FROM",
        kinds.MAILBOX,
        "",
        "Sender of the e-mails, such as Studio <studio@example.org>.",
        shown="STUDIO_SMTP_USER, or studio at the host's name",
    )
    oidc_issuer: str = _setting(
        "STUDIO_OIDC_ISSUER",
        kinds.url("https", "http"),
        "",
        "OpenID provider of chats with single sign-on, as it calls itself; its /.well-known/openid-configuration is "
        "read. Register STUDIO_PUBLIC_URL/api/chat/sso/callback there.",
        shown="none",
    )
    oidc_client_id: str = _setting(
        "STUDIO_OIDC_CLIENT_ID", kinds.TEXT, "", "What the provider calls this installation.", shown="none"
    )
    oidc_client_secret: str = _setting(
        "STUDIO_OIDC_CLIENT_SECRET",
        kinds.TEXT,
        "",
        "What proves it; without one it is a public client, which only PKCE protects.",
        shown="none",
        secret=True,
    )
    oidc_scopes: str = _setting(
        "STUDIO_OIDC_SCOPES",
        kinds.TEXT,
        "openid email",
        "What the provider is asked for, separated by spaces.",
    )
    session_s: float = _setting(
        "STUDIO_SESSION_S",
        kinds.seconds(60, 90 * 86400),
        43200.0,
        "How long the workspace owner stays signed in to the web pages; then the password is asked for again.",
    )
    langgraph_apps: tuple[tuple[str, str], ...] = _setting(
        "STUDIO_LANGGRAPH_APPS",
        kinds.APPS,
        (),
        "Compiled LangGraph graphs that are served as workflows `langgraph:NAME` (needs the extra langgraph).",
        shown="none",
    )
    scripts_dir: Path | None = _setting(
        "STUDIO_SCRIPTS_DIR",
        kinds.PATH,
        None,
        "Directory of scripts for the scripted family, NAME.yaml each.",
        shown="none",
    )
    max_tool_batches: int = _setting(
        "STUDIO_MAX_TOOL_BATCHES",
        kinds.whole(0, 1000),
        20,
        "Rounds of tool calls an agent may make; then it is asked once more, with tools off, for its answer.",
    )
    tool_timeout_s: float = _setting(
        "STUDIO_TOOL_TIMEOUT_S", kinds.seconds(0.05), 60.0, "Longest time one tool call may take."
    )
    tool_threads: int = _setting(
        "STUDIO_TOOL_THREADS",
        kinds.whole(1, 256),
        8,
        "Threads of a worker for tools that cannot run cooperatively.",
    )
    log_level: str = _setting(
        "STUDIO_LOG_LEVEL",
        kinds.choice("debug", "info", "warning", "error", "critical"),
        "info",
        "Lowest level of log lines that are written.",
    )
    traces: str = _setting(
        "STUDIO_TRACES",
        kinds.choice("off", "otlp"),
        "off",
        "otlp: runs are told as OpenTelemetry spans, sent by OTLP over HTTP to where OTEL_EXPORTER_OTLP_ENDPOINT says. "
        "See [Observability](../observability.md).",
    )
    trace_content: bool = _setting(
        "STUDIO_TRACE_CONTENT",
        kinds.SWITCH,
        False,
        "Whether spans also hold what was said: prompts, answers, arguments and results of tools. Nobody's in a secret "
        "vote.",
        shown="false",
    )
    metrics: bool = _setting(
        "STUDIO_METRICS",
        kinds.SWITCH,
        False,
        "Whether GET /metrics tells Prometheus how the server fares.",
        shown="false",
    )
    metrics_token: str = _setting(
        "STUDIO_METRICS_TOKEN",
        kinds.TEXT,
        "",
        "A token that may read /metrics, sent as Authorization: Bearer, and nothing else. Keys with scope read "
        "may too.",
        shown="none",
        secret=True,
    )
    access_log: str = _setting(
        "STUDIO_ACCESS_LOG",
        kinds.TEXT,
        "",
        "Where one line per request goes: a path, or - for standard output.",
        shown="none",
    )

    def __post_init__(self) -> None:
        """Fill in what depends on another field, so that a Settings made in a test is complete too."""
        if not self.database_url:
            object.__setattr__(self, "database_url", f"sqlite:///{self.data_dir / 'studio.db'}")
