"""Signatures as AWS's own test suite and botocore make them; keys from the chain, in a process of its own."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import gevent
import pytest
from botocore.auth import SigV4Auth as Theirs
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from app.engine.scope import Cancelled, RunScope
from providers import aws_chain, spec
from providers.aws_auth import Chain, ChainAuth, Keys, SigV4Auth, sign

KEYS = Keys("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
NOW = time.strptime("20150830T123600Z", "%Y%m%dT%H%M%SZ")
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
BEDROCK = "https://bedrock-runtime.eu-west-1.amazonaws.com/model/eu.amazon.nova-pro-v1%3A0/converse-stream"


def signed(
    method: str, url: str, headers: t.Mapping[str, str] = {}, body: bytes = b"", **more: t.Any
) -> spec.HttpRequest:
    """A signed request of the year 2015."""
    request = spec.HttpRequest(method, url, dict(headers), body)
    sign(
        request, more.get("keys", KEYS), more.get("region", "us-east-1"), more.get("service", "service"), NOW
    )
    return request


@pytest.mark.parametrize(
    ("case", "signature"),
    [
        pytest.param(
            ("GET", "https://example.amazonaws.com/"),
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            id="get-vanilla",
        ),
        pytest.param(
            ("GET", "https://example.amazonaws.com/?Param2=value2&Param1=value1"),
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            id="get-vanilla-query-order-key-case",
        ),
        pytest.param(
            ("GET", "https://example.amazonaws.com/ሴ"),
            "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85",
            id="get-utf8",
        ),
        pytest.param(
            ("POST", "https://example.amazonaws.com/"),
            "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
            id="post-vanilla",
        ),
        pytest.param(
            ("POST", "https://example.amazonaws.com/", FORM, b"Param1=value1"),
            "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
            id="post-x-www-form-urlencoded",
        ),
    ],
)
def test_awss_own_suite(case: t.Any, signature: str) -> None:
    sent = signed(*case)
    names = "content-type;host;x-amz-date" if "Content-Type" in sent.headers else "host;x-amz-date"
    assert sent.headers["Authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
        f"SignedHeaders={names}, Signature={signature}"
    )
    assert sent.headers["X-Amz-Date"] == "20150830T123600Z"


@pytest.mark.parametrize("token", ["", "a temporary key's token"])
@pytest.mark.parametrize(
    "url",
    [
        BEDROCK,
        "https://b.amazonaws.com/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fx/converse-stream",
        "http://127.0.0.1:8080/model/m/converse-stream?a=b%20c&a=&Z=%C3%BC",
    ],
)
def test_as_botocore_signs(url: str, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    instant = datetime.datetime(2015, 8, 30, 12, 36, tzinfo=datetime.UTC)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda *_, **__: instant.replace(tzinfo=None))
    headers = {"Content-Type": "application/json"}
    theirs = AWSRequest("POST", url.partition("?")[0], data=b"{}", headers=headers, params=None)
    theirs.url = url
    Theirs(Credentials(KEYS.access, KEYS.secret, token or None), "bedrock", "eu-west-1").add_auth(theirs)
    keys = Keys(KEYS.access, KEYS.secret, token)
    ours = signed("POST", url, headers, b"{}", keys=keys, region="eu-west-1", service="bedrock")
    assert ours.headers["Authorization"] == theirs.headers["Authorization"]


def test_what_is_sent_is_what_was_signed() -> None:
    sent = signed("POST", "https://[::1]:8443/x", {"Accept": "a", "X-Amzn-Thing": "b"})
    assert sent.headers["Host"] == "[::1]:8443"
    assert "SignedHeaders=host;x-amz-date," in sent.headers["Authorization"]
    assert signed("POST", "https://h:443/x").headers["Host"] == "h"


def test_keys_are_trimmed_and_stay_out_of_sight() -> None:
    auth = SigV4Auth("bedrock", lambda: NOW)
    given = {
        "access_key_id": f" {KEYS.access}\n",
        "secret_access_key": f"{KEYS.secret}\r\n",
        "region": "eu-west-1",
    }
    sent = spec.HttpRequest("POST", BEDROCK, {}, b"")
    auth.apply(sent, given)
    assert sent.headers == signed("POST", BEDROCK, region="eu-west-1", service="bedrock").headers
    assert KEYS.secret not in repr(KEYS)
    assert KEYS.secret not in str(sent.headers)


# -- the chain -----------------------------------------------------------------------------------

ASKED = {"region": "eu-west-1", "profile": "work"}
PROGRAM = (
    "import json, os, pathlib; p = pathlib.Path({count!r}); p.write_text(p.read_text() + 'x'); print({said})"
)


def chain(folder: Path, said: str) -> Chain:
    """A chain whose program says ``said`` (Python source) and counts how often it was asked."""
    (folder / "count").write_text("")
    program = PROGRAM.format(count=str(folder / "count"), said=said)
    return Chain(lambda: NOW, (sys.executable, "-c", program))


def test_keys_of_the_chain_are_kept_till_they_end(tmp_path: Path) -> None:
    said = (
        "json.dumps({'AccessKeyId': os.environ['AWS_PROFILE'], 'SecretAccessKey': 's', 'SessionToken': 't',"
        " 'Expiration': '2015-08-30T13:36:00Z'})"
    )
    auth = ChainAuth("bedrock", lambda: NOW, chain(tmp_path, said))
    sent = spec.HttpRequest("POST", BEDROCK, {}, b"")
    for _ in range(2):
        with RunScope() as scope:
            auth.prepare(ASKED, 1.0, scope)
        auth.apply(sent, ASKED)
    keys = Keys("work", "s", "t")
    assert sent.headers == signed("POST", BEDROCK, keys=keys, region="eu-west-1", service="bedrock").headers
    assert (tmp_path / "count").read_text() == "x"
    assert "Signature" not in repr(sent)


@pytest.mark.parametrize(
    ("ends", "lasts"),
    [("'2015-08-30T13:36:00Z'", 3600.0), ("'2015-08-30T12:00:00+00:00'", 0.0), ("None", 900.0)],
)
def test_how_long_keys_last(tmp_path: Path, ends: str, lasts: float) -> None:
    said = f"json.dumps({{'AccessKeyId': 'a', 'SecretAccessKey': 's', 'Expiration': {ends}}})"
    with RunScope() as scope:
        assert chain(tmp_path, said).fetch(ASKED, 1.0, scope).lasts_s == lasts


@pytest.mark.parametrize("said", ["''", "'[1]'", "'{}'", '\'{"AccessKeyId": "a"}\'', "1/0"])
def test_a_chain_without_keys(tmp_path: Path, said: str) -> None:
    with RunScope() as scope, pytest.raises(spec.ProviderError) as caught:
        chain(tmp_path, said).fetch(ASKED, 1.0, scope)
    assert caught.value.code == "provider_auth"


def test_a_program_that_cannot_be_started() -> None:
    with RunScope() as scope, pytest.raises(spec.ProviderError) as caught:
        Chain(command=("/nonexistent/program",)).fetch(ASKED, 1.0, scope)
    assert caught.value.code == "provider_auth"


def test_nothing_is_left_of_a_chain_whose_run_was_cancelled(tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    program = f"import os, pathlib, time; pathlib.Path({str(marker)!r}).write_text(str(os.getpid())); time.sleep(600)"
    slow = Chain(command=(sys.executable, "-c", program))
    scope = RunScope()

    def ask() -> None:
        with scope, pytest.raises(Cancelled):
            slow.fetch(ASKED, 1.0, scope)

    asking = gevent.spawn(ask)
    while not (marker.exists() and marker.read_text()):
        gevent.sleep(0.01)
    scope.cancel("test")
    asking.get(timeout=20)
    assert not Path("/proc", marker.read_text()).exists()


class Session:
    """A botocore session with these credentials."""

    def __init__(self, credentials: t.Any) -> None:
        self._credentials = credentials

    def get_credentials(self) -> t.Any:
        """As botocore's."""
        return self._credentials


