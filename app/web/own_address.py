"""Where browsers reach this server: what links, cookies and checks of who asks go by.

Law of this room: what ``STUDIO_PUBLIC_URL`` says holds; without it, what can be known of the request does.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from flask import request

from app.web.http import services


def own_address() -> str:
    """The address of the root of this program, without a slash at its end."""
    if public := services().settings.public_url:
        return public.rstrip("/")
    scheme = "https" if is_https() else "http"
    return f"{scheme}://{request.url_root.partition('://')[2]}".rstrip("/")


def is_https() -> bool:
    """Whether the browser reached us over TLS, as far as can be known here."""
    settings = services().settings
    if settings.public_url:
        return urlsplit(settings.public_url).scheme == "https"
    hops = settings.trusted_proxies
    said = [part.strip().lower() for part in request.headers.get("X-Forwarded-Proto", "").split(",")]
    if hops > 0 and said[-1]:
        return said[-min(hops, len(said))] == "https"
    return request.scheme == "https"


def is_own(origin: str) -> bool:
    """Whether an ``Origin`` that a browser sends is that of a page of this server."""
    return _host(origin) in {request.host.lower(), _host(services().settings.public_url)} - {""}


def _host(address: str) -> str:
    try:
        return urlsplit(address).netloc.lower()
    except ValueError:
        return ""
