"""What each finding of ``studio check-stream`` means, and what to set.

Law of this room: words only. Each finding has one sentence with its figures, and cures in the order in which they are
worth trying; those of a product that showed itself in the answer's headers come first.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from app.cli.arrivals import Finding

#: Findings with which streams do not work, as they should or at all; the others are warnings.
FAULTS = frozenset(
    {
        "at_once",
        "by_size",
        "by_time",
        "one_behind",
        "lumps",
        "nothing",
        "cut",
        "cut_when_silent",
        "compressed_unread",
        "no_keepalives",
        "late_keepalives",
        "cached",
    }
)

#: The sentence of each finding; its facts go in.
SAYS: dict[str, str] = {
    "at_once": "The whole answer came at once, when it was over: {bytes} bytes were held back for {seconds} s.",
    "by_size": "Something holds back until some {bytes} bytes have come together: tokens arrive in lumps.",
    "by_time": "Something passes on what came about every {seconds} s only: tokens arrive in lumps.",
    "lumps": "Something holds back: frames arrive in lumps.",
    "one_behind": "Something holds each frame back until the next one comes: the last words of a pause are missing.",
    "unsteady": "Arrivals were unsteady, up to {lateMs} ms late, without holding back. A busy machine or network does "
    "this; run the check again.",
    "nothing": "The answer ended after {afterSeconds} s without one frame.",
    "cut": "The connection was cut after {afterSeconds} s, although something had just come: there is a limit on the "
    "whole time of an answer.",
    "cut_when_silent": "The connection was cut after {quietSeconds} s without a byte; the server sends a comment every "
    "{keepaliveSeconds} s of silence.",
    "no_keepalives": "None of the {expected} keepalive comments of a long silence arrived: something takes them out.",
    "late_keepalives": "The keepalive comments of a long silence came only with what followed it.",
    "compressed": "The answer was compressed ({encoding}): a compressor may hold frames back.",
    "compressed_unread": "The answer was compressed ({encoding}) and could not be read; the rest was measured without "
    "compression.",
    "cached": "The answer came out of a cache ({header}).",
    "content_length": "Something collected the whole answer before it passed it on: it has a Content-Length.",
    "headers": "Headers of the answer were changed on the way: {changed}.",
    "http10": "Whoever answers here speaks HTTP/1.0: the end of a stream cannot be told from a cut.",
    "http10_behind": "Studio was asked in HTTP/1.0: the end of a stream cannot be told from a cut.",
}

_BUFFERED = {
    "nginx": (
        "nginx: proxy_buffering off; proxy_cache off; and proxy_http_version 1.1; in the location of Studio. Studio's "
        "header X-Accel-Buffering: no switches buffering off too, unless proxy_ignore_headers names it; a second nginx "
        "in front does not see that header.",
    ),
    "apache": ("Apache: ProxyPass with flushpackets=on, and no mod_deflate for text/event-stream.",),
    "haproxy": ("HAProxy: no text/event-stream in compression type, and no http-response wait-for-body.",),
    "traefik": (
        "Traefik: no buffering middleware; a negative responseForwarding.flushInterval passes on at once.",
    ),
    "caddy": (
        "Caddy: flush_interval -1 in reverse_proxy, which it does by itself for event streams it knows as such.",
    ),
    "cdn": (
        "A CDN or cloud gateway: switch off response buffering, caching, optimisation and compression for these paths, "
        "or let them go round it. Some gateways (AWS API Gateway's HTTP APIs) cannot stream at all.",
    ),
    "any": (
        "Elsewhere: antivirus and company proxies that look into plain http collect answers; try https.",
    ),
}
_COMPRESSED = {
    "nginx": ("nginx: no text/event-stream (and no *) in gzip_types and brotli_types.",),
    "apache": ("Apache: take text/event-stream out of AddOutputFilterByType DEFLATE.",),
    "haproxy": ("HAProxy: name types in compression type, without text/event-stream.",),
    "traefik": ("Traefik: excludedContentTypes: [text/event-stream] of the compress middleware.",),
    "caddy": ("Caddy: a match in encode that leaves text/event-stream out.",),
    "cdn": (
        "A CDN: switch compression off for these paths. Cache-Control: no-transform asks for that already.",
    ),
}
_TIMES = {
    "nginx": ("nginx: proxy_read_timeout {wanted}s; (and send_timeout as long).",),
    "apache": ("Apache: ProxyTimeout {wanted}, or timeout= of ProxyPass.",),
    "haproxy": ("HAProxy: timeout server {wanted}s, timeout client {wanted}s, timeout tunnel as long.",),
    "traefik": ("Traefik: respondingTimeouts.writeTimeout 0, which is its default.",),
    "cdn": (
        "Load balancers and CDNs: raise the idle timeout (AWS ALB has 60 s, Google's backend service 30 s for the "
        "whole answer, Cloudflare some 100 s of silence).",
    ),
}
_HTTP11 = (
    'nginx: proxy_http_version 1.1; and proxy_set_header Connection "";',
    "Others: HTTP/1.1 to the server behind.",
)
_STUDIO_KEEPALIVE = "Studio: STUDIO_KEEPALIVE_S={seconds}, so that it is never silent for so long."

CURES: dict[str, Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("at_once", "by_size", "by_time", "lumps", "one_behind", "late_keepalives"), _BUFFERED),
    "content_length": _BUFFERED,
    "cached": {
        "nginx": ("nginx: proxy_cache off;",),
        "any": ("Leave out of every cache what says Cache-Control: no-cache.",),
    },
    **dict.fromkeys(("compressed", "compressed_unread"), _COMPRESSED),
    **dict.fromkeys(("nothing", "cut", "cut_when_silent"), _TIMES),
    "no_keepalives": {
        "any": ("Whatever rewrites text/event-stream (a gateway, a web filter) must leave it as it is.",)
    },
    "headers": {
        "any": (
            "Pass Content-Type and Cache-Control on as they are: no-transform keeps others from changing streams.",
        )
    },
    "http10": {"any": _HTTP11},
    "http10_behind": {"any": _HTTP11},
}

#: How products show themselves in headers of an answer.
_MARKS: tuple[tuple[str, str, str], ...] = (
    ("nginx", "server", "nginx"),
    ("nginx", "server", "openresty"),
    ("apache", "server", "apache"),
    ("caddy", "server", "caddy"),
    ("caddy", "via", "caddy"),
    ("cdn", "server", "cloudflare"),
    ("cdn", "via", "cloudfront"),
    ("cdn", "via", "google"),
    ("cdn", "via", "varnish"),
    ("cdn", "server", "akamai"),
    ("cdn", "x-azure-ref", ""),
    ("cdn", "x-served-by", "cache-"),
)


def products(headers: Mapping[str, str]) -> list[str]:
    """The products on the way that show themselves; ``headers`` of the answer, names in lower case."""
    found = [name for name, header, text in _MARKS if header in headers and text in headers[header].lower()]
    return list(dict.fromkeys(found))


def says(finding: Finding, keepalive_s: float) -> str:
    """What was seen, in one sentence."""
    return SAYS[finding.code].format(**finding.facts, keepaliveSeconds=f"{keepalive_s:g}")


def cures(finding: Finding, headers: Mapping[str, str], keepalive_s: float) -> list[str]:
    """What to set, most likely first."""
    by_product: Mapping[str, t.Any] = CURES.get(finding.code, {})
    known = products(headers)
    order = [*(name for name in known if name in by_product), *(n for n in by_product if n not in known)]
    lines = [line for name in order for line in by_product[name]]
    if finding.code == "cut_when_silent":
        quiet = float(finding.facts["quietSeconds"])
        if quiet <= keepalive_s:
            lines.append(_STUDIO_KEEPALIVE.format(seconds=f"{max(1.0, quiet / 4):.0f}"))
    wanted = f"{max(60.0, 4 * keepalive_s):.0f}" if finding.code == "cut_when_silent" else "3600"
    return [line.replace("{wanted}", wanted) for line in lines]
