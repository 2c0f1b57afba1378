from gevent import monkey; monkey.patch_all()  # noqa: D100, E702, I001  # fmt: skip
"""How gunicorn serves Studio; every number comes from ``app.config``.

Law of this room: line 1 patches. No preload (the hub and the store belong to a worker), no
``max_requests`` (a worker with live streams is not recycled).
"""

import math
import os

from app import config as _config
from app.engine.observe import folder as _folder

_settings = _config.started = _config.load(os.environ)
_host = f"[{_settings.host}]" if ":" in _settings.host else _settings.host

bind = f"{_host}:{_settings.port}"
workers = _settings.workers
worker_class = "app.web.worker.StudioWorker"
# Admission of runs is ours (503 with Retry-After); the margin lets Stop, health and attach always get in.
worker_connections = _settings.max_streams + 200
backlog = 4096
# Seconds a worker may leave its hub without a turn before it is killed; streams have no such limit.
timeout = 60
# Runs are told to stop and get their terminal frames within this time.
graceful_timeout = math.ceil(_settings.graceful_s)
keepalive = 30
preload_app = False
# gunicorn's control socket would be opened under the user's home; nothing of ours uses it.
control_socket_disable = True
max_requests = 0
# Which proxies are believed is said once, in STUDIO_TRUSTED_PROXIES, and looked at in app.web.own_address. By default
# gunicorn would believe the scheme, and take SCRIPT_NAME and PATH_INFO, that any client on this host writes.
forwarded_allow_ips = ""
secure_scheme_headers = {}
forwarder_headers = ""
proc_name = "studio"
accesslog = _settings.access_log or None
errorlog = "-"
loglevel = "warning" if _settings.log_level == "info" else _settings.log_level
logger_class = "app.web.server_log.ServerLog"


# Before a worker imports what counts.
_metrics = _folder.choose(os.environ, _settings.data_dir, _settings.port) if _settings.metrics else None


def on_starting(server):
    """Begin to count at zero."""
    if _metrics is not None:
        _folder.empty(_metrics)


def child_exit(server, worker):
    """A dead worker has nothing open."""
    if _metrics is not None:
        _folder.leave(_metrics, worker.pid)


def on_exit(server):
    """Leave nothing behind."""
    if _metrics is not None:
        _folder.remove(_metrics)


def post_worker_init(worker):
    """Send the program's own log lines where gunicorn's go, without secrets in either."""
    import logging

    from app.redaction import log_lines
    from wsgi import flask_app

    log_lines.install(worker.log.error_log.handlers, flask_app.extensions["studio"].store.secrets.opened)
    for name in ("studio", "opentelemetry"):
        logger = logging.getLogger(name)
        logger.handlers = list(worker.log.error_log.handlers)
        logger.setLevel(_settings.log_level.upper())
        logger.propagate = False
