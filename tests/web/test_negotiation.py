"""The pure negotiation, case by case."""

from __future__ import annotations

import pytest

from app.errors import ValidationFailed
from app.web.http import client_address
from app.web.negotiation import negotiate

STUDIO, SIM = "HTTP_X_STUDIO_STREAM_PROTOCOL", "HTTP_X_SIM_STREAM_PROTOCOL"
V1 = "agent-events-v1"


@pytest.mark.parametrize(
    ("environ", "negotiated", "separator"),
    [
        ({}, False, True),
        ({STUDIO: " , "}, False, True),
        ({STUDIO: V1}, True, False),
        ({SIM: V1}, True, True),
        ({STUDIO: V1, SIM: V1}, True, True),
        ({STUDIO: V1, SIM: "v9"}, True, False),
        ({STUDIO: f"v9,{V1.upper()}"}, True, False),
    ],
    ids=str,
)
def test_what_is_agreed(environ: dict[str, str], negotiated: bool, separator: bool) -> None:
    agreed = negotiate(environ)
    assert (agreed.negotiated, agreed.separator) == (negotiated, separator)
    assert len(agreed.echo) == (len(environ) if negotiated else 0)


def test_only_unknown_versions_name_each_header() -> None:
    with pytest.raises(ValidationFailed) as caught:
        negotiate({STUDIO: "v2", SIM: "v3"})
    assert [problem.path for problem in caught.value.details] == [
        "X-Studio-Stream-Protocol",
        "X-Sim-Stream-Protocol",
    ]


@pytest.mark.parametrize(
    ("forwarded", "hops", "address"),
    [
        ("1.1.1.1, 2.2.2.2", 0, "9.9.9.9"),
        ("1.1.1.1, 2.2.2.2", 1, "2.2.2.2"),
        ("1.1.1.1, 2.2.2.2", 2, "1.1.1.1"),
        ("1.1.1.1", 3, "1.1.1.1"),
        ("", 1, "9.9.9.9"),
    ],
)
def test_only_our_own_proxies_are_believed(forwarded: str, hops: int, address: str) -> None:
    environ = {"HTTP_X_FORWARDED_FOR": forwarded, "REMOTE_ADDR": "9.9.9.9"}
    assert client_address(environ, hops) == address
