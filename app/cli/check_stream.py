"""``studio check-stream URL``: whether streams arrive as they are sent, and what to set when they do not.

Law of this room: it asks a server that runs and needs no key, no store and no settings of its own.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

import click

from app import encoding
from app.cli import stream_advice as advice
from app.cli.arrivals import Finding, judge, phase
from app.errors import StudioError

if t.TYPE_CHECKING:
    from urllib.parse import SplitResult

    from app.cli.stream_probe import Probe

PASSED, FAULT, UNCHECKED = 0, 1, 2


@click.command("check-stream")
@click.argument("url")
@click.option(
    "--silence",
    type=click.IntRange(0, 600),
    default=0,
    metavar="SECONDS",
    help="Let the stream be silent for so long: are keepalives enough for every time limit on the way?",
)
@click.option(
    "--spacing",
    type=click.IntRange(10, 1000),
    default=200,
    show_default=True,
    metavar="MS",
    help="From one frame to the next. Longer on a network that is slow or unsteady.",
)
@click.option(
    "--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="Send this too; repeatable."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check_stream(url: str, silence: int, spacing: int, headers: tuple[str, ...], as_json: bool) -> int:
    """Check that streams arrive as they are sent, through everything between here and the server.

    Asks the Studio at URL for test frames at known times, small ones and some of kilobytes, and looks at when they
    arrive: held back until there is enough, or for a time, or to the end; compressed; cut; without keepalives. Says
    what to set. Run it where your clients are, at the address that they use.

    Ends with 0 streams pass, 1 something is wrong with them, 2 the check could not be made.
    """
    from app.cli.stream_probe import address

    parts = address(url)
    sent = dict(_header(text) for text in headers)
    query = {"spacing_ms": spacing, "silence_s": silence}
    try:
        found, probe = look(lambda **more: _probe(parts, query, sent, **more))
    except StudioError as error:
        if as_json:
            click.echo(
                encoding.dumps(
                    {"verdict": "unchecked", "error": {"code": error.code, "message": error.message}}
                )
            )
        else:
            click.echo(error.message, err=True)
        return UNCHECKED
    if as_json:
        click.echo(encoding.dumps(_document(found, probe)))
    else:
        _print(found, probe)
    return FAULT if _faults(found) else PASSED


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise click.BadParameter(
            f"'{text}' is no header, such as 'Authorization: Bearer …'", param_hint="--header"
        )
    return name.strip(), value.strip()


def _probe(parts: SplitResult, query: Mapping[str, int], headers: Mapping[str, str], **more: str) -> Probe:
    from app.cli.stream_probe import probe

    return probe(parts, query, headers, **more)


def look(ask: t.Callable[..., Probe]) -> tuple[list[Finding], Probe]:
    """Every finding of one check, faults first, and the probe they are about.

    :param ask: makes one request; called again, with ``encodings="identity"``, when the first answer was compressed in
        a way that cannot be read.
    """
    probe = ask()
    found: list[Finding] = []
    if encoding_name := probe.headers.get("content-encoding", "").strip():
        readable = bool(probe.seen.frames)
        found.append(Finding("compressed" if readable else "compressed_unread", {"encoding": encoding_name}))
        if not readable:
            probe = ask(encodings="identity")
    found = [*judge(probe.seen), *found, *_of_headers(probe)]
    return sorted(found, key=lambda finding: finding.code not in advice.FAULTS), probe


def _of_headers(probe: Probe) -> list[Finding]:
    headers, found = probe.headers, []
    for name in ("age", "x-cache"):
        value = headers.get(name, "")
        if (name == "age" and value.strip("0 ")) or "hit" in value.lower():
            found.append(Finding("cached", {"header": f"{name}: {value}"}))
    if "content-length" in headers:
        found.append(Finding("content_length"))
    control = headers.get("cache-control", "")
    changed = [f"Cache-Control lacks {part}" for part in ("no-cache", "no-transform") if part not in control]
    if "charset=utf-8" not in headers.get("content-type", "").lower():
        changed.append("Content-Type lacks charset=utf-8")
    if changed:
        found.append(Finding("headers", {"changed": "; ".join(changed)}))
    if probe.version < 11:
        found.append(Finding("http10"))
    elif probe.hello.get("protocol") == "HTTP/1.0":
        found.append(Finding("http10_behind"))
    return found


def _faults(found: list[Finding]) -> bool:
    return any(finding.code in advice.FAULTS for finding in found)


def _document(found: list[Finding], probe: Probe) -> dict[str, t.Any]:
    seen = probe.seen
    return {
        "verdict": "fault" if _faults(found) else "passed",
        "findings": [
            {
                "code": finding.code,
                "fault": finding.code in advice.FAULTS,
                "message": advice.says(finding, seen.keepalive_s),
                "cures": advice.cures(finding, probe.headers, seen.keepalive_s),
                **finding.facts,
            }
            for finding in found
        ],
        "frames": {
            kind: {"count": one.count, "together": one.together, "lateMs": one.late_ms}
            for kind, one in ((kind, phase(seen, kind)) for kind in ("small", "padded"))
        },
        "silence": {"seconds": seen.silence_s, "keepalives": len(seen.keepalives)},
        "server": probe.hello,
        "headers": dict(probe.headers),
    }


def _print(found: list[Finding], probe: Probe) -> None:
    seen, hello = probe.seen, probe.hello
    by = probe.headers.get("server", "no name")
    way = "through a proxy that says so" if hello.get("forwarded") else "no proxy says that it is on the way"
    click.echo(f"Studio {hello.get('version', '?')}, answered by {by}; {way}.")
    for kind, words in (("small", "small frames"), ("padded", "frames of kilobytes")):
        one = phase(seen, kind)
        click.echo(
            f"{one.count} {words} {seen.spacing_s * 1000:g} ms apart: {one.together} came together with the one "
            f"before, the latest {one.late_ms} ms late."
        )
    if seen.silence_s:
        click.echo(
            f"Silence of {seen.silence_s:g} s: keepalives that came: {len(seen.keepalives)}, "
            f"one due every {seen.keepalive_s:g} s."
        )
    for finding in found:
        click.echo()
        mark = "FAULT" if finding.code in advice.FAULTS else "note"
        click.echo(f"{mark}: {advice.says(finding, seen.keepalive_s)}")
        for line in advice.cures(finding, probe.headers, seen.keepalive_s):
            click.echo(f"  - {line}")
    click.echo()
    click.echo(_verdict(found, seen.silence_s, seen.keepalive_s))


def _verdict(found: list[Finding], silence_s: float, keepalive_s: float) -> str:
    if _faults(found):
        return "Streams do not arrive as they are sent."
    if silence_s <= keepalive_s:
        longer = max(60, round(4 * keepalive_s))
        return f"Streams arrive as they are sent. Long silences were not tried: --silence {longer}"
    return "Streams arrive as they are sent."
