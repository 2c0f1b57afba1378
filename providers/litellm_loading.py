"""Imports litellm, once a process, without stopping it.

Law of this room: the import takes seconds and is done in a thread of the operating system's, while everybody else
goes on; whoever needs the library waits cooperatively. What it would do beside calling a vendor (fetch a price map,
log, count, call back) is switched off before anybody gets it.
"""

from __future__ import annotations

import atexit
import importlib
import logging
import os
import typing as t
import warnings
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from gevent import get_hub, monkey
from gevent.event import Event

from providers.errors import failure
from providers.spec import Waits

#: The model map as installed, no news, no look-ups of its own: an import asks nobody.
_ENVIRON = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_OFFLINE_MODE": "true"}
#: Its loggers, and that of its HTTP client, write prompts and addresses with keys in them.
_LOGGERS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "httpx")

_HELLO = {"role": "user", "content": "hello"}

_start_thread = monkey.get_original("_thread", "start_new_thread")


class _Loading:
    """One import that several calls may wait for."""

    def __init__(self) -> None:
        self.done = Event()
        self.module: t.Any = None
        self.error: BaseException | None = None

    def start(self) -> None:
        """Begin in a thread of its own, and be told by the hub of whoever asked first."""
        watcher = get_hub().loop.async_()

        def finished() -> None:
            watcher.stop()
            watcher.close()
            self.done.set()

        # Active while it runs: else gevent sees a loop without watchers and calls the wait hopeless.
        watcher.start(finished)
        _start_thread(self._run, (watcher,))

    def _run(self, watcher: t.Any) -> None:
        try:
            self.module = _import()
        except BaseException as error:
            self.error = error
        finally:
            watcher.send()


_loading: _Loading | None = None


def load(waits: Waits) -> t.Any:
    """The module ``litellm``, imported when first asked for; later calls return at once.

    :raises ProviderError: ``provider_unavailable`` when it cannot be imported; the next call tries again.
    """
    global _loading
    if _loading is None:
        _loading = _Loading()
        _loading.start()
    loading = _loading
    if not loading.done.is_set():
        with waits.wait():
            loading.done.wait()
    if loading.error is not None:
        if _loading is loading:
            _loading = None
        raise failure(
            "provider_unavailable",
            message="litellm cannot be imported, so this model cannot be called. Install it again.",
            detail=f"{type(loading.error).__name__}: {loading.error}",
        ) from loading.error
    return loading.module


def _import() -> t.Any:
    for name, value in _ENVIRON.items():
        os.environ.setdefault(name, value)
    with warnings.catch_warnings(), _no_farewell():
        warnings.simplefilter("ignore")
        litellm = importlib.import_module("litellm")
        _silence(litellm)
        # What the first call would import and prepare, half a second's worth, is done here as well.
        for _ in litellm.completion(model="openai/none", messages=[_HELLO], stream=True, mock_response="ok"):
            pass
    # Its types of a vendor are made when that vendor is first called, each with a note on how pydantic reads them.
    warnings.filterwarnings("ignore", r"Items? .* on TypedDict class", UserWarning)
    return litellm


@contextmanager
def _no_farewell() -> Iterator[None]:
    """What litellm would do when the process ends runs an event loop, which a process like ours must not."""
    module: t.Any = atexit
    register = module.register

    def pick(function: t.Any, *args: t.Any, **kwargs: t.Any) -> t.Any:
        if str(getattr(function, "__module__", "")).startswith("litellm"):
            return function
        return register(function, *args, **kwargs)

    module.register = pick
    try:
        yield
    finally:
        module.register = register


def _silence(litellm: t.Any) -> None:
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    litellm.suppress_debug_info = True
    litellm.disable_streaming_logging = True
    litellm.turn_off_message_logging = True
    litellm.num_retries = 0
    # Every chunk and every end is handed to a pool of threads that runs an event loop to log it: to nobody here.
    pool = importlib.import_module("litellm.litellm_core_utils.thread_pool_executor").executor
    pool.submit = _discard
    # Monitoring of its own parts, which runs an event loop at every call.
    service = importlib.import_module("litellm._service_logger").ServiceLogging
    service._dispatch_from_sync = staticmethod(_discard)
    litellm._async_client_cleanup_registered = True
    # The body of an error, which a pool of threads reads, and loses when its greenlets are late: read where we wait.
    client = importlib.import_module("litellm.llms.custom_httpx.http_handler")
    client._STREAMING_ERROR_BODY_READ_EXECUTOR.submit = _here


def _discard(*_args: t.Any, **_kwargs: t.Any) -> Future[None]:
    done: Future[None] = Future()
    done.set_result(None)
    return done


def _here(function: t.Callable[..., t.Any], *args: t.Any, **kwargs: t.Any) -> Future[t.Any]:
    done: Future[t.Any] = Future()
    try:
        done.set_result(function(*args, **kwargs))
    except Exception as error:
        done.set_exception(error)
    return done
