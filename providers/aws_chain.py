"""A program that prints the keys AWS's own credential chain finds: ``python -m providers.aws_chain``.

Law of this room: botocore lives here and nowhere else. Importing it takes a third of a second and 25 MB, and its
chain waits in ways that would stop a whole server; as a process of its own it costs nothing to those who bring their
keys along. What it prints is what a ``credential_process`` prints; its own words of complaint go nowhere.
"""

from __future__ import annotations

import datetime
import importlib
import json
import sys
import typing as t


def find(make_session: t.Callable[[], t.Any]) -> dict[str, t.Any] | None:
    """The keys of the chain as a ``credential_process`` says them; None when there are none.

    :param make_session: makes a botocore session, with the environment's profile.
    """
    credentials = make_session().get_credentials()
    if credentials is None:
        return None
    keys = credentials.get_frozen_credentials()
    # The time is no public member; botocore's own command line reads it all the same.
    ends = getattr(credentials, "_expiry_time", None)
    found = {
        "Version": 1,
        "AccessKeyId": keys.access_key,
        "SecretAccessKey": keys.secret_key,
        "SessionToken": keys.token,
        "Expiration": None if ends is None else ends.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return {name: value for name, value in found.items() if value is not None}


def main() -> int:
    """Print the keys; the exit status says whether there were any."""
    session = importlib.import_module("botocore.session")
    failed: type[Exception] = importlib.import_module("botocore.exceptions").BotoCoreError
    try:
        found = find(session.Session)
    except failed:
        return 1
    if found is None:
        return 1
    sys.stdout.write(json.dumps(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
