"""Which cadence and exposure an execute request gets (contract 3.1). Pure: headers and body in, answer out.

Law of this room: a wish that cannot be granted is a 400 that says how to ask; nothing is ever
downgraded in silence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.errors import Problem, ValidationFailed

#: The one version on offer.
PROTOCOL = "agent-events-v1"

#: (header as echoed, its name in a WSGI environment, whether it is the alias).
HEADERS: tuple[tuple[str, str, bool], ...] = (
    ("X-Studio-Stream-Protocol", "HTTP_X_STUDIO_STREAM_PROTOCOL", False),
    ("X-Sim-Stream-Protocol", "HTTP_X_SIM_STREAM_PROTOCOL", True),
)

#: What messages tell the caller to send.
HEADER_LINE = f"X-Studio-Stream-Protocol: {PROTOCOL}"


@dataclass(frozen=True, slots=True)
class Negotiation:
    """What was agreed.

    :ivar negotiated: live framing, with frames of ``agent-events-v1``.
    :ivar separator: ``\\n\\n`` goes before a block's text when another block's stands.
    :ivar echo: response headers, one for each name that was sent.
    """

    negotiated: bool
    separator: bool
    echo: Mapping[str, str]


SETTLED = Negotiation(False, True, {})


def negotiate(environ: Mapping[str, str], *, lenient: bool = False) -> Negotiation:
    """Read the protocol headers of a streaming request. A header without any token counts as not sent.

    :param lenient: so does one with only versions we do not speak, as in chats.
    :raises ValidationFailed: only versions we do not speak.
    """
    sent = [
        (name, tokens, alias) for name, key, alias in HEADERS if (tokens := _tokens(environ.get(key, "")))
    ]
    if not sent:
        return SETTLED
    if not any(PROTOCOL in tokens for _, tokens, _ in sent):
        if lenient:
            return SETTLED
        problems = [
            Problem(name, f"'{', '.join(tokens)}' is not spoken here. Offered: {PROTOCOL}")
            for name, tokens, _ in sent
        ]
        raise ValidationFailed(problems)
    # Clients of the alias join the text of all blocks, as those without a header do.
    separator = any(alias and PROTOCOL in tokens for _, tokens, alias in sent)
    return Negotiation(True, separator, {name: PROTOCOL for name, _, _ in sent})


def joins_blocks(environ: Mapping[str, str]) -> bool:
    """Whether the client sends the alias, as those do who join the text of all blocks."""
    return any(alias and PROTOCOL in _tokens(environ.get(key, "")) for _, key, alias in HEADERS)


def check_flags(flags: Sequence[tuple[str, bool]], stream: bool, negotiated: bool) -> None:
    """Refuse exposure that could not be shown.

    :param flags: (name in the body, wanted) of ``includeThinking`` and ``includeToolCalls``.
    :raises ValidationFailed: a wanted flag without ``stream: true`` or without the header.
    """
    if stream and negotiated:
        return
    cure = f'"stream": true in the body and the request header {HEADER_LINE}'
    problems = [Problem(name, f"{name} needs {cure}") for name, wanted in flags if wanted]
    if problems:
        raise ValidationFailed(problems)


def _tokens(header: str) -> list[str]:
    return [token for part in header.split(",") if (token := part.strip().lower())]
