"""Where browsers reach the server, by what is told of it and by whom."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.web.own_address import is_https, own_address
from tests.web.conftest import opened


@pytest.mark.parametrize(
    ("hops", "said", "public", "found"),
    [
        (0, "https", "", "http://a.test"),
        (1, "https", "", "https://a.test"),
        (1, "https, http", "", "http://a.test"),
        (2, "https, http", "", "https://a.test"),
        (2, "https", "", "https://a.test"),
        (1, "", "", "http://a.test"),
        (0, "http", "https://b.test/", "https://b.test"),
    ],
)
def test_the_scheme_is_that_of_proxies_that_are_trusted(
    tmp_path: Path, hops: int, said: str, public: str, found: str
) -> None:
    more = {"STUDIO_TRUSTED_PROXIES": str(hops), **({"STUDIO_PUBLIC_URL": public} if public else {})}
    headers = {"X-Forwarded-Proto": said} if said else {}
    with (
        opened(tmp_path, more) as studio,
        studio.app.test_request_context("/login", base_url="http://a.test", headers=headers),
    ):
        assert own_address() == found
        assert is_https() is found.startswith("https")
