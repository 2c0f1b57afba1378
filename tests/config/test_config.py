"""Settings: defaults, every problem at once, unknown names, the page's rows."""

from __future__ import annotations

import dataclasses
import ipaddress
from pathlib import Path

import pytest

from app import config
from app.config.settings import GROUPS


def test_defaults_need_no_environment():
    settings = config.load({})
    assert settings == config.Settings()
    assert (settings.host, settings.port, settings.workers) == ("127.0.0.1", 8000, 1)
    assert settings.database_url == "sqlite:///instance/studio.db"
    assert settings.idle_s is None, "the family's own, usually 60 s"
    assert settings.max_streams == 2000
    assert settings.http_allow == ()
    assert settings.redis_url is None


def test_values_are_read_from_their_variables():
    settings = config.load(
        {
            "PORT": "0",
            "STUDIO_DATA_DIR": "/var/lib/studio",
            "STUDIO_IDLE_S": "0.5",
            "STUDIO_HTTP_ALLOW": "127.0.0.0/8, ::1/128",
            "STUDIO_STREAM_WRITER": "Generator",
            "STUDIO_LOG_LEVEL": " ",
        }
    )
    assert settings.port == 0
    assert settings.database_url == "sqlite:////var/lib/studio/studio.db"
    assert settings.data_dir == Path("/var/lib/studio")
    assert settings.idle_s == 0.5
    assert settings.http_allow == (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
    assert settings.stream_writer == "generator"
    assert settings.log_level == "info"


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_postgresql_addresses_name_their_driver(scheme):
    settings = config.load({"STUDIO_DATABASE_URL": f"{scheme}://u:p@db/studio"})
    assert settings.database_url == "postgresql+psycopg://u:p@db/studio"
    assert "u:p" not in repr(settings)


def test_every_problem_is_reported_at_once_with_its_cure():
    with pytest.raises(config.ConfigError) as caught:
        config.load(
            {
                "PORT": "eighty",
                "STUDIO_WORKERS": "0",
                "STUDIO_IDLE_S": "nan",
                "STUDIO_HTTP_ALLOW": "10.0.0.1/8",
                "STUDIO_STREAM_WRITER": "dircet",
                "STUDIO_DATABASE_URL": "mysql://root:hunter22@db/x",
            }
        )
    problems = {p.variable: p for p in caught.value.problems}
    assert set(problems) == {
        "PORT",
        "STUDIO_WORKERS",
        "STUDIO_IDLE_S",
        "STUDIO_HTTP_ALLOW",
        "STUDIO_STREAM_WRITER",
        "STUDIO_DATABASE_URL",
    }
    assert problems["PORT"] == ("PORT", "eighty", "give a whole number from 0 to 65535")
    assert "did you mean direct?" in problems["STUDIO_STREAM_WRITER"].cure
    text = str(caught.value)
    assert "STUDIO_WORKERS='0'" in text
    assert "postgresql://" in text
    assert "hunter22" not in text, "an address may hold a password"


def test_unknown_names_come_with_the_nearest_known_one():
    environ = {
        "STUDIO_MAX_STREAM": "5",
        "STUDIO_ZZZZZZZZ": "1",
        "STUDIO_WORKERS": "1",
        "STUDIO_API_KEY": "sk-studio-x",
        "STUDIO_URL": "http://localhost",
        "STUDIO_OPENAI_COMPATIBLE_API_BASE": "http://localhost:1",
        "STUDIO_GROK_API_BASE": "http://localhost:1",
        "STUDIO_TEST_SERVERS": "1",
        "HOME": "/root",
    }
    families = ("STUDIO_OPENAI_COMPATIBLE_API_BASE", "STUDIO_GROQ_API_BASE", "STUDIO_GROQ_API_KEY")
    assert config.unknown_names(environ, families) == [
        ("STUDIO_GROK_API_BASE", "STUDIO_GROQ_API_BASE"),
        ("STUDIO_MAX_STREAM", "STUDIO_MAX_STREAMS"),
        ("STUDIO_ZZZZZZZZ", None),
    ]


def test_every_setting_is_described():
    rows = config.describe()
    assert sorted(row.field for row in rows) == sorted(f.name for f in dataclasses.fields(config.Settings))
    assert len({row.group for row in rows}) == len(GROUPS)
    assert len({row.variable for row in rows}) == len(rows)
    for row in rows:
        assert row.variable == "PORT" or row.variable.startswith("STUDIO_")
        assert row.doc.endswith(".")
        assert row.kind
        assert row.default or row.field == "access_log"
    by_name = {row.field: row for row in rows}
    assert by_name["idle_s"].default == "60, or the family's own"
    assert by_name["database_url"].default == "SQLite file studio.db under STUDIO_DATA_DIR"


@pytest.mark.parametrize(
    ("text", "rates"),
    [
        ("60/minute, 2000/day", ((60, "minute"), (2000, "day"))),
        ("5/DAY,1/hour , 2 / minute", ((2, "minute"), (1, "hour"), (5, "day"))),
        ("off", ()),
        (" OFF ", ()),
    ],
)
def test_rates_come_shortest_window_first(text, rates):
    assert config.load({"STUDIO_RATE_LIMIT_KEY": text}).rate_limit_key == rates


@pytest.mark.parametrize(
    "text", ["60", "60/second", "0/minute", "-1/day", "1/minute 2/day", "1/day, 2/day", "on"]
)
def test_rates_that_are_none_are_named_with_the_cure(text):
    with pytest.raises(config.ConfigError) as failed:
        config.load({"STUDIO_RATE_LIMIT_KEY": text})
    (problem,) = failed.value.problems
    assert problem.variable == "STUDIO_RATE_LIMIT_KEY"
    assert "off" in problem.cure or "leave one out" in problem.cure


def test_where_limits_are_counted_has_to_fit_the_rest():
    memory = {"STUDIO_RATE_LIMIT_STORAGE": "memory"}
    assert config.load(memory).rate_limit_storage == "memory"
    for environ, cure in (
        ({**memory, "STUDIO_WORKERS": "2"}, "give auto, database or redis"),
        ({"STUDIO_RATE_LIMIT_STORAGE": "redis"}, "set STUDIO_REDIS_URL"),
    ):
        with pytest.raises(config.ConfigError) as failed:
            config.load(environ)
        (problem,) = failed.value.problems
        assert problem.variable == "STUDIO_RATE_LIMIT_STORAGE"
        assert cure in problem.cure
    redis = {"STUDIO_RATE_LIMIT_STORAGE": "redis", "STUDIO_REDIS_URL": "redis://127.0.0.1"}
    assert config.load({**redis, "STUDIO_WORKERS": "4"}).workers == 4


@pytest.mark.parametrize("text", ["studio@example.org", "Studio <studio@example.org>", '"A, B" <a@b>'])
def test_the_sender_of_mails_is_an_address(text):
    assert config.load({"STUDIO_SMTP_FROM": text}).smtp_from == text


@pytest.mark.parametrize("text", ["studio", "@example.org", "Studio <studio>", "a@b\nBcc: c@d", "studio@"])
def test_what_is_no_sender_is_refused(text):
    with pytest.raises(config.ConfigError, match="STUDIO_SMTP_FROM"):
        config.load({"STUDIO_SMTP_FROM": text})
