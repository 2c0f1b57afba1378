"""Studio: agent workflows over HTTP, streamed token by token.

Law of this room: importing ``app`` imports nothing else, so that whoever starts a process can patch
it first; :func:`create_app` imports what it needs, inside.
"""

from __future__ import annotations

import typing as t
from pathlib import Path

if t.TYPE_CHECKING:
    from flask import Flask

    from app.clock import Clock
    from app.config import Settings
    from app.engine.services import Services

__version__ = "0.1.0"

#: The folder that holds ``wsgi.py``; in a checkout ``gunicorn.conf.py`` and ``examples/`` too.
ROOT = Path(__file__).resolve().parent.parent


def check_rooms() -> None:
    """Check that the program's other packages are its own.

    ``app``, ``plugins`` and ``providers`` are common names: a folder of the same name earlier on
    ``sys.path`` (the current directory, most often) would be imported in their place.

    :raises RuntimeError: one resolves elsewhere; the message names the path that shadows it.
    """
    from importlib.util import find_spec

    for name in ("plugins", "providers"):
        spec = find_spec(name)
        places = [Path(p).resolve() for p in (spec.submodule_search_locations or ())] if spec else []
        if ROOT / name not in places:
            found = str(places[0] if places else (spec.origin if spec else "nowhere"))
            raise RuntimeError(
                f"The package '{name}' must be the one in {ROOT}, but Python finds {found}. "
                f"Start Studio from another directory, or take that path off PYTHONPATH."
            )


def create_services(settings: Settings | None = None, *, clock: Clock | None = None) -> Services:
    """Everything a process needs to run workflows: plugins, store, run registry.

    :param settings: None reads the environment.
    :param clock: gives time and ids; tests pass a stepping one.
    :raises app.errors.StudioError: the store is not migrated; the message says how to.
    """
    import os

    from app import builtins, config
    from app.clock import SystemClock
    from app.engine.observe.observer import Observing
    from app.engine.services import Services
    from app.engine.threads import ToolThreads
    from app.store import Store

    settings = settings or config.load(os.environ)
    store = Store(settings, clock)
    store.open()
    store.check_revision()
    return Services(
        settings=settings,
        store=store,
        plugins=builtins.registry(settings, __version__),
        clock=clock or SystemClock(),
        threads=ToolThreads(settings.tool_threads),
        observing=Observing.of(settings, store.secrets.opened, __version__),
    )


def create_app(settings: Settings | None = None, *, clock: Clock | None = None) -> Flask:
    """The WSGI application.

    :param settings: None reads the environment.
    :param clock: gives time and ids; tests pass a stepping one.
    :raises RuntimeError: a package of ours is shadowed (:func:`check_rooms`).
    :raises app.errors.StudioError: the store is not migrated.
    """
    check_rooms()
    from flask import Flask

    from app.web import install

    services = create_services(settings, clock=clock)
    app = Flask(__name__, static_folder=None)
    app.extensions["studio"] = services
    install(app, services)
    return app
