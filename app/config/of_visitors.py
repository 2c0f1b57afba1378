"""Chats, limits and signing in.

Law of this room: declarations alone; see :mod:`app.config.settings`.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.config import kinds
from app.config.declaring import setting

#: How many in which unit of time, shortest first; see :data:`app.config.kinds.RATES`.
Rates = tuple[tuple[int, str], ...]


@dataclass(frozen=True, kw_only=True)
class VisitorSettings:
    """Chats, limits and signing in."""

    chat_workflow: str = setting(
        "STUDIO_CHAT_WORKFLOW",
        kinds.TEXT,
        "assistant",
        "Id of the workflow that answers POST /chat when a request names none. `assistant` comes with the program, and "
        "is there until another one is deployed under this id.",
    )
    rate_limit_storage: str = setting(
        "STUDIO_RATE_LIMIT_STORAGE",
        kinds.choice("auto", "memory", "redis", "database"),
        "auto",
        "Where rate limits are counted. memory: in the process, for one worker on one host. auto: in Redis if "
        "STUDIO_REDIS_URL is set, else in memory with one worker and SQLite, else in the database.",
    )
    rate_limit_chat: Rates = setting(
        "STUDIO_RATE_LIMIT_CHAT",
        kinds.RATES,
        ((60, "minute"), (2000, "day")),
        "Runs of one chat by all of its visitors, and of one public workflow by all callers without a key. A chat's "
        "rateLimit goes before it.",
        shown="60/minute, 2000/day",
    )
    rate_limit_visitor: Rates = setting(
        "STUDIO_RATE_LIMIT_VISITOR",
        kinds.RATES,
        ((10, "minute"), (200, "day")),
        "Runs of one visitor of a chat.",
        shown="10/minute, 200/day",
    )
    rate_limit_address: Rates = setting(
        "STUDIO_RATE_LIMIT_ADDRESS",
        kinds.RATES,
        ((20, "minute"), (500, "day")),
        "Runs of one client address in one chat whose visitors do not prove who they are, and of public workflows "
        "without a key.",
        shown="20/minute, 500/day",
    )
    rate_limit_key: Rates = setting(
        "STUDIO_RATE_LIMIT_KEY",
        kinds.RATES,
        (),
        "Runs of one API key. A key's rateLimit goes before it.",
        shown="off",
    )
    chat_pass_s: float = setting(
        "STUDIO_CHAT_PASS_S",
        kinds.seconds(60, 30 * 86400),
        86400.0,
        "How long a visitor who got into a chat by password, e-mail or single sign-on stays in.",
    )
    mail: str = setting(
        "STUDIO_MAIL",
        kinds.choice("smtp", "console"),
        "smtp",
        "How e-mails are sent: smtp by STUDIO_SMTP_HOST; console prints them to standard output, with the codes in "
        "them, for development.",
    )
    smtp_host: str = setting(
        "STUDIO_SMTP_HOST",
        kinds.TEXT,
        "",
        "Server that takes e-mails. Without one, chats that send codes by e-mail cannot be made.",
        shown="none",
    )
    smtp_port: int = setting(
        "STUDIO_SMTP_PORT",
        kinds.whole(0, 65535),
        0,
        "Its port.",
        shown="587, with STUDIO_SMTP_TLS=tls 465, with none 25",
    )
    smtp_tls: str = setting(
        "STUDIO_SMTP_TLS",
        kinds.choice("starttls", "tls", "none"),
        "starttls",
        "starttls encrypts after the greeting and refuses a server that cannot, tls from the first byte, none not at "
        "all. Certificates are checked.",
    )
    smtp_user: str = setting("STUDIO_SMTP_USER", kinds.TEXT, "", "Who signs in there.", shown="nobody")
    smtp_password: str = setting(
        "STUDIO_SMTP_PASSWORD", kinds.TEXT, "", "Their password.", shown="none", secret=True
    )
    smtp_from: str = setting(
        "STUDIO_SMTP_FROM",
        kinds.MAILBOX,
        "",
        "Sender of the e-mails, such as Studio <studio@example.org>.",
        shown="STUDIO_SMTP_USER, or studio at the host's name",
    )
    oidc_issuer: str = setting(
        "STUDIO_OIDC_ISSUER",
        kinds.url("https", "http"),
        "",
        "OpenID provider of chats with single sign-on, as it calls itself; its /.well-known/openid-configuration is "
        "read. Register STUDIO_PUBLIC_URL/api/chat/sso/callback there.",
        shown="none",
    )
    oidc_client_id: str = setting(
        "STUDIO_OIDC_CLIENT_ID", kinds.TEXT, "", "What the provider calls this installation.", shown="none"
    )
    oidc_client_secret: str = setting(
        "STUDIO_OIDC_CLIENT_SECRET",
        kinds.TEXT,
        "",
        "What proves it; without one it is a public client, which only PKCE protects.",
        shown="none",
        secret=True,
    )
    oidc_scopes: str = setting(
        "STUDIO_OIDC_SCOPES",
        kinds.TEXT,
        "openid email",
        "What the provider is asked for, separated by spaces.",
    )
    session_s: float = setting(
        "STUDIO_SESSION_S",
        kinds.seconds(60, 90 * 86400),
        43200.0,
        "How long the workspace owner stays signed in to the web pages; then the password is asked for again.",
    )
