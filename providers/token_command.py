"""Tokens that a command prints, for logins that only the vendor's own tool knows.

Law of this room: the command runs without a shell, in bounded time, and is ended with whoever waits for it. Its
output is a token and goes nowhere else; what it complains about is not read.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

import orjson

from providers import errors
from providers.command_output import MAX_OUTPUT, command_output
from providers.oauth import UNSTATED_S, Credentials, Token
from providers.spec import ProviderError, Waits

#: Seconds a command may take.
COMMAND_S = 30.0
_NAMES = ("access_token", "accessToken", "token")


@dataclass(frozen=True, slots=True)
class TokenCommand:
    """Runs ``credentials[name]``, e.g. ``gcloud auth print-access-token``.

    Its standard output is the token, or a JSON object with ``access_token`` (also ``accessToken``, ``token``) and
    perhaps ``expires_in``. A token that does not say how long it lasts is asked for again after a few minutes.
    """

    name: str = "token_command"

    def key(self, credentials: Credentials) -> tuple[str, ...]:
        """See ``oauth.TokenSource``."""
        return (credentials.get(self.name, ""),)

    def fetch(self, credentials: Credentials, connect_s: float, waits: Waits) -> Token:
        """See ``oauth.TokenSource``."""
        try:
            words = shlex.split(credentials.get(self.name, ""))
            output, status = command_output(words, waits, COMMAND_S)
        except TimeoutError:
            raise _failed(f"gave no token within {COMMAND_S:g} s") from None
        except (OSError, ValueError, IndexError) as error:
            raise _failed("cannot be started", type(error).__name__) from None
        if status:
            raise _failed("failed", f"exit status {status}")
        return _token(output)


def _token(output: bytes) -> Token:
    if len(output) >= MAX_OUTPUT:
        raise _failed("printed no token")
    text = output.decode("utf-8", "replace").strip()
    lasts = UNSTATED_S
    if text.startswith("{"):
        try:
            document = orjson.loads(text)
        except ValueError:
            document = {}
        text = next((str(document[name]) for name in _NAMES if document.get(name)), "")
        stated = document.get("expires_in")
        if isinstance(stated, (int, float)) and not isinstance(stated, bool):
            lasts = max(0.0, float(stated))
    if not text or not text.isprintable() or " " in text:
        raise _failed("printed no token")
    return Token(text, lasts)


def _failed(what: str, detail: str = "") -> ProviderError:
    message = f"The token command {what}. Run it as the server's user to see why."
    return errors.failure("provider_auth", message=message, detail=detail)