def test_what_the_program_says() -> None:
    held = Credentials("a", "s", "t")
    said = {"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "s", "SessionToken": "t"}
    assert aws_chain.find(lambda: Session(held)) == said
    held._expiry_time = datetime.datetime(
        2026, 11, 30, 13, tzinfo=datetime.timezone(datetime.timedelta(hours=1))
    )
    assert aws_chain.find(lambda: Session(held)) == {**said, "Expiration": "2026-11-30T12:00:00Z"}
    assert aws_chain.find(lambda: Session(None)) is None


def test_the_program_asks_botocore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "credentials"
    config.write_text("[work]\naws_access_key_id = fromfile\naws_secret_access_key = hidden\n")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(config))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with RunScope() as scope:
        token = Chain().fetch(ASKED, 1.0, scope)
        assert token.parts == {
            "access_key_id": "fromfile",
            "secret_access_key": "hidden",
            "session_token": "",
        }
        assert token.headers == {}
        assert "fromfile" not in repr(token)
        assert "hidden" not in repr(token)
        with pytest.raises(spec.ProviderError, match="credential chain"):
            Chain().fetch({"profile": "nobody"}, 1.0, scope)


def test_botocore_stays_out_of_this_process() -> None:
    program = "import sys, providers.aws_auth; print(json.dumps([m for m in sys.modules if 'boto' in m]))"
    done = subprocess.run(
        [sys.executable, "-c", f"import json; {program}"], capture_output=True, check=True, timeout=60
    )
    assert json.loads(done.stdout) == []
