from gevent import monkey; monkey.patch_all()  # noqa: D100, E702, I001  # fmt: skip
"""What gunicorn loads: ``wsgi:application``.

Law of this room: line 1 patches; then the application is made, and the stream writer put around it.
"""

from pathlib import Path

import app as _app

if Path(_app.__file__).resolve().parent.parent != Path(__file__).resolve().parent:
    raise SystemExit(
        f"The package 'app' must be the one in {Path(__file__).resolve().parent}, "
        f"but Python finds {_app.__file__}. "
        "Start Studio from another directory, or take that path off PYTHONPATH."
    )

from app import config, create_app
from app.web import peers
from app.web.direct import StreamMiddleware

try:
    flask_app = create_app(config.started)
except config.ConfigError as error:
    from gunicorn.errors import AppImportError

    raise AppImportError(str(error)) from error  # gunicorn prints it as it is, without a traceback
flask_app.extensions["studio"].runs.open()


def _warm_up() -> None:
    """Import what the first run would and answer one request, so that no client pays for it."""
    from providers import anthropic_messages, http, openai_chat  # noqa: F401

    flask_app.test_client().get("/api/health")


def _listen() -> peers.Listener | None:
    """Where other processes of this host reach the runs of this one."""
    services = flask_app.extensions["studio"]
    return peers.listen(services.settings.data_dir, services.store.owner_id)


application = StreamMiddleware(flask_app, _warm_up, _listen)
