from gevent import monkey; monkey.patch_all()  # noqa: E702, I001  # fmt: skip
import os

bind = "127.0.0.1:0"
workers = 1
worker_class = "app.web.worker.StudioWorker"
worker_connections = 2200
graceful_timeout = 10
keepalive = 60
accesslog = os.environ.get("TEST_ACCESS_LOG")
control_socket_disable = True
